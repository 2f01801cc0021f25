"""One request as the doctor makes it: bounded in time and size, and whatever comes of it is a value."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from kubeauth._client import Client
from kubeauth._config.client_config import ClientConfig
from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._transport.deadline import Deadline
from kubeauth._transport.tls_errors import find_tls_error
from kubeauth.cli._doctor_words import parted
from kubeauth.errors import ClientCertificateError, KubeAuthError, ServerCertificateError

_MOST = 2**20

# Why there is no answer.
CERTIFICATE, IDENTITY, TLS, PROXY, LATE, BROKEN = "certificate", "identity", "tls", "proxy", "late", "broken"
# The server broke off the handshake: in TLS 1.2, who should show a certificate and does not is told no more.
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there was no answer: a kind, a sentence, and what to do."""

    kind: str
    what: str
    advice: str
    verify_code: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of a request."""

    status: int = 0
    """0: there was no answer."""
    body: bytes = field(default=b"", repr=False)
    skew: float | None = None
    """How far the server's clock is ahead of ours, to a second; None if it did not say."""
    seconds: float = 0.0
    tls: str = ""
    """The version, if there was a handshake."""
    handshake: float = 0.0
    """What it took."""
    is_connected: bool = False
    """Whether there was a connection, to the server or to a proxy."""
    handshakes: int = 0
    """How many were begun: one with the server, and one with an https proxy before it."""
    certificate: bytes | None = field(default=None, repr=False)
    """The server's, DER."""
    chain: tuple[bytes, ...] = field(default=(), repr=False)
    """That one and those it was shown with, DER; nothing before Python 3.13, which tells."""
    failure: Failure | None = None

    @property
    def json(self) -> Mapping[str, Json]:
        """The object that was answered; empty if it is none."""
        try:
            found = read_json(self.body)
        except DocumentError:
            return {}
        return found if isinstance(found, dict) else {}


def anonymous(config: ClientConfig, *, verify: bool = True) -> ClientConfig:
    """How to reach the cluster as nobody; without `verify`, whoever it is: nothing that matters is said."""
    server = urlsplit(config.server)
    return ClientConfig(
        server=server._replace(netloc=server.netloc.rpartition("@")[2]).geturl(),
        ca_data=config.ca_data if verify else None,
        ca_file=config.ca_file if verify else None,
        insecure_skip_tls_verify=config.insecure_skip_tls_verify or not verify,
        tls_server_name=config.tls_server_name,
        proxy_url=config.proxy_url,
    )


def ask_once(config: ClientConfig, path: str, timeout: float) -> Heard:
    """One GET, on a connection of its own."""
    try:
        client = Client(config, timeout=timeout)
    except KubeAuthError as wrong:
        return Heard(failure=Failure(BROKEN, *parted(str(wrong))))
    with client:
        return hear(client, "GET", path, timeout=timeout)


def hear(client: Client, method: str, path: str, *, timeout: float, json: Json = None) -> Heard:
    """Whatever comes of it. Takes `timeout` seconds at most, whatever the server does."""
    witness = _Witness(Deadline(timeout))
    started = time.monotonic()
    try:
        with (
            witness.deadline,
            client.stream(method, path, json=json, extensions={"trace": witness.on_trace}) as response,
        ):
            heard = Heard(response.status_code, skew=_skew(response.headers.get("Date")))
            body = b""
            for part in response.iter_bytes():
                body += part
                if len(body) > _MOST:
                    break
            heard = replace(heard, body=body)
    except Exception as error:  # of socksio too, which httpx does not know
        witness.close()
        heard = Heard(failure=_failure(error, timeout, is_late=witness.deadline.has_expired))
    return replace(
        heard,
        seconds=time.monotonic() - started,
        tls=witness.tls,
        handshake=witness.handshake,
        is_connected=witness.is_connected,
        handshakes=witness.handshakes,
        certificate=witness.certificate,
        chain=witness.chain,
    )


class _Witness:
    """Sees what httpcore does: the last handshake is the server's, after that of a proxy."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.tls = ""
        self.certificate: bytes | None = None
        self.chain: tuple[bytes, ...] = ()
        self.handshake = 0.0
        self.handshakes = 0
        self._began = 0.0
        self._stream: Any = None

    @property
    def is_connected(self) -> bool:
        return self._stream is not None

    def close(self) -> None:
        """What httpcore leaves open if a SOCKS proxy makes no sense."""
        if self._stream is not None:
            self._stream.close()

    def on_trace(self, event: str, info: Mapping[str, Any]) -> None:
        self.deadline.on_trace(event, info)
        if hasattr(info.get("return_value"), "get_extra_info"):
            self._stream = info["return_value"]
        if event.endswith("start_tls.started"):
            self._began = time.monotonic()
            self.handshakes += 1
            # What there was before is the proxy's.
            self.tls, self.certificate, self.chain, self.handshake = "", None, (), 0.0
        elif event.endswith("start_tls.complete"):
            self.handshake = time.monotonic() - self._began
            done = info["return_value"].get_extra_info("ssl_object")
            self.tls = done.version() or ""
            # By position: it may be what is inside an SSLSocket, which takes no names.
            self.certificate = done.getpeercert(True)
            # Since 3.13, of an SSLSocket. TLS within TLS has none.
            socket = info["return_value"].get_extra_info("socket")
            self.chain = tuple(getattr(socket, "get_unverified_chain", tuple)())


def _skew(date: str | None) -> float | None:
    try:
        # Whole seconds, cut off: in the middle of one, on average.
        return None if date is None else parsedate_to_datetime(date).timestamp() + 0.5 - time.time()
    except (ValueError, OverflowError):
        return None


def _failure(error: Exception, timeout: float, *, is_late: bool) -> Failure:
    if is_late or isinstance(error, httpx.TimeoutException):
        advice = "Is it overloaded, or is something in between that swallows what it does not know?"
        return Failure(LATE, f"no answer within {timeout:g} s", advice)
    if isinstance(error, ServerCertificateError):
        return Failure(CERTIFICATE, *parted(str(error)), error.verify_code)
    if isinstance(error, ClientCertificateError):
        return Failure(IDENTITY, *parted(str(error)))
    if isinstance(error, httpx.ProxyError):
        return Failure(PROXY, str(error), "")
    spoken = find_tls_error(error, None)
    if spoken is not None:
        kind = REFUSED if (spoken.reason or "").endswith("ALERT_HANDSHAKE_FAILURE") else TLS
        return Failure(kind, *_no_tls(spoken))
    # Not the words of strangers: they may quote what was said.
    is_known = isinstance(error, httpx.HTTPError | KubeAuthError | OSError)
    what = (is_known and str(error)) or type(error).__name__
    advice = "Is this the API server's address, and what does its log say?"
    return Failure(BROKEN, f"the connection broke: {what}", advice)


def _no_tls(error: ssl.SSLError) -> tuple[str, str]:
    reason = (error.reason or "").replace("_", " ").lower()
    if reason in ("wrong version number", "record layer failure", "packet length too long", "http request"):
        return (
            "what answers there does not speak TLS",
            "Is it an http port? Check address and port of server.",
        )
    advice = "Does the server speak TLS 1.2 or newer, or want a client certificate? Look at its log."
    return f"no TLS with it: {reason or 'for no reason given'}", advice
