"""One request: looked at, signed, sent on; and its answer, as it comes."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple, cast

import anyio
import h11
import httpx

from kubeauth._client import TIMEOUT
from kubeauth._proxy._caller import Caller, Gone
from kubeauth._proxy._counts import Counts
from kubeauth._proxy._filter import Rules
from kubeauth._proxy._headers import Sent, answered, sent_on, values
from kubeauth._proxy._refusal import Refused, bad_request
from kubeauth._proxy._target import Mount, method_of, target_of
from kubeauth._proxy._tunnel import Network, join
from kubeauth.errors import ConfigError, KubeAuthError

logger = logging.getLogger("kubeauth.proxy")

# Up to here a body is read before it is sent, so that it can be sent again if the credential is refused.
_SHORT = 65536
_TIMEOUTS = TIMEOUT.as_dict()
_NOTHING = httpx.ByteStream(b"")


class Settings(NamedTuple):
    """What a proxy is to do with every request."""

    rules: Rules | None
    """None: everything is passed on as it came."""
    mount: Mount
    keepalive: float = 0.0


class Order(NamedTuple):
    """A request that is passed on."""

    method: str
    path: str
    target: bytes
    sent: Sent


class _Body(httpx.AsyncByteStream):
    """What the caller still has to say."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if part := await self._caller.part():
            return part
        raise StopAsyncIteration


