"""The multiprocess mode of prometheus_client. tests/project/test_guides.py uses real processes."""

from __future__ import annotations

import gc
import logging
import math
import os
import shutil
import signal
import threading
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path

import prometheus_client.values
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.parser import text_string_to_metric_families

from kubeauth.gmsa._reviews import ReviewMetrics
from kubeauth.metrics import Collector
from kubeauth.metrics._families import POLICY_CALLS
from kubeauth.metrics._multiprocess import MULTIPROCESS_WRITER, MultiprocessWriter
from kubeauth.metrics._recorder import MetricsRecorder
from tests.metrics.test_metrics import NOW, Source

CALLS = "rest_client_exec_plugin_call_total,call_status=no_error,code=0"
TTL = "kubeauth_token_ttl_seconds"
CERTIFICATE_TTL = "rest_client_exec_plugin_ttl_seconds"
EXPIRES = "kubeauth_token_expiration_timestamp_seconds"
HASH = "kubelet_credential_provider_config_info,hash="


class Processes:
    """The number of the current process. prometheus_client reads it at each call, to detect a fork."""

    def __init__(self) -> None:
        self.current = 101
        self.recorders = {101: build_recorder()}

    def switch_to(self, number: int) -> MetricsRecorder:
        """Return the recorder of that process."""
        self.current = number
        return self.recorders.setdefault(number, build_recorder())


def build_recorder() -> MetricsRecorder:
    recorder = MetricsRecorder()
    recorder.multiprocess_writer = MultiprocessWriter()
    return recorder


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shared"
    path.mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(path))
    return path


@pytest.fixture
def processes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    processes = Processes()
    values = prometheus_client.values.MultiProcessValue(lambda: processes.current)
    monkeypatch.setattr(prometheus_client.values, "ValueClass", values)
    yield processes
    values.close_all_files()


