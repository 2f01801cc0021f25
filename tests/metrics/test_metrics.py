"""The metrics of plugins and providers, and their collector for Prometheus."""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kubeauth import metrics
from kubeauth._observer import Observer
from kubeauth.metrics import Collector, register
from kubeauth.metrics._recorder import RECORDER, MetricsRecorder
from kubeauth.registry._observer import ProviderObserver

NOW = 1_800_000_000.0
CERTIFICATE_TTL = "rest_client_exec_plugin_ttl_seconds"
TOKEN_TTL = "kubeauth_token_ttl_seconds"
AGE = "rest_client_exec_plugin_certificate_rotation_age"
RATIO = "kubeauth_certificate_rotation_lifetime_ratio"
RUN = "kubeauth_plugin_run_seconds"
CALLS = "rest_client_exec_plugin_call_total"
POLICY = "rest_client_exec_plugin_policy_call_total"
REFRESHES = "kubeauth_credential_refreshes_total"
PROVIDER_RUN = "kubelet_credential_provider_plugin_duration"
PROVIDER_ERRORS = "kubelet_credential_provider_plugin_errors_total"
PROVIDER_CONFIG = "kubelet_credential_provider_config_info"


class Source:
    """A credential source; sources are keys, so any object will do."""


def scrape(recorder: MetricsRecorder, *, now: float = NOW) -> dict[str, Metric]:
    """The metric families as Prometheus parses them."""
    registry = CollectorRegistry()
    registry.register(Collector(recorder, now=lambda: now))
    return parse_families(registry)


def parse_families(registry: CollectorRegistry) -> dict[str, Metric]:
    return {
        family.name: family for family in text_string_to_metric_families(generate_latest(registry).decode())
    }


def value(recorder: MetricsRecorder, name: str, *, now: float = NOW) -> float:
    (sample,) = scrape(recorder, now=now)[name].samples
    assert (sample.name, sample.labels) == (name, {})
    return sample.value


