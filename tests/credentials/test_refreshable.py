"""RefreshableSource: refresh ahead, expired credentials, failures and 401s, one call at a time."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeauth import Client, Secret, errors, load_config
from kubeauth._credentials.client_cert import read_validity
from kubeauth._credentials.credential import ClientCertificate, Credential, Unauthorized
from kubeauth._credentials.refreshable import _MAX_ORIGINS, RefreshableSource
from kubeauth._credentials.single_flight import Call
from kubeauth._exec.codec import ProviderCredential
from kubeauth._parsing.go import parse_rfc3339, to_datetime
from kubeauth.testing import APIServer, Authority, FakeClock, PluginScript
from tests.support.cases import each_case
from tests.support.observers import NullObserver
from tests.support.scripted import ScriptedPlugin


class CountingObserver(NullObserver):
    def __init__(self) -> None:
        self.refreshes: list[tuple[str, bool]] = []
        self.credentials = 0
        self.rotations = 0

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        self.rotations += 1

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        self.refreshes.append((reason, succeeded))

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        self.credentials += 1


class Harness:
    def __init__(self, *, refresh_ahead: bool = True, is_interactive: bool = False) -> None:
        self.clock = FakeClock()
        self.plugin = ScriptedPlugin(self.clock)
        self.plugin.is_interactive = is_interactive
        self.observer = CountingObserver()
        plugin: Any = self.plugin
        self.source = RefreshableSource(
            plugin, self.clock, self.observer, refresh_ahead=refresh_ahead, jitter=lambda: 0.5
        )

    def use(self, plugin: Any) -> None:
        self.source._provider = plugin

    def get(self, unauthorized: Unauthorized | None = None) -> str | None:
        authorization = self.source.get(unauthorized).authorization
        if (call := self.source._call) is not None:
            call.wait()  # a refresh ahead, which no other caller waits for
        return authorization


def test_a_credential_is_refreshed_ahead_of_its_expiry() -> None:
    harness = Harness()
    harness.plugin.next = 100.0
    assert harness.get() == "Bearer t1"

    harness.clock.advance(90)
    assert harness.get() == "Bearer t1"
    assert harness.plugin.runs == 1

    harness.clock.advance(2)
    # The call that starts the refresh returns the cached credential.
    assert harness.get() == "Bearer t1"
    assert harness.get() == "Bearer t2"
    assert harness.observer.refreshes == [("first", True), ("refresh_ahead", True)]


@pytest.mark.parametrize("options", [{"refresh_ahead": False}, {"is_interactive": True}], ids=str)
def test_no_refresh_ahead_if_disabled_or_if_it_would_prompt_the_user(options: dict[str, bool]) -> None:
    harness = Harness(**options)
    harness.plugin.next = 100.0
    harness.get()

    harness.clock.advance(100)
    assert harness.get() == "Bearer t1"

    harness.clock.advance(0.1)
    assert harness.get() == "Bearer t2"
    assert harness.observer.refreshes == [("first", True), ("expired", True)]


def test_refresh_ahead_does_not_replace_a_valid_credential_with_an_expired_one_x45() -> None:
    harness = Harness()
    harness.plugin.next = 100.0
    harness.get()
    harness.clock.advance(95)
    harness.plugin.next = -1.0

    assert harness.get() == harness.get() == "Bearer t1"
    assert harness.plugin.runs == 2
    assert harness.observer.refreshes == [("first", True), ("refresh_ahead", False)]
    assert harness.observer.credentials == 1
    assert "returned an expired credential" in str(harness.source.status().last_error)


class CachingPlugin(ScriptedPlugin):
    """Caches its token and returns it until it expires; each run takes half a second."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._cached: ProviderCredential | None = None
        self.is_stuck = False

    def fetch(self, is_cancelled: object) -> ProviderCredential:
        cached = self._cached
        if cached is None or ((cached.expires or 0.0) < self._clock.time() and not self.is_stuck):
            self._cached = super().fetch(is_cancelled)
        else:
            self.runs += 1
        self._clock.advance(0.5)
        assert self._cached is not None
        return self._cached


