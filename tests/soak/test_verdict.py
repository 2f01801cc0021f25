"""How the soak judges: what it excuses, and what it does not."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
import pytest

from kubeauth import errors
from kubeauth._transport.httpx import ClientCertificateError
from tests.soak.gauges import growth
from tests.soak.ledger import Ledger
from tests.soak.verdict import BUSY, CUT, DOWN, NO_CREDENTIAL, OURS, Asked, of_answer, of_error
from tests.support.cases import each_case

ASKED = Asked(3, "cert", "GET /", 100.0, 101.0, 1000.0, 1001.0)


@dataclass
class Run:
    outcome: str
    at: float
    expires: float = 0.0


@dataclass
class Facts:
    cut: tuple[int, float] | None = None
    down: tuple[float, float] | None = None
    ran: list[Any] = field(default_factory=list)

    def was_cut(self, place: int, begun: float, ended: float) -> bool:
        return self.cut is not None and self.cut[0] == place and begun <= self.cut[1] <= ended

    def was_down(self, begun: float, ended: float) -> bool:
        return self.down is not None and begun <= self.down[1] and self.down[0] <= ended

    def runs(self, user: str) -> list[Any]:
        return self.ran if user == "cert" else []


@each_case("status", [401, 403, 404, 409])
def test_an_answer_is_excused_by_a_restart_alone(status: int) -> None:
    assert of_answer(status, ASKED, Facts(cut=(3, 100.5))) == OURS
    assert of_answer(status, ASKED, Facts(down=(90.0, 99.0))) == OURS
    assert of_answer(status, ASKED, Facts(down=(90.0, 100.1))) == DOWN


def test_a_server_may_be_busy() -> None:
    assert [of_answer(status, ASKED, Facts()) for status in (429, 500, 504)] == [BUSY] * 3


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_an_error_of_the_connection_needs_a_cut_of_this_client_at_that_time(library: Any) -> None:
    error = library.ReadError("reset")
    assert of_error(error, ASKED, Facts(cut=(3, 100.5))) == CUT
    assert of_error(error, ASKED, Facts(cut=(4, 100.5))) == OURS
    assert of_error(error, ASKED, Facts(cut=(3, 99.0))) == OURS
    assert of_error(error, ASKED, Facts(cut=(3, 101.5))) == OURS
    assert of_error(error, ASKED, Facts(down=(99.0, 102.0))) == DOWN
    # Nobody who is cut off waits until time is up.
    assert of_error(library.ReadTimeout("late"), ASKED, Facts(cut=(3, 100.5))) == OURS


def _caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@each_case(
    "error",
    [
        ConnectionResetError("bare"),
        ssl.SSLError("bare"),
        RuntimeError("bare"),
        _caused_by(httpx.ConnectError("tls"), ssl.SSLError("bad record")),
        ClientCertificateError("the server refused it"),
        errors.TLSError("of any kind"),
        errors.PluginNotFound("gone", command="plugin"),
        errors.PluginOutputError("nonsense", command="plugin", reason="nonsense"),
    ],
    ids=lambda error: f"{type(error).__name__}-{error}",
)
def test_some_errors_are_never_excused(error: Exception) -> None:
    facts = Facts(cut=(3, 100.5), down=(99.0, 102.0), ran=[Run("fails", 1000.5), Run("hangs", 1000.6)])
    assert of_error(error, ASKED, facts) == OURS


def test_a_connection_that_ends_within_tls_was_cut_too() -> None:
    error = _caused_by(httpx.ConnectError("tls"), ssl.SSLEOFError("eof"))
    assert of_error(error, ASKED, Facts(cut=(3, 100.5))) == CUT


@each_case(
    ("runs", "verdict"),
    [
        ([], OURS),
        ([Run("fails", 1000.5)], NO_CREDENTIAL),
        ([Run("ok", 990.0, 995.0), Run("fails", 999.0)], NO_CREDENTIAL),
        # It failed otherwise.
        ([Run("ok", 990.0, 995.0), Run("hangs", 999.0)], OURS),
        # It failed later, or before one that went well.
        ([Run("ok", 990.0, 995.0), Run("fails", 1002.0)], OURS),
        ([Run("fails", 989.0), Run("ok", 990.0, 995.0)], OURS),
        # There was a good one left.
        ([Run("ok", 997.0, 1002.0), Run("fails", 999.0)], OURS),
        # One that came while the request waited for the error of another does not matter.
        ([Run("ok", 990.0, 995.0), Run("fails", 999.9), Run("ok", 1000.8, 1005.8)], NO_CREDENTIAL),
    ],
)
def test_an_error_of_the_plugin_needs_a_run_like_that(runs: list[Run], verdict: str) -> None:
    error = errors.PluginFailed("it failed", command="plugin", exit_code=1)
    assert of_error(error, ASKED, Facts(ran=runs)) == verdict


def test_a_plugin_that_hangs_is_another_matter() -> None:
    error = errors.PluginTimeout("it hangs", command="plugin", timeout=2.0)
    assert of_error(error, ASKED, Facts(ran=[Run("hangs", 998.0)])) == NO_CREDENTIAL
    assert of_error(error, ASKED, Facts(ran=[Run("fails", 998.0)])) == OURS


def _ledger() -> Ledger:
    ledger = Ledger(2)
    for watch in (0, 1):
        ledger.listed(watch, 10, 0.0)
    ledger.begin("a", "ADDED", 1.0)
    return ledger


def test_what_was_done_must_be_seen_by_all() -> None:
    ledger = _ledger()
    assert ledger.lost() == []  # who knows
    ledger.confirm("a", "ADDED")
    assert len(ledger.lost()) == 2
    ledger.seen(0, "a", "ADDED", 11, 2.0)
    assert ledger.lost() == ["watch 1 did not see a ADDED"]
    ledger.seen(1, "a", "ADDED", 11, 2.0)
    assert (ledger.lost(), ledger.changes) == ([], 1)


def test_what_one_has_seen_was_done() -> None:
    ledger = _ledger()
    ledger.seen(1, "a", "ADDED", 11, 2.0)
    ledger.never_mind("a", "ADDED")
    assert ledger.lost() == ["watch 0 did not see a ADDED"]


def test_nobody_loses_what_happened_before_it_had_to_list_again() -> None:
    ledger = _ledger()
    ledger.confirm("a", "ADDED")
    ledger.seen(0, "a", "ADDED", 11, 2.0)
    ledger.listed(1, 12, 3.0)
    assert ledger.lost() == []
    ledger.begin("b", "ADDED", 4.0)
    ledger.seen(0, "b", "ADDED", 13, 4.0)
    assert ledger.lost() == ["watch 1 did not see b ADDED"]


def test_an_event_that_comes_again_is_counted() -> None:
    ledger = _ledger()
    ledger.seen(0, "a", "ADDED", 11, 2.0)
    ledger.seen(0, "a", "ADDED", 11, 2.0)
    assert [watched.duplicates for watched in ledger.watches] == [1, 0]


def test_growth_is_between_the_second_fifth_and_the_last() -> None:
    steady = [float(value) for value in (*range(20), *[20] * 80)]
    assert not growth("memory", steady, share=0.1, slack=0.0).is_too_much
    assert not growth("memory", [*steady[:-1], 1000.0], share=0.1, slack=0.0).is_too_much
    leak = [20.0 + second for second in range(100)]
    assert growth("memory", leak, share=0.1, slack=8.0).is_too_much
