"""What a source makes of a plugin's answers, step by step."""

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


class Watcher(NullObserver):
    def __init__(self) -> None:
        self.renewals: list[tuple[str, bool]] = []
        self.installations = 0
        self.replaced = 0

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        self.replaced += 1

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        self.renewals.append((reason, succeeded))

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        self.installations += 1


class Bench:
    def __init__(self, *, refresh_ahead: bool = True, would_interact: bool = False) -> None:
        self.clock = FakeClock()
        self.plugin = ScriptedPlugin(self.clock)
        self.plugin.is_interactive = would_interact
        self.watcher = Watcher()
        plugin: Any = self.plugin
        self.source = RefreshableSource(
            plugin, self.clock, self.watcher, refresh_ahead=refresh_ahead, jitter=lambda: 0.5
        )

    def get(self, refused: Unauthorized | None = None) -> str | None:
        authorization = self.source.get(refused).authorization
        if (flight := self.source._call) is not None:
            flight.wait()  # a refresh ahead, which no other caller waits for
        return authorization


def test_renewed_ahead_of_its_end() -> None:
    bench = Bench()
    bench.plugin.next = 100.0
    assert bench.get() == "Bearer t1"
    bench.clock.advance(90)
    assert bench.get() == "Bearer t1"
    assert bench.plugin.runs == 1
    bench.clock.advance(2)
    # Who starts it goes on with what there is.
    assert bench.get() == "Bearer t1"
    assert bench.get() == "Bearer t2"
    assert bench.watcher.renewals == [("first", True), ("refresh_ahead", True)]


@pytest.mark.parametrize("options", [{"refresh_ahead": False}, {"would_interact": True}], ids=str)
def test_no_refresh_ahead_if_disabled_or_if_it_would_prompt_the_user(options: dict[str, bool]) -> None:
    bench = Bench(**options)
    bench.plugin.next = 100.0
    bench.get()
    bench.clock.advance(100)
    assert bench.get() == "Bearer t1"
    bench.clock.advance(0.1)
    assert bench.get() == "Bearer t2"
    assert bench.watcher.renewals == [("first", True), ("expired", True)]


def test_ahead_and_over_on_arrival_the_better_one_stays_x45() -> None:
    bench = Bench()
    bench.plugin.next = 100.0
    bench.get()
    bench.clock.advance(95)
    bench.plugin.next = -1.0
    assert bench.get() == bench.get() == "Bearer t1"
    assert bench.plugin.runs == 2
    assert bench.watcher.renewals == [("first", True), ("refresh_ahead", False)]
    assert bench.watcher.installations == 1
    assert "returned an expired credential" in str(bench.source.status().last_error)


