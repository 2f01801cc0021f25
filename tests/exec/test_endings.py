"""Programs that exit or are interrupted while a plugin runs leave no plugin process behind.

Also programs with closed standard streams, without free descriptors, or with SIGCHLD ignored.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubeauth.testing import Answer, APIServer
from tests.support.misbehaving import Misbehaving, repository
from tests.support.residue import is_alive, no_residue, wait_until

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")

PRELUDE = """
import asyncio, errno, json, os, resource, signal, sys, threading, time
import anyio, httpx, kubeauth
from kubeauth.testing import FakeClock

server, plugin = sys.argv[1:]
clock = FakeClock()

def config(timeout=600.0, **fields):
    return kubeauth.ClientConfig(server=server, exec=kubeauth.ExecConfig(
        command=plugin, api_version="client.authentication.k8s.io/v1", interactive_mode="Never",
        options=kubeauth.ExecOptions(timeout=timeout), **fields))

def runs():
    return open(plugin + ".runs").read().split() if os.path.exists(plugin + ".runs") else []

def wait_for_runs(count):
    while len(runs()) < count:
        time.sleep(0.01)

def report(*values):
    print(*values, flush=True)

def fds():
    return len(os.listdir("/proc/self/fd"))

async def aget(path="/version"):
    async with kubeauth.AsyncClient(config(), clock=clock) as client:
        return await client.get(path)
"""

HANGS = "fork(); time.sleep(600)"
IGNORES_SIGTERM = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Misbehaving]:
    """Its processes must have ended at the end of the test; otherwise they are killed."""
    plugin = Misbehaving(tmp_path)
    try:
        with no_residue():
            yield plugin
        wait_until(lambda: not any(map(is_alive, plugin.processes)))
    finally:
        for number in filter(is_alive, plugin.processes):
            os.kill(number, signal.SIGKILL)


@pytest.fixture
def http() -> Iterator[APIServer]:
    with APIServer(tls=False, tokens={"alices-token": "alice"}) as server:
        yield server


@contextmanager
def program(source: str, server: APIServer, plugin: Misbehaving) -> Iterator[subprocess.Popen[str]]:
    """A Python program in which kubeauth is imported."""
    started = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(source), server.url, str(plugin.path)],
        cwd=repository(),
        env={**os.environ, "PYTHONPATH": repository()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def wait_for_output(running: subprocess.Popen[str]) -> str:
    """Wait until the program has exited with status 0, and return its stdout."""
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    return output.strip()


def interrupt(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)


INTERRUPTED = {
    "sync": """
        client = kubeauth.Client(config())
        try:
            client.get("/version")
        except KeyboardInterrupt:
            report("interrupted", os.path.exists(f"/proc/{runs()[0]}"))
    """,
    "sync, closed": """
        try:
            with kubeauth.Client(config()) as client:
                client.get("/version")
        except KeyboardInterrupt:
            report("interrupted", os.path.exists(f"/proc/{runs()[0]}"))
    """,
    "asyncio": """
        try:
            asyncio.run(aget())
        except KeyboardInterrupt:
            report("interrupted")
    """,
    "asyncio, not closed": """
        client = kubeauth.AsyncClient(config())
        try:
            asyncio.run(client.get("/version"))
        except KeyboardInterrupt:
            report("interrupted")
    """,
    "trio": """
        try:
            anyio.run(aget, backend="trio")
        except KeyboardInterrupt:
            report("interrupted")
    """,
    "trio, not closed": """
        client = kubeauth.AsyncClient(config())
        try:
            anyio.run(client.get, "/version", backend="trio")
        except KeyboardInterrupt:
            report("interrupted")
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", INTERRUPTED)
def test_ctrl_c_stops_the_plugin(case: str, http: APIServer, plugin: Misbehaving) -> None:
    plugin.does(IGNORES_SIGTERM if "closed" in case else HANGS)
    with program(INTERRUPTED[case], http, plugin) as running:
        wait_until(lambda: len(plugin.processes) == 2)
        interrupt(running)
        # A sync client has waited for the process of the plugin before it raises.
        assert wait_for_output(running) == (
            "interrupted False" if "sync" in case.split(",") else "interrupted"
        )
    assert plugin.runs == 1


