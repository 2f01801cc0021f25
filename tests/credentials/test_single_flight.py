"""What a source does where there is little room: odd certificates, many servers, and signals."""

from __future__ import annotations

import base64
import linecache
import os
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from kubeauth import Secret, errors
from kubeauth._credentials.client_cert import read_validity
from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._credentials.single_flight import Call
from kubeauth._exec.codec import ProviderCredential
from kubeauth.testing import Authority, FakeClock
from tests.support.observers import NullObserver
from tests.support.scripted import ScriptedPlugin


def source_of(plugin: Any, clock: FakeClock) -> RefreshableSource:
    return RefreshableSource(plugin, clock, NullObserver(), jitter=lambda: 0.5)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def plugin(clock: FakeClock) -> ScriptedPlugin:
    return ScriptedPlugin(clock)


def test_a_certificate_that_only_openssl_takes_is_used(clock: FakeClock) -> None:
    pair = Authority().client("alice")
    der = base64.b64decode(b"".join(pair.certificate.split(b"-----")[2].split()))
    # X.509 version 2, which is never used: cryptography raises InvalidVersion, which is not a ValueError.
    der = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x01", 1)
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"

    class Odd(ScriptedPlugin):
        def fetch(self, _is_wanted: object) -> ProviderCredential:
            self.runs += 1
            return ProviderCredential(None, pem, Secret(pair.key), None)

    plugin = Odd(clock)
    identity = source_of(plugin, clock).get().client_certificate
    assert identity is not None
    assert read_validity(identity) is None
    assert plugin.runs == 1


