"""`kubeauth get`: what is asked for, and how the answer is printed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli import _asking
from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.cli import answers
from tests.cli.conftest import Run
from tests.cli.deadlines import beginning_with
from tests.cli.programs import environ, kubeauth, on_a_terminal, ran, started
from tests.support.proxy_servers import Proxy

PODS = "/api/v1/namespaces/default/pods"
COLUMNS = [
    {"name": name, "type": "string", "format": "", "description": "", "priority": priority}
    for name, priority in (("Name", 0), ("Ready", 0), ("IP", 1))
]

META = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def table(*names: str, version: str = "5", columns: object = COLUMNS) -> dict[str, Any]:
    """What a server makes of pods."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": columns,
        "rows": [
            {
                "cells": [name, "1/1", "10.0.0.1"],
                "object": META | {"metadata": {"name": name, "namespace": "default"}},
            }
            for name in names
        ],
    }


def pods(request: Received) -> Answer:
    """A table for who asks for one, else a list."""
    if "as=Table" in (request.header("accept") or ""):
        return Answer(body=table("web-0", "web-1"))
    items = [{"metadata": {"name": name}} for name in ("web-0", "web-1")]
    return Answer(
        body={"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}
    )


class TestPrinting:
    def test_the_servers_own_table(self, api: APIServer, run: Run) -> None:
        api.on("GET", PODS, pods)
        assert run("get", "pods") == (0, "NAME    READY\nweb-0   1/1\nweb-1   1/1\n", "")
        assert run("get", "pods", "-o", "wide").out == (
            "NAME    READY   IP\nweb-0   1/1     10.0.0.1\nweb-1   1/1     10.0.0.1\n"
        )
        assert api.requests[0].header("accept") == (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json,*/*"
        )

    def test_of_all_namespaces(self, api: APIServer, run: Run) -> None:
        api.on("GET", "/api/v1/pods", pods)
        assert run("get", "-A", "pods").out == (
            "NAMESPACE   NAME    READY\ndefault     web-0   1/1\ndefault     web-1   1/1\n"
        )

    def test_none_is_said_and_no_error(self, api: APIServer, run: Run) -> None:
        api.on("GET", PODS, Answer(body=table()))
        api.on("GET", "/api/v1/pods", Answer(body=table()))
        assert run("get", "pods") == (0, "", "No resources found in default namespace.\n")
        assert run("get", "pods", "-A") == (0, "", "No resources found.\n")

    def test_json_where_there_is_no_table(self, api: APIServer, run: Run) -> None:
        api.on("GET", "/x", Answer(body={"b": 1, "a": [None, True, "ü"]}))
        indented = '{\n  "b": 1,\n  "a": [\n    null,\n    true,\n    "ü"\n  ]\n}\n'
        assert run("get", "/x") == (0, indented, "")
        assert run("get", "/x", "-o", "json") == (0, indented, "")

    def test_json_and_yaml_of_a_list_are_of_the_list_itself(self, api: APIServer, run: Run) -> None:
        api.on("GET", PODS, pods)
        assert json.loads(run("get", "pods", "-o", "json").out)["kind"] == "PodList"
        assert run("get", "pods", "-o", "yaml").out == (
            'kind: PodList\napiVersion: v1\nmetadata:\n  resourceVersion: "5"\nitems:\n'
            "- metadata:\n    name: web-0\n- metadata:\n    name: web-1\n"
        )

    def test_raw_is_the_bytes_as_they_came(self, api: APIServer, run: Run) -> None:
        body = b'{"a" :  1}\xff\x00\x1b[31m'
        api.on("GET", "/x", Answer(body=body, headers={"Content-Type": "application/json"}))
        done = run("get", "/x", "-o", "raw")
        assert done.status == 0
        assert done.out.encode(errors="surrogateescape") == body

    def test_text_as_it_is(self, api: APIServer, run: Run) -> None:
        answers.add_to(api)
        assert run("get", "/text") == (0, "ok", "")
        assert run("get", "/login-page").out == "<html>log in</html>\n"

    @pytest.mark.parametrize("path", ["/empty", "/no-content"])
    @pytest.mark.parametrize("output", ["table", "raw"])
    def test_nothing_is_printed_of_nothing(self, path: str, output: str, api: APIServer, run: Run) -> None:
        answers.add_to(api)
        assert run("get", path, "-o", output) == (0, "", "")

    def test_an_empty_answer_of_json_is_nothing(self, api: APIServer, run: Run) -> None:
        api.on("GET", "/x", Answer(headers={"Content-Type": "application/json"}))
        assert run("get", "/x", "-o", "json") == (0, "", "")

    def test_what_is_no_json_is_not_printed_as_json(self, api: APIServer, run: Run) -> None:
        answers.add_to(api)
        assert run("get", "/text", "-o", "yaml") == (
            1, "", "error: the answer is text/plain; charset=utf-8, not JSON. -o raw prints it as it is.\n"
        )  # fmt: skip
        assert "of no type" in run("get", "/empty", "-o", "json").err

    @pytest.mark.parametrize("body", [b'{"a":', b"NaN", b"[" * 100_000])
    def test_json_that_cannot_be_read(self, body: bytes, api: APIServer, run: Run) -> None:
        api.on("GET", "/x", Answer(body=body, headers={"Content-Type": "application/json"}))
        said = "error: the answer should be JSON, and is none that can be read. -o raw shows it.\n"
        assert run("get", "/x") == (1, "", said)

    def test_json_that_is_too_deep_for_yaml(self, api: APIServer, run: Run) -> None:
        deep = b"[" * 900 + b"]" * 900
        api.on("GET", "/x", Answer(body=deep, headers={"Content-Type": "application/json"}))
        ran = run("get", "/x", "-o", "yaml")
        assert (ran.status, ran.out) == (1, "")
        assert "nested too deep" in ran.err

    @pytest.mark.slow
    def test_a_terminal_is_not_steered_by_what_is_printed(self, api: APIServer, run: Run) -> None:
        nasty = "\x1b[2J\x9b\u202e"
        api.on("GET", "/text", Answer(body=f"a{nasty}\r\nb".encode(), headers=answers.TEXT))
        api.on("GET", "/json", Answer(body={"a": nasty, "\U000e0001": "tag"}))
        api.on("GET", "/half", Answer(body=b"\xe2\x82", headers=answers.TEXT))
        assert on_a_terminal("get", "/text", env=environ())[1] == "aU+001B[2JU+009BU+202E\r\nb\r\n"
        shown = on_a_terminal("get", "/json", env=environ())[1]
        assert json.loads(shown) == {"a": nasty, "\U000e0001": "tag"}
        assert shown.isascii()
        assert "\x1b" not in shown
        assert "\x1b" not in on_a_terminal("get", "/json", "-o", "yaml", env=environ())[1]
        assert on_a_terminal("get", "/half", env=environ())[1] == "\ufffd\r\n"
        # A pipe gets what there is, and a terminal too if it was asked for.
        assert run("get", "/text").out == f"a{nasty}\r\nb"
        assert "\x1b" in on_a_terminal("get", "/text", "-o", "raw", env=environ())[1]

    def test_what_a_terminal_has_no_character_for_is_spelled_out(self, api: APIServer) -> None:
        api.on("GET", PODS, Answer(body=table("wöb\ud800")))
        ran = kubeauth("get", "pods", env=environ(PYTHONIOENCODING="ascii"))
        assert ran.out.splitlines()[1].startswith(r"w\xf6bU+D800")

    def test_text_is_printed_while_it_comes(self, api: APIServer) -> None:
        def log() -> Iterator[bytes]:
            yield b"first line\n"
            time.sleep(30)

        api.on("GET", f"{PODS}/web-0/log", lambda _: Answer(headers=answers.TEXT, chunks=log()))
        with started("get", "pods/web-0/log?follow=true") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "first line\n"
            process.terminate()

    def test_a_warning_is_passed_on_once(self, api: APIServer, run: Run) -> None:
        warned = {"Warning": '299 - "old"'}
        listed = Answer(body=table("a"), headers=warned)
        api.on("GET", PODS, lambda r: Answer(chunks=[], headers=warned) if "watch" in r.path else listed)
        assert run("get", "pods", "-w").err == "Warning: old\n"

    def test_warnings_are_passed_on(self, api: APIServer, run: Run) -> None:
        warning = '299 - "v1 is \\"old\\"", 299 - "so\x9bold", 199 other "not this"'
        api.on("GET", "/x", Answer(body={}, headers={"Warning": warning}))
        assert run("get", "/x") == (0, "{}\n", 'Warning: v1 is "old"\nWarning: soU+009Bold\n')


class TestAsking:
    def test_a_path_is_asked_for_as_it_is(self, api: APIServer, run: Run) -> None:
        run("get", "/version?a=b&c=d%20e&a=x")
        run("get", "//other.example/version")
        # Python's server leaves out the second slash; what matters is whose server it is.
        asked = ["/version?a=b&c=d%20e&a=x", "/other.example/version"]
        assert [request.path for request in api.requests] == asked

    def test_the_namespace_of_the_flag_or_of_the_context(
        self, api: APIServer, run: Run, tmp_path: Path
    ) -> None:
        document = api.kubeconfig({"token": "alices-token"})
        document["contexts"][0]["context"]["namespace"] = "from-context"
        path = tmp_path / "other"
        path.write_text(json.dumps(document))
        run("get", "pods", "--kubeconfig", path)
        run("get", "pods", "--kubeconfig", path, "-n", "from-flag")
        assert [request.path.split("/")[4] for request in api.requests] == ["from-context", "from-flag"]

    def test_a_server_below_a_path(self, api: APIServer, run: Run) -> None:
        # Unlike `kubectl get --raw`, which forgets it: docs/cli.md.
        api.on("GET", "/k8s/clusters/c1/version", Answer(body={"here": True}))
        assert '"here": true' in run("get", "/version", "-s", f"{api.url}/k8s/clusters/c1/").out

    def test_redirects_are_followed(self, api: APIServer, run: Run) -> None:
        answers.add_to(api)
        assert '"v1.36.0"' in run("get", "/elsewhere").out
        assert api.requests[-1].user == "alice"

    def test_nothing_of_ours_follows_a_redirect_to_another_server(
        self, api: APIServer, run: Run, public: Authority
    ) -> None:
        with APIServer(authority=public) as other:
            api.on("GET", "/x", Answer(302, headers={"Location": f"{other.url}/version"}))
            assert run("get", "/x").status == 0
        assert other.requests[0].header("authorization") is None

    @pytest.mark.parametrize("location", ["ftp://x/y", ":::"])
    def test_redirects_to_nowhere(self, location: str, api: APIServer, run: Run) -> None:
        api.on("GET", "/x", Answer(302, headers={"Location": location}))
        ran = run("get", "/x")
        assert (ran.status, ran.out) == (1, "")
        assert ran.err == "error: the server sends elsewhere, to an address that is none\n"

    def test_redirects_without_end(self, api: APIServer, run: Run) -> None:
        api.on("GET", "/loop", Answer(302, headers={"Location": "/loop"}))
        ran = run("get", "/loop")
        assert ran.status == Status.UNREACHABLE
        assert ran.err.startswith("Unable to connect to the server: stopped after 10 redirects\n")
        assert len(api.requests) == 11

    def test_a_resource_of_another_group_is_explained(self, api: APIServer, run: Run) -> None:
        ran = run("get", "statefulsets?limit=5")
        assert (ran.status, ran.out) == (1, "")
        assert ran.err == (
            "Error from server (NotFound): the server could not find the requested resource\n"
            '"statefulsets" was taken for a resource of the core group, which has none of that name. One of another '
            "group is written with group and version, as in apps/v1/statefulsets.\n"
        )
        # A server looks first whether one may ask.
        api.on("GET", "/api/v1/namespaces/default/things", answers.REFUSALS["/forbidden"])
        assert "as in apps/v1/deployments." in run("get", "things").err
        assert run("get", "version").err.endswith(
            "A path of the server's own begins with a slash: /version.\n"
        )
        assert "core group" not in run("get", "apps/v1/deployment").err
        assert "core group" not in run("get", "resourcequotas").err
        api.on("GET", f"{PODS}/x", answers.status(404, "NotFound", 'pods "x" not found'))
        assert run("get", "pods/x").err == 'Error from server (NotFound): pods "x" not found\n'

    def test_an_address_that_is_none(self, api: APIServer, run: Run) -> None:
        ran = run("get", "/" + "x" * 70_000)
        assert ran.status == Status.USAGE
        assert "is no address" in ran.err

    @pytest.mark.parametrize(
        "arguments",
        [
            ["get"], ["get", "a", "b"], ["get", "/x", "-o", "foo"], ["get", "/x", "-A"], ["get", "/x", "--foo"],
            ["get", "https://x/y"], ["get", "/x", "--request-timeout", "x"],
        ],
    )  # fmt: skip
    def test_a_command_line_that_makes_no_sense(self, arguments: list[str], api: APIServer, run: Run) -> None:
        ran = run(*arguments)
        assert (ran.status, ran.out) == (Status.USAGE, "")
        assert ran.err.startswith("error: ")
        assert not api.requests

    def test_a_format_that_is_none_is_told_which_there_are(self, run: Run) -> None:
        assert run("get", "/x", "-o", "jsn").err == (
            "error: argument -o/--output: 'jsn' is none of: table, wide, json, yaml, raw\nSee `kubeauth get --help`.\n"
        )

    def test_through_a_proxy(self, api: APIServer, run: Run) -> None:
        with Proxy("http") as proxy:
            document = api.kubeconfig({"token": "alices-token"}, {"proxy-url": proxy.url})
            path = Path(environ()["KUBECONFIG"])
            path.write_text(json.dumps(document))
            assert run("get", "/version").status == 0
        assert len(proxy.targets) == 1


class TestRequestTimeout:
    """--request-timeout is for a whole request, as with kubectl."""

    @pytest.fixture
    def slow(self, api: APIServer) -> Iterator[APIServer]:
        ended: list[bool] = []

        def drip() -> Iterator[bytes]:
            while not ended:
                yield b"."
                time.sleep(0.05)

        def silence() -> Iterator[bytes]:
            yield b"begun"
            while not ended:
                time.sleep(0.05)

        def late(_request: Received) -> Answer:
            while not ended:
                time.sleep(0.05)
            return Answer()

        api.on("GET", "/late", late)
        api.on("GET", "/drip", lambda _: Answer(headers=answers.TEXT, chunks=drip()))
        api.on("GET", "/silence", lambda _: Answer(headers=answers.TEXT, chunks=silence()))
        yield api
        ended.append(True)

    def test_an_answer_that_does_not_come(self, slow: APIServer, run: Run) -> None:
        ran = run("get", "/late", "--request-timeout", "200ms")
        said = "Unable to connect to the server: it did not answer within 0.2s (--request-timeout)\n"
        assert ran == (Status.UNREACHABLE, "", said)

    @pytest.mark.parametrize("path", ["/drip", "/silence"])
    def test_an_answer_that_does_not_end(
        self, path: str, slow: APIServer, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_asking, "Deadline", beginning_with("receive_response_headers.complete"))
        ran = run("get", path, "--request-timeout", "60s")
        assert ran.status == Status.UNREACHABLE
        assert ran.err == (
            "Unable to connect to the server: the answer was not complete within 60s (--request-timeout)\n"
        )

    @pytest.mark.slow
    @pytest.mark.oracle
    @pytest.mark.parametrize("path", ["/late", "/drip", "/silence"])
    def test_kubectl_gives_up_too(self, path: str, slow: APIServer, kubectl: str) -> None:
        assert ran(kubectl, "get", "--raw", path, "--request-timeout", "1s").status == 1

    @pytest.mark.oracle
    def test_the_server_is_told_as_kubectl_tells_it(self, api: APIServer, kubectl: str, run: Run) -> None:
        def asked() -> str:
            found = api.requests[-1].path
            api.requests.clear()
            return found.removeprefix("/version")

        for given, ours, theirs in [
            ("90s", "?timeout=90s", "?timeout=1m30s"),
            ("1.5s", "?timeout=1.5s", "?timeout=1.5s"),
            ("2", "?timeout=2s", "?timeout=2s"),
            ("0", "", ""),
            ("-1s", "", "?timeout=-1s"),  # which no server takes
        ]:
            run("get", "/version", f"--request-timeout={given}")
            assert asked() == ours
            ran(kubectl, "get", "--raw", "/version", f"--request-timeout={given}")
            assert asked() == theirs

    def test_without_one_a_server_may_take_its_time(self, api: APIServer, run: Run) -> None:
        def late(_request: Received) -> Answer:
            time.sleep(0.1)  # longer than 30 ms
            return Answer(body=b"late", headers=answers.TEXT)

        api.on("GET", "/x", late)
        assert run("get", "/x", "--request-timeout", "0").out == "late"
        assert run("get", "/x", "--request-timeout", "30s").out == "late"