def totals(recorder: MetricsRecorder, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The non-zero series of a counter, by their labels."""
    samples = scrape(recorder)[name.removesuffix("_total")].samples
    assert {sample.name for sample in samples} <= {name}
    return {tuple(sorted(sample.labels.items())): sample.value for sample in samples if sample.value}


def buckets(recorder: MetricsRecorder, name: str) -> dict[float, float]:
    samples = scrape(recorder)[name].samples
    counts = {float(s.labels["le"]): s.value for s in samples if s.name == f"{name}_bucket"}
    (count,) = (sample.value for sample in samples if sample.name == f"{name}_count")
    assert counts[math.inf] == count
    return counts


def total(recorder: MetricsRecorder, name: str) -> float:
    (result,) = (sample.value for sample in scrape(recorder)[name].samples if sample.name == f"{name}_sum")
    return result


@pytest.fixture
def recorder() -> MetricsRecorder:
    return MetricsRecorder()


@pytest.fixture
def default_registry() -> Iterator[CollectorRegistry]:
    """The default registry of prometheus_client; the collector is removed afterwards."""
    yield REGISTRY
    REGISTRY.unregister(register())


def test_the_earliest_expiry_of_all_sources_is_reported_t34_t35_t36_t37_t38(
    recorder: MetricsRecorder,
) -> None:
    first, second = Source(), Source()
    table: list[tuple[Source, float | None, float]] = [
        (first, 600, 600),
        (second, 300, 300),
        (second, 900, 600),
        (first, None, 900),
        (second, None, math.inf),
    ]

    for source, seconds, expected in table:
        expires = None if seconds is None else NOW + seconds
        recorder.on_credential(source, certificate_expires=expires, token_expires=None)
        assert value(recorder, CERTIFICATE_TTL) == expected


def test_tokens_have_their_own_time_to_live_m4(recorder: MetricsRecorder) -> None:
    first, second = Source(), Source()
    recorder.on_credential(first, certificate_expires=NOW + 600, token_expires=NOW + 60)
    recorder.on_credential(second, certificate_expires=None, token_expires=NOW + 30)
    assert (value(recorder, CERTIFICATE_TTL), value(recorder, TOKEN_TTL)) == (600, 30)

    recorder.on_credential(second, certificate_expires=NOW + 10, token_expires=None)
    assert (value(recorder, CERTIFICATE_TTL), value(recorder, TOKEN_TTL)) == (10, 60)


@pytest.mark.parametrize("name", [CERTIFICATE_TTL, TOKEN_TTL])
def test_the_time_to_live_is_computed_at_the_scrape(recorder: MetricsRecorder, name: str) -> None:
    assert value(recorder, name) == math.inf
    source = Source()
    recorder.on_credential(source, certificate_expires=NOW + 5.5, token_expires=NOW + 5.5)
    assert [value(recorder, name, now=NOW + passed) for passed in (0, 5.5, 20)] == [5.5, 0, -14.5]


def test_without_credentials_the_time_to_live_is_inf(recorder: MetricsRecorder) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(recorder))
    assert f"\n{CERTIFICATE_TTL} +Inf\n" in generate_latest(registry).decode()


def test_the_default_clock_is_the_system_time(recorder: MetricsRecorder) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(recorder))
    source = Source()
    recorder.on_credential(source, certificate_expires=0.0, token_expires=None)

    assert parse_families(registry)[CERTIFICATE_TTL].samples[0].value < -1_700_000_000


def test_a_garbage_collected_source_is_not_reported(recorder: MetricsRecorder) -> None:
    garbage, source = Source(), Source()
    recorder.on_credential(garbage, certificate_expires=NOW + 1, token_expires=NOW + 1)
    recorder.on_credential(source, certificate_expires=NOW + 9, token_expires=None)
    assert value(recorder, CERTIFICATE_TTL) == 1

    del garbage
    gc.collect()
    assert (value(recorder, CERTIFICATE_TTL), value(recorder, TOKEN_TTL)) == (9, math.inf)


def test_sources_are_distinguished_by_identity(recorder: MetricsRecorder) -> None:
    sources = [Source() for _ in range(100)]
    for number, source in enumerate(sources):
        recorder.on_credential(source, certificate_expires=NOW + 100 + number, token_expires=None)
    for source in sources[:-1]:
        recorder.on_credential(source, certificate_expires=None, token_expires=None)
    assert value(recorder, CERTIFICATE_TTL) == 199


@pytest.mark.parametrize(
    ("status", "code"),
    [("no_error", 0), ("plugin_execution_error", 2), ("plugin_execution_error", -1),
     ("plugin_not_found_error", 1), ("client_internal_error", 1)],
)  # fmt: skip
def test_calls_are_counted_with_status_and_code_m1(recorder: MetricsRecorder, status: str, code: int) -> None:
    for _ in range(2):
        recorder.on_plugin_run(status=status, code=code, seconds=0.1)
    assert totals(recorder, CALLS) == {(("call_status", status), ("code", str(code))): 2}


def test_calls_are_counted_by_both_labels(recorder: MetricsRecorder) -> None:
    for code in (0, 1, 2, 0):
        for _ in range(2):
            recorder.on_plugin_run(
                status="plugin_execution_error" if code else "no_error", code=code, seconds=0.1
            )
    recorder.on_plugin_run(status="plugin_not_found_error", code=1, seconds=0.0)
    assert totals(recorder, CALLS) == {
        (("call_status", "no_error"), ("code", "0")): 4,
        (("call_status", "plugin_execution_error"), ("code", "1")): 2,
        (("call_status", "plugin_execution_error"), ("code", "2")): 2,
        (("call_status", "plugin_not_found_error"), ("code", "1")): 1,
    }


def test_policy_checks_have_one_label_m5(recorder: MetricsRecorder) -> None:
    for allowed in (True, True, False):
        recorder.on_policy_check(allowed=allowed)
    assert totals(recorder, POLICY) == {(("status", "allowed"),): 2, (("status", "denied"),): 1}


def test_refreshes_have_a_reason_and_a_result(recorder: MetricsRecorder) -> None:
    recorder.on_refresh(reason="refresh_ahead", succeeded=True)
    recorder.on_refresh(reason="refresh_ahead", succeeded=False)
    recorder.on_refresh(reason="unauthorized", succeeded=False)
    recorder.on_refresh(reason="unauthorized", succeeded=False)

    assert totals(recorder, REFRESHES) == {
        (("reason", "refresh_ahead"), ("result", "success")): 1,
        (("reason", "refresh_ahead"), ("result", "failure")): 1,
        (("reason", "unauthorized"), ("result", "failure")): 2,
    }


def test_known_series_start_at_zero(recorder: MetricsRecorder) -> None:
    """`increase` in Prometheus does not see the step from no series to 1."""
    families = scrape(recorder)

    refreshes = {tuple(s.labels.values()) for s in families["kubeauth_credential_refreshes"].samples}
    assert refreshes == {
        (reason, result)
        for reason in ("first", "expired", "refresh_ahead", "unauthorized")
        for result in ("success", "failure")
    }

    policy = families[POLICY.removesuffix("_total")].samples
    assert [(sample.labels, sample.value) for sample in policy] == [
        ({"status": "allowed"}, 0),
        ({"status": "denied"}, 0),
    ]

    calls = families[CALLS.removesuffix("_total")].samples
    assert {(s.labels["call_status"], s.labels["code"]): s.value for s in calls} == {
        ("no_error", "0"): 0,
        ("plugin_execution_error", "1"): 0,
        ("plugin_execution_error", "-1"): 0,
        ("plugin_not_found_error", "1"): 0,
        ("client_internal_error", "1"): 0,
    }


def test_rotation_ages_have_the_buckets_of_client_go(recorder: MetricsRecorder) -> None:
    bounds = [600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000]
    assert buckets(recorder, AGE) == dict.fromkeys([*map(float, bounds), math.inf], 0)


@pytest.mark.parametrize(
    ("age", "smallest"),
    [(0, 600), (599.9, 600), (600, 600), (600.001, 1800), (86400, 86400), (86401, 604800),
     (124416000, 124416000), (124416001, math.inf), (-5, 600)],
)  # fmt: skip
def test_the_upper_bound_of_a_bucket_is_inclusive(
    recorder: MetricsRecorder, age: float, smallest: float
) -> None:
    recorder.on_certificate_rotated(age=age, lifetime=86400)
    for bound, count in buckets(recorder, AGE).items():
        assert count == (bound >= smallest)


def test_buckets_are_cumulative(recorder: MetricsRecorder) -> None:
    for age in (1, 600, 601, 3600, 5000, 10**9):
        recorder.on_certificate_rotated(age=age, lifetime=10**9)
    assert list(buckets(recorder, AGE).values()) == [2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6]
    assert total(recorder, AGE) == 1 + 600 + 601 + 3600 + 5000 + 10**9


def test_a_sum_never_decreases(recorder: MetricsRecorder) -> None:
    recorder.on_certificate_rotated(age=100, lifetime=1000)
    recorder.on_certificate_rotated(age=-3600, lifetime=1000)  # a clock was set back
    assert (total(recorder, AGE), buckets(recorder, AGE)[math.inf]) == (100, 2)
    assert (total(recorder, RATIO), buckets(recorder, RATIO)[math.inf]) == (0.1, 2)


def test_rotations_within_one_percent_of_the_expiry_can_be_computed(recorder: MetricsRecorder) -> None:
    """The objective of the KEP, for certificates of any lifetime."""
    hour, year = 3600, 31_536_000
    for lifetime, share in [(hour, 0.9), (year, 0.995), (hour, 1.005), (year, 1.2), (hour, 7)]:
        recorder.on_certificate_rotated(age=lifetime * share, lifetime=lifetime)

    counts = buckets(recorder, RATIO)

    assert counts[1.01] - counts[0.99] == 2
    assert counts[math.inf] - counts[1.0] == 3  # had expired before
    assert counts[0.9] == 1
    assert total(recorder, RATIO) == pytest.approx(0.9 + 0.995 + 1.005 + 1.2 + 7)


@pytest.mark.parametrize("lifetime", [0, -1])
def test_a_certificate_without_a_lifetime_has_no_lifetime_ratio(
    recorder: MetricsRecorder, lifetime: float
) -> None:
    recorder.on_certificate_rotated(age=10, lifetime=lifetime)
    assert (buckets(recorder, AGE)[math.inf], buckets(recorder, RATIO)[math.inf]) == (1, 0)


def test_run_durations_are_a_histogram(recorder: MetricsRecorder) -> None:
    for seconds in (0.04, 0.25, 3, 60, 60.2, 1000):
        recorder.on_plugin_run(status="no_error", code=0, seconds=seconds)
    counts = buckets(recorder, RUN)
    assert [counts[bound] for bound in (0.05, 0.25, 5, 60, 300, math.inf)] == [1, 2, 3, 4, 5, 6]
    assert total(recorder, RUN) == pytest.approx(1123.49)


def record_everything(recorder: MetricsRecorder, source: object) -> None:
    recorder.on_policy_check(allowed=True)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    recorder.on_refresh(reason="first", succeeded=True)
    recorder.on_credential(source, certificate_expires=NOW + 60, token_expires=NOW + 60)
    recorder.on_certificate_rotated(age=10, lifetime=100)
    recorder.on_config_loaded(hash="sha256:00", providers=["ecr"])
    recorder.on_provider_run(provider="ecr", seconds=0.2, failed=True)


def test_providers_have_the_metrics_of_the_kubelet(recorder: MetricsRecorder) -> None:
    """6.1-6.3."""
    families = scrape(recorder)
    assert [families[name].samples for name in (PROVIDER_CONFIG, PROVIDER_RUN)] == [[], []]

    recorder.on_config_loaded(hash="sha256:01", providers=["ecr", "acr"])
    recorder.on_config_loaded(hash="sha256:02", providers=["ecr"])
    recorder.on_provider_run(provider="ecr", seconds=0.2, failed=False)
    recorder.on_provider_run(provider="ecr", seconds=20, failed=True)
    families = scrape(recorder)

    # Only the last configuration is reported. A provider has an error count of zero before it fails.
    assert [(s.labels, s.value) for s in families[PROVIDER_CONFIG].samples] == [({"hash": "sha256:02"}, 1)]

    errors = families[PROVIDER_ERRORS.removesuffix("_total")].samples
    assert {s.labels["plugin_name"]: s.value for s in errors} == {"ecr": 1, "acr": 0}

    runs = families[PROVIDER_RUN].samples
    assert {s.labels["plugin_name"] for s in runs} == {"ecr"}

    counts = {s.labels["le"]: s.value for s in runs if s.name.endswith("_bucket")}
    assert list(counts) == [
        "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf",
    ]  # fmt: skip
    assert (counts["0.1"], counts["0.25"], counts["10.0"], counts["+Inf"]) == (0, 1, 1, 2)


def test_names_and_types_of_all_metrics(recorder: MetricsRecorder) -> None:
    source = Source()
    record_everything(recorder, source)
    registry = CollectorRegistry()
    registry.register(Collector(recorder))
    lines = generate_latest(registry).decode().splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}

    assert kinds == {
        CERTIFICATE_TTL: "gauge", TOKEN_TTL: "gauge", AGE: "histogram", RATIO: "histogram", RUN: "histogram",
        CALLS: "counter", POLICY: "counter", REFRESHES: "counter",
        PROVIDER_RUN: "histogram", PROVIDER_ERRORS: "counter", PROVIDER_CONFIG: "gauge",
    }  # fmt: skip

    with_help = {line.split()[2] for line in lines if line.startswith("# HELP ") and len(line.split()) > 8}
    assert with_help == set(kinds)

    names = {line.partition(" ")[0].partition("{")[0] for line in lines if not line.startswith("#")}
    histograms = {
        f"{name}_{part}" for name in (AGE, RATIO, RUN, PROVIDER_RUN) for part in ("bucket", "sum", "count")
    }
    plain = {CERTIFICATE_TTL, TOKEN_TTL, CALLS, POLICY, REFRESHES, PROVIDER_ERRORS, PROVIDER_CONFIG}
    assert names == plain | histograms


def test_the_openmetrics_format_is_supported(recorder: MetricsRecorder) -> None:
    source = Source()
    record_everything(recorder, source)
    registry = CollectorRegistry()
    registry.register(Collector(recorder))
    # prometheus_client has no types for these two.
    render: Callable[[CollectorRegistry], bytes] = generate_openmetrics
    parse: Callable[[str], Iterable[Metric]] = parse_openmetrics

    assert len([family.name for family in parse(render(registry).decode())]) == 11


def test_the_recorder_implements_both_observers() -> None:
    observer: Observer = MetricsRecorder()
    for name in (name for name in vars(Observer) if not name.startswith("_")):
        assert callable(getattr(observer, name))
    provider_observer: ProviderObserver = MetricsRecorder()
    for name in (name for name in vars(ProviderObserver) if not name.startswith("_")):
        assert callable(getattr(provider_observer, name))


def test_describe_lists_all_collected_families(recorder: MetricsRecorder) -> None:
    source = Source()
    record_everything(recorder, source)
    collector = Collector(recorder)
    described = [(family.name, family.type) for family in collector.describe()]

    assert described == [(family.name, family.type) for family in collector.collect()]


def test_registering_does_not_collect() -> None:
    def now() -> float:
        raise AssertionError("collected")

    for auto_describe in (True, False):
        CollectorRegistry(auto_describe=auto_describe).register(Collector(now=now))


def test_a_custom_registry_shows_the_metrics_of_the_process() -> None:
    registry = CollectorRegistry()
    collector = register(registry)
    before = registry.get_sample_value(POLICY, {"status": "denied"})
    assert before is not None
    RECORDER.on_policy_check(allowed=False)

    assert registry.get_sample_value(POLICY, {"status": "denied"}) == before + 1
    assert isinstance(collector, Collector)
    assert REGISTRY.get_sample_value(POLICY, {"status": "denied"}) is None


def test_registering_twice_returns_the_same_collector() -> None:
    registry, other = CollectorRegistry(), CollectorRegistry()
    collector = register(registry)

    assert register(registry) is collector
    assert register(other) is not collector
    assert generate_latest(registry).decode().count(f"# TYPE {CALLS} ") == 1


def test_the_default_registry_is_that_of_prometheus_client(default_registry: CollectorRegistry) -> None:
    collector = register()
    assert register() is register(default_registry) is collector
    assert CERTIFICATE_TTL in parse_families(default_registry)


def test_a_collector_can_be_registered_again() -> None:
    registry = CollectorRegistry()
    collector = register(registry)
    registry.unregister(collector)

    assert parse_families(registry) == {}
    assert register(registry) is collector
    assert CERTIFICATE_TTL in parse_families(registry)


def test_registering_names_that_are_in_use_raises() -> None:
    registry = CollectorRegistry()
    registry.register(Collector())
    for _ in range(2):
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            register(registry)


def test_registries_are_not_kept_alive() -> None:
    registry = CollectorRegistry()
    register(registry)
    reference = weakref.ref(registry)
    del registry
    gc.collect()

    assert reference() is None


def test_registering_from_many_threads_returns_one_collector() -> None:
    registry = CollectorRegistry()
    barrier = threading.Barrier(16)
    collectors: list[Collector] = []

    def register_once() -> None:
        barrier.wait(60)
        collectors.append(register(registry))

    threads = [threading.Thread(target=register_once) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(collectors) == 16
    assert len(set(collectors)) == 1


@pytest.mark.parametrize(
    "code", ["import kubeauth", "import kubeauth.metrics", "from kubeauth import metrics"]
)
def test_importing_metrics_neither_imports_prometheus_client_nor_registers(code: str) -> None:
    program = f"""
{code}
import json, sys
is_imported = "prometheus_client" in sys.modules
from prometheus_client import generate_latest
print(json.dumps([is_imported, "exec_plugin" in generate_latest().decode()]))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == [False, False]


@pytest.mark.slow
def test_concurrent_updates_are_not_lost(recorder: MetricsRecorder) -> None:
    workers, rounds = 8, 500
    barrier = threading.Barrier(workers + 1)
    all_sources: list[list[Source]] = []

    def work() -> None:
        sources = [Source() for _ in range(rounds)]
        all_sources.append(sources)  # sources must outlive their thread
        barrier.wait(60)
        for source in sources:
            record_everything(recorder, source)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        barrier.wait(60)
        for _ in range(20):
            # A scrape is consistent: each call has its duration.
            families = scrape(recorder)
            (runs,) = (sample.value for sample in families[RUN].samples if sample.name == f"{RUN}_count")
            assert sum(sample.value for sample in families[CALLS.removesuffix("_total")].samples) == runs
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)

    expected = workers * rounds

    assert set(totals(recorder, CALLS).values()) == {expected}
    assert set(totals(recorder, POLICY).values()) == {expected}
    assert set(totals(recorder, REFRESHES).values()) == {expected}
    for name in (AGE, RATIO, RUN):
        assert buckets(recorder, name)[math.inf] == expected
    assert total(recorder, AGE) == 10 * expected
    assert value(recorder, CERTIFICATE_TTL) == 60


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")
def test_a_signal_handler_can_record_while_the_lock_is_held(recorder: MetricsRecorder) -> None:
    with recorder._lock:
        # Python runs the handler in this thread, which holds the lock.
        signal_handler = signal.signal(signal.SIGUSR1, lambda *_: recorder.on_policy_check(allowed=True))
        try:
            signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, signal_handler)
    assert totals(recorder, POLICY) == {(("status", "allowed"),): 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["new", "process-wide"])
