"""When a program ends, or is told to, while a plugin runs: no plugin is left, and nobody waits for one.

And programs that are in a bad state themselves: no standard streams, no descriptors, nobody who reaps.
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

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")

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

def say(*words):
    print(*words, flush=True)

def fds():
    return len(os.listdir("/proc/self/fd"))

async def aget(path="/version"):
    async with kubeauth.AsyncClient(config(), clock=clock) as client:
        return await client.get(path)
"""

HANGS = "fork(); time.sleep(600)"
IGNORES = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Misbehaving]:
    """Nothing of it may be left at the end; what is, is ended."""
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
    """A program that uses kubeauth, while it runs."""
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


def ended(running: subprocess.Popen[str]) -> str:
    """What it has printed when it has ended well."""
    said, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    return said.strip()


def interrupt(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)


INTERRUPTED = {
    "sync": """
        client = kubeauth.Client(config())
        try:
            client.get("/version")
        except KeyboardInterrupt:
            say("interrupted", os.path.exists(f"/proc/{runs()[0]}"))
    """,
    "sync, closed": """
        try:
            with kubeauth.Client(config()) as client:
                client.get("/version")
        except KeyboardInterrupt:
            say("interrupted", os.path.exists(f"/proc/{runs()[0]}"))
    """,
    "asyncio": """
        try:
            asyncio.run(aget())
        except KeyboardInterrupt:
            say("interrupted")
    """,
    "asyncio, not closed": """
        client = kubeauth.AsyncClient(config())
        try:
            asyncio.run(client.get("/version"))
        except KeyboardInterrupt:
            say("interrupted")
    """,
    "trio": """
        try:
            anyio.run(aget, backend="trio")
        except KeyboardInterrupt:
            say("interrupted")
    """,
    "trio, not closed": """
        client = kubeauth.AsyncClient(config())
        try:
            anyio.run(client.get, "/version", backend="trio")
        except KeyboardInterrupt:
            say("interrupted")
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", INTERRUPTED)
def test_ctrl_c(way: str, http: APIServer, plugin: Misbehaving) -> None:
    plugin.does(IGNORES if "closed" in way else HANGS)
    with program(INTERRUPTED[way], http, plugin) as running:
        wait_until(lambda: len(plugin.processes) == 2)
        interrupt(running)
        # Where it ran the plugin itself, that is gone by then.
        assert ended(running) == ("interrupted False" if "sync" in way.split(",") else "interrupted")
    assert plugin.runs == 1


def test_ctrl_c_twice(http: APIServer, plugin: Misbehaving) -> None:
    """By who did not want to wait for a plugin that takes its time to end."""
    # A signal that comes just before it sleeps is heard after it.
    plugin.does(
        "signal.signal(signal.SIGTERM, lambda *_: note('.told', 1)); fork()\nwhile True: time.sleep(0.02)"
    )
    # It would be ended without the second in half a second: here it is not.
    patient = "from kubeauth._exec import process\nprocess._TERM_GRACE = 600.0\n"
    with program(patient + textwrap.dedent(INTERRUPTED["sync"]), http, plugin) as running:
        wait_until(lambda: len(plugin.processes) == 2)
        interrupt(running)
        wait_until(lambda: Path(f"{plugin.path}.told").exists())
        interrupt(running)
        assert ended(running) == "interrupted False"


def test_ctrl_c_and_then_it_is_asked_again(http: APIServer, plugin: Misbehaving) -> None:
    """An interrupted run is no failure: whoever asks next is not told to wait."""
    plugin.does(HANGS)
    source = """
        with kubeauth.Client(config()) as client:
            try:
                client.get("/version")
            except KeyboardInterrupt:
                say("interrupted")
            while len(open(plugin + ".does").read()) < 30:
                time.sleep(0.01)
            say(client.get("/version").status_code)
    """
    with program(source, http, plugin) as running:
        wait_until(lambda: len(plugin.processes) == 2)
        interrupt(running)
        assert running.stdout is not None
        assert running.stdout.readline() == "interrupted\n"
        plugin.does("give(token='alices-token') # and no more than that")
        assert ended(running) == "200"
    assert plugin.runs == 2


def test_ctrl_c_while_others_wait(http: APIServer, plugin: Misbehaving) -> None:
    """The main thread ran it for all; the others run it anew."""
    plugin.does(
        "if not os.path.exists(here + '.again'):\n"
        "    open(here + '.again', 'w').close()\n"
        "    time.sleep(600)\n"
        "give(token='alices-token')"
    )
    source = """
        client = kubeauth.Client(config())
        found = []
        def ask():
            wait_for_runs(1)
            found.append(client.get("/version").status_code)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads: thread.start()
        try:
            client.get("/version")
        except KeyboardInterrupt:
            for thread in threads: thread.join()
            say("interrupted", found)
    """
    with program(source, http, plugin) as running:
        wait_until(lambda: Path(f"{plugin.path}.again").exists())
        time.sleep(0.2)
        interrupt(running)
        assert ended(running) == "interrupted [200, 200, 200, 200]"
    assert plugin.runs == 2


AHEAD = """
    open(plugin + ".does", "w").write(
        "if len(open(here + '.runs').readlines()) > 1:\\n    fork()\\n    time.sleep(600)\\n"
        f"give(token='alices-token', expirationTimestamp='{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(clock.time() + 900))}')"
    )
    client = kubeauth.Client(config(), clock=clock)
    client.get("/version")
    clock.advance(880)
    say(client.get("/version").status_code)
"""
EXITS = {
    "renewing ahead": AHEAD + "    wait_for_runs(2)\n",
    "about to renew ahead": AHEAD,
    "about to renew ahead, closed": AHEAD + "    client.close()\n",
    "by sys.exit in the middle of it": AHEAD + "    wait_for_runs(2)\n    sys.exit(0)\n",
    "abandoned by asyncio": """
        async def main():
            client = kubeauth.AsyncClient(config())
            with anyio.move_on_after(0.5):
                await client.get("/version")
            say(200)
        asyncio.run(main())
    """,
    "abandoned by trio": """
        async def main():
            client = kubeauth.AsyncClient(config())
            with anyio.move_on_after(0.5):
                await client.get("/version")
            say(200)
        anyio.run(main, backend="trio")
    """,
    "abandoned at once": """
        async def main():
            client = kubeauth.AsyncClient(config())
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/version")
                await anyio.sleep(0)
                await anyio.sleep(0)
                group.cancel_scope.cancel()
            say(200)
        asyncio.run(main())
    """,
    "in a daemon thread": """
        client = kubeauth.Client(config())
        threading.Thread(target=client.get, args=("/version",), daemon=True).start()
        wait_for_runs(1)
        say(200)
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", EXITS)
def test_exit_while_a_plugin_runs(way: str, http: APIServer, plugin: Misbehaving) -> None:
    plugin.does(IGNORES)
    with program(EXITS[way], http, plugin) as running:
        assert ended(running) == "200"
    # One that was only just started shows itself a moment later.
    time.sleep(0.3)


def test_what_is_asked_for_when_all_is_over_is_not_started(http: APIServer, plugin: Misbehaving) -> None:
    """By a thread that still runs when nobody is left to end a plugin."""
    source = """
        import atexit
        late = threading.Event()
        def ask():
            late.wait()
            try:
                client.get("/version")
            except kubeauth.errors.PluginFailed:
                say("not started")
        asks = threading.Thread(target=ask, daemon=True)
        @atexit.register  # before kubeauth does, so that this comes after it
        def at_last():
            late.set()
            asks.join(60)
            say(len(runs()))
        client = kubeauth.Client(config())
        asks.start()
    """
    with program(source, http, plugin) as running:
        assert ended(running).split("\n") == ["not started", "0"]


def test_a_forked_child_that_exits_leaves_the_plugin_to_its_parent(
    http: APIServer, plugin: Misbehaving
) -> None:
    """At its exit it knows of a run, but that is not its own."""
    plugin.does("while not os.path.exists(here + '.go'): time.sleep(0.01)\ngive(token='alices-token')")
    source = """
        client = kubeauth.Client(config())
        found = []
        asks = threading.Thread(target=lambda: found.append(client.get("/version").status_code))
        asks.start()
        wait_for_runs(1)
        child = os.fork()
        if not child:
            sys.exit(0)
        os.waitpid(child, 0)
        open(plugin + ".go", "w").close()
        asks.join()
        say(found)
    """
    with program(source, http, plugin) as running:
        assert ended(running) == "[200]"
    assert plugin.runs == 1


@pytest.mark.slow
def test_sigchld_is_ignored(http: APIServer, plugin: Misbehaving) -> None:
    """Then nobody can know how a program ended; but what it printed says enough."""
    source = """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with kubeauth.Client(config(), clock=clock) as client:
            say(client.get("/version").status_code)
        for broken in ("sys.exit(1)", "time.sleep(600)", "os.kill(os.getpid(), 9)"):
            open(plugin + ".does", "w").write(broken)
            wrong = config(timeout=1.0 if "sleep" in broken else 600.0, args=(broken,))
            with kubeauth.Client(wrong, clock=clock) as client:
                try:
                    client.get("/version")
                except kubeauth.errors.PluginError as error:
                    say(type(error).__name__)
                object.__setattr__(wrong.exec.options, "timeout", 600.0)  # what works now may be slow
                open(plugin + ".does", "w").write("give(token='alices-token')")
                clock.advance(1.3)
                say(client.get("/version").status_code)
    """
    with program(source, http, plugin) as running:
        said = ended(running).split()
    assert said[0::2] == ["200"] * 4
    assert said[3] == "PluginTimeout"


# In an order in which the numbers are given away again: to the plugin's pipes, or to connections.
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
def test_standard_streams_are_closed(
    closed: tuple[int, ...], runtime: str, http: APIServer, plugin: Misbehaving, tmp_path: Path
) -> None:
    """What a plugin says on its stderr must not reach whoever has that number now."""
    answer = tmp_path / "answer"
    chatty = "os.write(2, b'x' * 300_000); give(token='token-%d' % len(open(here + '.runs').readlines()))"
    plugin.does(chatty)
    http.tokens = {"token-1": "alice"}
    source = f"""
        async def main():
            async with kubeauth.AsyncClient(config()) as client:
                return [(await client.get("/version")).status_code for _ in range(4)]
        if {runtime!r} == "sync":
            with kubeauth.Client(config()) as client:
                found = [client.get("/version").status_code for _ in range(4)]
        else:
            found = (asyncio.run(main()) if {runtime!r} == "asyncio" else anyio.run(main, backend="trio"))
        open({str(answer)!r}, "w").write(json.dumps(found))
    """
    http.on("GET", "/version", lambda _: answers(http, plugin))
    closing = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    # A file takes it at once. Of what a pipe does not take, because nobody reads from it, the end may be lost.
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
    said = (tmp_path / "stderr").read_text()
    assert answer.exists(), said[-3000:]
    assert answer.read_text() == "[200, 200, 200, 200]"
    if 2 not in closed:
        assert said == "x" * 300_000 * plugin.runs


def answers(http: APIServer, plugin: Misbehaving) -> Answer:
    """After each answer the token is another, so that the plugin runs while a connection is open."""
    http.tokens = {f"token-{plugin.runs + 1}": "alice"}
    return Answer(200, {})


def test_no_more_descriptors(http: APIServer, plugin: Misbehaving) -> None:
    """At every place where one is needed: a typed error, nothing kept, and then it works."""
    source = """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with kubeauth.Client(config(), clock=clock) as warm:
            warm.get("/version")  # imports what it needs
        seen = []
        for room in range(1, 12):
            with kubeauth.Client(config(args=(str(room),)), clock=clock) as client:
                before = fds() - 1
                # The highest number that is taken says where the next ones are.
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + room, hard))
                try:
                    seen.append(client.get("/version").status_code)
                except kubeauth.errors.PluginNotStarted as error:
                    assert error.errno == errno.EMFILE
                    assert "raise its limit (ulimit -n)" in str(error)
                    seen.append("EMFILE")
                except httpx.ConnectError as error:
                    seen.append("ConnectError")
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                if seen[-1] == "EMFILE":
                    assert fds() - 1 == before, (fds() - 1, before)
                clock.advance(1.3)
                assert client.get("/version").status_code == 200
            assert fds() - 1 == before, (fds() - 1, before)
        say(json.dumps(seen))
    """
    with program(source, http, plugin) as running:
        said = ended(running)
    assert '"EMFILE"' in said
    assert "200" in said
