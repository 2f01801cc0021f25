"""A small OpenID Connect issuer on loopback, for client-go, for plugins, and for a real API server.

    with Issuer(lifetime=30) as issuer:
        issuer.url, issuer.ca, issuer.client_id      # for a kubeconfig, or for --oidc-issuer-url
        token = issuer.id_token("alice", groups=["admins"])
        refresh = issuer.new_refresh_token("alice")

An API server accepts its tokens with --oidc-issuer-url=URL --oidc-ca-file=FILE --oidc-client-id=kubernetes
--oidc-username-claim=sub --oidc-groups-claim=groups; pass `port` and `key` to start the same issuer again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import queue
import secrets
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth._secret import Secret
from kubeauth.testing import Answer, Authority, KeyPair
from kubeauth.testing._http import Listener, RawRequest

NAMES = ("127.0.0.1", "localhost", "::1")
CONFIGURATION, KEYS, TOKEN, AUTHORIZE = "/.well-known/openid-configuration", "/keys", "/token", "/authorize"


def new_key() -> rsa.RSAPrivateKey:
    """A key that signs tokens."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True, slots=True)
class IssuerRequest:
    """One request and its result."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    form: Mapping[str, str] = field(repr=False)
    status: int
    error: str = ""
    """The error code in the response, such as `invalid_grant`."""

    @property
    def grant(self) -> str:
        return self.form.get("grant_type", "")

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class User:
    subject: str
    groups: tuple[str, ...] = ()
    nonce: str = ""


class _TokenError(Exception):
    """An error response of the token endpoint."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


