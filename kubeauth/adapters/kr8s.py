"""kr8s with kubeauth's credentials.

    import kr8s
    from kubeauth.adapters.kr8s import api

    kube = api()  # a kr8s.Api, for whatever cluster kubectl would talk to
    for pod in kr8s.get("pods", api=kube):
        print(pod.name)

kr8s has no way to be given a transport or credentials, so this one rests on what is private in it:
the docs say which versions it was tried with, and another series is refused. kr8s reads no kubeconfig,
runs no plugin and writes no file here; what it does after a 401 or a 403 is to raise.
Needs the extra: `pip install 'kubeauth[kr8s]'`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

try:
    import kr8s
    import kr8s.asyncio
except ImportError as error:
    raise ImportError(
        "kubeauth.adapters.kr8s needs kr8s. Install it: pip install 'kubeauth[kr8s]'"
    ) from error

import anyio
import httpx

from kubeauth._config.client_config import ClientConfig
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport.base import resolve_config
from kubeauth._transport.httpx import AsyncKubeTransport
from kubeauth.adapters._versions import check_version

__all__ = ["Api", "AsyncApi", "aapi", "api"]


class _Nobody:
    """In the place of kr8s's own KubeAuth: knows the server and the namespace, and has no credential."""

    token = client_cert_file = client_key_file = server_ca_file = tls_server_name = proxy = None

    def __init__(self, config: ClientConfig) -> None:
        # A password in the address is sent as a header by our transport: here it would be logged.
        self.server = str(httpx.URL(config.server).copy_with(userinfo=b""))
        self.namespace = config.namespace
        self.active_context = config.context

    async def reauthenticate(self) -> None:
        """Nothing: the transport has seen to it already."""

    def __await__(self) -> Generator[Any, None, None]:
        return self.reauthenticate().__await__()


class _Signed:
    """What both colours of kr8s do differently here."""

    auth: Any
    _session: Any
    _timeout: Any

    def _use(self, config: ClientConfig, clock: Clock) -> None:
        self.auth = _Nobody(config)
        self._transport = AsyncKubeTransport(config, clock=clock)

    async def _create_session(self) -> None:
        if self._session is None or self._session.is_closed:
            self._session = httpx.AsyncClient(
                transport=self._transport,
                base_url=self.auth.server,
                headers={"User-Agent": f"kr8s/{kr8s.__version__}", "Content-Type": "application/json"},
                timeout=self._timeout,
                follow_redirects=True,
            )

    @asynccontextmanager
    async def call_api(self, *args: Any, **kwargs: Any) -> AsyncGenerator[httpx.Response]:
        """As kr8s has it, but that a 401 or a 403 is an error at once.

        kr8s would authenticate again and repeat the request, three times. What can be done about a 401
        the transport has done; nothing can be about a 403.
        """
        raises = kwargs.get("raise_for_status", True)
        kwargs["raise_for_status"] = False
        async with kr8s.asyncio.Api.call_api(cast(kr8s.asyncio.Api, self), *args, **kwargs) as response:
            if raises and not response.is_success:
                await response.aread()
                raise _server_error(response)
            yield response

    async def async_whoami(self) -> Any:
        """Who the server takes us for: it is asked, whatever the credential is."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        async with self.call_api(
            "POST", version=review["apiVersion"], url="selfsubjectreviews", content=json.dumps(review)
        ) as response:
            return response.json()["status"]["userInfo"]["username"]

    async def aclose(self) -> None:
        """Closes all connections, for which kr8s itself has no word. It may be used again."""
        await self._transport.aclose()


class AsyncApi(_Signed, kr8s.asyncio.Api):
    """A kr8s.asyncio.Api: see `aapi`."""


class Api(_Signed, kr8s.Api):
    """A kr8s.Api: see `api`."""

    def close(self) -> None:
        """Closes all connections, for which kr8s itself has no word. It may be used again."""
        _in_its_loop(self.aclose)


def api(config: ClientConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> Api:
    """A kr8s.Api for the cluster of `config`, or for the one that kubectl would talk to.

    For `kr8s.get(..., api=)`, `Pod(..., api=)` and all the rest. As with kr8s.api(), whoever names no api
    gets the first that was made and is still held: this one, if there is no other. Nothing is sent before
    it is used. Errors of kubeauth reach the caller as they are. `clock` is for tests:
    kubeauth.testing.FakeClock.
    """
    config = _checked(config)

    async def made() -> Api:
        return _made(Api, config, clock)

    # Where all calls of the sync kr8s run: that is where it looks for the api to use when none is named.
    return _in_its_loop(made)


async def aapi(config: ClientConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> AsyncApi:
    """As `api`, for event loops: a kr8s.asyncio.Api."""
    config = await anyio.to_thread.run_sync(_checked, config)
    return _made(AsyncApi, config, clock)


def _checked(config: ClientConfig | None) -> ClientConfig:
    check_version("kr8s", since="0.20.10", before="0.21", why="it rests on what is private in kr8s")
    return resolve_config(config)


_AnyApi = TypeVar("_AnyApi", Api, AsyncApi)
_T = TypeVar("_T")


def _made(kind: type[_AnyApi], config: ClientConfig, clock: Clock) -> _AnyApi:
    made = kind(bypass_factory=True)
    made._use(config, clock)
    return made


def _in_its_loop(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """What the sync kr8s does with its async half: runs it in the one event loop that it keeps for that."""
    from kr8s._async_utils import as_sync_func

    return as_sync_func(work)()


def _server_error(response: httpx.Response) -> kr8s.ServerError:
    """As kr8s makes it of a response."""
    try:
        status = response.json()
        message = status["message"]
    except (ValueError, KeyError, TypeError):
        status, message = response.text, f"{response.status_code} {response.reason_phrase}"
    return kr8s.ServerError(message, status=status, response=response)
