"""CredentialProviderRequest and -Response: what a provider is asked, and what it answers. Pure.

Here the names on the wire are known, for both ends (3.1-3.2, 3.10-3.15). Nothing raises for what the other
end says: problems are returned, so that no traceback holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeauth._parsing import DocumentError, Fields, Findings, Json, describe_type, read_json
from kubeauth._parsing.go import format_duration, go_json, parse_duration
from kubeauth._secret import Secret
from kubeauth.errors import Problem

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
class Response:
    """What a provider answers. Printing it hides user names and passwords."""

    auth: Mapping[str, tuple[str, Secret[str]]] = field(repr=False)
    """By what it is for (`gcr.io`, `*.azurecr.io/path`): user name and password, in the provider's order."""
    cache_key_type: str
    cache_duration: float | None
    """Seconds. None: as the configuration says; 0: not kept."""


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
    """What a provider is asked, or why that cannot be understood. What a later kubelet adds is ignored."""
    document = _mapping(data)
    if isinstance(document, str):
        return document
    version = document.get("apiVersion")
    if document.get("kind") != REQUEST or version not in PROVIDER_VERSIONS:
        return f"kind must be {REQUEST}, and apiVersion {' or '.join(PROVIDER_VERSIONS)}"
    findings = Findings()
    fields = findings.root(document)
    token = fields.string("serviceAccountToken")
    annotations = fields.within("serviceAccountAnnotations")
    request = Request(
        image=fields.string("image"),
        api_version=version,
        token=Secret(token) if token else None,
        annotations={name: annotations.string(name) for name in annotations.names()},
    )
    for problem in findings.schema_problems:
        return f"{problem.field}: {problem.message}"
    return request if request.image else "image is missing"


def write_response(response: Response, api_version: str) -> bytes:
    """The line on a provider's stdout."""
    auth = {
        key: {"username": username, "password": password.reveal()}
        for key, (username, password) in response.auth.items()
    }
    duration = response.cache_duration
    given: dict[str, Json] = {} if duration is None else {"cacheDuration": format_duration(duration)}
    return _line(
        {
            "kind": RESPONSE,
            "apiVersion": api_version,
            "cacheKeyType": response.cache_key_type,
            **given,
            "auth": auth,
        }
    )


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
) -> Response | BadResponse:
    """The credentials in a provider's output, read as strictly as the kubelet does (3.10-3.16).

    `forbidden` is a token that must not be one of the passwords (4.17).
    """
    repeated: list[str] = []
    document = _mapping(data, repeated)
    if isinstance(document, str):
        return BadResponse(document, _NOTHING_ELSE)
    if bad := _of_another_kind(document, api_version):
        return bad
    findings = Findings(strict=True)
    response = _response(findings.root(document))
    findings.report_unknown_fields()
    if repeated:
        return BadResponse("a field, or a key of auth, is in it twice", _REFUSED)
    for problem in (*findings.schema_problems, *findings.value_problems):
        return BadResponse(_told(problem), _REFUSED)
    if forbidden and any(password == forbidden for _, password in response.auth.values()):
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


def _response(fields: Fields) -> Response:
    for name in ("kind", "apiVersion"):
        fields.string(name)
    auth = fields.within("auth")
    entries = {}
    for key in auth.names():
        entry = auth.within(key)
        entries[key] = entry.string("username"), Secret(entry.string("password"))
    return Response(entries, fields.string("cacheKeyType"), read_duration(fields, "cacheDuration"))


def read_duration(fields: Fields, name: str) -> float | None:
    """Seconds in a Go duration; None if there is none, or it is refused."""
    text = fields.string(name)
    if not isinstance(fields.raw(name), str):
        return None
    seconds = parse_duration(text)
    if seconds is None:
        fields.add_problem("not a duration", "Write it as 10m, 1h30m or 0s.", field=name)
    return seconds


# What stands in docker configs, and in answers by mistake.
_WORDS = ("kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth", "username", "password",
          "email", "identitytoken", "registrytoken", "serveraddress")  # fmt: skip
_SHOWN = frozenset(word.lower() for word in _WORDS)


def _told(problem: Problem) -> str:
    """What and where, in words of the protocol alone: all other names in an answer are a stranger's."""
    place = problem.field or ""
    name = place.rpartition(".")[2]
    shown = [name] if name.lower() in _SHOWN else []
    where = ["auth[...]", *shown] if place.startswith("auth.") else shown
    return ": ".join([*filter(None, [".".join(where)]), problem.message])


def _mapping(data: bytes, repeated: list[str] | None = None) -> dict[str, Json] | str:
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
