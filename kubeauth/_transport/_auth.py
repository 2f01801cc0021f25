"""KubeAuth: header credentials for a client that somebody else has set up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Generic

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._credential import Credential
from kubeauth._credentials._sources import source_for
from kubeauth._transport._given import config_of
from kubeauth._transport._logs import keep_secrets_out_of_logs
from kubeauth._transport._shapes import Request, Response, URLLike
from kubeauth._transport._sign import Signer
from kubeauth._transport._state import server_url_of
from kubeauth.errors import ConfigError


class AuthFlow(ABC, Generic[Request, Response]):
    """The flow of KubeAuth, for both libraries: sign a copy of what is for the cluster, and nothing else."""

    def __init__(self, config: ClientConfig | None, url: Callable[[str], URLLike], *, clock: Clock) -> None:
        config = config_of(config)
        keep_secrets_out_of_logs()
        server = server_url_of(config, url)
        self._source = source_for(config, clock)
        _refuse(config, server, self._source.get())
        self._signer = Signer(server, None)
        self._now = clock.monotonic

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        if not self._signer.applies(request.url):
            yield request
            return
        credential = self._source.fresh(self._now()) or self._source.get()
        yield self._signed(request, credential)

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        if not self._signer.applies(request.url):
            yield request
            return
        credential = self._source.fresh(self._now()) or await self._source.aget()
        yield self._signed(request, credential)

    @abstractmethod
    def _signed(self, request: Request, credential: Credential) -> Request:
        """A copy of `request` with our header, marked as signed by KubeAuth."""


def _refuse(config: ClientConfig, server: URLLike, credential: Credential) -> None:
    """What an Auth cannot do at all, or cannot take back when the client follows a redirect."""
    if credential.identity is not None and credential.authorization is None:
        why = "the user's only credential is a client certificate, which is shown by the connection"
    elif config.impersonate is not None:
        why = "the user impersonates another, and those headers would follow a redirect to another host"
    elif server.scheme == "http" and server.port is None and credential.authorization is not None:
        why = "the server is http on port 80, and httpx lets a token follow a redirect from there to https"
    else:
        return
    raise ConfigError(f"KubeAuth cannot do this: {why}. Use KubeTransport instead, or Client.")
