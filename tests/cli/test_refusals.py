"""A server that says no, in kubectl's words."""

from __future__ import annotations

import json

import pytest

from kubeauth.cli._refusals import MOST_STATUS, MOST_TEXT, is_json, refusal, refusal_in
from kubeauth.testing import Answer, APIServer
from tests.cli import answers
from tests.cli.conftest import Run
from tests.cli.programs import environ, on_a_terminal, ran
from tests.support.cases import each_case

EXPECTED = {
    "/not-found": 'Error from server (NotFound): namespaces "x" not found',
    "/forbidden": 'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods"',
    "/unauthorized": "error: You must be logged in to the server (Unauthorized)",
    "/expired": "Error from server (Expired): too old resource version: 1 (5)",
    "/without-reason": "Error from server: boom",
    "/404-empty": "Error from server (NotFound): the server could not find the requested resource",
    "/404-text": "Error from server (NotFound): the server could not find the requested resource",
    "/401-empty": "error: You must be logged in to the server (the server has asked for the client to provide credentials)",
    "/403-html": "Error from server (Forbidden): <html>no</html>",
    "/400": "Error from server (BadRequest): the server rejected our request for an unknown reason",
    "/405": "Error from server (MethodNotAllowed): the server does not allow this method on the requested resource",
    "/406": "Error from server (NotAcceptable): only protobuf",
    "/406-empty": "Error from server (NotAcceptable): the server was unable to respond with a content type that the client supports",
    "/409": "Error from server (Conflict): the server reported a conflict",
    "/410-empty": "Error from server: the server responded with the status code 410 but did not return more information",
    "/418": "Error from server: the server responded with the status code 418 but did not return more information",
    "/502-html": 'Error from server (InternalError): an error on the server ("<html><h1>502 Bad Gateway</h1></html>") has prevented the request from succeeding',
    "/500-text": 'Error from server (InternalError): an error on the server ("kaputt \\"so\\"") has prevented the request from succeeding',
    "/500-json": 'Error from server (InternalError): an error on the server ("unknown") has prevented the request from succeeding',
    "/500-empty": 'Error from server (InternalError): an error on the server ("") has prevented the request from succeeding',
    "/500-bad-json": 'Error from server (InternalError): an error on the server ("unknown") has prevented the request from succeeding',
    "/503": "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
    "/504": "Error from server (Timeout): the server was unable to return a response in the time allotted, but may still be processing the request",
    "/300": "Error from server: the server responded with the status code 300 but did not return more information",
    "/301-nowhere": "Error from server: the server responded with the status code 301 but did not return more information",
    "/304": "Error from server: the server responded with the status code 304 but did not return more information",
}  # fmt: skip


def test_there_is_one_for_each() -> None:
    assert EXPECTED.keys() == answers.REFUSALS.keys()


@each_case("output", ["table", "json", "yaml", "raw"])
@each_case("path", EXPECTED)
def test_each_is_said_on_stderr_and_nothing_on_stdout(
    path: str, output: str, api: APIServer, run: Run
) -> None:
    answers.add_to(api)
    assert run("get", path, "-o", output) == (1, "", f"{EXPECTED[path]}\n")


@pytest.mark.slow
@pytest.mark.oracle
def test_as_kubectl_says_it(api: APIServer, kubectl: str) -> None:
    answers.add_to(api)
    different = {}
    for path in answers.REFUSALS:
        theirs = ran(kubectl, "get", "--raw", path)
        if theirs != (1, "", f"{EXPECTED[path]}\n"):
            different[path] = theirs
    assert different == {}


@pytest.mark.slow
@pytest.mark.oracle
def test_what_kubectl_prints_is_printed(api: APIServer, kubectl: str, run: Run) -> None:
    answers.add_to(api)
    for path in [*answers.ANSWERS, "/version", "/version?a=b&c=d%20e"]:
        theirs, ours = ran(kubectl, "get", "--raw", path), run("get", "-o", "raw", path)
        assert ours == theirs, path
        assert ours.status == 0


def test_a_refusal_cannot_steer_a_terminal(api: APIServer) -> None:
    api.on("GET", "/x", answers.status(403, "For\x1b[2Jbidden", "no\x1b]0;title\x07 way\r\x9b31m"))
    api.on("GET", "/y", Answer(500, b"\x1b[2J" + b"x" * 10_000, answers.TEXT))
    status, said = on_a_terminal("get", "/x", env=environ())
    assert status == 1
    assert said == "Error from server (ForU+001B[2Jbidden): noU+001B]0;titleU+0007 wayU+000DU+009B31m\r\n"
    status, said = on_a_terminal("get", "/y", env=environ())
    assert "\x1b" not in said
    assert said.count("x") < MOST_TEXT + 100


def test_a_status_of_any_length_comes_to_an_end(api: APIServer, run: Run) -> None:
    def endless() -> object:
        while True:
            yield b" " * 65536

    api.on("GET", "/endless", lambda _: Answer(500, headers=answers.TEXT, chunks=endless()))  # type: ignore[arg-type]
    assert run("get", "/endless").status == 1
    long = json.dumps({"kind": "Status", "message": "m" * (MOST_STATUS // 2), "reason": "Long"}).encode()
    assert str(refusal(403, "application/json", long)).startswith("Error from server (Long): mmm")


@each_case(
    "body", [b"[", b"{", b"[" * 100_000, b"{" * 100_000, b'{"kind": "Status", "reason": 7, "message": []}', b"\xff"]
)  # fmt: skip
def test_an_answer_of_nonsense_is_no_crash(body: bytes) -> None:
    assert str(refusal(500, "application/json", body)).startswith("Error from server")
    assert refusal(500, "text/plain", body).code == 500


def test_what_is_no_refusal() -> None:
    assert refusal_in({"kind": "Status", "status": "Success"}) is None
    assert refusal_in({"kind": "Pod", "status": {}}) is None
    assert refusal_in([]) is None
    found = refusal_in({"kind": "Status", "code": "x", "message": "m"}, 418)
    assert found is not None
    assert (found.code, str(found)) == (418, "Error from server: m")


def test_what_is_json() -> None:
    announced = (
        "application/json",
        "application/json;charset=utf-8",
        "Application/JSON ; x",
        "application/scim+json",
    )
    assert all(map(is_json, announced))
    assert not any(map(is_json, ("", "text/plain", "application/jsonp", "application/yaml")))
