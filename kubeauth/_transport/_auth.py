"""KubeAuth: header credentials for a client that somebody else has set up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator
from typing import ClassVar, Generic

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials._asked_source import AskedSource
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._credential import Credential, Refusal
from kubeauth._credentials._held import NOTHING
from kubeauth._transport._given import config_of
from kubeauth._transport._logs import keep_secrets_out_of_logs
from kubeauth._transport._shapes import Request, Response, URLLike
from kubeauth._transport._sign import Signer, is_welcome
from kubeauth._transport._source import source_of
from kubeauth._transport._state import logger, server_url_of
from kubeauth.errors import ConfigError, KubeAuthError


class AuthFlow(ABC, Generic[Request, Response]):
    """The flow of KubeAuth, for both libraries: sign a copy of what is for the cluster, and nothing else."""

    _byte_stream: ClassVar[type]
    """The library's class of bodies that can be sent again."""

    def __init__(self, config: ClientConfig | None, url: Callable[[str], URLLike], *, clock: Clock) -> None:
        config = config_of(config)
        keep_secrets_out_of_logs()
        server = server_url_of(config, url)
        self._source = source_of(config, clock=clock)
        self._plugin = self._source if isinstance(self._source, AskedSource) else None
        _refuse(config, server, self._source.latest, signs=self._plugin is not None)
        self._signer = Signer(server, None)
        self._now = clock.monotonic
        if self._plugin is not None:
            self._plugin.join(self)

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        if not self._signer.applies(request.url):
            yield request
            return
        if self._plugin is not None and self._signer.is_signed(request.headers):
            yield self._signed(request, NOTHING)
            return
        credential = self._source.fresh(self._now()) or self._source.get()
        response = yield self._signed(request, _header_of(credential))
        if self._plugin is None or response.status_code != 401 or not self._signer.applies(response.url):
            return
        try:
            newer = self._plugin.get(Refusal(credential, self._signer.origin))
        except KubeAuthError as error:
            logger.warning("the server refused the credential, and there is no other: %s", error)
            return
        if newer.authorization != credential.authorization and isinstance(request.stream, self._byte_stream):
            response = yield self._signed(request, _header_of(newer))
            if is_welcome(response.status_code) and self._signer.applies(response.url):
                self._plugin.accepted(self._signer.origin)

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        if not self._signer.applies(request.url):
            yield request
            return
        if self._plugin is not None and self._signer.is_signed(request.headers):
            yield self._signed(request, NOTHING)
            return
        credential = self._source.fresh(self._now()) or await self._source.aget()
        response = yield self._signed(request, _header_of(credential))
        if self._plugin is None or response.status_code != 401 or not self._signer.applies(response.url):
            return
        try:
            newer = await self._plugin.aget(Refusal(credential, self._signer.origin))
        except KubeAuthError as error:
            logger.warning("the server refused the credential, and there is no other: %s", error)
            return
        if newer.authorization != credential.authorization and isinstance(request.stream, self._byte_stream):
            response = yield self._signed(request, _header_of(newer))
            if is_welcome(response.status_code) and self._signer.applies(response.url):
                self._plugin.accepted(self._signer.origin)

    @abstractmethod
    def _signed(self, request: Request, credential: Credential) -> Request:
        """A copy of `request` with our header, marked as signed by KubeAuth."""


def _header_of(credential: Credential) -> Credential:
    """The same, if there is a header in it. ConfigError for a certificate alone, whoever gave it."""
    if credential.identity is not None and credential.authorization is None:
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
