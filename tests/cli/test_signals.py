"""SIGTERM and SIGHUP end a command in order: with its status, and with nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer, Watch
from tests.cli.nodes import Node
from tests.cli.programs import KUBEAUTH, PATIENT, environ, started
from tests.registry.servers import Server
from tests.support.residue import wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")

# It has a child of its own, as one that opens a browser has, and something to tidy up, of which it tells.
PLUGIN = """#!/bin/bash
trap 'echo tidying up >&2; echo plugin >> "$0.ended"; exit 1' TERM
(echo $BASHPID >> "$0.pids"; while :; do sleep 0.05; done) &
echo $$ >> "$0.pids"
wait  # a trap interrupts that at once, also on a busy machine
"""


class SlowPlugin:
    """A plugin that never answers, and its child."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "slow-plugin"
        self.path.write_text(PLUGIN)
        self.path.chmod(0o700)

    def pids(self, every: float = 0.02) -> list[int]:
        """Both, as soon as they run."""
        path = Path(f"{self.path}.pids")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if path.exists() and len(lines := path.read_text().split()) == 2:
                return list(map(int, lines))
            time.sleep(every)
        raise TimeoutError("the plugin was not started")

    def forget(self) -> None:
        """What it has written."""
        for name in ("pids", "ended"):
            Path(f"{self.path}.{name}").unlink(missing_ok=True)

    def has_tidied_up(self) -> bool:
        return Path(f"{self.path}.ended").exists()


def is_alive(pid: int) -> bool:
    """A zombie is not: whose child it is has only not asked yet."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text() if os.path.isdir("/proc/self") else True
    except FileNotFoundError:
        return False


def wait_until_dead(pids: list[int]) -> None:
    """They were sent what ends them: on a busy machine they need a moment to get there. Else they never end."""
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.fixture
def plugin(api: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowPlugin:
    slow = SlowPlugin(tmp_path)
    stanza = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(slow.path),
        "interactiveMode": "Never",
    }
    path = tmp_path / "with-plugin"
    path.write_text(json.dumps(api.kubeconfig({"exec": stanza})))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return slow


@pytest.mark.parametrize("command", [["get", "/version"], ["token"], ["whoami"], ["doctor"]])
def test_a_running_plugin_is_ended_with_all_its_group(
    plugin: SlowPlugin, command: list[str], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with started(*command, env=environ(TMPDIR=str(scratch)), program=PATIENT) as process:
        pids = plugin.pids()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == Status.TERMINATED
    assert "Traceback" not in err
    assert plugin.has_tidied_up()
    wait_until_dead(pids)
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_it_may_come_when_the_plugin_has_only_just_begun(plugin: SlowPlugin) -> None:
    """When it runs already, and whoever has started it may not know its number yet."""
    for _ in range(10):
        with started("token", program=PATIENT) as process:
            pids = plugin.pids(every=0.0005)
            process.terminate()
            process.communicate(timeout=60)
        assert process.returncode == Status.TERMINATED
        assert plugin.has_tidied_up()
        wait_until_dead(pids)
        plugin.forget()


def test_it_is_not_lost_where_nothing_can_be_raised() -> None:
    """Python drops whatever is raised in the middle of a callback of the garbage collector's."""
    program = (
        "import signal, time, weakref\n"
        "from kubeauth.cli._ends import Told, end_on_signals\n"
        "class It: pass\n"
        "it = It()\n"
        "reference = weakref.ref(it, lambda _: signal.raise_signal(signal.SIGTERM))\n"
        "end_on_signals()\n"
        "del it\n"
        "time.sleep(600)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (Status.TERMINATED, "", "")


def test_nor_if_it_comes_again_before_that_is_over() -> None:
    """On a machine that stalls, ten milliseconds may pass while a thread is started."""
    program = (
        "import signal, threading, time, weakref\n"
        "from kubeauth.cli._ends import end_on_signals\n"
        "start, early = threading.Timer.start, [1, 2, 3]\n"
        "def started(timer):\n"
        "    if early:\n"
        "        early.pop()\n"
        "        timer.function()\n"
        "    else:\n"
        "        start(timer)\n"
        "threading.Timer.start = started\n"
        "class It: pass\n"
        "it = It()\n"
        "reference = weakref.ref(it, lambda _: signal.raise_signal(signal.SIGTERM))\n"
        "end_on_signals()\n"
        "del it\n"
        "time.sleep(600)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (Status.TERMINATED, "", "")


def test_it_may_come_again_at_once(plugin: SlowPlugin) -> None:
    with started("token", program=PATIENT) as process:
        pids = plugin.pids()
        for _ in range(20):
            process.terminate()
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == Status.TERMINATED
    assert plugin.has_tidied_up()
    wait_until_dead(pids)


def test_a_terminal_that_is_closed(plugin: SlowPlugin) -> None:
    with started("token", program=PATIENT) as process:
        pids = plugin.pids()
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == Status.HUNG_UP
    wait_until_dead(pids)


def test_a_watch_ends_without_a_word(api: APIServer) -> None:
    watch = Watch()
    api.on("GET", "/slow", watch)
    with started("get", "/slow") as process:
        watch.wait_for_watchers(timeout=60)
        process.terminate()
        assert process.communicate(timeout=60) == ("", "")
    watch.end()
    assert process.returncode == Status.TERMINATED


def test_nobody_reads_what_is_being_written(api: APIServer) -> None:
    api.on("GET", "/long", Answer(body={"long": "x" * 10_000_000}))
    with started("get", "/long") as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == "{"  # and then no more: the pipe is full
        process.terminate()
        assert process.wait(timeout=60) == Status.TERMINATED


def test_what_whoever_started_it_ignores_stays_ignored(api: APIServer) -> None:
    watch = Watch()
    api.on("GET", "/slow", watch)
    script = 'trap "" HUP TERM; exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", *KUBEAUTH, "get", "/slow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watch.wait_for_watchers(timeout=60)
        process.send_signal(signal.SIGHUP)
        process.terminate()
        watch.send({"still": "there"})
        watch.end()
        assert process.communicate(timeout=60)[0]
    assert process.returncode == Status.OK


def test_the_demo(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with started("demo", "--seconds", "60", env=environ(TMPDIR=str(scratch))) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == Status.TERMINATED
    assert "Traceback" not in err
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("command", ["credentials", "manifest --plain-http"])
def test_a_running_provider_is_ended(command: str, node: Node) -> None:
    """The registry asks who it is, so that the provider is run."""
    challenge = {"WWW-Authenticate": 'Basic realm="the registry"'}
    with Server(lambda _: Answer(401, headers=challenge)) as registry:
        script = node.provider("p", registry.host)
        slow = SlowPlugin(node.bin_dir)
        script.path.write_text(slow.path.read_text())
        slow.path = script.path
        image = f"{registry.host}/app"
        with started("registry", *command.split(), image, *node.flags, program=PATIENT) as process:
            pids = slow.pids()
            process.terminate()
            assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == Status.TERMINATED
    assert slow.has_tidied_up()
    wait_until_dead(pids)
