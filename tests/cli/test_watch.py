"""`kubeauth get --watch`: what there is, then each change as it comes."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from kubeauth._transport.deadline import Deadline
from kubeauth.cli import _asking
from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer, PluginScript, Received, Watch
from tests.cli import answers
from tests.cli.conftest import Run
from tests.cli.programs import environ, ran, started
from tests.cli.test_get import PODS, table


def pod(name: str, version: str) -> dict[str, Any]:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": version}}


class Pods:
    """A resource as a real server has it: listed, and watched from what was listed."""

    def __init__(self, server: APIServer, *events: dict[str, Any], path: str = PODS) -> None:
        self._events = events
        server.on("GET", path, self)

    def __call__(self, request: Received) -> Answer:
        tabular = "as=Table" in (request.header("accept") or "")
        if "watch=" in request.path:  # kubectl says watch=true
            lines = [self._line(event, tabular) for event in self._events]
            return Answer(headers={"Content-Type": "application/json"}, chunks=lines)
        if tabular:
            return Answer(body=table("web-0"))
        item = {"metadata": {"name": "web-0"}}
        return Answer(
            body={
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "5"},
                "items": [item],
            }
        )

    def _line(self, event: dict[str, Any], tabular: bool) -> bytes:
        if tabular and event["object"].get("kind") == "Pod":
            name = event["object"]["metadata"]["name"]
            # Columns are told once.
            columns = table()["columnDefinitions"] if event is self._events[0] else None
            event = {**event, "object": table(name, columns=columns)}
        return json.dumps(event).encode() + b"\n"


ADDED = {"type": "ADDED", "object": pod("a-longer-name", "6")}
MODIFIED = {"type": "MODIFIED", "object": pod("web-0", "7")}
DELETED = {"type": "DELETED", "object": pod("web-0", "8")}
BOOKMARK = {"type": "BOOKMARK", "object": pod("", "9")}
GONE = {"type": "ERROR", "object": answers.status(410, "Expired", "too old resource version: 1 (5)").body}


class TestPrinting:
    def test_rows_under_the_table(self, api: APIServer, run: Run) -> None:
        Pods(api, ADDED, MODIFIED, DELETED, BOOKMARK)
        assert run("get", "pods", "-w") == (
            0, "NAME    READY\nweb-0   1/1\na-longer-name   1/1\nweb-0           1/1\nweb-0           1/1\n", ""
        )  # fmt: skip
        assert [request.path for request in api.requests] == [PODS, f"{PODS}?resourceVersion=5&watch=1"]

    @pytest.mark.oracle
    def test_as_kubectl_prints_them(self, api: APIServer, kubectl: str, tmp_path: Path, run: Run) -> None:
        Pods(api, ADDED, MODIFIED, DELETED)
        for flags in (["-w"], [], ["-o", "wide"]):
            theirs = ran(kubectl, "get", "pods", *flags, f"--cache-dir={tmp_path}")
            assert run("get", "pods", *flags) == theirs
            assert theirs.out

    def test_json_one_object_on_each_line(self, api: APIServer, run: Run) -> None:
        Pods(api, ADDED, DELETED, BOOKMARK)
        lines = run("get", "pods", "-w", "-o", "json").out.splitlines()
        first = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}}
        assert [json.loads(line) for line in lines] == [first, ADDED["object"], DELETED["object"]]

    def test_json_with_what_happened(self, api: APIServer, run: Run) -> None:
        Pods(api, ADDED, DELETED, BOOKMARK)
        lines = run("get", "pods", "-w", "-o", "json", "--output-watch-events").out.splitlines()
        assert [json.loads(line)["type"] for line in lines] == ["ADDED", "ADDED", "DELETED", "BOOKMARK"]

    def test_yaml_documents(self, api: APIServer, run: Run) -> None:
        Pods(api, DELETED)
        assert run("get", "pods", "-w", "-o", "yaml").out == (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-0\n---\n"
            'kind: Pod\napiVersion: v1\nmetadata:\n  name: web-0\n  resourceVersion: "8"\n'
        )

    def test_raw_is_the_watch_as_it_came(self, api: APIServer, run: Run) -> None:
        Pods(api, ADDED, BOOKMARK)
        assert [json.loads(line) for line in run("get", "pods", "-w", "-o", "raw").out.splitlines()] == [
            ADDED,
            BOOKMARK,
        ]
        assert [request.path for request in api.requests] == [f"{PODS}?watch=1"]

    def test_a_server_without_tables(self, api: APIServer, run: Run) -> None:
        listed = {
            "kind": "XList",
            "apiVersion": "e/v1",
            "metadata": {"resourceVersion": "1"},
            "items": [{"n": 1}, 7],
        }
        events = json.dumps({"type": "ADDED", "object": {"n": 2}}).encode()  # and no newline at its end
        api.on("GET", "/x", lambda r: Answer(chunks=[events]) if "watch" in r.path else Answer(body=listed))
        assert run("get", "/x", "-w").out == '{"apiVersion":"e/v1","kind":"X","n":1}\n7\n{"n":2}\n'

    def test_one_object(self, api: APIServer, run: Run) -> None:
        Pods(api, MODIFIED)
        assert run("get", "pods/web-0", "--watch").out == "NAME    READY\nweb-0   1/1\nweb-0   1/1\n"
        assert [request.path for request in api.requests] == [
            f"{PODS}?fieldSelector=metadata.name%3Dweb-0",
            f"{PODS}?fieldSelector=metadata.name%3Dweb-0&resourceVersion=5&watch=1",
        ]

    @pytest.mark.parametrize("output", ["table", "json"])
    def test_one_object_that_is_not_there(self, output: str, api: APIServer, run: Run) -> None:
        empty = {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []}
        api.on("GET", PODS, Answer(body=table() if output == "table" else empty))
        ran = run("get", "pods/web-9", "-w", "-o", output)
        assert ran == (1, "", 'Error from server (NotFound): pods "web-9" not found\n')

    @pytest.mark.parametrize("query", ["watch=1", "resourceVersion=7"])
    def test_who_says_from_where_gets_no_list(self, query: str, api: APIServer, run: Run) -> None:
        Pods(api, ADDED)
        assert run("get", f"pods?{query}", "-w").out == "NAME            READY\na-longer-name   1/1\n"
        assert len(api.requests) == 1

    def test_a_query_can_ask_for_a_watch_by_itself(self, api: APIServer, run: Run) -> None:
        Pods(api, ADDED, path="/api/v1/pods")
        assert "a-longer-name" in run("get", "/api/v1/pods?watch=1").out


class TestEnding:
    def test_an_error_event_is_an_error(self, api: APIServer, run: Run) -> None:
        Pods(api, ADDED, GONE)
        ran = run("get", "pods", "-w")
        assert (ran.status, ran.err) == (1, "Error from server (Expired): too old resource version: 1 (5)\n")
        assert "a-longer-name" in ran.out

    def test_an_error_event_that_says_nothing(self, api: APIServer, run: Run) -> None:
        Pods(api, {"type": "ERROR", "object": {}})
        assert run("get", "pods", "-w").err == "error: the server ended the watch with an error\n"

    def test_a_watch_that_is_refused(self, api: APIServer, run: Run) -> None:
        forbidden = answers.status(403, "Forbidden", "unknown (get pods)")
        api.on("GET", PODS, lambda r: forbidden if "watch" in r.path else Answer(body=table("a")))
        ran = run("get", "pods", "-w")
        assert (ran.status, ran.err) == (1, "Error from server (Forbidden): unknown (get pods)\n")

    @pytest.mark.parametrize(
        "body",
        [
            b'{"kind": "Pod"}',
            b"{\n}\n",
            b"[" * 100_000,
            b'{"type": 7, "object": 1}',
            b'{"type": "ADDED", "object": NaN}',
            b'{"type": "ADDED", "object": 1e999}',
        ],
    )
    def test_an_answer_that_is_no_watch(self, body: bytes, api: APIServer, run: Run) -> None:
        api.on("GET", "/x", Answer(body=body, headers={"Content-Type": "application/json"}))
        ran = run("get", "/x?watch=1")
        assert (ran.status, ran.out) == (1, "")
        assert "not with events" in ran.err

    def test_an_event_that_is_cut_in_the_middle(self, api: APIServer, run: Run) -> None:
        body = json.dumps({"type": "ADDED", "object": pod("a", "1")}).encode() + b'\n{"type": "ADD'
        api.on("GET", "/x", Answer(body=body, headers={"Content-Type": "application/json"}))
        ran = run("get", "/x?watch=1", "-o", "json")
        assert (ran.status, json.loads(ran.out)) == (1, pod("a", "1"))
        assert ran.err == "error: the watch broke off in the middle of an event. Begin it again.\n"

    @pytest.mark.parametrize(
        "body", [{"major": "1"}, [], {"metadata": {}}, {"metadata": 7}, {"metadata": {"resourceVersion": 7}}]
    )
    def test_what_cannot_be_watched(self, body: object, api: APIServer, run: Run) -> None:
        api.on("GET", "/x", Answer(body=body))
        ran = run("get", "/x", "-w")
        assert ran == (1, "", "error: what is there cannot be watched: it is no list of a resource.\n")

    def test_one_object_by_its_whole_path(self, api: APIServer, run: Run) -> None:
        api.on("GET", f"{PODS}/web-0", Answer(body=pod("web-0", "5")))
        ran = run("get", f"{PODS}/web-0", "-w", "-o", "json")
        assert ran.status == 1
        assert json.loads(ran.out) == pod("web-0", "5")
        assert "for one object of it write LIST?fieldSelector=metadata.name=NAME." in ran.err

    def test_a_time_limit_ends_it_as_with_kubectl(
        self, api: APIServer, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Of the list, of the watch, and of a watch alone: on a machine that stalls, the list would be late too.
        limits = [60.0, 0.5, 0.5]

        class Limited(Deadline):
            def __enter__(self) -> Self:
                self._seconds = limits.pop(0)
                return super().__enter__()

        monkeypatch.setattr(_asking, "Deadline", Limited)
        watch = Watch()
        api.on("GET", PODS, lambda r: watch(r) if "watch=1" in r.path else Answer(body=table("web-0")))
        assert run("get", "pods", "-w", "--request-timeout", "60s") == (
            0,
            "NAME    READY\nweb-0   1/1\n",
            "",
        )
        assert run("get", "pods", "-w", "-o", "raw", "--request-timeout", "60s").status == 0
        assert limits == []
        watch.end()

    def test_a_connection_that_is_lost_is_an_error(self, api: APIServer, run: Run) -> None:
        watch = Watch()
        api.on("GET", PODS, lambda r: watch(r) if "watch=1" in r.path else Answer(body=table("web-0")))

        def hang_up() -> None:
            watch.wait_for_watchers(timeout=60)
            time.sleep(0.2)
            api.hang_up()

        thread = threading.Thread(target=hang_up)
        thread.start()
        ran = run("get", "pods", "-w")
        thread.join()
        watch.end()
        assert ran.status == Status.UNREACHABLE
        assert "was lost: " in ran.err


class TestLiving:
    """As a process, with a watch that goes on."""

    def begun(self, watch: Watch, *arguments: str) -> subprocess.Popen[str]:
        process = started("get", "pods?watch=1", *arguments)
        watch.wait_for_watchers(timeout=60)
        return process

    def line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline()

    def test_each_event_is_there_when_it_comes_and_the_servers_end_is_no_error(self, api: APIServer) -> None:
        watch = api.watch(PODS)
        with self.begun(watch, "-o", "json") as process:
            for number in ("6", "7", "8"):
                watch.send({"type": "ADDED", "object": pod("a", number)})
                assert json.loads(self.line(process))["metadata"]["resourceVersion"] == number
            watch.end()
            assert process.wait() == 0
            assert process.communicate() == ("", "")

    def test_ctrl_c_ends_it_quietly(self, api: APIServer) -> None:
        watch = api.watch(PODS)
        with self.begun(watch, "-o", "json") as process:
            watch.send(ADDED)
            self.line(process)
            process.send_signal(signal.SIGINT)
            assert process.communicate() == ("", "")
            assert process.returncode == Status.INTERRUPTED
        watch.end()

    def test_a_reader_that_has_seen_enough_ends_it_quietly(self, api: APIServer) -> None:
        watch = api.watch(PODS)
        with self.begun(watch, "-o", "json") as process:
            watch.send(ADDED)
            self.line(process)
            assert process.stdout is not None
            process.stdout.close()
            while process.poll() is None:
                watch.send(ADDED)
                time.sleep(0.05)
            assert process.returncode == Status.NO_READER
            assert process.stderr is not None
            assert process.stderr.read() == ""
        watch.end()

    @pytest.mark.slow
    def test_it_lives_through_the_end_of_its_credential(self, api: APIServer, tmp_path: Path) -> None:
        """A watch is refused when it begins, or never: the plugin is not asked again for one that is quiet."""
        plugin = PluginScript(tmp_path)
        plugin.answer(token="alices-token", expires_in=1)
        path = tmp_path / "with-plugin"
        path.write_text(json.dumps(api.kubeconfig({"exec": plugin.exec_config()})))
        watch = api.watch(PODS)
        with started("get", "pods?watch=1", "-o", "json", env=environ(KUBECONFIG=str(path))) as process:
            watch.wait_for_watchers(timeout=60)
            time.sleep(2.5)
            watch.send(ADDED)
            assert json.loads(self.line(process)) == ADDED["object"]
            watch.end()
            assert process.wait() == 0
        assert len(plugin.runs) == 1


def chunked(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_lines_are_put_together_however_they_come(size: int, api: APIServer, run: Run) -> None:
    events = [{"type": "ADDED", "object": {"n": number, "text": "ü" * number}} for number in range(5)]
    data = b"\n\r\n".join(json.dumps(event, ensure_ascii=False).encode() for event in events)
    api.on("GET", "/x", lambda _: Answer(chunks=chunked(data, size)))
    lines = run("get", "/x?watch=1").out.splitlines()
    assert [json.loads(line) for line in lines] == [event["object"] for event in events]
