"""One call: which contexts are asked for what, and what comes of it. Neither waits nor does HTTP."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import urlsplit

import httpx

from kubeauth._compat import get_request
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.contexts import Contexts
from kubeauth._config.urls import redact_url
from kubeauth._credentials.cache import select_provider
from kubeauth._credentials.credential import Credential
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._exec.config import ExecOptions
from kubeauth._secret import Secret
from kubeauth._transport.base import get_source, parse_server
from kubeauth._transport.redaction import iter_causes
from kubeauth.errors import ClientCertificateError, ConfigError, CredentialError, KubeAuthError, TLSError
from kubeauth.fleet._answer import Answer, Failure, failure_of_status

Path = str | Callable[[ClientConfig], str]

# What is wrong with one context, and not with the call.
FAILURES = (KubeAuthError, httpx.RequestError, OSError)

CONCURRENCY = 32
TIMEOUT = 30.0
MOST_BYTES = 10 * 2**20
MOST_REDIRECTS = 10
# As zlib has it: with gzip's header, and the largest window.
_GZIP = 31
# Some servers have a few. Each costs a copy of what follows.
_MOST_MEMBERS = 100

_NOBODY_TO_ASK = "many clusters are asked at once, and nobody could tell their questions apart"


class TooLarge(KubeAuthError):
    """An answer that has more bytes than one may have."""


class OfTheCaller(Exception):
    """What a function of the caller's raised: no failure of a context, whatever it is."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


@dataclass(frozen=True, slots=True)
class Prepared:
    """A context that can be asked."""

    config: ClientConfig
    url: str
    source: RefreshableSource | None
    """Whoever gives its credential; None if it stands in the config, or if there is none."""

    def signed(self, credential: Credential | None) -> ClientConfig:
        """The config with that credential in the place of whoever gave it."""
        if credential is None:
            return self.config
        token, identity = credential.authorization, credential.client_certificate
        config = replace(
            self.config,
            exec=None,
            oidc=None,
            token=Secret(token.removeprefix("Bearer ")) if token else None,
        )
        if identity is None:
            return config
        return replace(
            config,
            client_cert_data=identity.certificate,
            client_key_data=identity.key,
            client_cert_file=None,
            client_key_file=None,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server said."""

    status_code: int
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked of whom."""

    contexts: Contexts
    names: tuple[str, ...]
    path: Path = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    concurrency: int
    timeout: float | None
    most_bytes: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(f"concurrency must be 1 or more; it is {self.concurrency}")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"timeout must be more than 0 seconds, or None; it is {self.timeout}")
        if isinstance(self.path, str):
            _check(self.path)

    @property
    def workers(self) -> int:
        """How many are asked at a time."""
        return min(self.concurrency, len(self.names))

    def prepared(self, name: str) -> Prepared:
        """The context `name`, resolved. Reads files, and asks nobody. KubeAuthError."""
        config = self.contexts.config(name)
        source = get_source(config) if select_provider(config) is not None else None
        path = self.path if isinstance(self.path, str) else _called(self.path, config)
        _check(path)
        parse_server(config, httpx.URL)  # it may be none
        # Not left to httpx: a path of two slashes would be another host's.
        server = httpx.URL(config.server).copy_with(userinfo=b"")
        url = f"{str(server).rstrip('/')}{path}"
        return Prepared(config, url, cast(RefreshableSource | None, source))  # who is asked has such a one

    def left(self, began: float) -> float | None:
        """The seconds that a context may still take; None for any. An error if there are none."""
        if self.timeout is None:
            return None
        left = self.timeout - (now() - began)
        if left <= 0:
            raise self.too_late()
        return left

    def too_late(self) -> httpx.TimeoutException:
        return httpx.TimeoutException(
            f"no whole answer within {self.timeout:g} s. Give it more time, or look at the server."
        )

    def headers_for(self, config: ClientConfig) -> Mapping[str, str]:
        """What goes along. Compressed is asked for what can be unpacked here, within the limit."""
        return self.headers if config.disable_compression else {"Accept-Encoding": "gzip", **self.headers}

    def decoded(self, body: bytes, encoding: str) -> bytes:
        """The body that was sent in that encoding. Never more of it in memory than it may have."""
        if not body or encoding.lower() == "identity":
            return body
        if encoding.lower() not in ("gzip", "x-gzip"):
            raise httpx.DecodingError(f"the answer is encoded as {encoding!r}, which nobody asked for")
        unpacked, rest = bytearray(), body
        for _ in range(_MOST_MEMBERS):
            member = zlib.decompressobj(_GZIP)
            try:
                unpacked += member.decompress(rest, self.most_bytes + 1 - len(unpacked))
            except zlib.error as error:
                raise httpx.DecodingError(f"the answer cannot be unpacked: {error}") from None
            if len(unpacked) > self.most_bytes:
                raise self.too_large()
            if not member.eof:
                raise httpx.DecodingError("the answer cannot be unpacked: its end is missing")
            rest = member.unused_data
            if not rest:
                return bytes(unpacked)
        raise httpx.DecodingError("the answer cannot be unpacked: it has too many parts")

    def too_large(self) -> TooLarge:
        return TooLarge(
            f"the answer has more than {self.most_bytes:,} bytes. Ask for less at a time, as with "
            "?limit=500, or allow more."
        )

    def answered(self, name: str, prepared: Prepared, reply: Reply, began: float) -> Answer:
        """What the server said."""
        return replace(
            self._about(name, prepared, began),
            status_code=reply.status_code,
            content_type=reply.content_type,
            body=reply.body,
            failure=failure_of_status(reply.status_code),
        )

    def failed(self, name: str, prepared: Prepared | None, error: Exception, began: float) -> Answer:
        """What went wrong."""
        return replace(
            self._about(name, prepared, began), failure=failure_of(error), error=without_traces(error)
        )

    def _about(self, name: str, prepared: Prepared | None, began: float) -> Answer:
        entry = self.contexts.entry(name)
        server = redact_url(prepared.config.server) if prepared else ""
        return Answer(
            context=name, cluster=entry.cluster, user=entry.user, server=server, seconds=now() - began
        )