def test_a_second_ctrl_c_kills_a_plugin_that_ignores_sigterm(http: APIServer, plugin: Misbehaving) -> None:
    # It sleeps in short intervals: Python runs the handler of a signal only after time.sleep() returns.
    plugin.does(
        "signal.signal(signal.SIGTERM, lambda *_: note('.terminated', 1)); fork()\nwhile True: time.sleep(0.02)"
    )
    # Otherwise it would be killed half a second after the first Ctrl-C.
    long_grace = "from kubeauth._exec import process\nprocess._TERM_GRACE = 600.0\n"
    with program(long_grace + textwrap.dedent(INTERRUPTED["sync"]), http, plugin) as running:
        wait_until(lambda: len(plugin.processes) == 2)
        interrupt(running)
        wait_until(lambda: Path(f"{plugin.path}.terminated").exists())

        interrupt(running)

        assert wait_for_output(running) == "interrupted False"


def test_an_interrupted_run_is_followed_by_another_without_backoff(
    http: APIServer, plugin: Misbehaving
) -> None:
    plugin.does(HANGS)
    source = """
        with kubeauth.Client(config()) as client:
            try:
                client.get("/version")
            except KeyboardInterrupt:
                report("interrupted")
            while len(open(plugin + ".does").read()) < 30:
                time.sleep(0.01)
            report(client.get("/version").status_code)
    """
    with program(source, http, plugin) as running:
        wait_until(lambda: len(plugin.processes) == 2)
        interrupt(running)
        assert running.stdout is not None
        assert running.stdout.readline() == "interrupted\n"

        plugin.does("give(token='alices-token')  # longer than 30 bytes")
        assert wait_for_output(running) == "200"
    assert plugin.runs == 2


def test_waiting_threads_run_the_plugin_again_after_ctrl_c(http: APIServer, plugin: Misbehaving) -> None:
    """The main thread led the run that all of them waited for."""
    plugin.does(
        "if not os.path.exists(here + '.again'):\n"
        "    open(here + '.again', 'w').close()\n"
        "    time.sleep(600)\n"
        "give(token='alices-token')"
    )
    source = """
        client = kubeauth.Client(config())
        statuses = []
        def request():
            wait_for_runs(1)
            statuses.append(client.get("/version").status_code)
        threads = [threading.Thread(target=request) for _ in range(4)]
        for thread in threads: thread.start()
        def report_waiting():
            source = client._kube_transport._source
            while source._call is None or len(source._call._waiters) < len(threads):
                time.sleep(0.01)
            report("all threads wait")
        threading.Thread(target=report_waiting).start()
        try:
            client.get("/version")
        except KeyboardInterrupt:
            for thread in threads: thread.join()
            report("interrupted", statuses)
    """
    with program(source, http, plugin) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "all threads wait\n"
        interrupt(running)
        assert wait_for_output(running) == "interrupted [200, 200, 200, 200]"
    assert plugin.runs == 2


