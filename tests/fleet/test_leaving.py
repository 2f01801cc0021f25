"""Whoever leaves early, is cancelled or presses Ctrl-C leaves nothing behind: no plugin, thread or socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import kubeauth
from kubeauth import fleet
from kubeauth._config.contexts import Contexts
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._transport.base import get_source
from kubeauth.errors import CredentialError
from kubeauth.fleet import _async, _sync
from kubeauth.fleet._plan import Plan, now, options_for
from kubeauth.fleet._threads import Limits
from kubeauth.testing import APIServer, Authority
from tests.fleet.fleets import RUNTIMES, Fleet, first
from tests.fleet.test_failures import silent
from tests.support.misbehaving import Misbehaving, repository
from tests.support.raw_server import RawServer
from tests.support.residue import is_alive, no_residue, wait_until

HANGS = "time.sleep(600)"


def hanging(server: APIServer, plugin: Misbehaving, count: int = 4) -> Fleet:
    made = Fleet()
    made.add("good", server)
    stanza = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin.path),
        "interactiveMode": "Never",
    }
    for number in range(count):
        made.add(f"hangs-{number}", server, {"exec": stanza})
    return made


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_leaving_ends_the_plugin_that_is_running(runtime: str, server: APIServer, tmp_path: Path) -> None:
    plugin = Misbehaving(tmp_path)
    plugin.does(HANGS)
    document = hanging(server, plugin).document
    with no_residue():
        (answer,) = first(runtime, "/version", 1, kubeconfig=document, timeout=300.0)
        assert answer.context == "good"
    assert not any(map(is_alive, plugin.processes))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_leaving_cuts_the_connections(runtime: str, server: APIServer, authority: Authority) -> None:
    with RawServer(silent, pair=authority.server("127.0.0.1")) as quiet:
        made = Fleet()
        made.add("good", server)
        for number in range(3):
            made.add(f"quiet-{number}", quiet.url, authority=authority)
        with no_residue():
            first(runtime, "/version", 1, kubeconfig=made.document, timeout=300.0)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_plugin_that_somebody_else_waits_for_goes_on(
    runtime: str, server: APIServer, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    plugin.does(
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\ngive(token='alices-token')"
    )
    made = hanging(server, plugin, 1)
    options = kubeauth.ExecOptions()
    config = kubeauth.load_config(made.document, context="hangs-0", exec_options=options)
    with kubeauth.Client(config) as client:  # it has joined the source, and waits as soon as it asks
        first(runtime, "/version", 1, kubeconfig=made.document, exec_options=options)
        (tmp_path / "go").touch()
        assert client.get("/version").status_code == 200


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelling_leaves_nothing(backend: str, server: APIServer, tmp_path: Path) -> None:
    plugin = Misbehaving(tmp_path)
    plugin.does(HANGS)
    document = hanging(server, plugin).document

    async def cancelled() -> bool:
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_it_runs, group.cancel_scope)
            await fleet.aget("/version", kubeconfig=document, timeout=300.0)
        return group.cancel_scope.cancel_called

    async def cancel_when_it_runs(scope: anyio.CancelScope) -> None:
        while not plugin.runs:  # noqa: ASYNC110 -- it is another process
            await anyio.sleep(0.01)
        scope.cancel()

    with no_residue():
        assert anyio.run(cancelled, backend=backend)
    assert not any(map(is_alive, plugin.processes))


CODE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import functools
from kubeauth import fleet
runtime, path = sys.argv[1:]
try:
    if runtime == "sync":
        fleet.get("/version", kubeconfig=path, timeout=300.0)
    elif runtime == "asyncio":
        import asyncio
        asyncio.run(fleet.aget("/version", kubeconfig=path, timeout=300.0))
    else:
        import trio
        trio.run(functools.partial(fleet.aget, "/version", kubeconfig=path, timeout=300.0))
except* KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_ctrl_c_ends_it_and_what_it_has_started(
    runtime: str, server: APIServer, authority: Authority, tmp_path: Path
) -> None:
    plugin = Misbehaving(tmp_path)
    plugin.does(HANGS)
    with RawServer(silent, pair=authority.server("127.0.0.1")) as quiet:
        made = hanging(server, plugin)
        made.add("quiet", quiet.url, authority=authority)
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, runtime, made.write(tmp_path / "config")],
            env={**os.environ, "PYTHONPATH": repository()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: plugin.runs > 0 and len(quiet.requests) > 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("interrupted\n", "")
    wait_until(lambda: not any(map(is_alive, plugin.processes)))
    assert len(plugin.processes) == 1


def test_without_a_thread_for_the_clock_there_is_httpxs_limit(
    server: APIServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_unless_for_the_clock(thread: threading.Thread) -> None:
        if thread.name == "kubeauth-fleet-limits":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_unless_for_the_clock)
    made = Fleet()
    made.add("good", server)
    assert fleet.get("/version", kubeconfig=made.document).ok
    with RawServer(silent, pair=authority.server("127.0.0.1")) as quiet:
        made.add("quiet", quiet.url, authority=authority)
        report = fleet.get("/version", kubeconfig=made.document, contexts="quiet", timeout=0.3)
    assert report.failures == {fleet.Failure.TIMEOUT: 1}


@pytest.mark.slow
@pytest.mark.parametrize("has_threads", [True, False])
def test_a_thread_that_cannot_be_told_ends_when_it_can(
    has_threads: bool, server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, start = threading.Event(), threading.Thread.start

    def path(config: kubeauth.ClientConfig) -> str:
        if config.context == "stuck":
            may_go_on.wait(60)
        return "/version"

    def start_if_there_is_one(thread: threading.Thread) -> None:
        if thread.name == "kubeauth-fleet-last" and not has_threads:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_there_is_one)
    made = Fleet()
    made.add("good", server)
    made.add("stuck", server)
    with no_residue():
        with fleet.stream(path, kubeconfig=made.document) as answers:
            assert next(answers).context == "good"
        assert any(thread.name.startswith("kubeauth-fleet") for thread in threading.enumerate())
        may_go_on.set()
    assert [request.path for request in server.requests] == ["/version"]


class TestWithFewThreads:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process may have only so many: two more here."""
        start, left = threading.Thread.start, [2]

        def start_if_any_is_left(thread: threading.Thread) -> None:
            if thread.name.startswith("kubeauth-fleet-") and thread.name != "kubeauth-fleet-limits":
                if not left[0]:
                    raise RuntimeError("can't start new thread")
                left[0] -= 1
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_if_any_is_left)

    def test_those_there_are_do_all_the_work(self, server: APIServer) -> None:
        made = Fleet()
        for number in range(6):
            made.add(f"c{number}", server)
        assert fleet.get("/version", kubeconfig=made.document).ok
        # And now there is none.
        with no_residue(), pytest.raises(RuntimeError, match="can't start new thread"):
            fleet.get("/version", kubeconfig=made.document)


