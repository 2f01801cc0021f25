"""Credentials that stand in the kubeconfig or in files it names (K53-K64, I1, I8)."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._files import read_file, reason
from kubeauth._config._token_file import read_token_file
from kubeauth._config._validate import shown_path
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._credential import Credential, Identity, header_problem
from kubeauth._credentials._dates import dates_of
from kubeauth._credentials._keypair import check_identity
from kubeauth._credentials._renewing import Renewing, Watched
from kubeauth._credentials._status import Status, kind_of
from kubeauth._parsing.go import to_datetime
from kubeauth._secret import Secret
from kubeauth.errors import ClientCertificateError, ConfigError, KubeAuthError, TokenFileError

# A file's token is good for a minute, and is read ten seconds before that is over.
TOKEN_EVERY = 50.0
PAIR_EVERY = 1.0


class StaticSource(Renewing[Credential]):
    """A token, a token file, a password, a client certificate, or nothing.

    Raises here for what can be known before the first request: an unreadable file, a key that does not
    match its certificate, a token that cannot be sent.
    """

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._header, header_source = _authorization(config, clock)
        self._identity, identity_source = _identity(config, clock)
        self._sources = [source for source in (header_source, identity_source) if source]
        super().__init__(clock)

    def _watched(self) -> list[Watched[str] | Watched[Identity]]:
        return [part for part in (self._header, self._identity) if isinstance(part, Watched)]

    def _made(self) -> tuple[Credential, float]:
        header = self._header.value if isinstance(self._header, Watched) else self._header
        identity = self._identity.value if isinstance(self._identity, Watched) else self._identity
        return Credential(header, identity), min((part.due for part in self._watched()), default=math.inf)

    def _renew(self, now: float, *, overslept: bool) -> None:
        for part in self._watched():
            if overslept or now >= part.due:
                part.renew(now)

    def status(self, other_error: KubeAuthError | None = None) -> Status:
        """Where the credential comes from, and how it is doing."""
        credential = self._value
        dates = dates_of(credential.identity) if credential.identity else None
        return Status(
            source=", ".join(self._sources) or "none",
            kind=kind_of(credential),
            expires=to_datetime(dates.not_after) if dates else None,
            last_error=next((part.error for part in self._watched() if part.error), other_error),
        )


def _authorization(config: ClientConfig, clock: Clock) -> tuple[Watched[str] | str | None, str]:
    """The Authorization header, and where it comes from."""
    userinfo = urlsplit(config.server)
    if userinfo.username or userinfo.password:
        # As Go: a password in the URL is sent before any other header is thought of.
        return _basic(unquote(userinfo.username or ""), unquote(userinfo.password or "")), "server URL"
    if config.username and (config.token or config.token_file):
        raise ConfigError(
            "username/password or bearer token may be set, but not both. Remove one of the two."
        )
    if config.token_file:
        return _from_file(
            config.token_file, config.token, clock
        ), f"token file {shown_path(config.token_file)}"
    if config.token:
        if why := header_problem(config.token.reveal()):
            raise ConfigError(f"the token cannot be sent: {why}. Check how it came into the kubeconfig.")
        return _bearer(config.token), "token"
    if config.username:
        return _basic(
            config.username, config.password.reveal() if config.password else ""
        ), "username and password"
    return None, ""


def _bearer(token: Secret[str]) -> str:
    return f"Bearer {token.reveal()}"


def _basic(username: str, password: str) -> str:
    return f"Basic {b64encode(f'{username}:{password}'.encode('utf-8', 'surrogatepass')).decode()}"


def _from_file(path: str, spare: Secret[str] | None, clock: Clock) -> Watched[str]:
    """The file's token wins as soon as it can be read; `spare` is for as long as it never could (K60)."""

    def read() -> str:
        token = read_token_file(path)
        if why := header_problem(token.reveal()):
            raise TokenFileError(
                f"the token in {shown_path(path)} cannot be sent: {why}. Check who writes that file",
                path=shown_path(path),
            )
        return _bearer(token)

    now = clock.monotonic()
    try:
        return Watched(read, read(), due=now + TOKEN_EVERY, every=TOKEN_EVERY, insistent=True)
    except TokenFileError:
        stripped = Secret(spare.reveal().strip()) if spare else None
        if not stripped or header_problem(stripped.reveal()):
            raise
        return Watched(read, _bearer(stripped), due=now, every=TOKEN_EVERY, insistent=True)


def _identity(config: ClientConfig, clock: Clock) -> tuple[Watched[Identity] | Identity | None, str]:
    """The client certificate, and where it comes from. Inline data on either side makes it constant (K54)."""
    has_certificate = bool(config.client_cert_data or config.client_cert_file)
    if has_certificate != bool(config.client_key_data or config.client_key_file):
        missing = "key" if has_certificate else "certificate"
        raise ClientCertificateError(
            f"the client certificate cannot be used: its {missing} is not set. Set both."
        )
    if not has_certificate:
        return None, ""
    path = "" if config.client_cert_data else shown_path(config.client_cert_file or "")

    def read() -> Identity:
        return Identity(
            config.client_cert_data or _read(config.client_cert_file or "", "certificate"),
            config.client_key_data or Secret(_read(config.client_key_file or "", "key")),
        )

    def check(identity: Identity) -> None:
        check_identity(identity, where=path)

    first = read()
    check(first)
    source = f"client certificate {path}".strip()
    if config.client_cert_data or config.client_key_data:
        return first, source
    return Watched(read, first, due=clock.monotonic() + PAIR_EVERY, every=PAIR_EVERY, check=check), source


def identity_reader(config: ClientConfig, clock: Clock) -> Callable[[], Identity | None]:
    """What reads the client certificate again, if it is in files. Raises here for one that cannot be used."""
    part, _ = _identity(config, clock)

    def read() -> Identity | None:
        if isinstance(part, Watched):
            part.renew(clock.monotonic())
            return part.value
        return part

    return read


def _read(path: str, half: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        why = reason(error)
    raise ClientCertificateError(
        f"the client certificate cannot be used: its {half} file {shown_path(path)} cannot be read: {why}. "
        "Check the path and its permissions."
    )
