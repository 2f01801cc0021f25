"""A new bootstrap token, and the Secret that makes a cluster know it (A7-A10, A89). Pure but for the dice."""

from __future__ import annotations

import itertools
import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubeauth._parsing import Json
from kubeauth._parsing.go import to_datetime
from kubeauth._secret import Secret
from kubeauth.discovery._token import (
    AUTHENTICATION,
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
    BootstrapToken,
    is_group,
    is_token_id,
    is_token_secret,
    secret_name,
)
from kubeauth.errors import ConfigError

DEFAULT_TTL = 24 * 3600.0
DEFAULT_GROUP = "system:bootstrappers:kubeadm:default-node-token"
# Of random secrets, one in two million has fewer, and one in two million has more.
_FEWEST_DIFFERENT = 7
_MOST_NEIGHBOURS = 9
# Side by side in the alphabet or on a keyboard, in either direction.
_ROWS = ("0123456789abcdefghijklmnopqrstuvwxyz", "1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = frozenset(pair for row in _ROWS for pair in itertools.pairwise(row))


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that no cluster knows yet."""

    token: BootstrapToken
    secret: dict[str, Json] = field(repr=False)
    """What to create in kube-system: `client.post("/api/v1/namespaces/kube-system/secrets", json=...)`."""


def new_token(
    token: BootstrapToken | None = None,
    *,
    now: float,
    ttl: float | None = None,
    expires: datetime | None = None,
    usages: Iterable[str] = (SIGNING, AUTHENTICATION),
    groups: Iterable[str] | None = None,
    description: str = "",
    even_if_weak: bool = False,
) -> NewToken:
    """A token and its Secret: for 24 hours, for both usages, and for joining as `kubeadm join` does.

    `ttl` is seconds from `now`, 0 for one that never ends; `expires` is a date instead. `usages` are
    `signing` and `authentication`. `groups` are whose member its bearer is: kubeadm's, if none are given.

    Without a `token` one is generated, and that is how it should be: whoever reads cluster-info, which is
    everybody, can try secrets against its signature for as long as they like. A secret that is plainly made
    by hand is refused, unless `even_if_weak`. That one is a word, nobody can tell.

    ConfigError for what cannot be.
    """
    wanted = _usages(usages)
    extra = _groups(groups, wanted)
    end = _end(now, ttl, expires)
    given = BootstrapToken.generate() if token is None else token
    if not is_token_id(given.id) or not is_token_secret(given.secret):
        raise ConfigError(
            f"{given} is not a bootstrap token: six and sixteen characters, all of them a-z or 0-9"
        )
    if not even_if_weak and (weakness := weakness_of(given.secret)) is not None:
        raise ConfigError(
            f"the secret of {given} is made by hand: {weakness}. Anybody can guess at it offline, since "
            "cluster-info is public. Give no token, and one is generated."
        )
    values = {
        TOKEN_ID: given.id,
        TOKEN_SECRET: given.secret.reveal(),
        EXPIRATION: end,
        DESCRIPTION: description,
        EXTRA_GROUPS: ",".join(extra),
    } | {USAGE_PREFIX + usage: "true" for usage in wanted}
    return NewToken(given, _document(given.id, values))


def weakness_of(secret: Secret[str]) -> str | None:
    """What shows that a secret was made by hand; None if nothing does."""
    text = secret.reveal()
    if len(set(text)) < _FEWEST_DIFFERENT:
        return f"it has fewer than {_FEWEST_DIFFERENT} different characters"
    neighbours = sum(
        pair in _BESIDE or pair[::-1] in _BESIDE or pair[0] == pair[1] for pair in itertools.pairwise(text)
    )
    return "its characters stand in a row" if neighbours > _MOST_NEIGHBOURS else None


def _usages(usages: Iterable[str]) -> list[str]:
    wanted = sorted({usages} if isinstance(usages, str) else set(usages))
    if unknown := [usage for usage in wanted if usage not in USAGES]:
        raise ConfigError(
            f"invalid usages of a bootstrap token: {', '.join(unknown)}. There are {' and '.join(USAGES)}."
        )
    if not wanted:
        raise ConfigError(f"a bootstrap token needs a usage: {' or '.join(USAGES)}")
    return wanted


def _groups(groups: Iterable[str] | None, usages: Sequence[str]) -> list[str]:
    if groups is None:
        return [DEFAULT_GROUP] if AUTHENTICATION in usages else []
    wanted = sorted({groups} if isinstance(groups, str) else set(groups))
    if wanted and AUTHENTICATION not in usages:
        raise ConfigError(f"a bootstrap token has groups only with the usage {AUTHENTICATION}")
    if bad := [group for group in wanted if not is_group(group)]:
        raise ConfigError(
            f"invalid groups of a bootstrap token: {', '.join(bad)}. A group begins with "
            "system:bootstrappers: and goes on with a-z, 0-9, : and -, the last of them neither : nor -."
        )
    return wanted


def _end(now: float, ttl: float | None, expires: datetime | None) -> str:
    """As Kubernetes writes dates; empty if there is no end."""
    if expires is not None:
        if ttl is not None:
            raise ConfigError("a bootstrap token has a ttl or a date that it expires at, not both")
        if expires.tzinfo is None:
            raise ConfigError("the date that a bootstrap token expires at needs a time zone")
        end = expires.timestamp()
    elif ttl == 0:
        return ""
    else:
        end = now + (DEFAULT_TTL if ttl is None else ttl)
    date = to_datetime(end)
    if date is None or math.floor(end) <= now:
        raise ConfigError("a bootstrap token must end in the future, before the year 10000")
    return f"{date:%Y-%m-%dT%H:%M:%SZ}"


def _document(token_id: str, values: dict[str, str]) -> dict[str, Json]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(token_id), "namespace": SECRET_NAMESPACE},
        "type": SECRET_TYPE,
        # As the API answers it, so that whoever reads such a Secret can read this one.
        "data": {key: b64encode(value.encode()).decode() for key, value in values.items() if value},
    }
