"""A provider never outlives who needs it, and nothing of what it is told or says is left anywhere (3.6, 3.7, 3.13)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth import Secret
from kubeauth._exec.process import ProcessResult, Program, run
from kubeauth._runtime import SYSTEM_CLOCK
from kubeauth.errors import ProviderError
from kubeauth.registry import CredentialProviders, _provider
from kubeauth.registry._load import load_provider_config
from kubeauth.registry._provider import AskedProvider
from kubeauth.registry._service_account import Account, ServiceAccount
from tests.registry.providers import (
    IMAGE,
    HeldProvider,
    Watching,
    config_of,
    entry_of,
    providers_of,
    says,
    script_of,
)
from tests.support.leaks import SENTINEL, assert_no_leak, render_error
from tests.support.residue import is_alive, no_residue, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these providers are for POSIX")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldProvider]:
    held = HeldProvider(tmp_path)
    with no_residue():
        yield held
    wait_until(lambda: not any(map(is_alive, held.processes)))


def provider_of(path: Path, observer: Watching | None = None, timeout: float = 60.0) -> AskedProvider:
    config = load_provider_config(config_of(path.parent, entry_of(path.name)))
    (provider,) = config.providers
    return AskedProvider(
        provider,
        str(path),
        environ=None,
        clock=SYSTEM_CLOCK,
        observer=observer or Watching(),
        timeout=timeout,
    )


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """3.6, 3.7: a grandchild that holds stdout does not keep us. 6.1: counted as an error."""
    path = script_of(
        tmp_path / "provider",
        """
child = subprocess.Popen(["sleep", "300"])
with open(__file__ + ".child", "w") as file:
    print(child.pid, file=file)
print("waiting for the metadata server", file=sys.stderr, flush=True)
time.sleep(300)
""",
    )
    for seconds in (1, 5, 25):  # on a busy machine it may be ended before it has come to the point
        watching = Watching()
        with no_residue(), pytest.raises(ProviderError) as caught:
            provider_of(path, watching, timeout=float(seconds)).get(IMAGE, None)
        failure = caught.value
        assert (failure.reason, failure.exit_code) == ("timeout", None)
        assert f"timed out after {seconds} seconds" in str(failure)
        assert watching.ran == [("provider", True)]
        if failure.stderr_tail:
            break
    assert failure.stderr_tail == "waiting for the metadata server"
    child = int(Path(f"{path}.child").read_text())
    wait_until(lambda: not is_alive(child))


def test_each_run_has_sixty_seconds_3_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kubelet has it, where nobody says otherwise."""
    given: list[float | None] = []

    def noted(program: Program[Any], **options: Any) -> ProcessResult:
        given.append(options["timeout"])
        return run(program, **options)

    monkeypatch.setattr(_provider, "run", noted)
    path = script_of(tmp_path / "provider", f"print({says()!r})")
    with CredentialProviders(config_of(tmp_path, entry_of(path.name)), tmp_path) as providers:
        assert len(providers.credentials(IMAGE)) == 1
    assert given == [60.0]


def test_a_grandchild_that_holds_stdout_after_a_good_end_is_no_failure(tmp_path: Path) -> None:
    path = script_of(tmp_path / "provider", f"subprocess.Popen(['sleep', '3']); print({says()!r})")
    assert len(provider_of(path).get(IMAGE, None).credentials) == 1


def test_close_ends_what_runs_and_tells_who_waits(held: HeldProvider) -> None:
    providers = providers_of(held)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(providers.lookup(IMAGE))) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(held.processes) == 1)
    providers.close()
    for thread in threads:
        thread.join()
    assert not is_alive(held.processes[0])
    assert {failure.reason for each in found for failure in each.failures} == {"closed"}
    assert len(held.processes) == 1