now = time.monotonic


@contextmanager
def as_failures() -> Generator[None]:
    """What an address, a server or a proxy can make httpx raise that is no error of httpx, as one.

    There are many: of names that are none, of redirects to addresses that are none, of SOCKS.
    """
    try:
        yield
    except FAILURES:
        raise
    except Exception as error:
        # Not in its own words: they may have a password in them.
        raise httpx.RequestError(
            f"no request could be made of it ({type(error).__name__}). Look at server and proxy-url, and at "
            "where the server redirects to."
        ) from None


def _called(path: Callable[[ClientConfig], str], config: ClientConfig) -> str:
    try:
        return path(config)
    except KubeAuthError:
        raise  # about this context, as everywhere
    except (StopIteration, StopAsyncIteration) as error:  # which would end the answers
        raise OfTheCaller(RuntimeError(f"the function for the path raised {type(error).__name__}")) from error
    except Exception as error:
        raise OfTheCaller(error) from None


def options_for(timeout: float | None) -> ExecOptions:
    """How plugins are run: no longer than a context may take, and never with a person to ask."""
    given = ExecOptions(stdin_unavailable=True, stdin_unavailable_message=_NOBODY_TO_ASK)
    if timeout is None or given.timeout is None or not 0 < timeout < given.timeout:
        return given
    return replace(given, timeout=timeout)


def failure_of(error: Exception) -> Failure:
    """What an error is counted as."""
    if isinstance(error, TooLarge):
        return Failure.TOO_LARGE
    if isinstance(error, CredentialError):
        return Failure.CREDENTIAL
    if isinstance(error, httpx.TimeoutException):
        return Failure.TIMEOUT
    if isinstance(error, httpx.RequestError):
        # On the wire: the server has looked at the certificate, and wants another.
        is_unknown = isinstance(error, ClientCertificateError)
        return Failure.UNAUTHORIZED if is_unknown else Failure.UNREACHABLE
    return Failure.CONFIG if isinstance(error, ConfigError | TLSError) else Failure.UNREACHABLE


def without_traces(error: Exception) -> Exception:
    """The error, for whoever keeps it: it holds no frames, and of its request no more than the address."""
    for link in iter_causes(error, None):
        link.__traceback__ = None
        request = get_request(link)
        if isinstance(request, httpx.Request):
            request.extensions = {}
    return error


def origin_of(prepared: Prepared) -> tuple[str, str]:
    """Who has refused a credential."""
    parts = urlsplit(prepared.url)
    return parts.scheme, parts.netloc


def _check(path: str) -> None:
    if not path.startswith("/"):
        raise ConfigError(f"{path!r} is no path: it must begin with a slash, as /api/v1/namespaces does")
    try:
        httpx.URL(f"https://host{path}")
    except httpx.InvalidURL as error:
        raise ConfigError(f"{path!r} is no path: {error}") from None
