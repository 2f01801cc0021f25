"""Whose fault a failed request is: the caller's environment, which the soak itself has spoiled, or ours."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Protocol

import httpx
import httpx2

from kubeauth import errors
from kubeauth._transport.redaction import iter_causes

DOWN = "server down or restarting"
CUT = "connection cut"
NO_CREDENTIAL = "plugin failed, no good credential left"
BUSY = "server answered 429 or 5xx"
OURS = "OURS"

THEIRS = (DOWN, CUT, NO_CREDENTIAL, BUSY)

_TRANSPORT = (httpx.TransportError, httpx2.TransportError)
_TIMEOUT = (httpx.TimeoutException, httpx2.TimeoutException)
# How a connection looks that ended in the middle of TLS; and how TLS in memory says that it needs more of it.
_CUT_SHORT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_NO_FAILURE = (*_CUT_SHORT, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# A connection that was cut a moment ago may not look like it yet.
_MOMENT = 0.25


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that failed: whose it was, and when, by both clocks."""

    place: int
    user: str
    what: str
    begun: float
    ended: float
    date_begun: float
    date_ended: float


class Run(Protocol):
    """A run of the plugin."""

    @property
    def outcome(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def expires(self) -> float: ...


class Facts(Protocol):
    """What the soak knows that it did."""

    def was_cut(self, place: int, begun: float, ended: float) -> bool: ...
    def was_down(self, begun: float, ended: float) -> bool: ...
    def runs(self, user: str) -> list[Run]: ...


def of_answer(status: int, asked: Asked, facts: Facts) -> str:
    """For an answer that was not wanted."""
    if facts.was_down(asked.begun, asked.ended):
        return DOWN  # it answers before it knows whom to trust
    if status == 429 or status >= 500:
        return BUSY
    return OURS


def of_error(error: BaseException, asked: Asked, facts: Facts) -> str:
    """For an exception."""
    if isinstance(error, errors.PluginFailed):
        return NO_CREDENTIAL if _had_none("fails", asked, facts) else OURS
    if isinstance(error, errors.PluginTimeout):
        return NO_CREDENTIAL if _had_none("hangs", asked, facts) else OURS
    if isinstance(error, errors.KubeAuthError) or not isinstance(error, _TRANSPORT):
        return OURS
    if any(
        isinstance(link, ssl.SSLError) and not isinstance(link, _NO_FAILURE)
        for link in iter_causes(error, None)
    ):
        return OURS
    if not isinstance(error, _TIMEOUT) and facts.was_cut(asked.place, asked.begun - _MOMENT, asked.ended):
        return CUT
    if facts.was_down(asked.begun - _MOMENT, asked.ended):
        return DOWN
    return OURS


def _had_none(outcome: str, asked: Asked, facts: Facts) -> bool:
    """Whether the plugin failed like this, and the credential before it was over.

    A run that went well and was decided before the request began is one that the request waited for, or
    found: an error of an older one is not its business.
    """
    runs = facts.runs(asked.user)
    good = [run for run in runs if run.outcome == "ok" and run.at < asked.date_begun]
    after = good[-1].at if good else 0.0
    if good and good[-1].expires > asked.date_ended:
        return False
    return any(run.outcome == outcome and after < run.at <= asked.date_ended for run in runs)
