"""Decode the kubelet's CredentialProviderConfig (1.1-1.11), and validate it as the kubelet does (1.20-1.34).

Pure. Problems are returned and not raised, so that no traceback refers to the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kubeauth._parsing import DocumentError, Json, read_json, read_yaml
from kubeauth._parsing.models import MAX_PROBLEMS, Invalid, Origin, describe_type, validate_document
from kubeauth.errors import Problem
from kubeauth.registry._match import caution, why_invalid, why_never
from kubeauth.registry._wire import PROVIDER_V1, PROVIDER_VERSIONS
from kubeauth.schemas._credential_provider import (
    CONFIG_KIND,
    CONFIG_VERSIONS,
    CredentialProvider,
    CredentialProviderConfig,
    PatternWarning,
    TokenAttributes,
)

CACHE_TYPES = ("ServiceAccount", "Token")

MAX_CONFIG = 2**20
_ONE_OF_TWO = "Remove one of the two."
_BEGINS = f"Such a file begins with: apiVersion: {CONFIG_VERSIONS[0]}, kind: {CONFIG_KIND}"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9_.]*[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def decode(data: bytes, path: str = "") -> CredentialProviderConfig | list[Problem]:
    """Decode one file, or return all its problems (1.1-1.11)."""
    if len(data) > MAX_CONFIG:
        return [Problem(f"larger than {MAX_CONFIG // 2**20} MiB", path)]
    repeated: list[str] = []
    try:
        if data.lstrip()[:1] == b"{":
            document = read_json(data, repeated=repeated)
        else:
            # The kubelet reads the first of several documents, and says nothing of the others.
            document = read_yaml(data, whole=True, repeated=repeated)
    except DocumentError as error:
        return [Problem(str(error), path, hint=_BEGINS)]
    if not isinstance(document, dict):
        kind = "nothing" if document is None else describe_type(document)
        return [Problem(f"a {CONFIG_KIND} must be a mapping, not {kind}", path, hint=_BEGINS)]
    if problem := _of_another_kind(document, path):
        return [problem]
    result = validate_document(
        CredentialProviderConfig, document, origin=path, strict=True, context=Origin(path)
    )
    duplicates = [
        Problem(f'key "{key}" already set in map', path, hint=_ONE_OF_TWO) for key in repeated[:MAX_PROBLEMS]
    ]
    if isinstance(result, Invalid):
        return [*duplicates, *result.type_problems, *result.value_problems]
    return duplicates or result


def _of_another_kind(document: dict[str, Json], path: str) -> Problem | None:
    for name, wanted in (("kind", (CONFIG_KIND,)), ("apiVersion", CONFIG_VERSIONS)):
        value = document.get(name)
        if not value:
            return Problem(f"Object '{name}' is missing", path, name, _BEGINS)
        if value not in wanted:
            return Problem(f"not a {CONFIG_KIND}: {name} must be {' or '.join(wanted)}", path, name, _BEGINS)
    return None


def _repeated_names(providers: Iterable[CredentialProvider]) -> list[Problem]:
    """Providers of one name, in one file or in several: there can be one program of a name (1.17)."""
    seen: dict[str, CredentialProvider] = {}
    problems = []
    for provider in providers:
        first = seen.setdefault(provider.name, provider)
        if first is not provider:
            also = f": also in {first.path}" if first.path != provider.path else ""
            message = f'duplicate provider name "{provider.name}" found in configuration file(s){also}'
            hint = f"{_ONE_OF_TWO} The same program can be had twice by a link with another name."
            problems.append(Problem(message, provider.path, _place(provider, "name"), hint))
    return problems


def validate(providers: Sequence[CredentialProvider]) -> list[Problem]:
    """Everything that the kubelet would refuse, in its words (1.20-1.34)."""
    if not providers:
        message = "providers: Required value: at least 1 item in plugins is required"
        return [Problem(message, field="providers", hint="Without a provider there is nothing to do.")]
    problems = _repeated_names(providers)
    for provider in providers:
        problems += (
            Problem(f"providers.{field}: {message}", provider.path, _place(provider, field), hint)
            for field, message, hint in _faults(provider)
        )
    return problems


def _place(provider: CredentialProvider, field: str) -> str:
    return f'providers["{provider.name}"].{field}'


# Field, what is wrong in the kubelet's words, and what to do.
_Fault = tuple[str, str, str]


def _faults(provider: CredentialProvider) -> Iterator[_Fault]:
    yield from _name_faults(provider.name)
    if not provider.api_version:
        yield "apiVersion", "Required value", f"Most providers of today speak {PROVIDER_V1}."
    elif provider.api_version not in PROVIDER_VERSIONS:
        yield "apiVersion", _unsupported(provider.api_version, PROVIDER_VERSIONS), "It is the provider's own."
    if not provider.match_images:
        hint = "Write the registries it is for: *.dkr.ecr.*.amazonaws.com"
        yield "matchImages", "Required value: at least 1 item in matchImages is required", hint
    for pattern in provider.match_images:
        if why := why_invalid(pattern):
            yield "matchImages", f'Invalid value: "{pattern}": match image is invalid: {why}', ""
    duration = provider.default_cache_duration
    if duration is None:
        yield "defaultCacheDuration", "Required value", "It is used where a provider names none: 12h, or 0s."
    elif duration < 0:
        yield "defaultCacheDuration", "Invalid value: must be greater than or equal to 0", "0s keeps nothing."
    if provider.token_attributes is not None:
        for name, message, hint in _token_faults(provider, provider.token_attributes):
            yield f"tokenAttributes{name and f'.{name}'}", message, hint


def _name_faults(name: str) -> Iterator[_Fault]:
    hint = "It is the name of a program in the directory of providers."
    if "/" in name:
        yield "name", f"Invalid value: \"{name}\": provider name cannot contain '/'", hint
    if " " in name:
        yield "name", f'Invalid value: "{name}": provider name cannot contain spaces', hint
    if name in (".", ".."):
        yield "name", f"Invalid value: \"{name}\": provider name cannot be '{name}'", hint


def _unsupported(value: str, supported: Iterable[str]) -> str:
    listed = ", ".join(f'"{each}"' for each in sorted(supported))
    return f'Unsupported value: "{value}": supported values: {listed}'


def _token_faults(provider: CredentialProvider, given: TokenAttributes) -> Iterator[_Fault]:
    if not given.audience:
        yield "serviceAccountTokenAudience", "Required value", "For whom tokens are issued."
    if given.require_service_account is None:
        yield "requireServiceAccount", "Required value", "true or false."
    if provider.api_version != PROVIDER_V1:
        message = f"Forbidden: tokenAttributes is only supported for {PROVIDER_V1} API version"
        yield "", message, "Set the provider's apiVersion, if it speaks that one."
    required, optional = "requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"
    if given.require_service_account is False and given.required_annotations:
        message = "Forbidden: requireServiceAccount cannot be false when " + required + " is set"
        yield required, message, f"Move them to {optional}, or require a service account."
    yield from _key_faults(required, given.required_annotations)
    yield from _key_faults(optional, given.optional_annotations)
    if both := sorted(set(given.required_annotations) & set(given.optional_annotations)):
        listed = ", ".join(both)
        yield "", f"Invalid value: annotation keys cannot be both required and optional: {listed}", ""
    if not given.cache_type:
        yield "cacheType", "Required value", "ServiceAccount or Token. The kubelet wants it since 1.34."
    elif given.cache_type not in CACHE_TYPES:
        yield "cacheType", _unsupported(given.cache_type, CACHE_TYPES), ""


def _key_faults(name: str, keys: Sequence[str]) -> Iterator[_Fault]:
    seen: set[str] = set()
    for key in keys:
        if why := _bad_qualified_name(key.lower()):
            yield name, f'Invalid value: "{key}": {why}', ""
        if key in seen:
            yield name, f'Duplicate value: "{key}"', _ONE_OF_TWO
        seen.add(key)


def _bad_qualified_name(key: str) -> str:
    """Why it cannot be the key of an annotation (1.32), or nothing."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return "a qualified name has one slash at most"
    for prefix in prefixes:
        if not prefix or len(prefix) > 253 or not all(map(_LABEL.fullmatch, prefix.split("."))):
            return "what stands before the slash must be a DNS name of at most 253 characters"
    if not 1 <= len(name) <= 63 or not _NAME.fullmatch(name):
        return (
            "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins and ends with one of the first"
        )
    return ""


def warnings(providers: Iterable[CredentialProvider]) -> Iterator[PatternWarning]:
    """What the kubelet is silent about, and costs people days (2.10)."""
    for provider in providers:
        for pattern in provider.match_images:
            if (why := why_never(pattern)) is not None:
                yield PatternWarning(provider.name, pattern, why, True, provider.path)
            elif (why := caution(pattern)) is not None:
                yield PatternWarning(provider.name, pattern, why, False, provider.path)
