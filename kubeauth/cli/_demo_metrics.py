"""The demo's look at kubeauth's metrics, as any program can have it: a registry, and what is in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.samples import Sample

from kubeauth import metrics

_CALLS = "rest_client_exec_plugin_call_total"
_POLICY_CALLS = "rest_client_exec_plugin_policy_call_total"
_RENEWALS = "kubeauth_credential_refreshes_total"


class PluginCounts(NamedTuple):
    """What became of the plugin, since the demo began."""

    begun: int = 0
    """Runs that were thought of, and allowed or not."""
    runs: int = 0
    ended: int = 0
    """What came of them is known."""
    failed: int = 0

    @property
    def is_at_rest(self) -> bool:
        return self.begun <= self.ended


class Meters:
    """kubeauth's metrics in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        metrics.register(self._registry)
        self._before = self._counted()

    def read(self) -> PluginCounts:
        """The difference that the demo makes: the numbers are those of the process."""
        return PluginCounts(*(now - then for now, then in zip(self._counted(), self._before, strict=True)))

    def lines(self) -> Iterator[str]:
        """As a scrape has them, without buckets."""
        for line in generate_latest(self._registry).decode().splitlines():
            if not line.startswith("#") and "_bucket{" not in line:
                yield line

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Name, labels and value of those that say something, for people."""
        count = 0.0
        for sample in self._samples():
            name, value = sample.name, sample.value
            if name.endswith("_count"):
                count = value
            elif not value or not math.isfinite(value):
                continue
            elif name.endswith("_sum"):  # comes after its count
                yield name.removesuffix("_sum"), "", _mean(value / count)
            else:
                shown = f"{value:.3g}" if name.endswith("_seconds") else f"{value:.0f}"
                yield name, ", ".join(sample.labels.values()), shown

    def _samples(self) -> Iterator[Sample]:
        for family in self._registry.collect():
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    yield sample

    def _counted(self) -> PluginCounts:
        begun = runs = ended = failed = 0
        for sample in self._samples():
            value = int(sample.value) if sample.name.endswith("_total") else 0
            if sample.name == _POLICY_CALLS:
                begun += value
            elif sample.name == _CALLS:
                runs += value
            elif sample.name == _RENEWALS:
                ended += value
                failed += value * (sample.labels["result"] == "failure")
        return PluginCounts(begun, runs, ended, failed)


def _mean(value: float) -> str:
    return f"mean {value:.3f}" if value < 10 else f"mean {value:.0f}"