REFRESHES_AHEAD = """
    open(plugin + ".does", "w").write(
        "if len(open(here + '.runs').readlines()) > 1:\\n    fork()\\n    time.sleep(600)\\n"
        f"give(token='alices-token', expirationTimestamp='{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(clock.time() + 900))}')"
    )
    client = kubeauth.Client(config(), clock=clock)
    client.get("/version")
    clock.advance(880)
    report(client.get("/version").status_code)
"""
EXITS = {
    "during a refresh ahead": REFRESHES_AHEAD + "    wait_for_runs(2)\n",
    "at the start of a refresh ahead": REFRESHES_AHEAD,
    "at the start of a refresh ahead, closed": REFRESHES_AHEAD + "    client.close()\n",
    "sys.exit during a refresh ahead": REFRESHES_AHEAD + "    wait_for_runs(2)\n    sys.exit(0)\n",
    "cancelled in asyncio": """
        async def main():
            client = kubeauth.AsyncClient(config())
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/version")
                await anyio.to_thread.run_sync(wait_for_runs, 1)
                group.cancel_scope.cancel()
            report(200)
        asyncio.run(main())
    """,
    "cancelled in trio": """
        async def main():
            client = kubeauth.AsyncClient(config())
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/version")
                await anyio.to_thread.run_sync(wait_for_runs, 1)
                group.cancel_scope.cancel()
            report(200)
        anyio.run(main, backend="trio")
    """,
    "cancelled at once": """
        async def main():
            client = kubeauth.AsyncClient(config())
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/version")
                await anyio.sleep(0)
                await anyio.sleep(0)
                group.cancel_scope.cancel()
            report(200)
        asyncio.run(main())
    """,
    "in a daemon thread": """
        client = kubeauth.Client(config())
        threading.Thread(target=client.get, args=("/version",), daemon=True).start()
        wait_for_runs(1)
        report(200)
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", EXITS)
def test_exit_while_a_plugin_runs_stops_it(case: str, http: APIServer, plugin: Misbehaving) -> None:
    plugin.does(IGNORES_SIGTERM)
    with program(EXITS[case], http, plugin) as running:
        assert wait_for_output(running) == "200"

    # A process that was just started and missed would record its pid later.
    time.sleep(0.3)


def test_no_plugin_is_started_at_interpreter_exit(http: APIServer, plugin: Misbehaving) -> None:
    """A daemon thread sends a request after kubeauth's own exit handler, which stops plugins."""
    source = """
        import atexit
        is_late = threading.Event()
        def request():
            is_late.wait()
            try:
                client.get("/version")
            except kubeauth.errors.PluginFailed:
                report("not started")
        requester = threading.Thread(target=request, daemon=True)
        @atexit.register  # before kubeauth registers its own, so that this one runs after it
        def send_late_request():
            is_late.set()
            requester.join(60)
            report(len(runs()))
        client = kubeauth.Client(config())
        requester.start()
    """
    with program(source, http, plugin) as running:
        assert wait_for_output(running).split("\n") == ["not started", "0"]


def test_a_forked_child_that_exits_leaves_the_plugin_to_its_parent(
    http: APIServer, plugin: Misbehaving
) -> None:
    """The child has a copy of the run's state, but must not stop the process of its parent."""
    plugin.gives_after_release(token="alices-token")
    source = """
        client = kubeauth.Client(config())
        statuses = []
        requester = threading.Thread(target=lambda: statuses.append(client.get("/version").status_code))
        requester.start()
        wait_for_runs(1)
        child = os.fork()
        if not child:
            sys.exit(0)
        os.waitpid(child, 0)
        open(plugin + ".go", "w").close()
        requester.join()
        report(statuses)
    """
    with program(source, http, plugin) as running:
        assert wait_for_output(running) == "[200]"
    assert plugin.runs == 1


@pytest.mark.slow
def test_plugins_work_if_sigchld_is_ignored(http: APIServer, plugin: Misbehaving) -> None:
    """Then the exit status is unknown, and only the output counts."""
    source = """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with kubeauth.Client(config(), clock=clock) as client:
            report(client.get("/version").status_code)
        for broken in ("sys.exit(1)", "time.sleep(600)", "os.kill(os.getpid(), 9)"):
            open(plugin + ".does", "w").write(broken)
            wrong = config(timeout=1.0 if "sleep" in broken else 600.0, args=(broken,))
            with kubeauth.Client(wrong, clock=clock) as client:
                try:
                    client.get("/version")
                except kubeauth.errors.PluginError as error:
                    report(type(error).__name__)
                object.__setattr__(wrong.exec.options, "timeout", 600.0)  # a slow machine must not time out
                open(plugin + ".does", "w").write("give(token='alices-token')")
                clock.advance(1.3)
                report(client.get("/version").status_code)
    """
    with program(source, http, plugin) as running:
        output = wait_for_output(running).split()
    assert output[0::2] == ["200"] * 4
    assert output[3] == "PluginTimeout"


# The closed descriptors are reused for the pipes of the plugin, or for connections.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "runtime"),
    [
        ((0,), "sync"),
        ((2,), "sync"),
        ((0, 1, 2), "sync"),
        ((1,), "asyncio"),
        ((2,), "asyncio"),
        ((1, 2), "asyncio"),
        ((0, 2), "trio"),
    ],
    ids=str,
)
def test_plugins_work_if_standard_streams_are_closed(
    closed: tuple[int, ...], runtime: str, http: APIServer, plugin: Misbehaving, tmp_path: Path
) -> None:
    """The stderr of a plugin must not be copied to a connection that has descriptor 2."""
    result = tmp_path / "result"
    verbose = "os.write(2, b'x' * 300_000); give(token='token-%d' % len(open(here + '.runs').readlines()))"
    plugin.does(verbose)
    http.tokens = {"token-1": "alice"}
    source = f"""
        async def main():
            async with kubeauth.AsyncClient(config()) as client:
                return [(await client.get("/version")).status_code for _ in range(4)]
        if {runtime!r} == "sync":
            with kubeauth.Client(config()) as client:
                statuses = [client.get("/version").status_code for _ in range(4)]
        else:
            statuses = (asyncio.run(main()) if {runtime!r} == "asyncio" else anyio.run(main, backend="trio"))
        open({str(result)!r}, "w").write(json.dumps(statuses))
    """
    http.on("GET", "/version", lambda _: rotate_token(http, plugin))
    closing = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    # A file, since a pipe that is not read could block, and the end of the output be lost.
    with (tmp_path / "stderr").open("w") as stderr:
        subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-c",
             PRELUDE + textwrap.dedent(source), http.url, str(plugin.path)],
            cwd=repository(),
            env={**os.environ, "PYTHONPATH": repository()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            timeout=60,
            check=False,
        )  # fmt: skip

    output = (tmp_path / "stderr").read_text()
    assert result.exists(), output[-3000:]
    assert result.read_text() == "[200, 200, 200, 200]"

    if 2 not in closed:
        assert output == "x" * 300_000 * plugin.runs


