"""The rules and the dashboard in examples/observability ask for what kubeauth shows, and for nothing else."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kubeauth.metrics import Collector
from kubeauth.metrics._recorder import MetricsRecorder
from tests.support.cases import each_case

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "observability"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
GROUPS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "kubeauth.rules.yml").read_text())["groups"]
TESTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "kubeauth.rules.test.yml").read_text())["tests"]

RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = [rule["record"] for rule in RULES if "record" in rule]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]

# What Prometheus itself adds.
OF_THE_TARGET = {"job", "instance"}
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "alertstate"}}

GROUPING = r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)"
SELECTOR = r"([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?"
MATCHER = r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"'
WORDS = {"and", "or", "unless", "offset", "Inf"}
FUNCTIONS = {"sum", "min", "max", "count", "increase", "histogram_quantile", "vector"}


class Source:
    """Whatever has a credential."""


def exposed() -> dict[str, dict[str, set[str]]]:
    """What a scrape shows once everything has happened: each name, its labels, and their values."""
    recorder, source = MetricsRecorder(), Source()
    for allowed in (True, False):
        recorder.on_policy_check(allowed=allowed)
    recorder.on_plugin_run(status="plugin_execution_error", code=255, seconds=0.2)
    recorder.on_credential(source, certificate_expires=0.0, token_expires=0.0)
    recorder.on_certificate_rotated(age=1, lifetime=1)
    recorder.on_config_loaded(hash="sha256:00", providers=["ecr"])
    recorder.on_provider_run(provider="ecr", seconds=0.2, failed=True)
    registry = CollectorRegistry()
    registry.register(Collector(recorder))
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


EXPOSED = exposed()


def metrics_in(expression: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Every metric that is asked for, with the matchers on its labels."""
    bare = re.sub(r"\[[^\]]*\]|\boffset\s+\w+", " ", re.sub(GROUPING, " ", expression))
    found: list[tuple[str, list[tuple[str, str, str]]]] = []
    for match in re.finditer(SELECTOR, bare):
        name, matchers = match[1], match[2] or ""
        is_call = bare[match.end() :].lstrip().startswith("(")
        if name in WORDS or (is_call and name in FUNCTIONS):
            continue
        found.append((name, re.findall(MATCHER, matchers)))
    return found


def labels_of(name: str) -> set[str] | None:
    """The labels that a metric has; None if there is no such metric."""
    if name in OF_PROMETHEUS:
        return OF_PROMETHEUS[name] | OF_THE_TARGET
    if name in RECORDED:
        return {"job"} if name.startswith("job:") else OF_THE_TARGET
    return set(EXPOSED[name]) | OF_THE_TARGET if name in EXPOSED else None


def problems(expression: str) -> list[str]:
    """What an expression asks for that nobody has."""
    wrong: list[str] = []
    known = set[str]()
    for name, matchers in metrics_in(expression):
        labels = labels_of(name)
        if labels is None:
            wrong.append(f"no metric {name}")
            continue
        known |= labels
        for label, operator, value in matchers:
            if label not in labels:
                wrong.append(f"{name} has no label {label}")
            values = EXPOSED.get(name, {}).get(label)
            if values is not None and operator in ("=", "!=") and value not in values:
                wrong.append(f"{name} is never {label}={value}")
    for group in re.findall(GROUPING, expression):
        wrong += [
            f"nothing has the label {label}"
            for label in group.replace(",", " ").split()
            if label not in known
        ]
    return wrong


@each_case("rule", RULES, ids=lambda rule: rule.get("record") or rule["alert"])
def test_a_rule_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    assert metrics_in(rule["expr"])
    assert problems(rule["expr"]) == []


@each_case(("title", "target"), TARGETS, ids=[f"{t}-{q['refId']}" for t, q in TARGETS])
def test_a_panel_asks_for_what_there_is(title: str, target: dict[str, Any]) -> None:
    assert metrics_in(target["expr"])
    assert problems(target["expr"]) == []
    labels = set[str]().union(*(labels_of(name) or set() for name, _ in metrics_in(target["expr"])))
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