class Keeper(ScriptedPlugin):
    """Keeps a token for itself, and gives it until its last moment; each run takes half a second."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._kept: ProviderCredential | None = None
        self.is_stuck = False

    def fetch(self, is_cancelled: object) -> ProviderCredential:
        kept = self._kept
        if kept is None or ((kept.expires or 0.0) < self._clock.time() and not self.is_stuck):
            self._kept = super().fetch(is_cancelled)
        else:
            self.runs += 1
        self._clock.advance(0.5)
        assert self._kept is not None
        return self._kept


@each_case("before_the_end", [0.2, 0.0])
@each_case("refresh_ahead", [True, False])
def test_a_kept_token_that_ends_on_the_way_is_asked_for_once_more(
    before_the_end: float, refresh_ahead: bool
) -> None:
    bench = Bench(refresh_ahead=refresh_ahead)
    plugin: Any = (keeper := Keeper(bench.clock))
    bench.source._provider = plugin
    keeper.next = 100.0
    assert bench.get() == "Bearer t1"
    bench.clock.advance(99.5 - before_the_end)
    # Before it expires, the cached one is used; otherwise it has already expired by the other clock.
    bench.source._cached = replace(
        bench.source._cached, expires_monotonic=bench.clock.monotonic() - (not refresh_ahead)
    )
    assert bench.get() == ("Bearer t1" if refresh_ahead else "Bearer t2")
    assert bench.get() == "Bearer t2"
    assert keeper.runs == 3
    assert bench.source.status().last_error is None
    assert bench.watcher.installations == 2


def test_a_kept_token_that_comes_again_after_its_end_is_a_failure() -> None:
    bench = Bench()
    plugin: Any = (keeper := Keeper(bench.clock))
    bench.source._provider = plugin
    keeper.next = 100.0
    bench.get()
    keeper.is_stuck = True
    bench.clock.advance(100)
    assert bench.get() == "Bearer t1"  # once, all the same
    with pytest.raises(errors.PluginOutputError, match="returned an expired credential"):
        bench.get()
    assert keeper.runs == 2


class Slow(ScriptedPlugin):
    """Gives one token for ever, said to be good for less time than a run takes: each has another end."""

    def fetch(self, is_cancelled: object) -> ProviderCredential:
        if self.runs == 9:
            raise errors.PluginFailed("run again and again", command="slow", exit_code=1)
        given = super().fetch(is_cancelled)
        self._clock.advance(0.5)
        return ProviderCredential(Secret("same"), None, None, given.expires)


def test_the_same_token_that_is_always_over_on_arrival_is_not_asked_for_again_and_again() -> None:
    bench = Bench()
    plugin: Any = (slow := Slow(bench.clock))
    bench.source._provider = plugin
    slow.next = 0.2
    for runs in 1, 2, 3:
        assert bench.get() == "Bearer same"  # once, all the same (X45)
        with pytest.raises(errors.PluginOutputError, match="returned an expired credential"):
            bench.get()
        assert slow.runs == runs
        bench.clock.advance(60)


def test_a_first_run_that_failed_is_still_the_first() -> None:
    bench = Bench()
    bench.plugin.next = "broken"
    with pytest.raises(errors.PluginFailed):
        bench.get()
    assert not bench.source.is_expired()
    bench.clock.advance(2)
    bench.plugin.next = None
    bench.get()
    assert bench.watcher.renewals == [("first", False), ("first", True)]


def test_the_date_set_forward_does_not_cut_a_back_off_short() -> None:
    bench = Bench()
    bench.plugin.next = 10_000.0
    bench.get()
    bench.clock.advance(9_800)
    bench.plugin.next = "broken"
    bench.get()
    assert bench.plugin.runs == 2
    bench.clock.set_date(bench.clock.time() + 50)
    for _ in range(5):
        bench.get()
    assert bench.plugin.runs == 2
    bench.clock.advance(1)
    bench.get()
    assert bench.plugin.runs == 3


def test_the_limits_of_the_latest_origins_are_kept_and_no_others() -> None:
    bench = Bench()
    bench.get()
    for number in range(_MAX_ORIGINS):
        refuse(bench, number)
    refuse(bench, 5)  # it is known already: none is evicted
    refuse(bench, "another")
    assert len(bench.source._rate_limits) == _MAX_ORIGINS
    assert 0 not in bench.source._rate_limits
    assert list(bench.source._rate_limits)[-2:] == [5, "another"]
    assert 1 in bench.source._rate_limits


def refuse(bench: Bench, origin: Hashable) -> None:
    bench.get(Unauthorized(bench.source.current, origin))


def test_a_late_401_for_an_older_one_runs_nothing_though_the_newer_says_the_same_c14() -> None:
    bench = Bench()
    bench.plugin.fetch = lambda _is_cancelled: given(bench, token="same")  # type: ignore[method-assign]
    first = bench.source.get()
    assert bench.source.get(Unauthorized(first, "origin")) == first
    assert bench.source.current is not first
    bench.clock.advance(100)
    bench.source.get(Unauthorized(first, "origin"))
    assert bench.plugin.runs == 2


def test_another_token_beside_the_same_certificate_is_no_rotation_of_it_m4(authority: Authority) -> None:
    bench, pairs = Bench(), [authority.client("carol"), authority.client("dave")]
    for token, pair in (("one", pairs[0]), ("two", pairs[0]), ("two", pairs[1])):
        bench.plugin.fetch = lambda _, token=token, pair=pair: given(  # type: ignore[method-assign, misc]
            bench, token=token, certificate=pair.certificate, key=pair.key
        )
        bench.clock.advance(100)
        bench.source.get(Unauthorized(bench.source.current, "origin"))
    assert (bench.plugin.runs, bench.watcher.installations, bench.watcher.replaced) == (3, 3, 1)


def given(
    bench: Bench, *, token: str, certificate: bytes | None = None, key: bytes | None = None
) -> ProviderCredential:
    bench.plugin.runs += 1
    return ProviderCredential(Secret(token), certificate, None if key is None else Secret(key), None)


@pytest.mark.parametrize("next_", [None, "broken"])
def test_a_run_that_was_given_up_does_not_end_the_one_after_it(next_: str | None) -> None:
    """Ctrl-C came when its thread was just started: it lands all the same, while another is under way."""
    bench = Bench()
    bench.plugin.next = next_
    another: Call[Credential] = Call()
    bench.source._call = another
    bench.source._fetch(Call())
    assert bench.source._call is another


def test_an_error_that_is_kept_keeps_no_frames() -> None:
    """They hold what the plugin was given."""
    bench = Bench()
    bench.plugin.next = "broken"
    with pytest.raises(errors.PluginFailed):
        bench.get()
    failure = bench.source.status().last_error
    assert failure is not None
    assert failure.__traceback__ is None


def test_after_a_fork_callers_do_not_wait_for_a_run_of_the_parent() -> None:
    """As the hook is called in a child: the threads that held the lock, and flew, are not there."""
    bench = Bench()
    bench.source._lock.acquire()
    bench.source._call = Call()
    bench.source.after_fork()
    assert bench.get() == "Bearer t1"


def test_an_error_of_ours_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    secret = "-".join(("sentinel", "token"))

    def ask(_is_cancelled: object) -> Any:
        raise KeyError(secret)

    bench.plugin.fetch = ask  # type: ignore[method-assign]
    with pytest.raises(errors.PluginError, match=r"failed unexpectedly \(KeyError\)") as caught:
        bench.get()
    assert secret not in caplog.text + repr(caught.value)
    assert "test_refreshable.py" in caplog.text  # but where it was


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_no_calendar_has_x39(text: str) -> None:
    seconds = parse_rfc3339(text)
    assert seconds is not None
    assert to_datetime(seconds) is None


def test_who_comes_when_a_flight_has_landed_does_not_wait() -> None:
    flight: Call[None] = Call()
    flight.complete(None)
    flight.wait()
    assert flight.result() is None


def test_the_dates_of_what_is_no_certificate_are_not_known() -> None:
    assert (
        read_validity(
            ClientCertificate(b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----", Secret(b""))
        )
        is None
    )


def test_a_certificate_without_a_timestamp_ends_when_it_says_m4(
    tmp_path: Path, server: APIServer, authority: Authority, clock: FakeClock
) -> None:
    """In what `status` says. When to renew it is for the server to say (X44)."""
    end = datetime(2031, 5, 6, tzinfo=UTC)
    pair = authority.client("carol", not_after=end)
    plugin = PluginScript(tmp_path)
    plugin.answer(certificate=pair.certificate, key=pair.key)
    with Client(load_config(server.kubeconfig({"exec": plugin.exec_config()})), clock=clock) as client:
        assert client.get("/version").status_code == 200
        assert client.status().expires == end
        assert client.status().kind == "certificate"
