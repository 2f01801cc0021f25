"""prometheus_client's multiprocess mode: the metrics of all processes of a service in one scrape.

With PROMETHEUS_MULTIPROC_DIR in the environment, each process writes its values to files in that directory,
and the process that is scraped adds up the files of all. Custom collectors cannot take part in this, so each
event is also recorded in ordinary metrics of prometheus_client, which handle forks and dead processes.
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
    CERTIFICATE_EXPIRY,
    COUNTERS,
    EXPIRY_BY_TTL,
    HISTOGRAMS,
    INITIAL_LABELS,
    PROVIDER_CONFIG,
    TOKEN_EXPIRY,
    Family,
    Gauge,
)

if TYPE_CHECKING:
    import prometheus_client

    PrometheusMetric = prometheus_client.Counter | prometheus_client.Gauge | prometheus_client.Histogram

logger = logging.getLogger("kubeauth.metrics")

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# prometheus_client still supports it: it sets the new one when the first metric is created.
DEPRECATED_DIRECTORY_VARIABLE = "prometheus_multiproc_dir"

_GAUGES = (CERTIFICATE_EXPIRY, TOKEN_EXPIRY, PROVIDER_CONFIG)
# How many seconds a fork waits for a thread that is writing.
_FORK_TIMEOUT = 1.0

Sample = tuple[Family, tuple[str, ...], float]


class MultiprocessWriter:
    """Writes values to the files of multiprocess mode, if the environment enables it at the first write."""

    def __init__(self) -> None:
        # Guards everything below, and the metrics of prometheus_client that are written here. Reentrant: a
        # signal handler may interrupt this thread. It queues values, and the interrupted call writes them.
        self._lock = threading.RLock()
        self._is_writing = False
        self._queue: deque[Sample] = deque()
        self._metrics: dict[str, PrometheusMetric] | None = None
        self._has_failed = False
        self._is_locked_for_fork = False

    def is_enabled(self) -> bool:
        """Whether multiprocess mode is enabled. Raises OSError if it is and its directory does not exist."""
        if not _has_directory_variable():
            return False
        self._flush()
        return bool(self._metrics)

    def write(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        """Add to a counter or a histogram, or set a gauge. Never raises: the request must not fail."""
        if self._has_failed:
            return
        self._queue.append((family, labels, value))
        try:
            self._flush()
        except Exception as error:  # no such directory; no space left; files that were closed
            self._has_failed = True
            self._queue.clear()
            logger.warning("cannot write metrics for multiprocess mode: %s", error)

    def _flush(self) -> None:
        with self._lock:
            if self._is_writing:
                return
            self._is_writing = True
            try:
                if self._metrics is None:
                    self._metrics = _create_metrics()
                    self._has_failed = False
                while self._queue:
                    sample = self._queue.popleft()
                    if self._metrics:
                        _write_sample(self._metrics, *sample)
            finally:
                self._is_writing = False

    def before_fork(self) -> None:
        """Wait for a thread that is writing.

        Otherwise the child could inherit a lock of prometheus_client that no thread will ever release, or a
        module that is only partly imported.
        """
        self._is_locked_for_fork = self._lock.acquire(timeout=_FORK_TIMEOUT)

    def after_fork_in_parent(self) -> None:
        """Let other threads write again."""
        if self._is_locked_for_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Reset the state. prometheus_client itself detects the new process: it opens new files at 0."""
        self._lock = threading.RLock()
        self._is_writing = False
        self._queue.clear()
        self._has_failed = False


def _has_directory_variable() -> bool:
    return DIRECTORY_VARIABLE in os.environ or DEPRECATED_DIRECTORY_VARIABLE in os.environ


def _write_sample(
    metrics: dict[str, PrometheusMetric], family: Family, labels: tuple[str, ...], value: float
) -> None:
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


def _create_metrics() -> dict[str, PrometheusMetric]:
    """Return the metrics by name, or nothing if prometheus_client is not in multiprocess mode.

    They are in no registry: MultiProcessCollector reads their files.
    """
    import prometheus_client
    from prometheus_client import values

    if values.ValueClass is values.MutexValue:
        # prometheus_client reads the environment when it is imported, and the variable was set after that.
        return {}
    metrics: dict[str, PrometheusMetric] = {}
    for gauge in _GAUGES:
        metrics[gauge.name] = prometheus_client.Gauge(
            gauge.name, gauge.help, gauge.labels, registry=None, multiprocess_mode=gauge.mode
        )
    for counter in COUNTERS:
        metric = prometheus_client.Counter(counter.name, counter.help, counter.labels, registry=None)
        for labels in INITIAL_LABELS[counter]:
            metric.labels(*labels)
        metrics[counter.name] = metric
    for histogram in HISTOGRAMS:
        metrics[histogram.name] = prometheus_client.Histogram(
            histogram.name, histogram.help, histogram.labels, registry=None, buckets=histogram.bounds
        )
    return metrics


def read_first_expiries() -> dict[Gauge, float]:
    """Return the first expiry of all live processes for each TTL gauge; infinity if nothing expires."""
    import glob

    from prometheus_client.multiprocess import MultiProcessCollector

    merge: Callable[[list[str]], Iterable[prometheus_client.Metric]] = MultiProcessCollector.merge
    files = glob.glob(os.path.join(glob.escape(os.environ[DIRECTORY_VARIABLE]), "gauge_liveall_*.db"))
    samples = {metric.name: metric.samples for metric in merge(files)}
    return {
        ttl: min((sample.value for sample in samples.get(expiry.name, ()) if sample.value), default=math.inf)
        for ttl, expiry in EXPIRY_BY_TTL.items()
    }


# The writer of this process.
MULTIPROCESS_WRITER = MultiprocessWriter()

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=MULTIPROCESS_WRITER.before_fork,
        after_in_parent=MULTIPROCESS_WRITER.after_fork_in_parent,
        after_in_child=MULTIPROCESS_WRITER.after_fork_in_child,
    )
