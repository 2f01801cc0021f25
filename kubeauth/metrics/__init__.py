"""What plugins and providers are doing, for Prometheus: client-go's and the kubelet's metrics, and ours.

    import kubeauth

    kubeauth.metrics.register()     # with prometheus_client's own registry, or with the one you give

Counting goes on whether anybody looks or not, in plain numbers. Nothing is registered before you ask for it,
and prometheus_client is not imported before then either.

In prometheus_client's multiprocess mode (PROMETHEUS_MULTIPROC_DIR is set), the numbers of all processes are
in what its MultiProcessCollector shows. `register` adds what only the moment of a scrape can tell: how long
credentials have to live.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kubeauth.metrics._families import (
    CALL_RESULTS,
    CALLS,
    CERTIFICATE_TTL,
    ENDS,
    POLICY_ANSWERS,
    POLICY_CALLS,
    PROVIDER_CONFIG,
    PROVIDER_ERRORS,
    PROVIDER_SECONDS,
    RENEWAL_RESULTS,
    RENEWALS,
    ROTATION_AGE,
    ROTATION_RATIO,
    RUN_SECONDS,
    TOKEN_TTL,
    Counter,
    Gauge,
    Histogram,
)
from kubeauth.metrics._multiprocess import SHARED, Family, Shared, soonest_ends

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.registry import Collector as _PrometheusCollector
else:
    # A registry looks at no more than collect() and describe(); the class itself is for type checkers.
    _PrometheusCollector = object

__all__ = ["COUNTS", "Collector", "Counts", "register"]


class _Tally:
    """The values of one histogram: how many fell in each bucket, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._buckets[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[int], float]:
        """The buckets as Prometheus wants them, each with all below it, and the sum."""
        return list(accumulate(self._buckets)), self._sum


class _Reading(NamedTuple):
    """All the numbers of one moment."""

    ends: dict[Gauge, float]
    totals: dict[Counter, dict[tuple[str, ...], int]]
    tallies: dict[Histogram, dict[tuple[str, ...], tuple[list[int], float]]]
    config_hash: str | None


