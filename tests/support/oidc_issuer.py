"""A small OpenID Connect issuer on loopback: enough for client-go, for plugins, and for a real API server.

    with Issuer(lifetime=30) as issuer:
        issuer.url, issuer.ca, issuer.client_id      # for a kubeconfig, or for --oidc-issuer-url
        token = issuer.id_token("alice", groups=["admins"])
        refresh = issuer.new_refresh_token("alice")

An API server takes its tokens with --oidc-issuer-url=URL --oidc-ca-file=FILE --oidc-client-id=kubernetes
--oidc-username-claim=sub --oidc-groups-claim=groups; give `port` and `key` to have the same issuer again.
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
    """A key to sign with."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and how it was answered."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    form: Mapping[str, str] = field(repr=False)
    status: int
    error: str = ""
    """What the issuer said was wrong, such as `invalid_grant`."""

    @property
    def grant(self) -> str:
        return self.form.get("grant_type", "")

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Person:
    subject: str
    groups: tuple[str, ...] = ()
    nonce: str = ""


class _Refused(Exception):
    """An answer of the token endpoint that is not a token."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


class Issuer:
    """Answers as it is told to, and remembers what it was asked.

    `rotating`: each refresh token is good once, and comes with the next. `client_auth` is how a client must
    say its secret: `any`, in the `header`, or in the `params`. What can be changed while it runs: `lifetime`,
    `delay`, `answers`, `with_id_token`, and `gate`, which holds up all answers while it is cleared.
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
        """Of whoever logs in by password or in a browser."""
        self.login_as = "alice"
        """Who comes to the authorization endpoint: nobody is asked anything there."""
        self.with_id_token = True
        self.delay = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.gates: dict[str, threading.Event] = {}
        """By path: the same for some answers only."""
        self.arrivals: queue.SimpleQueue[str] = queue.SimpleQueue()
        """The path of each request, before it is answered."""
        self.answers: dict[str, Answer] = {}
        """By path: said instead of the truth, as long as it is there."""
        self.requests: list[Asked] = []
        # Guards everything that a request changes.
        self._lock = threading.Lock()
        self._refresh: dict[str, Person] = {}
        self._codes: dict[str, tuple[Person, dict[str, str]]] = {}
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
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }
        self._jwk["kid"] = _encoded(hashlib.sha256(self._jwk["n"].encode()).digest()[:9])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Takes no more connections, and ends those there are."""
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
        """Signed, and good for so many seconds (`lifetime` if it is not said). No two are the same."""
        now = time.time()
        payload: dict[str, Any] = {
            "iss": self.url,
            "sub": subject,
            "aud": audience or self.client_id,
            "iat": int(now),
            # Whole seconds, as everybody writes it.
            "exp": int(now + (self.lifetime if seconds is None else seconds)),
            "jti": secrets.token_hex(8),
        }
        if groups := list(groups):
            payload["groups"] = groups
        return self.signed({**payload, **claims})

    def signed(self, payload: Mapping[str, Any]) -> str:
        """A JWT of exactly these claims."""
        header = {"alg": "RS256", "typ": "JWT", "kid": self._jwk["kid"]}
        text = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(payload).encode())}"
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"

    def new_refresh_token(self, subject: str = "alice", groups: Iterable[str] = ()) -> str:
        """One that the token endpoint will take."""
        with self._lock:
            return self._new_refresh_token_locked(Person(subject, tuple(groups)))

    def _new_refresh_token_locked(self, person: Person) -> str:
        token = f"refresh-{secrets.token_hex(12)}"
        self._refresh[token] = person
        return token

    def revoke_all(self) -> None:
        """No refresh token that was given so far is good any more."""
        with self._lock:
            self._refresh.clear()

    def asked(self, grant: str = "refresh_token") -> list[Asked]:
        """The requests for tokens, in order."""
        with self._lock:
            return [asked for asked in self.requests if asked.grant == grant]

    @property
    def refreshes(self) -> int:
        """How often somebody came with a refresh token, good or not."""
        return len(self.asked())

    @property
    def refused(self) -> list[str]:
        """What was wrong with the requests that were refused."""
        with self._lock:
            return [asked.error for asked in self.requests if asked.error]

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
            except _Refused as refused:
                error = refused.error
                answer = Answer(status=refused.status, body={"error": error})
            self.requests.append(
                Asked(request.method, request.path, request.headers, form, answer.status, error)
            )
        return answer

    def _answer_locked(self, path: str, request: RawRequest, form: dict[str, str]) -> Answer:
        if path == CONFIGURATION:
            return Answer(body=self._configuration())
        if path == KEYS:
            return Answer(body={"keys": [self._jwk]})
        if path == AUTHORIZE:
            return self._authorized_locked(dict(parse_qsl(urlsplit(request.path).query)))
        if path == TOKEN and request.method == "POST":
            self._check_client(request, form)
            person, refresh = self._granted_locked(form)
            body: dict[str, Any] = {
                "access_token": secrets.token_hex(8),
                "token_type": "Bearer",
                "expires_in": int(self.lifetime),
            }
            if self.with_id_token:
                nonce: dict[str, Any] = {"nonce": person.nonce} if person.nonce else {}
                body["id_token"] = self.id_token(person.subject, groups=person.groups, **nonce)
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
        name, secret, way = form.get("client_id", ""), form.get("client_secret", ""), "params"
        if header.startswith("Basic "):
            name, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
            name, secret, way = unquote_plus(name), unquote_plus(secret), "header"
        if (name, secret) != (self.client_id, self.client_secret) or self.client_auth not in ("any", way):
            raise _Refused(401, "invalid_client")

    def _granted_locked(self, form: Mapping[str, str]) -> tuple[Person, str]:
        """Who it is, and the refresh token that goes with the answer, if any."""
        match form.get("grant_type"):
            case "refresh_token":
                old = form.get("refresh_token", "")
                person = self._refresh.get(old)
                if person is None:
                    raise _Refused(400, "invalid_grant")
                if not self.rotating:
                    return person, ""
                del self._refresh[old]
            case "password":
                name = form.get("username", "")
                if name not in self.passwords or self.passwords[name] != form.get("password"):
                    raise _Refused(400, "invalid_grant")
                person = Person(name, self.groups.get(name, ()))
            case "authorization_code":
                person, wanted = self._codes.pop(form.get("code", ""), (None, {}))
                if person is None or wanted.get("redirect_uri") != form.get("redirect_uri"):
                    raise _Refused(400, "invalid_grant")
                if not _proves(wanted, form.get("code_verifier", "")):
                    raise _Refused(400, "invalid_grant")
            case _:
                raise _Refused(400, "unsupported_grant_type")
        return person, self._new_refresh_token_locked(person)

    def _authorized_locked(self, query: dict[str, str]) -> Answer:
        """The browser's part: whoever comes is `login_as`, and is sent back with a code at once."""
        code = secrets.token_hex(8)
        person = Person(self.login_as, self.groups.get(self.login_as, ()), query.get("nonce", ""))
        self._codes[code] = person, query
        back = urlencode({"code": code, "state": query.get("state", "")})
        return Answer(status=302, headers={"Location": f"{query.get('redirect_uri', '')}?{back}"})


def _proves(wanted: Mapping[str, str], verifier: str) -> bool:
    """PKCE: whether who comes with the code is who asked for it."""
    challenge = wanted.get("code_challenge")
    if challenge is None:
        return True
    if wanted.get("code_challenge_method") == "S256":
        return _encoded(hashlib.sha256(verifier.encode()).digest()) == challenge
    return verifier == challenge


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