def scrape(recorder: MetricsRecorder, *, now: float = NOW) -> dict[str, float]:
    """The values by series, as Prometheus parses them."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    registry.register(Collector(recorder, now=lambda: now))
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            series = sample.name + "".join(
                f",{name}={label}" for name, label in sorted(sample.labels.items())
            )
            assert series not in values
            values[series] = sample.value
    return values


def test_counters_and_histograms_are_summed_over_processes(processes: Processes) -> None:
    for number, seconds in ((101, 0.2), (102, 0.2), (103, -1.0)):
        recorder = processes.switch_to(number)
        recorder.on_plugin_run(status="no_error", code=0, seconds=seconds)
        recorder.on_refresh(reason="first", succeeded=True)
        recorder.on_policy_check(allowed=True)
        recorder.on_certificate_rotated(age=700, lifetime=1000)
        recorder.on_provider_run(provider="p", seconds=0.5, failed=number == 101)

    for number in (101, 103):  # any process can be scraped
        values = scrape(processes.switch_to(number))
        assert values[CALLS] == 3
        assert values["kubeauth_credential_refreshes_total,reason=first,result=success"] == 3
        assert values["rest_client_exec_plugin_policy_call_total,status=allowed"] == 3
        run = "kubeauth_plugin_run_seconds"
        assert (values[f"{run}_count"], values[f"{run}_sum"]) == (3, 0.4)
        assert [values[f"{run}_bucket,le={le}"] for le in ("0.05", "0.1", "0.25", "+Inf")] == [1, 1, 3, 3]
        assert values["kubeauth_certificate_rotation_lifetime_ratio_bucket,le=0.75"] == 3
        assert values["kubelet_credential_provider_plugin_duration_count,plugin_name=p"] == 3
        assert values["kubelet_credential_provider_plugin_errors_total,plugin_name=p"] == 1


def test_series_are_the_same_as_without_multiprocess_mode(processes: Processes) -> None:
    """Except the expiration timestamps, from which the times to live are computed."""
    single = MetricsRecorder()
    multiprocess = processes.switch_to(101)
    source = Source()
    for recorder in (single, multiprocess):
        recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
        recorder.on_credential(source, certificate_expires=NOW + 9, token_expires=NOW + 5)
        recorder.on_config_loaded(hash="h", providers=["p"])
        recorder.on_provider_run(provider="p", seconds=0.5, failed=False)
        recorder.on_certificate_rotated(age=700, lifetime=1000)
    registry = CollectorRegistry()
    registry.register(Collector(single, now=lambda: NOW))
    expected = {
        sample.name
        + "".join(f",{name}={label}" for name, label in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }

    values = scrape(multiprocess)

    assert {name: value for name, value in values.items() if "_expiration_timestamp_" not in name} == expected
    assert values[f"{EXPIRES},pid=101"] == NOW + 5


def test_known_series_start_at_zero(processes: Processes) -> None:
    values = scrape(processes.switch_to(101))

    assert values[CALLS] == 0
    assert values["kubeauth_credential_refreshes_total,reason=refresh_ahead,result=failure"] == 0
    assert values["rest_client_exec_plugin_policy_call_total,status=denied"] == 0
    assert values["kubeauth_plugin_run_seconds_count"] == 0
    assert (values[TTL], values[CERTIFICATE_TTL]) == (math.inf, math.inf)


def test_the_earliest_expiry_of_all_live_processes_is_reported(processes: Processes) -> None:
    sources = [Source(), Source(), Source()]
    for number, source, seconds in zip((101, 102, 103), sources, (600, 300, None), strict=True):
        recorder = processes.switch_to(number)
        recorder.on_credential(
            source, certificate_expires=None, token_expires=None if seconds is None else NOW + seconds
        )
    # A process without a credential writes 0, which is not an expiry.
    processes.switch_to(104).on_refresh(reason="first", succeeded=False)
    processes.switch_to(103)

    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (300, math.inf)
    assert scrape(recorder, now=NOW + 301)[TTL] == -1

    processes.switch_to(102).on_credential(sources[1], certificate_expires=NOW + 7, token_expires=NOW + 900)
    processes.switch_to(103)
    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (600, 7)

    mark_process_dead(101)
    assert scrape(recorder)[TTL] == 900

    mark_process_dead(102)
    assert scrape(recorder)[TTL] == math.inf


def test_a_scrape_removes_the_expiry_of_a_garbage_collected_source(
    processes: Processes,
) -> None:
    recorder = processes.switch_to(101)
    source, other = Source(), Source()
    recorder.on_credential(source, certificate_expires=NOW + 9, token_expires=NOW + 5)
    recorder.on_credential(other, certificate_expires=None, token_expires=NOW + 600)

    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (5, 9)

    del source
    gc.collect()
    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (600, math.inf)
    assert scrape(processes.switch_to(102))[TTL] == 600  # in other processes too


def test_the_last_provider_configuration_is_reported(processes: Processes) -> None:
    recorder = processes.switch_to(101)
    recorder.on_config_loaded(hash="old", providers=["p"])
    recorder.on_config_loaded(hash="new", providers=["p"])
    values = scrape(recorder)

    assert (values[f"{HASH}old"], values[f"{HASH}new"]) == (0, 1)
    assert values["kubelet_credential_provider_plugin_errors_total,plugin_name=p"] == 0

    processes.switch_to(102).on_config_loaded(hash="old", providers=[])
    assert scrape(recorder)[f"{HASH}old"] == 1


def test_a_missing_directory_is_logged_and_registering_raises(
    processes: Processes, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(directory)
    recorder = processes.switch_to(101)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            recorder.on_refresh(reason="first", succeeded=True)

    (record,) = caplog.records

    assert "cannot write metrics for multiprocess mode: " in record.getMessage()
    assert str(directory) in record.getMessage()
    with pytest.raises(OSError, match="No such file"):
        CollectorRegistry().register(Collector(recorder))


def test_a_directory_created_late_is_used_after_the_first_scrape(
    processes: Processes, directory: Path
) -> None:
    directory.rmdir()
    recorder = processes.switch_to(101)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    directory.mkdir()

    assert scrape(recorder)[CALLS] == 0

    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    assert scrape(recorder)[CALLS] == 1


def test_a_forked_child_uses_a_directory_created_late(processes: Processes, directory: Path) -> None:
    directory.rmdir()
    recorder = processes.switch_to(101)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    directory.mkdir()
    processes.current = 102
    assert recorder.multiprocess_writer is not None
    recorder.multiprocess_writer.after_fork_in_child()
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)

    assert scrape(processes.switch_to(103))[CALLS] == 1


def test_recording_to_closed_files_is_logged(processes: Processes, caplog: pytest.LogCaptureFixture) -> None:
    recorder = processes.switch_to(101)
    recorder.on_refresh(reason="first", succeeded=True)
    prometheus_client.values.close_all_multiprocess_files()
    recorder.on_refresh(reason="first", succeeded=True)

    assert "cannot write metrics" in caplog.text


def test_a_forked_child_has_a_new_lock_and_an_empty_queue() -> None:
    writer = MultiprocessWriter()
    writer._lock.acquire()
    writer._is_writing = True
    writer._queue.append((POLICY_CALLS, ("allowed",), 1))
    writer.after_fork_in_child()
    acquired: list[bool] = []
    thread = threading.Thread(target=lambda: acquired.append(writer._lock.acquire(timeout=0)))
    thread.start()
    thread.join()

    assert (acquired, writer._is_writing, len(writer._queue)) == ([True], False, 0)


def test_setting_the_variable_after_the_import_has_no_effect(directory: Path) -> None:
    """prometheus_client reads the variable when it is imported."""
    recorder = build_recorder()
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    registry = CollectorRegistry()
    registry.register(Collector(recorder))

    assert b'rest_client_exec_plugin_call_total{call_status="no_error",code="0"} 1.0' in generate_latest(
        registry
    )
    assert list(directory.iterdir()) == []


@pytest.mark.filterwarnings("ignore:prometheus_multiproc_dir:DeprecationWarning")
def test_the_deprecated_variable_name_is_supported(
    processes: Processes, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    monkeypatch.setenv("prometheus_multiproc_dir", str(directory))
    recorder = processes.switch_to(101)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)

    assert scrape(recorder)[CALLS] == 1


def test_a_recorder_without_a_writer_is_not_shared(processes: Processes, directory: Path) -> None:
    recorder = MetricsRecorder()
    recorder.on_refresh(reason="first", succeeded=True)
    assert len(Collector(recorder).collect()) > 5
    assert list(directory.iterdir()) == []


def test_the_webhook_reports_the_metrics_of_all_workers(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = processes.switch_to(101)
    writer = recorder.multiprocess_writer
    monkeypatch.setattr("kubeauth.metrics.RECORDER.multiprocess_writer", writer)
    # A source of another test may still exist, with a credential that expires.
    monkeypatch.setattr("kubeauth.metrics.RECORDER._expiries", weakref.WeakKeyDictionary())
    monkeypatch.setattr("kubeauth.gmsa._reviews.MULTIPROCESS_WRITER", writer)
    metrics = ReviewMetrics()
    for number in (101, 102):
        processes.switch_to(number)
        metrics.answered("/validate", "CREATE", 200, 0.01)

    text = metrics.shown()[0].decode()

    assert 'kubeauth_gmsa_reviews_total{code="200",operation="CREATE",path="/validate"} 2.0' in text
    assert f"\n{TTL} +Inf\n" in text


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")
def test_updates_of_a_signal_handler_are_queued_for_the_interrupted_writer(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal arrives inside prometheus_client, which holds a lock that is not reentrant."""
    recorder = processes.switch_to(101)
    recorder.on_refresh(reason="first", succeeded=True)
    value = prometheus_client.values.ValueClass
    inc = value.inc

    def inc_with_signal(self: object, amount: float) -> None:
        monkeypatch.setattr(value, "inc", inc)
        signal.raise_signal(signal.SIGUSR1)
        assert recorder.multiprocess_writer is not None
        assert len(recorder.multiprocess_writer._queue) == 1
        inc(self, amount)

    monkeypatch.setattr(value, "inc", inc_with_signal)
    before = signal.signal(signal.SIGUSR1, lambda *_: recorder.on_policy_check(allowed=True))
    try:
        recorder.on_refresh(reason="first", succeeded=True)
    finally:
        signal.signal(signal.SIGUSR1, before)

    values = scrape(recorder)

    assert values["kubeauth_credential_refreshes_total,reason=first,result=success"] == 2
    assert values["rest_client_exec_plugin_policy_call_total,status=allowed"] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_waits_for_the_writer_up_to_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    is_held, can_release = threading.Event(), threading.Event()

    def hold_lock() -> None:
        with MULTIPROCESS_WRITER._lock:
            is_held.set()
            can_release.wait(60)

    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            try:
                assert MULTIPROCESS_WRITER._lock.acquire(timeout=60)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    writer = threading.Thread(target=hold_lock)
    writer.start()

    assert is_held.wait(60)

    monkeypatch.setattr("kubeauth.metrics._multiprocess._FORK_TIMEOUT", 0.01)
    assert fork() == 0  # after the timeout; the child has a lock of its own

    monkeypatch.setattr("kubeauth.metrics._multiprocess._FORK_TIMEOUT", 60.0)
    threading.Timer(0.1, can_release.set).start()
    assert fork() == 0
    assert can_release.is_set()  # the fork waited for it

    writer.join()
    assert MULTIPROCESS_WRITER._lock.acquire(timeout=60)  # the parent has released it

    MULTIPROCESS_WRITER._lock.release()
