"""MetricsRecorder: the observer that counts the events of plugins, credentials and providers."""

from __future__ import annotations

import math
import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from kubeauth.metrics._families import (
    CERTIFICATE_TTL,
    COUNTERS,
    EXPIRY_BY_TTL,
    HISTOGRAMS,
    INITIAL_LABELS,
    PLUGIN_CALLS,
    POLICY_CALLS,
    PROVIDER_CONFIG,
    PROVIDER_ERRORS,
    PROVIDER_SECONDS,
    REFRESHES,
    ROTATION_AGE,
    ROTATION_RATIO,
    RUN_SECONDS,
    TOKEN_TTL,
    Counter,
    Family,
    Gauge,
    Histogram,
)
from kubeauth.metrics._multiprocess import (
    DEPRECATED_DIRECTORY_VARIABLE,
    DIRECTORY_VARIABLE,
    MULTIPROCESS_WRITER,
    MultiprocessWriter,
)


class _HistogramData:
    """The buckets and the sum of one series of a histogram."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._buckets[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[int], float]:
        """Return the cumulative buckets, as Prometheus expects them, and the sum."""
        return list(accumulate(self._buckets)), self._sum


class Snapshot(NamedTuple):
    """All values at one moment."""

    expiries: dict[Gauge, float]
    totals: dict[Counter, dict[tuple[str, ...], int]]
    histograms: dict[Histogram, dict[tuple[str, ...], tuple[list[int], float]]]
    config_hash: str | None


class MetricsRecorder:
    """Counts the events of plugins, credentials and providers. An observer that any thread may call."""

    # Set for RECORDER only: a recorder of a test, say, does not write to the files of multiprocess mode.
    multiprocess_writer: MultiprocessWriter | None = None

    def __init__(self) -> None:
        # Guards all values below. Reentrant: a signal handler may interrupt this thread and refresh a
        # credential.
        self._lock = threading.RLock()
        self._totals: dict[Counter, dict[tuple[str, ...], int]] = {
            counter: dict.fromkeys(INITIAL_LABELS[counter], 0) for counter in COUNTERS
        }
        self._histograms: dict[Histogram, dict[tuple[str, ...], _HistogramData]] = {
            histogram: {} if histogram.labels else {(): _HistogramData(histogram.bounds)}
            for histogram in HISTOGRAMS
        }
        self._config_hash: str | None = None
        # By source. Weak: the credential of a source that was garbage-collected no longer matters.
        self._expiries: weakref.WeakKeyDictionary[object, dict[Gauge, float]] = weakref.WeakKeyDictionary()
        _all_recorders.add(self)

    def on_policy_check(self, *, allowed: bool) -> None:
        """Count a check of the plugin policy."""
        self._increment(POLICY_CALLS, "allowed" if allowed else "denied")

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        """Count a call to an exec plugin."""
        with self._lock:
            self._increment(PLUGIN_CALLS, str(code), status)
            self._observe(RUN_SECONDS, seconds)

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        """Count a credential that was fetched, or could not be."""
        self._increment(REFRESHES, reason, "success" if succeeded else "failure")

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        """Record the expiry of the new credential of `source`, in place of the previous one."""
        expiries = {CERTIFICATE_TTL: certificate_expires, TOKEN_TTL: token_expires}
        with self._lock:
            self._expiries[source] = {
                gauge: expiry for gauge, expiry in expiries.items() if expiry is not None
            }
            self.write_expiries()

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        """Record the age of a certificate that was replaced or dropped."""
        with self._lock:
            self._observe(ROTATION_AGE, age)
            # A certificate whose notAfter is before its notBefore has no lifetime to compare with.
            if lifetime > 0:
                self._observe(ROTATION_RATIO, age / lifetime)

    def on_config_loaded(self, *, hash: str, providers: Sequence[str]) -> None:
        """Record the configuration of image credential providers that was loaded last."""
        with self._lock:
            if self._config_hash is not None:
                self._write(PROVIDER_CONFIG, (self._config_hash,), 0)
            self._config_hash = hash
            self._write(PROVIDER_CONFIG, (hash,), 1)
            for name in providers:
                self._totals[PROVIDER_ERRORS].setdefault((name,), 0)
                self._write(PROVIDER_ERRORS, (name,), 0)

    def on_provider_run(self, *, provider: str, seconds: float, failed: bool) -> None:
        """Count a run of an image credential provider."""
        with self._lock:
            self._observe(PROVIDER_SECONDS, seconds, provider)
            if failed:
                self._increment(PROVIDER_ERRORS, provider)

    def snapshot(self) -> Snapshot:
        """Return a copy of all values."""
        with self._lock:
            return Snapshot(
                expiries=self._find_first_expiries(),
                totals={counter: dict(totals) for counter, totals in self._totals.items()},
                histograms={
                    histogram: {labels: data.read() for labels, data in series.items()}
                    for histogram, series in self._histograms.items()
                },
                config_hash=self._config_hash,
            )

    def write_expiries(self) -> None:
        """Write the first expiries for multiprocess mode.

        Not called when a source is garbage-collected: that may happen inside prometheus_client, which then
        holds its lock.
        """
        with self._lock:
            for gauge, expiry in self._find_first_expiries().items():
                self._write(EXPIRY_BY_TTL[gauge], (), expiry if math.isfinite(expiry) else 0.0)

    def _observe(self, histogram: Histogram, value: float, *labels: str) -> None:
        with self._lock:
            series = self._histograms[histogram]
            # A duration or age is negative only if the clock was set back; the sum must never decrease.
            series.setdefault(labels, _HistogramData(histogram.bounds)).observe(max(value, 0.0))
            self._write(histogram, labels, max(value, 0.0))

    def _increment(self, counter: Counter, *labels: str) -> None:
        with self._lock:
            totals = self._totals[counter]
            totals[labels] = totals.get(labels, 0) + 1
            self._write(counter, labels, 1)

    def _write(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        # Most processes end here: multiprocess mode is enabled by the environment.
        if self.multiprocess_writer is not None and (
            DIRECTORY_VARIABLE in os.environ or DEPRECATED_DIRECTORY_VARIABLE in os.environ
        ):
            self.multiprocess_writer.write(family, labels, value)

    def _find_first_expiries(self) -> dict[Gauge, float]:
        expiries = list(self._expiries.values())
        return {
            gauge: min((each[gauge] for each in expiries if gauge in each), default=math.inf)
            for gauge in (CERTIFICATE_TTL, TOKEN_TTL)
        }

    def _after_fork(self) -> None:
        # A thread that does not exist in the child may hold the lock.
        self._lock = threading.RLock()


_all_recorders: weakref.WeakSet[MetricsRecorder] = weakref.WeakSet()

# The recorder of this process.
RECORDER = MetricsRecorder()
RECORDER.multiprocess_writer = MULTIPROCESS_WRITER


def _after_fork_in_child() -> None:
    for recorder in list(_all_recorders):
        recorder._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
