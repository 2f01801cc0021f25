"""Concurrent and interrupted calls of RefreshableSource: signals, forks, many origins, failed refreshes."""

from __future__ import annotations

import base64
import linecache
import os
import subprocess
import sys
import threading
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
from tests.support.residue import wait_until
from tests.support.scripted import ScriptedPlugin


def new_source(plugin: Any, clock: FakeClock) -> RefreshableSource:
    return RefreshableSource(plugin, clock, NullObserver(), jitter=lambda: 0.5)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def plugin(clock: FakeClock) -> ScriptedPlugin:
    return ScriptedPlugin(clock)


def test_a_certificate_that_only_openssl_can_parse_is_used(clock: FakeClock) -> None:
    pair = Authority().client("alice")
    der = base64.b64decode(b"".join(pair.certificate.split(b"-----")[2].split()))
    # X.509 version 2, which is never used: cryptography raises InvalidVersion, which is not a ValueError.
    der = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x01", 1)
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"

    class CertificatePlugin(ScriptedPlugin):
        def fetch(self, _is_cancelled: object) -> ProviderCredential:
            self.runs += 1
            return ProviderCredential(None, pem, Secret(pair.key), None)

    plugin = CertificatePlugin(clock)

    certificate = new_source(plugin, clock).get().client_certificate

    assert certificate is not None
    assert read_validity(certificate) is None
    assert plugin.runs == 1


@pytest.mark.parametrize("servers", [1, 64, 500])
def test_each_origin_has_its_own_rate_limit(servers: int, plugin: ScriptedPlugin, clock: FakeClock) -> None:
    source = new_source(plugin, clock)
    for _ in range(3):
        for server in range(servers):
            source.get(Unauthorized(source.get(), server))
    assert plugin.runs == 1 + servers


