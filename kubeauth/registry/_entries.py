"""What docker configs and pull secrets say, as credentials (5.13, 5.14). Pure.

Read as the kubelet reads them. Nothing here raises for what a document says: the problem is returned, so
that no traceback ever holds the document.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kubeauth._parsing import DocumentError, Json, copy_plain, describe_type, read_json
from kubeauth.errors import Problem
from kubeauth.registry._values import RegistryCredential

LIMIT = 10 * 2**20
"""Bytes. The kubelet sets it for docker configs from a URL."""

Entries = dict[str, RegistryCredential]
"""Credentials under their keys, as they are written and in that order."""

Decode = Callable[..., Entries | Problem]
_FIELDS = ("username", "password", "email", "auth")
_TOKENS = ("identitytoken", "registrytoken")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_LOG_IN = "Log in again with `docker login`, or write the entry anew."
_SHAPE = 'It must look like {"auths": {"registry.example": {"auth": "..."}}}, as `docker login` writes it.'
_NOT_JSON = "Correct the JSON there, or write it anew with `docker login`."


def shown_key(key: str) -> str:
    """A key for people: without a password in it, not pages long, and unable to steer a terminal."""
    _, at, address = key.rpartition("@")
    address = re.split("[?#]", address, maxsplit=1)[0][:200]
    address = "".join(char if char.isprintable() else f"U+{ord(char):04X}" for char in address)
    return f"...{at}{address}" if at else address


def entry_credential(entry: object, *, at: str, with_tokens: bool) -> RegistryCredential | Problem:
    """One entry. `auth`, where it says something, stands in for user name and password."""
    if entry is None:
        return RegistryCredential()
    if not isinstance(entry, Mapping):
        return Problem("an entry must be an object", field=at, hint=_LOG_IN)
    said: dict[str, str] = {}
    known = _FIELDS + _TOKENS if with_tokens else _FIELDS
    for name, value in entry.items():
        # Go takes a field's name in any case, and null for nothing said.
        name = str(name).lower()
        if name not in known or value is None:
            continue
        if not isinstance(value, str):
            return Problem("it must be a string", field=f"{at}.{name}", hint=_LOG_IN)
        said[name] = value
    username, password = said.get("username", ""), said.get("password", "")
    if auth := said.get("auth"):
        pair = _user_and_password(auth)
        if isinstance(pair, str):
            return Problem(pair, field=f"{at}.auth", hint=_LOG_IN)
        username, password = pair
    return RegistryCredential(
        username,
        password,
        email=said.get("email", ""),
        identity_token=said.get("identitytoken", ""),
        registry_token=said.get("registrytoken", ""),
    )


def _user_and_password(auth: str) -> tuple[str, str] | str:
    data = _decoded(auth, padded=auth.rstrip().endswith("="))
    if data is None:
        return "it is not base64"
    user, colon, password = data.partition(b":")
    if not colon:
        return "it is not base64 of username:password"
    try:
        return user.decode(), password.decode()
    except UnicodeDecodeError:
        # The kubelet hands it to the container runtime as a string, which must be UTF-8.
        return "it is base64 of something that is not UTF-8 text"


def _decoded(text: str, *, padded: bool = True) -> bytes | None:
    """As Go's base64 decodes: line ends do not count, blanks do."""
    text = text.replace("\n", "").replace("\r", "")
    if not padded:
        text += "=" * (-len(text) % 4)
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return None
    return binascii.a2b_base64(text)


def config_entries(document: Json, *, at: str = "", with_tokens: bool = False) -> Entries | Problem:
    """A `config.json`: entries below `auths`; whatever else it has is not looked at."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        return Problem(
            f"a docker config must be an object, not {describe_type(document)}", field=at or None, hint=_SHAPE
        )
    auths = None
    for name, value in document.items():
        if name.lower() == "auths" and value is not None:
            auths = value
    return flat_entries(auths, at=f"{at}.auths" if at else "auths", with_tokens=with_tokens)


def flat_entries(document: Json, *, at: str = "", with_tokens: bool = False) -> Entries | Problem:
    """A `.dockercfg`: entries, and nothing else."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        return Problem(
            f"the entries must be an object, not {describe_type(document)}", field=at or None, hint=_SHAPE
        )
    found: Entries = {}
    for key, entry in document.items():
        credential = entry_credential(entry, at=f'{at}["{shown_key(key)}"]', with_tokens=with_tokens)
        if isinstance(credential, Problem):
            return credential
        found[key] = credential
    return found


