"""Who the bearer of a bootstrap token is, as an API server finds out (A35)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._secret import Secret
from kubeauth.discovery._secrets import StoredToken, authentication_problem, groups_of, stored_token
from kubeauth.discovery._token import BootstrapToken, secret_name, user_name
from kubeauth.errors import ConfigError

SecretDocument: TypeAlias = Mapping[str, object]
Lookup: TypeAlias = Callable[[str], SecretDocument | Awaitable[SecretDocument | None] | None]
"""Gets a Secret of kube-system by its name; None if there is none. What it raises is handed on."""


@dataclass(frozen=True, slots=True)
class BootstrapUser:
    """Who somebody is, to the API server."""

    name: str
    """`system:bootstrap:` and the id of the token."""
    groups: tuple[str, ...]
    """In order, `system:bootstrappers` among them."""


class TokenAuthenticator:
    """Tells who the bearer of a token is. `lookup` gets a Secret of kube-system by its name.

        TokenAuthenticator({"bootstrap-token-abcdef": secret}.get).authenticate("abcdef.0123456789abcdef")

    `lookup` may be async, for `aauthenticate`; a plain one is called in the event loop, so it should answer
    from memory. It returns the Secret as the API has it, or None; whatever it raises is raised.
    """

    def __init__(self, lookup: Lookup, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._lookup = lookup
        self._clock = clock

    def authenticate(self, token: str | Secret[str]) -> BootstrapUser | None:
        """Who it is; None if it is nobody's token, or not good any more: then somebody else may know it."""
        given = _parsed(token)
        del token  # the lookup may raise, and a traceback show variables
        if given is None:
            return None
        found = self._lookup(secret_name(given.id))
        if inspect.isawaitable(found):
            if inspect.iscoroutine(found):
                found.close()
            raise ConfigError("the lookup of this TokenAuthenticator is async: use aauthenticate")
        return self._user(given, found)

    async def aauthenticate(self, token: str | Secret[str]) -> BootstrapUser | None:
        """As `authenticate`, with a lookup that may be async."""
        given = _parsed(token)
        del token
        if given is None:
            return None
        return self._user(given, await looked_up(self._lookup, given.id))

    def _user(self, given: BootstrapToken, found: SecretDocument | None) -> BootstrapUser | None:
        if found is None:
            return None
        stored = stored_token(found)
        if authentication_problem(stored, given.id, self._clock.time(), given.secret) is not None:
            return None
        return user_of(given.id, stored)


async def looked_up(lookup: Lookup, token_id: str) -> SecretDocument | None:
    found = lookup(secret_name(token_id))
    return await found if inspect.isawaitable(found) else found


def user_of(token_id: str, stored: StoredToken) -> BootstrapUser:
    return BootstrapUser(user_name(token_id), groups_of(stored) or ())


def _parsed(token: str | Secret[str]) -> BootstrapToken | None:
    try:
        return BootstrapToken.parse(token)
    except ConfigError:
        return None  # not one of ours
