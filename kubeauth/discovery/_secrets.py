"""What the Secret of a bootstrap token says: for what it is good, until when (A5-A8, A12, A29, A35). Pure.

A Secret is a mapping, as the API has it. Nothing here raises for what is in one: it holds a secret, and a
traceback might show it.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubeauth._parsing import Json
from kubeauth._secret import Secret
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
    id_of,
)

USAGES = (AUTHENTICATION, SIGNING)
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class StoredToken:
    """The Secret of a token, as values. It may be anything: what it is good for is asked below."""

    name: str
    namespace: str
    """Empty if it does not say."""
    type: str
    is_being_deleted: bool
    data: Mapping[str, Secret[str]] = field(repr=False)

    def text(self, key: str) -> str:
        """One of its values that is no secret. Empty if there is none."""
        return self.secret(key).reveal()

    def secret(self, key: str = TOKEN_SECRET) -> Secret[str]:
        return self.data.get(key, _NOTHING)

    def is_for(self, usage: str) -> bool:
        """Exactly `true` counts, and nothing that only looks like it (A6)."""
        return self.text(USAGE_PREFIX + usage) == "true"

    @property
    def usages(self) -> tuple[str, ...]:
        return tuple(usage for usage in USAGES if self.is_for(usage))


_NOTHING = Secret("")


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
    """What a Secret says. Whatever is not as the API has it is as if it were not there."""
    secret = _mapping(document)
    metadata = _mapping(secret.get("metadata"))
    values = {key: _decoded(value) for key, value in _mapping(secret.get("data")).items()}
    # Which wins, as it does when the API server takes it.
    for key, value in _mapping(secret.get("stringData")).items():
        values[key] = Secret(value if isinstance(value, str) else "")
    return StoredToken(
        name=_text(metadata.get("name")),
        namespace=_text(metadata.get("namespace")),
        type=_text(secret.get("type")),
        is_being_deleted=metadata.get("deletionTimestamp") is not None,
        data=values,
    )


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


def is_group(text: str) -> bool:
    """Whether a token may make its bearer a member of it (A8)."""
    return _GROUP.fullmatch(text) is not None


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
    if stored.is_being_deleted:
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
    if stored.namespace not in ("", SECRET_NAMESPACE):
        return f"it is not in {SECRET_NAMESPACE}"
    return None if stored.type == SECRET_TYPE else f"its type is not {SECRET_TYPE}"


def _identity_problem(stored: StoredToken) -> str | None:
    token_id = id_of(stored.name)
    if token_id is None:
        return "it is not called bootstrap-token- and the id of a token"
    said = stored.text(TOKEN_ID)
    if not said:
        return "it has no token-id"
    return None if said == token_id else "its token-id is not the one in its name"


def _info(stored: StoredToken, now: float) -> TokenInfo:
    groups = groups_of(stored) or ()
    expires = expiry_of(stored)
    token_id = id_of(stored.name) or ""
    signing, bearing = signing_problem(stored, now), authentication_problem(stored, token_id, now)
    return TokenInfo(
        id=token_id,
        expires=None if expires == LONG_AGO else expires,
        usages=stored.usages,
        groups=tuple(group for group in groups if group != BASE_GROUP),
        description=stored.text(DESCRIPTION),
        problem=None if None in (signing, bearing) else bearing if stored.is_for(AUTHENTICATION) else signing,
    )


def _decoded(value: object) -> Secret[str]:
    try:
        # Kubernetes writes it in one way. To it these are bytes: what is no text must still be what it is.
        return Secret(binascii.a2b_base64(_text(value), strict_mode=True).decode(errors="surrogateescape"))
    except ValueError:
        return _NOTHING


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
