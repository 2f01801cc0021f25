"""Credentials of docker configs and image pull secrets, read as the kubelet does (5.13, 5.14). Pure.

Problems are returned and not raised, so that no traceback refers to the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeauth._parsing import DocumentError, Json, copy_plain, read_json
from kubeauth._parsing.models import Invalid, validate_document, validate_leniently
from kubeauth._parsing.types import decode_base64
from kubeauth.errors import Problem
from kubeauth.registry._values import RegistryCredential
from kubeauth.schemas._core import SecretObject
from kubeauth.schemas._docker_config import AS_KUBELET, DockerAuth, DockerConfig

LIMIT = 10 * 2**20
"""Bytes. The kubelet sets it for docker configs from a URL."""

Entries = dict[str, RegistryCredential]
"""Credentials under their keys, as they are written and in that order."""

Decode = Callable[..., Entries | Problem]
_FIELDS = ("username", "password", "email", "auth", "identitytoken", "registrytoken")
_LOG_IN = "Log in again with `docker login`, or write the entry anew."
_SHAPE = 'It must look like {"auths": {"registry.example": {"auth": "..."}}}, as `docker login` writes it.'
_NOT_JSON = "Correct the JSON there, or write it anew with `docker login`."


def shown_key(key: str) -> str:
    """A key for people: without a password in it, not pages long, and unable to steer a terminal."""
    _, at, address = key.rpartition("@")
    address = re.split("[?#]", address, maxsplit=1)[0][:200]
    address = "".join(char if char.isprintable() else f"U+{ord(char):04X}" for char in address)
    return f"...{at}{address}" if at else address


def config_entries(document: Json, *, at: str = "", with_tokens: bool = False) -> Entries | Problem:
    """Decode a `config.json`: the entries are in `auths`; all other fields are ignored."""
    return _decode(document, (f"{at}." if at else "") + "auths", at, with_tokens=with_tokens)


def flat_entries(document: Json, *, at: str = "", with_tokens: bool = False) -> Entries | Problem:
    """Decode a `.dockercfg`, which contains only entries. `at` is the place of the document."""
    return _decode({"auths": document}, at, at, with_tokens=with_tokens)


def _decode(document: Json, auths_at: str, at: str, *, with_tokens: bool) -> Entries | Problem:
    config = validate_document(DockerConfig, document, context=None if with_tokens else AS_KUBELET)
    if isinstance(config, Invalid):
        if not config.first_location:
            return _describe(config, (), "a docker config", at)
        return _describe(config, config.first_location[1:], "the entries", auths_at)
    found: Entries = {}
    for key, entry in config.auths.items():
        credential = _build_credential(entry)
        if isinstance(credential, str):
            return Problem(credential, field=f"{auths_at}{_place(key, 'auth')}", hint=_LOG_IN)
        found[key] = credential
    return found


def decode_entry(key: str, entry: object) -> RegistryCredential | Problem:
    """Decode an entry that the caller passed."""
    document = mapping_document(entry) if isinstance(entry, Mapping) else entry
    if isinstance(document, Problem):
        return replace(document, field=_place(key))
    auth = validate_document(DockerAuth, document)
    if isinstance(auth, Invalid):
        return _describe(auth, (key, *auth.first_location))
    credential = _build_credential(auth)
    if isinstance(credential, str):
        return Problem(credential, field=_place(key, "auth"), hint=_LOG_IN)
    return credential


def _describe(invalid: Invalid, location: Sequence[int | str], subject: str = "", at: str = "") -> Problem:
    """Return the first problem. `location` are the key and the field of an entry; `subject` has neither."""
    message = invalid.problems[0].message.replace("a mapping", "an object")
    if not location:
        return Problem(f"{subject} {message}", field=at or None, hint=_SHAPE)
    subject = "an entry" if len(location) == 1 else "it"
    return Problem(f"{subject} {message}", field=f"{at}{_place(*map(str, location))}", hint=_LOG_IN)


def _place(key: str, field: str = "") -> str:
    return f'["{shown_key(key)}"]' + (f".{field}" if field else "")


def _build_credential(entry: DockerAuth) -> RegistryCredential | str:
    """Return the credential, or why `auth` is invalid."""
    username, password = entry.username, entry.password.reveal()
    if entry.auth:
        pair = _split_auth(entry.auth.reveal())
        if isinstance(pair, str):
            return pair
        username, password = pair
    return RegistryCredential(
        username,
        password,
        email=entry.email,
        identity_token=entry.identity_token.reveal(),
        registry_token=entry.registry_token.reveal(),
    )


def _split_auth(auth: str) -> tuple[str, str] | str:
    text = auth.replace("\n", "").replace("\r", "")
    try:
        # As in the kubelet, the padding may be missing.
        data = decode_base64(text if auth.rstrip().endswith("=") else text + "=" * (-len(text) % 4))
    except ValueError:
        return "it is not base64"
    user, colon, password = data.partition(b":")
    if not colon:
        return "it is not base64 of username:password"
    try:
        return user.decode(), password.decode()
    except UnicodeDecodeError:
        # The kubelet passes it to the container runtime as a string, which must be UTF-8.
        return "it is base64 of something that is not UTF-8 text"


def either_entries(document: Json, *, at: str = "", with_tokens: bool = False) -> Entries | Problem:
    """Whichever of the two it is. A `config.json` without `auths` has nothing but settings of docker."""
    flat = isinstance(document, dict) and all(_is_flat(key, value) for key, value in document.items())
    return (flat_entries if flat else config_entries)(document, at=at, with_tokens=with_tokens)


def _is_flat(key: str, value: Json) -> bool:
    if key.lower() == "auths":
        return False
    said = {name.lower() for name in value} if isinstance(value, dict) else set()
    # No setting has a name with a dot in it, as registries have.
    return any(sign in key for sign in ".:/") or not said.isdisjoint(_FIELDS)


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
    """Decode a Secret of the API. `stringData`, which the API never returns, replaces `data`."""
    if not isinstance(secret, Mapping):
        hint = "Pass a list of Secrets, each as the API gives it."
        return Problem(f"a Secret must be a mapping, not {type(secret).__name__}", hint=hint)
    metadata = secret.get("metadata")
    names = metadata if isinstance(metadata, Mapping) else {}
    head = validate_leniently(
        SecretObject,
        {"type": secret.get("type"), "metadata": {key: names.get(key) for key in ("namespace", "name")}},
    )
    source = f"secret {'/'.join(filter(None, (head.metadata.namespace, head.metadata.name)))}".strip()
    if head.type not in _SECRETS:
        return PullSecret(source, ignored="its type is not one for registries")
    name, decode = _SECRETS[head.type]
    at = f'{source}: data["{name}"]'
    data = _read_secret(secret, name)
    if isinstance(data, str):
        return Problem(data, field=at)
    if not data:
        return PullSecret(source, ignored=f"it has no {name}, which its type wants")
    document = document_of(data)
    found = document if isinstance(document, Problem) else decode(document, at=at, with_tokens=with_tokens)
    if isinstance(found, Problem):
        return Problem(found.message, field=found.field or at, hint=found.hint)
    return PullSecret(source, found)


def _read_secret(secret: Mapping[str, object], name: str) -> bytes | str:
    """Return the value of one key, empty if there is none; or why it is invalid. Other keys are ignored."""
    for part in ("stringData", "data"):
        held = secret.get(part)
        value = held.get(name) if isinstance(held, Mapping) else None
        if value is None:
            continue
        found = validate_document(SecretObject, {part: {name: value}})
        if isinstance(found, Invalid):
            return f"it {'' if found.type_problems else 'is '}{found.problems[0].message}"
        if part == "data":
            return found.data[name].reveal()
        return found.string_data[name].reveal().encode("utf-8", "surrogatepass")
    return b""


def mapping_document(document: Mapping[str, object]) -> Json | Problem:
    """A docker config that was parsed elsewhere, copied so that later changes to it do not matter."""
    try:
        return copy_plain(document)
    except DocumentError as error:
        return Problem(str(error), hint="Pass what json.load made of a docker config.")