def test_a_forked_child_can_record_although_the_locks_were_held(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = MetricsRecorder() if kind == "new" else RECORDER
    # A source of another test may still exist, with a credential that expires earlier.
    monkeypatch.setattr(recorder, "_expiries", weakref.WeakKeyDictionary())
    source = Source()
    recorder.on_credential(source, certificate_expires=NOW + 60, token_expires=None)
    is_held, can_release = threading.Event(), threading.Event()

    def hold_locks() -> None:
        with metrics._register_lock, recorder._lock:
            is_held.set()
            can_release.wait(60)

    before = totals(recorder, REFRESHES).get((("reason", "refresh_ahead"), ("result", "success")), 0)
    holder = threading.Thread(target=hold_locks)
    holder.start()

    assert is_held.wait(60)

    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs must not outlive the test
        try:
            recorder.on_refresh(reason="refresh_ahead", succeeded=True)
            after = totals(recorder, REFRESHES)[(("reason", "refresh_ahead"), ("result", "success"))]
            assert after == before + 1
            assert value(recorder, CERTIFICATE_TTL) == 60  # inherited from the parent
            register(CollectorRegistry())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    _, status = os.waitpid(child, 0)
    can_release.set()
    holder.join(60)

    assert os.waitstatus_to_exitcode(status) == 0
    assert totals(recorder, REFRESHES).get((("reason", "refresh_ahead"), ("result", "success")), 0) == before