def test_after_a_401_an_expired_credential_does_not_replace_a_valid_one(
    plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    """Another server, or the same one later, may still accept the old one."""
    source = new_source(plugin, clock)
    plugin.next = 3600.0
    cached = source.get()
    plugin.next = -10.0

    assert source.get(Unauthorized(cached, "a")).authorization == "Bearer t2"
    assert source.get() is cached
    assert isinstance(source.status().last_error, errors.PluginOutputError)


@pytest.mark.parametrize("lifetime", [None, 36_000.0])
def test_a_refresh_that_failed_after_a_401_is_not_retried_ahead_of_expiry(
    lifetime: float | None, plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    source = new_source(plugin, clock)
    plugin.next = lifetime
    cached = source.get()
    plugin.next = "broken"

    with pytest.raises(errors.PluginFailed):
        source.get(Unauthorized(cached, "a"))

    clock.advance(100.0)
    assert source.cached_if_fresh(clock.monotonic()) is cached
    assert source.get() is cached
    assert plugin.runs == 2


def interrupt_get(source: RefreshableSource, step: int) -> bool:
    """Call `source.get()` and raise KeyboardInterrupt before its line number `step`; False if it has fewer lines."""
    steps = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.endswith(
            ("_credentials/refreshable.py", "_credentials/single_flight.py")
        ):
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        # Not where a lock is acquired or released: the interpreter handles no signals there.
        if event == "line" and not line.startswith("with self._lock"):
            steps += 1
            if steps == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    previous_trace = sys.gettrace()
    sys.settrace(trace)
    try:
        source.get()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(previous_trace)
    return False


def test_an_interrupt_at_any_line_does_not_block_the_next_caller(clock: FakeClock) -> None:
    step = 0
    while True:
        step += 1
        plugin = ScriptedPlugin(clock)
        source = new_source(plugin, clock)
        was_interrupted = interrupt_get(source, step)
        with ThreadPoolExecutor(1) as pool:
            credential = pool.submit(source.get).result(timeout=60)
        assert credential.authorization
        if not was_interrupted:
            break
    assert step > 20


def interrupt_get_with_a_waiter(clock: FakeClock, step: int) -> bool:
    """As `interrupt_get`, while another thread waits for the same run; that thread must get a credential."""
    waiters: list[threading.Thread] = []
    results: list[str | None] = []

    class AwaitedPlugin(ScriptedPlugin):
        def fetch(self, is_cancelled: object) -> ProviderCredential:
            if not waiters:
                waiters.append(threading.Thread(target=lambda: results.append(source.get().authorization)))
                waiters[0].start()
                wait_until(lambda: source._call is not None and bool(source._call._waiters))
            return super().fetch(is_cancelled)

    source = new_source(AwaitedPlugin(clock), clock)
    was_interrupted = interrupt_get(source, step)
    for waiter in waiters:
        waiter.join(60)
        assert results, f"the waiter got no credential after an interrupt at line {step}"
    return was_interrupted


def test_a_waiter_of_an_interrupted_run_runs_the_plugin_again(clock: FakeClock) -> None:
    step = 1
    while interrupt_get_with_a_waiter(clock, step):
        step += 1
    assert step > 20


def test_a_signal_handler_does_not_wait_for_a_run_that_has_not_started(
    plugin: ScriptedPlugin, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is visible to other callers before its leader runs the plugin."""
    source, seen = new_source(plugin, clock), []
    fetch = source._fetch

    def handle_signal_first(call: Call[Credential]) -> None:
        with pytest.raises(errors.KubeAuthError, match="signal handler") as caught:
            source.get()
        seen.append(caught.value)
        fetch(call)

    monkeypatch.setattr(source, "_fetch", handle_signal_first)

    source.get()

    assert (len(seen), plugin.runs) == (1, 1)


def test_an_error_of_a_signal_handler_is_not_reported_as_a_lack_of_threads(
    plugin: ScriptedPlugin, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = new_source(plugin, clock)

    def raise_in_handler(_self: threading.Thread) -> None:
        raise RuntimeError("in a signal handler")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", raise_in_handler)
        with pytest.raises(RuntimeError, match="in a signal handler"):
            source._work_in_background(Call(), source._fetch)

    assert source.get().authorization  # it does not count as a failure of the plugin


def test_a_signal_handler_does_not_wait_for_the_run_it_interrupted(clock: FakeClock) -> None:
    seen: list[BaseException] = []

    class InterruptedPlugin(ScriptedPlugin):
        def fetch(self, is_cancelled: object) -> ProviderCredential:
            try:  # as a signal handler that runs in this thread
                source.get()
            except errors.PluginError as error:
                seen.append(error)
            return super().fetch(is_cancelled)

    source = new_source(InterruptedPlugin(clock), clock)

    assert source.get().authorization
    assert "signal handler" in str(seen[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_forked_during_a_refresh_ahead_refreshes_ahead_itself(
    plugin: ScriptedPlugin, clock: FakeClock
) -> None:
    source = new_source(plugin, clock)
    plugin.next = 60.0
    cached = source.get()
    clock.advance(58.0)
    plugin.may_go.clear()
    plugin.entered.clear()
    assert source.get() is cached
    assert plugin.entered.wait(60)
    assert source.cached_if_fresh(clock.monotonic()) is cached

    source.after_fork()  # as in a child

    assert source.cached_if_fresh(clock.monotonic()) is None
    plugin.may_go.set()


def test_the_traceback_of_ctrl_c_has_no_arguments_or_output_of_the_plugin(clock: FakeClock) -> None:
    """The repr of Popen has the arguments, and local variables have the output read so far."""

    class InterruptedPlugin(ScriptedPlugin):
        def fetch(self, is_cancelled: object) -> ProviderCredential:
            popen = subprocess.Popen([sys.executable, "-c", "SENTINEL"], stderr=subprocess.DEVNULL)
            assert popen.wait() == 1
            output = b"SEN" + b"TINEL"
            raise KeyboardInterrupt if output else OSError

    with pytest.raises(KeyboardInterrupt) as caught:
        new_source(InterruptedPlugin(clock), clock).get()

    report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    frames = [frame for frame in report.stack if frame.name == "fetch"]
    assert len(frames) == 1
    assert not frames[0].locals
