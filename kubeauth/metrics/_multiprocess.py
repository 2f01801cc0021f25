"""What this process counts, written down beside what its siblings do: prometheus_client's multiprocess mode.

With PROMETHEUS_MULTIPROC_DIR in the environment, each process keeps its numbers in files there, and whoever
is scraped adds up those of all. Custom collectors have no part in that, so here the numbers go to metrics of
prometheus_client's own, as they are counted. What those do about forks and about the dead is what happens.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kubeauth.metrics._families import (
    CALL_RESULTS,
    CALLS,
    CERTIFICATE_ENDS,
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
    TOKEN_ENDS,
    Counter,
    Gauge,
    Histogram,
)

if TYPE_CHECKING:
    import prometheus_client

    Written = prometheus_client.Counter | prometheus_client.Gauge | prometheus_client.Histogram

logger = logging.getLogger("kubeauth.metrics")

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
# prometheus_client still takes it, and sets the other when the first metric is made.
_OLD_DIRECTORY = "prometheus_multiproc_dir"

_GAUGES = (CERTIFICATE_ENDS, TOKEN_ENDS, PROVIDER_CONFIG)
_COUNTERS = (CALLS, POLICY_CALLS, RENEWALS, PROVIDER_ERRORS)
_HISTOGRAMS = (ROTATION_AGE, ROTATION_RATIO, RUN_SECONDS, PROVIDER_SECONDS)
_FROM_THE_START: dict[Counter, list[tuple[str, ...]]] = {
    CALLS: [*CALL_RESULTS],
    POLICY_CALLS: [*POLICY_ANSWERS],
    RENEWALS: [*RENEWAL_RESULTS],
}
# How many seconds a fork waits for who is writing.
_PATIENCE = 1.0

Family = Gauge | Counter | Histogram
Note = tuple[Family, tuple[str, ...], float]


class Shared:
    """Numbers that processes share, if the environment says so: who counts first looks whether it does."""

    def __init__(self) -> None:
        # Guards everything below, and everything of prometheus_client's that is reached from here. Reentrant:
        # a signal handler may come in between. Then whom it has interrupted writes down its numbers too.
        self._lock = threading.RLock()
        self._is_writing = False
        self._notes: deque[Note] = deque()
        self._metrics: dict[str, Written] | None = None
        self._failed = False
        self._fork_has_it = False

    def is_on(self) -> bool:
        """Whether numbers are shared. OSError if they should be, and their directory is not there."""
        if not _is_meant():
            return False
        self._write()
        return bool(self._metrics)

    def note(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        """Adds to a counter or a histogram, or sets a gauge. Never raises: who counts cannot help it."""
        if self._failed or not _is_meant():
            return
        self._notes.append((family, labels, value))
        try:
            self._write()
        except Exception as error:  # no such directory; no space; files that somebody has closed
            self._failed = True
            self._notes.clear()
            logger.warning("what kubeauth counts is not shared with other processes: %s", error)

    def _write(self) -> None:
        with self._lock:
            if self._is_writing:
                return
            self._is_writing = True
            try:
                if self._metrics is None:
                    self._metrics = _made()
                    self._failed = False
                while self._notes:
                    note = self._notes.popleft()
                    if self._metrics:
                        _write_down(self._metrics, *note)
            finally:
                self._is_writing = False

    def before_fork(self) -> None:
        """A child would find a lock of prometheus_client's that nobody opens, or a module half imported."""
        self._fork_has_it = self._lock.acquire(timeout=_PATIENCE)

    def after_fork_in_parent(self) -> None:
        """Lets the others go on."""
        if self._fork_has_it:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """prometheus_client itself finds out that this is another process, and begins at 0 in other files."""
        self._lock = threading.RLock()
        self._is_writing = False
        self._notes.clear()
        self._failed = False


def _is_meant() -> bool:
    return DIRECTORY in os.environ or _OLD_DIRECTORY in os.environ


def _write_down(metrics: dict[str, Written], family: Family, labels: tuple[str, ...], value: float) -> None:
    import prometheus_client

    metric = metrics[family.name]
    if labels:
        metric = metric.labels(*labels)
    if isinstance(metric, prometheus_client.Counter):
        metric.inc(value)
    elif isinstance(metric, prometheus_client.Gauge):
        metric.set(value)
    else:
        metric.observe(value)


def _made() -> dict[str, Written]:
    """The metrics, by name; in no registry, since they are read from files. None if that mode is not on."""
    import prometheus_client
    from prometheus_client import values

    if values.ValueClass is values.MutexValue:
        # It looked at the environment when it was imported, and that was too early.
        return {}
    metrics: dict[str, Written] = {}
    for gauge in _GAUGES:
        metrics[gauge.name] = prometheus_client.Gauge(
            gauge.name, gauge.help, gauge.labels, registry=None, multiprocess_mode=gauge.mode
        )
    for counter in _COUNTERS:
        made = prometheus_client.Counter(counter.name, counter.help, counter.labels, registry=None)
        for labels in _FROM_THE_START.get(counter, ()):
            made.labels(*labels)
        metrics[counter.name] = made
    for histogram in _HISTOGRAMS:
        metrics[histogram.name] = prometheus_client.Histogram(
            histogram.name, histogram.help, histogram.labels, registry=None, buckets=histogram.bounds
        )
    return metrics


def soonest_ends() -> dict[Gauge, float]:
    """By the time to live that it is for: the first end of all processes; infinite if nothing ends."""
    import glob

    from prometheus_client.multiprocess import MultiProcessCollector

    merge: Callable[[list[str]], Iterable[prometheus_client.Metric]] = MultiProcessCollector.merge
    files = glob.glob(os.path.join(glob.escape(os.environ[DIRECTORY]), "gauge_liveall_*.db"))
    found = {metric.name: metric.samples for metric in merge(files)}
    return {
        ttl: min((sample.value for sample in found.get(end.name, ()) if sample.value), default=math.inf)
        for ttl, end in ENDS.items()
    }


SHARED = Shared()

if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(
        before=SHARED.before_fork,
        after_in_parent=SHARED.after_fork_in_parent,
        after_in_child=SHARED.after_fork_in_child,
    )
