"""Prometheus metrics of plugins and providers: client-go's, the kubelet's, and kubeauth's own.

    import kubeauth

    kubeauth.metrics.register()     # with prometheus_client's default registry, or with the one you pass

kubeauth always counts, in plain numbers. Nothing is registered, and prometheus_client is not imported, before
you call `register`.

In prometheus_client's multiprocess mode (PROMETHEUS_MULTIPROC_DIR is set), its MultiProcessCollector exports
the values of all processes. `register` adds the TTLs of credentials, which are computed at each scrape.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kubeauth.metrics._families import PROVIDER_CONFIG, Gauge
from kubeauth.metrics._multiprocess import read_first_expiries
from kubeauth.metrics._recorder import RECORDER, MetricsRecorder, Snapshot

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.registry import Collector as _PrometheusCollector
else:
    # A registry only calls collect() and describe(); the base class is for type checkers.
    _PrometheusCollector = object

__all__ = ["Collector", "register"]


class Collector(_PrometheusCollector):
    """Exports the metrics of this process to a prometheus_client registry.

    `register()` is short for `registry.register(kubeauth.metrics.Collector())`. In prometheus_client's
    multiprocess mode it exports only the TTLs, of all processes: MultiProcessCollector exports the rest.
    """

    def __init__(
        self, recorder: MetricsRecorder | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        self._recorder = RECORDER if recorder is None else recorder
        self._now = now

    def collect(self) -> list[Metric]:
        """Return all metrics with their current values."""
        if self._is_multiprocess():
            self._recorder.write_expiries()
            return _build_ttls(read_first_expiries(), self._now())
        return _build_families(self._recorder.snapshot(), self._now())

    def describe(self) -> list[Metric]:
        """Return all metrics, for their names: a registry calls this to detect duplicates."""
        empty = MetricsRecorder().snapshot()
        return _build_ttls(empty.expiries, 0.0) if self._is_multiprocess() else _build_families(empty, 0.0)

    def _is_multiprocess(self) -> bool:
        writer = self._recorder.multiprocess_writer
        return writer is not None and writer.is_enabled()


def _build_ttls(expiries: dict[Gauge, float], now: float) -> list[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    return [
        GaugeMetricFamily(gauge.name, gauge.help, value=expiry - now) for gauge, expiry in expiries.items()
    ]


def _build_families(snapshot: Snapshot, now: float) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    format_bound: Callable[[float], str] = floatToGoString
    families = _build_ttls(snapshot.expiries, now)
    info = GaugeMetricFamily(PROVIDER_CONFIG.name, PROVIDER_CONFIG.help, labels=PROVIDER_CONFIG.labels)
    if snapshot.config_hash is not None:
        info.add_metric((snapshot.config_hash,), 1)
    families.append(info)
    for histogram, series in snapshot.histograms.items():
        bounds = [format_bound(bound) for bound in (*histogram.bounds, math.inf)]
        histogram_family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
        for labels, (buckets, total) in sorted(series.items()):
            histogram_family.add_metric(labels, list(zip(bounds, buckets, strict=True)), total)
        families.append(histogram_family)
    for counter, totals in snapshot.totals.items():
        counter_family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
        for labels, count in sorted(totals.items()):
            counter_family.add_metric(labels, count)
        families.append(counter_family)
    return families


# Guards _registered.
_register_lock = threading.Lock()
_registered: weakref.WeakKeyDictionary[CollectorRegistry, Collector] = weakref.WeakKeyDictionary()


def register(registry: CollectorRegistry | None = None) -> Collector:
    """Register the metrics with `registry`, by default prometheus_client's own. Idempotent.

    Raises ValueError, as prometheus_client does, if the registry already has other metrics with these names;
    OSError if multiprocess mode is enabled and its directory does not exist.
    """
    from prometheus_client import REGISTRY

    registry = REGISTRY if registry is None else registry
    with _register_lock:
        collector = _registered.get(registry)
        if collector is None:
            collector = Collector()
            registry.register(collector)
            _registered[registry] = collector
        else:
            # The caller may have unregistered it. If not, the registry rejects the duplicate.
            with suppress(ValueError):
                registry.register(collector)
    return collector


def _after_fork_in_child() -> None:
    # A thread that does not exist in the child may hold the lock.
    global _register_lock
    _register_lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