@pytest.mark.parametrize("shell", [_sync, _async])
def test_who_is_late_gets_no_plugin_started(shell: Any, server: APIServer, tmp_path: Path) -> None:
    plugin = Misbehaving(tmp_path)
    source = get_source(plugin.config(server))
    assert isinstance(source, RefreshableSource)
    logins = shell.Logins()
    if shell is _sync:
        logins.close()
    else:
        anyio.run(logins.aclose)
    with pytest.raises(CredentialError, match="the call is over"):
        logins.of(source)
    limits = Limits(TimeoutError)
    limits.close()
    with pytest.raises(TimeoutError), limits.of(None):
        raise AssertionError("it is over")
    assert plugin.runs == 0


@pytest.mark.parametrize("seconds", [None, 120.0, 5.0])
def test_a_plugin_gets_no_longer_than_a_context(seconds: float | None) -> None:
    options = options_for(seconds)
    assert options.timeout == (5.0 if seconds == 5.0 else kubeauth.ExecOptions().timeout)
    assert options.stdin_unavailable


def test_when_the_credential_took_all_the_time_nobody_is_asked(server: APIServer) -> None:
    made = Fleet()
    made.add("c", server)
    plan = Plan(
        contexts=Contexts.read(Loader(overrides=Overrides()), made.document),
        names=("c",),
        path="/version",
        headers={},
        concurrency=1,
        timeout=5.0,
        most_bytes=1,
    )
    with pytest.raises(httpx.TimeoutException, match="no whole answer within 5 s"):
        plan.left(now() - 6.0)
