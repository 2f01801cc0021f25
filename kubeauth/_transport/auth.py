"""AuthFlow: the flow of KubeAuth, for an httpx client that the caller configures."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import ClassVar, Generic

from kubeauth._config.client_config import ClientConfig
from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import NO_CREDENTIAL, RefreshableSource
from kubeauth._runtime import Clock, ProcessBound
from kubeauth._transport.base import get_source, logger, parse_server, resolve_config
from kubeauth._transport.redaction import redact_library_logs
from kubeauth._transport.signing import Signer, is_authenticated
from kubeauth._transport.types import Request, Response, URLLike
from kubeauth.errors import ConfigError, KubeAuthError


class AuthFlow(ProcessBound, ABC, Generic[Request, Response]):
    """Signs a copy of each request to the cluster, and retries once after a 401; for httpx and httpx2."""

    _byte_stream: ClassVar[type]
    """The library's class of request bodies that can be sent again."""

    def __init__(
        self, config: ClientConfig | None, parse_url: Callable[[str], URLLike], *, clock: Clock
    ) -> None:
        config = resolve_config(config)
        redact_library_logs()
        server = parse_server(config, parse_url)
        self._source = get_source(config, clock=clock)
        self._refreshable = self._source if isinstance(self._source, RefreshableSource) else None
        _reject_unsupported(config, server, self._source.current, sends_token=self._refreshable is not None)
        self._signer = Signer(server, None)
        self._now = clock.monotonic
        if self._refreshable is not None:
            self._refreshable.acquire(self)

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        if not self._signer.is_cluster_origin(request.url):
            yield request
            return
        if self._refreshable is not None and self._signer.has_authorization(request.headers):
            yield self._sign(request, NO_CREDENTIAL)
            return
        credential = self._source.cached_if_fresh(self._now()) or self._source.get()
        signed = self._sign(request, _require_header(credential))
        response = None
        with suppress(GeneratorExit):
            response = yield signed
        self._remove_token(request, signed, response)
        if response is None or self._refreshable is None or not self._is_unauthorized(response):
            return
        try:
            newer = self._refreshable.get(Unauthorized(credential, self._signer.origin))
        except KubeAuthError as error:
            logger.warning("401 from the API server, and the credential could not be refreshed: %s", error)
            return
        if newer.authorization != credential.authorization and isinstance(request.stream, self._byte_stream):
            signed = self._sign(request, _require_header(newer))
            response = None
            with suppress(GeneratorExit):
                response = yield signed
            self._remove_token(request, signed, response)
            if response is not None and self._is_accepted(response):
                self._refreshable.reset_rate_limit(self._signer.origin)

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        if not self._signer.is_cluster_origin(request.url):
            yield request
            return
        if self._refreshable is not None and self._signer.has_authorization(request.headers):
            yield self._sign(request, NO_CREDENTIAL)
            return
        credential = self._source.cached_if_fresh(self._now()) or await self._source.aget()
        signed = self._sign(request, _require_header(credential))
        response = None
        with suppress(GeneratorExit):
            response = yield signed
        self._remove_token(request, signed, response)
        if response is None or self._refreshable is None or not self._is_unauthorized(response):
            return
        try:
            newer = await self._refreshable.aget(Unauthorized(credential, self._signer.origin))
        except KubeAuthError as error:
            logger.warning("401 from the API server, and the credential could not be refreshed: %s", error)
            return
        if newer.authorization != credential.authorization and isinstance(request.stream, self._byte_stream):
            signed = self._sign(request, _require_header(newer))
            response = None
            with suppress(GeneratorExit):
                response = yield signed
            self._remove_token(request, signed, response)
            if response is not None and self._is_accepted(response):
                self._refreshable.reset_rate_limit(self._signer.origin)

    @abstractmethod
    def _sign(self, request: Request, credential: Credential) -> Request:
        """Return a signed copy of `request`, marked as signed by KubeAuth."""

    def _is_unauthorized(self, response: Response) -> bool:
        return response.status_code == 401 and self._signer.is_cluster_origin(response.url)

    def _is_accepted(self, response: Response) -> bool:
        return is_authenticated(response.status_code) and self._signer.is_cluster_origin(response.url)

    def _remove_token(self, request: Request, signed: Request, response: Response | None) -> None:
        """Remove our header once there is a response, or an error.

        Both reference their requests, and are pickled with them: what a worker process returns must not
        contain the token.
        """
        if self._signer.has_authorization(request.headers):
            return  # the caller's own header
        # The library does not throw its error into a flow. It closes the flow while it handles the error.
        self._remove_authorization(signed, response or sys.exc_info()[1])

    @abstractmethod
    def _remove_authorization(self, signed: Request, outcome: Response | BaseException | None) -> None:
        """Remove Authorization from a request that was sent, and from the requests of its outcome."""


def _require_header(credential: Credential) -> Credential:
    """Return `credential`. ConfigError if it is a client certificate alone, also of a plugin."""
    if credential.client_certificate is not None and credential.authorization is None:
        raise _unsupported_error(
            "the user's only credential is a client certificate, which belongs to the connection"
        )
    return credential


def _reject_unsupported(
    config: ClientConfig, server: URLLike, credential: Credential, *, sends_token: bool
) -> None:
    """ConfigError for what an httpx.Auth cannot do, or cannot undo when the client follows a redirect."""
    _require_header(credential)
    sends_token = sends_token or credential.authorization is not None
    if config.impersonate is not None:
        reason = "impersonation headers would follow a redirect to another host"
    elif server.scheme == "http" and server.port is None and sends_token:
        reason = "the server is http on port 80, and httpx keeps the token on a redirect from there to https"
    else:
        return
    raise _unsupported_error(reason)


def _unsupported_error(reason: str) -> ConfigError:
    return ConfigError(f"KubeAuth cannot be used here: {reason}. Use KubeTransport or Client instead.")
