"""The rules and the dashboard of examples/observability, by the tools they are for: promtool and Prometheus."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e import tools
from tests.project.test_observability import ALERTS, EXPOSED, FOLDER, GROUPS, TARGETS
from tests.support.ports import free_port

PATIENCE = 90.0
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "--lint=all", "--lint-fatal", "kubeauth.rules.yml"],
        ["test", "rules", "kubeauth.rules.test.yml"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_is_content(arguments: list[str]) -> None:
    promtool = tools.debian("promtool", "prometheus")
    ran = subprocess.run(
        [promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=170, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "SUCCESS" in ran.stdout


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program, which is gone afterwards whatever happens."""
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def eventually(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    ends_at = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < ends_at, what()
        time.sleep(0.3)


@dataclass
class Prometheus:
    """What its HTTP API says."""

    client: httpx.Client
    log: Path

    def get(self, path: str, **params: str) -> Any:
        answer = self.client.get(path, params=params)
        said = answer.json()
        assert said["status"] == "success", (params, said)
        assert not said.get("warnings"), (params, said)
        return said["data"]

    def query(self, expression: str) -> Series:
        found: Series = {}
        for each in self.get("/api/v1/query", query=expression)["result"]:
            labels = dict(each["metric"])
            for label in ("job", "instance"):
                labels.pop(label, None)
            found[labels.pop("__name__", ""), frozenset(labels.items())] = float(each["value"][1])
        return found

    def is_ready(self) -> bool:
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def firing(self) -> dict[str, dict[str, Any]]:
        alerts = self.get("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, scraped_port: int) -> Iterator[Prometheus]:
    """With the configuration of the example, in a hurry; for this machine alone."""
    program, port = tools.debian("prometheus", "prometheus"), free_port()
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{scraped_port}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    log = folder / "prometheus.log"
    command = [
        *(sys.executable, "-IS", str(tools.HERE / "keeper.py"), str(log), "--"),
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, stdin=subprocess.PIPE) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            it = Prometheus(client, log)
            eventually(lambda: process.poll() is not None or it.is_ready(), log.read_text)
            assert process.poll() is None, log.read_text()
            yield it


def counted(text: str) -> Series:
    """Everything that only goes up, as the process itself shows it."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in EXPOSED and family.type != "gauge":
                found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def total(series: Series, name: str, **labels: str) -> float:
    return sum(
        value for (each, its), value in series.items() if each == name and labels.items() <= dict(its).items()
    )


def filled_in(expression: str) -> str:
    """As Grafana fills in its variables, where all was chosen."""
    for name, value in {"$job": ".*", "$instance": ".*", "$__rate_interval": "5m"}.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


@pytest.mark.timeout(400)
def test_prometheus_sees_what_the_process_counted_and_raises_its_alerts(tmp_path: Path) -> None:
    port = free_port()
    own = f"http://127.0.0.1:{port}/metrics"
    command = [
        sys.executable,
        str(FOLDER / "scraped.py"),
        "--port",
        str(port),
        "--seconds",
        "40",
        "--linger",
        "300",
    ]
    with prometheus(tmp_path, port) as it, running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Metrics at {own}\n"
        runs = int(process.stdout.readline().removeprefix("Runs of the plugin: "))
        provider_runs = int(process.stdout.readline().removeprefix("Runs of the provider: "))

        # It makes no requests any more: from now on the numbers stay as they are.
        truth = counted(httpx.get(own, trust_env=False).text)
        names = "|".join({name for name, _ in truth})
        seen: Series = {}

        def sees_the_same() -> bool:
            seen.update(it.query(f'{{__name__=~"{names}"}}'))
            return seen == truth

        eventually(sees_the_same, lambda: set(seen.items()) ^ set(truth.items()))

        calls = "rest_client_exec_plugin_call_total"
        assert total(truth, calls) - total(truth, calls, call_status="plugin_not_found_error") == runs
        assert total(truth, "kubelet_credential_provider_plugin_duration_count") == provider_runs
        assert 0 < total(truth, "kubelet_credential_provider_plugin_errors_total") < provider_runs
        failed = total(truth, calls) - total(truth, calls, call_status="no_error")
        assert total(truth, calls, code="255") > 0
        rotation = "kubeauth_certificate_rotation_lifetime_ratio"
        late = total(truth, f"{rotation}_count") - total(truth, f"{rotation}_bucket", le="1.01")
        recorded = {
            "instance:rest_client_exec_plugin_call:sum": total(truth, calls),
            "instance:rest_client_exec_plugin_call_failed:sum": failed,
            "instance:kubeauth_certificate_rotation_late:sub": late,
            "instance:kubeauth_renewals_failed:sum": total(
                truth, "kubeauth_credential_refreshes_total", result="failure"
            ),
            "instance:kubeauth_renewals_unauthorized:sum": total(
                truth, "kubeauth_credential_refreshes_total", reason="unauthorized"
            ),
        }
        assert min(recorded.values()) > 0, recorded

        def by_the_rules() -> dict[str, float | None]:
            return {name: it.query(name).get((name, frozenset())) for name in recorded}

        eventually(lambda: by_the_rules() == recorded, by_the_rules)

        rules_are_loaded_and_healthy(it)
        alerts_are_raised(it, f"127.0.0.1:{port}")
        every_panel_shows_something(it)
    assert "level=error" not in it.log.read_text()


def rules_are_loaded_and_healthy(it: Prometheus) -> None:
    groups = it.get("/api/v1/rules")["groups"]
    assert {group["name"]: len(group["rules"]) for group in groups} == {
        group["name"]: len(group["rules"]) for group in GROUPS
    }
    wrong = [
        rule for group in groups for rule in group["rules"] if rule["health"] != "ok" or rule.get("lastError")
    ]
    assert wrong == []
    names = Counter(rule["name"] for group in groups for rule in group["rules"] if rule["type"] == "alerting")
    assert names == Counter(rule["alert"] for rule in ALERTS)


def alerts_are_raised(it: Prometheus, instance: str) -> None:
    """Those that need no time of their own."""
    at_once = {
        "KubeauthPluginMissing",
        "KubeauthPluginDenied",
        "KubeauthPluginObjectiveMissed",
        "KubeauthCertificatesRotatedLate",
    }
    eventually(lambda: at_once <= it.firing().keys(), it.firing)
    firing = it.firing()
    missing = firing["KubeauthPluginMissing"]
    assert missing["labels"] == {
        "alertname": "KubeauthPluginMissing",
        "severity": "critical",
        "job": "kubeauth",
        "instance": instance,
    }
    assert missing["annotations"]["summary"] == f"{instance} (kubeauth) does not find its exec plugin."
    missed = firing["KubeauthPluginObjectiveMissed"]["annotations"]
    assert re.fullmatch(r"There were \d+ calls\. .+", missed["description"])
    assert "<no value>" not in str(firing)


def every_panel_shows_something(it: Prometheus) -> None:
    exprs = [(title, target["expr"]) for title, target in TARGETS]
    assert [(title, expr) for title, expr in exprs if not it.query(filled_in(expr))] == []
