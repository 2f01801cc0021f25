"""What plugins and their credentials are doing, for Prometheus: client-go's metrics by their names, and ours.

    import kubeauth

    kubeauth.metrics.register()     # with prometheus_client's own registry, or with the one you give

Counting goes on whether anybody looks or not, in plain numbers. Nothing is registered before you ask for it,
and prometheus_client is not imported before then either.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.registry import Collector as _PrometheusCollector
else:
    # A registry looks at no more than collect() and describe(); the class itself is for type checkers.
    _PrometheusCollector = object

__all__ = ["COUNTS", "Collector", "Counts", "register"]


class _Gauge(NamedTuple):
    name: str
    help: str


class _Counter(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]


class _Histogram(NamedTuple):
    name: str
    help: str
    bounds: tuple[float, ...]


_CERTIFICATE_TTL = _Gauge(
    "rest_client_exec_plugin_ttl_seconds",
    "Seconds until the first of the client certificates that exec plugins gave is over; negative if one is, "
    "+Inf if there is none.",
)
_TOKEN_TTL = _Gauge(
    "kubeauth_token_ttl_seconds",
    "Seconds until the first of the tokens that exec plugins gave is over, by its expirationTimestamp; "
    "negative if one is, +Inf if there is none that ends.",
)
_ROTATION_AGE = _Histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    "Age in seconds, from its notBefore, at which a client certificate of an exec plugin was replaced.",
    # client-go's: up to an hour is too often, up to a month is fine, beyond is seldom.
    (600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000),
)
_ROTATION_RATIO = _Histogram(
    "kubeauth_certificate_rotation_lifetime_ratio",
    "Age at which a client certificate of an exec plugin was replaced, as a share of its lifetime: over 1, "
    "it had ended before.",
    # Rotated too early; ahead, as it should be; within the KEP's 1 % of the end, on either side; too late.
    (0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1, 1.01, 1.05, 1.1, 1.5, 2),
)
_RUN_SECONDS = _Histogram(
    "kubeauth_plugin_run_seconds",
    "Seconds that a call of an exec plugin took, whatever came of it.",
    # 60 is the timeout unless another was asked for; only a plugin that talks to somebody takes longer.
    (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
_CALLS = _Counter(
    "rest_client_exec_plugin_call_total",
    "Calls of exec plugins, by exit code and by what came of them: no_error, plugin_execution_error, "
    "plugin_not_found_error, client_internal_error. What the plugin printed has no part in it.",
    ("code", "call_status"),
)
_POLICY_CALLS = _Counter(
    "rest_client_exec_plugin_policy_call_total",
    "Times the plugin policy was asked whether an exec plugin may run, by its answer: allowed, denied.",
    ("status",),
)
_RENEWALS = _Counter(
    "kubeauth_renewals_total",
    "Credentials asked of exec plugins and OIDC issuers, by reason (first, expired, ahead, unauthorized) "
    "and by result (success, failure).",
    ("reason", "result"),
)
# Series that are there from the start, at 0: Prometheus cannot see the step that a series appears with.
# What a plugin exits with nobody knows: these are what most do, and -1 is a signal, ours after a timeout too.
_CALL_RESULTS = [
    ("0", "no_error"),
    ("-1", "plugin_execution_error"),
    ("1", "plugin_execution_error"),
    ("1", "plugin_not_found_error"),
    ("1", "client_internal_error"),
]
_POLICY_ANSWERS = [(status,) for status in ("allowed", "denied")]
_RENEWAL_RESULTS = [
    (reason, result)
    for reason in ("first", "expired", "ahead", "unauthorized")
    for result in ("success", "failure")
]


class _Tally:
    """The values of one histogram: how many fell in each bucket, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        # Below 0 is only what a clock set back makes of it. A sum must not go down.
        value = max(value, 0.0)
        self._buckets[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[int], float]:
        """The buckets as Prometheus wants them, each with all below it, and the sum."""
        return list(accumulate(self._buckets)), self._sum


class _Reading(NamedTuple):
    """All the numbers of one moment."""

    ends: dict[_Gauge, float]
    totals: dict[_Counter, dict[tuple[str, ...], int]]
    tallies: dict[_Histogram, tuple[list[int], float]]


