"""CredentialProviderRequest and CredentialProviderResponse, of both sides (3.1-3.2, 3.10-3.15). Pure.

Providers that are written with `kubeauth.registry.plugin` import this module, too, so pydantic is imported
only to read a response. Problems are returned and not raised, so that no traceback refers to a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubeauth._parsing import DocumentError, InvalidField, Json, describe_type, read_field, read_json
from kubeauth._parsing.go import format_duration, go_json
from kubeauth._secret import Secret
from kubeauth.errors import Problem

if TYPE_CHECKING:
    from kubeauth.schemas._credential_provider import CredentialProviderResponse

GROUP = "credentialprovider.kubelet.k8s.io"
PROVIDER_V1 = f"{GROUP}/v1"
PROVIDER_VERSIONS = (PROVIDER_V1, f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1")
REQUEST = "CredentialProviderRequest"
RESPONSE = "CredentialProviderResponse"
CACHE_KEY_TYPES = ("Image", "Registry", "Global")


@dataclass(frozen=True, slots=True)
class Request:
    """What the kubelet asks a provider. Printing it hides the token."""

    image: str
    """Without tag and digest: `docker.io/library/nginx`."""
    api_version: str = PROVIDER_V1
    """The version that the answer must have."""
    token: Secret[str] | None = None
    """Of the pod's service account, if the provider is configured to have one."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the service account: those that the configuration names."""

    @property
    def registry(self) -> str:
        """Where the image is, with the port if it names one: `docker.io`."""
        return self.image.partition("/")[0]


@dataclass(frozen=True, slots=True)
class BadResponse:
    """Why an answer cannot be used. Holds nothing of it but words of the protocol."""

    reason: str
    advice: str
    is_echo: bool = False
    """Whether the token of the service account came back as a password."""


def write_request(request: Request) -> bytes:
    """The line on a provider's stdin, byte for byte as the kubelet writes it (3.1)."""
    document: dict[str, Json] = {
        "kind": REQUEST,
        "apiVersion": request.api_version,
        "image": request.image,
    }
    # Older versions have no such fields, and an empty one is left out (3.2).
    if request.api_version == PROVIDER_V1:
        if request.token:
            document["serviceAccountToken"] = request.token.reveal()
        if request.annotations:
            document["serviceAccountAnnotations"] = dict(sorted(request.annotations.items()))
    return _line(document)


def read_request(data: bytes) -> Request | str:
    """Decode a request, or return why it is invalid. Fields that a later kubelet adds are ignored."""
    document = _read_mapping(data)
    if isinstance(document, str):
        return document
    version = document.get("apiVersion")
    if document.get("kind") != REQUEST or version not in PROVIDER_VERSIONS:
        return f"kind must be {REQUEST}, and apiVersion {' or '.join(PROVIDER_VERSIONS)}"
    try:
        image = read_field(document, "", "image", str)
        token = read_field(document, "", "serviceAccountToken", str)
        annotations = read_field(document, "", "serviceAccountAnnotations", dict) or {}
        found = {
            name: read_field(annotations, "serviceAccountAnnotations.", name, str) or ""
            for name in annotations
        }
    except InvalidField as error:
        return str(error)
    return Request(image, version, Secret(token) if token else None, found) if image else "image is missing"


def write_response(
    auth: Mapping[str, tuple[str, Secret[str]]],
    cache_key_type: str,
    cache_duration: float | None,
    api_version: str,
) -> bytes:
    """Return the line that a provider prints.

    `auth` are user names and passwords by image pattern. A duration of None is not printed.
    """
    duration = {} if cache_duration is None else {"cacheDuration": format_duration(cache_duration)}
    entries = {
        key: {"username": username, "password": password.reveal()}
        for key, (username, password) in auth.items()
    }
    head = {"kind": RESPONSE, "apiVersion": api_version, "cacheKeyType": cache_key_type}
    return _line({**head, **duration, "auth": entries})


_REFUSED = "The kubelet refuses that, too."
_NOTHING_ELSE = f"A provider must print one {RESPONSE} in JSON, and nothing else, on its standard output."

_ECHO = BadResponse(
    "it gave back the service account's token as a password",
    "It would be shared by all pods of that service account. Set cacheType in tokenAttributes to Token, if "
    "the registry takes such tokens.",
    is_echo=True,
)


def read_response(
    data: bytes, api_version: str, *, forbidden: Secret[str] | None = None
) -> CredentialProviderResponse | BadResponse:
    """Decode a provider's output as strictly as the kubelet, or return why it is invalid (3.10-3.16).

    `forbidden` is a token that must not be one of the passwords (4.17).
    """
    from kubeauth._parsing.models import Invalid, validate_document
    from kubeauth.schemas._credential_provider import CredentialProviderResponse

    repeated: list[str] = []
    document = _read_mapping(data, repeated)
    if isinstance(document, str):
        return BadResponse(document, _NOTHING_ELSE)
    if bad := _of_another_kind(document, api_version):
        return bad
    if repeated:
        return BadResponse("a field, or a key of auth, is in it twice", _REFUSED)
    response = validate_document(CredentialProviderResponse, document, strict=True)
    if isinstance(response, Invalid):
        return BadResponse(_describe(response.problems[0]), _REFUSED)
    if forbidden and any(entry.password == forbidden for entry in response.auth.values()):
        return _ECHO
    if response.cache_key_type not in CACHE_KEY_TYPES:
        return BadResponse(
            f"cacheKeyType must be {', '.join(CACHE_KEY_TYPES[:-1])} or {CACHE_KEY_TYPES[-1]}",
            "It says which images the credentials are kept for, and the kubelet uses none without it.",
        )
    return response


def _of_another_kind(document: dict[str, Json], api_version: str) -> BadResponse | None:
    version = document.get("apiVersion")
    if version != api_version:
        known = version in PROVIDER_VERSIONS
        said = version if known else "another" if version else "none"
        return BadResponse(
            "apiVersion from credential plugin response did not match expected "
            f"apiVersion:{api_version}, actual apiVersion:{said}",
            f"Set the provider's apiVersion in the configuration to {said}." if known else _NOTHING_ELSE,
        )
    if document.get("kind") != RESPONSE:
        return BadResponse(f"kind must be {RESPONSE}", _NOTHING_ELSE)
    return None


# What stands in docker configs, and in answers by mistake.
_WORDS = ("kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth", "username", "password",
          "email", "identitytoken", "registrytoken", "serveraddress")  # fmt: skip
_SHOWN = frozenset(word.lower() for word in _WORDS)


def _describe(problem: Problem) -> str:
    """Return place and message, without names that are not of the protocol: they are untrusted."""
    place = problem.field or ""
    name = place.rpartition(".")[2]
    shown = [name] if name.lower() in _SHOWN else []
    where = ["auth[...]", *shown] if place.startswith("auth.") else shown
    return ": ".join([*filter(None, [".".join(where)]), problem.message])


def _read_mapping(data: bytes, repeated: list[str] | None = None) -> dict[str, Json] | str:
    if not data.strip():
        return "it is empty"
    try:
        document = read_json(data, repeated=repeated)
    except DocumentError as error:
        return str(error)
    if isinstance(document, dict):
        return document
    return f"it must be a mapping, not {'null' if document is None else describe_type(document)}"


def _line(document: dict[str, Json]) -> bytes:
    # What no text can hold, a half of a surrogate pair, becomes a question mark.
    return go_json(document).encode("utf-8", "replace") + b"\n"
