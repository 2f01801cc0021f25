"""What a token endpoint is asked, and what its replies mean (9.5-9.11, 9.13, 9.15). Pure.

Nothing here raises for what a stranger says: what is wrong is returned, so that no traceback holds a reply.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import quote_plus, urlencode

from kubeauth._credentials.credential import find_header_problem
from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.go import parse_rfc3339
from kubeauth._secret import Secret
from kubeauth._transport.types import URLLike
from kubeauth.registry._challenge import Challenge
from kubeauth.registry._scopes import Scopes
from kubeauth.registry._values import RegistryCredential

MAX_REPLY = 2**20
# Whoever gives less means this (9.10); who gives more than a year may as well give a year.
_SHORTEST, _LONGEST = 60.0, 365 * 86400.0
# So much earlier, since no two clocks agree and a request takes its time.
_SKEW = 10.0
# Of what a stranger says, in an error.
_SHOWN = 200

_CLIENT = "kubeauth"
# Docker's way to say that the password is an identity token.
_TOKEN_USER = "<token>"  # noqa: S105 -- a name

Origin = tuple[str, bytes, int | None]
"""Scheme, host and port; None is the port that the scheme has anyway."""


def origin_of(url: URLLike) -> Origin:
    return url.scheme, url.raw_host, url.port


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a registry's tokens come from."""

    realm: str
    service: str


@dataclass(frozen=True, slots=True)
class Key:
    """What a token is good for, and whose it is (9.11)."""

    endpoint: Endpoint
    scopes: Scopes
    identity: str
    """The digest of the credential that it was given for."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to a token endpoint."""

    url: str
    authorization: Secret[str] | None = None
    form: Secret[bytes] | None = None
    """None: a GET."""


@dataclass(frozen=True, slots=True)
class Body:
    """Of an answer. There may be a token in it."""

    data: bytes = field(default=b"", repr=False)
    is_too_long: bool = False

    @classmethod
    def of(cls, data: bytes | bytearray, limit: int) -> Body:
        """All of it or nothing."""
        return cls(bytes(data)) if len(data) <= limit else TOO_LONG