def test_close_keeps_those_from_running_whose_turn_has_not_come(
    held: HeldProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6.1: none of them is a failure of the provider, or a program that shuts down would raise an alarm."""
    monkeypatch.setattr(_provider, "MOST_AT_ONCE", 1)
    watching = Watching()
    providers = providers_of(held, observer=watching)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda name=name: found.append(providers.lookup(f"test.registry.io/{name}")))
        for name in "abc"
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(held.processes) == 1 and len(providers._providers[0]._calls) == 3)
    providers.close()
    for thread in threads:
        thread.join()
    assert [failure.reason for each in found for failure in each.failures] == ["closed"] * 3
    assert len(held.processes) == 1
    assert watching.ran == []


def test_aclose_does_not_hold_up_the_loop(held: HeldProvider) -> None:
    async def main() -> None:
        providers = providers_of(held)
        task = asyncio.create_task(providers.alookup(IMAGE))
        await asyncio.to_thread(wait_until, lambda: len(held.processes) == 1)
        await providers.aclose()
        assert [failure.reason for failure in (await task).failures] == ["closed"]

    asyncio.run(main())


_EXITS = """
import asyncio, os, sys
from kubeauth.registry._providers import CredentialProviders
providers = CredentialProviders(sys.argv[1], sys.argv[2])

async def main():
    task = asyncio.create_task(providers.alookup("test.registry.io/x"))
    while not (os.path.exists(sys.argv[3]) and os.path.getsize(sys.argv[3])):
        await asyncio.sleep(0.05)
    task.cancel()

asyncio.run(main())
print("over")
"""


def test_a_program_that_exits_leaves_no_provider_behind(held: HeldProvider) -> None:
    config = config_of(held.path.parent, entry_of("provider"))
    command = [sys.executable, "-c", _EXITS, str(config), str(held.path.parent), f"{held.path}.runs"]
    run_ = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run_.stdout == "over\n"
    wait_until(lambda: bool(held.processes) and not any(map(is_alive, held.processes)))


def test_a_child_asks_for_itself_and_leaves_the_run_of_its_parent_alone(held: HeldProvider) -> None:
    """The parent's run is held by a thread that the child does not have."""
    config = config_of(held.path.parent, entry_of("provider"))
    code = """
    import os, sys, threading, time
    from kubeauth.registry._providers import CredentialProviders
    here = sys.argv[2] + "/provider"
    providers = CredentialProviders(sys.argv[1], sys.argv[2])
    def runs():
        try:
            return len(open(here + ".runs").readlines())
        except FileNotFoundError:
            return 0
    found = []
    thread = threading.Thread(target=lambda: found.append(providers.lookup("test.registry.io/x")))
    thread.start()
    while runs() < 1:
        time.sleep(0.01)
    child = os.fork()
    if not child:
        open(here + ".go", "w").close()
        answer = providers.lookup("test.registry.io/x")
        providers.close()
        os._exit(len(answer.credentials))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    thread.join()
    print(status, len(found[0].credentials), runs())
    """
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        textwrap.dedent(code),
        str(config),
        str(held.path.parent),
    ]
    run_ = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run_.stdout, run_.stderr) == ("1 1 2\n", "")


def test_in_a_child_nothing_is_under_way_and_what_is_kept_is_there(held: HeldProvider) -> None:
    """As it is after a fork, without one: the lock is held, and so is the room for runs."""
    held.let_go()
    provider = provider_of(held.path)
    provider.get("test.registry.io/kept", None)
    with provider._mu, provider._room:
        provider.after_fork()
        assert provider.get("test.registry.io/kept", None).from_cache
        assert (provider._calls, provider._children) == ({}, set())


def test_who_is_forked_meanwhile_does_not_keep_its_stdin_open(tmp_path: Path) -> None:
    """A program that reads to the end would wait for that process to end."""
    path = script_of(
        tmp_path / "reads",
        """
open(__file__ + ".runs", "w").close()
while not os.path.exists(__file__ + ".go"):
    time.sleep(0.01)
print(len(sys.stdin.buffer.read()))
""",
    )
    program = Program(str(path), [str(path)], dict(os.environ), b"x" * 500_000)
    ended: list[ProcessResult] = []
    thread = threading.Thread(
        target=lambda: ended.append(
            run(program, interactive=False, timeout=60, children=set(), is_cancelled=lambda: False)
        )
    )
    with no_residue():
        thread.start()
        wait_until(lambda: Path(f"{path}.runs").exists())
        child = os.fork()
        if not child:
            time.sleep(300)
            os._exit(0)
        Path(f"{path}.go").touch()
        thread.join()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert [(each.exit_code, each.stdout, each.killed) for each in ended] == [(0, b"500000\n", "")]


