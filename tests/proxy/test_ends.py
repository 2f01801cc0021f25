"""How it begins and ends: where it listens, what it says of itself, and what is under way at the end."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from kubeauth._proxy import _serve
from kubeauth._proxy._places import is_loopback, on_port, on_socket
from kubeauth._proxy._serve import Options, serve
from kubeauth.errors import ConfigError, CredentialError, KubeAuthError
from kubeauth.testing import Answer, APIServer, Received
from tests.proxy.conftest import Proxied
from tests.proxy.serving import PATIENCE, Proxy, code_of, get
from tests.support.residue import no_residue, wait_until


def test_what_is_under_way_is_answered(proxied: Proxied, server: APIServer) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slowly(_: Received) -> Answer:
        asked.set()
        assert go_on.wait(PATIENCE)
        return Answer(body={"slow": True})

    server.on("GET", "/slow", slowly)
    proxy = proxied(server.config(token="alices-token"), limits={"grace_seconds": PATIENCE})
    with proxy.connect() as busy, proxy.connect() as idle, proxy.connect() as fresh:
        idle.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle.until(b"linux/amd64")
        busy.say(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert asked.wait(PATIENCE)
        wait_until(lambda: proxy.counts.connections == 3)
        proxy.stop()
        # Who has nothing to wait for need not wait, and nobody new is let in.
        assert (idle.rest(), fresh.rest()) == (b"", b"")
        with pytest.raises(ConnectionRefusedError):
            proxy.connect()
        go_on.set()
        said = busy.rest()
    assert code_of(said) == 200
    assert said.endswith(b'{"slow": true}')
    assert b"connection: close" in said.lower()
    assert proxy.future.result(PATIENCE) is None


def test_a_watch_is_ended(proxied: Proxied, server: APIServer) -> None:
    watch = server.watch("/watch")
    proxy = proxied(server.config(token="alices-token"))
    with proxy.connect() as wire:
        wire.say(get("/watch"))
        watch.wait_for_watchers(timeout=PATIENCE)
        watch.send({"n": 1})
        wire.until(b'{"n": 1}')
        proxy.stop()
        assert b"\r\n0\r\n" not in wire.rest()  # broken off: there may have been more
    assert proxy.future.result(PATIENCE) is None


def test_the_end_of_the_proxy_is_not_the_end_of_an_answer_in_http_1_0(
    proxied: Proxied, server: APIServer
) -> None:
    watch = server.watch("/watch")
    proxy = proxied(server.config(token="alices-token"))
    with proxy.connect() as wire:
        wire.say(b"GET /watch HTTP/1.0\r\nHost: localhost\r\n\r\n")
        wire.until(b"\r\n\r\n")
        watch.wait_for_watchers(timeout=PATIENCE)
        proxy.stop()
        # Where there are no chunks, the end of the connection would be one.
        assert wire.rest() == b"<reset>"


def test_a_watch_that_ends_by_itself_is_the_last_of_its_connection(
    proxied: Proxied, server: APIServer
) -> None:
    watch = server.watch("/watch")
    proxy = proxied(server.config(token="alices-token"), limits={"grace_seconds": PATIENCE})
    with proxy.connect() as wire:
        wire.say(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.until(b"\r\n\r\n")
        watch.wait_for_watchers(timeout=PATIENCE)
        proxy.stop()
        wait_until(lambda: _is_refused(proxy))
        watch.end()
        assert wire.rest() == b"0\r\n\r\n"
    assert proxy.future.result(PATIENCE) is None


def _is_refused(proxy: Proxy) -> bool:
    try:
        proxy.connect().socket.close()
    except ConnectionError:
        return True
    return False


def test_nothing_is_left_behind(backend: str, server: APIServer) -> None:
    Proxy(server.config(token="alices-token"), backend=backend)  # whatever is loaded once
    watch = server.watch("/watch")
    with no_residue():
        with Proxy(server.config(token="alices-token"), backend=backend, metrics_port=0) as proxy:
            with httpx.Client(base_url=proxy.url, timeout=PATIENCE, trust_env=False) as client:
                for _ in range(5):
                    assert client.get("/version").status_code == 200
            with proxy.connect() as wire:
                wire.say(get("/watch"))
                watch.wait_for_watchers(timeout=PATIENCE)
        watch.end()


@pytest.mark.attack("proxy", "other users of the machine open the Unix socket", "only its owner can connect")
def test_a_socket_is_its_owners_alone(proxied: Proxied, server: APIServer, tmp_path: Path) -> None:
    path = tmp_path / "sock"
    proxy = proxied(server.config(token="alices-token"), unix_socket=str(path))
    assert proxy.address == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://whatever", timeout=PATIENCE) as client:
        # Nobody can make a browser ask here, so nobody's name is looked at. Paths are.
        assert client.get("/version", headers={"Origin": "http://evil"}).status_code == 200
        assert client.get("/a%2fb").status_code == 400
        assert client.get("/api/v1/namespaces/x/pods/y/exec").status_code == 403
    proxy.stop()
    proxy.future.result(PATIENCE)
    assert not path.exists()


def run(backend: str, opening: Any) -> tuple[str, int]:
    """Where it listens, and what others may do with that."""

    async def main() -> tuple[str, int]:
        async with opening as (_, where):
            return where, os.stat(where).st_mode if where.startswith("/") else 0

    return anyio.run(main, backend=backend)


def test_a_socket_that_nobody_listens_on_is_replaced(backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(path)
    before = os.umask(0)
    try:
        where, mode = run(backend, on_socket(path))
        assert os.umask(0) == 0  # as it was
    finally:
        os.umask(before)
    assert (where, stat.S_IMODE(mode)) == (path, 0o600)
    assert not os.path.exists(path)


def test_a_path_that_is_too_long_is_no_riddle(backend: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"too long\. Choose a shorter one"):
        run(backend, on_socket(str(tmp_path / ("long" * 30))))


def test_a_socket_that_somebody_listens_on_is_not(backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        with pytest.raises(ConfigError, match="somebody does already"):
            run(backend, on_socket(path))
        assert os.path.exists(path)


def test_who_listens_and_accepts_nobody_is_not_waited_for(backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with ExitStack() as stack:
        other = stack.enter_context(socket.socket(socket.AF_UNIX))
        other.bind(path)
        other.listen(0)
        while True:  # until no more of them fit
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            if waiting.connect_ex(path):
                break
        with pytest.raises(ConfigError, match="somebody does already"):
            run(backend, on_socket(path))


def test_another_file_is_not_replaced(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="something else of that name"):
        run(backend, on_socket(str(path)))
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ConfigError, match="something else of that name"):
        run(backend, on_socket(str(link)))
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["nowhere/sock", "file/sock", "x" * 200])
def test_a_path_that_cannot_be(backend: str, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot listen on"):
        run(backend, on_socket(str(tmp_path / name)))


def test_another_socket_of_that_name_stays(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "sock"

    async def main() -> None:
        async with on_socket(str(path)):
            path.unlink()
            path.write_text("another's")

    anyio.run(main, backend=backend)
    assert path.read_text() == "another's"


def test_ports(backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*Choose another port"):
            run(backend, on_port("127.0.0.1", port))
    with pytest.raises(ConfigError, match="'kube' is no IP address"):
        run(backend, on_port("kube", 0))
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1.*Give an address of this machine"):
        run(backend, on_port("192.0.2.1", 0))
    assert run(backend, on_port("127.0.0.1", 0))[0].startswith("127.0.0.1:")


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_ipv6(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), address="::1")
    assert proxy.address.startswith("[::1]:")
    assert proxy.get("/version").status_code == 200


def test_loopback() -> None:
    assert [is_loopback(each) for each in ("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.0.0.1")] == [  # noqa: S104 -- nobody listens
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_what_is_wrong_is_said_before_it_serves(backend: str, server: APIServer) -> None:
    for config, options, kind in [
        (server.config(), Options(port=0, address="kube"), ConfigError),
        (server.config(), Options(port=0, metrics_port=0, metrics_address="kube"), ConfigError),
        (server.config(token_file="/nowhere"), Options(port=0), CredentialError),
    ]:
        with pytest.raises(KubeAuthError) as error:
            anyio.run(serve, config, options, backend=backend)
        assert isinstance(error.value, kind)


def test_metrics_and_health(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), metrics_port=0)
    own = f"http://{proxy.metrics}"
    stay = httpx.Limits(keepalive_expiry=None)  # both connections are counted, however long it takes
    with httpx.Client(timeout=PATIENCE, trust_env=False, limits=stay) as client:
        client.get(f"{proxy.url}/version")
        client.get(f"{proxy.url}/nothing")
        client.get(f"{proxy.url}/a%2fb")
        health = client.get(f"{own}/healthz", headers={"Host": "10.0.0.7:9001"})  # as a kubelet asks
        assert (health.status_code, health.text) == (200, "ok")
        assert client.head(f"{own}/healthz").status_code == 200
        assert client.post(f"{own}/healthz", content=b"x").status_code == 405
        assert client.get(f"{own}/version").status_code == 404
        shown = client.get(f"{own}/metrics?x")
    assert shown.headers["Content-Type"].startswith("text/plain")
    for line in (
        'kubeauth_proxy_requests_total{code="2xx",method="GET"} 1.0',
        'kubeauth_proxy_requests_total{code="4xx",method="GET"} 2.0',
        'kubeauth_proxy_refused_total{reason="path"} 1.0',
        "kubeauth_proxy_in_flight 0.0",
        "kubeauth_proxy_upgrades 0.0",
        "kubeauth_proxy_connections 2.0",
        "rest_client_exec_plugin_ttl_seconds",
        "process_open_fds",
    ):
        assert line in shown.text
    assert "alices-token" not in shown.text
    # The API server has these, too.
    assert proxy.get("/metrics").json()["kind"] == "Status"


def test_methods_that_somebody_makes_up_are_counted_together(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"))
    for method in ("FOO", "BAR"):
        proxy.say(get("/version", method=method))
    wait_until(lambda: proxy.counts.requests == {("other", "4xx"): 2})


def test_running_out_of_files_is_not_the_end(
    proxied: Proxied, server: APIServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError(errno.EMFILE, "Too many open files")] * 2

    class Short:
        """A listener that has nothing left at first."""

        def __init__(self, listener: Any) -> None:
            self._listener = listener

        async def accept(self) -> Any:
            if failures:
                raise failures.pop()
            return await self._listener.accept()

        async def aclose(self) -> None:
            await self._listener.aclose()

    opened = on_port

    def short(*args: Any) -> Any:
        manager = opened(*args)

        class Opening:
            async def __aenter__(self) -> Any:
                listener, where = await manager.__aenter__()
                return Short(listener), where

            async def __aexit__(self, *error: Any) -> Any:
                return await manager.__aexit__(*error)

        return Opening()

    monkeypatch.setattr(_serve, "on_port", short)
    proxy = proxied(server.config(token="alices-token"))
    assert proxy.get("/version").status_code == 200
    assert caplog.text.count("a connection could not be taken: Too many open files") == 2


def test_a_fault_of_ours_is_one_callers(
    proxied: Proxied, server: APIServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kubeauth._proxy._target import Mount

    proxy = proxied(server.config(token="alices-token"))
    with monkeypatch.context() as patched:
        patched.setattr(Mount, "strip", lambda *_: 1 / 0)
        assert proxy.say(get()) == b""
    assert proxy.get("/version").status_code == 200
    assert "a fault of kubeauth, please report it: ZeroDivisionError in:" in caplog.text
