"""APIServer: a small API server on loopback that returns configured responses and records requests."""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubeauth._config.client_config import ClientConfig
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth._secret import Secret
from kubeauth.testing._authority import Authority, KeyPair
from kubeauth.testing._http import Listener, RawRequest

SERVER_NAMES = ("127.0.0.1", "localhost", "::1")

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not define.
VERIFY_NO_CHECK_TIME = 0x200000


@dataclass(frozen=True, slots=True)
class Received:
    """A request that the server received."""

    method: str
    path: str
    """With the query, as sent."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    user: str | None
    """The user, by token, password or certificate; None if not authenticated."""
    certificate: bytes | None = field(repr=False)
    """The client certificate as DER; None if the client sent none."""
    sni: str | None
    """The server name in the TLS handshake."""
    connection: int
    """The number of the connection: 1, 2, ... in the order they were opened."""

    def header(self, name: str) -> str | None:
        """Return the first header with that name, ignoring case; None if it is missing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def all_headers(self, name: str) -> list[str]:
        """Return all headers with that name, ignoring case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def common_name(self) -> str | None:
        """The common name of the client certificate: the user in Kubernetes."""
        return None if self.certificate is None else _read_common_name(self.certificate)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. `body` is sent as JSON unless it is bytes; `chunks` are streamed.

    A generator as `chunks` serves a single request: for more, pass a function to `APIServer.on`.
    """

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    chunks: Iterable[bytes] | None = None
    hang_up: bool = False
    """Close the connection without a response."""


Answers = Answer | Callable[[Received], Answer]


class Watch:
    """The server side of a watch: each event is sent to all clients that have opened it."""

    def __init__(self) -> None:
        # Guards all of the below, and is notified of every change.
        self._changed = threading.Condition()
        self._events: list[bytes | None] = []
        self._watchers = 0
        self._is_closed = False

    def send(self, event: object) -> None:
        """Send an event, as a line of JSON."""
        self._add(json.dumps(event).encode() + b"\n")

    def end(self) -> None:
        """End the open responses cleanly. Clients may open the watch again."""
        self._add(None)

    def close(self) -> None:
        """End the open responses, and all later ones at once."""
        with self._changed:
            self._is_closed = True
        self.end()

    def wait_for_watchers(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until `count` clients have opened the watch. Raises TimeoutError if they do not in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._watchers >= count, timeout):
                raise TimeoutError(f"{self._watchers} of {count} clients have opened the watch")

    def __call__(self, _request: Received) -> Answer:
        with self._changed:
            first = len(self._events)
            self._watchers += 1
            self._changed.notify_all()
        return Answer(headers={"Content-Type": "application/json"}, chunks=self._iter_events(first))

    def _add(self, line: bytes | None) -> None:
        with self._changed:
            self._events.append(line)
            self._changed.notify_all()

    def _iter_events(self, first: int) -> Iterator[bytes]:
        for position in itertools.count(first):
            with self._changed:
                while len(self._events) <= position:
                    if self._is_closed:
                        return
                    self._changed.wait()
                line = self._events[position]
            if line is None:
                return
            yield line