@each_case("seconds_left", [0.2, 0.0])
@each_case("refresh_ahead", [True, False])
def test_a_plugin_whose_cached_token_expires_during_the_run_is_run_again(
    seconds_left: float, refresh_ahead: bool
) -> None:
    harness = Harness(refresh_ahead=refresh_ahead)
    plugin = CachingPlugin(harness.clock)
    harness.use(plugin)
    plugin.next = 100.0
    assert harness.get() == "Bearer t1"

    harness.clock.advance(99.5 - seconds_left)
    # With refresh ahead the credential is still valid; without it, it has expired by the monotonic clock.
    harness.source._cached = replace(
        harness.source._cached, expires_monotonic=harness.clock.monotonic() - (not refresh_ahead)
    )
    assert harness.get() == ("Bearer t1" if refresh_ahead else "Bearer t2")
    assert harness.get() == "Bearer t2"
    assert plugin.runs == 3
    assert harness.source.status().last_error is None
    assert harness.observer.credentials == 2


def test_a_plugin_that_returns_the_same_expired_token_again_fails() -> None:
    harness = Harness()
    plugin = CachingPlugin(harness.clock)
    harness.use(plugin)
    plugin.next = 100.0
    harness.get()
    plugin.is_stuck = True
    harness.clock.advance(100)

    assert harness.get() == "Bearer t1"  # an expired credential is returned once (X45)
    with pytest.raises(errors.PluginOutputError, match="returned an expired credential"):
        harness.get()
    assert plugin.runs == 2


class SlowPlugin(ScriptedPlugin):
    """Always returns the same token, with a new expiry that is earlier than the end of the run."""

    def fetch(self, is_cancelled: object) -> ProviderCredential:
        if self.runs == 9:
            raise errors.PluginFailed("was run too often", command="slow", exit_code=1)
        credential = super().fetch(is_cancelled)
        self._clock.advance(0.5)
        return ProviderCredential(Secret("same"), None, None, credential.expires)


def test_a_token_that_is_always_expired_is_not_fetched_in_a_loop() -> None:
    harness = Harness()
    plugin = SlowPlugin(harness.clock)
    harness.use(plugin)
    plugin.next = 0.2

    for runs in 1, 2, 3:
        assert harness.get() == "Bearer same"  # an expired credential is returned once (X45)
        with pytest.raises(errors.PluginOutputError, match="returned an expired credential"):
            harness.get()
        assert plugin.runs == runs
        harness.clock.advance(60)


def test_a_run_after_a_failed_first_run_has_the_reason_first() -> None:
    harness = Harness()
    harness.plugin.next = "broken"

    with pytest.raises(errors.PluginFailed):
        harness.get()
    assert not harness.source.is_expired()

    harness.clock.advance(2)
    harness.plugin.next = None
    harness.get()
    assert harness.observer.refreshes == [("first", False), ("first", True)]


def test_setting_the_date_forward_does_not_shorten_the_backoff() -> None:
    harness = Harness()
    harness.plugin.next = 10_000.0
    harness.get()
    harness.clock.advance(9_800)
    harness.plugin.next = "broken"
    harness.get()
    assert harness.plugin.runs == 2

    harness.clock.set_date(harness.clock.time() + 50)
    for _ in range(5):
        harness.get()
    assert harness.plugin.runs == 2

    harness.clock.advance(1)
    harness.get()
    assert harness.plugin.runs == 3


def test_rate_limits_of_the_most_recent_origins_are_retained() -> None:
    harness = Harness()
    harness.get()
    for number in range(_MAX_ORIGINS):
        reject(harness, number)
    reject(harness, 5)  # has a rate limit already, so none is evicted

    reject(harness, "another")

    assert len(harness.source._rate_limits) == _MAX_ORIGINS
    assert 0 not in harness.source._rate_limits
    assert list(harness.source._rate_limits)[-2:] == [5, "another"]
    assert 1 in harness.source._rate_limits


def reject(harness: Harness, origin: Hashable) -> None:
    harness.get(Unauthorized(harness.source.current, origin))