@pytest.mark.parametrize("servers", [1, 64, 500])
def test_the_limit_of_each_server_holds_however_many_share_the_plugin(
    servers: int, plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    source = source_of(plugin, clock)
    for _ in range(3):
        for server in range(servers):
            source.get(Unauthorized(source.get(), server))
    assert plugin.runs == 1 + servers


def test_after_a_401_an_expired_credential_does_not_replace_a_valid_one(
    plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    """Another server, or the same one a moment later, may be content with the old one."""
    source = source_of(plugin, clock)
    plugin.next = 3600.0
    good = source.get()
    plugin.next = -10.0
    assert source.get(Unauthorized(good, "a")).authorization == "Bearer t2"
    assert source.get() is good
    assert isinstance(source.status().last_error, errors.PluginOutputError)


@pytest.mark.parametrize("life", [None, 36_000.0])
def test_a_renewal_that_failed_after_a_401_is_not_tried_again_ahead(
    life: float | None, plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    """One that has no end is kept until a 401, and one that has is renewed near it."""
    source = source_of(plugin, clock)
    plugin.next = life
    good = source.get()
    plugin.next = "broken"
    with pytest.raises(errors.PluginFailed):
        source.get(Unauthorized(good, "a"))
    clock.advance(100.0)
    assert source.cached_if_fresh(clock.monotonic()) is good
    assert source.get() is good
    assert plugin.runs == 2


def interrupted(source: RefreshableSource, step: int) -> bool:
    """Has Ctrl-C come at that step of a call, counted in lines of ours; False if it has no such step."""
    steps = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.endswith(
            ("_credentials/refreshable.py", "_credentials/single_flight.py")
        ):
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        # Not where a lock is taken or given back: the interpreter lets no signal in between there.
        if event == "line" and not line.startswith("with self._lock"):
            steps += 1
            if steps == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        source.get()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_at_any_moment_leaves_no_caller_waiting(clock: FakeClock) -> None:
    step = 0
    while True:
        step += 1
        plugin = ScriptedPlugin(clock)
        source = source_of(plugin, clock)
        was_interrupted = interrupted(source, step)
        with ThreadPoolExecutor(1) as pool:
            credential = pool.submit(source.get).result(timeout=60)
        assert credential.authorization
        if not was_interrupted:
            break
    assert step > 20


def interrupted_while_another_waits(clock: FakeClock, step: int) -> bool:
    """As `interrupted`; and callers that wait for that run must get a result in the end."""
    waiters: list[threading.Thread] = []
    served: list[str | None] = []

    class Awaited(ScriptedPlugin):
        def fetch(self, is_cancelled: object) -> ProviderCredential:
            if not waiters:  # another caller waits for the first run
                waiters.append(threading.Thread(target=lambda: served.append(source.get().authorization)))
                waiters[0].start()
                while not source._call or not source._call._waiters:
                    time.sleep(0.001)
            return super().fetch(is_cancelled)

    source = source_of(Awaited(clock), clock)
    was_interrupted = interrupted(source, step)
    for waiter in waiters:
        waiter.join(60)
        assert served, f"waits for ever after an interrupt at step {step}"
    return was_interrupted


def test_who_waits_for_a_run_that_is_interrupted_runs_it_again(clock: FakeClock) -> None:
    step = 1
    while interrupted_while_another_waits(clock, step):
        step += 1
    assert step > 20


def test_nor_for_what_it_has_kept_from_beginning(
    plugin: ScriptedPlugin, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others can see a flight before it is flown."""
    source, seen = source_of(plugin, clock), []
    fly = source._fetch

    def handled_first(flight: Call[Credential]) -> None:
        with pytest.raises(errors.KubeAuthError, match="signal handler") as caught:
            source.get()
        seen.append(caught.value)
        fly(flight)

    monkeypatch.setattr(source, "_fetch", handled_first)
    source.get()
    assert (len(seen), plugin.runs) == (1, 1)


def test_a_handler_that_raises_is_no_lack_of_threads(
    plugin: ScriptedPlugin, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(plugin, clock)

    def interrupted(_self: threading.Thread) -> None:
        raise RuntimeError("of a handler")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(RuntimeError, match="of a handler"):
            source._work_in_background(Call(), source._fetch)
    assert source.get().authorization  # nothing was held against the plugin


def test_a_signal_handler_does_not_wait_for_what_it_has_interrupted(clock: FakeClock) -> None:
    seen: list[BaseException] = []

    class Interrupted(ScriptedPlugin):
        def fetch(self, is_cancelled: object) -> ProviderCredential:
            try:  # as a handler would that runs in the middle of it
                source.get()
            except errors.PluginError as error:
                seen.append(error)
            return super().fetch(is_cancelled)

    source = source_of(Interrupted(clock), clock)
    assert source.get().authorization
    assert "signal handler" in str(seen[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_forked_during_a_renewal_ahead_renews_ahead_itself(
    plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    source = source_of(plugin, clock)
    plugin.next = 60.0
    good = source.get()
    clock.advance(58.0)
    plugin.may_go.clear()
    plugin.entered.clear()
    assert source.get() is good
    assert plugin.entered.wait(60)
    assert source.cached_if_fresh(clock.monotonic()) is good
    source.after_fork()  # as in a child
    assert source.cached_if_fresh(clock.monotonic()) is None
    plugin.may_go.set()


def test_ctrl_c_shows_nothing_of_what_a_plugin_is_given_or_prints(clock: FakeClock) -> None:
    """`Popen` has its arguments in its repr; what was read so far is in variables."""

    class Interrupted(ScriptedPlugin):
        def fetch(self, is_cancelled: object) -> ProviderCredential:
            popen = subprocess.Popen([sys.executable, "-c", "SENTINEL"], stderr=subprocess.DEVNULL)
            assert popen.wait() == 1
            output = b"SEN" + b"TINEL"
            raise KeyboardInterrupt if output else OSError

    with pytest.raises(KeyboardInterrupt) as caught:
        source_of(Interrupted(clock), clock).get()
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    frames = [frame for frame in told.stack if frame.name == "fetch"]
    assert len(frames) == 1
    assert not frames[0].locals