class Counts:
    """Counts what happens to plugins, credentials and providers: an observer, called from any thread."""

    # Where other processes can see it; of what the process counts, not of what somebody counts beside that.
    _shared: Shared | None = None

    def __init__(self) -> None:
        # Guards all numbers below. Reentrant: a signal handler may come in between, and renew something.
        self._lock = threading.RLock()
        self._totals: dict[Counter, dict[tuple[str, ...], int]] = {
            CALLS: dict.fromkeys(CALL_RESULTS, 0),
            POLICY_CALLS: dict.fromkeys(POLICY_ANSWERS, 0),
            RENEWALS: dict.fromkeys(RENEWAL_RESULTS, 0),
            PROVIDER_ERRORS: {},
        }
        self._tallies: dict[Histogram, dict[tuple[str, ...], _Tally]] = {
            ROTATION_AGE: {(): _Tally(ROTATION_AGE.bounds)},
            ROTATION_RATIO: {(): _Tally(ROTATION_RATIO.bounds)},
            RUN_SECONDS: {(): _Tally(RUN_SECONDS.bounds)},
            PROVIDER_SECONDS: {},
        }
        self._config_hash: str | None = None
        # By source, of which none is kept alive: the credential of one that is gone matters to nobody.
        self._ends: weakref.WeakKeyDictionary[object, dict[Gauge, float]] = weakref.WeakKeyDictionary()
        _everyone.add(self)

    def on_policy_check(self, *, allowed: bool) -> None:
        """The plugin policy was asked."""
        self._count(POLICY_CALLS, "allowed" if allowed else "denied")

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        """A plugin was called."""
        with self._lock:
            self._count(CALLS, str(code), status)
            self._add(RUN_SECONDS, seconds)

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        """A credential was asked for."""
        self._count(RENEWALS, reason, "success" if succeeded else "failure")

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        """`source` has a new credential: its ends take the place of those of the one before."""
        ends = {CERTIFICATE_TTL: certificate_expires, TOKEN_TTL: token_expires}
        with self._lock:
            self._ends[source] = {gauge: end for gauge, end in ends.items() if end is not None}
            self._note_ends()

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        """A certificate gave way to another, or to none."""
        with self._lock:
            self._add(ROTATION_AGE, age)
            # One that ends before it begins has no lifetime to have a share of.
            if lifetime > 0:
                self._add(ROTATION_RATIO, age / lifetime)

    def config_loaded(self, *, hash: str, providers: Sequence[str]) -> None:
        """A configuration of image credential providers was accepted: the last one is shown."""
        with self._lock:
            if self._config_hash is not None:
                self._note(PROVIDER_CONFIG, (self._config_hash,), 0)
            self._config_hash = hash
            self._note(PROVIDER_CONFIG, (hash,), 1)
            for name in providers:
                self._totals[PROVIDER_ERRORS].setdefault((name,), 0)
                self._note(PROVIDER_ERRORS, (name,), 0)

    def provider_ran(self, *, provider: str, seconds: float, failed: bool) -> None:
        """An image credential provider was run."""
        with self._lock:
            self._add(PROVIDER_SECONDS, seconds, provider)
            if failed:
                self._count(PROVIDER_ERRORS, provider)

    def _add(self, histogram: Histogram, value: float, *labels: str) -> None:
        with self._lock:
            tallies = self._tallies[histogram]
            # Below 0 is only what a clock set back makes of it. A sum must not go down.
            tallies.setdefault(labels, _Tally(histogram.bounds)).add(max(value, 0.0))
            self._note(histogram, labels, max(value, 0.0))

    def _count(self, counter: Counter, *labels: str) -> None:
        with self._lock:
            totals = self._totals[counter]
            totals[labels] = totals.get(labels, 0) + 1
            self._note(counter, labels, 1)

    def _note(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        if self._shared is not None:
            self._shared.note(family, labels, value)

    def _note_ends(self) -> None:
        # Not when a source is gone: that may be in the middle of prometheus_client, whose lock is held then.
        with self._lock:
            for gauge, end in self._soonest().items():
                self._note(ENDS[gauge], (), end if math.isfinite(end) else 0.0)

    def _soonest(self) -> dict[Gauge, float]:
        ends = list(self._ends.values())
        return {
            gauge: min((each[gauge] for each in ends if gauge in each), default=math.inf)
            for gauge in (CERTIFICATE_TTL, TOKEN_TTL)
        }

    def _read(self) -> _Reading:
        with self._lock:
            return _Reading(
                ends=self._soonest(),
                totals={counter: dict(totals) for counter, totals in self._totals.items()},
                tallies={
                    histogram: {labels: tally.read() for labels, tally in tallies.items()}
                    for histogram, tallies in self._tallies.items()
                },
                config_hash=self._config_hash,
            )

    def _after_fork(self) -> None:
        # Whoever held it is not in this process.
        self._lock = threading.RLock()


_everyone: weakref.WeakSet[Counts] = weakref.WeakSet()

#: What this process counts.
COUNTS = Counts()
COUNTS._shared = SHARED


class Collector(_PrometheusCollector):
    """Shows a registry of prometheus_client what was counted, at each scrape.

    `register` is the short way; the long one is `registry.register(kubeauth.metrics.Collector())`. In
    prometheus_client's multiprocess mode it shows times to live alone, of all processes: the rest is in what
    MultiProcessCollector shows.
    """

    def __init__(self, counts: Counts | None = None, *, now: Callable[[], float] = time.time) -> None:
        self._counts = COUNTS if counts is None else counts
        self._now = now

    def collect(self) -> list[Metric]:
        """Every metric, with its values of this moment."""
        if self._is_shared():
            self._counts._note_ends()
            return _render_ends(soonest_ends(), self._now())
        return _render(self._counts._read(), self._now())

    def describe(self) -> list[Metric]:
        """Every metric, for its name: a registry wants to know them before there is a scrape."""
        nothing = Counts()._read()
        return _render_ends(nothing.ends, 0.0) if self._is_shared() else _render(nothing, 0.0)

    def _is_shared(self) -> bool:
        shared = self._counts._shared
        return shared is not None and shared.is_on()


def _render_ends(ends: dict[Gauge, float], now: float) -> list[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    return [GaugeMetricFamily(gauge.name, gauge.help, value=end - now) for gauge, end in ends.items()]


def _render(reading: _Reading, now: float) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    go_text: Callable[[float], str] = floatToGoString
    families = _render_ends(reading.ends, now)
    info = GaugeMetricFamily(PROVIDER_CONFIG.name, PROVIDER_CONFIG.help, labels=PROVIDER_CONFIG.labels)
    if reading.config_hash is not None:
        info.add_metric((reading.config_hash,), 1)
    families.append(info)
    for histogram, tallies in reading.tallies.items():
        bounds = [go_text(bound) for bound in (*histogram.bounds, math.inf)]
        shown = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
        for labels, (buckets, total) in sorted(tallies.items()):
            shown.add_metric(labels, list(zip(bounds, buckets, strict=True)), total)
        families.append(shown)
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

    Raises ValueError, as prometheus_client does, if somebody else has metrics of these names there; and
    OSError if its multiprocess mode is on, and the directory for that is not there.
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
