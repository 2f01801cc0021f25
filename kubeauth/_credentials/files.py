"""Static credentials, and values that are reloaded from files (K53-K64, I1, I8)."""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import unquote, urlsplit

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import describe_os_error, read_file, read_token_file
from kubeauth._config.validate import redact_path
from kubeauth._credentials.client_cert import check_client_cert, read_validity
from kubeauth._credentials.credential import (
    ClientCertificate,
    Credential,
    Status,
    credential_kind,
    find_header_problem,
)
from kubeauth._parsing.go import to_datetime
from kubeauth._runtime import Clock, ProcessBound, call_after_fork
from kubeauth._secret import Secret
from kubeauth.errors import (
    ClientCertificateError,
    ConfigError,
    CredentialError,
    KubeAuthError,
    TokenFileError,
)

logger = logging.getLogger("kubeauth.credentials")

T = TypeVar("T")

# How long after it is due a value may still be used, while another caller reloads it.
GRACE = 1.0


class PolledValue(Generic[T]):
    """A value that is reloaded from files at an interval. After a failure the previous value stays in use."""

    def __init__(
        self,
        read: Callable[[], T],
        first: T,
        *,
        due: float,
        interval: float,
        check: Callable[[T], None] = lambda _value: None,
        retry_every_call: bool = False,
    ) -> None:
        """`check` raises for an invalid value. With `retry_every_call`, each call retries after a failure."""
        self.value = first
        self.due = due
        self.error: KubeAuthError | None = None
        self._read = read
        self._check = check
        self._interval = interval
        self._retry_every_call = retry_every_call

    def reload(self, now: float) -> None:
        """Reload the value. If it is equal, the previous object stays, so that `is` detects a change."""
        failure: KubeAuthError | None = None
        try:
            value = self._read()
            if value != self.value:
                self._check(value)
                self.value = value
        except KubeAuthError as error:
            failure = error
        except Exception as error:
            # Without its message, which may quote the file.
            failure = CredentialError(f"a file cannot be reloaded ({type(error).__name__})")
        if failure is not None and str(failure) != str(self.error):
            logger.warning("%s; keeping the previously loaded value", str(failure).rstrip("."))
        self.error = failure
        if failure is None or not self._retry_every_call:
            self.due = now + self._interval


