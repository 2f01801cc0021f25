"""What the Secret of a bootstrap token says: for what it is good, until when (A5-A8, A12, A29, A35). Pure.

Nothing here raises for what is in a document: it contains a secret, and a traceback might show it.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from kubeauth._parsing import DocumentError, Json, copy_plain
from kubeauth._parsing.models import validate_document
from kubeauth._parsing.types import mapping_to
from kubeauth._secret import FrozenDict, Secret
from kubeauth.discovery._expiration import LONG_AGO, seconds_by_go
from kubeauth.discovery._token import (
    AUTHENTICATION,
    BASE_GROUP,
    DESCRIPTION,
    EXPIRATION,
    EXTRA_GROUPS,
    SECRET_NAMESPACE,
    SECRET_TYPE,
    SIGNING,
    TOKEN_ID,
    TOKEN_SECRET,
    USAGE_PREFIX,
    USAGES,
    id_of,
    is_group,
)
from kubeauth.schemas._core import SecretObject


def _decode_value(value: Any) -> Secret[bytes]:
    try:
        # The API server writes base64 in one way only.
        return Secret(binascii.a2b_base64(value, strict_mode=True) if isinstance(value, str) else b"")
    except ValueError:
        return Secret(b"")


_Value = Annotated[Secret[bytes], PlainValidator(_decode_value)]
_Text = Annotated[Secret[str], PlainValidator(lambda value: Secret(value if isinstance(value, str) else ""))]


class StoredToken(SecretObject):
    """The Secret of a token. It may be any Secret: the functions below say what it can be used for."""

    # A value that is not valid is empty.
    data: Annotated[Mapping[str, Secret[bytes]], mapping_to(_Value)] = Field(
        default_factory=FrozenDict[str, Secret[bytes]]
    )
    string_data: Annotated[Mapping[str, Secret[str]], mapping_to(_Text)] = Field(
        default_factory=FrozenDict[str, Secret[str]]
    )

    def text(self, key: str) -> str:
        """Return a value that is not secret; empty if it is not set."""
        return self.secret(key).reveal()

    def secret(self, key: str = TOKEN_SECRET) -> Secret[str]:
        if key in self.string_data:
            return self.string_data[key]
        # Bytes that are not UTF-8 must stay what they are.
        return Secret(self.data.get(key, _NO_VALUE).reveal().decode(errors="surrogateescape"))

    def is_for(self, usage: str) -> bool:
        """Exactly `true` counts, and nothing that only looks like it (A6)."""
        return self.text(USAGE_PREFIX + usage) == "true"

    @property
    def usages(self) -> tuple[str, ...]:
        return tuple(usage for usage in USAGES if self.is_for(usage))


_NO_VALUE = Secret(b"")


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A bootstrap token as the cluster has it, without its secret."""

    id: str
    """As its Secret is called; empty if that is the name of no token."""
    expires: float | None
    """Seconds since 1970; None if it is good for ever, or says something that is no date."""
    usages: tuple[str, ...]
    """`authentication`, `signing`, both or none."""
    groups: tuple[str, ...]
    """Whose member its bearer is, besides `system:bootstrappers`."""
    description: str
    problem: str | None
    """Why it can be used for nothing, in words. None if it can be."""


def tokens_of(secrets: Mapping[str, object] | Iterable[object], *, now: float) -> list[TokenInfo]:
    """The tokens among Secrets, by id. `secrets` may be a SecretList, as the API answers it."""
    items: Json = secrets.get("items") if isinstance(secrets, Mapping) else secrets
    found = (stored_token(each) for each in items or ())
    return sorted((_info(each, now) for each in found if each.type == SECRET_TYPE), key=lambda each: each.id)


def stored_token(document: object) -> StoredToken:
    """Read a Secret. What is not one is read as an empty one, which can be used for nothing."""
    try:
        found = validate_document(StoredToken, copy_plain(document))
    except DocumentError:
        return StoredToken()
    return found if isinstance(found, StoredToken) else StoredToken()


def expiry_of(stored: StoredToken) -> float | None:
    """Seconds since 1970; None: never. What is no date is long over (A12, A13)."""
    text = stored.text(EXPIRATION)
    return seconds_by_go(text) if text else None


def is_over(stored: StoredToken, now: float) -> bool:
    """The very instant counts (A12)."""
    expires = expiry_of(stored)
    return expires is not None and expires - now <= 0


def groups_of(stored: StoredToken) -> tuple[str, ...] | None:
    """The groups of its bearer, sorted; None if one of them is not allowed (A8)."""
    extra = stored.text(EXTRA_GROUPS)
    groups = extra.split(",") if extra else []
    if not all(map(is_group, groups)):
        return None
    return tuple(sorted({BASE_GROUP, *groups}))


def signing_problem(stored: StoredToken, now: float) -> str | None:
    """Why cluster-info is not signed with it; None if it is (A29)."""
    if (problem := _place_problem(stored) or _identity_problem(stored)) is not None:
        return problem
    if not stored.secret():
        return "it has no token-secret"
    if is_over(stored, now):
        return _OVER
    return None if stored.is_for(SIGNING) else "it is not for signing"


def authentication_problem(
    stored: StoredToken, token_id: str, now: float, shown: Secret[str] | None = None
) -> str | None:
    """Why the bearer of the token with that id is not let in; None if it is (A35).

    `shown` is the secret that somebody shows. None: that they have it is proved otherwise.
    """
    # Go's zero time is a time, too.
    if "deletion_timestamp" in stored.metadata.model_fields_set:
        return "it is being deleted"
    if (problem := _place_problem(stored)) is not None:
        return problem
    if not stored.secret():
        return "it has no token-secret"
    if shown is not None and shown != stored.secret():
        return "its secret is another"
    if (problem := _identity_problem(stored)) is not None:
        return problem
    if stored.text(TOKEN_ID) != token_id:
        return "it is of another token"
    if is_over(stored, now):
        return _OVER
    if not stored.is_for(AUTHENTICATION):
        return "it is not for authentication"
    return "it names a group that no token may" if groups_of(stored) is None else None


_OVER = "it is over"


def _place_problem(stored: StoredToken) -> str | None:
    if stored.metadata.namespace not in ("", SECRET_NAMESPACE):
        return f"it is not in {SECRET_NAMESPACE}"
    return None if stored.type == SECRET_TYPE else f"its type is not {SECRET_TYPE}"


def _identity_problem(stored: StoredToken) -> str | None:
    token_id = id_of(stored.metadata.name)
    if token_id is None:
        return "it is not called bootstrap-token- and the id of a token"
    said = stored.text(TOKEN_ID)
    if not said:
        return "it has no token-id"
    return None if said == token_id else "its token-id is not the one in its name"


def _info(stored: StoredToken, now: float) -> TokenInfo:
    groups = groups_of(stored) or ()
    expires = expiry_of(stored)
    token_id = id_of(stored.metadata.name) or ""
    signing, bearing = signing_problem(stored, now), authentication_problem(stored, token_id, now)
    return TokenInfo(
        id=token_id,
        expires=None if expires == LONG_AGO else expires,
        usages=stored.usages,
        groups=tuple(group for group in groups if group != BASE_GROUP),
        description=stored.text(DESCRIPTION),
        problem=None if None in (signing, bearing) else bearing if stored.is_for(AUTHENTICATION) else signing,
    )