def rotate_token(http: APIServer, plugin: Misbehaving) -> Answer:
    """Accept another token after each response, so that the plugin runs while a connection is open."""
    http.tokens = {f"token-{plugin.runs + 1}": "alice"}
    return Answer(200, {})


def test_emfile_is_a_typed_error_and_the_next_request_succeeds(http: APIServer, plugin: Misbehaving) -> None:
    """Wherever a descriptor is needed: a typed error, and no descriptor is left open."""
    plugin.write_without_shell()
    plugin.does("give(token='alices-token')")
    source = """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with kubeauth.Client(config(), clock=clock) as first:
            first.get("/version")  # imports all modules
        outcomes = []
        for free in range(1, 12):
            with kubeauth.Client(config(args=(str(free),)), clock=clock) as client:
                before = fds() - 1
                # Only `free` numbers are left above the highest that is open.
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + free, hard))
                try:
                    outcomes.append(client.get("/version").status_code)
                except kubeauth.errors.PluginNotStarted as error:
                    assert error.errno == errno.EMFILE
                    assert "raise its limit (ulimit -n)" in str(error)
                    outcomes.append("EMFILE")
                except httpx.ConnectError as error:
                    outcomes.append("ConnectError")
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                if outcomes[-1] == "EMFILE":
                    assert fds() - 1 == before, (fds() - 1, before)
                clock.advance(1.3)
                assert client.get("/version").status_code == 200
            assert fds() - 1 == before, (fds() - 1, before)
        report(json.dumps(outcomes))
    """
    with program(source, http, plugin) as running:
        output = wait_for_output(running)
    assert '"EMFILE"' in output
    assert "200" in output
