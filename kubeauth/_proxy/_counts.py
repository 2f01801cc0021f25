"""What the proxy has done, for Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Counts:
    """In one event loop, so in plain numbers."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        """By method and by class of answer: 2xx. "gone": the caller left before there was one."""
        self.refused: Counter[str] = Counter()
        """What was not passed on, by why."""
        self.in_flight = 0
        self.upgrades = 0
        self.connections = 0
        self.evicted = 0
        """Connections without a request in progress that were closed to make room for new ones."""

    def answered(self, method: str, code: int | None) -> None:
        """A request is over; None for one without an answer."""
        said = "gone" if code is None else f"{code // 100}xx"
        self.requests[method if method in _METHODS else "other", said] += 1

    def collect(self) -> list[Metric]:
        """Every metric, with its values of this moment."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily(
            "kubeauth_proxy_requests_total",
            "Requests that are over, by method and by class of answer; gone: the caller left before.",
            labels=("method", "code"),
        )
        for (method, code), count in sorted(self.requests.items()):
            requests.add_metric((method, code), count)
        refused = CounterMetricFamily(
            "kubeauth_proxy_refused_total",
            "Requests that were not passed on, by what was wrong with them.",
            labels=("reason",),
        )
        for reason, count in sorted(self.refused.items()):
            refused.add_metric((reason,), count)
        evicted = CounterMetricFamily(
            "kubeauth_proxy_evicted_connections_total",
            "Connections without a request in progress that were closed for new ones, at the limit.",
            value=self.evicted,
        )
        gauges = {
            "kubeauth_proxy_in_flight": ("Requests that are being answered, watches too.", self.in_flight),
            "kubeauth_proxy_upgrades": ("Upgraded connections that are open.", self.upgrades),
            "kubeauth_proxy_connections": ("Connections of callers that are open.", self.connections),
        }
        shown = [GaugeMetricFamily(name, help, value=value) for name, (help, value) in gauges.items()]
        return [requests, refused, evicted, *shown]

    def describe(self) -> list[Metric]:
        """Every metric, for its name."""
        return Counts().collect()


def registry_of(counts: Counts) -> CollectorRegistry:
    """These, those of the credentials, and those of the process."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.registry import Collector

    from kubeauth.metrics import register

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    register(registry)

    class Shown(Collector):
        def collect(self) -> list[Metric]:
            return counts.collect()

        def describe(self) -> list[Metric]:
            return counts.describe()

    registry.register(Shown())
    return registry
