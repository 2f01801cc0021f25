"""`kubeauth fleet`: which contexts are asked, how their answers are printed, and what is said of the rest."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli._ends import Status
from kubeauth.cli._fleet_tables import failures, in_short
from kubeauth.fleet import Answer as FleetAnswer
from kubeauth.fleet import Failure
from kubeauth.testing import Answer, APIServer, Authority, PluginScript, Received
from tests.cli.answers import status
from tests.cli.conftest import Run
from tests.cli.programs import environ, on_a_terminal, started
from tests.cli.test_get import COLUMNS, PODS, pods, table
from tests.fleet.fleets import Fleet, NotedPlugin, dead_port
from tests.fleet.test_failures import silent
from tests.support.cases import each_case
from tests.support.raw_server import RawServer
from tests.support.residue import wait_until

OTHER_COLUMNS = [*COLUMNS[:1], {**COLUMNS[1], "name": "Status"}]


@pytest.fixture
def second(ca: Authority) -> Iterator[APIServer]:
    with APIServer(authority=ca, tokens={"alices-token": "alice"}) as server:
        yield server


@pytest.fixture
def dead() -> Iterator[str]:
    with dead_port() as url:
        yield url


@pytest.fixture
def clusters(
    api: APIServer, second: APIServer, dead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Fleet:
    """`prod-1`, `prod-2` and `test-1` are well; `dead-1`, `nobody-1` and `broken-1` are not."""
    made = Fleet()
    made.add("prod-1", api)
    made.add("prod-2", second, namespace="shop")
    made.add("test-1", api)
    made.add("dead-1", dead)
    made.add("nobody-1", api, {"token": "unknown"})
    made.add("broken-1", api)
    made.contexts["broken-1"]["user"] = "gone"
    monkeypatch.setenv("KUBECONFIG", made.write(tmp_path / "fleet"))
    for server, namespace in ((api, "default"), (second, "shop")):
        server.on("GET", f"/api/v1/namespaces/{namespace}/pods", pods)
        server.on("GET", "/api/v1/pods", pods)
    return made


@pytest.mark.usefixtures("clusters")
class TestTables:
    def test_the_servers_own_with_the_context_in_front(self, run: Run, second: APIServer) -> None:
        assert run("fleet", "get", "pods", "--contexts", "prod-*") == (
            0,
            "CONTEXT   NAME    READY\n"
            "prod-1    web-0   1/1\nprod-1    web-1   1/1\nprod-2    web-0   1/1\nprod-2    web-1   1/1\n",
            "",
        )
        assert second.requests[0].path == "/api/v1/namespaces/shop/pods"

    def test_wide_and_of_all_namespaces(self, run: Run) -> None:
        ran = run("fleet", "get", "pods", "-A", "--contexts=prod-1", "-o", "wide")
        assert ran.out.splitlines()[:2] == [
            "CONTEXT   NAMESPACE   NAME    READY   IP",
            "prod-1    default     web-0   1/1     10.0.0.1",
        ]

    def test_servers_of_different_versions_have_a_table_each(self, run: Run, second: APIServer) -> None:
        second.on("GET", PODS.replace("default", "shop"), Answer(body=table("old-0", columns=OTHER_COLUMNS)))
        ran = run("fleet", "get", "pods", "--contexts", "prod-*", "--contexts", "test-1")
        assert ran.out == (
            "CONTEXT   NAME    READY\n"
            "prod-1    web-0   1/1\nprod-1    web-1   1/1\ntest-1    web-0   1/1\ntest-1    web-1   1/1\n"
            "\n"
            "CONTEXT   NAME    STATUS\n"
            "prod-2    old-0   1/1\n"
        )

    def test_nothing_is_said_to_be_nothing(self, run: Run, api: APIServer) -> None:
        api.on("GET", PODS, Answer(body=table()))
        ran = run("fleet", "get", "pods", "--contexts", "prod-1")
        assert ran == (0, "", "No resources found in 1 context.\n")
        ran = run("fleet", "get", "pods", "--contexts", "prod-1,test-1")
        assert ran == (0, "", "No resources found in 2 contexts.\n")

    def test_of_what_is_no_table_a_line_each(self, run: Run, api: APIServer) -> None:
        ran = run("fleet", "get", "/version", "--contexts", "prod-*,test-*")
        assert [line.split()[:2] for line in ran.out.splitlines()] == [
            ["CONTEXT", "CODE"], ["prod-1", "200"], ["prod-2", "200"], ["test-1", "200"],
        ]  # fmt: skip
        assert ran.out.splitlines()[1].endswith("   v1.36.0")
        ran = run("fleet", "get", "/version", "--contexts", "prod-1", "-o", "wide")
        assert ran.out.splitlines()[1].split()[3:] == ["prod-1-cluster", "prod-1-user", api.url, "v1.36.0"]

    def test_a_server_cannot_steer_the_terminal(self, run: Run, api: APIServer) -> None:
        api.on("GET", "/x", Answer(200, b"\x1b[2Jgone\n", {"Content-Type": "text/plain"}))
        ran = run("fleet", "get", "/x", "--contexts", "prod-1")
        assert "U+001B[2Jgone" in ran.out
        assert "\x1b" not in ran.out
        api.on("GET", "/x", status(403, "Forbidden", "\x1b[2Jno"))
        ran = run("fleet", "get", "/x", "--contexts", "prod-1")
        assert "U+001B[2Jno" in ran.err
        assert "\x1b" not in ran.err


@each_case(
    ("value", "said"),
    [
        ({"kind": "PodList", "items": [1, 2]}, "2 items"),
        ({"kind": "PodList", "items": [1]}, "1 item"),
        ({"kind": "Pod", "metadata": {"name": "web-0"}}, "Pod web-0"),
        ({"gitVersion": "v1.2.3"}, "v1.2.3"),
        ({"gitVersion": 5, "kind": "X", "metadata": 1}, '{"gitVersion": 5, "kind": "X", "metadata": 1}'),
        ("ok\nand more", "ok"),
        ("", ""),
        ("x" * 100, f"{'x' * 57}..."),
        ([1], "[1]"),
        (None, "null"),
    ],
)
def test_an_answer_in_short(value: Any, said: str) -> None:
    assert in_short(value) == said


def test_one_that_is_nested_too_deep_has_no_short_form() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert in_short(value) == "..."
    while value:  # else it is taken apart by recursion, too
        value = value.pop()


@pytest.mark.usefixtures("clusters")
class TestForPrograms:
    def test_json_has_everything_in_order(self, run: Run) -> None:
        ran = run("fleet", "get", "/version", "--all-contexts", "-o", "json")
        assert ran.status == Status.FAILED
        said = json.loads(ran.out)
        assert said["contexts"] == 6
        assert said["failed"] == {"config": 1, "unreachable": 1, "unauthorized": 1}
        found = {each["context"]: each for each in said["answers"]}
        assert list(found) == ["prod-1", "prod-2", "test-1", "dead-1", "nobody-1", "broken-1"]
        assert found["prod-1"]["body"]["gitVersion"] == "v1.36.0"
        assert "error" not in found["prod-1"]
        assert found["nobody-1"]["status"] == 401
        assert found["nobody-1"]["error"]["kind"] == "unauthorized"
        assert found["nobody-1"]["body"]["reason"] == "Unauthorized"
        assert found["dead-1"]["status"] is None
        assert "body" not in found["dead-1"]
        assert "gone" in found["broken-1"]["error"]["reason"]

    def test_jsonl_is_a_line_for_each(self, run: Run) -> None:
        ran = run("fleet", "get", "/version", "--all-contexts", "-o", "jsonl")
        lines = [json.loads(line) for line in ran.out.splitlines()]
        assert sorted(line["context"] for line in lines) == sorted(
            ["prod-1", "prod-2", "test-1", "dead-1", "nobody-1", "broken-1"]
        )

    def test_text_is_text(self, run: Run, api: APIServer) -> None:
        api.on("GET", "/healthz", Answer(200, b"ok", {"Content-Type": "text/plain"}))
        ran = run("fleet", "get", "/healthz", "--contexts", "prod-1", "-o", "json")
        assert json.loads(ran.out)["answers"][0]["body"] == "ok"

    def test_names_of_those_that_answered(self, run: Run, api: APIServer) -> None:
        assert run("fleet", "get", "/version", "--all-contexts", "-o", "name").out == (
            "prod-1\nprod-2\ntest-1\n"
        )
        assert api.requests[0].header("accept") == "application/json, */*"


@pytest.mark.usefixtures("clusters")
class TestFailures:
    def test_are_counted_and_told_on_stderr(self, run: Run, dead: str) -> None:
        ran = run("fleet", "get", "/version", "--all-contexts")
        assert ran.status == Status.FAILED
        assert len(ran.out.splitlines()) == 4
        assert ran.err.splitlines() == [
            "3 of 6 failed: 1 config, 1 unreachable, 1 unauthorized",
            f"  unreachable    dead-1     The connection to the server {dead[8:]} was refused - did you specify the right host or port?",
            "  unauthorized   nobody-1   You must be logged in to the server (Unauthorized)",
            '  config         broken-1   invalid configuration: user "gone" was not found for context "broken-1"',
            "`kubeauth doctor --context dead-1` looks for the reason, step by step.",
        ]

    def test_a_cluster_that_is_not_there_is_named(self, run: Run, clusters: Fleet, tmp_path: Path) -> None:
        """Of which client-go says no more than that there is no configuration."""
        clusters.contexts["prod-1"]["cluster"] = "gone"
        path = clusters.write(tmp_path / "without-a-cluster")
        ran = run("fleet", "get", "/version", "--contexts", "prod-1", "--kubeconfig", path)
        assert ran.err.splitlines()[1] == (
            "  config   prod-1   invalid configuration: no configuration has been provided. "
            'Context "prod-1" refers to cluster "gone", which does not exist.'
        )

    def test_a_refusal_is_told_in_kubectls_words(self, run: Run) -> None:
        ran = run("fleet", "get", "/nothing", "--contexts", "prod-*")
        assert ran == (
            1,
            "",
            "2 of 2 failed: 2 refused\n"
            "  refused   prod-1, prod-2   Error from server (NotFound): the server could not find the requested resource\n",
        )

    def test_a_resource_of_another_group_is_explained(self, run: Run) -> None:
        ran = run("fleet", "get", "deployments", "--contexts", "prod-1")
        assert ran.err.endswith("is written with group and version, as in apps/v1/deployments.\n")

    def test_one_that_is_too_slow(self, run: Run, clusters: Fleet, ca: Authority, tmp_path: Path) -> None:
        with RawServer(silent, pair=ca.server("127.0.0.1")) as quiet:
            clusters.add("quiet", quiet.url, authority=ca)
            path = clusters.write(tmp_path / "with-a-quiet-one")
            ran = run(
                "fleet", "get", "/version", "--contexts=quiet", "--request-timeout=0.2s", "--kubeconfig", path
            )
        assert ran.status == Status.FAILED
        assert "timeout   quiet   no whole answer within 0.2 s." in ran.err

    def test_a_namespace_that_is_none_is_of_that_context_alone(
        self, run: Run, clusters: Fleet, tmp_path: Path
    ) -> None:
        clusters.contexts["prod-1"]["namespace"] = "../.."
        path = clusters.write(tmp_path / "bad-namespace")
        ran = run("fleet", "get", "pods", "--contexts", "prod-*", "--kubeconfig", path)
        assert ran.status == Status.FAILED
        assert ran.err.startswith("1 of 2 failed: 1 config\n  config   prod-1   '../..' is no namespace")
        assert "prod-2    web-0" in ran.out


def failed(context: str, failure: Failure = Failure.CREDENTIAL) -> FleetAnswer:
    return FleetAnswer(context=context, failure=failure, seconds=0.0)


class TestManyFailures:
    def test_those_alike_are_one_line(self) -> None:
        said = failures([failed(f"c{n}") for n in range(1000)], 2000, ["it is so"] * 1000)
        assert said.splitlines()[:2] == [
            "1,000 of 2,000 failed: 1,000 credential",
            "  credential   c0, c1, c2 and 997 more   it is so",
        ]

    def test_of_each_kind_there_is_one_to_be_seen(self) -> None:
        many = [failed(f"c{n}") for n in range(50)] + [failed("late", Failure.TIMEOUT)]
        lines = failures(many, 51, [f"reason {n}" for n in range(51)]).splitlines()
        assert lines[2].split()[:2] == ["timeout", "late"]
        assert lines[-2] == "  and 39 more: -o json has all of them"
        assert len(lines) == 1 + 12 + 1 + 1

    def test_on_a_narrow_terminal_reasons_are_wrapped(self) -> None:
        said = failures([failed("arn:a/b c")], 1, ["word " * 20], width=40)
        assert said.splitlines()[1] == "  credential: arn:a/b c"
        assert all(len(line) <= 40 for line in said.splitlines()[:-1])
        assert said.endswith("`kubeauth doctor --context 'arn:a/b c'` looks for the reason, step by step.")

    def test_the_advice_is_about_the_same_file(self) -> None:
        said = failures([failed("prod")], 1, ["it is so"], kubeconfig="my files/config")
        assert "`kubeauth doctor --kubeconfig 'my files/config' --context prod` looks" in said


@pytest.mark.usefixtures("clusters")
class TestNonsense:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["/version"], "say which contexts are asked, by either --contexts 'prod-*' or --all-contexts."),
            (["/version", "--contexts", "a", "--all-contexts"], "say which contexts are asked"),
            (["/version", "--contexts", ","], "say which contexts are asked"),
            (["/version", "--contexts", "prod-*", "--context", "prod-1"], "--context is about one cluster"),
            (["/version", "--all-contexts", "--server", "x"], "--server is about one cluster"),
            (["/version", "--all-contexts", "--tls-server-name", "x"], "--tls-server-name is about one"),
            (["/version", "--all-contexts", "--concurrency", "0"], "'0' is not a number from 1 on"),
            (["https://x", "--all-contexts"], "is no path"),
            (["pods", "--all-contexts", "-n", "a/b"], "is no namespace"),
            (["/version", "-A", "--all-contexts"], "-A is for a PATH"),
        ],
    )
    def test_is_said_before_anybody_is_asked(
        self, arguments: list[str], said: str, run: Run, api: APIServer
    ) -> None:
        ran = run("fleet", "get", *arguments)
        assert (ran.status, ran.out) == (Status.USAGE, "")
        assert said in ran.err
        assert api.requests == []

    def test_a_pattern_that_fits_nothing(self, run: Run) -> None:
        ran = run("fleet", "get", "/version", "--contexts", "prdo-*")
        assert ran.status == Status.CONFIG
        assert "Did you mean prod-2, prod-1" in ran.err


@pytest.mark.usefixtures("clusters")
class TestContexts:
    def test_are_listed(self, run: Run) -> None:
        assert run("fleet", "contexts", "prod-*").out == (
            "NAME     CLUSTER          USER          NAMESPACE\n"
            "prod-1   prod-1-cluster   prod-1-user   \n"
            "prod-2   prod-2-cluster   prod-2-user   shop\n"
        )
        assert run("fleet", "contexts", "prod-1,test-*", "-o", "name").out == "prod-1\ntest-1\n"
        assert len(run("fleet", "contexts").out.splitlines()) == 7
        assert json.loads(run("fleet", "contexts", "prod-2", "-o", "json").out) == [
            {"context": "prod-2", "cluster": "prod-2-cluster", "user": "prod-2-user", "namespace": "shop"}
        ]
        assert run("fleet", "contexts", "--context", "x").status == Status.USAGE

    def test_are_completed(self, run: Run) -> None:
        offered = run("__complete", "fleet", "get", "/version", "--contexts", "prod").out
        assert offered == "words\nprod-1\tcontext\nprod-2\tcontext\n"


def test_global_flags_are_for_all_of_them(run: Run, clusters: Fleet, api: APIServer) -> None:
    api.on("GET", "/api/v1/namespaces/elsewhere/pods", pods)
    ran = run("fleet", "get", "pods", "--contexts", "prod-1,nobody-1", "-n", "elsewhere", "--as", "carol",
              "--user", "prod-1-user", "--request-timeout", "0", "--concurrency", "1")  # fmt: skip
    assert ran.status == 0
    assert [request.path for request in api.requests] == ["/api/v1/namespaces/elsewhere/pods"] * 2
    assert {request.header("impersonate-user") for request in api.requests} == {"carol"}
    assert {request.user for request in api.requests} == {"alice"}


def test_so_many_are_asked_at_a_time(run: Run, api: APIServer, tmp_path: Path) -> None:
    mu, too_many = threading.Lock(), threading.Event()
    inside, counted = 0, list[int]()

    def count(_request: Received) -> Answer:
        nonlocal inside
        with mu:
            inside += 1
            counted.append(inside)
            if inside > 2:
                too_many.set()
        too_many.wait(0.1)  # there must be no third request
        with mu:
            inside -= 1
        return Answer(body={})

    made = Fleet()
    for number in range(6):
        made.add(f"c{number}", api)
    api.on("GET", "/count", count)
    path = made.write(tmp_path / "six")
    ran = run("fleet", "get", "/count", "--all-contexts", "--concurrency", "2", "--kubeconfig", path)
    assert ran.status == 0
    assert len(counted) == 6
    assert not too_many.is_set()


class TestOnATerminal:
    def test_there_is_a_bar_while_it_lasts(self, clusters: Fleet, tmp_path: Path) -> None:
        code, said = on_a_terminal(
            "fleet", "get", "/version", "--all-contexts", env=environ(TERM="xterm", COLUMNS="100")
        )
        assert code == Status.FAILED
        assert "running" in said
        assert "6/6" in said
        assert "v1.36.0" in said

    @pytest.mark.parametrize("arguments", [["-v", "4"], ["--contexts=prod-1"]])
    def test_there_is_none_beside_a_log_or_for_one_alone(self, clusters: Fleet, arguments: list[str]) -> None:
        every = [] if "--contexts=prod-1" in arguments else ["--all-contexts"]
        _, said = on_a_terminal("fleet", "get", "/version", *every, *arguments, env=environ(TERM="xterm"))
        assert "running" not in said
        assert "v1.36.0" in said

    def test_without_rich_there_is_none(
        self, clusters: Fleet, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kubeauth.cli._doctor._is_terminal", lambda _stream: True)
        monkeypatch.setitem(sys.modules, "rich.progress", None)
        assert run("fleet", "get", "/version", "--contexts", "prod-*").status == 0

    def test_the_bar_counts(self, clusters: Fleet, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kubeauth.cli._doctor._is_terminal", lambda _stream: True)
        assert run("fleet", "get", "/version", "--all-contexts", "-o", "name").out == (
            "prod-1\nprod-2\ntest-1\n"
        )

    def test_a_plugin_that_must_ask_somebody_cannot(
        self, api: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugin, made = PluginScript(tmp_path), Fleet()
        for name in ("a", "b"):
            made.add(name, api, {"exec": plugin.exec_config(interactiveMode="Always")})
        monkeypatch.setenv("KUBECONFIG", made.write(tmp_path / "asks"))
        code, said = on_a_terminal("fleet", "get", "/version", "--all-contexts", env=environ(COLUMNS="300"))
        assert code == Status.FAILED
        assert "many clusters are asked at once" in " ".join(said.split())
        assert plugin.runs == []


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_ctrl_c_ends_it(clusters: Fleet, ca: Authority, tmp_path: Path) -> None:
    with RawServer(silent, pair=ca.server("127.0.0.1")) as quiet:
        clusters.add("quiet", quiet.url, authority=ca)
        path = clusters.write(tmp_path / "with-a-quiet-one")
        with started("fleet", "get", "/version", "--all-contexts", "--kubeconfig", path) as process:
            wait_until(lambda: len(quiet.requests) == 1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (Status.INTERRUPTED, "", "")


def test_a_plugin_is_run_once(
    api: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    plugin, made = NotedPlugin(tmp_path), Fleet()
    for number in range(20):
        made.add(f"c{number}", api, plugin.user())
    monkeypatch.setenv("KUBECONFIG", made.write(tmp_path / "fleet"))
    assert run("fleet", "get", "/version", "--all-contexts", "-o", "name").out.count("\n") == 20
    assert len(plugin.runs) == 1