class APIServer:
    """A local API server: `with APIServer() as server: ...` (or `async with`).

    Without `tokens`, `passwords`, `require_certificate` and `authenticate` it accepts anonymous requests.
    With any of them it responds to unauthenticated requests with a 401. It serves `/version`,
    `/api/v1/namespaces`, the discovery of common resources, and SelfSubjectReview; add more with `on`.

    `authenticate` is called with each request and returns the user, or None for a 401. It must check the
    expiry of client certificates itself: as in a real API server, the TLS handshake accepts expired ones.
    """

    def __init__(
        self,
        *,
        authority: Authority | None = None,
        certificate: KeyPair | None = None,
        tokens: Mapping[str, str] | None = None,
        passwords: Mapping[str, str] | None = None,
        client_authority: Authority | None = None,
        require_certificate: bool = False,
        authenticate: Callable[[Received], str | None] | None = None,
        tls: bool = True,
    ) -> None:
        """`tokens` maps a token to its user, `passwords` a user to its password."""
        self.authority = authority or Authority()
        self.client_authority = client_authority or self.authority
        self.tokens = dict(tokens or {})
        """The user by token; may be changed while the server runs."""
        self.passwords = dict(passwords or {})
        self.requests: list[Received] = []
        """All requests received so far."""
        self._authenticate = authenticate
        self._allow_anonymous = not (tokens or passwords or require_certificate or authenticate)
        self._routes: dict[tuple[str, str], Answers] = {}
        self._watches: list[Watch] = []
        context = None
        if tls:
            context = self._build_context(
                certificate or self.authority.server(*SERVER_NAMES), require_certificate
            )
        self._listener = Listener(self._respond, context)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.port}"
        """The URL of the server: loopback, on a free port."""
        self.on("GET", "/version", Answer(body=_VERSION))
        self.on("GET", "/api", Answer(body={"kind": "APIVersions", "versions": ["v1"]}))
        self.on("GET", "/api/v1", Answer(body=_build_core_resources()))
        self.on("GET", "/apis", Answer(body={"kind": "APIGroupList", "apiVersion": "v1", "groups": []}))
        self.on(
            "GET",
            "/api/v1/namespaces",
            Answer(body=_build_namespaces("default", "kube-public", "kube-system")),
        )
        self.on("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", _review_self)

    def on(self, method: str, path: str, answer: Answers) -> None:
        """Respond to requests for `path` (any query) with `answer`, or with what that function returns."""
        self._routes[method, path] = answer

    def watch(self, path: str) -> Watch:
        """Return a new watch at `path`."""
        watch = Watch()
        self._watches.append(watch)
        self.on("GET", path, watch)
        return watch

    def config(
        self, *, token: str | None = None, identity: KeyPair | None = None, **fields: Any
    ) -> ClientConfig:
        """Return a config for this server; `fields` are other fields of ClientConfig."""
        values: dict[str, Any] = {"server": self.url}
        if self.url.startswith("https"):
            values["ca_data"] = self.authority.pem
        if token is not None:
            values["token"] = Secret(token)
        if identity is not None:
            values |= {"client_cert_data": identity.certificate, "client_key_data": Secret(identity.key)}
        return ClientConfig(**(values | fields))

    def kubeconfig(self, user: Mapping[str, Any], cluster: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a kubeconfig document for this server with one user."""
        trust = {}
        if self.url.startswith("https"):
            trust = {"certificate-authority-data": base64.b64encode(self.authority.pem).decode()}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "local", "user": "tester"}}],
            "clusters": [{"name": "local", "cluster": {"server": self.url} | trust | dict(cluster or {})}],
            "users": [{"name": "tester", "user": dict(user)}],
        }

    @property
    def open_connections(self) -> int:
        """The number of open connections."""
        return self._listener.open_connections

    def hang_up(self) -> None:
        """Close all connections at once, also in the middle of a response. New ones are accepted."""
        self._listener.hang_up()

    def close(self) -> None:
        """Stop the server, and close all connections."""
        for watch in self._watches:
            watch.end()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _build_context(self, pair: KeyPair, require_certificate: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_client_cert(context, ClientCertificate(pair.certificate, Secret(pair.key)))
        # As a real API server does: it requests a certificate from all clients, and most have none.
        context.verify_mode = ssl.CERT_REQUIRED if require_certificate else ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self._authenticate is not None:
            context.verify_flags |= VERIFY_NO_CHECK_TIME
        context.load_verify_locations(cadata=self.client_authority.pem.decode())
        return context

    def _respond(self, request: RawRequest) -> Answer:
        received = Received(
            method=request.method,
            path=request.path,
            headers=request.headers,
            body=request.body,
            user=self._find_user(request),
            certificate=request.certificate,
            sni=request.sni,
            connection=request.connection,
        )
        if self._authenticate is not None:
            received = replace(received, user=self._authenticate(received))
        self.requests.append(received)
        if received.user is None and not self._allow_anonymous:
            return Answer(401, _build_status(401, "Unauthorized", "Unauthorized"))
        path = request.path.partition("?")[0]
        # A real API server ignores a trailing slash in most paths.
        answer = self._routes.get((request.method, path)) or self._routes.get(
            (request.method, path.removesuffix("/"))
        )
        if answer is None:
            message = "the server could not find the requested resource"
            return Answer(404, _build_status(404, "NotFound", message))
        return answer if isinstance(answer, Answer) else answer(received)

    def _find_user(self, request: RawRequest) -> str | None:
        header = next((value for name, value in request.headers if name.lower() == "authorization"), "")
        scheme, _, value = header.partition(" ")
        if scheme == "Bearer":
            return self.tokens.get(value)
        if scheme == "Basic":
            with suppress(ValueError):
                value = base64.b64decode(value).decode(errors="replace")
            name, _, password = value.partition(":")
            return name if self.passwords.get(name) == password else None
        return None if request.certificate is None else _read_common_name(request.certificate)


_VERSION = {
    "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "0" * 40, "gitTreeState": "clean",
    "buildDate": "2026-04-22T00:00:00Z", "goVersion": "go1.26", "compiler": "gc", "platform": "linux/amd64",
}  # fmt: skip
_CORE_KINDS = {
    "ConfigMap": "cm",
    "Namespace": "ns",
    "Node": "no",
    "Pod": "po",
    "Secret": "",
    "Service": "svc",
}


def _build_core_resources() -> dict[str, Any]:
    resources = [
        {
            "name": f"{kind.lower()}s",
            "singularName": kind.lower(),
            "kind": kind,
            "namespaced": kind not in ("Namespace", "Node"),
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }
        | ({"shortNames": [short]} if short else {})
        for kind, short in _CORE_KINDS.items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": resources}


def _read_common_name(certificate: bytes) -> str | None:
    subject = x509.load_der_x509_certificate(certificate).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else None


def _build_namespaces(*names: str) -> dict[str, Any]:
    items = [{"metadata": {"name": name}, "status": {"phase": "Active"}} for name in names]
    return {"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}


def _build_status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip


def _review_self(request: Received) -> Answer:
    user = {"username": request.user or "system:anonymous"}
    kind = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    return Answer(201, kind | {"status": {"userInfo": user}})
