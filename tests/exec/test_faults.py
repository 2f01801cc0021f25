"""A plugin that fails: a typed error that says what to do; and when the cause is gone, no restart."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest

from kubeauth import errors
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.clients import ClientVariant, Driver
from tests.support.kubeconfigs import V1
from tests.support.misbehaving import Misbehaving, document, expire_timeout_when
from tests.support.residue import is_alive, no_residue, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these plugins are for POSIX")

TWO = [ClientVariant(httpx, "sync"), ClientVariant(httpx2, "asyncio")]
ASYNC = [ClientVariant(httpx, "asyncio"), ClientVariant(httpx2, "trio")]
# Longer than the first back-off, whatever its jitter.
A_WHILE = 1.3


@contextmanager
def nothing_left(plugin: Misbehaving) -> Iterator[None]:
    """No descriptor, thread, file or child; and nothing that the plugin was or started still runs."""
    with no_residue():
        yield
    wait_until(lambda: not any(map(is_alive, plugin.processes)))


@dataclass(frozen=True)
class Fault:
    break_it: Callable[[Misbehaving], None]
    kind: type[errors.PluginError]
    says: str
    """Of its message: what is wrong, and what to do."""
    facts: dict[str, Any] = field(default_factory=dict)
    hangs: bool = False
    ran: bool = True


def does(source: str) -> Callable[[Misbehaving], None]:
    return lambda plugin: plugin.does(source)


def prints(text: str) -> Callable[[Misbehaving], None]:
    return lambda plugin: plugin.prints(text)


def becomes(content: bytes, mode: int = 0o700) -> Callable[[Misbehaving], None]:
    def replace(plugin: Misbehaving) -> None:
        plugin.path.write_bytes(content)
        plugin.path.chmod(mode)

    return replace


def pair(certificate_of: str, key_of: str) -> str:
    authority = Authority()
    certificate, key = authority.client(certificate_of), authority.client(key_of)
    return document(
        {
            "clientCertificateData": certificate.certificate.decode(),
            "clientKeyData": (certificate if key_of == certificate_of else key).key.decode(),
        }
    )


OUTPUT = errors.PluginOutputError
HANGS = "note('.ready', 1); time.sleep(600)"
ONE_DOCUMENT = "must print one ExecCredential"

FAULTS = {
    "missing": Fault(
        lambda plugin: plugin.path.unlink(),
        errors.PluginNotFound,
        r"no such file or directory\. Check command in users\[\]\.user\.exec",
        {"install_hint": ""},
        ran=False,
    ),
    "not executable": Fault(
        lambda plugin: plugin.path.chmod(0o600),
        errors.PluginNotStarted,
        r"permission denied\. Make the file executable \(chmod \+x\)",
        {"errno": errno.EACCES},
        ran=False,
    ),
    "bad interpreter": Fault(
        becomes(b"#!/no/such/interpreter\n"),
        errors.PluginNotStarted,
        "The file exists: check that the interpreter in its first line does",
        {"errno": errno.ENOENT},
        ran=False,
    ),
    "not a program": Fault(
        becomes(b"\x00\x01\x02"),
        errors.PluginNotStarted,
        "A script must start with #!",
        {"errno": errno.ENOEXEC},
        ran=False,
    ),
    "exits 1": Fault(
        does("print('{}'); sys.exit('no session: log in first')"),
        errors.PluginFailed,
        "failed with exit code 1\nstderr:\n  no session: log in first",
        {"exit_code": 1, "stderr_tail": "no session: log in first"},
    ),
    "exits 3 without a word": Fault(
        does("sys.exit(3)"),
        errors.PluginFailed,
        r"failed with exit code 3\. It printed nothing to stderr; run the command of users\[\]\.user\.exec by hand",
        {"exit_code": 3, "stderr_tail": ""},
    ),
    "killed by a signal": Fault(
        does("give(token='t'); os.kill(os.getpid(), signal.SIGKILL)"),
        errors.PluginFailed,
        "failed with exit code -1",
        {"exit_code": -1, "stderr_tail": ""},
    ),
    "hangs": Fault(
        does("print('waiting for a browser', file=sys.stderr, flush=True);" + HANGS),
        errors.PluginTimeout,
        r"timed out after 600 seconds\. Set ExecOptions\(timeout=\.\.\.\).*"
        "\nstderr:\n  waiting for a browser",
        {"timeout": 600.0},
        hangs=True,
    ),
    "ignores SIGTERM": Fault(
        does(f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"),
        errors.PluginTimeout,
        "timed out after 600 seconds",
        {"timeout": 600.0},
        hangs=True,
    ),
    "hangs, and so does its child that has its stdout": Fault(
        does(f"fork(); signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"),
        errors.PluginTimeout,
        "timed out after 600 seconds",
        {"timeout": 600.0},
        hangs=True,
    ),
    "closes its stdout and hangs": Fault(
        does(f"give(token='t'); os.close(1); os.close(2); {HANGS}"),
        errors.PluginTimeout,
        "timed out after 600 seconds",
        {"timeout": 600.0},
        hangs=True,
    ),
    "prints 100 MB": Fault(
        does("block = b' ' * 2**20\nfor _ in range(100): os.write(1, block)\ngive(token='t')"),
        OUTPUT,
        r"it printed more than 1 MiB\. Is this command a credential plugin\?",
        {"reason": "it printed more than 1 MiB"},
    ),
    "prints nothing": Fault(does("pass"), OUTPUT, f"plugin returned version none.*{ONE_DOCUMENT}", {}),
    "prints garbage": Fault(
        does("os.write(1, bytes(range(256)) * 16)"), OUTPUT, f"decoding stdout: .*{ONE_DOCUMENT}", {}
    ),
    "prints words": Fault(prints("you are now logged in"), OUTPUT, ONE_DOCUMENT, {}),
    "prints something before it": Fault(
        does("print('{}', end=''); give(token='t')"), OUTPUT, ONE_DOCUMENT, {}
    ),
    "100 KB of [": Fault(does("print('[' * 100_000)"), OUTPUT, ONE_DOCUMENT, {}),
    "100 KB of { in JSON": Fault(does("print('{\"a\":' * 20_000)"), OUTPUT, ONE_DOCUMENT, {}),
    "wrong version": Fault(
        prints(document({"token": "t"}, apiVersion=f"{V1}beta1")),
        OUTPUT,
        f"configured to use API version {V1}, plugin returned version {V1}beta1. Set apiVersion",
        {"reason": f"exec plugin is configured to use API version {V1}, plugin returned version {V1}beta1"},
    ),
    "unknown version": Fault(
        prints(document({"token": "t"}, apiVersion="client.authentication.k8s.io/v2")),
        OUTPUT,
        'no kind "ExecCredential" is registered for version "client.authentication.k8s.io/v2"',
    ),
    "no status": Fault(
        prints(document(None)), OUTPUT, "", {"reason": "exec plugin didn't return a status field"}
    ),
    "empty status": Fault(
        prints(document({"token": ""})),
        OUTPUT,
        "",
        {"reason": "exec plugin didn't return a token or cert/key pair"},
    ),
    "half a pair": Fault(
        prints(document({"token": "t", "clientCertificateData": "x"})),
        OUTPUT,
        "It must print both, or neither",
        {"reason": "exec plugin returned only certificate or key, not both"},
    ),
    "another one's key": Fault(
        lambda plugin: plugin.prints(pair("carol", "dave")),
        OUTPUT,
        "failed parsing client key/certificate: the private key does not match the certificate.*match each other",
    ),
    "garbage for a pair": Fault(
        prints(document({"clientCertificateData": "x", "clientKeyData": "y"})),
        OUTPUT,
        "failed parsing client key/certificate: it contains no certificate",
    ),
    "garbage in PEM": Fault(
        prints(
            document(
                {
                    "clientCertificateData": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                    "clientKeyData": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                }
            )
        ),
        OUTPUT,
        "failed parsing client key/certificate: it cannot be parsed",
    ),
    "a token with a newline": Fault(
        prints(document({"token": "alices-token\n"})),
        OUTPUT,
        r"its token is not a valid HTTP header value: it contains a line break.*must return the token alone",
    ),
    "an end that is no time": Fault(
        prints(document({"token": "t", "expirationTimestamp": "tomorrow"})),
        OUTPUT,
        "expirationTimestamp is not a time.*RFC 3339",
    ),
}


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        pytest.param(name, variant, id=f"{name}-{variant}")
        for name, fault in FAULTS.items()
        for variant in (TWO if not fault.hangs or name == "hangs" else TWO[:1])
    ],
)
def test_a_typed_error_and_then_it_works_again(
    name: str, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    fault, plugin = FAULTS[name], Misbehaving(tmp_path)
    fault.break_it(plugin)
    with (
        nothing_left(plugin),
        variant.client(plugin.config(server, timeout=600.0), clock=clock) as client,
    ):
        with (
            expire_timeout_when(lambda: plugin.is_ready) if fault.hangs else nullcontext(),
            pytest.raises(fault.kind, match=f"(?s)^getting credentials: .*{fault.says}") as caught,
        ):
            client.get("/version")
        assert type(caught.value) is fault.kind
        assert caught.value.command == str(plugin.path)
        assert {key: getattr(caught.value, key) for key in fault.facts} == fault.facts
        runs = plugin.runs
        assert runs == fault.ran
        # Until its time has come, the same is said at once.
        with pytest.raises(fault.kind) as once_more:
            client.get("/version")
        assert str(once_more.value) == str(caught.value)
        assert vars(once_more.value) == vars(caught.value)
        assert once_more.value is not caught.value
        assert plugin.runs == runs
        assert str(client.client.status().last_error) == str(caught.value)
        plugin.write()
        plugin.gives(token="alices-token")
        clock.advance(A_WHILE)
        assert client.get("/version").status_code == 200
        assert client.client.status().last_error is None
    assert plugin.runs == runs + 1
    assert [request.user for request in server.requests] == ["alice"]


def test_through_every_face(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    with nothing_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
        for failures, (name, waits) in enumerate([("missing", 1.3), ("exits 1", 2.5), ("no status", 5.0)]):
            plugin.write()
            FAULTS[name].break_it(plugin)
            with pytest.raises(FAULTS[name].kind):
                client.get("/version")
            clock.advance(waits)
            assert plugin.runs == failures
        plugin.gives(token="alices-token")
        assert client.get("/version").status_code == 200


def test_a_name_that_is_not_on_path(
    server: APIServer, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Misbehaving(tmp_path, name="kubeauth-plugin-of-a-test")
    config = plugin.config(server, command=plugin.path.name, install_hint="pip install\x1b[2J it")
    with nothing_left(plugin), TWO[0].client(config, clock=clock) as client:
        with pytest.raises(errors.PluginNotFound, match="Install it, or see\nhttps://") as caught:
            client.get("/version")
        assert caught.value.install_hint == "pip installU+001B[2J it"
        assert caught.value.install_hint in str(caught.value)
        assert caught.value.command == plugin.path.name
        # A file that cannot be run is not found there either.
        monkeypatch.setenv("PATH", str(tmp_path))
        plugin.path.chmod(0o600)
        clock.advance(A_WHILE)
        with pytest.raises(errors.PluginNotFound):
            client.get("/version")
        plugin.path.chmod(0o700)
        clock.advance(2.5)
        assert client.get("/version").status_code == 200


@pytest.mark.parametrize(
    "fields", [{"args": ("a\0b",)}, {"env": {"A": "a\0b"}}, {"env": {"A\0": "b"}}, {"env": {"A=B": "c"}}]
)
def test_what_no_program_can_be_given(
    fields: dict[str, Any], server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    """For ever, since the configuration does not change; another configuration is another source."""
    plugin = Misbehaving(tmp_path)
    with nothing_left(plugin):
        for variant in TWO:
            with variant.client(plugin.config(server, **fields), clock=clock) as client:
                for _ in range(3):
                    with pytest.raises(
                        errors.PluginNotStarted, match=r"NUL byte.*Check args and env"
                    ) as caught:
                        client.get("/version")
                    assert caught.value.errno is None
                    assert caught.value.__cause__ is None
                    clock.advance(40.0)
            with variant.client(plugin.config(server), clock=clock) as client:
                assert client.get("/version").status_code == 200
    assert plugin.runs == 1


def test_a_ca_that_is_too_long_for_an_environment(
    server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    huge = server.authority.pem + b"# and many more\n" * 20_000
    config = server.config(exec=plugin.exec(provide_cluster_info=True), ca_data=huge)
    with nothing_left(plugin), TWO[0].client(config, clock=clock) as client:
        with pytest.raises(errors.PluginNotStarted, match="set provideClusterInfo to false") as caught:
            client.get("/version")
        assert caught.value.errno == errno.E2BIG
        assert "42" in str(caught.value)  # 4/3 of 320,000 bytes
        assert isinstance(caught.value.__cause__, OSError)
    with (
        nothing_left(plugin),
        TWO[0].client(plugin.config(server, args=("x" * 200_000,)), clock=clock) as client,
    ):
        with pytest.raises(errors.PluginNotStarted, match="shorten args and env") as caught:
            client.get("/version")
    smaller = server.config(exec=plugin.exec(provide_cluster_info=True))
    with nothing_left(plugin), TWO[0].client(smaller, clock=clock) as client:
        assert client.get("/version").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("variant", TWO, ids=str)
def test_a_child_that_holds_stdout_after_the_plugin_has_ended(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    plugin.does(
        "if fork():\n"
        "    while not os.path.exists(here + '.end'): time.sleep(0.02)\n"
        "else: give(token='alices-token')"
    )
    with nothing_left(plugin):
        with variant.client(plugin.config(server), clock=clock) as client:
            assert client.get("/version").status_code == 200
        Path(f"{plugin.path}.end").touch()


@pytest.mark.parametrize("variant", TWO, ids=str)
def test_a_daemon_that_the_plugin_detaches_lives(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    """As a login helper does that keeps a session: it has nothing of ours, so nobody ends it."""
    plugin = Misbehaving(tmp_path)
    plugin.does(
        "if fork():\n"
        "    os.setsid()\n"
        "    for each in (0, 1, 2): os.close(each)\n"
        "    while not os.path.exists(here + '.end'): time.sleep(0.02)\n"
        "else: give(token='alices-token')"
    )
    with nothing_left(plugin):
        with variant.client(plugin.config(server), clock=clock) as client:
            assert client.get("/version").status_code == 200
        daemon = plugin.processes[-1]
        assert is_alive(daemon)
        Path(f"{plugin.path}.end").touch()


class TestAnEndInThePast:
    """The credential is handed out once, and the plugin left alone for a while: it may never do better."""

    def test_for_ever(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        plugin.gives(token="alices-token", expires=clock.time() - 60)
        with nothing_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            for runs, waits in enumerate([1.3, 2.5, 5.0, 10.0, 20.0, 37.0, 37.0], start=1):
                assert client.get("/version").status_code == 200
                for _ in range(3):
                    with pytest.raises(OUTPUT, match=r"expired credential.*Check the clock of this machine"):
                        client.get("/version")
                assert plugin.runs == runs
                clock.advance(waits)
            plugin.gives(token="alices-token", expires=clock.time() + 900)
            for _ in range(3):
                assert client.get("/version").status_code == 200
            assert client.client.status().last_error is None
        assert plugin.runs == 8

    def test_all_who_waited_get_it(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        plugin.does(
            "while not os.path.exists(here + '.go'): time.sleep(0.01)\n"
            "give(token='alices-token', expirationTimestamp='2020-01-01T00:00:00Z')"
        )
        with nothing_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            results = at_once(client, 6, lambda: Path(f"{plugin.path}.go").touch())
            assert [each.status_code for each in results] == [200] * 6
            with pytest.raises(OUTPUT, match="returned an expired credential"):
                client.get("/version")
        assert plugin.runs == 1


def at_once(client: Driver, callers: int, then: Callable[[], None]) -> list[Any]:
    """So many requests that all wait for one plugin when `then` is called: responses, and errors."""
    results: list[Any] = []

    def call() -> None:
        try:
            results.append(client.client.get("/version"))
        except Exception as error:
            results.append(error)

    async def acall() -> None:
        try:
            results.append(await client.client.get("/version"))
        except Exception as error:
            results.append(error)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(acall)
            await anyio.sleep(0.2)
            then()

    if client._portal is not None:
        client._portal.call(main)
        return results
    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    # One runs the plugin, and all others wait for it.
    source = client.client._kube_transport._source
    wait_until(lambda: source._call is not None and len(source._call._waiters) == callers - 1)
    then()
    for thread in threads:
        thread.join()
    return results


class TestAClockThatJumps:
    def test_forth_and_back(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        start = clock.time()
        plugin.gives(token="alices-token", expires=start + 900)
        config = plugin.config(server, refresh_ahead=False)
        with nothing_left(plugin), variant.client(config, clock=clock) as client:
            assert client.get("/version").status_code == 200
            # A year ahead: it is over by the calendar, and so is everything the plugin can give.
            clock.set_date(start + 365 * 86400)
            assert client.get("/version").status_code == 200
            with pytest.raises(OUTPUT, match="Check the clock of this machine"):
                client.get("/version")
            assert plugin.runs == 2
            # Set right again: what came last is good until its end, though it came too late by then.
            clock.set_date(start)
            clock.advance(A_WHILE)
            for _ in range(3):
                assert client.get("/version").status_code == 200
            assert plugin.runs <= 3
            assert client.client.status().last_error is None
            # A year back: nothing is good for longer for it.
            runs = plugin.runs
            clock.set_date(start - 365 * 86400)
            assert client.get("/version").status_code == 200
            assert plugin.runs == runs
            clock.advance(901.0)
            plugin.gives(token="alices-token", expires=clock.time() + 900)
            assert client.get("/version").status_code == 200
            assert plugin.runs == runs + 1

    def test_there_and_back_within_its_life(
        self, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        start = clock.time()
        plugin.gives(token="alices-token", expires=start + 900)
        with nothing_left(plugin), TWO[0].client(plugin.config(server), clock=clock) as client:
            for jump in (0, -3600, 100, -86400, 300, 0):
                clock.set_date(start + jump)
                assert client.get("/version").status_code == 200
            assert plugin.runs == 1


class TestTheWire:
    """What is the network's fault is not the plugin's: it is not asked again."""

    def test_a_connection_that_is_cut(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)

        def broken() -> Iterator[bytes]:
            yield b"half of"
            raise ConnectionResetError

        server.on("POST", "/cut", Answer(hang_up=True))
        server.on("GET", "/half", lambda _: Answer(chunks=broken()))
        with nothing_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            for _ in range(3):
                with pytest.raises(variant.library.TransportError):
                    client.request("POST", "/cut", content=b"x")
                with pytest.raises(variant.library.TransportError):
                    client.get("/half")
                watch = server.watch("/watch")
                with client.stream("GET", "/watch") as stream:
                    watch.wait_for_watchers()
                    server.hang_up()
                    with pytest.raises(variant.library.TransportError):
                        stream.line()
                watch.end()
                assert client.get("/version").status_code == 200
        assert plugin.runs == 1


@pytest.mark.parametrize("way", ["missing", "a file", "full"])
def test_a_temporary_directory_that_is_no_use(
    way: str,
    variant: ClientVariant,
    server: APIServer,
    clock: FakeClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A certificate does not pass through it."""
    import tempfile

    carol = server.authority.client("carol")
    plugin = Misbehaving(tmp_path)
    plugin.gives(clientCertificateData=carol.certificate.decode(), clientKeyData=carol.key.decode())
    place = {"missing": tmp_path / "missing", "a file": tmp_path / "file", "full": Path("/dev/full")}[way]
    (tmp_path / "file").touch()
    with nothing_left(plugin):
        with monkeypatch.context() as patch:
            patch.setenv("TMPDIR", str(place))
            patch.setattr(tempfile, "tempdir", str(place))
            with variant.client(plugin.config(server), clock=clock) as client:
                assert client.get("/version").status_code == 200
    assert [request.common_name for request in server.requests] == ["carol"]


