"""The API server's part in the seed's mode: who asks with a signed request gets a signed answer (A77-A81).

An ASGI application around another. It needs no framework and no event loop of its own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.discovery._authenticator import BootstrapUser, Lookup, looked_up, user_of
from kubeauth.discovery._jws import sign_detached
from kubeauth.discovery._jwt import LONGEST_SKEW, NotOurs, PresentedJwt, Refused, jwt_problem, presented
from kubeauth.discovery._secrets import authentication_problem, stored_token
from kubeauth.discovery._token import CLUSTER_INFO_PATH, JWS_HEADER, BootstrapToken
from kubeauth.errors import ConfigError

logger = logging.getLogger("kubeauth.discovery")

# As ASGI has them, and every framework: what is in one depends on its type.
Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

USER_KEY = "kubeauth.bootstrap_user"
LONGEST_BODY = 2**20
_JWS_HEADER = JWS_HEADER.lower().encode()
_LENGTHS = (b"content-length", b"transfer-encoding")
# Who may compress would sign other bytes than arrive; and the JWT is for us alone.
_NOT_HANDED_ON = (b"accept-encoding", b"authorization")


class DiscoveryFilter:
    """Answers a request for cluster-info that is signed with a bootstrap token by a signed response.

        app = DiscoveryFilter(app, ClusterSecrets(client))

    `lookup` gets a Secret of kube-system by its name, as for `TokenAuthenticator`; what it raises goes to the
    server. Who brings a JWT that is no good gets a 401 that never says why; the log does, as
    `kubeauth.discovery`. With a good one, `app` finds a `BootstrapUser` in the scope, as
    `kubeauth.bootstrap_user`, and no Authorization. The body that it sends is signed, in the header
    X-Kubernetes-JWS; one of more than `longest_body` bytes is an error.

    All other requests are handed on as they are: other paths, and other ways to authenticate.

    `cluster_id` is what the audience of a JWT must be, if it has one. `skew` is how many seconds clocks may
    differ by, up to 30.
    """

    def __init__(
        self,
        app: App,
        lookup: Lookup,
        *,
        cluster_id: str | None = None,
        skew: float = 0.0,
        path: str = CLUSTER_INFO_PATH,
        longest_body: int = LONGEST_BODY,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not 0 <= skew <= LONGEST_SKEW:
            raise ConfigError(f"skew= is from 0 to {LONGEST_SKEW} seconds, not {skew}")
        self._app = app
        self._lookup = lookup
        self._cluster_id = cluster_id
        self._skew = skew
        self._path = path
        self._longest_body = longest_body
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        jwt = self._presented(scope)
        if isinstance(jwt, NotOurs):
            await self._app(scope, receive, send)
            return
        scope = _within(scope)
        found = jwt if isinstance(jwt, Refused) else await self._bearer(jwt)
        if isinstance(found, Refused):
            logger.info("a request for cluster-info is refused: %s", found.reason)
            await _answer(scope["method"], send, 401, "Unauthorized")
            return
        token, user = found
        scope[USER_KEY] = user
        await self._app(scope, receive, _Signing(scope["method"], send, token, self._longest_body).send)

    def _presented(self, scope: Scope) -> PresentedJwt | NotOurs | Refused:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or scope["path"] != self._path:
            return NotOurs()
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        # Of several it cannot be told which one counts.
        return presented(given[0].decode("latin-1")) if len(given) == 1 else NotOurs()

    async def _bearer(self, jwt: PresentedJwt) -> tuple[BootstrapToken, BootstrapUser] | Refused:
        found = await looked_up(self._lookup, jwt.id)
        stored = stored_token({} if found is None else found)
        del found
        now = self._clock.time()
        problem = authentication_problem(stored, jwt.id, now)
        secret = stored.secret() if problem is None else None
        # Asked in any case: it takes as long for a token that there is not (A79).
        wrong = jwt_problem(jwt, secret, now=now, skew=self._skew, cluster_id=self._cluster_id)
        if wrong is not None:
            return Refused(f"token {jwt.id}: {wrong if problem is None else problem}")
        return BootstrapToken(jwt.id, stored.secret()), user_of(jwt.id, stored)


class _Signing:
    """What an application sends: held back until it is whole, and then signed."""

    def __init__(self, method: str, send: Send, token: BootstrapToken, longest: int) -> None:
        self._method = method
        self._send = send
        self._token = token
        self._longest = longest
        self._start: Message | None = None
        self._body = bytearray()
        self._is_over = False

    async def send(self, message: Message) -> None:
        if self._is_over:
            return  # it was too much already
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if len(self._body) > self._longest:
                self._is_over = True
                logger.error("a response of more than %d bytes is not signed, and not sent", self._longest)
                await _answer(self._method, self._send, 500, "InternalError")
            elif not message.get("more_body", False):
                self._is_over = True
                await self._sign_and_send(self._start)
        # Anything else was not offered to it.

    async def _sign_and_send(self, start: Message) -> None:
        body = bytes(self._body)
        # One is ours to set: what the application says in its place would not be a signature.
        headers = [(name, value) for name, value in start.get("headers", ()) if name.lower() != _JWS_HEADER]
        # Without a body of its own there is nothing to sign: HEAD, 204, 304. Nor is an error the ConfigMap.
        if self._method == "GET" and start["status"] == 200:
            headers = [pair for pair in headers if pair[0].lower() not in _LENGTHS]
            headers.append((b"content-length", str(len(body)).encode()))
            headers.append((_JWS_HEADER, sign_detached(body, self._token).encode()))
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _within(scope: Scope) -> Scope:
    """The request as the application sees it. Extensions would let it send what could not be signed."""
    headers = [pair for pair in scope["headers"] if pair[0].lower() not in _NOT_HANDED_ON]
    return {**scope, "headers": headers, "extensions": {}}


async def _answer(method: str, send: Send, status: int, reason: str) -> None:
    """As Kubernetes says no. The same whatever is wrong (A77)."""
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body = json.dumps(said | {"message": reason, "reason": reason, "code": status}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