def test_ctrl_c_ends_it_and_whoever_waits_runs_it_again(held: HeldProvider) -> None:
    providers = providers_of(held)
    found: list[Any] = []
    caught: list[BaseException] = []

    def interrupt() -> None:
        wait_until(lambda: len(held.processes) == 1)
        waits = threading.Thread(target=lambda: found.append(providers.lookup(IMAGE)))
        waits.start()
        (flight,) = providers._providers[0]._calls.values()
        wait_until(lambda: len(flight._waiters) == 1)
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: len(held.processes) == 2)
        held.let_go()
        waits.join()

    helper = threading.Thread(target=interrupt)
    helper.start()
    try:
        providers.lookup(IMAGE)
    except KeyboardInterrupt as error:
        caught.append(error)
    helper.join()
    assert len(caught) == 1
    assert len(found[0].credentials) == 1
    assert not is_alive(held.processes[0])


ACCOUNT = Account(ServiceAccount("ns", "robot", "uid"), (), Secret(SENTINEL), "ServiceAccount")
LOUD = {
    "bad JSON": f"print('{SENTINEL}')",
    "unknown field": f"print({says({'a.io': {'password': SENTINEL, 'email': SENTINEL}})!r})",
    "wrong version": f"print({says(apiVersion=SENTINEL)!r})",
    "key type": f"print({says(cacheKeyType=SENTINEL)!r})",
    "duration": f"print({says(cacheDuration=SENTINEL)!r})",
    "echo": f"print({says({'a.io': {'username': 'u', 'password': SENTINEL}})!r})",
    "exit": f"print('{SENTINEL}'); sys.exit(1)",
    "timeout": f"print('{SENTINEL}', flush=True); time.sleep(100)",
    "too much": f"print('{SENTINEL}' * 300_000)",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", LOUD.values(), ids=LOUD)
def test_neither_what_it_is_told_nor_what_it_says_is_in_an_error(
    body: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = script_of(tmp_path / "provider", body)
    with pytest.raises(ProviderError) as caught:
        provider_of(path, timeout=2.0).get(IMAGE, ACCOUNT)
    assert_no_leak(caught.value, caplog)


def test_nor_is_it_in_what_a_person_sees_who_presses_ctrl_c(held: HeldProvider) -> None:
    held.says(SENTINEL)
    provider = provider_of(held.path)

    def interrupt() -> None:
        wait_until(lambda: len(held.processes) == 1)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        provider.get(IMAGE, ACCOUNT)
    helper.join()
    seen = render_error(caught.value)
    assert SENTINEL not in seen


def test_a_fault_of_ours_is_an_error_that_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Watching):
        def on_provider_run(self, **_: object) -> None:
            raise ZeroDivisionError(SENTINEL)

    path = script_of(tmp_path / "provider", f"print({says()!r})")
    provider = provider_of(path, Broken())
    with pytest.raises(ProviderError, match="failed unexpectedly") as caught:
        provider.get(IMAGE, ACCOUNT)
    assert caught.value.reason == "internal"
    assert "unexpected ZeroDivisionError in:" in caplog.text
    assert_no_leak(caught.value, caplog)


def test_where_no_thread_can_be_started_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = script_of(tmp_path / "provider", f"print({says()!r})")
    provider = provider_of(path)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(ProviderError, match="cannot start a thread for provider provider"):
            asyncio.run(provider.aget(IMAGE, None))
    assert len(provider.get(IMAGE, None).credentials) == 1