class TestThreads:
    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_none_can_be_started(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        with nothing_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            with (
                no_more_threads(),
                pytest.raises(errors.PluginError, match="cannot start a thread") as caught,
            ):
                client.get("/version")
            assert type(caught.value) is errors.PluginError
            assert caught.value.command == str(plugin.path)
            assert plugin.runs == 0
            clock.advance(A_WHILE)
            assert client.get("/version").status_code == 200

    def test_none_can_be_started_to_renew_ahead(
        self, server: APIServer, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        plugin = Misbehaving(tmp_path)
        plugin.gives(token="alices-token", expires=clock.time() + 900)
        with nothing_left(plugin), TWO[0].client(plugin.config(server), clock=clock) as client:
            assert client.get("/version").status_code == 200
            clock.advance(870.0)
            with no_more_threads():
                assert client.get("/version").status_code == 200
            assert "cannot start a thread" in caplog.text
            assert plugin.runs == 1
            plugin.gives(token="alices-token", expires=clock.time() + 900)
            clock.advance(A_WHILE)
            assert client.get("/version").status_code == 200
            wait_until(lambda: client.client.status().last_error is None)
        assert plugin.runs == 2

    def test_none_can_be_started_to_wait_for_another(
        self, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        """Somebody else's run is under way, and only the waiting needs a thread. (Trio may have one left.)"""
        variant = ASYNC[0]
        plugin = Misbehaving(tmp_path)
        plugin.does("while not os.path.exists(here + '.go'): time.sleep(0.01)\ngive(token='alices-token')")
        config = plugin.config(server)
        with nothing_left(plugin), variant.client(config, clock=clock) as client:
            with TWO[0].client(config, clock=clock) as other:
                asks = threading.Thread(target=other.get, args=("/version",))
                asks.start()
                wait_until(lambda: plugin.runs == 1)
                try:
                    with (
                        no_more_threads(),
                        pytest.raises(errors.PluginError, match="cannot start a thread"),
                    ):
                        client.get("/version")
                finally:
                    Path(f"{plugin.path}.go").touch()
                    asks.join()
                assert client.get("/version").status_code == 200
        assert plugin.runs == 1


@contextmanager
def no_more_threads() -> Iterator[None]:
    """No thread can be started: none finds room for its stack."""
    before = threading.stack_size(2**46)
    try:
        with pytest.raises(RuntimeError):
            threading.Thread(target=int).start()
        yield
    finally:
        threading.stack_size(before)


def test_the_plugins_document_is_what_these_tests_think(tmp_path: Path) -> None:
    import subprocess

    plugin = Misbehaving(tmp_path)
    ran = subprocess.run([str(plugin.path)], capture_output=True, check=True)
    assert json.loads(ran.stdout) == json.loads(document({"token": "alices-token"}))