@each_case(
    ("expression", "expected"),
    [
        ("sum(kubeauth_renewal_total)", "no metric kubeauth_renewal_total"),
        (
            'kubeauth_credential_refreshes_total{reasons="first"}',
            "kubeauth_credential_refreshes_total has no label reasons",
        ),
        (
            'kubeauth_credential_refreshes_total{reason="late"}',
            "kubeauth_credential_refreshes_total is never reason=late",
        ),
        ('kubeauth_plugin_run_seconds_bucket{le="60"}', "kubeauth_plugin_run_seconds_bucket is never le=60"),
        ("sum by (code) (kubeauth_credential_refreshes_total)", "nothing has the label code"),
        ("job:nothing:sum offset 1h", "no metric job:nothing:sum"),
        ("increased(up[1h])", "no metric increased"),
    ],
)
def test_the_test_would_notice(expression: str, expected: str) -> None:
    assert problems(expression) == [expected]


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for _, target in TARGETS for name, _ in metrics_in(target["expr"])}
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in EXPOSED}
    assert len(families) == 11
    assert families - {re.sub("_(bucket|sum|count)$", "", name) for name in shown} == set()


def test_every_recorded_series_is_used() -> None:
    expressions = [rule["expr"] for rule in RULES] + [target["expr"] for _, target in TARGETS]
    used = {name for expression in expressions for name, _ in metrics_in(expression)}
    assert set(RECORDED) - used == set()


def test_recorded_series_say_level_metric_and_operation() -> None:
    for name in RECORDED:
        assert re.fullmatch(
            r"(job|instance):(kubeauth|rest_client)_\w+:(\w+_)?(sum|sub|increase\d+[mh])", name
        ), name


@each_case("alert", ALERTS, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_an_alert_says_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}
    # The labels that a rule adds are not in $labels, nor are those that its expression drops.
    used = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
    assert used <= ({"job"} if metrics_in(alert["expr"])[0][0].startswith("job:") else OF_THE_TARGET)
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    assert f"\n### {alert['alert']}\n" in (ROOT / page).read_text()


def test_the_runbook_has_no_other_alerts() -> None:
    text = (ROOT / "docs" / "observability.md").read_text()
    assert set(re.findall(r"\bKubeauth[A-Z]\w+", text)) == {alert["alert"] for alert in ALERTS}


def expected_alerts(test: dict[str, Any]) -> set[tuple[str, str | None]]:
    return {
        (each["alertname"], alert["exp_labels"].get("credential"))
        for each in test.get("alert_rule_test", ())
        for alert in each.get("exp_alerts", ())
    }


def test_every_alert_is_seen_to_fire_and_to_keep_quiet() -> None:
    """By promtool, which the end-to-end tests run."""
    alerts = {(alert["alert"], alert["labels"].get("credential")) for alert in ALERTS}
    assert set[tuple[str, str | None]]().union(*map(expected_alerts, TESTS)) == alerts
    quiet = {
        each["alertname"]
        for test in TESTS
        for each in test.get("alert_rule_test", ())
        if not each.get("exp_alerts")
    }
    assert quiet == {alert["alert"] for alert in ALERTS}


def test_the_dashboard_can_be_imported_anywhere() -> None:
    assert (DASHBOARD["uid"], DASHBOARD["id"]) == ("kubeauth", None)
    assert DASHBOARD["schemaVersion"] >= 39
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == [
        "datasource",
        "job",
        "instance",
    ]
    for panel in PANELS:
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert sorted(ids) == sorted(set(ids))


def test_the_dashboard_has_its_rows() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Overview",
        "Plugin runs",
        "Credentials lifetime",
        "Renewals",
        "401",
        "Image credential providers",
    ]


@each_case("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    unit = panel["options"]["yAxis"] if panel["type"] == "heatmap" else panel["fieldConfig"]["defaults"]
    assert unit["unit"] in ("s", "percentunit", "short", "none")


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        rows, columns = range(place["y"], place["y"] + place["h"]), range(place["x"], place["x"] + place["w"])
        for cell in itertools.product(rows, columns):
            assert cell not in taken, (panel["title"], taken[cell])
            taken[cell] = panel["title"]