def test_a_late_401_does_not_run_the_plugin_even_if_the_newer_token_is_equal_c14() -> None:
    harness = Harness()
    harness.plugin.fetch = lambda _is_cancelled: count_run(harness, token="same")  # type: ignore[method-assign]
    first = harness.source.get()
    assert harness.source.get(Unauthorized(first, "origin")) == first
    assert harness.source.current is not first

    harness.clock.advance(100)
    harness.source.get(Unauthorized(first, "origin"))
    assert harness.plugin.runs == 2


def test_a_new_token_with_the_same_certificate_is_not_a_rotation_m4(authority: Authority) -> None:
    harness, pairs = Harness(), [authority.client("carol"), authority.client("dave")]

    for token, pair in (("one", pairs[0]), ("two", pairs[0]), ("two", pairs[1])):
        harness.plugin.fetch = lambda _, token=token, pair=pair: count_run(  # type: ignore[method-assign, misc]
            harness, token=token, certificate=pair.certificate, key=pair.key
        )
        harness.clock.advance(100)
        harness.source.get(Unauthorized(harness.source.current, "origin"))

    assert (harness.plugin.runs, harness.observer.credentials, harness.observer.rotations) == (3, 3, 1)


def count_run(
    harness: Harness, *, token: str, certificate: bytes | None = None, key: bytes | None = None
) -> ProviderCredential:
    harness.plugin.runs += 1
    return ProviderCredential(Secret(token), certificate, None if key is None else Secret(key), None)


@pytest.mark.parametrize("next_", [None, "broken"])
def test_a_cancelled_run_that_completes_does_not_replace_the_current_one(next_: str | None) -> None:
    """Ctrl-C cancelled the caller just after its thread was started; the thread completes during another run."""
    harness = Harness()
    harness.plugin.next = next_
    current: Call[Credential] = Call()
    harness.source._call = current

    harness.source._fetch(Call())

    assert harness.source._call is current


def test_the_retained_error_has_no_traceback() -> None:
    """Its frames would reference the arguments of the plugin."""
    harness = Harness()
    harness.plugin.next = "broken"

    with pytest.raises(errors.PluginFailed):
        harness.get()

    failure = harness.source.status().last_error
    assert failure is not None
    assert failure.__traceback__ is None


def test_after_a_fork_the_child_does_not_wait_for_the_parents_run() -> None:
    """The threads that held the lock and ran the plugin do not exist in the child."""
    harness = Harness()
    harness.source._lock.acquire()
    harness.source._call = Call()

    harness.source.after_fork()

    assert harness.get() == "Bearer t1"


def test_an_internal_error_is_reported_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    secret = "-".join(("sentinel", "token"))

    def fail(_is_cancelled: object) -> Any:
        raise KeyError(secret)

    harness.plugin.fetch = fail  # type: ignore[method-assign]

    with pytest.raises(errors.PluginError, match=r"failed unexpectedly \(KeyError\)") as caught:
        harness.get()

    assert secret not in caplog.text + repr(caught.value)
    assert "test_refreshable.py" in caplog.text  # the location is logged


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_outside_the_range_of_datetime_x39(text: str) -> None:
    seconds = parse_rfc3339(text)
    assert seconds is not None
    assert to_datetime(seconds) is None


def test_waiting_for_a_completed_call_returns_at_once() -> None:
    call: Call[None] = Call()
    call.complete(None)
    call.wait()
    assert call.result() is None


def test_an_unparsable_certificate_has_no_validity() -> None:
    pem = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"
    assert read_validity(ClientCertificate(pem, Secret(b""))) is None


def test_status_reports_the_expiry_of_a_certificate_without_expiration_timestamp_m4(
    tmp_path: Path, server: APIServer, authority: Authority, clock: FakeClock
) -> None:
    """It is not refreshed ahead: only a 401 causes a refresh (X44)."""
    not_after = datetime(2031, 5, 6, tzinfo=UTC)
    pair = authority.client("carol", not_after=not_after)
    plugin = PluginScript(tmp_path)
    plugin.answer(certificate=pair.certificate, key=pair.key)
    with Client(load_config(server.kubeconfig({"exec": plugin.exec_config()})), clock=clock) as client:
        assert client.get("/version").status_code == 200
        assert client.status().expires == not_after
        assert client.status().kind == "certificate"
