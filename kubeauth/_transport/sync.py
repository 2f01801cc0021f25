# Generated from _transport/async_.py by scripts/generate.py: edit that and run `make generate`.
"""Sign and send requests to the cluster, and send requests to other origins without credentials."""

from __future__ import annotations

import logging
import socket
import sys
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar, Generic

from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._transport.base import TransportBase, logger
from kubeauth._transport.pools import Pool
from kubeauth._transport.redaction import hide_locals
from kubeauth._transport.signing import SIGNED_BY_AUTH, is_authenticated
from kubeauth._transport.sync_backend import Lock, new_lock, run_blocking, shield
from kubeauth._transport.tls import get_handshake_count
from kubeauth._transport.tls_errors import find_tls_error
from kubeauth._transport.types import Request, Response, SyncStream, SyncTransportLike
from kubeauth.errors import KubeAuthError


class LeasedStream:
    """A response body that returns its lease when it is closed, so that a retired pool can be closed."""

    def __init__(self) -> None:
        self.pool: Pool[SyncTransportLike[Any, Any]] | None = None
        self.body: SyncStream | None = None
        self.network: Any = None

    def __iter__(self) -> Any:
        if self.body is None:
            raise RuntimeError("the response is closed")
        return self.body.__iter__()

    def abort(self) -> None:
        """Shut the connection down, so that a blocked read returns.

        Not closed: another thread may be reading, and the descriptor would be reused.
        """
        connection = self.network and self.network.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the body, and the pool if it is retired and this was its last response."""
        # Drop both references: a response that is still referenced must not keep connections open.
        body, self.body = self.body, None
        pool, self.pool = self.pool, None
        self.network = None
        try:
            if body is not None:
                body.close()
        finally:
            transport = None if pool is None else pool.checkin(self)
            if transport is not None:
                with shield():
                    transport.close()


class SyncTransport(TransportBase[SyncTransportLike[Request, Response]], Generic[Request, Response]):
    """Signs a copy of each request to the cluster; sends other requests unchanged."""

    _lease_class: ClassVar[type[LeasedStream]] = LeasedStream
    """A subclass that is a stream of the library, too."""
    _pool_lock: Lock

    def _new_lock(self) -> Lock:
        return new_lock()

    def handle_request(self, request: Request) -> Response:
        """Send `request`; once more with another credential if the server responds with 401."""
        if SIGNED_BY_AUTH in request.extensions or not isinstance(request.stream, self._byte_stream):
            self._validate(request)
        if not self._signer.is_cluster_origin(request.url):
            return self._send_public(request)
        now = self._now()
        credential = self._source.cached_if_fresh(now) or self._get_credential(request)
        response = self._send_signed(request, credential, now)
        if response.status_code == 401 and self._refreshable is not None:
            return self._retry_after_401(self._refreshable, request, response, credential)
        return response

    def close(self) -> None:
        """Close all connections, and stop a plugin that no other client waits for."""
        self._close_count += 1
        try:
            if self._refreshable is not None and self._refreshable.release(self):
                with shield():
                    run_blocking(self._refreshable.stop)
        finally:
            transports = [*self._pools.close_all(), *self._public_transports.values()]
            self._public_transports.clear()
            with shield():
                self._close_all(transports)

    def _get_credential(self, request: Request) -> Credential:
        if self._refreshable is not None and self._signer.has_authorization(request.headers):
            return self._source.current
        close_count = self._close_count
        if self._refreshable is not None:
            self._refreshable.acquire(self)  # the client may have been closed, and is used again
        credential = self._source.get()
        self._check_not_closed(close_count)
        return credential

    def _check_not_closed(self, close_count: int) -> None:
        """RuntimeError if it was closed while the plugin ran: nothing would close the new connections."""
        if close_count != self._close_count:
            raise RuntimeError("the client was closed while this request was in progress")

    def _send_signed(self, request: Request, credential: Credential, now: float) -> Response:
        """Sign with `credential` and send, on connections with its client certificate."""
        trust = self._constant_trust or self._trust.cached_if_fresh(now) or self._trust.get()
        if not self._pools.current.matches(credential.client_certificate, trust):
            self._rotate()
        if now >= self._pools.deadline:
            for lease in self._pools.expired_leases(now):
                lease.abort()
        signed = self._sign(request, credential)
        if logger.isEnabledFor(logging.DEBUG):
            self._log_request(signed)
        response = self._send_once(signed)
        if response is None:
            logger.debug("stale keep-alive connection, retrying")
            response = self._send_once(signed, can_retry=False)
        assert response is not None  # noqa: S101 -- only None if it may be retried
        return response

    def _send_once(self, request: Request, *, can_retry: bool = True) -> Response | None:
        """Send on a lease of its own. None if the connection was stale and the request may be retried."""
        lease = self._lease_class()
        pool = lease.pool = self._pools.checkout(lease)
        handled, handshakes_before = sys.exception(), get_handshake_count()
        try:
            response = pool.transport.handle_request(request)
        except BaseException as error:
            lease.close()
            hide_locals(error, handled)
            tls_error = find_tls_error(error, handled)
            explained = None if tls_error is None else self._tls_error(tls_error, pool, None)
            if explained is not None:
                raise explained from error
            if not can_retry or not self._is_stale_connection(error):
                raise
            if not self._can_retry(request, pool, handshakes_before):
                raise
            return None
        pool.has_responded = True
        lease.body = response.stream
        lease.network = response.extensions.get("network_stream")
        if response.is_closed:
            # Transports in memory return closed responses, which are not closed again.
            lease.close()
        else:
            response.stream = lease
        return response

    def _retry_after_401(
        self, source: RefreshableSource, request: Request, response: Response, rejected: Credential
    ) -> Response:
        """Refresh the credential and send `request` again; else return the 401, unread."""
        if self._signer.has_authorization(request.headers):
            return response
        close_count = self._close_count
        try:
            newer = source.get(Unauthorized(rejected, self._signer.origin))
            if not self._can_replay(request, rejected, newer):
                return response
            self._check_not_closed(close_count)
            self._drain(response)
        except KubeAuthError as error:
            logger.warning("401 from the API server, and the credential could not be refreshed: %s", error)
            return response
        except BaseException:
            with shield():
                response.stream.close()
            raise
        logger.debug("401 from the API server, retrying with a refreshed credential")
        replayed = self._send_signed(request, newer, self._now())
        if is_authenticated(replayed.status_code):
            source.reset_rate_limit(self._signer.origin)
        return replayed

    def _drain(self, response: Response) -> None:
        """Read a short response, so that its connection can be reused; close it."""
        try:
            # All of it or nothing: trio complains if a generator of httpx is abandoned.
            if not response.is_closed and self._has_short_body(response):
                for _ in response.stream:
                    pass
        except Exception:
            # The connection is not reused, and the request is sent on another.
            logger.debug("the body of a 401 could not be read")
        finally:
            with shield():
                response.stream.close()

    def _rotate(self) -> None:
        """Switch to a new pool. Responses on the old one are not interrupted."""
        with self._pool_lock:
            # Read here: a request that waited for the lock must not switch back to an older credential.
            credential, trust = self._source.current, self._trust.current
            if self._refreshable is not None:
                self._refreshable.acquire(self)  # the client may have been closed
            if not self._pools.current.matches(credential.client_certificate, trust):
                pool = run_blocking(self._rebuild_pool, credential, trust)
                if pool is not self._pools.current:
                    with shield():
                        self._close_all(self._pools.swap(pool, self._now()))

    def _send_public(self, request: Request) -> Response:
        """Send to another origin: without credentials, and with the system's trust."""
        proxy = self._proxy_for(str(request.url))
        transport = self._public_transports.get(proxy)
        if transport is None:
            with self._pool_lock:
                transport = self._public_transports.get(proxy)
                if transport is None:
                    transport = run_blocking(self._new_public_transport, proxy)
                    self._public_transports[proxy] = transport
        handled = sys.exception()
        try:
            return transport.handle_request(request)
        except BaseException as error:
            # The frames may hold the proxy's password.
            hide_locals(error, handled)
            tls_error = find_tls_error(error, handled)
            explained = None if tls_error is None else self._tls_error(tls_error, None, request)
            if explained is None:
                raise
            raise explained from error

    def _close_all(self, transports: Iterable[SyncTransportLike[Request, Response]]) -> None:
        first_error: BaseException | None = None
        for transport in transports:
            try:
                transport.close()
            except BaseException as error:  # also if cancelled: the others must be closed
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    @abstractmethod
    def _sign(self, request: Request, credential: Credential) -> Request:
        """Return a signed copy of `request`; `request` itself if there is nothing to add."""