class Counts:
    """Counts what happens to plugins and their credentials: an observer, called from any thread."""

    def __init__(self) -> None:
        # Guards all numbers below. Reentrant: a signal handler may come in between, and renew something.
        self._lock = threading.RLock()
        self._totals: dict[_Counter, dict[tuple[str, ...], int]] = {
            _CALLS: dict.fromkeys(_CALL_RESULTS, 0),
            _POLICY_CALLS: dict.fromkeys(_POLICY_ANSWERS, 0),
            _RENEWALS: dict.fromkeys(_RENEWAL_RESULTS, 0),
        }
        self._tallies = {each: _Tally(each.bounds) for each in (_ROTATION_AGE, _ROTATION_RATIO, _RUN_SECONDS)}
        # By source, of which none is kept alive: the credential of one that is gone matters to nobody.
        self._ends: weakref.WeakKeyDictionary[object, dict[_Gauge, float]] = weakref.WeakKeyDictionary()
        _everyone.add(self)

    def policy_checked(self, *, allowed: bool) -> None:
        """The plugin policy was asked."""
        self._count(_POLICY_CALLS, "allowed" if allowed else "denied")

    def plugin_ran(self, *, status: str, code: int, seconds: float) -> None:
        """A plugin was called."""
        with self._lock:
            self._count(_CALLS, str(code), status)
            self._tallies[_RUN_SECONDS].add(seconds)

    def renewed(self, *, reason: str, succeeded: bool) -> None:
        """A credential was asked for."""
        self._count(_RENEWALS, reason, "success" if succeeded else "failure")

    def installed(self, source: object, *, certificate_ends: float | None, token_ends: float | None) -> None:
        """`source` has a new credential: its ends take the place of those of the one before."""
        ends = {_CERTIFICATE_TTL: certificate_ends, _TOKEN_TTL: token_ends}
        with self._lock:
            self._ends[source] = {gauge: end for gauge, end in ends.items() if end is not None}

    def certificate_replaced(self, *, age: float, lifetime: float) -> None:
        """A certificate gave way to another, or to none."""
        with self._lock:
            self._tallies[_ROTATION_AGE].add(age)
            # One that ends before it begins has no lifetime to have a share of.
            if lifetime > 0:
                self._tallies[_ROTATION_RATIO].add(age / lifetime)

    def _count(self, counter: _Counter, *labels: str) -> None:
        with self._lock:
            totals = self._totals[counter]
            totals[labels] = totals.get(labels, 0) + 1

    def _read(self) -> _Reading:
        with self._lock:
            ends = list(self._ends.values())
            return _Reading(
                ends={
                    gauge: min((each[gauge] for each in ends if gauge in each), default=math.inf)
                    for gauge in (_CERTIFICATE_TTL, _TOKEN_TTL)
                },
                totals={counter: dict(totals) for counter, totals in self._totals.items()},
                tallies={histogram: tally.read() for histogram, tally in self._tallies.items()},
            )

    def _after_fork(self) -> None:
        # Whoever held it is not in this process.
        self._lock = threading.RLock()


_everyone: weakref.WeakSet[Counts] = weakref.WeakSet()

#: What this process counts.
COUNTS = Counts()


class Collector(_PrometheusCollector):
    """Shows a registry of prometheus_client what was counted, at each scrape.

    `register` is the short way; the long one is `registry.register(kubeauth.metrics.Collector())`.
    """

    def __init__(self, counts: Counts | None = None, *, now: Callable[[], float] = time.time) -> None:
        self._counts = COUNTS if counts is None else counts
        self._now = now

    def collect(self) -> list[Metric]:
        """Every metric, with its values of this moment."""
        return _render(self._counts._read(), self._now())

    def describe(self) -> list[Metric]:
        """Every metric, for its name: a registry wants to know them before there is a scrape."""
        return _render(Counts()._read(), 0.0)


def _render(reading: _Reading, now: float) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    go_text: Callable[[float], str] = floatToGoString
    families: list[Metric] = []
    for gauge, end in reading.ends.items():
        families.append(GaugeMetricFamily(gauge.name, gauge.help, value=end - now))
    for histogram, (buckets, total) in reading.tallies.items():
        bounds = [go_text(bound) for bound in (*histogram.bounds, math.inf)]
        pairs = list(zip(bounds, buckets, strict=True))
        families.append(HistogramMetricFamily(histogram.name, histogram.help, pairs, total))
    for counter, totals in reading.totals.items():
        family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
        for labels, count in sorted(totals.items()):
            family.add_metric(labels, count)
        families.append(family)
    return families


_registering = threading.Lock()
_registered: weakref.WeakKeyDictionary[CollectorRegistry, Collector] = weakref.WeakKeyDictionary()


def register(registry: CollectorRegistry | None = None) -> Collector:
    """Adds the metrics to `registry`, else to prometheus_client's own. Twice is as good as once.

    Raises ValueError, as prometheus_client does, if somebody else has metrics of these names there.
    """
    from prometheus_client import REGISTRY

    registry = REGISTRY if registry is None else registry
    with _registering:
        collector = _registered.get(registry)
        if collector is None:
            collector = Collector()
            registry.register(collector)
            _registered[registry] = collector
        else:
            # It may have been unregistered since. If it was not, the registry refuses to have it twice.
            with suppress(ValueError):
                registry.register(collector)
    return collector


def _in_the_child() -> None:
    global _registering
    _registering = threading.Lock()
    for counts in list(_everyone):
        counts._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_in_the_child)