def either_entries(document: Json, *, at: str = "", with_tokens: bool = False) -> Entries | Problem:
    """Whichever of the two it is. A `config.json` without `auths` has nothing but settings of docker."""
    flat = isinstance(document, dict) and all(_is_flat(key, value) for key, value in document.items())
    return (flat_entries if flat else config_entries)(document, at=at, with_tokens=with_tokens)


def _is_flat(key: str, value: Json) -> bool:
    if key.lower() == "auths":
        return False
    said = {name.lower() for name in value} if isinstance(value, dict) else set()
    # No setting has a name with a dot in it, as registries have.
    return any(sign in key for sign in ".:/") or not said.isdisjoint(_FIELDS + _TOKENS)


def document_of(data: bytes) -> Json | Problem:
    """One JSON document, as Go would take it; not YAML."""
    if len(data) > LIMIT:
        return Problem(f"it is larger than {LIMIT // 2**20} MiB", hint="Is it a docker config at all?")
    try:
        return read_json(data)
    except DocumentError as error:
        if not data.strip():
            return Problem("it is empty", hint=_SHAPE)
        return Problem(str(error), hint=_NOT_JSON)


@dataclass(frozen=True, slots=True)
class PullSecret:
    """What became of one Secret."""

    source: str
    # A key may hold a password, which no traceback with locals should show.
    entries: Entries = field(default_factory=dict, repr=False)
    ignored: str = ""
    """Why it says nothing about registries, if it does not."""


# The type of a Secret, and what it must hold then.
_SECRETS: dict[str, tuple[str, Decode]] = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", config_entries),
    "kubernetes.io/dockercfg": (".dockercfg", flat_entries),
}


def pull_secret(secret: object, *, with_tokens: bool = False) -> PullSecret | Problem:
    """A Secret as the API gives it. `stringData`, which one may write and never reads, wins over `data`."""
    if not isinstance(secret, Mapping):
        hint = "Pass a list of Secrets, each as the API gives it."
        return Problem(f"a Secret must be a mapping, not {type(secret).__name__}", hint=hint)
    metadata = secret.get("metadata")
    names = [metadata.get(name) for name in ("namespace", "name")] if isinstance(metadata, Mapping) else []
    source = " ".join(["secret", "/".join(name for name in names if isinstance(name, str) and name)]).strip()
    kind = secret.get("type")
    if not isinstance(kind, str) or kind not in _SECRETS:
        return PullSecret(source, ignored="its type is not one for registries")
    name, entries = _SECRETS[kind]
    at = f'{source}: data["{name}"]'
    data = _secret_data(secret, name)
    if not isinstance(data, bytes):
        return Problem(data, field=at)
    if not data:
        return PullSecret(source, ignored=f"it has no {name}, which its type wants")
    document = document_of(data)
    found = document if isinstance(document, Problem) else entries(document, at=at, with_tokens=with_tokens)
    if isinstance(found, Problem):
        return Problem(found.message, field=found.field or at, hint=found.hint)
    return PullSecret(source, found)


def _secret_data(secret: Mapping[str, object], name: str) -> bytes | str:
    """What a Secret holds under `name`; nothing, if it does not; or what is wrong with it."""
    for part in ("stringData", "data"):
        held = secret.get(part)
        value = held.get(name) if isinstance(held, Mapping) else None
        if value is None:
            continue
        if not isinstance(value, str):
            return "it must be a string"
        if part == "stringData":
            return value.encode("utf-8", "surrogatepass")
        decoded = _decoded(value)
        return "it is not base64" if decoded is None else decoded
    return b""


def mapping_document(document: Mapping[str, object]) -> Json | Problem:
    """A docker config that was parsed elsewhere, copied so that later changes to it do not matter."""
    try:
        return copy_plain(document)
    except DocumentError as error:
        return Problem(str(error), hint="Pass what json.load made of a docker config.")
