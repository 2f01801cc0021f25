"""Races: concurrent requests, reloads, retries, close() and cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest

from kubeauth import ClientConfig, Secret
from kubeauth.errors import ClientCertificateError
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.clients import VARIANTS, ClientVariant, Driver
from tests.support.idle_threads import wait_for_idle_threads
from tests.support.residue import wait_until

pytestmark = pytest.mark.every_variant

CALLERS = 8


def send_concurrently(client: Driver, *, callers: int = CALLERS) -> list[Any]:
    """Send `callers` requests at the same time, and return their responses and errors."""
    results: list[Any] = []

    def send(barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            results.append(client.client.get("/version"))
        except Exception as error:
            results.append(error)

    async def asend() -> None:
        try:
            results.append(await client.client.get("/version"))
        except Exception as error:
            results.append(error)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(asend)

    if client._portal is not None:
        client._portal.call(main)
    else:
        barrier = threading.Barrier(callers)
        threads = [threading.Thread(target=send, args=(barrier,)) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


class TestSharedErrors:
    """The traceback of an error that several tasks raise has frames of tasks that still run.

    Their local variables must not be cleared.
    """

    @pytest.mark.parametrize(
        "variant",
        [ClientVariant(lib, runtime) for lib in (httpx, httpx2) for runtime in ("asyncio", "trio")],
        ids=str,
    )
    def test_a_transport_can_raise_the_same_error_object_in_every_task(self, variant: ClientVariant) -> None:
        shared_error = variant.library.ConnectError("shared")

        class RaisingTransport(variant.library.AsyncBaseTransport):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                self.tasks = 0
                self.all_raised = anyio.Event()

            async def handle_async_request(self, request: Any) -> Any:
                try:
                    raise shared_error
                except variant.library.ConnectError:
                    self.tasks += 1
                    if self.tasks == CALLERS:
                        self.all_raised.set()
                    await self.all_raised.wait()
                    raise

        config = ClientConfig(server="https://h", token=Secret("t"))

        with variant.client(config, transport_factory=lambda _context, _proxy: RaisingTransport()) as client:
            assert send_concurrently(client) == [shared_error] * CALLERS

    @pytest.mark.parametrize("variant", VARIANTS, ids=str)
    def test_every_http2_request_fails_if_the_connection_breaks(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        from tests.support.h2_server import H2Server

        with H2Server(authority.server("127.0.0.1"), hang_up_after=CALLERS) as server:
            config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret("t"))
            with variant.client(config, http2=True) as client:
                results = send_concurrently(client)
                assert len(results) == CALLERS
                assert all(isinstance(result, variant.library.TransportError) for result in results)


class TestConcurrentRequestsAfterIdleTime:
    """A value that was read an hour ago may have expired: no request uses it while another one reloads it."""

    def test_all_requests_use_a_changed_token_file_k62(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        path = tmp_path / "token"
        path.write_text("token-0")
        server.tokens = {"token-0": "alice"}

        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            for number in range(1, 11):
                path.write_text(f"token-{number}")
                server.tokens = {f"token-{number}": "alice"}
                clock.advance(3600.0)
                assert {response.status_code for response in send_concurrently(client)} == {200}

    def test_all_requests_use_a_changed_client_certificate_k54(
        self, variant: ClientVariant, tmp_path: Path, clock: FakeClock, authority: Authority
    ) -> None:
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        with APIServer(authority=authority, require_certificate=True) as server:
            authority.client("user-0").write(*files)
            contexts: list[object] = []

            def factory(context: Any, proxy: Any) -> Any:
                contexts.append(context)
                return variant.PlainTransport(context, proxy=proxy)

            config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

            with variant.client(config, clock=clock, transport_factory=factory) as client:
                for number in range(1, 6):
                    authority.client(f"user-{number}").write(*files)
                    clock.advance(3600.0)
                    before = len(server.requests)
                    assert {response.status_code for response in send_concurrently(client)} == {200}
                    assert {request.user for request in server.requests[before:]} == {f"user-{number}"}

            # One pool for each certificate, regardless of the number of concurrent requests.
            assert len(contexts) == 6

    def test_the_token_file_is_read_once_for_all_requests_k62(
        self,
        variant: ClientVariant,
        server: APIServer,
        tmp_path: Path,
        clock: FakeClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from kubeauth._config.files import read_token_file
        from kubeauth._credentials import files as credential_files

        path = tmp_path / "token"
        path.write_text("alices-token")
        thread_counts: list[int] = []

        def count_threads(path: str) -> Any:
            thread_counts.append(threading.active_count())
            return read_token_file(path)

        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            monkeypatch.setattr(credential_files, "read_token_file", count_threads)
            for seconds in (50.0, 3600.0):
                before = threading.active_count()
                clock.advance(seconds)
                assert {response.status_code for response in send_concurrently(client, callers=32)} == {200}
                assert len(thread_counts) == 1
                if variant.is_async:
                    # Waiting tasks use no threads; the server uses one for each connection.
                    assert thread_counts.pop() <= before + 32 + 1
                thread_counts.clear()

    def test_requests_wait_for_an_overdue_reload_k62(
        self,
        variant: ClientVariant,
        server: APIServer,
        tmp_path: Path,
        clock: FakeClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A reload that is two seconds late: other requests wait for it, because the token may have expired."""
        from kubeauth._config.files import read_token_file
        from kubeauth._credentials import files as credential_files

        path = tmp_path / "token"
        path.write_text("alices-token")
        server.tokens["new"] = "bob"
        reading, release = threading.Event(), threading.Event()

        def read_slowly(path: str) -> Any:
            reading.set()
            release.wait(60)
            return read_token_file(path)

        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            monkeypatch.setattr(credential_files, "read_token_file", read_slowly)
            path.write_text("new")
            clock.advance(52.0)
            threads = [threading.Thread(target=client.get, args=("/version",)) for _ in range(2)]
            threads[0].start()
            assert reading.wait(60)

            threads[1].start()
            wait_for_idle_threads()

            assert server.requests == []
            release.set()
            for thread in threads:
                thread.join()

        assert [request.user for request in server.requests] == ["bob", "bob"]

    def test_files_are_reloaded_after_the_machine_slept(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        """The monotonic clock stopped meanwhile; the wall clock did not."""
        path = tmp_path / "token"
        path.write_text("alices-token")
        server.tokens["new"] = "bob"

        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            path.write_text("new")
            clock.set_date(clock.time() + 8 * 3600)
            client.get("/version")
            clock.set_date(clock.time() - 24 * 3600)
            client.get("/version")

        assert [request.user for request in server.requests] == ["alice", "bob", "bob"]


def test_an_unexpected_error_of_a_reload_keeps_the_value(caplog: pytest.LogCaptureFixture) -> None:
    from kubeauth._credentials.files import PolledValue

    def read() -> str:
        raise ZeroDivisionError("s3ntinel")

    polled = PolledValue(read, "first", due=0.0, interval=50.0)
    polled.reload(100.0)

    assert (polled.value, polled.due) == ("first", 150.0)
    assert "ZeroDivisionError" in str(polled.error)
    assert "s3ntinel" not in caplog.text


def test_a_delayed_request_uses_the_new_connections(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """It got the old certificate from the source before the rotation, and is sent afterwards."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    with variant.client(config, clock=clock) as client:
        transport = client.client._transport
        old = transport._source.current
        server.authority.client("dave").write(*files)
        clock.advance(1.0)
        client.get("/version")
        cached_if_fresh = transport._source.cached_if_fresh

        transport._source.cached_if_fresh = lambda _now: old
        client.get("/version")
        transport._source.cached_if_fresh = cached_if_fresh
        client.get("/version")

    assert [(request.user, request.connection) for request in server.requests] == [("dave", 1)] * 3


class TestRetries:
    @pytest.mark.parametrize(
        "headers", [{"Upgrade": "websocket", "Connection": "Upgrade"}, {"upgrade": "SPDY/3.1"}]
    )
    def test_upgrade_requests_are_not_retried(
        self, variant: ClientVariant, server: APIServer, headers: dict[str, str]
    ) -> None:
        """exec, attach and port-forward are GETs, and a command must not be run twice."""
        server.on("GET", "/exec", Answer(hang_up=True))
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")
            with pytest.raises(variant.library.TransportError):
                client.get("/exec?command=rm", headers=headers)

        assert [request.path for request in server.requests] == ["/version", "/exec?command=rm"]

    def test_requests_over_wss_are_not_retried(self, variant: ClientVariant, server: APIServer) -> None:
        server.on("GET", "/exec", Answer(hang_up=True))
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")
            with pytest.raises(variant.library.TransportError):
                client.get(f"{server.url.replace('https', 'wss')}/exec")

        assert len(server.requests) == 2

    def test_a_request_on_a_new_connection_is_not_retried(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        server.on("GET", "/closed", Answer(hang_up=True))
        limits = variant.library.Limits(max_keepalive_connections=0)
        with variant.client(server.config(token="alices-token"), limits=limits) as client:
            client.get("/version")
            with pytest.raises(variant.library.TransportError):
                client.get("/closed")

        assert [request.path for request in server.requests] == ["/version", "/closed"]


class TestClosing:
    def test_a_request_in_flight_is_not_retried_after_close(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        arrived, release = threading.Event(), threading.Event()

        def respond_slowly(_request: Any) -> Answer:
            arrived.set()
            release.wait(60)
            return Answer()

        server.on("GET", "/slow", respond_slowly)
        errors: list[BaseException] = []

        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")

            def send_request() -> None:
                try:
                    client.get("/slow")
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=send_request)
            thread.start()
            assert arrived.wait(60)

            client.close()

            release.set()
            thread.join(60)
            assert not thread.is_alive()

        assert [request.path for request in server.requests] == ["/version", "/slow"]
        if variant.is_async:  # a thread that reads from a socket is not interrupted by closing it
            assert [type(error) for error in errors] == [variant.library.ReadError]

    def test_a_closed_transport_can_be_used_again(self, variant: ClientVariant, server: APIServer) -> None:
        transport = variant.KubeTransport(server.config(token="alices-token"))
        for _ in range(3):
            with variant.drive(
                lambda: variant.PlainClient(transport=transport, base_url=server.url)
            ) as client:
                assert client.get("/version").status_code == 200
            wait_until(lambda: server.open_connections == 0)

    def test_close_can_be_called_twice(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")
            client.close()
            client.close()

    def test_every_transport_is_closed_even_if_one_raises(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        created: list[int] = []
        closed: list[int] = []

        def factory(context: Any, proxy: Any) -> Any:
            number = len(created)

            class RaisingTransport(variant.PlainTransport):  # type: ignore[name-defined,misc]
                def close(self) -> None:
                    super().close()
                    closed.append(number)
                    raise ZeroDivisionError

                async def aclose(self) -> None:
                    await super().aclose()
                    closed.append(number)
                    raise ZeroDivisionError

            created.append(number)
            return RaisingTransport(context, proxy=proxy)

        with APIServer(tls=False) as other:
            with (
                pytest.raises(ZeroDivisionError),
                variant.client(server.config(), transport_factory=factory) as client,
            ):
                client.get(f"{other.url}/version")

        assert closed == created == [0, 1]

    def test_reading_a_closed_body_raises_runtime_error(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            with client.stream("GET", "/version") as stream:
                body = stream.response.stream._stream
            with pytest.raises(RuntimeError, match="closed"):
                body.__aiter__() if variant.is_async else iter(body)


class TestLeases:
    def retired_pool(
        self,
        variant: ClientVariant,
        server: APIServer,
        tmp_path: Path,
        clock: FakeClock,
        factory: Any,
        use: Callable[[Driver], object],
    ) -> Any:
        """Use a client, then rotate its certificate. Returns the pool that `use` has used."""
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        server.authority.client("carol").write(*files)
        config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
        with variant.client(config, clock=clock, transport_factory=factory) as client:
            old = client.client._transport._pools.current
            result = use(client)  # referenced until after the rotation
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            client.get("/version")
            assert client.client._transport._pools.current is not old
            del result
            return old

    def test_an_already_closed_response_releases_its_lease(self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock) -> None:  # fmt: skip
        def respond(_request: Any) -> Any:
            response = variant.library.Response(200, content=b"{}")
            assert response.is_closed
            return response

        old = self.retired_pool(
            variant, server, tmp_path, clock, variant.in_memory(respond), lambda client: client.get("/x")
        )

        assert not old._leases
        assert old._is_closed

    def test_a_failed_request_releases_its_lease(self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock) -> None:  # fmt: skip
        errors = iter([variant.library.ConnectError("no"), ZeroDivisionError()])

        def respond(_request: Any) -> Any:
            if error := next(errors, None):
                raise error
            return variant.library.Response(200)

        def send_failing_requests(client: Driver) -> None:
            for error in (variant.library.ConnectError, ZeroDivisionError):
                with pytest.raises(error):
                    client.get("/x")

        old = self.retired_pool(
            variant, server, tmp_path, clock, variant.in_memory(respond), send_failing_requests
        )

        assert old._is_closed

    def test_a_response_that_was_read_does_not_reference_its_pool(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            response = client.get("/version")
            lease = response.stream._stream
            assert (lease.pool, lease.body) == (None, None)

    def test_every_transport_is_closed_after_a_cancelled_rotation(
        self, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        for variant in (ClientVariant(httpx, "asyncio"), ClientVariant(httpx2, "trio")):
            self.cancel_rotation(variant, server, tmp_path, clock)

    def cancel_rotation(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        server.authority.client("carol").write(*files)
        config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
        building, release = threading.Event(), threading.Event()
        transports: list[Any] = []

        class CountingTransport(variant.library.AsyncHTTPTransport):  # type: ignore[name-defined,misc]
            close_count = 0

            async def aclose(self) -> None:
                self.close_count += 1
                await super().aclose()

        def factory(context: Any, proxy: Any) -> Any:
            if transports:
                building.set()
                release.wait(60)
            transports.append(CountingTransport(context, proxy=proxy))
            return transports[-1]

        async def main() -> None:
            async with variant.Client(config, clock=clock, transport_factory=factory) as client:
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, "/version")
                    await anyio.to_thread.run_sync(building.wait)
                    group.cancel_scope.cancel()
                    release.set()

        anyio.run(main, backend=variant.runtime)

        assert [transport.close_count for transport in transports] == [1, 1]


class TestErrorMessages:
    def test_another_origin_that_requires_a_client_certificate(
        self, variant: ClientVariant, server: APIServer, public: Authority
    ) -> None:
        config = server.config(identity=server.authority.client("carol"))
        with APIServer(authority=public, require_certificate=True) as other, variant.client(config) as client:
            with pytest.raises(ClientCertificateError, match="is sent to its cluster only"):
                client.get(f"{other.url}/version")

    def test_a_proxy_that_requires_a_client_certificate(
        self, variant: ClientVariant, server: APIServer, authority: Authority
    ) -> None:
        from tests.support.proxy_servers import Proxy

        with Proxy(
            "https", authority.server("127.0.0.1"), client_authority=authority, require_certificate=True
        ) as proxy:
            config = server.config(identity=authority.client("carol"), proxy_url=proxy.url)
            with (
                variant.client(config) as client,
                pytest.raises(ClientCertificateError, match="or the proxy https://"),
            ):
                client.get("/version")
