"""Sign and send requests to the cluster, and requests to other origins without credentials."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Generic

from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._transport._leases import Pool
from kubeauth._transport._loops import Lock, new_lock, run, shielded
from kubeauth._transport._shapes import AsyncInner, AsyncStream, Request, Response
from kubeauth._transport._sign import is_welcome
from kubeauth._transport._state import TransportState, logger
from kubeauth._transport._tls import handshakes
from kubeauth._transport._words import hide_locals, tls_failure
from kubeauth.errors import KubeAuthError


class AsyncLeasedStream:
    """A response's body that gives its lease back when it is closed, so that the pool can be."""

    def __init__(self) -> None:
        self.pool: Pool[AsyncInner[Any, Any]] | None = None
        self.body: AsyncStream | None = None
        self.network: Any = None

    def __aiter__(self) -> Any:
        if self.body is None:
            raise RuntimeError("the response is closed")
        return self.body.__aiter__()

    def cut(self) -> None:
        """Ends the connection below, so that whoever reads from it stops.

        Not by closing it: another thread may be reading, and its descriptor would be somebody else's next.
        """
        connection = self.network and self.network.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Closes the body, and the whole pool if this was the last of a retired one."""
        # Lets go of both: a response that somebody keeps must not keep connections alive.
        body, self.body = self.body, None
        pool, self.pool = self.pool, None
        self.network = None
        try:
            if body is not None:
                await body.aclose()
        finally:
            inner = None if pool is None else pool.give_back(self)
            if inner is not None:
                with shielded():
                    await inner.aclose()


class AsyncTransport(TransportState[AsyncInner[Request, Response]], Generic[Request, Response]):
    """Signs a copy of each request to the cluster and sends it; sends what is for others as it is."""

    _gate: Lock

    def _new_gate(self) -> Lock:
        return new_lock()

    async def _send(self, request: Request) -> Response:
        self._check(request)
        if not self._signer.applies(request.url):
            return await self._send_elsewhere(request)
        now = self._now()
        credential = self._source.cached_if_fresh(now) or await self._obtained(request)
        response = await self._sent(request, credential, now)
        if response.status_code == 401 and self._plugin is not None:
            return await self._after_401(self._plugin, request, response, credential)
        return response

    async def _obtained(self, request: Request) -> Credential:
        if self._plugin is not None and self._signer.is_signed(request.headers):
            return self._source.current
        closings = self._closings
        if self._plugin is not None:
            self._plugin.acquire(self)  # it may have been closed, and is used again
        credential = await self._source.aget()
        self._check_open_since(closings)
        return credential

    async def _sent(self, request: Request, credential: Credential, now: float) -> Response:
        """Signed with `credential`, on connections that show its certificate."""
        trust = self._trust.cached_if_fresh(now) or await self._trust.aget()
        if not self._ledger.current.serves(credential.client_certificate, trust):
            await self._rotate()
        if now >= self._ledger.deadline:
            for lease in self._ledger.overdue(now):
                lease.cut()
        signed = self._signed(request, credential)
        if logger.isEnabledFor(logging.DEBUG):
            self._log(signed)
        return await self._attempt(signed)

    async def _attempt(self, request: Request, *, last: bool = False) -> Response:
        """Sends `request` on a lease of its own; once more if the connection was an old one, and dead."""
        lease = self._new_lease()
        pool = lease.pool = self._ledger.lend(lease)
        handled, handshakes_before = sys.exception(), handshakes()
        try:
            response = await pool.inner.handle_async_request(request)
        except BaseException as error:
            await lease.aclose()
            hide_locals(error, handled)
            failure = tls_failure(error, handled)
            clearer = None if failure is None else self._explained(failure, pool, None)
            if clearer is not None:
                raise clearer from error
            if last or not self._is_dead(error):
                raise
            if not self._worth_another_try(request, pool, handshakes_before):
                raise
        else:
            pool.answered = True
            lease.body = response.stream
            lease.network = response.extensions.get("network_stream")
            if response.is_closed:
                # Nobody will close it again: transports in memory answer like this.
                await lease.aclose()
            else:
                response.stream = lease
            return response
        logger.debug("a kept-alive connection was dead, trying once more")
        return await self._attempt(request, last=True)

    async def _after_401(
        self, plugin: RefreshableSource, request: Request, response: Response, refused: Credential
    ) -> Response:
        """Asks for another credential, and the server once more; else the caller has its 401, unread."""
        if self._signer.is_signed(request.headers):
            return response
        closings = self._closings
        try:
            newer = await plugin.aget(Unauthorized(refused, self._signer.origin))
            if not self._worth_a_replay(request, refused, newer):
                return response
            self._check_open_since(closings)
            await self._used_up(response)
        except KubeAuthError as error:
            logger.warning("401 from the API server, and the credential could not be refreshed: %s", error)
            return response
        except BaseException:
            with shielded():
                await response.stream.aclose()
            raise
        logger.debug("the server refused the credential, trying once more with another")
        replayed = await self._sent(request, newer, self._now())
        if is_welcome(replayed.status_code):
            plugin.reset_rate_limit(self._signer.origin)
        return replayed

    async def _used_up(self, response: Response) -> None:
        """Reads a response if it is short, so that its connection can be used again."""
        try:
            # To its end or not at all: trio complains of whoever leaves httpx in the middle of it.
            if not response.is_closed and self._is_short(response):
                async for _ in response.stream:
                    pass
        except Exception:
            # A connection that breaks here is just not used again.
            logger.debug("the body of a 401 could not be read")
        finally:
            with shielded():
                await response.stream.aclose()

    async def _rotate(self) -> None:
        """Makes new connections the current ones. Those in use go on until they are done."""
        async with self._gate:
            # For what is newest now: whoever waited here finds it done, and never undoes it for what it had.
            credential, trust = self._source.current, self._trust.current
            if self._plugin is not None:
                self._plugin.acquire(self)  # it may have been closed
            if not self._ledger.current.serves(credential.client_certificate, trust):
                pool = await run(self._built_or_kept, credential, trust)
                if pool is not self._ledger.current:
                    with shielded():
                        await self._close_all(self._ledger.swap(pool, self._now()))

    async def _send_elsewhere(self, request: Request) -> Response:
        """To another origin: nothing of ours goes with it."""
        proxy = self._proxy_for(str(request.url))
        inner = self._elsewhere.get(proxy)
        if inner is None:
            async with self._gate:
                inner = self._elsewhere.get(proxy)
                if inner is None:
                    inner = self._elsewhere[proxy] = await run(self._inner_elsewhere, proxy)
        handled = sys.exception()
        try:
            return await inner.handle_async_request(request)
        except BaseException as error:
            # A proxy's password is ours too.
            hide_locals(error, handled)
            failure = tls_failure(error, handled)
            clearer = None if failure is None else self._explained(failure, None, request)
            if clearer is None:
                raise
            raise clearer from error

    async def _close(self) -> None:
        self._closings += 1
        try:
            if self._plugin is not None and self._plugin.release(self):
                with shielded():
                    await run(self._plugin.stop)
        finally:
            inners = [*self._ledger.everything(), *self._elsewhere.values()]
            self._elsewhere.clear()
            with shielded():
                await self._close_all(inners)

    async def _close_all(self, inners: Iterable[AsyncInner[Request, Response]]) -> None:
        failure: BaseException | None = None
        for inner in inners:
            try:
                await inner.aclose()
            except BaseException as error:  # also a cancelled one: the others must be closed
                failure = failure or error
        if failure is not None:
            raise failure

    @abstractmethod
    def _new_lease(self) -> AsyncLeasedStream:
        """A stream of the library's class."""

    @abstractmethod
    def _signed(self, request: Request, credential: Credential) -> Request:
        """A copy of `request` with our headers; the same if there are none to add."""

    @abstractmethod
    def _is_dead(self, error: BaseException) -> bool:
        """Whether this is how a connection looks that the other side has closed."""

    @abstractmethod
    def _explained(
        self, failure: ssl.SSLError, pool: Pool[Any] | None, elsewhere: Request | None
    ) -> Exception | None:
        """A clearer error, if there is one: of the cluster on one of its pools, or of another server."""
