"""A plugin that fails is a typed error that says what to do; once it works again, so does the client."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import tempfile
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
from tests.support.waiters import wait_for_waiters, wait_for_waiting_tasks

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the plugins are POSIX scripts")

SYNC_AND_ASYNC = [ClientVariant(httpx, "sync"), ClientVariant(httpx2, "asyncio")]
ASYNC = [ClientVariant(httpx, "asyncio"), ClientVariant(httpx2, "trio")]
# In seconds: longer than the first backoff with any jitter.
AFTER_BACKOFF = 1.3


@contextmanager
def no_processes_left(plugin: Misbehaving) -> Iterator[None]:
    """no_residue(), and no process of the plugin or of its children is alive."""
    with no_residue():
        yield
    wait_until(lambda: not any(map(is_alive, plugin.processes)))


@dataclass(frozen=True)
class FailureCase:
    break_plugin: Callable[[Misbehaving], None]
    error: type[errors.PluginError]
    message: str
    """A pattern: what is wrong, and what to do."""
    attributes: dict[str, Any] = field(default_factory=dict)
    is_hanging: bool = False
    is_started: bool = True


def does(source: str) -> Callable[[Misbehaving], None]:
    return lambda plugin: plugin.does(source)


def prints(text: str) -> Callable[[Misbehaving], None]:
    return lambda plugin: plugin.prints(text)


def becomes(content: bytes, mode: int = 0o700) -> Callable[[Misbehaving], None]:
    def replace(plugin: Misbehaving) -> None:
        plugin.path.write_bytes(content)
        plugin.path.chmod(mode)

    return replace


def mismatched_pair(certificate_of: str, key_of: str) -> str:
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

FAILURES = {
    "missing": FailureCase(
        lambda plugin: plugin.path.unlink(),
        errors.PluginNotFound,
        r"no such file or directory\. Check command in users\[\]\.user\.exec",
        {"install_hint": ""},
        is_started=False,
    ),
    "not executable": FailureCase(
        lambda plugin: plugin.path.chmod(0o600),
        errors.PluginNotStarted,
        r"permission denied\. Make the file executable \(chmod \+x\)",
        {"errno": errno.EACCES},
        is_started=False,
    ),
    "bad interpreter": FailureCase(
        becomes(b"#!/no/such/interpreter\n"),
        errors.PluginNotStarted,
        "The file exists: check that the interpreter in its first line does",
        {"errno": errno.ENOENT},
        is_started=False,
    ),
    "not a program": FailureCase(
        becomes(b"\x00\x01\x02"),
        errors.PluginNotStarted,
        "A script must start with #!",
        {"errno": errno.ENOEXEC},
        is_started=False,
    ),
    "exits 1": FailureCase(
        does("print('{}'); sys.exit('no session: log in first')"),
        errors.PluginFailed,
        "failed with exit code 1\nstderr:\n  no session: log in first",
        {"exit_code": 1, "stderr_tail": "no session: log in first"},
    ),
    "exits 3 without stderr": FailureCase(
        lambda plugin: plugin.fails(exit_code=3),
        errors.PluginFailed,
        r"failed with exit code 3\. It printed nothing to stderr; run the command of users\[\]\.user\.exec by hand",
        {"exit_code": 3, "stderr_tail": ""},
    ),
    "killed by a signal": FailureCase(
        does("give(token='t'); os.kill(os.getpid(), signal.SIGKILL)"),
        errors.PluginFailed,
        "failed with exit code -1",
        {"exit_code": -1, "stderr_tail": ""},
    ),
    "hangs": FailureCase(
        does("print('waiting for a browser', file=sys.stderr, flush=True);" + HANGS),
        errors.PluginTimeout,
        r"timed out after 600 seconds\. Set ExecOptions\(timeout=\.\.\.\).*"
        "\nstderr:\n  waiting for a browser",
        {"timeout": 600.0},
        is_hanging=True,
    ),
    "ignores SIGTERM": FailureCase(
        does(f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"),
        errors.PluginTimeout,
        "timed out after 600 seconds",
        {"timeout": 600.0},
        is_hanging=True,
    ),
    "hangs, and so does a child with its stdout": FailureCase(
        does(f"fork(); signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"),
        errors.PluginTimeout,
        "timed out after 600 seconds",
        {"timeout": 600.0},
        is_hanging=True,
    ),
    "closes its stdout and hangs": FailureCase(
        does(f"give(token='t'); os.close(1); os.close(2); {HANGS}"),
        errors.PluginTimeout,
        "timed out after 600 seconds",
        {"timeout": 600.0},
        is_hanging=True,
    ),
    "prints 100 MB": FailureCase(
        does("block = b' ' * 2**20\nfor _ in range(100): os.write(1, block)\ngive(token='t')"),
        OUTPUT,
        r"it printed more than 1 MiB\. Is this command a credential plugin\?",
        {"reason": "it printed more than 1 MiB"},
    ),
    "prints nothing": FailureCase(prints(""), OUTPUT, f"plugin returned version none.*{ONE_DOCUMENT}", {}),
    "prints garbage": FailureCase(
        does("os.write(1, bytes(range(256)) * 16)"), OUTPUT, f"decoding stdout: .*{ONE_DOCUMENT}", {}
    ),
    "prints a sentence": FailureCase(prints("you are now logged in"), OUTPUT, ONE_DOCUMENT, {}),
    "prints another document first": FailureCase(
        does("print('{}', end=''); give(token='t')"), OUTPUT, ONE_DOCUMENT, {}
    ),
    "100 KB of [": FailureCase(does("print('[' * 100_000)"), OUTPUT, ONE_DOCUMENT, {}),
    "100 KB of { in JSON": FailureCase(does("print('{\"a\":' * 20_000)"), OUTPUT, ONE_DOCUMENT, {}),
    "wrong version": FailureCase(
        prints(document({"token": "t"}, apiVersion=f"{V1}beta1")),
        OUTPUT,
        f"configured to use API version {V1}, plugin returned version {V1}beta1. Set apiVersion",
        {"reason": f"exec plugin is configured to use API version {V1}, plugin returned version {V1}beta1"},
    ),
    "unknown version": FailureCase(
        prints(document({"token": "t"}, apiVersion="client.authentication.k8s.io/v2")),
        OUTPUT,
        'no kind "ExecCredential" is registered for version "client.authentication.k8s.io/v2"',
    ),
    "no status": FailureCase(
        prints(document(None)), OUTPUT, "", {"reason": "exec plugin didn't return a status field"}
    ),
    "empty status": FailureCase(
        prints(document({"token": ""})),
        OUTPUT,
        "",
        {"reason": "exec plugin didn't return a token or cert/key pair"},
    ),
    "certificate without key": FailureCase(
        prints(document({"token": "t", "clientCertificateData": "x"})),
        OUTPUT,
        "It must print both, or neither",
        {"reason": "exec plugin returned only certificate or key, not both"},
    ),
    "key of another certificate": FailureCase(
        lambda plugin: plugin.prints(mismatched_pair("carol", "dave")),
        OUTPUT,
        "failed parsing client key/certificate: the private key does not match the certificate.*match each other",
    ),
    "certificate and key are not PEM": FailureCase(
        prints(document({"clientCertificateData": "x", "clientKeyData": "y"})),
        OUTPUT,
        "failed parsing client key/certificate: it contains no certificate",
    ),
    "garbage in PEM": FailureCase(
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
    "token with a newline": FailureCase(
        prints(document({"token": "alices-token\n"})),
        OUTPUT,
        r"its token is not a valid HTTP header value: it contains a line break.*must return the token alone",
    ),
    "invalid expirationTimestamp": FailureCase(
        prints(document({"token": "t", "expirationTimestamp": "tomorrow"})),
        OUTPUT,
        "expirationTimestamp: not a time.*RFC 3339",
    ),
}


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        pytest.param(name, variant, id=f"{name}-{variant}")
        for name, failure in FAILURES.items()
        for variant in (SYNC_AND_ASYNC if not failure.is_hanging or name == "hangs" else SYNC_AND_ASYNC[:1])
    ],
)
def test_a_failure_is_a_typed_error_and_the_next_run_succeeds(
    name: str, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    failure, plugin = FAILURES[name], Misbehaving(tmp_path)
    failure.break_plugin(plugin)

    with (
        no_processes_left(plugin),
        variant.client(plugin.config(server, timeout=600.0), clock=clock) as client,
    ):
        with (
            expire_timeout_when(lambda: plugin.is_ready) if failure.is_hanging else nullcontext(),
            pytest.raises(failure.error, match=f"(?s)^getting credentials: .*{failure.message}") as caught,
        ):
            client.get("/version")
        assert type(caught.value) is failure.error
        assert caught.value.command == str(plugin.path)
        assert {key: getattr(caught.value, key) for key in failure.attributes} == failure.attributes

        runs = plugin.runs
        assert runs == failure.is_started

        # During the backoff, the same error is raised without another run.
        with pytest.raises(failure.error) as repeated:
            client.get("/version")
        assert str(repeated.value) == str(caught.value)
        assert vars(repeated.value) == vars(caught.value)
        assert repeated.value is not caught.value
        assert plugin.runs == runs
        assert str(client.client.status().last_error) == str(caught.value)

        plugin.write()
        plugin.gives(token="alices-token")
        clock.advance(AFTER_BACKOFF)
        assert client.get("/version").status_code == 200
        assert client.client.status().last_error is None

    assert plugin.runs == runs + 1
    assert [request.user for request in server.requests] == ["alice"]


def test_each_client_recovers_from_failures(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    with no_processes_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
        for runs, (name, delay) in enumerate([("missing", 1.3), ("exits 1", 2.5), ("no status", 5.0)]):
            plugin.write()
            FAILURES[name].break_plugin(plugin)

            with pytest.raises(FAILURES[name].error):
                client.get("/version")

            clock.advance(delay)
            assert plugin.runs == runs

        plugin.gives(token="alices-token")
        assert client.get("/version").status_code == 200


def test_a_command_that_is_not_on_path_is_not_found(
    server: APIServer, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Misbehaving(tmp_path, name="kubeauth-test-plugin")
    config = plugin.config(server, command=plugin.path.name, install_hint="pip install\x1b[2J it")
    with no_processes_left(plugin), SYNC_AND_ASYNC[0].client(config, clock=clock) as client:
        with pytest.raises(errors.PluginNotFound, match="Install it, or see\nhttps://") as caught:
            client.get("/version")
        assert caught.value.install_hint == "pip installU+001B[2J it"
        assert caught.value.install_hint in str(caught.value)
        assert caught.value.command == plugin.path.name

        # A file that is not executable is not found on PATH either.
        monkeypatch.setenv("PATH", str(tmp_path))
        plugin.path.chmod(0o600)
        clock.advance(AFTER_BACKOFF)

        with pytest.raises(errors.PluginNotFound):
            client.get("/version")

        plugin.path.chmod(0o700)
        clock.advance(2.5)
        assert client.get("/version").status_code == 200


@pytest.mark.parametrize(
    "fields", [{"args": ("a\0b",)}, {"env": {"A": "a\0b"}}, {"env": {"A\0": "b"}}, {"env": {"A=B": "c"}}]
)
def test_invalid_args_and_env_are_an_error_each_time(
    fields: dict[str, Any], server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    with no_processes_left(plugin):
        for variant in SYNC_AND_ASYNC:
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


def test_a_ca_that_is_too_long_for_the_environment_is_an_error(
    server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    large_ca = server.authority.pem + b"# padding bytes\n" * 20_000
    config = server.config(exec=plugin.exec(provide_cluster_info=True), ca_data=large_ca)
    with no_processes_left(plugin), SYNC_AND_ASYNC[0].client(config, clock=clock) as client:
        with pytest.raises(errors.PluginNotStarted, match="set provideClusterInfo to false") as caught:
            client.get("/version")
        assert caught.value.errno == errno.E2BIG
        assert "42" in str(caught.value)  # 4/3 of 320,000 bytes
        assert isinstance(caught.value.__cause__, OSError)

    with (
        no_processes_left(plugin),
        SYNC_AND_ASYNC[0].client(plugin.config(server, args=("x" * 200_000,)), clock=clock) as client,
    ):
        with pytest.raises(errors.PluginNotStarted, match="shorten args and env") as caught:
            client.get("/version")

    small_ca = server.config(exec=plugin.exec(provide_cluster_info=True))
    with no_processes_left(plugin), SYNC_AND_ASYNC[0].client(small_ca, clock=clock) as client:
        assert client.get("/version").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("variant", SYNC_AND_ASYNC, ids=str)
def test_a_child_with_the_stdout_of_an_exited_plugin_does_not_block(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    plugin.does(
        "if fork():\n"
        "    while not os.path.exists(here + '.end'): time.sleep(0.02)\n"
        "else: give(token='alices-token')"
    )
    with no_processes_left(plugin):
        with variant.client(plugin.config(server), clock=clock) as client:
            assert client.get("/version").status_code == 200
        Path(f"{plugin.path}.end").touch()


@pytest.mark.parametrize("variant", SYNC_AND_ASYNC, ids=str)
def test_a_daemon_started_by_the_plugin_is_not_killed(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    """As login helpers do that cache a session. It has left the session and closed the standard streams."""
    plugin = Misbehaving(tmp_path)
    plugin.does(
        "if fork():\n"
        "    os.setsid()\n"
        "    for each in (0, 1, 2): os.close(each)\n"
        "    while not os.path.exists(here + '.end'): time.sleep(0.02)\n"
        "else: give(token='alices-token')"
    )
    with no_processes_left(plugin):
        with variant.client(plugin.config(server), clock=clock) as client:
            assert client.get("/version").status_code == 200
        daemon = plugin.processes[-1]
        assert is_alive(daemon)
        Path(f"{plugin.path}.end").touch()


class TestExpiredCredentials:
    """An expired credential is returned once, and the plugin is run again after a backoff."""

    def test_each_run_is_used_once_and_followed_by_a_backoff(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        plugin.gives(token="alices-token", expires=clock.time() - 60)
        with no_processes_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            for runs, delay in enumerate([1.3, 2.5, 5.0, 10.0, 20.0, 37.0, 37.0], start=1):
                assert client.get("/version").status_code == 200
                for _ in range(3):
                    with pytest.raises(OUTPUT, match=r"expired credential.*Check the clock of this machine"):
                        client.get("/version")
                assert plugin.runs == runs
                clock.advance(delay)
            plugin.gives(token="alices-token", expires=clock.time() + 900)
            for _ in range(3):
                assert client.get("/version").status_code == 200
            assert client.client.status().last_error is None
        assert plugin.runs == 8

    def test_all_waiters_get_the_expired_credential(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        plugin.gives_after_release(token="alices-token", expirationTimestamp="2020-01-01T00:00:00Z")
        with no_processes_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            results = send_concurrently(client, 6, plugin.release)
            assert [each.status_code for each in results] == [200] * 6
            with pytest.raises(OUTPUT, match="returned an expired credential"):
                client.get("/version")
        assert plugin.runs == 1


def send_concurrently(client: Driver, callers: int, then: Callable[[], None]) -> list[Any]:
    """Send requests and call `then` when all of them wait for one run. Returns responses and errors."""
    results: list[Any] = []
    source = client.client._kube_transport._source

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
            await wait_for_waiting_tasks(source, callers)
            then()

    if client._portal is not None:
        client._portal.call(main)
        return results
    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    wait_for_waiters(source, callers - 1)  # one of them runs the plugin
    then()
    for thread in threads:
        thread.join()
    return results


class TestClockJumps:
    def test_the_date_jumps_a_year_forward_and_back(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        start = clock.time()
        plugin.gives(token="alices-token", expires=start + 900)
        config = plugin.config(server, refresh_ahead=False)
        with no_processes_left(plugin), variant.client(config, clock=clock) as client:
            assert client.get("/version").status_code == 200

            # A year ahead: the cached credential has expired, and so have all new ones.
            clock.set_date(start + 365 * 86400)
            assert client.get("/version").status_code == 200
            with pytest.raises(OUTPUT, match="Check the clock of this machine"):
                client.get("/version")
            assert plugin.runs == 2

            # The correct date again: the last credential is valid until its expiry.
            clock.set_date(start)
            clock.advance(AFTER_BACKOFF)

            for _ in range(3):
                assert client.get("/version").status_code == 200
            assert plugin.runs <= 3
            assert client.client.status().last_error is None

            # A year back: this does not extend the lifetime.
            runs = plugin.runs
            clock.set_date(start - 365 * 86400)
            assert client.get("/version").status_code == 200
            assert plugin.runs == runs

            clock.advance(901.0)
            plugin.gives(token="alices-token", expires=clock.time() + 900)
            assert client.get("/version").status_code == 200
            assert plugin.runs == runs + 1

    def test_jumps_within_the_lifetime_do_not_run_the_plugin(
        self, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        start = clock.time()
        plugin.gives(token="alices-token", expires=start + 900)
        with (
            no_processes_left(plugin),
            SYNC_AND_ASYNC[0].client(plugin.config(server), clock=clock) as client,
        ):
            for jump in (0, -3600, 100, -86400, 300, 0):
                clock.set_date(start + jump)
                assert client.get("/version").status_code == 200
            assert plugin.runs == 1


class TestNetworkErrors:
    """A network error does not run the plugin again."""

    def test_connections_that_the_server_closes(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)

        def truncated() -> Iterator[bytes]:
            yield b"half of"
            raise ConnectionResetError

        server.on("POST", "/cut", Answer(hang_up=True))
        server.on("GET", "/half", lambda _: Answer(chunks=truncated()))

        with no_processes_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
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


@pytest.mark.parametrize("tmpdir", ["missing", "a file", "full"])
def test_certificates_do_not_need_a_temporary_directory(
    tmpdir: str,
    variant: ClientVariant,
    server: APIServer,
    clock: FakeClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carol = server.authority.client("carol")
    plugin = Misbehaving(tmp_path)
    plugin.gives(clientCertificateData=carol.certificate.decode(), clientKeyData=carol.key.decode())
    path = {"missing": tmp_path / "missing", "a file": tmp_path / "file", "full": Path("/dev/full")}[tmpdir]
    (tmp_path / "file").touch()

    with no_processes_left(plugin):
        with monkeypatch.context() as patch:
            patch.setenv("TMPDIR", str(path))
            patch.setattr(tempfile, "tempdir", str(path))
            with variant.client(plugin.config(server), clock=clock) as client:
                assert client.get("/version").status_code == 200

    assert [request.common_name for request in server.requests] == ["carol"]


class TestOutOfThreads:
    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_a_first_run_fails_and_the_next_succeeds(
        self, variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        plugin = Misbehaving(tmp_path)
        with no_processes_left(plugin), variant.client(plugin.config(server), clock=clock) as client:
            with (
                no_more_threads(),
                pytest.raises(errors.PluginError, match="cannot start a thread") as caught,
            ):
                client.get("/version")
            assert type(caught.value) is errors.PluginError
            assert caught.value.command == str(plugin.path)
            assert plugin.runs == 0

            clock.advance(AFTER_BACKOFF)
            assert client.get("/version").status_code == 200

    def test_a_refresh_ahead_fails_and_the_next_succeeds(
        self, server: APIServer, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        plugin = Misbehaving(tmp_path)
        plugin.gives(token="alices-token", expires=clock.time() + 900)
        with (
            no_processes_left(plugin),
            SYNC_AND_ASYNC[0].client(plugin.config(server), clock=clock) as client,
        ):
            assert client.get("/version").status_code == 200

            clock.advance(870.0)
            with no_more_threads():
                assert client.get("/version").status_code == 200
            assert "cannot start a thread" in caplog.text
            assert plugin.runs == 1

            plugin.gives(token="alices-token", expires=clock.time() + 900)
            clock.advance(AFTER_BACKOFF)
            assert client.get("/version").status_code == 200

            wait_until(lambda: client.client.status().last_error is None)
        assert plugin.runs == 2

    def test_waiting_for_a_run_of_another_client_fails(
        self, server: APIServer, clock: FakeClock, tmp_path: Path
    ) -> None:
        """Only waiting needs a thread here. Not with trio, which may have an idle thread left."""
        variant = ASYNC[0]
        plugin = Misbehaving(tmp_path)
        plugin.gives_after_release(token="alices-token")
        config = plugin.config(server)

        with no_processes_left(plugin), variant.client(config, clock=clock) as client:
            with SYNC_AND_ASYNC[0].client(config, clock=clock) as other:
                requester = threading.Thread(target=other.get, args=("/version",))
                requester.start()
                wait_until(lambda: plugin.runs == 1)
                try:
                    with (
                        no_more_threads(),
                        pytest.raises(errors.PluginError, match="cannot start a thread"),
                    ):
                        client.get("/version")
                finally:
                    plugin.release()
                    requester.join()

                assert client.get("/version").status_code == 200

        assert plugin.runs == 1


@contextmanager
def no_more_threads() -> Iterator[None]:
    """No thread can be started, since its stack would be too large."""
    stack_size = threading.stack_size(2**46)
    try:
        with pytest.raises(RuntimeError):
            threading.Thread(target=int).start()
        yield
    finally:
        threading.stack_size(stack_size)


def test_the_default_output_of_the_plugin(tmp_path: Path) -> None:
    plugin = Misbehaving(tmp_path)
    completed = subprocess.run([str(plugin.path)], capture_output=True, check=True)
    assert json.loads(completed.stdout) == json.loads(document({"token": "alices-token"}))
