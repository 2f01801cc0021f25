"""How the steps of a discovery are taken: once per colour. Here is httpx."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from typing import Any

import httpx

from kubeauth._config.client_config import ClientConfig
from kubeauth._secret import Secret
from kubeauth._transport.async_backend import shield
from kubeauth._transport.deadline import Deadline
from kubeauth._transport.httpx import AsyncKubeTransport, KubeTransport
from kubeauth._transport.options import build_user_agent
from kubeauth._transport.redaction import iter_causes, redact_library_logs
from kubeauth._transport.tls import build_public_context
from kubeauth.discovery._fetch import (
    TOO_LONG,
    Call,
    NoReply,
    Reply,
    before_the_body,
    reply_of,
    request_headers,
    too_slow,
)
from kubeauth.discovery._flow import Fetch, Sleep, Step
from kubeauth.discovery._kubeconfig import MOST_BYTES
from kubeauth.discovery._result import Discovered
from kubeauth.errors import CredentialError, ServerCertificateError, TLSError


def drive(steps: Generator[Step, None, Discovered]) -> Discovered:
    """Takes them, blocking."""
    redact_library_logs()
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return _result(end)
            if isinstance(step, Fetch):
                step.reply = _fetched(step.call)
            elif isinstance(step, Sleep):
                time.sleep(step.seconds)
            else:
                step.run()


async def adrive(steps: Generator[Step, None, Discovered]) -> Discovered:
    """Takes them in an event loop, of asyncio or trio."""
    import anyio
    import anyio.to_thread

    redact_library_logs()
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return _result(end)
            if isinstance(step, Fetch):
                step.reply = await _afetched(step.call)
            elif isinstance(step, Sleep):
                await anyio.sleep(step.seconds)
            else:
                # Somebody may take a while to type it: who is cancelled does not wait for that.
                limiter = anyio.CapacityLimiter(1)  # of its own: an application may keep all threads busy
                await anyio.to_thread.run_sync(step.run, abandon_on_cancel=True, limiter=limiter)


def _result(end: StopIteration) -> Discovered:
    found: Discovered = end.value
    return found


def _fetched(call: Call) -> Reply | NoReply:
    """Errors of httpx hold the request: none gets out."""
    deadline = Deadline(call.limit)
    opened = _Opened()
    handled = sys.exception()

    def notice(event: str, info: Mapping[str, Any]) -> None:
        opened.add(info)
        if not event.endswith("start_tls.started"):
            deadline.on_trace(event, info)
        elif not deadline.release_connections():
            raise TimeoutError

    try:
        with (
            deadline,
            opened,
            httpx.Client(transport=_transport(call.config), timeout=call.limit, trust_env=False) as client,
            client.stream("GET", call.url, headers=_headers(call), extensions={"trace": notice}) as response,
        ):
            known = before_the_body(response)
            if known is None:
                known = _read(response)
    except _FAILURES as error:
        known = _failed(call, error, handled)
    # What was cut because it was late fails in many ways, or ends as if it were whole.
    return too_slow(call) if deadline.has_expired else known


async def _afetched(call: Call) -> Reply | NoReply:
    from anyio import move_on_after

    opened = _Opened()
    handled = sys.exception()
    with move_on_after(call.limit):
        try:
            async with (
                opened,
                httpx.AsyncClient(
                    transport=_async_transport(call.config), timeout=call.limit, trust_env=False
                ) as client,
                client.stream(
                    "GET", call.url, headers=_headers(call), extensions={"trace": opened.on_trace}
                ) as response,
            ):
                known = before_the_body(response)
                if known is None:
                    known = await _aread(response)
                return known
        except _FAILURES as error:
            return _failed(call, error, handled)
    return too_slow(call)


def _transport(config: ClientConfig) -> KubeTransport:
    def inner(context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.HTTPTransport:
        return httpx.HTTPTransport(context, proxy=_known(proxy))

    return KubeTransport(config, transport_factory=inner if config.insecure_skip_tls_verify else None)


def _async_transport(config: ClientConfig) -> AsyncKubeTransport:
    def inner(context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.AsyncHTTPTransport:
        return httpx.AsyncHTTPTransport(context, proxy=_known(proxy))

    return AsyncKubeTransport(config, transport_factory=inner if config.insecure_skip_tls_verify else None)


def _known(proxy: httpx.Proxy | None) -> httpx.Proxy | None:
    """A proxy on the way to a stranger is none itself: it gets a password, so it must prove who it is."""
    if proxy is None or proxy.url.scheme != "https":
        return proxy
    return httpx.Proxy(proxy.url, ssl_context=build_public_context(), auth=proxy.auth, headers=proxy.headers)


class _Opened:
    """The connections of one request. httpcore forgets one that is given up in its handshake."""

    def __init__(self) -> None:
        self._streams: list[Any] = []

    def add(self, info: Mapping[str, Any]) -> None:
        """Of all that httpcore does, what it connects is a stream with a socket."""
        stream = info.get("return_value")
        if hasattr(stream, "start_tls"):
            self._streams.append(stream)

    async def on_trace(self, _event: str, info: Mapping[str, Any]) -> None:
        self.add(info)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        for stream in self._streams:
            stream.close()

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None:
        with shield():
            for stream in self._streams:
                await stream.aclose()


def _headers(call: Call) -> dict[str, str]:
    return request_headers(call, build_user_agent(f"python-httpx/{httpx.__version__}"))


def _read(response: httpx.Response) -> Reply | NoReply:
    """With all of its body as it is on the wire, unless there is too much of it."""
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > MOST_BYTES:
            return NoReply(TOO_LONG)
    return reply_of(response, Secret(bytes(body)))


async def _aread(response: httpx.Response) -> Reply | NoReply:
    body = bytearray()
    parts = response.aiter_raw()
    async for part in parts:
        body += part
        if len(body) > MOST_BYTES:
            await response.aclose()
            # There is no more: but trio warns of a generator that is left in the middle.
            with suppress(httpx.HTTPError):
                async for _ in parts:
                    pass
            return NoReply(TOO_LONG)
    return reply_of(response, Secret(bytes(body)))


_SHOWN = 400
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, TLSError, CredentialError, OSError, ValueError)


def _failed(call: Call, error: Exception, handled: BaseException | None) -> NoReply:
    """Why, in words that hold nothing of the request. `handled` is what the caller dealt with before."""
    if isinstance(error, httpx.TimeoutException):
        return too_slow(call)
    if isinstance(error, ValueError):
        # An address that httpx takes and the layers below it do not; each says so in words of its own.
        return NoReply("its address cannot be connected to", is_final=True)
    # A CA that cannot be loaded stays one; a certificate that is not trusted may be replaced.
    is_final = isinstance(error, TLSError) and not isinstance(error, ServerCertificateError)
    return NoReply(_in_words(call, error, handled), is_final)


def _in_words(call: Call, error: Exception, handled: BaseException | None) -> str:
    for link in iter_causes(error, handled):
        if isinstance(link, ConnectionRefusedError):
            return "the connection was refused. Check the host and the port, and that the server runs"
        if isinstance(link, socket.gaierror):
            return f"its name cannot be resolved: {link.strerror}"
    said = str(error)
    if isinstance(error, ServerCertificateError) and call.if_not_trusted:
        # Its advice is about a kubeconfig, and there is none.
        said = f"{said.partition('. ')[0]}. {call.if_not_trusted}"
    # A stranger's words may be among them: not pages of these.
    return said[:_SHOWN].rstrip(".") or type(error).__name__
