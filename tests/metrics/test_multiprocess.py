"""What processes count together, in prometheus_client's multiprocess mode. tests/project/test_guides.py has real ones."""

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
ENDS = "kubeauth_token_expiration_timestamp_seconds"
HASH = "kubelet_credential_provider_config_info,hash="


class Processes:
    """Which one this is. prometheus_client asks each time, so that it notices a fork."""

    def __init__(self) -> None:
        self.current = 101
        self.recorders = {101: recorder_with_files()}

    def become(self, number: int) -> MetricsRecorder:
        """Another one, which has counted nothing, or the same as before."""
        self.current = number
        return self.recorders.setdefault(number, recorder_with_files())


def recorder_with_files() -> MetricsRecorder:
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
    here = Processes()
    values = prometheus_client.values.MultiProcessValue(lambda: here.current)
    monkeypatch.setattr(prometheus_client.values, "ValueClass", values)
    yield here
    values.close_all_files()


def scrape(recorder: MetricsRecorder, *, now: float = NOW) -> dict[str, float]:
    """What Prometheus would read, by series."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    registry.register(Collector(recorder, now=lambda: now))
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            series = sample.name + "".join(f",{name}={it}" for name, it in sorted(sample.labels.items()))
            assert series not in found
            found[series] = sample.value
    return found


def test_counters_and_histograms_are_added_up(processes: Processes) -> None:
    for number, seconds in ((101, 0.2), (102, 0.2), (103, -1.0)):
        recorder = processes.become(number)
        recorder.on_plugin_run(status="no_error", code=0, seconds=seconds)
        recorder.on_refresh(reason="first", succeeded=True)
        recorder.on_policy_check(allowed=True)
        recorder.on_certificate_rotated(age=700, lifetime=1000)
        recorder.on_provider_run(provider="p", seconds=0.5, failed=number == 101)
    for number in (101, 103):  # whoever is scraped
        shown = scrape(processes.become(number))
        assert shown[CALLS] == 3
        assert shown["kubeauth_credential_refreshes_total,reason=first,result=success"] == 3
        assert shown["rest_client_exec_plugin_policy_call_total,status=allowed"] == 3
        run = "kubeauth_plugin_run_seconds"
        assert (shown[f"{run}_count"], shown[f"{run}_sum"]) == (3, 0.4)
        assert [shown[f"{run}_bucket,le={le}"] for le in ("0.05", "0.1", "0.25", "+Inf")] == [1, 1, 3, 3]
        assert shown["kubeauth_certificate_rotation_lifetime_ratio_bucket,le=0.75"] == 3
        assert shown["kubelet_credential_provider_plugin_duration_count,plugin_name=p"] == 3
        assert shown["kubelet_credential_provider_plugin_errors_total,plugin_name=p"] == 1


def test_all_that_one_process_shows_many_show_by_the_same_names(processes: Processes) -> None:
    """But for the ends that the times to live are made of, and what nobody has counted yet."""
    alone = MetricsRecorder()
    together = processes.become(101)
    source = Source()
    for recorder in (alone, together):
        recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
        recorder.on_credential(source, certificate_expires=NOW + 9, token_expires=NOW + 5)
        recorder.on_config_loaded(hash="h", providers=["p"])
        recorder.on_provider_run(provider="p", seconds=0.5, failed=False)
        recorder.on_certificate_rotated(age=700, lifetime=1000)
    registry = CollectorRegistry()
    registry.register(Collector(alone, now=lambda: NOW))
    expected = {
        sample.name + "".join(f",{name}={it}" for name, it in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }
    shown = scrape(together)
    assert {name: it for name, it in shown.items() if "_expiration_timestamp_" not in name} == expected
    assert shown[f"{ENDS},pid=101"] == NOW + 5


def test_series_are_there_from_the_start(processes: Processes) -> None:
    shown = scrape(processes.become(101))
    assert shown[CALLS] == 0
    assert shown["kubeauth_credential_refreshes_total,reason=refresh_ahead,result=failure"] == 0
    assert shown["rest_client_exec_plugin_policy_call_total,status=denied"] == 0
    assert shown["kubeauth_plugin_run_seconds_count"] == 0
    assert (shown[TTL], shown[CERTIFICATE_TTL]) == (math.inf, math.inf)


def test_the_soonest_end_of_all_processes_counts_until_its_process_is_dead(processes: Processes) -> None:
    sources = [Source(), Source(), Source()]
    for number, source, ends in zip((101, 102, 103), sources, (600, 300, None), strict=True):
        recorder = processes.become(number)
        recorder.on_credential(
            source, certificate_expires=None, token_expires=None if ends is None else NOW + ends
        )
    # One that has counted something, and holds no credential, has written 0 there: that is no end.
    processes.become(104).on_refresh(reason="first", succeeded=False)
    processes.become(103)
    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (300, math.inf)
    assert scrape(recorder, now=NOW + 301)[TTL] == -1
    processes.become(102).on_credential(sources[1], certificate_expires=NOW + 7, token_expires=NOW + 900)
    processes.become(103)
    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (600, 7)
    mark_process_dead(101)
    assert scrape(recorder)[TTL] == 900
    mark_process_dead(102)
    assert scrape(recorder)[TTL] == math.inf


def test_the_end_of_a_credential_that_is_gone_is_gone_when_its_process_is_scraped(
    processes: Processes,
) -> None:
    recorder = processes.become(101)
    source, other = Source(), Source()
    recorder.on_credential(source, certificate_expires=NOW + 9, token_expires=NOW + 5)
    recorder.on_credential(other, certificate_expires=None, token_expires=NOW + 600)
    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (5, 9)
    del source
    gc.collect()
    assert (scrape(recorder)[TTL], scrape(recorder)[CERTIFICATE_TTL]) == (600, math.inf)
    assert scrape(processes.become(102))[TTL] == 600  # its siblings know


def test_the_configuration_of_providers_that_was_loaded_last(processes: Processes) -> None:
    recorder = processes.become(101)
    recorder.on_config_loaded(hash="old", providers=["p"])
    recorder.on_config_loaded(hash="new", providers=["p"])
    shown = scrape(recorder)
    assert (shown[f"{HASH}old"], shown[f"{HASH}new"]) == (0, 1)
    assert shown["kubelet_credential_provider_plugin_errors_total,plugin_name=p"] == 0
    processes.become(102).on_config_loaded(hash="old", providers=[])
    assert scrape(recorder)[f"{HASH}old"] == 1


def test_without_the_directory_counting_goes_on_and_registering_says_so(
    processes: Processes, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(directory)
    recorder = processes.become(101)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            recorder.on_refresh(reason="first", succeeded=True)
    (record,) = caplog.records
    assert "cannot write metrics for multiprocess mode: " in record.getMessage()
    assert str(directory) in record.getMessage()
    with pytest.raises(OSError, match="No such file"):
        CollectorRegistry().register(Collector(recorder))


def test_a_directory_that_comes_late_is_used_from_the_first_scrape_on(
    processes: Processes, directory: Path
) -> None:
    directory.rmdir()
    recorder = processes.become(101)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    directory.mkdir()
    assert scrape(recorder)[CALLS] == 0
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    assert scrape(recorder)[CALLS] == 1


def test_a_child_of_one_that_counted_too_early_looks_for_itself(
    processes: Processes, directory: Path
) -> None:
    directory.rmdir()
    recorder = processes.become(101)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    directory.mkdir()
    processes.current = 102
    assert recorder.multiprocess_writer is not None
    recorder.multiprocess_writer.after_fork_in_child()
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    assert scrape(processes.become(103))[CALLS] == 1


def test_files_that_somebody_has_closed_are_no_fault_of_who_counts(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = processes.become(101)
    recorder.on_refresh(reason="first", succeeded=True)
    prometheus_client.values.close_all_multiprocess_files()
    recorder.on_refresh(reason="first", succeeded=True)
    assert "cannot write metrics" in caplog.text


def test_in_a_child_the_lock_is_a_new_one_and_what_the_parent_would_write_is_the_parents() -> None:
    writer = MultiprocessWriter()
    writer._lock.acquire()
    writer._is_writing = True
    writer._queue.append((POLICY_CALLS, ("allowed",), 1))
    writer.after_fork_in_child()
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(writer._lock.acquire(timeout=0)))
    thread.start()
    thread.join()
    assert (found, writer._is_writing, len(writer._queue)) == ([True], False, 0)


def test_an_environment_that_came_too_late_changes_nothing(directory: Path) -> None:
    """prometheus_client looked when it was imported: no metric of anybody's is in those files."""
    recorder = recorder_with_files()
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    registry = CollectorRegistry()
    registry.register(Collector(recorder))
    assert b'rest_client_exec_plugin_call_total{call_status="no_error",code="0"} 1.0' in generate_latest(
        registry
    )
    assert list(directory.iterdir()) == []