NO_BODY = Body()
TOO_LONG = Body(is_too_long=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, of a registry or of a token endpoint."""

    status: int
    is_own: bool
    """Whether it came from where the request was sent to, and not from where that was redirected."""
    challenges: tuple[str, ...] = ()
    encoding: str = ""
    body: Body = NO_BODY
    """Of a token endpoint's, and of a refusal."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a registry is shown, and until when: by the clock that nobody sets, and by the calendar."""

    authorization: Secret[str]
    ends: float
    expires: float

    def is_good(self, now: float, date: float) -> bool:
        return now < self.ends and date < self.expires


@dataclass(frozen=True, slots=True)
class NoToken:
    """Why there is none."""

    reason: str
    status: int | None = None
    is_refusal: bool = False
    """Whether the credential was refused: another may be welcome."""
    is_passing: bool = False
    """Whether the endpoint has no time now: no credential is to blame."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """This endpoint does not know the POST: ask by GET (9.8)."""


def endpoint_of(challenge: Challenge, registry: URLLike, url: Callable[[str], URLLike]) -> Endpoint | str:
    """Where a Bearer challenge says that tokens are; or why nobody is asked there (9.6, 9.15)."""
    realm = challenge.realm.partition("#")[0]
    found: URLLike | None = None
    if realm.isascii() and realm.isprintable() and not set(realm) & set(' \\"<>^`{|}'):
        with suppress(Exception):  # each library has its own class for it
            found = url(realm)
    if found is None or found.scheme not in ("https", "http") or not _is_address(found):
        return "its realm is not an absolute http or https URL"
    if "@" in realm.partition("://")[2].partition("/")[0].partition("?")[0]:
        return "its realm has a user name in it"
    if found.scheme == "http" and registry.scheme != "http":
        return "its realm is http, where anybody on the way can read the password, and the registry is https"
    if found.scheme == "http" and not _are_one(found.raw_host, registry.raw_host):
        return "its realm is http on another host than the registry"
    return Endpoint(realm, challenge.service)


def _is_address(url: URLLike) -> bool:
    """Whether it can be connected to. If not, each library and event loop raises something else."""
    host = url.raw_host.removesuffix(b".")
    return all(0 < len(label) <= 63 for label in host.split(b".")) and 0 < (url.port or 443) <= 65535


def _are_one(one: bytes, other: bytes) -> bool:
    return one == other or (_is_loopback(one) and _is_loopback(other))


def _is_loopback(host: bytes) -> bool:
    if host == b"localhost":
        return True
    try:
        return ip_address(host.decode("ascii", "replace")).is_loopback
    except ValueError:
        return False


def basic(credential: RegistryCredential) -> Secret[str] | str:
    """The header for a name and a password; or why there is none (9.5)."""
    if credential.is_anonymous:
        return "there is no credential to show"
    if ":" in credential.username:
        return "its user name has a colon in it, where the password would begin"
    if not credential.username and not credential.password:
        return "it is a token, and a name and a password are asked for"
    return _basic(credential.username, credential.password)


def call_for(endpoint: Endpoint, scopes: Scopes, credential: RegistryCredential) -> Call | str:
    """How to ask for a token: by POST for an identity token (9.8, 9.9), else by GET (9.7). Or why not."""
    if identity := _identity_token(credential):
        form = {"grant_type": "refresh_token", "service": endpoint.service, "client_id": _CLIENT}
        form |= {"scope": " ".join(scopes), "refresh_token": identity}
        given = {name: value for name, value in form.items() if value}
        return Call(endpoint.realm, form=Secret(urlencode(given, errors="surrogatepass").encode()))
    if credential.is_anonymous:
        return Call(_with_query(endpoint, scopes))
    header = basic(credential)
    return header if isinstance(header, str) else Call(_with_query(endpoint, scopes), header)


def call_by_get(endpoint: Endpoint, scopes: Scopes, credential: RegistryCredential) -> Call:
    """For an identity token where there is no POST: it goes in the place of a password."""
    name = credential.username if ":" not in credential.username else ""
    return Call(_with_query(endpoint, scopes), _basic(name or _TOKEN_USER, _identity_token(credential)))


def token_of(
    reply: Reply, credential: RegistryCredential, *, by_post: bool, now: float, date: float
) -> Token | NoToken | NotAsked:
    """What came of a call (9.10, 9.13)."""
    if not reply.is_own:
        return NoToken("it redirects to another host, whose tokens are not taken", reply.status)
    if by_post and reply.status in (404, 405):
        return NotAsked()
    if not 200 <= reply.status <= 299:
        return _failure(reply, credential, by_post=by_post)
    if reply.encoding.strip().lower() not in ("", "identity"):
        return NoToken("its reply is compressed, which it was asked not to do", reply.status)
    if reply.body.is_too_long:
        return NoToken(f"its reply is longer than {MAX_REPLY:,} bytes", reply.status)
    found = _object(reply.body.data)
    if found is None:
        return NoToken("its reply is not a JSON object", reply.status)
    names = ("access_token", "token") if by_post else ("token", "access_token")
    text = next(filter(None, (_text(found, name) for name in names)), "")
    if not text:
        return NoToken("there is no token in its reply", reply.status)
    if why := find_header_problem(text):
        return NoToken(f"its token cannot be sent: {why}", reply.status)
    seconds = _lifetime(found, date) - _SKEW
    return Token(Secret(f"Bearer {text}"), now + seconds, date + seconds)


def registry_token(credential: RegistryCredential) -> Secret[str] | str:
    """The header for a token that a registry takes as it is (9.9); or why it cannot be sent."""
    why = find_header_problem(credential.registry_token)
    return f"its token cannot be sent: {why}" if why else Secret(f"Bearer {credential.registry_token}")


def _identity_token(credential: RegistryCredential) -> str:
    is_token = credential.username == _TOKEN_USER
    return credential.identity_token or (credential.password if is_token else "")


def _basic(name: str, password: str) -> Secret[str]:
    pair = f"{name}:{password}".encode("utf-8", "surrogatepass")
    return Secret(f"Basic {b64encode(pair).decode()}")


def _with_query(endpoint: Endpoint, scopes: Scopes) -> str:
    """The realm keeps the query that it has."""
    query = [("service", endpoint.service)] if endpoint.service else []
    query += [("scope", scope) for scope in scopes]
    if not query:
        return endpoint.realm
    # Colons and slashes stay: some endpoints compare before they decode.
    more = urlencode(query, safe="/:*,", errors="replace")
    if "?" not in endpoint.realm:
        return f"{endpoint.realm}?{more}"
    return f"{endpoint.realm}{'' if endpoint.realm[-1] in '?&' else '&'}{more}"


def _failure(reply: Reply, credential: RegistryCredential, *, by_post: bool) -> NoToken:
    said = _said(reply.body.data, credential)
    reason = f"it answered {reply.status}{f': {said}' if said else ''}"
    # RFC 6749 has 400 for a grant that is no good any more.
    refusals = (400, 401, 403) if by_post else (401, 403)
    is_passing = reply.status == 429 or reply.status >= 500
    return NoToken(reason, reply.status, is_refusal=reply.status in refusals, is_passing=is_passing)


def _said(body: bytes, credential: RegistryCredential) -> str:
    """Those members that are meant for people, in quotes, on one line, without a secret."""
    found = _object(body) or {}
    errors = found.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    said = _text(first, "message") if isinstance(first, dict) else ""
    said = said or _text(found, "error_description") or _text(found, "error") or _text(found, "details")
    for secret in filter(None, (credential.password, credential.identity_token)):
        for spelled in (
            secret,
            quote_plus(secret, errors="replace"),
            _basic(credential.username, secret).reveal()[6:],
        ):
            said = said.replace(spelled, "<hidden>")
    said = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."
    return json.dumps(said, ensure_ascii=False) if said else ""


def _object(body: bytes) -> Mapping[str, Json] | None:
    try:
        found = read_json(body)
    except DocumentError:
        return None
    return found if isinstance(found, dict) else None


def _text(found: Mapping[str, Json], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _lifetime(found: Mapping[str, Json], date: float) -> float:
    """How long a token is still good for. The endpoint's clock is believed if it is about right."""
    seconds = found.get("expires_in")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        seconds = 0
    lifetime = min(max(float(seconds), _SHORTEST), _LONGEST)
    with suppress(ValueError, OverflowError):
        issued = parse_rfc3339(_text(found, "issued_at"))
        if issued is not None and 0 <= date - issued <= lifetime / 2:
            return lifetime - (date - issued)
    return lifetime
