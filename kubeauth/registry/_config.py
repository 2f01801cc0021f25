"""CredentialProviderConfig, the kubelet's: from a document to `Provider`s, or everything wrong with it. Pure.

The only place that knows the wire names (1.1-1.11) and what is refused (1.20-1.34). Nothing here raises for
what a document says: problems are returned, so that no traceback holds what stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kubeauth._parsing import (
    MAX_PROBLEMS,
    DocumentError,
    Fields,
    Findings,
    Json,
    describe_type,
    read_json,
    read_yaml,
)
from kubeauth.errors import Problem
from kubeauth.registry._match import caution, why_invalid, why_never
from kubeauth.registry._wire import PROVIDER_V1, PROVIDER_VERSIONS, read_duration

GROUP = "kubelet.config.k8s.io"
KIND = "CredentialProviderConfig"
V1 = f"{GROUP}/v1"
CONFIG_VERSIONS = (V1, f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1")
CACHE_TYPES = ("ServiceAccount", "Token")

MAX_CONFIG = 2**20
_ONE_OF_TWO = "Remove one of the two."
_BEGINS = f"Such a file begins with: apiVersion: {V1}, kind: {KIND}"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9_.]*[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class TokenAttributes:
    """How a provider is given the token of a pod's service account."""

    audience: str = ""
    cache_type: str = ""
    """`ServiceAccount`: pods of one service account share credentials. `Token`: of one token."""
    require_service_account: bool | None = None
    required_annotations: tuple[str, ...] = ()
    optional_annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of the configuration."""

    name: str
    """The name of its program, too."""
    match_images: tuple[str, ...]
    default_cache_duration: float | None
    """Seconds. None only in what was refused."""
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    token_attributes: TokenAttributes | None = None
    path: str = ""
    """The file it stands in."""


def decode(data: bytes, path: str = "") -> tuple[Provider, ...] | list[Problem]:
    """What one file says, or all that is wrong with its form (1.1-1.11)."""
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
        return [Problem(f"a {KIND} must be a mapping, not {kind}", path, hint=_BEGINS)]
    if problem := _of_another_kind(document, path):
        return [problem]
    findings = Findings(path, strict=True)
    providers = tuple(_providers(findings.root(document), path))
    findings.report_unknown_fields()
    twice = [
        Problem(f'key "{key}" already set in map', path, hint=_ONE_OF_TWO) for key in repeated[:MAX_PROBLEMS]
    ]
    return [*twice, *findings.schema_problems, *findings.value_problems] or providers


def _of_another_kind(document: dict[str, Json], path: str) -> Problem | None:
    for name, wanted in (("kind", (KIND,)), ("apiVersion", CONFIG_VERSIONS)):
        value = document.get(name)
        if not value:
            return Problem(f"Object '{name}' is missing", path, name, _BEGINS)
        if value not in wanted:
            return Problem(f"not a {KIND}: {name} must be {' or '.join(wanted)}", path, name, _BEGINS)
    return None


def _providers(fields: Fields, path: str) -> Iterator[Provider]:
    fields.string("kind")
    version = fields.string("apiVersion")
    for entry in fields.each("providers"):
        yield Provider(
            name=entry.string("name"),
            match_images=entry.strings("matchImages"),
            default_cache_duration=read_duration(entry, "defaultCacheDuration"),
            api_version=entry.string("apiVersion"),
            args=entry.strings("args"),
            env=tuple((item.string("name"), item.string("value")) for item in entry.each("env")),
            # In older versions there is no such field (1.4).
            token_attributes=_token_attributes(entry.within("tokenAttributes")) if version == V1 else None,
            path=path,
        )


def _token_attributes(fields: Fields) -> TokenAttributes | None:
    if not fields.is_present:
        return None
    required = fields.boolean("requireServiceAccount")
    return TokenAttributes(
        audience=fields.string("serviceAccountTokenAudience"),
        cache_type=fields.string("cacheType"),
        # Absent is not false (1.5).
        require_service_account=None if fields.raw("requireServiceAccount") is None else required,
        required_annotations=fields.strings("requiredServiceAccountAnnotationKeys"),
        optional_annotations=fields.strings("optionalServiceAccountAnnotationKeys"),
    )


def _repeated_names(providers: Iterable[Provider]) -> list[Problem]:
    """Providers of one name, in one file or in several: there can be one program of a name (1.17)."""
    seen: dict[str, Provider] = {}
    problems = []
    for provider in providers:
        first = seen.setdefault(provider.name, provider)
        if first is not provider:
            also = f": also in {first.path}" if first.path != provider.path else ""
            message = f'duplicate provider name "{provider.name}" found in configuration file(s){also}'
            hint = f"{_ONE_OF_TWO} The same program can be had twice by a link with another name."
            problems.append(Problem(message, provider.path, _place(provider, "name"), hint))
    return problems


def validate(providers: Sequence[Provider]) -> list[Problem]:
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


def _place(provider: Provider, field: str) -> str:
    return f'providers["{provider.name}"].{field}'


# Field, what is wrong in the kubelet's words, and what to do.
_Fault = tuple[str, str, str]


def _faults(provider: Provider) -> Iterator[_Fault]:
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


def _token_faults(provider: Provider, given: TokenAttributes) -> Iterator[_Fault]:
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


@dataclass(frozen=True, slots=True)
class PatternWarning:
    """A pattern that is accepted, and does not do what it looks like."""

    provider: str
    pattern: str
    message: str
    is_useless: bool
    """Whether it can never match."""
    path: str = ""

    def __str__(self) -> str:
        never = "can never match an image" if self.is_useless else "may surprise"
        return f"provider {self.provider!r}: matchImages {self.pattern!r} {never}: {self.message}"


def warnings(providers: Iterable[Provider]) -> Iterator[PatternWarning]:
    """What the kubelet is silent about, and costs people days (2.10)."""
    for provider in providers:
        for pattern in provider.match_images:
            if (why := why_never(pattern)) is not None:
                yield PatternWarning(provider.name, pattern, why, True, provider.path)
            elif (why := caution(pattern)) is not None:
                yield PatternWarning(provider.name, pattern, why, False, provider.path)
