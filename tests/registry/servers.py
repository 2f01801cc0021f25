"""A registry and its token endpoint, on loopback: as much of both as signing in needs."""

from __future__ import annotations

import base64
import itertools
import ssl
import threading
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from kubeauth import Secret
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.registry._scopes import union
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import Listener, RawRequest
from tests.support.clients import ClientVariant, Driver

Respond = Callable[[RawRequest], Answer]


def header(request: RawRequest, name: str) -> str:
    return next((value for key, value in request.headers if key.lower() == name.lower()), "")


def authorization(request: RawRequest) -> str:
    return header(request, "Authorization")


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def query(request: RawRequest) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.path).query)


def form(request: RawRequest) -> dict[str, list[str]]:
    return parse_qs(request.body.decode())


class Server:
    """Answers as `respond` says, with TLS if there is an authority, and keeps what it was asked."""

    def __init__(self, respond: Respond, authority: Authority | None = None) -> None:
        self.respond = respond
        self.requests: list[RawRequest] = []
        context = None
        if authority is not None:
            pair = authority.server("127.0.0.1", "localhost")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_client_cert(context, ClientCertificate(pair.certificate, Secret(pair.key)))
        self.listener = Listener(self._answer, context)
        self.host = f"127.0.0.1:{self.listener.port}"
        self.url = f"{'http' if authority is None else 'https'}://{self.host}"

    def _answer(self, request: RawRequest) -> Answer:
        self.requests.append(request)
        return self.respond(request)

    @property
    def authorizations(self) -> list[str]:
        """What each request showed."""
        return [authorization(request) for request in self.requests]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()


class Registry(Server):
    """Knows its users by name and password. Its tokens are `token-1`, `token-2`, ..."""

    def __init__(
        self, authority: Authority | None = None, *, asks_for_basic: bool = False, **users: str
    ) -> None:
        self.users = users
        self.identity_tokens: dict[str, str] = {}
        self.denied: set[str] = set()
        self.asks_for_basic = asks_for_basic
        self.names_scope = True
        self.gives_to_anybody = False
        self.accepts_post = True
        self.lifetime: int | None = None
        self.issued: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._numbers = itertools.count(1)
        # Guards users and issued, for tests that change them under load.
        self.lock = threading.Lock()
        self.tokens = Server(self.issue, authority)
        self.realm = f"{self.tokens.url}/token"
        super().__init__(self.serve, authority)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.tokens.listener.close()

    def challenge(self, *scopes: str, more: str = "") -> dict[str, str]:
        scope = f',scope="{" ".join(scopes)}"' if scopes and self.names_scope else ""
        return {"WWW-Authenticate": f'Bearer realm="{self.realm}",service="registry.test"{scope}{more}'}

    def serve(self, request: RawRequest) -> Answer:
        needed = needed_by(request)
        shown = authorization(request)
        if self.asks_for_basic:
            with self.lock:
                user = next((name for name, word in self.users.items() if basic(name, word) == shown), None)
            if user is None:
                return Answer(401, {"errors": []}, headers={"WWW-Authenticate": 'Basic realm="the registry"'})
        else:
            with self.lock:
                user, granted = self.issued.get(shown.removeprefix("Bearer "), (None, ()))
            if user is None:
                return Answer(401, {"errors": []}, headers=self.challenge(*needed))
            if union(granted, needed) != union(granted):
                more = ',error="insufficient_scope"'
                return Answer(401, {"errors": []}, headers=self.challenge(*needed, more=more))
        return Answer(403 if user in self.denied else 200, {"user": user, "path": request.path})

    def issue(self, request: RawRequest) -> Answer:
        if request.method == "POST":
            return self._exchange(request)
        shown = authorization(request)
        with self.lock:
            user = next((name for name, word in self.users.items() if basic(name, word) == shown), None)
        if user is None and not shown and self.gives_to_anybody:
            user = "anybody"
        if user is None:
            return Answer(401, {"errors": [{"code": "UNAUTHORIZED", "message": "wrong user or password"}]})
        return self.token(user, query(request).get("scope", []))

    def _exchange(self, request: RawRequest) -> Answer:
        given = form(request)
        if not self.accepts_post:
            return Answer(405, {})
        user = self.identity_tokens.get(given.get("refresh_token", [""])[0])
        if user is None:
            return Answer(400, {"error": "invalid_grant", "error_description": "no such token"})
        return self.token(user, given.get("scope", [""])[0].split(), name="access_token")

    def token(self, user: str, scopes: list[str], name: str = "token") -> Answer:
        token = f"token-{next(self._numbers)}"
        with self.lock:
            self.issued[token] = (user, tuple(scopes))
        expires = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return Answer(200, {name: token, **expires})

    def revoke(self) -> None:
        """No token is good any more."""
        with self.lock:
            self.issued.clear()


def needed_by(request: RawRequest) -> list[str]:
    """As the distribution registry has it."""
    path = urlsplit(request.path).path
    if path == "/v2/_catalog":
        return ["registry:catalog:*"]
    name = (
        path.removeprefix("/v2/").partition("/manifests/")[0].partition("/blobs/")[0].partition("/tags/")[0]
    )
    if not name:
        return []
    needed = [f"repository:{name}:{'pull' if request.method in ('GET', 'HEAD') else 'pull,push'}"]
    return [*needed, *(f"repository:{other}:pull" for other in query(request).get("from", []))]


def trusting(variant: ClientVariant, authority: Authority, **options: Any) -> Any:
    """What makes a client that trusts `authority`, for `variant.drive`."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    return partial(variant.PlainClient, verify=context, trust_env=False, **options)


def auth_of(variant: ClientVariant) -> Any:
    """RegistryAuth, for the library of `variant`."""
    from kubeauth.registry import _auth, httpx2

    return _auth.RegistryAuth if variant.library.__name__ == "httpx" else httpx2.RegistryAuth


@contextmanager
def client(variant: ClientVariant, authority: Authority, auth: Any, **options: Any) -> Any:
    driver: Driver
    with variant.drive(trusting(variant, authority, auth=auth, **options)) as driver:
        yield driver