class ReloadingValue(ProcessBound, ABC, Generic[T]):
    """A value that is read without a lock, and reloaded by one caller when it is due.

    Concurrent callers use the previous value meanwhile, but wait if it was due long ago: it may have expired.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Guards reloading. Held while small files are read, never during `await`.
        self._reload_lock = threading.Lock()
        self._publish()
        call_after_fork(self)

    def _publish(self) -> None:
        self._value, self._due = self._build()
        self.is_constant = self._due == math.inf
        # By the wall clock too: the monotonic clock may stop while the machine sleeps.
        self._due_at = self._clock.time() + self._due - self._clock.monotonic()

    @property
    def current(self) -> T:
        """The value as it was loaded last, due or not."""
        return self._value

    def cached_if_fresh(self, now: float) -> T | None:
        """Return the value if it is not due yet. Most requests call nothing else."""
        return self._value if self.is_constant or not self._is_due(now) else None

    def _is_due(self, now: float, grace: float = 0.0) -> bool:
        return now >= self._due + grace or self._clock.time() >= self._due_at + grace

    def get(self) -> T:
        """Return the value, reloaded if it is due. Reads small files; raises nothing."""
        must_wait = self._is_due(self._clock.monotonic(), GRACE)
        if self._reload_lock.acquire(blocking=must_wait):
            try:
                now = self._clock.monotonic()
                if self._is_due(now):
                    self._reload(now, clock_jumped=self._clock.time() >= self._due_at)
                    self._publish()
            finally:
                self._reload_lock.release()
        return self._value

    async def aget(self) -> T:
        """As `get`, without blocking the event loop. When cancelled, the thread completes the reload."""
        from anyio import WouldBlock  # only callers with an event loop need anyio

        from kubeauth._runtime import loop_lock, run_in_thread

        lock = loop_lock(self)
        try:
            lock.acquire_nowait()
        except WouldBlock:
            if not self._is_due(self._clock.monotonic(), GRACE):
                return self._value
            await lock.acquire()
        try:
            if self._is_due(self._clock.monotonic()):
                await run_in_thread(self.get)
        finally:
            lock.release()
        return self._value

    def after_fork(self) -> None:
        """In a forked child the lock may be held by a thread that does not exist."""
        self._reload_lock = threading.Lock()

    @abstractmethod
    def _build(self) -> tuple[T, float]:
        """Return the value as it is now, and when it is due."""

    @abstractmethod
    def _reload(self, now: float, *, clock_jumped: bool) -> None:
        """Reload what is due; everything if the wall clock jumped. Called by one thread at a time."""


class PolledFile(ReloadingValue[T]):
    """A single PolledValue."""

    def __init__(self, polled: PolledValue[T], clock: Clock) -> None:
        self.polled = polled
        super().__init__(clock)

    def _build(self) -> tuple[T, float]:
        return self.polled.value, self.polled.due

    def _reload(self, now: float, *, clock_jumped: bool) -> None:
        self.polled.reload(now)


# As client-go: a token from a file is used for a minute, and reloaded ten seconds before.
TOKEN_INTERVAL = 50.0
CERT_INTERVAL = 1.0


class StaticSource(ReloadingValue[Credential]):
    """A token, a token file, a password, a client certificate, or nothing.

    The constructor raises for an unreadable file, a key that does not match its certificate, and a token that
    is not a valid HTTP header value.
    """

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._header, header_source = _build_authorization(config, clock)
        self._client_cert, cert_source = _build_client_cert(config, clock)
        self._sources = [source for source in (header_source, cert_source) if source]
        super().__init__(clock)

    def _polled(self) -> list[PolledValue[str] | PolledValue[ClientCertificate]]:
        return [part for part in (self._header, self._client_cert) if isinstance(part, PolledValue)]

    def _build(self) -> tuple[Credential, float]:
        header = self._header.value if isinstance(self._header, PolledValue) else self._header
        certificate = (
            self._client_cert.value if isinstance(self._client_cert, PolledValue) else self._client_cert
        )
        return Credential(header, certificate), min((part.due for part in self._polled()), default=math.inf)

    def _reload(self, now: float, *, clock_jumped: bool) -> None:
        for part in self._polled():
            if clock_jumped or now >= part.due:
                part.reload(now)

    def status(self, other_error: KubeAuthError | None = None) -> Status:
        """Return source, kind, expiry and last error."""
        credential = self._value
        validity = read_validity(credential.client_certificate) if credential.client_certificate else None
        return Status(
            source=", ".join(self._sources) or "none",
            kind=credential_kind(credential),
            expires=to_datetime(validity.not_after) if validity else None,
            last_error=next((part.error for part in self._polled() if part.error), other_error),
        )


def _build_authorization(config: ClientConfig, clock: Clock) -> tuple[PolledValue[str] | str | None, str]:
    """Return the Authorization header, and its source."""
    userinfo = urlsplit(config.server)
    if userinfo.username or userinfo.password:
        # As Go: a password in the URL takes precedence.
        return _basic_header(unquote(userinfo.username or ""), unquote(userinfo.password or "")), "server URL"
    if config.username and (config.token or config.token_file):
        raise ConfigError(
            "username/password or bearer token may be set, but not both. Remove one of the two."
        )
    if config.token_file:
        return _poll_token_file(
            config.token_file, config.token, clock
        ), f"token file {redact_path(config.token_file)}"
    if config.token:
        if why := find_header_problem(config.token.reveal()):
            raise ConfigError(
                f"the token is not a valid HTTP header value: {why}. Check how it came into the kubeconfig."
            )
        return _bearer_header(config.token), "token"
    if config.username:
        return _basic_header(
            config.username, config.password.reveal() if config.password else ""
        ), "username and password"
    return None, ""


def _bearer_header(token: Secret[str]) -> str:
    return f"Bearer {token.reveal()}"


def _basic_header(username: str, password: str) -> str:
    return f"Basic {b64encode(f'{username}:{password}'.encode('utf-8', 'surrogatepass')).decode()}"


def _poll_token_file(path: str, fallback: Secret[str] | None, clock: Clock) -> PolledValue[str]:
    """Return the token in the file; `fallback` is used until the file can be read (K60)."""

    def read() -> str:
        token = read_token_file(path)
        if why := find_header_problem(token.reveal()):
            raise TokenFileError(
                f"the token in {redact_path(path)} is not a valid HTTP header value: {why}. Check the "
                "program that writes it",
                path=redact_path(path),
            )
        return _bearer_header(token)

    now = clock.monotonic()
    try:
        return PolledValue(
            read, read(), due=now + TOKEN_INTERVAL, interval=TOKEN_INTERVAL, retry_every_call=True
        )
    except TokenFileError:
        stripped = Secret(fallback.reveal().strip()) if fallback else None
        if not stripped or find_header_problem(stripped.reveal()):
            raise
        return PolledValue(
            read, _bearer_header(stripped), due=now, interval=TOKEN_INTERVAL, retry_every_call=True
        )


def _build_client_cert(
    config: ClientConfig, clock: Clock
) -> tuple[PolledValue[ClientCertificate] | ClientCertificate | None, str]:
    """Return the client certificate, and its source. With inline data it is never reloaded (K54)."""
    has_certificate = bool(config.client_cert_data or config.client_cert_file)
    if has_certificate != bool(config.client_key_data or config.client_key_file):
        missing = "key" if has_certificate else "certificate"
        raise ClientCertificateError(
            f"the client certificate cannot be used: its {missing} is not set. Set both."
        )
    if not has_certificate:
        return None, ""
    path = "" if config.client_cert_data else redact_path(config.client_cert_file or "")

    def read() -> ClientCertificate:
        return ClientCertificate(
            config.client_cert_data or _read_cert_file(config.client_cert_file or "", "certificate"),
            config.client_key_data or Secret(_read_cert_file(config.client_key_file or "", "key")),
        )

    def check(certificate: ClientCertificate) -> None:
        check_client_cert(certificate, where=path)

    first = read()
    check(first)
    source = f"client certificate {path}".strip()
    if config.client_cert_data or config.client_key_data:
        return first, source
    return PolledValue(
        read, first, due=clock.monotonic() + CERT_INTERVAL, interval=CERT_INTERVAL, check=check
    ), source


def client_cert_reader(config: ClientConfig, clock: Clock) -> Callable[[], ClientCertificate | None]:
    """Return a function that reloads the client certificate, if it is in files. Raise if it is invalid."""
    part, _ = _build_client_cert(config, clock)

    def read() -> ClientCertificate | None:
        if isinstance(part, PolledValue):
            part.reload(clock.monotonic())
            return part.value
        return part

    return read


def _read_cert_file(path: str, part: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        why = describe_os_error(error)
    raise ClientCertificateError(
        f"the client certificate cannot be used: its {part} file {redact_path(path)} cannot be read: {why}. "
        "Check the path and its permissions."
    )
