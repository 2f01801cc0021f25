"""What is particular to the clients for asyncio: the event loop is never held up; websockets."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import kubeauth
from kubeauth import ClientConfig, Impersonation, Secret
from kubeauth.testing import Answer, APIServer, Authority
from tests.adapters.generated import GENERATED, Generated
from tests.adapters.websockets import Shells, shells
from tests.support.callers import BlockingPlugin
from tests.support.proxy_servers import Proxy
from tests.support.residue import descriptors, no_residue
from tests.support.shell_plugin import ShellPlugin


@pytest.fixture(params=[each for each in GENERATED if each.is_async], ids=str)
def generated(request: pytest.FixtureRequest) -> Generated:
    found: Generated = request.param
    return found


async def started(plugin: BlockingPlugin) -> None:
    while not plugin.runs:  # noqa: ASYNC110 -- another process says so
        await asyncio.sleep(0.01)


async def settled(before: int) -> None:
    """aiohttp does not wait for a websocket to be closed: the loop must not end before that."""
    for _ in range(500):
        if descriptors() <= before:
            return
        await asyncio.sleep(0.01)


def test_it_is_one_of_theirs(generated: Generated, server: APIServer) -> None:
    with generated.drive(server.config(token="alices-token")) as api:
        assert isinstance(api.api, generated.client.ApiClient)


def test_fifty_tasks_cause_one_run_and_the_loop_goes_on(
    generated: Generated, server: APIServer, tmp_path: Path
) -> None:
    """The plugin answers when the loop has turned a hundred times: if it stood still, that would be never."""
    plugin = BlockingPlugin(tmp_path)
    plugin.set_token("alices-token")
    config = ClientConfig(server=server.url, ca_data=server.authority.pem, exec=plugin.config().exec)

    async def main() -> list[int]:
        async with generated.module.api_client(config) as api:
            core = generated.client.CoreV1Api(api)
            asking = [asyncio.create_task(core.list_namespace()) for _ in range(50)]
            await started(plugin)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not any(task.done() for task in asking)
            plugin.release()
            return [len(found.items) for found in await asyncio.gather(*asking)]

    with no_residue():
        assert asyncio.run(main()) == [3] * 50
        gc.collect()
    assert plugin.runs == 1


def test_a_cancelled_caller_cancels_nobody_else(
    generated: Generated, server: APIServer, tmp_path: Path
) -> None:
    plugin = BlockingPlugin(tmp_path)
    plugin.set_token("alices-token")
    config = ClientConfig(server=server.url, ca_data=server.authority.pem, exec=plugin.config().exec)

    async def main() -> int:
        async with generated.module.api_client(config) as api:
            core = generated.client.CoreV1Api(api)
            first, second = (asyncio.create_task(core.list_namespace()) for _ in range(2))
            await started(plugin)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            plugin.release()
            return len((await second).items)

    assert asyncio.run(main()) == 3
    assert plugin.runs == 1


def test_errors_of_aiohttp_show_nothing_that_was_sent(generated: Generated, server: APIServer) -> None:
    """Neither the token, when somebody makes an error of an answer, nor the password of a proxy that refuses."""

    async def main(config: ClientConfig) -> None:
        async with generated.module.api_client(config) as api:
            answer = await api.rest_client.pool_manager.request("GET", f"{config.server}/version")
            answer.raise_for_status()

    with APIServer(tls=False) as refuses:
        proxy_url = refuses.url.replace("//", "//me:s3cret@")
        for config, kind in (
            (server.config(token="s3cret"), aiohttp.ClientResponseError),
            (server.config(token="s3cret", proxy_url=proxy_url), aiohttp.ClientHttpProxyError),
        ):
            with pytest.raises(kind) as caught:
                asyncio.run(main(config))
            shown = f"{caught.value!r} {caught.value} {caught.value.args} {vars(caught.value)}"
            assert "s3cret" not in shown
            assert "bWU6czNjcmV0" not in shown  # me:s3cret, as a header has it


@pytest.mark.parametrize("websocket", [False, True], ids=["request", "websocket"])
def test_errors_of_connecting_do_not_show_the_password_of_a_proxy(
    generated: Generated, server: APIServer, websocket: bool
) -> None:
    """Of a proxy that is gone, of one behind which is no TLS, and of a server that is not trusted."""

    async def main(config: ClientConfig) -> None:
        async with generated.module.api_client(config) as api:
            pool = api.rest_client.pool_manager
            asked = pool.ws_connect if websocket else partial(pool.request, "GET")
            await asked(f"{config.server}/version")

    with socket.socket() as gone, Proxy("http") as proxy, APIServer(tls=False) as no_tls:
        gone.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
        behind = no_tls.url.replace("http:", "https:")
        for url, config in (
            (address, server.config(token="x")),
            (proxy.url, replace(server.config(token="x"), server=behind)),
            (proxy.url, replace(server.config(token="x"), ca_data=Authority().pem)),
        ):
            config = replace(config, proxy_url=url.replace("//", "//me:s3cret@"))
            with pytest.raises(aiohttp.ClientError) as caught:
                asyncio.run(main(config))
            error: BaseException | None = caught.value
            while error is not None:
                assert "s3cret" not in f"{error!r} {error} {error.args} {vars(error)}"
                error = error.__cause__ or error.__context__


@pytest.mark.parametrize("location", ["http://[", "mailto:x", "http://h:99999/", "https://xn--/"])
def test_a_redirect_to_nowhere_is_an_error_of_aiohttps(
    generated: Generated, server: APIServer, location: str
) -> None:
    server.on("GET", "/away", Answer(302, headers={"Location": location}))
    with generated.drive(server.config(token="alices-token")) as api:
        with pytest.raises(aiohttp.ClientError):
            api.raw(f"{server.url}/away")


def test_the_hook_of_a_configuration_does_not_hold_up_the_loop(
    generated: Generated, server: APIServer, tmp_path: Path
) -> None:
    plugin = BlockingPlugin(tmp_path)
    plugin.set_token("alices-token")
    config = ClientConfig(server=server.url, ca_data=server.authority.pem, exec=plugin.config().exec)

    async def main() -> int:
        made = generated.module.configuration(config)
        async with generated.client.ApiClient(made) as api:
            asking = asyncio.create_task(generated.client.CoreV1Api(api).list_namespace())
            await started(plugin)
            plugin.release()
            return len((await asking).items)

    assert asyncio.run(main()) == 3


def test_what_changes_something_is_not_sent_elsewhere_by_a_redirect(
    generated: Generated, server: APIServer
) -> None:
    server.on("POST", "/api/v1/namespaces/web/configmaps", Answer(307, headers={"Location": "/elsewhere"}))
    with generated.drive(server.config(token="alices-token")) as api:
        with pytest.raises(generated.client.ApiException) as caught:
            api.create("web", "settings")
    assert caught.value.status == 307
    assert [request.method for request in server.requests] == ["POST"]


def test_settings_of_a_configuration_are_kept(generated: Generated, server: APIServer) -> None:
    mine = generated.client.Configuration(host="https://elsewhere.test")
    mine.api_key = {"BearerToken": "Bearer of-somebody-else"}
    mine.connection_pool_maxsize = 3
    mine.retries = 2  # which only one of them looks at
    with generated.drive(server.config(token="alices-token"), configuration=mine) as api:
        api.namespaces()
        assert api.api._transport._pools.current.transport._session.connector.limit == 3
    assert server.requests[0].all_headers("Authorization") == ["Bearer alices-token"]
    assert mine.host == "https://elsewhere.test"


class TestWebSockets:
    @pytest.fixture
    def shells(self, authority: Authority) -> Iterator[Shells]:
        with shells(authority) as it:
            yield it

    def config(self, shells: Shells, **fields: Any) -> ClientConfig:
        return ClientConfig(**({"server": shells.url, "ca_data": shells.authority.pem} | fields))

    def run(self, generated: Generated, config: ClientConfig) -> Any:
        async def main() -> Any:
            before = descriptors()
            try:
                return await ask()
            finally:
                await settled(before)

        async def ask() -> Any:
            async with generated.module.ws_api_client(config, heartbeat=30.0) as api:
                core = generated.client.CoreV1Api(api)
                return await core.connect_get_namespaced_pod_exec("web-0", "web", command=["id"], stdout=True)

        with no_residue():
            return asyncio.run(main())

    @pytest.mark.parametrize("kind", ["token", "certificate"])
    def test_exec(self, generated: Generated, shells: Shells, kind: str) -> None:
        pair = shells.authority.client("carol")
        fields: dict[str, dict[str, Any]] = {
            "token": {"token": Secret("t1")},
            "certificate": {"client_cert_data": pair.certificate, "client_key_data": Secret(pair.key)},
        }
        config = self.config(shells, **fields[kind], impersonate=Impersonation(user="jane"))
        assert self.run(generated, config) == "ran id"
        (asked,) = shells.asked
        assert asked.authorization == {"token": "Bearer t1", "certificate": None}[kind]
        assert asked.certificate == {"token": None, "certificate": "CN=carol"}[kind]
        assert asked.impersonated == "jane"

    def test_a_revoked_token_costs_nobody_a_connection(
        self, generated: Generated, shells: Shells, tmp_path: Path
    ) -> None:
        plugin = ShellPlugin(tmp_path)
        plugin.answer(token="t1")

        def welcome(asked: Any) -> bool:
            plugin.answer(token="t2")
            return bool(asked.authorization == "Bearer t2")

        shells.welcome = welcome
        stanza = kubeauth.ExecConfig(
            command=str(plugin.path), api_version="client.authentication.k8s.io/v1", interactive_mode="Never"
        )
        assert self.run(generated, self.config(shells, exec=stanza)) == "ran id"
        assert [asked.authorization for asked in shells.asked] == ["Bearer t1", "Bearer t2"]

    def test_a_refusal_does_not_show_the_token(self, generated: Generated, shells: Shells) -> None:
        shells.welcome = lambda asked: False
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            self.run(generated, self.config(shells, token=Secret("s3cret-token")))
        assert caught.value.status == 401
        assert "s3cret" not in f"{caught.value!r} {caught.value} {caught.value.args} {vars(caught.value)}"

    def test_a_redirect_is_not_followed(self, generated: Generated, shells: Shells) -> None:
        """aiohttp would, with the certificate of the cluster in hand."""

        async def main() -> None:
            before = descriptors()
            async with generated.module.ws_api_client(self.config(shells, token=Secret("t1"))) as api:
                there = f"{shells.url}/api/v1/namespaces/web/pods/p/exec"
                with pytest.raises(aiohttp.ClientConnectionError, match="does not follow"):
                    await api.rest_client.pool_manager.ws_connect(f"{shells.url}/away?to={there}")
            await settled(before)

        with no_residue():
            asyncio.run(main())
        assert shells.asked == []

    def test_left_to_the_caller(self, generated: Generated, shells: Shells) -> None:
        """An open connection is the caller's to close; one that is garbage holds no connections."""

        async def main() -> list[Any]:
            before = descriptors()
            said = await ask()
            await settled(before)
            return said

        async def ask() -> list[Any]:
            async with generated.module.ws_api_client(self.config(shells, token=Secret("t1"))) as api:
                pool = api.rest_client.pool_manager
                url = f"{shells.url}/api/v1/namespaces/web/pods/p/exec?command=ls"
                websocket = await pool.ws_connect(url, protocols=("v4.channel.k8s.io",))
                said = [message.data async for message in websocket]
                await websocket.close()
                assert len(api._transport._pools.current.leases()) == 1
                del websocket
                gc.collect()
                assert api._transport._pools.current.leases() == []
                return said

        with no_residue():
            assert asyncio.run(main())[0] == b"\x01ran ls"
