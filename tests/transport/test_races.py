"""What happens between two lines: shared errors, bursts, closing in flight, factories that misbehave."""

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
from tests.support.residue import wait_until

pytestmark = pytest.mark.every_variant

BURST = 8


def burst(variant: ClientVariant, client: Driver, path: str = "/version", callers: int = BURST) -> list[Any]:
    """So many requests at the same moment; their responses and errors."""
    results: list[Any] = []

    def call(barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            results.append(client.client.get(path))
        except Exception as error:
            results.append(error)

    async def acall() -> None:
        try:
            results.append(await client.client.get(path))
        except Exception as error:
            results.append(error)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(acall)

    if client._portal is not None:
        client._portal.call(main)
    else:
        barrier = threading.Barrier(callers)
        threads = [threading.Thread(target=call, args=(barrier,)) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


class TestOneErrorInSeveralTasks:
    """Its traceback has the frames of all of them; those that wait must live."""

    @pytest.mark.parametrize(
        "variant",
        [ClientVariant(lib, runtime) for lib in (httpx, httpx2) for runtime in ("asyncio", "trio")],
        ids=str,
    )
    def test_of_a_transport_that_stores_it(self, variant: ClientVariant) -> None:
        stored = variant.library.ConnectError("stored")

        class Inner(variant.library.AsyncBaseTransport):  # type: ignore[name-defined,misc]
            async def handle_async_request(self, request: Any) -> Any:
                try:
                    raise stored
                except variant.library.ConnectError:
                    await anyio.sleep(0.01)
                    raise

        config = ClientConfig(server="https://h", token=Secret("t"))
        with variant.client(config, transport_factory=lambda _context, _proxy: Inner()) as client:
            assert burst(variant, client) == [stored] * BURST

    @pytest.mark.parametrize("variant", VARIANTS, ids=str)
    def test_of_http2_when_a_connection_breaks(self, variant: ClientVariant, authority: Authority) -> None:
        from tests.support.h2_server import H2Server

        with H2Server(authority.server("127.0.0.1"), hang_up_after=BURST) as server:
            config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret("t"))
            with variant.client(config, http2=True) as client:
                results = burst(variant, client)
                assert len(results) == BURST
                assert all(isinstance(each, variant.library.TransportError) for each in results)


class TestBurstsAfterIdleTime:
    """What was read an hour ago may be over: nobody goes on with it because somebody else is reading."""

    def test_a_token_file_k62(
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
                assert {each.status_code for each in burst(variant, client)} == {200}

    def test_a_client_certificate_k54(
        self, variant: ClientVariant, tmp_path: Path, clock: FakeClock, authority: Authority
    ) -> None:
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        with APIServer(authority=authority, require_certificate=True) as server:
            authority.client("user-0").write(*files)
            made: list[object] = []

            def inner(context: Any, proxy: Any) -> Any:
                made.append(context)
                return variant.PlainTransport(context, proxy=proxy)

            config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
            with variant.client(config, clock=clock, transport_factory=inner) as client:
                for number in range(1, 6):
                    authority.client(f"user-{number}").write(*files)
                    clock.advance(3600.0)
                    seen = len(server.requests)
                    assert {each.status_code for each in burst(variant, client)} == {200}
                    assert {request.user for request in server.requests[seen:]} == {f"user-{number}"}
            # One pool of connections for each, however many came at once.
            assert len(made) == 6

    def test_one_reads_for_all_k62(
        self,
        variant: ClientVariant,
        server: APIServer,
        tmp_path: Path,
        clock: FakeClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from kubeauth._config.files import read_token_file
        from kubeauth._credentials import files as _static

        path = tmp_path / "token"
        path.write_text("alices-token")
        reads: list[int] = []

        def counted(path: str) -> Any:
            reads.append(threading.active_count())
            return read_token_file(path)

        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            monkeypatch.setattr(_static, "read_token_file", counted)
            for late in (50.0, 3600.0):
                before = threading.active_count()
                clock.advance(late)
                assert {each.status_code for each in burst(variant, client, callers=32)} == {200}
                assert len(reads) == 1
                if variant.is_async:
                    # Waiting tasks occupy no threads.
                    assert reads.pop() <= before + 32 + 1  # the server has one for each connection
                reads.clear()

    def test_two_seconds_late_is_late_k62(
        self,
        variant: ClientVariant,
        server: APIServer,
        tmp_path: Path,
        clock: FakeClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """While one reads, the others wait for what it reads: the old token may be over."""
        from kubeauth._config.files import read_token_file
        from kubeauth._credentials import files as _static

        path = tmp_path / "token"
        path.write_text("alices-token")
        server.tokens["new"] = "bob"
        reading, release = threading.Event(), threading.Event()

        def slow(path: str) -> Any:
            reading.set()
            release.wait(60)
            return read_token_file(path)

        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            monkeypatch.setattr(_static, "read_token_file", slow)
            path.write_text("new")
            clock.advance(52.0)
            threads = [threading.Thread(target=client.get, args=("/version",)) for _ in range(2)]
            threads[0].start()
            assert reading.wait(60)
            threads[1].start()
            threads[1].join(0.3)
            assert server.requests == []
            release.set()
            for thread in threads:
                thread.join()
        assert [request.user for request in server.requests] == ["bob", "bob"]

    def test_a_laptop_that_slept(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        """The monotonic clock stood still; the calendar did not."""
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


def test_a_read_that_fails_in_a_way_nobody_thought_of(caplog: pytest.LogCaptureFixture) -> None:
    from kubeauth._credentials.files import PolledValue

    def read() -> str:
        raise ZeroDivisionError("s3ntinel")

    polled = PolledValue(read, "first", due=0.0, interval=50.0)
    polled.reload(100.0)
    assert (polled.value, polled.due) == ("first", 150.0)
    assert "ZeroDivisionError" in str(polled.error)
    assert "s3ntinel" not in caplog.text


def test_whoever_comes_late_does_not_go_back(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """A caller that took the old certificate, and was held up, meets the new connections."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    with variant.client(config, clock=clock) as client:
        transport = client.client._transport
        old = transport._source.current
        server.authority.client("dave").write(*files)
        clock.advance(1.0)
        client.get("/version")
        fresh = transport._source.cached_if_fresh
        transport._source.cached_if_fresh = lambda _now: old
        client.get("/version")
        transport._source.cached_if_fresh = fresh
        client.get("/version")
    assert [(request.user, request.connection) for request in server.requests] == [("dave", 1)] * 3


class TestRetries:
    @pytest.mark.parametrize(
        "headers", [{"Upgrade": "websocket", "Connection": "Upgrade"}, {"upgrade": "SPDY/3.1"}]
    )
    def test_a_command_is_not_run_twice(
        self, variant: ClientVariant, server: APIServer, headers: dict[str, str]
    ) -> None:
        """exec, attach and port-forward are GETs."""
        server.on("GET", "/exec", Answer(hang_up=True))
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")
            with pytest.raises(variant.library.TransportError):
                client.get("/exec?command=rm", headers=headers)
        assert [request.path for request in server.requests] == ["/version", "/exec?command=rm"]

    def test_nor_over_wss(self, variant: ClientVariant, server: APIServer) -> None:
        server.on("GET", "/exec", Answer(hang_up=True))
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")
            with pytest.raises(variant.library.TransportError):
                client.get(f"{server.url.replace('https', 'wss')}/exec")
        assert len(server.requests) == 2

    def test_a_new_connection_that_dies_is_not_an_old_one(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        server.on("GET", "/dead", Answer(hang_up=True))
        limits = variant.library.Limits(max_keepalive_connections=0)
        with variant.client(server.config(token="alices-token"), limits=limits) as client:
            client.get("/version")
            with pytest.raises(variant.library.TransportError):
                client.get("/dead")
        assert [request.path for request in server.requests] == ["/version", "/dead"]


class TestClosing:
    def test_a_request_in_flight_is_not_sent_again(self, variant: ClientVariant, server: APIServer) -> None:
        arrived, release = threading.Event(), threading.Event()

        def slow(_request: Any) -> Answer:
            arrived.set()
            release.wait(60)
            return Answer()

        server.on("GET", "/slow", slow)
        errors: list[BaseException] = []
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")

            def ask() -> None:
                try:
                    client.get("/slow")
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            assert arrived.wait(60)
            client.close()
            release.set()
            thread.join(10)
        assert [request.path for request in server.requests] == ["/version", "/slow"]
        if variant.is_async:  # closing a socket does not wake a thread that reads from it
            assert [type(error) for error in errors] == [variant.library.ReadError]

    def test_a_transport_may_be_used_again(self, variant: ClientVariant, server: APIServer) -> None:
        transport = variant.KubeTransport(server.config(token="alices-token"))
        for _ in range(3):
            with variant.drive(
                lambda: variant.PlainClient(transport=transport, base_url=server.url)
            ) as client:
                assert client.get("/version").status_code == 200
            wait_until(lambda: server.open_connections == 0)

    def test_closing_twice(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            client.get("/version")
            client.close()
            client.close()

    def test_all_are_closed_though_one_fails(self, variant: ClientVariant, server: APIServer) -> None:
        closed: list[int] = []

        def inner(context: Any, proxy: Any) -> Any:
            number = len(made)

            class Inner(variant.PlainTransport):  # type: ignore[name-defined,misc]
                def close(self) -> None:
                    super().close()
                    closed.append(number)
                    raise ZeroDivisionError

                async def aclose(self) -> None:
                    await super().aclose()
                    closed.append(number)
                    raise ZeroDivisionError

            made.append(number)
            return Inner(context, proxy=proxy)

        made: list[int] = []
        with APIServer(tls=False) as other:
            with (
                pytest.raises(ZeroDivisionError),
                variant.client(server.config(), transport_factory=inner) as client,
            ):
                client.get(f"{other.url}/version")
        assert closed == made == [0, 1]

    def test_a_closed_body_is_not_read(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            with client.stream("GET", "/version") as stream:
                body = stream.response.stream._stream
            with pytest.raises(RuntimeError, match="closed"):
                body.__aiter__() if variant.is_async else iter(body)


class TestLeases:
    def rotated(
        self,
        variant: ClientVariant,
        server: APIServer,
        tmp_path: Path,
        clock: FakeClock,
        inner: Any,
        use: Callable[[Driver], object],
    ) -> Any:
        """Uses a client, rotates its certificate; returns the pool from before."""
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        server.authority.client("carol").write(*files)
        config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
        with variant.client(config, clock=clock, transport_factory=inner) as client:
            old = client.client._transport._pools.current
            kept = use(client)
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            client.get("/version")
            assert client.client._transport._pools.current is not old
            del kept
            return old

    def test_a_response_that_comes_closed_has_given_its_lease_back(self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock) -> None:  # fmt: skip
        def answer(_request: Any) -> Any:
            response = variant.library.Response(200, content=b"{}")
            assert response.is_closed
            return response

        old = self.rotated(
            variant, server, tmp_path, clock, variant.in_memory(answer), lambda client: client.get("/x")
        )
        assert not old._leases
        assert old._is_closed

    def test_a_request_that_fails_has_given_its_lease_back(self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock) -> None:  # fmt: skip
        answers = iter([variant.library.ConnectError("no"), ZeroDivisionError()])

        def answer(_request: Any) -> Any:
            if error := next(answers, None):
                raise error
            return variant.library.Response(200)

        def fail(client: Driver) -> None:
            for error in (variant.library.ConnectError, ZeroDivisionError):
                with pytest.raises(error):
                    client.get("/x")

        old = self.rotated(variant, server, tmp_path, clock, variant.in_memory(answer), fail)
        assert old._is_closed

    def test_a_response_that_is_kept_keeps_no_connections(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            response = client.get("/version")
            lease = response.stream._stream
            assert (lease.pool, lease.body) == (None, None)

    def test_a_rotation_that_is_cancelled_loses_no_inner_transport(
        self, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        for variant in (ClientVariant(httpx, "asyncio"), ClientVariant(httpx2, "trio")):
            self.cancelled_rotation(variant, server, tmp_path, clock)

    def cancelled_rotation(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        server.authority.client("carol").write(*files)
        config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
        building, release = threading.Event(), threading.Event()
        made: list[Any] = []

        class Inner(variant.library.AsyncHTTPTransport):  # type: ignore[name-defined,misc]
            closed = 0

            async def aclose(self) -> None:
                self.closed += 1
                await super().aclose()

        def inner(context: Any, proxy: Any) -> Any:
            if made:
                building.set()
                release.wait(60)
            made.append(Inner(context, proxy=proxy))
            return made[-1]

        async def main() -> None:
            async with variant.Client(config, clock=clock, transport_factory=inner) as client:
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, "/version")
                    await anyio.to_thread.run_sync(building.wait)
                    group.cancel_scope.cancel()
                    release.set()

        anyio.run(main, backend=variant.runtime)
        assert [each.closed for each in made] == [1, 1]


class TestErrorsSayWho:
    def test_another_server_that_wants_a_certificate(
        self, variant: ClientVariant, server: APIServer, public: Authority
    ) -> None:
        config = server.config(identity=server.authority.client("carol"))
        with APIServer(authority=public, require_certificate=True) as other, variant.client(config) as client:
            with pytest.raises(ClientCertificateError, match="is sent to its cluster only"):
                client.get(f"{other.url}/version")

    def test_a_proxy_that_wants_one(
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