class Exchanges:
    """Answers requests with what the API server says to them."""

    def __init__(
        self, transport: httpx.AsyncBaseTransport, server: httpx.URL, settings: Settings, counts: Counts
    ) -> None:
        self._transport = transport
        self._url = server
        self._host = server.netloc
        self._settings = settings
        self._counts = counts

    async def __call__(self, caller: Caller, asked: h11.Request) -> None:
        """One request. Gone if its caller is, or if the answer cannot be ended as one should be."""
        begun = time.perf_counter()
        is_head = asked.method == b"HEAD"
        method, path, code = asked.method.decode("ascii", "replace"), "", None
        self._counts.in_flight += 1
        try:
            try:
                order = self._order(asked)
                path = order.path
                code = await self._pass_on(caller, order)
            except Refused as refused:
                self._counts.refused[refused.kind] += 1
                code = refused.code
                await caller.refuse(refused, is_head=is_head)
        finally:
            self._counts.in_flight -= 1
            self._counts.answered(method, code)
            if logger.isEnabledFor(logging.DEBUG):
                took = (time.perf_counter() - begun) * 1000
                logger.debug("%s %s was answered %s after %.0f ms", method, path, code or "by nobody", took)

    def _order(self, asked: h11.Request) -> Order:
        """What is to be sent, if anything is. Refused."""
        rules, mount, _ = self._settings
        if asked.http_version not in (b"1.1", b"1.0"):
            raise Refused(505, "http", "this proxy speaks HTTP/1.1")
        method, headers = method_of(asked.method), list(asked.headers)
        hosts = values(headers, b"host")
        if rules is not None:
            # First of all: a stranger is not told what is wrong with a path.
            origins, sites = values(headers, b"origin"), values(headers, b"sec-fetch-site")
            is_upgrade = bool(values(headers, b"upgrade"))
            rules.check_caller(hosts, origins, sites, is_upgrade=is_upgrade)
        host = hosts[0].encode("latin-1") if hosts else None
        target = mount.strip(target_of(asked.target, host, decoded=rules is not None))
        if rules is not None:
            rules.check_request(method, target.path)
        sent = sent_on(headers, self._host, may_upgrade=asked.http_version == b"1.1")
        return Order(method, target.path, target.below(mount.server_path), sent)

    async def _pass_on(self, caller: Caller, order: Order) -> int | None:
        """The code of the answer, when all of it was sent; None if the caller left before."""
        code = None
        with caller.staying() as scope:
            stream = await self._stream(caller, order.sent)
            request = httpx.Request(
                order.method,
                self._url,
                headers=order.sent.headers,
                stream=stream,
                extensions={"target": order.target, "timeout": _TIMEOUTS},
            )
            response = await self._response(request)
            code = response.status_code
            try:
                if code == 101:
                    await self._switch(caller, response)
                else:
                    await self._answer(caller, response)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
                raise
            await response.aclose()
        if scope.cancelled_caught:
            raise Gone
        return code

    async def _stream(self, caller: Caller, sent: Sent) -> httpx.AsyncByteStream:
        if sent.length is None or sent.length > _SHORT:
            return _Body(caller)
        parts: list[bytes] = []
        while part := await caller.part():
            parts.append(part)
        return httpx.ByteStream(b"".join(parts)) if parts else _NOTHING

    async def _response(self, request: httpx.Request) -> httpx.Response:
        """Refused for what went wrong before there was an answer."""
        try:
            return await self._transport.handle_async_request(request)
        except (httpx.LocalProtocolError, httpx.InvalidURL) as error:
            raise bad_request("http", f"this cannot be sent on: {error}") from None
        except httpx.TimeoutException:
            raise Refused(504, "timeout", "the API server could not be reached in time") from None
        except httpx.RemoteProtocolError as error:
            raise _nonsense(error) from None
        except httpx.TransportError as error:  # those about certificates too
            logger.warning("the API server was not reached: %s", error)
            raise Refused(502, "unreachable", f"the API server was not reached: {_words(error)}") from None
        except KubeAuthError as error:
            logger.warning("there is no credential to pass a request on with: %s", error)
            code = 500 if isinstance(error, ConfigError) else 503
            # Its first line alone: what a plugin wrote follows it, which is for who runs the proxy.
            why = str(error).partition("\n")[0]
            raise Refused(code, "credential", f"kubeauth proxy has no credential: {why}") from None

    async def _answer(self, caller: Caller, response: httpx.Response) -> None:
        """Part by part. Gone if there is an end to it that is none."""
        headers = answered(response.headers.raw)
        if caller.ending:
            headers.append((b"Connection", b"close"))
        reason = cast(bytes, response.extensions.get("reason_phrase", b""))
        try:
            head = h11.Response(status_code=response.status_code, headers=headers, reason=reason)
        except h11.LocalProtocolError as error:  # of what has no body nobody has read the length before
            raise _nonsense(error) from None
        held = caller.http.send(head) or b""
        stream = cast(httpx.AsyncByteStream, response.stream)
        parts = stream.__aiter__()
        try:
            while True:
                if held and not _is_at_hand(stream):
                    # It may be a watch: there may be nothing else for an hour.
                    await caller.write(held)
                    held = b""
                part = await anext(parts, None)
                if part is None:
                    break
                held += caller.http.send(h11.Data(data=part)) or b""
        except BaseException as error:  # the end of the proxy, too
            if caller.http.their_http_version == b"1.0":
                caller.break_off()  # to whom the end of the connection is the end of the answer
            if not isinstance(error, httpx.TransportError):
                raise
            logger.debug("an answer broke off: %s", error)
            raise Gone from None
        finally:
            if isinstance(parts, AsyncGenerator):  # httpx's own, which nobody else ends
                with anyio.CancelScope(shield=True):
                    await parts.aclose()
        held += caller.http.send(h11.EndOfMessage()) or b""
        if held:
            await caller.write(held)

    async def _switch(self, caller: Caller, response: httpx.Response) -> None:
        """Both connections become one."""
        headers = answered(response.headers.raw, switched=True)
        reason = cast(bytes, response.extensions.get("reason_phrase", b""))
        # From here on: who is told may have nothing to say, and say so at once.
        with caller.whatever_comes():
            await caller.send(h11.InformationalResponse(status_code=101, headers=headers, reason=reason))
            self._counts.upgrades += 1
            try:
                early, _ = caller.http.trailing_data
                network = cast(Network, response.extensions["network_stream"])
                await join(caller, network, early=early, keepalive=self._settings.keepalive)
            finally:
                self._counts.upgrades -= 1


def _is_at_hand(stream: object) -> bool:
    """Whether the next part of an answer need not be waited for, as far as that can be known."""
    return bool(getattr(getattr(stream, "body", None), "has_buffered_data", False))


def _nonsense(error: Exception) -> Refused:
    """For an answer that is none, or that never came."""
    logger.warning("the API server gave no answer that makes sense: %s", error)
    return Refused(502, "unreachable", f"the API server gave no answer that makes sense: {_words(error)}")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
