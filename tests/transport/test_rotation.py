"""Files that change under a running client (K53, K54, K60-K64)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth.errors import ClientCertificateError, ServerCertificateError, TLSError, TokenFileError
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.clients import ClientVariant
from tests.support.residue import no_residue, wait_until


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "client.pem", tmp_path / "client.key"


def with_files(server: APIServer, files: tuple[Path, Path], **fields: Any) -> ClientConfig:
    return server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]), **fields)


class TestClientCertificate:
    def test_a_new_one_is_used_for_the_next_request_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        server.authority.client("carol").write(*files)
        with variant.client(with_files(server, files), clock=clock) as client:
            client.get("/version")
            server.authority.client("dave").write(*files)
            clock.advance(0.99)
            client.get("/version")  # not looked at more than once a second
            clock.advance(0.01)
            client.get("/version")
            client.get("/version")
        assert [request.user for request in server.requests] == ["carol", "carol", "dave", "dave"]
        assert [request.connection for request in server.requests] == [1, 1, 2, 2]

    def test_the_same_one_again_changes_nothing_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        pair = server.authority.client("carol")
        pair.write(*files)
        with variant.client(with_files(server, files), clock=clock) as client:
            for _ in range(4):
                pair.write(*files)
                client.get("/version")
                clock.advance(1.0)
        assert {request.connection for request in server.requests} == {1}

    def test_an_open_stream_runs_to_its_end_on_the_old_one_c16(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        with no_residue(), variant.client(with_files(server, files), clock=clock) as client:
            with client.stream("GET", "/watch") as stream:
                watch.wait_for_watchers()
                watch.send({"n": 1})
                assert stream.line() == '{"n": 1}'
                for user in ("dave", "erin"):
                    server.authority.client(user).write(*files)
                    clock.advance(1.0)
                    client.get("/version")
                # carol's for the stream, erin's kept alive; dave's had nobody left to wait for.
                wait_until(lambda: server.open_connections == 2)
                watch.send({"n": 2})
                watch.end()
                assert stream.rest() == ['{"n": 2}']
                wait_until(lambda: server.open_connections == 1)
        assert [request.user for request in server.requests] == ["carol", "dave", "erin"]

    @pytest.mark.every_variant
    def test_an_upgraded_connection_lives_on_c16(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """As of exec and port-forward: what is spoken after the 101 is nobody's business but the caller's."""
        server.on("GET", "/exec", Answer(101, headers={"Upgrade": "spdy/3.1", "Connection": "Upgrade"}))
        server.authority.client("carol").write(*files)
        with variant.client(with_files(server, files), clock=clock) as client:
            old = client.client._transport._pools.current
            with client.stream(
                "GET", "/exec", headers={"Upgrade": "spdy/3.1", "Connection": "Upgrade"}
            ) as stream:
                assert stream.response.status_code == 101
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                client.get("/version")
                assert not old._is_closed
                network = stream.response.extensions["network_stream"]
                raw = b"GET /version HTTP/1.1\r\nHost: h\r\n\r\n"
                if client._portal is None:
                    network.write(raw)
                    answer = network.read(4096)
                else:
                    client._portal.call(network.write, raw)
                    answer = client._portal.call(network.read, 4096)
                assert answer.startswith(b"HTTP/1.1 200")
            assert old._is_closed
        assert [request.user for request in server.requests] == ["carol", "dave", "carol"]

    def test_a_stream_that_is_dropped_gives_its_pool_back(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        with variant.client(with_files(server, files), clock=clock) as client:
            with client.stream("GET", "/watch"):
                watch.wait_for_watchers()
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                client.get("/version")
            # Left before its end.
            watch.end()
            wait_until(lambda: server.open_connections == 1)

    def test_drain_timeout_cuts_what_takes_longer(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        with variant.client(with_files(server, files), clock=clock, drain_timeout=30.0) as client:
            with client.stream("GET", "/watch") as stream:
                watch.wait_for_watchers()
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                client.get("/version")
                clock.advance(29.0)
                client.get("/version")
                watch.send({"n": 1})
                assert stream.line() == '{"n": 1}'
                clock.advance(1.0)
                client.get("/version")
                errors = (
                    variant.library.ReadError,
                    variant.library.RemoteProtocolError,
                    variant.library.StreamError,
                )
                with pytest.raises(errors):
                    stream.line()
                watch.end()
        assert [request.user for request in server.requests][-1] == "dave"

    def test_drain_timeout_reaches_a_reader_in_another_thread(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """It waits for the next line, and hears of the end; the connections of others are not harmed."""
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        ended: list[object] = []
        is_open = threading.Event()
        with variant.client(with_files(server, files), clock=clock, drain_timeout=30.0) as client:

            def read() -> None:
                try:
                    with client.stream("GET", "/watch") as stream:
                        is_open.set()
                        ended.append(stream.rest())
                except Exception as error:
                    ended.append(error)

            reader = threading.Thread(target=read)
            reader.start()
            assert is_open.wait(60)
            old = client.client._transport._pools.current
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            with client.stream("GET", "/watch") as young:
                watch.wait_for_watchers(2)
                clock.advance(30.0)
                assert client.get("/version").status_code == 200
                reader.join(60)
                assert isinstance(ended[0], variant.library.TransportError)
                assert not old.is_open
                assert [client.get("/version").status_code for _ in range(5)] == [200] * 5
                watch.send({"n": 1})
                watch.end()
                assert young.rest() == ['{"n": 1}']

    def test_what_is_cut_ends_and_does_not_turn_into_something_else(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """What has arrived already is read as it was meant, or not at all: not as TLS has it."""
        body = b"kubernetes" * 100_000
        server.on("GET", "/long", Answer(body=body))
        server.authority.client("carol").write(*files)
        got = b""
        with variant.client(with_files(server, files), clock=clock, drain_timeout=30.0) as client:
            with client.stream("GET", "/long") as stream:
                got += stream.part()
                for late in (1.0, 30.0):
                    server.authority.client("dave").write(*files)
                    clock.advance(late)
                    client.get("/version")
                with pytest.raises(variant.library.TransportError):
                    got = b"".join([got, *iter(stream.part, None)])
        assert body.startswith(got)
        assert got != body

    @pytest.mark.parametrize(
        "half", ["certificate", "key", "empty certificate", "cut key", "no certificate", "rubbish"]
    )
    def test_a_half_written_pair_changes_nothing_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock, half: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        server.authority.client("carol").write(*files)
        new = server.authority.client("dave")
        with variant.client(with_files(server, files), clock=clock) as client:
            client.get("/version")
            damage: dict[str, Callable[[], object]] = {
                "certificate": lambda: files[0].write_bytes(new.certificate),
                "key": lambda: files[1].write_bytes(new.key),
                "empty certificate": lambda: files[0].write_bytes(b""),
                "cut key": lambda: files[1].write_bytes(new.key[:60]),
                "no certificate": lambda: files[0].unlink(),
                "rubbish": lambda: files[0].write_bytes(
                    b"-----BEGIN CERTIFICATE-----\nQUFB\n-----END CERTIFICATE-----\n"
                ),
            }
            damage[half]()
            for _ in range(3):
                clock.advance(1.0)
                assert client.get("/version").status_code == 200
            assert isinstance(client.client.status().last_error, ClientCertificateError)
            assert str(files[0].parent) in str(client.client.status().last_error)
            new.write(*files)
            clock.advance(1.0)
            client.get("/version")
            assert client.client.status().last_error is None
        assert [request.user for request in server.requests] == ["carol"] * 4 + ["dave"]
        # One line, not one for each time it was looked at.
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
        assert new.key.decode() not in caplog.text

    def test_connections_that_cannot_be_made_leave_the_old_ones_in_use(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """A factory of the caller's that fails: no request does, and it is asked once a second."""
        server.authority.client("carol").write(*files)
        asked: list[bool] = []
        works = True

        def inner(context: Any, proxy: Any) -> Any:
            asked.append(works)
            if not works:
                raise ZeroDivisionError("of the caller's")
            return variant.PlainTransport(context, proxy=proxy)

        with variant.client(with_files(server, files), clock=clock, transport_factory=inner) as client:
            client.get("/version")
            works = False
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            for _ in range(3):
                assert client.get("/version").status_code == 200
            assert asked == [True, False]
            assert isinstance(client.client.status().last_error, TLSError)
            works = True
            clock.advance(1.0)
            client.get("/version")
            assert client.client.status().last_error is None
        assert asked == [True, False, True]
        assert [request.user for request in server.requests] == ["carol"] * 4 + ["dave"]

    def test_a_factory_that_fails_at_first_is_the_callers_to_see(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with pytest.raises(ZeroDivisionError):
            variant.Client(server.config(), transport_factory=lambda _context, _proxy: 1 / 0)

    def test_inline_data_on_either_side_is_constant_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        pair = server.authority.client("carol")
        pair.write(*files)
        for fields in (
            {"client_cert_data": pair.certificate, "client_key_file": str(files[1])},
            {"client_cert_file": str(files[0]), "client_key_data": Secret(pair.key)},
        ):
            with variant.client(server.config(**fields), clock=clock) as client:
                server.authority.client("dave").write(*files)
                clock.advance(1000.0)
                client.get("/version")
            pair.write(*files)
        assert [request.user for request in server.requests] == ["carol", "carol"]

    def test_kubernetes_swaps_a_symlink_k54(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            server.authority.client(name).write(tmp_path / name / "c", tmp_path / name / "k")
        (tmp_path / "data").symlink_to("one")
        config = with_files(server, (tmp_path / "data" / "c", tmp_path / "data" / "k"))
        with variant.client(config, clock=clock) as client:
            client.get("/version")
            (tmp_path / "data.new").symlink_to("two")
            os.replace(tmp_path / "data.new", tmp_path / "data")
            clock.advance(1.0)
            client.get("/version")
        assert [request.user for request in server.requests] == ["one", "two"]


class TestCA:
    def config(self, server: APIServer, path: Path) -> ClientConfig:
        return server.config(token="alices-token", ca_data=None, ca_file=str(path))

    def test_a_new_one_is_used_after_five_minutes_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(server.authority.pem)
        other = Authority("other")
        with variant.client(self.config(server, path), clock=clock) as client:
            client.get("/version")
            path.write_bytes(other.pem)
            clock.advance(299.0)
            client.get("/version")
            clock.advance(1.0)
            with pytest.raises(ServerCertificateError):
                client.get("/version")  # new connections only: the old one was trusted, and is gone
            path.write_bytes(other.pem + server.authority.pem)
            clock.advance(300.0)
            assert client.get("/version").status_code == 200
        assert len(server.requests) == 3

    def test_an_open_stream_is_not_cut_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        path = tmp_path / "ca.pem"
        path.write_bytes(server.authority.pem)
        with (
            variant.client(self.config(server, path), clock=clock) as client,
            client.stream("GET", "/watch") as stream,
        ):
            watch.wait_for_watchers()
            path.write_bytes(Authority("other").pem + server.authority.pem)
            clock.advance(300.0)
            client.get("/version")
            watch.send({"n": 1})
            watch.end()
            assert stream.rest() == ['{"n": 1}']
        assert [request.connection for request in server.requests] == [1, 2]

    @pytest.mark.parametrize("damage", ["empty", "gone", "rubbish", "odd bytes", "the same"])
    def test_what_is_no_ca_changes_nothing_for_five_minutes_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock, damage: str
    ) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(server.authority.pem)
        with variant.client(self.config(server, path), clock=clock) as client:
            client.get("/version")
            ways: dict[str, Callable[[], object]] = {
                "empty": lambda: path.write_bytes(b""),
                "gone": lambda: path.unlink(),
                "rubbish": lambda: path.write_bytes(b"x"),
                "odd bytes": lambda: path.write_bytes(
                    b"-----BEGIN CERTIFICATE-----\n\xff\n-----END CERTIFICATE-----\n"
                ),
                "the same": lambda: path.write_bytes(server.authority.pem),
            }
            ways[damage]()
            clock.advance(300.0)
            client.get("/version")
            assert (client.client.status().last_error is None) == (damage == "the same")
            path.write_bytes(Authority("other").pem)
            clock.advance(299.0)
            client.get("/version")
        assert {request.connection for request in server.requests} == {1}

    def test_data_beside_a_file_is_constant_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(b"never read")
        with variant.client(server.config(token="alices-token", ca_file=str(path)), clock=clock) as client:
            clock.advance(10_000.0)
            assert client.get("/version").status_code == 200
            assert client.client.status().last_error is None

    def test_an_empty_file_is_filled_later_k50_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        path = tmp_path / "ca.pem"
        path.touch()
        with variant.client(self.config(server, path), clock=clock) as client:
            with pytest.raises(TLSError):
                client.get("/version")
            path.write_bytes(server.authority.pem)
            clock.advance(300.0)
            assert client.get("/version").status_code == 200


class TestTokenFile:
    @pytest.fixture
    def path(self, tmp_path: Path, server: APIServer) -> Path:
        server.tokens = {f"token-{n}": f"user-{n}" for n in range(5)} | {"spare": "spare"}
        path = tmp_path / "token"
        path.write_text("token-0\n")
        return path

    def users(self, server: APIServer) -> list[str | None]:
        return [request.user for request in server.requests]

    def test_it_is_trimmed_and_read_again_after_50_seconds_k61_k62_t78(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            path.write_text("  token-1 \n\n")
            clock.advance(49.9)
            client.get("/version")
            clock.advance(0.1)
            client.get("/version")
        assert self.users(server) == ["user-0", "user-0", "user-1"]
        # A new token needs no new connection.
        assert {request.connection for request in server.requests} == {1}

    def test_kube_auth_reads_it_again_too_k62(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        config = server.config(token_file=str(path))

        def make() -> Any:
            auth = variant.kubeauth.KubeAuth(config, clock=clock)
            return variant.PlainClient(
                auth=auth, verify=variant.kubeauth.ssl_context(config), base_url=config.server
            )

        with variant.drive(make) as client:
            client.get("/version")
            path.write_text("token-1")
            clock.advance(50.0)
            client.get("/version")
        assert self.users(server) == ["user-0", "user-1"]

    def test_the_file_wins_over_the_token_k60(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        with variant.client(server.config(token="spare", token_file=str(path)), clock=clock) as client:
            client.get("/version")
        assert self.users(server) == ["user-0"]

    def test_the_token_is_used_while_the_file_was_never_read_k60(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        path.unlink()
        with variant.client(server.config(token="spare\n", token_file=str(path)), clock=clock) as client:
            client.get("/version")
            assert isinstance(client.client.status().last_error, TokenFileError)
            path.write_text("token-1")
            client.get("/version")  # tried on every request
            path.unlink()
            clock.advance(50.0)
            client.get("/version")  # and never the spare one again
        assert self.users(server) == ["spare", "user-1", "user-1"]

    @pytest.mark.parametrize("damage", ["gone", "empty", "blank", "not text", "no header"])
    def test_a_failed_read_keeps_the_last_and_tries_each_time_k63(
        self,
        variant: ClientVariant,
        server: APIServer,
        path: Path,
        clock: FakeClock,
        damage: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            ways: dict[str, Callable[[], object]] = {
                "gone": lambda: path.unlink(),
                "empty": lambda: path.write_text(""),
                "blank": lambda: path.write_text(" \n"),
                "not text": lambda: path.write_bytes(b"\xff\xfe"),
                "no header": lambda: path.write_text("tok\x00en"),
            }
            ways[damage]()
            clock.advance(50.0)
            client.get("/version")
            client.get("/version")
            assert isinstance(client.client.status().last_error, TokenFileError)
            path.write_text("token-2")
            client.get("/version")  # no need to wait
            assert client.client.status().last_error is None
        assert self.users(server) == ["user-0", "user-0", "user-0", "user-2"]
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1

    def test_a_401_does_not_read_it_again_k64(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            del server.tokens["token-0"]
            path.write_text("token-1")
            assert client.get("/version").status_code == 401
            assert client.get("/version").status_code == 401
            clock.advance(50.0)
            assert client.get("/version").status_code == 200
        assert len(server.requests) == 4

    def test_a_file_that_cannot_be_read_at_first_k59(self, variant: ClientVariant, tmp_path: Path) -> None:
        with pytest.raises(TokenFileError) as caught:
            variant.Client(ClientConfig(server="https://h", token_file=str(tmp_path / "none")))
        assert caught.value.path == str(tmp_path / "none")
