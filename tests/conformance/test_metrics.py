"""Metrics of plugin runs and of the certificates that plugins return (M1-M4)."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._exec.plugin import Plugin
from kubeauth.errors import PluginFailed
from kubeauth.metrics import Collector
from kubeauth.metrics._recorder import MetricsRecorder
from kubeauth.testing import Authority, FakeClock
from tests.conformance.plugins import exec_config
from tests.support.shell_plugin import ShellPlugin, credential

DAY = 86400.0


def value(recorder: MetricsRecorder, name: str, now: float, **labels: str) -> float | None:
    for metric in Collector(recorder, now=lambda: now).collect():
        for sample in metric.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


def test_ttl_is_until_not_after_of_the_certificate_m4(tmp_path: Path, clock: FakeClock) -> None:
    not_after = datetime.fromtimestamp(clock.time() + 5 * DAY, UTC)
    pair = Authority().client("carol", not_after=not_after)
    recorder = MetricsRecorder()
    script = ShellPlugin(tmp_path, credential(None, pair, expires=clock.time() + 60))
    source = RefreshableSource(Plugin(exec_config(script.path), None, recorder), clock, recorder)

    def ttl() -> float | None:
        return value(recorder, "rest_client_exec_plugin_ttl_seconds", clock.time())

    assert ttl() == math.inf
    source.get()
    assert ttl() == 5 * DAY
    clock.advance(6 * DAY)
    assert ttl() == -DAY  # computed when the metrics are collected
    script.set_output(credential("token"))
    source.get()
    assert ttl() == math.inf  # tokens have no TTL
    # The age of the rotated certificate is counted from its notBefore.
    not_before = load_pem_x509_certificate(pair.certificate).not_valid_before_utc.timestamp()
    age = value(recorder, "rest_client_exec_plugin_certificate_rotation_age_sum", clock.time())

    assert age == pytest.approx(clock.time() - not_before)


def test_plugin_calls_are_counted_by_status_and_exit_code_m1_m2(tmp_path: Path, clock: FakeClock) -> None:
    recorder = MetricsRecorder()
    script = ShellPlugin(tmp_path)
    plugin = Plugin(exec_config(script.path), None, recorder)
    plugin.fetch()
    script.set_output("", exit_code=17)

    for _ in range(2):
        with pytest.raises(PluginFailed):
            plugin.fetch()

    def calls(code: str, status: str) -> float | None:
        name = "rest_client_exec_plugin_call_total"
        return value(recorder, name, clock.time(), code=code, call_status=status)

    assert calls("0", "no_error") == 1
    assert calls("17", "plugin_execution_error") == 2