class Issuer:
    """Issues tokens, and records all requests.

    With `rotating` each refresh token can be used once, and the response has the next one. `client_auth` is how a
    client must send its secret: `any`, in the `header`, or in the `params`. `lifetime`, `delay`, `answers`,
    `with_id_token` and `gate`, which blocks all responses while it is cleared, can be changed while it runs.
    """

    def __init__(
        self,
        *,
        authority: Authority | None = None,
        certificate: KeyPair | None = None,
        key: rsa.RSAPrivateKey | None = None,
        port: int = 0,
        client_id: str = "kubernetes",
        client_secret: str = "",
        client_auth: str = "any",
        lifetime: float = 3600.0,
        rotating: bool = False,
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        self.authority = authority or Authority("issuer CA")
        self.ca = self.authority.pem
        self.key = key or new_key()
        self.client_id, self.client_secret, self.client_auth = client_id, client_secret, client_auth
        self.lifetime = lifetime
        self.rotating = rotating
        self.passwords = dict(passwords or {})
        self.groups: dict[str, tuple[str, ...]] = {}
        """The groups of users who log in by password or in a browser."""
        self.login_as = "alice"
        """The user at the authorization endpoint, which shows no login page."""
        self.with_id_token = True
        self.delay = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.gates: dict[str, threading.Event] = {}
        """By path: as `gate`, for responses of this path only."""
        self.arrivals: queue.SimpleQueue[str] = queue.SimpleQueue()
        """The path of each request, before the response is sent."""
        self.answers: dict[str, Answer] = {}
        """By path: a response to send in place of the real one."""
        self.requests: list[IssuerRequest] = []
        # Guards everything that a request changes.
        self._lock = threading.Lock()
        self._refresh: dict[str, User] = {}
        self._codes: dict[str, tuple[User, dict[str, str]]] = {}
        pair = certificate or self.authority.server(*NAMES)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_client_cert(context, ClientCertificate(pair.certificate, Secret(pair.key)))
        self._listener = Listener(self._respond, context, port)
        self.port = self._listener.port
        self.url = f"https://127.0.0.1:{self.port}"
        numbers = self.key.public_key().public_numbers()
        self._jwk = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "n": _base64url_number(numbers.n),
            "e": _base64url_number(numbers.e),
        }
        self._jwk["kid"] = _base64url(hashlib.sha256(self._jwk["n"].encode()).digest()[:9])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the listener and all connections."""
        for gate in (self.gate, *self.gates.values()):
            gate.set()
        self._listener.close()

    def id_token(
        self,
        subject: str = "alice",
        seconds: float | None = None,
        groups: Iterable[str] = (),
        audience: str | None = None,
        **claims: Any,
    ) -> str:
        """A signed, unique token that expires in so many seconds, by default `lifetime`."""
        now = time.time()
        payload: dict[str, Any] = {
            "iss": self.url,
            "sub": subject,
            "aud": audience or self.client_id,
            "iat": int(now),
            # Whole seconds, as real issuers write it.
            "exp": int(now + (self.lifetime if seconds is None else seconds)),
            "jti": secrets.token_hex(8),
        }
        if groups := list(groups):
            payload["groups"] = groups
        return self.sign({**payload, **claims})

    def sign(self, payload: Mapping[str, Any]) -> str:
        """A JWT with exactly these claims."""
        header = {"alg": "RS256", "typ": "JWT", "kid": self._jwk["kid"]}
        text = f"{_base64url(json.dumps(header).encode())}.{_base64url(json.dumps(payload).encode())}"
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64url(signature)}"

    def new_refresh_token(self, subject: str = "alice", groups: Iterable[str] = ()) -> str:
        """A refresh token that the token endpoint accepts."""
        with self._lock:
            return self._new_refresh_token_locked(User(subject, tuple(groups)))

    def _new_refresh_token_locked(self, user: User) -> str:
        token = f"refresh-{secrets.token_hex(12)}"
        self._refresh[token] = user
        return token

    def revoke_all(self) -> None:
        """Revoke all refresh tokens."""
        with self._lock:
            self._refresh.clear()

    def token_requests(self, grant: str = "refresh_token") -> list[IssuerRequest]:
        """The requests for tokens, in order."""
        with self._lock:
            return [request for request in self.requests if request.grant == grant]

    @property
    def refreshes(self) -> int:
        """The number of requests with a refresh token, valid or not."""
        return len(self.token_requests())

    @property
    def errors(self) -> list[str]:
        """The error codes of all error responses."""
        with self._lock:
            return [request.error for request in self.requests if request.error]

    def _respond(self, request: RawRequest) -> Answer:
        path = urlsplit(request.path).path
        self.arrivals.put(path)
        self.gate.wait()
        if path in self.gates:
            self.gates[path].wait()
        if self.delay:
            time.sleep(self.delay)
        form = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
        with self._lock:
            error = ""
            try:
                answer = self.answers.get(path) or self._answer_locked(path, request, form)
            except _TokenError as token_error:
                error = token_error.error
                answer = Answer(status=token_error.status, body={"error": error})
            self.requests.append(
                IssuerRequest(request.method, request.path, request.headers, form, answer.status, error)
            )
        return answer

    def _answer_locked(self, path: str, request: RawRequest, form: dict[str, str]) -> Answer:
        if path == CONFIGURATION:
            return Answer(body=self._configuration())
        if path == KEYS:
            return Answer(body={"keys": [self._jwk]})
        if path == AUTHORIZE:
            return self._authorize_locked(dict(parse_qsl(urlsplit(request.path).query)))
        if path == TOKEN and request.method == "POST":
            self._check_client(request, form)
            user, refresh = self._grant_locked(form)
            body: dict[str, Any] = {
                "access_token": secrets.token_hex(8),
                "token_type": "Bearer",
                "expires_in": int(self.lifetime),
            }
            if self.with_id_token:
                nonce: dict[str, Any] = {"nonce": user.nonce} if user.nonce else {}
                body["id_token"] = self.id_token(user.subject, groups=user.groups, **nonce)
            if refresh:
                body["refresh_token"] = refresh
            return Answer(body=body)
        return Answer(status=404, body=b"no such page")

    def _configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": self.url + AUTHORIZE,
            "token_endpoint": self.url + TOKEN,
            "jwks_uri": self.url + KEYS,
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256", "plain"],
            "scopes_supported": ["openid", "offline_access", "groups"],
        }

    def _check_client(self, request: RawRequest, form: Mapping[str, str]) -> None:
        header = next((value for name, value in request.headers if name.lower() == "authorization"), "")
        name, secret, method = form.get("client_id", ""), form.get("client_secret", ""), "params"
        if header.startswith("Basic "):
            name, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
            name, secret, method = unquote_plus(name), unquote_plus(secret), "header"
        if (name, secret) != (self.client_id, self.client_secret) or self.client_auth not in ("any", method):
            raise _TokenError(401, "invalid_client")

    def _grant_locked(self, form: Mapping[str, str]) -> tuple[User, str]:
        """Return the user, and the new refresh token or an empty string."""
        match form.get("grant_type"):
            case "refresh_token":
                old = form.get("refresh_token", "")
                user = self._refresh.get(old)
                if user is None:
                    raise _TokenError(400, "invalid_grant")
                if not self.rotating:
                    return user, ""
                del self._refresh[old]
            case "password":
                name = form.get("username", "")
                if name not in self.passwords or self.passwords[name] != form.get("password"):
                    raise _TokenError(400, "invalid_grant")
                user = User(name, self.groups.get(name, ()))
            case "authorization_code":
                user, query = self._codes.pop(form.get("code", ""), (None, {}))
                if user is None or query.get("redirect_uri") != form.get("redirect_uri"):
                    raise _TokenError(400, "invalid_grant")
                if not _is_verified(query, form.get("code_verifier", "")):
                    raise _TokenError(400, "invalid_grant")
            case _:
                raise _TokenError(400, "unsupported_grant_type")
        return user, self._new_refresh_token_locked(user)

    def _authorize_locked(self, query: dict[str, str]) -> Answer:
        """Log in as `login_as`, and redirect back with a code at once."""
        code = secrets.token_hex(8)
        user = User(self.login_as, self.groups.get(self.login_as, ()), query.get("nonce", ""))
        self._codes[code] = user, query
        parameters = urlencode({"code": code, "state": query.get("state", "")})
        return Answer(status=302, headers={"Location": f"{query.get('redirect_uri', '')}?{parameters}"})


def _is_verified(query: Mapping[str, str], verifier: str) -> bool:
    """PKCE: whether the client that redeems the code is the one that requested it."""
    challenge = query.get("code_challenge")
    if challenge is None:
        return True
    if query.get("code_challenge_method") == "S256":
        return _base64url(hashlib.sha256(verifier.encode()).digest()) == challenge
    return verifier == challenge


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _base64url_number(value: int) -> str:
    return _base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))