@pytest.mark.filterwarnings("ignore:prometheus_multiproc_dir:DeprecationWarning")
def test_the_old_name_of_the_variable_is_as_good(
    processes: Processes, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    monkeypatch.setenv("prometheus_multiproc_dir", str(directory))
    recorder = processes.become(101)
    recorder.on_plugin_run(status="no_error", code=0, seconds=0.2)
    assert scrape(recorder)[CALLS] == 1


def test_what_somebody_counts_beside_is_not_shared(processes: Processes, directory: Path) -> None:
    recorder = MetricsRecorder()
    recorder.on_refresh(reason="first", succeeded=True)
    assert len(Collector(recorder).collect()) > 5
    assert list(directory.iterdir()) == []


def test_the_webhook_shows_those_of_all_its_workers(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = processes.become(101)
    writer = recorder.multiprocess_writer
    monkeypatch.setattr("kubeauth.metrics.RECORDER.multiprocess_writer", writer)
    # Of another test there may still be a source, with a credential that ends.
    monkeypatch.setattr("kubeauth.metrics.RECORDER._expiries", weakref.WeakKeyDictionary())
    monkeypatch.setattr("kubeauth.gmsa._reviews.MULTIPROCESS_WRITER", writer)
    metrics = ReviewMetrics()
    for number in (101, 102):
        processes.become(number)
        metrics.answered("/validate", "CREATE", 200, 0.01)
    text = metrics.shown()[0].decode()
    assert 'kubeauth_gmsa_reviews_total{code="200",operation="CREATE",path="/validate"} 2.0' in text
    assert f"\n{TTL} +Inf\n" in text


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_a_signal_handler_leaves_its_numbers_to_whom_it_interrupted(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of prometheus_client, which holds a lock that is not reentrant."""
    recorder = processes.become(101)
    recorder.on_refresh(reason="first", succeeded=True)
    value = prometheus_client.values.ValueClass
    inc = value.inc

    def interrupted(self: object, amount: float) -> None:
        monkeypatch.setattr(value, "inc", inc)
        signal.raise_signal(signal.SIGUSR1)
        assert recorder.multiprocess_writer is not None
        assert len(recorder.multiprocess_writer._queue) == 1  # it was left
        inc(self, amount)

    monkeypatch.setattr(value, "inc", interrupted)
    before = signal.signal(signal.SIGUSR1, lambda *_: recorder.on_policy_check(allowed=True))
    try:
        recorder.on_refresh(reason="first", succeeded=True)
    finally:
        signal.signal(signal.SIGUSR1, before)
    shown = scrape(recorder)
    assert shown["kubeauth_credential_refreshes_total,reason=first,result=success"] == 2
    assert shown["rest_client_exec_plugin_policy_call_total,status=allowed"] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_waits_for_who_is_writing_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with MULTIPROCESS_WRITER._lock:
            held.set()
            done.wait(60)

    def child() -> int:
        number = os.fork()
        if number == 0:
            signal.alarm(60)
            try:
                assert MULTIPROCESS_WRITER._lock.acquire(timeout=1)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

    writer = threading.Thread(target=hold)
    writer.start()
    assert held.wait(60)
    monkeypatch.setattr("kubeauth.metrics._multiprocess._FORK_TIMEOUT", 0.01)
    assert child() == 0  # it gave up waiting, and the child has a lock of its own
    monkeypatch.setattr("kubeauth.metrics._multiprocess._FORK_TIMEOUT", 60.0)
    threading.Timer(0.1, done.set).start()
    assert child() == 0
    assert done.is_set()  # the fork came after
    writer.join()
    assert MULTIPROCESS_WRITER._lock.acquire(timeout=1)  # and the parent has given it back
    MULTIPROCESS_WRITER._lock.release()
