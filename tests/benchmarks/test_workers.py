"""Clients that hang, crash or say nonsense are counted, and keep nobody else from their turn."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path

import pytest

from benchmarks import subjects
from benchmarks.clients.opened import Opened
from benchmarks.process import Failed, Worker
from benchmarks.server import Server
from benchmarks.stage import Kept, Round, Sizes, Stage, in_turn
from benchmarks.subjects import Subject
from benchmarks.worker import Threads, failure

pytestmark = pytest.mark.slow

READY = "import sys, os, time, json; print('{}', flush=True); order = sys.stdin.readline(); "


def worker(code: str) -> Worker:
    return Worker([sys.executable, "-c", code], dict(os.environ))


def test_an_order_is_answered() -> None:
    with worker(READY + "print(json.dumps({'got': json.loads(order)}), flush=True)") as one:
        assert one.order("ask", callers=2) == {"got": {"do": "ask", "callers": 2}}


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ("os.kill(os.getpid(), 11)", "crashed, SIGSEGV"),
        ("sys.exit(3)", "exit code 3"),
        ("""print('{"error": "KeyError"}', flush=True); time.sleep(60)""", "KeyError"),
        ("time.sleep(60)", "no answer in 1 s"),
    ],
)
def test_a_client_that_fails_has_a_reason(then: str, reason: str) -> None:
    with worker(READY + then) as one, pytest.raises(Failed, match=reason):
        one.order("ask", limit=60.0 if "answer" not in reason else 1.0)


def test_who_did_not_answer_in_time_is_not_asked_again() -> None:
    """Else a late answer would be taken for that of the next order."""
    with worker(READY + "time.sleep(60)") as one:
        for _ in range(2):
            with pytest.raises(Failed, match="no answer in 1 s"):
                one.order("ask", limit=1.0)


def test_a_client_that_does_not_start_has_a_reason() -> None:
    with pytest.raises(Failed, match="exit code 7"):
        worker("raise SystemExit(7)")


def test_whatever_a_worker_started_ends_with_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    child = (
        "import fcntl, os, time; file = open(os.environ['LOCK']); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('{}', flush=True); time.sleep(600)"
    )
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with Worker([sys.executable, "-c", start], {**os.environ, "LOCK": str(lock)}), lock.open() as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # waits until the child is gone, and for ever if it stays


class StatusError(Exception):
    def __init__(self, status: object) -> None:
        super().__init__("the token is sentinel-of-a-secret")
        self.status = status


def test_failures_are_named_without_their_text() -> None:
    assert failure(StatusError(401)) == "StatusError 401"
    assert failure(StatusError(None)) == "StatusError"
    assert failure(KeyError("token")) == "KeyError"


def stage(tmp_path: Path) -> Stage:
    server = Server("https://127.0.0.1:1", "", 1, ["plugin"], tmp_path, "none")
    return Stage(server, [], Sizes(), tmp_path, None, lambda what, step, steps: None)


def test_each_round_begins_with_another_one() -> None:
    assert [in_turn("abc", number) for number in range(4)] == [
        list("abc"),
        list("bca"),
        list("cab"),
        list("abc"),
    ]
    assert in_turn([], 3) == []


def test_who_fails_keeps_nobody_else_from_their_turn(tmp_path: Path) -> None:
    asked: list[str] = []

    def once(name: str) -> Round:
        asked.append(name)
        if name == "b":
            raise Failed("crashed")
        return {"us": len(asked)}

    found = stage(tmp_path).measure("x", ["a", "b"], 2, once)
    assert asked == ["a", "b", "b", "a"]
    assert found == {"a": [{"us": 1}, {"us": 4}], "b": [{"failed": "crashed"}] * 2}


def test_several_can_be_measured_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(3)

    def once(name: str) -> Round:
        together.wait(60)
        return {"name": name}

    found = stage(tmp_path).measure("x", ["a", "b", "c"], 1, once, at_once=3)
    assert found == {name: [{"name": name}] for name in "abc"}


def test_a_client_that_cannot_be_made_is_tried_once(tmp_path: Path) -> None:
    tried: list[str] = []

    def prepare(subject: Subject, _worker: Worker) -> None:
        tried.append(subject.key)
        raise Failed("KeyError")

    subject = Subject("httpx", "sync", "httpx_alone", "sync")
    with Kept(stage(tmp_path), prepare) as workers:
        for _ in range(2):
            with pytest.raises(Failed, match="KeyError"):
                workers[subject]
    assert tried == ["httpx sync"]


def test_an_answer_that_is_not_the_namespaces_is_a_failure() -> None:
    class Module:
        @staticmethod
        def sync(_kubeconfig: str) -> Opened:
            return Opened(lambda: 3, lambda: None)

    threads = Threads(Module, "sync")
    threads.run({"do": "open", "kubeconfig": ""})
    found = threads.run({"do": "crowd", "callers": 5})
    assert (found["ok"], found["failures"]) == (0, {"WrongAnswer": 5})


def test_every_client_of_the_table_is_installed_and_has_a_version() -> None:
    assert [each.key for each in subjects.TABLE if not subjects.version_of(each)[0].isdigit()] == []
    assert subjects.version_of(subjects.CLIENT_GO).startswith("v0.")


def test_clients_can_be_chosen_by_name() -> None:
    assert [each.key for each in subjects.found(None, ["kr8s"])] == ["kr8s sync", "kr8s async"]
    with pytest.raises(SystemExit, match="nobody here is called nonsense"):
        subjects.found(None, ["nonsense"])


def test_client_go_is_there_if_it_was_built() -> None:
    (subject,) = subjects.found("/path/of/client", ["client-go"])
    assert subject.command("/path/of/client") == ["/path/of/client"]
    with pytest.raises(SystemExit):
        subjects.found(None, ["client-go"])
