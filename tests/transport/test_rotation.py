"""Client certificate, CA and token files that change while a client is in use (K53, K54, K60-K64)."""

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
from tests.support.idle_threads import wait_for_idle_threads
from tests.support.residue import no_residue, wait_until


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "client.pem", tmp_path / "client.key"


def file_config(server: APIServer, files: tuple[Path, Path], **fields: Any) -> ClientConfig:
    return server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]), **fields)


class TestClientCertificate:
    def test_a_new_certificate_is_used_after_one_second_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        server.authority.client("carol").write(*files)
        with variant.client(file_config(server, files), clock=clock) as client:
            client.get("/version")
            server.authority.client("dave").write(*files)
            clock.advance(0.99)
            client.get("/version")  # files are checked at most once a second
            clock.advance(0.01)
            client.get("/version")
            client.get("/version")

        assert [request.user for request in server.requests] == ["carol", "carol", "dave", "dave"]
        assert [request.connection for request in server.requests] == [1, 1, 2, 2]

    def test_an_unchanged_certificate_keeps_the_connection_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        pair = server.authority.client("carol")
        pair.write(*files)
        with variant.client(file_config(server, files), clock=clock) as client:
            for _ in range(4):
                pair.write(*files)
                client.get("/version")
                clock.advance(1.0)

        assert {request.connection for request in server.requests} == {1}

    def test_an_open_stream_continues_with_the_old_certificate_c16(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        with no_residue(), variant.client(file_config(server, files), clock=clock) as client:
            with client.stream("GET", "/watch") as stream:
                watch.wait_for_watchers()
                watch.send({"n": 1})
                assert stream.line() == '{"n": 1}'
                for user in ("dave", "erin"):
                    server.authority.client(user).write(*files)
                    clock.advance(1.0)
                    client.get("/version")

                # The connection of carol has the stream, that of erin is kept alive, that of dave is closed.
                wait_until(lambda: server.open_connections == 2)
                watch.send({"n": 2})
                watch.end()
                assert stream.rest() == ['{"n": 2}']
                wait_until(lambda: server.open_connections == 1)

        assert [request.user for request in server.requests] == ["carol", "dave", "erin"]

    @pytest.mark.every_variant
    def test_an_upgraded_connection_stays_open_c16(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """As for exec and port-forward: after the 101 the connection belongs to the caller."""
        server.on("GET", "/exec", Answer(101, headers={"Upgrade": "spdy/3.1", "Connection": "Upgrade"}))
        server.authority.client("carol").write(*files)
        with variant.client(file_config(server, files), clock=clock) as client:
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
                request = b"GET /version HTTP/1.1\r\nHost: h\r\n\r\n"
                if client._portal is None:
                    network.write(request)
                    response = network.read(4096)
                else:
                    client._portal.call(network.write, request)
                    response = client._portal.call(network.read, 4096)
                assert response.startswith(b"HTTP/1.1 200")
            assert old._is_closed

        assert [request.user for request in server.requests] == ["carol", "dave", "carol"]

    def test_closing_a_stream_early_closes_its_retired_pool(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        with variant.client(file_config(server, files), clock=clock) as client:
            with client.stream("GET", "/watch"):
                watch.wait_for_watchers()
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                client.get("/version")

            watch.end()
            wait_until(lambda: server.open_connections == 1)

    def test_drain_timeout_aborts_an_open_stream(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        with variant.client(file_config(server, files), clock=clock, drain_timeout=30.0) as client:
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

    def test_drain_timeout_aborts_a_reader_in_another_thread(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """The reader waits for the next line and gets an error; other connections are not affected."""
        watch = server.watch("/watch")
        server.authority.client("carol").write(*files)
        results: list[object] = []
        is_open = threading.Event()

        with variant.client(file_config(server, files), clock=clock, drain_timeout=30.0) as client:

            def read() -> None:
                try:
                    with client.stream("GET", "/watch") as stream:
                        is_open.set()
                        results.append(stream.rest())
                except Exception as error:
                    results.append(error)

            reader = threading.Thread(target=read)
            reader.start()
            assert is_open.wait(60)
            wait_for_idle_threads()  # the reader waits for a line
            old = client.client._transport._pools.current
            server.authority.client("dave").write(*files)
            clock.advance(1.0)

            with client.stream("GET", "/watch") as other_stream:
                watch.wait_for_watchers(2)

                clock.advance(30.0)
                assert client.get("/version").status_code == 200
                reader.join(60)

                assert isinstance(results[0], variant.library.TransportError)
                assert not old.is_open
                assert [client.get("/version").status_code for _ in range(5)] == [200] * 5
                watch.send({"n": 1})
                watch.end()
                assert other_stream.rest() == ['{"n": 1}']

    def test_an_aborted_body_raises_and_is_not_corrupted(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """The part that was read is the beginning of the body: no TLS records are taken for data."""
        body = b"kubernetes" * 100_000
        server.on("GET", "/long", Answer(body=body))
        server.authority.client("carol").write(*files)
        received = b""

        with variant.client(file_config(server, files), clock=clock, drain_timeout=30.0) as client:
            with client.stream("GET", "/long") as stream:
                received += stream.part()
                for seconds in (1.0, 30.0):
                    server.authority.client("dave").write(*files)
                    clock.advance(seconds)
                    client.get("/version")
                with pytest.raises(variant.library.TransportError):
                    received = b"".join([received, *iter(stream.part, None)])

        assert body.startswith(received)
        assert received != body

    @pytest.mark.parametrize(
        "change",
        [
            "only certificate",
            "only key",
            "empty certificate",
            "truncated key",
            "no certificate",
            "invalid certificate",
        ],
    )
    def test_an_incomplete_pair_keeps_the_old_certificate_k54(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock, change: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        server.authority.client("carol").write(*files)
        new = server.authority.client("dave")
        with variant.client(file_config(server, files), clock=clock) as client:
            client.get("/version")
            changes: dict[str, Callable[[], object]] = {
                "only certificate": lambda: files[0].write_bytes(new.certificate),
                "only key": lambda: files[1].write_bytes(new.key),
                "empty certificate": lambda: files[0].write_bytes(b""),
                "truncated key": lambda: files[1].write_bytes(new.key[:60]),
                "no certificate": lambda: files[0].unlink(),
                "invalid certificate": lambda: files[0].write_bytes(
                    b"-----BEGIN CERTIFICATE-----\nQUFB\n-----END CERTIFICATE-----\n"
                ),
            }
            changes[change]()

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
        # The problem is logged once, not on every check.
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
        assert new.key.decode() not in caplog.text

    def test_a_failing_transport_factory_keeps_the_old_pool(
        self, variant: ClientVariant, server: APIServer, files: tuple[Path, Path], clock: FakeClock
    ) -> None:
        """No request fails, and the factory is called again once a second."""
        server.authority.client("carol").write(*files)
        calls: list[bool] = []
        works = True

        def factory(context: Any, proxy: Any) -> Any:
            calls.append(works)
            if not works:
                raise ZeroDivisionError
            return variant.PlainTransport(context, proxy=proxy)

        with variant.client(file_config(server, files), clock=clock, transport_factory=factory) as client:
            client.get("/version")

            works = False
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            for _ in range(3):
                assert client.get("/version").status_code == 200
            assert calls == [True, False]
            assert isinstance(client.client.status().last_error, TLSError)

            works = True
            clock.advance(1.0)
            client.get("/version")
            assert client.client.status().last_error is None

        assert calls == [True, False, True]
        assert [request.user for request in server.requests] == ["carol"] * 4 + ["dave"]

    def test_an_error_of_the_first_factory_call_is_raised(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with pytest.raises(ZeroDivisionError):
            variant.Client(server.config(), transport_factory=lambda _context, _proxy: 1 / 0)

    def test_a_pair_with_inline_data_is_not_reloaded_k54(
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

    def test_a_replaced_symlink_is_followed_k54(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            server.authority.client(name).write(tmp_path / name / "c", tmp_path / name / "k")
        (tmp_path / "data").symlink_to("one")
        config = file_config(server, (tmp_path / "data" / "c", tmp_path / "data" / "k"))

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

    def test_a_new_ca_is_used_after_five_minutes_k53(
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
                client.get("/version")  # on a new connection, which does not trust the server

            path.write_bytes(other.pem + server.authority.pem)
            clock.advance(300.0)
            assert client.get("/version").status_code == 200

        assert len(server.requests) == 3

    def test_an_open_stream_continues_after_a_new_ca_k53(
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

    @pytest.mark.parametrize("change", ["empty", "deleted", "not PEM", "invalid PEM", "unchanged"])
    def test_an_invalid_ca_file_keeps_the_old_ca_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock, change: str
    ) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(server.authority.pem)
        with variant.client(self.config(server, path), clock=clock) as client:
            client.get("/version")
            changes: dict[str, Callable[[], object]] = {
                "empty": lambda: path.write_bytes(b""),
                "deleted": lambda: path.unlink(),
                "not PEM": lambda: path.write_bytes(b"x"),
                "invalid PEM": lambda: path.write_bytes(
                    b"-----BEGIN CERTIFICATE-----\n\xff\n-----END CERTIFICATE-----\n"
                ),
                "unchanged": lambda: path.write_bytes(server.authority.pem),
            }
            changes[change]()
            clock.advance(300.0)
            client.get("/version")
            assert (client.client.status().last_error is None) == (change == "unchanged")

            path.write_bytes(Authority("other").pem)
            clock.advance(299.0)
            client.get("/version")

        assert {request.connection for request in server.requests} == {1}

    def test_ca_data_takes_precedence_over_the_file_k53(
        self, variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
    ) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(b"never read")
        with variant.client(server.config(token="alices-token", ca_file=str(path)), clock=clock) as client:
            clock.advance(10_000.0)
            assert client.get("/version").status_code == 200
            assert client.client.status().last_error is None

    def test_an_empty_ca_file_is_reloaded_k50_k53(
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
        server.tokens = {f"token-{n}": f"user-{n}" for n in range(5)} | {"fallback": "fallback"}
        path = tmp_path / "token"
        path.write_text("token-0\n")
        return path

    def request_users(self, server: APIServer) -> list[str | None]:
        return [request.user for request in server.requests]

    def test_the_token_is_trimmed_and_reloaded_after_50_seconds_k61_k62_t78(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            path.write_text("  token-1 \n\n")
            clock.advance(49.9)
            client.get("/version")
            clock.advance(0.1)
            client.get("/version")

        assert self.request_users(server) == ["user-0", "user-0", "user-1"]
        # A new token needs no new connection.
        assert {request.connection for request in server.requests} == {1}

    def test_kube_auth_reloads_the_token_k62(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        config = server.config(token_file=str(path))

        def new_client() -> Any:
            auth = variant.kubeauth.KubeAuth(config, clock=clock)
            return variant.PlainClient(
                auth=auth, verify=variant.kubeauth.ssl_context(config), base_url=config.server
            )

        with variant.drive(new_client) as client:
            client.get("/version")
            path.write_text("token-1")
            clock.advance(50.0)
            client.get("/version")

        assert self.request_users(server) == ["user-0", "user-1"]

    def test_the_token_file_takes_precedence_over_the_token_k60(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        with variant.client(server.config(token="fallback", token_file=str(path)), clock=clock) as client:
            client.get("/version")
        assert self.request_users(server) == ["user-0"]

    def test_the_token_is_used_until_the_file_can_be_read_k60(
        self, variant: ClientVariant, server: APIServer, path: Path, clock: FakeClock
    ) -> None:
        path.unlink()
        with variant.client(server.config(token="fallback\n", token_file=str(path)), clock=clock) as client:
            client.get("/version")
            assert isinstance(client.client.status().last_error, TokenFileError)
            path.write_text("token-1")
            client.get("/version")  # the file is tried on every request
            path.unlink()
            clock.advance(50.0)
            client.get("/version")  # the last token of the file is used, not the fallback

        assert self.request_users(server) == ["fallback", "user-1", "user-1"]

    @pytest.mark.parametrize("change", ["deleted", "empty", "blank", "not text", "invalid header value"])
    def test_a_failed_reload_keeps_the_token_and_is_retried_on_every_request_k63(
        self,
        variant: ClientVariant,
        server: APIServer,
        path: Path,
        clock: FakeClock,
        change: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with variant.client(server.config(token_file=str(path)), clock=clock) as client:
            client.get("/version")
            changes: dict[str, Callable[[], object]] = {
                "deleted": lambda: path.unlink(),
                "empty": lambda: path.write_text(""),
                "blank": lambda: path.write_text(" \n"),
                "not text": lambda: path.write_bytes(b"\xff\xfe"),
                "invalid header value": lambda: path.write_text("tok\x00en"),
            }
            changes[change]()
            clock.advance(50.0)
            client.get("/version")
            client.get("/version")
            assert isinstance(client.client.status().last_error, TokenFileError)

            path.write_text("token-2")
            client.get("/version")
            assert client.client.status().last_error is None

        assert self.request_users(server) == ["user-0", "user-0", "user-0", "user-2"]
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1

    def test_a_401_does_not_reload_the_token_k64(
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

    def test_a_missing_token_file_is_rejected_at_construction_k59(
        self, variant: ClientVariant, tmp_path: Path
    ) -> None:
        with pytest.raises(TokenFileError) as caught:
            variant.Client(ClientConfig(server="https://h", token_file=str(tmp_path / "missing")))
        assert caught.value.path == str(tmp_path / "missing")
