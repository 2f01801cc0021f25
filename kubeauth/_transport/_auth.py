"""KubeAuth: header credentials for a client that somebody else has set up."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import ClassVar, Generic

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import NO_CREDENTIAL, RefreshableSource
from kubeauth._runtime import Clock, ProcessBound
from kubeauth._transport._given import config_of
from kubeauth._transport._logs import keep_secrets_out_of_logs
from kubeauth._transport._shapes import Request, Response, URLLike
from kubeauth._transport._sign import Signer, is_welcome
from kubeauth._transport._source import source_of
from kubeauth._transport._state import logger, server_url_of
from kubeauth.errors import ConfigError, KubeAuthError


class AuthFlow(ProcessBound, ABC, Generic[Request, Response]):
    """The flow of KubeAuth, for both libraries: sign a copy of what is for the cluster, and nothing else."""

    _byte_stream: ClassVar[type]
    """The library's class of bodies that can be sent again."""

    def __init__(self, config: ClientConfig | None, url: Callable[[str], URLLike], *, clock: Clock) -> None:
        config = config_of(config)
        keep_secrets_out_of_logs()
        server = server_url_of(config, url)
        self._source = source_of(config, clock=clock)
        self._plugin = self._source if isinstance(self._source, RefreshableSource) else None
        _refuse(config, server, self._source.current, signs=self._plugin is not None)
        self._signer = Signer(server, None)
        self._now = clock.monotonic
        if self._plugin is not None:
            self._plugin.acquire(self)

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        if not self._signer.applies(request.url):
            yield request
            return
        if self._plugin is not None and self._signer.is_signed(request.headers):
            yield self._signed(request, NO_CREDENTIAL)
            return
        credential = self._source.cached_if_fresh(self._now()) or self._source.get()
        signed = self._signed(request, _header_of(credential))
        response = None
        with suppress(GeneratorExit):
            response = yield signed
        self._take_back(request, signed, response)
        if response is None or self._plugin is None or not self._is_refused(response):
            return
        try:
            newer = self._plugin.get(Unauthorized(credential, self._signer.origin))
        except KubeAuthError as error:
            logger.warning("401 from the API server, and the credential could not be refreshed: %s", error)
            return
        if newer.authorization != credential.authorization and isinstance(request.stream, self._byte_stream):
            signed = self._signed(request, _header_of(newer))
            response = None
            with suppress(GeneratorExit):
                response = yield signed
            self._take_back(request, signed, response)
            if response is not None and self._is_accepted(response):
                self._plugin.reset_rate_limit(self._signer.origin)

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        if not self._signer.applies(request.url):
            yield request
            return
        if self._plugin is not None and self._signer.is_signed(request.headers):
            yield self._signed(request, NO_CREDENTIAL)
            return
        credential = self._source.cached_if_fresh(self._now()) or await self._source.aget()
        signed = self._signed(request, _header_of(credential))
        response = None
        with suppress(GeneratorExit):
            response = yield signed
        self._take_back(request, signed, response)
        if response is None or self._plugin is None or not self._is_refused(response):
            return
        try:
            newer = await self._plugin.aget(Unauthorized(credential, self._signer.origin))
        except KubeAuthError as error:
            logger.warning("401 from the API server, and the credential could not be refreshed: %s", error)
            return
        if newer.authorization != credential.authorization and isinstance(request.stream, self._byte_stream):
            signed = self._signed(request, _header_of(newer))
            response = None
            with suppress(GeneratorExit):
                response = yield signed
            self._take_back(request, signed, response)
            if response is not None and self._is_accepted(response):
                self._plugin.reset_rate_limit(self._signer.origin)

    @abstractmethod
    def _signed(self, request: Request, credential: Credential) -> Request:
        """A copy of `request` with our header, marked as signed by KubeAuth."""

    def _is_refused(self, response: Response) -> bool:
        return response.status_code == 401 and self._signer.applies(response.url)

    def _is_accepted(self, response: Response) -> bool:
        return is_welcome(response.status_code) and self._signer.applies(response.url)

    def _take_back(self, given: Request, signed: Request, response: Response | None) -> None:
        """Takes our header back when the response is there, or an error instead.

        Both hold their requests, headers and all, and are pickled with them: what a worker returns must not
        carry the token.
        """
        if self._signer.is_signed(given.headers):
            return  # it is the caller's own
        # The library does not throw its error into a flow. It closes it, while it handles the error.
        self._forget(signed, response or sys.exc_info()[1])

    @abstractmethod
    def _forget(self, signed: Request, outcome: Response | BaseException | None) -> None:
        """Removes our header from what is kept of a request that was sent, and from what became of it."""


def _header_of(credential: Credential) -> Credential:
    """The same, if there is a header in it. ConfigError for a certificate alone, whoever gave it."""
    if credential.client_certificate is not None and credential.authorization is None:
        raise _cannot("the user's only credential is a client certificate, which is shown by the connection")
    return credential


def _refuse(config: ClientConfig, server: URLLike, credential: Credential, *, signs: bool) -> None:
    """What an Auth cannot do at all, or cannot take back when the client follows a redirect."""
    _header_of(credential)
    signs = signs or credential.authorization is not None
    if config.impersonate is not None:
        why = "the user impersonates another, and those headers would follow a redirect to another host"
    elif server.scheme == "http" and server.port is None and signs:
        why = "the server is http on port 80, and httpx lets a token follow a redirect from there to https"
    else:
        return
    raise _cannot(why)


def _cannot(why: str) -> ConfigError:
    return ConfigError(f"KubeAuth cannot do this: {why}. Use KubeTransport instead, or Client.")
