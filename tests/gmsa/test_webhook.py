"""The webhook as an ASGI application, with the real client below it on a real server."""

from __future__ import annotations

import base64
import inspect
import json
import logging
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest
from prometheus_client import CollectorRegistry

import kubeauth
from kubeauth import AsyncClient
from kubeauth.errors import ConfigError
from kubeauth.gmsa import Policy, _webhook, app
from kubeauth.gmsa._registration import VERSIONS
from kubeauth.gmsa._review import MAX_REVIEW, read_review
from kubeauth.testing import APIServer
from tests.gmsa.api import REVIEWS, SPECS, KnownSpecs
from tests.gmsa.pods import CONTENTS, Document, container, pod
from tests.gmsa.test_review import review
from tests.project.test_exports import in_a_fresh_process
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL

JSON = {"content-type": "application/json"}
BOTH = pytest.mark.parametrize("path", ["/mutate", "/validate"])
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
# However busy this machine is.
UNHURRIED: dict[str, Any] = {"body_timeout": 60, "decision_timeout": 60}


@pytest.fixture
def known() -> Iterator[KnownSpecs]:
    with APIServer(tokens={"t": "webhook"}) as server:
        yield KnownSpecs(server)


def used(
    known: KnownSpecs,
    work: Callable[[httpx.AsyncClient], Awaitable[Any]],
    backend: str = "asyncio",
    **options: Any,
) -> Any:
    """What comes of talking to a webhook that asks that server."""

    async def talk() -> Any:
        async with AsyncClient(known.server.config(token="t")) as client:
            transport = httpx.ASGITransport(app(client, **UNHURRIED | options))
            async with httpx.AsyncClient(transport=transport, base_url="https://webhook") as caller:
                return await work(caller)

    return anyio.run(talk, backend=backend)


def posted(
    known: KnownSpecs, path: str, body: bytes, headers: dict[str, str] = JSON, **options: Any
) -> httpx.Response:
    async def post(caller: httpx.AsyncClient) -> httpx.Response:
        return await caller.post(path, content=body, headers=headers)

    answer: httpx.Response = used(known, post, **options)
    return answer


def answered(known: KnownSpecs, path: str, body: bytes, **options: Any) -> Document:
    reply = posted(known, path, body, **options)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    response: Document = reply.json()["response"]
    return response


@BACKENDS
def test_a_pod_is_expanded_and_then_admitted_b16_b22(known: KnownSpecs, backend: str) -> None:
    response = answered(known, "/mutate", review(object=pod("web-spec")), backend=backend)
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    (operation,) = json.loads(base64.b64decode(response["patch"]))
    assert operation["value"] == CONTENTS
    assert known.asked == [("GET", f"{SPECS}/web-spec")]

    response = answered(known, "/validate", review(object=pod("web-spec", CONTENTS)), backend=backend)
    assert response == {"uid": "u-1", "allowed": True}
    assert known.asked[1:] == [("POST", REVIEWS), ("GET", f"{SPECS}/web-spec")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_denial_says_why_with_status_200_b18_b22(known: KnownSpecs, version: str) -> None:
    known.granted.clear()
    reply = posted(known, "/validate", review(version, object=pod("web-spec", SENTINEL)))
    assert (reply.status_code, reply.json()["apiVersion"]) == (200, version)
    response = reply.json()["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 403)
    assert set(response["status"]) == {"metadata", "message", "code"}
    for word in ('"robot"', '"web-spec"', "`use`", "no binding of 100% use"):
        assert word in response["status"]["message"]
    assert SENTINEL not in reply.text


@pytest.mark.parametrize(
    ("path", "spec", "code"), [("/mutate", "missing", 404), ("/mutate", "never-heard-of", 500), ("/validate", "web-spec", 422)]
)  # fmt: skip
def test_codes_are_those_of_the_decision_b18(known: KnownSpecs, path: str, spec: str, code: int) -> None:
    contents = None if path == "/mutate" else "{}"
    response = answered(known, path, review(object=pod(spec, contents)))
    assert response["status"]["code"] == code


def test_a_policy_counts(known: KnownSpecs) -> None:
    seed = answered(known, "/mutate", review(object=pod("missing")), policy=Policy(codes="seed"))
    assert seed["status"]["code"] == 422


def test_a_spec_without_contents_is_417_b56(known: KnownSpecs) -> None:
    known.put("web-spec", None)
    assert answered(known, "/mutate", review(object=pod("web-spec")))["status"]["code"] == 417


@BOTH
@pytest.mark.parametrize("body", [b"", b"nope", b"[]", b"{}", b'{"request":null}', b"\xff" * 1000])
def test_a_bad_body_is_a_denial_too_b18_b20(known: KnownSpecs, path: str, body: bytes) -> None:
    response = answered(known, path, body)
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("", False, 400)
    assert known.asked == []


@BOTH
def test_a_kind_that_is_no_pod_is_400_b23(known: KnownSpecs, path: str) -> None:
    response = answered(known, path, review(kind={"kind": "Deployment"}, object={}))
    assert (response["uid"], response["status"]["code"]) == ("u-1", 400)


@BOTH
@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "DELETE", "OPTIONS"])
def test_reviews_are_posted_b17(known: KnownSpecs, path: str, method: str) -> None:
    reply = used(known, lambda caller: caller.request(method, path, headers={"content-type": "text/plain"}))
    assert (reply.status_code, reply.content, reply.headers["allow"]) == (405, b"", "POST")


@BOTH
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200), ("application/json; charset=utf-8", 200), ("Application/JSON;charset=UTF-8", 200),
        ('application/json; charset="utf-8"', 200), ("application/json;", 200), ("application/json; charset=latin-1", 415),
        ("application/json; boundary=x", 415), ("text/plain", 415), ("", 415), ("application/yaml", 415), ("application/jsonx", 415),
    ],
)  # fmt: skip
def test_a_body_is_json_whatever_is_said_about_its_charset_b17(
    known: KnownSpecs, path: str, kind: str, status: int
) -> None:
    reply = posted(known, path, review(object=pod()), {"content-type": kind})
    assert reply.status_code == status
    assert status == 200 or reply.content == b""


@BOTH
def test_a_type_must_be_given_and_given_once_b17(known: KnownSpecs, path: str) -> None:
    async def both_ways(caller: httpx.AsyncClient) -> list[int]:
        kinds: list[list[tuple[str, str]]] = [
            [],
            [("content-type", "application/json"), ("content-type", "text/plain")],
        ]
        return [
            (await caller.post(path, content=review(object=pod()), headers=each)).status_code
            for each in kinds
        ]

    assert used(known, both_ways) == [415, 415]


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT"])
def test_health_and_info_take_any_method_b16(known: KnownSpecs, method: str) -> None:
    async def both(caller: httpx.AsyncClient) -> tuple[httpx.Response, httpx.Response]:
        return await caller.request(method, "/health"), await caller.request(method, "/info")

    health, info = used(known, both)
    assert (health.status_code, health.content) == (204, b"")
    assert info.status_code == 200
    if method != "HEAD":
        assert info.json() == {"version": kubeauth.__version__}
    assert known.asked == []


@pytest.mark.parametrize(
    "path", ["/", "/validate/", "/mutate/x", "/healthz", "//validate", "/Validate", "/docs"]
)
def test_other_paths_are_not_found_b16(known: KnownSpecs, path: str) -> None:
    reply = posted(known, path, review(object=pod()))
    assert (reply.status_code, reply.content, "location" in reply.headers) == (404, b"", False)


def exchange(
    known: KnownSpecs,
    receive: Callable[[], Awaitable[dict[str, Any]]],
    path: str = "/validate",
    **options: Any,
) -> list[dict[str, Any]]:
    """What an ASGI server is told to send, when it has that to say."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
        "headers": [(b"content-type", b"application/json")], "http_version": "1.1", "scheme": "https",
        "server": ("webhook", 443),
    }  # fmt: skip

    async def send(message: Any) -> None:
        sent.append(message)

    async def talk() -> None:
        async with AsyncClient(known.server.config(token="t")) as client:
            await app(client, **UNHURRIED | options)(scope, receive, send)

    anyio.run(talk)
    return sent


def test_nobody_reads_for_ever_b19(known: KnownSpecs) -> None:
    chunks = 0

    async def receive() -> dict[str, Any]:
        nonlocal chunks
        chunks += 1
        return {"type": "http.request", "body": b" " * 2**18, "more_body": True}  # for ever

    start, body = exchange(known, receive)
    # 4 MiB that count, and four times as much that is thrown away.
    assert chunks == 5 * MAX_REVIEW // 2**18 + 2
    assert start["status"] == 200
    assert (b"connection", b"close") in start["headers"]
    response = json.loads(body["body"])["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert "larger than 4 MiB" in response["status"]["message"]


def test_the_rest_of_what_is_too_large_is_not_waited_for_b19(known: KnownSpecs) -> None:
    messages = iter([{"type": "http.request", "body": b" " * (MAX_REVIEW + 1), "more_body": True}])

    async def receive() -> dict[str, Any]:
        for message in messages:
            return message
        await anyio.sleep_forever()
        raise AssertionError

    start, body = exchange(known, receive, body_timeout=0.05)
    assert (b"connection", b"close") in start["headers"]
    assert json.loads(body["body"])["response"]["status"]["code"] == 400


def test_what_is_not_too_large_is_answered_b19(known: KnownSpecs) -> None:
    body = review(object=pod("web-spec"))
    reply = posted(known, "/mutate", body + b" " * (MAX_REVIEW - len(body)))
    assert reply.json()["response"]["allowed"]
    assert "connection" not in reply.headers


def test_a_large_answer_is_sent_in_pieces_so_that_nobody_has_to_keep_it_b19(known: KnownSpecs) -> None:
    known.put("web-spec", {"a": "x" * 60_000})
    containers = [{"name": str(n)} for n in range(3)]
    body = review(
        object=pod("web-spec", containers=[{**each, **pod("web-spec")["spec"]} for each in containers])
    )

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    start, *pieces = exchange(known, receive, path="/mutate")
    whole = b"".join(each["body"] for each in pieces)
    assert dict(start["headers"])[b"content-length"] == str(len(whole)).encode()
    assert json.loads(whole)["response"]["patchType"] == "JSONPatch"
    assert max(len(each["body"]) for each in pieces) == 2**16
    assert [each["more_body"] for each in pieces] == [True] * (len(pieces) - 1) + [False]


@pytest.mark.attack(
    "GMSA webhook",
    "large reviews, many at a time",
    "health checks and small reviews are answered; few large bodies are held in memory",
)
def test_a_review_that_takes_long_to_read_holds_nobody_up_b19(
    known: KnownSpecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in a thread: small ones are answered meanwhile. This one is not done before five of them are."""
    evil = b'{"request":{"kind":{"kind":"Pod"},"object":{"spec":{"a":[' + b"1," * 300_000 + b"1]}}}}"
    small = review(object=pod(containers=[]))
    begun, enough = threading.Event(), threading.Event()

    def read(body: bytes) -> Any:
        if len(body) == len(evil):
            begun.set()
            assert enough.wait(30), "nobody was answered meanwhile"
        return read_review(body)

    monkeypatch.setattr(_webhook, "read_review", read)

    async def both(caller: httpx.AsyncClient) -> list[int]:
        answers: list[int] = []

        async def one() -> None:
            reply = await caller.post("/validate", content=evil, headers=JSON)
            answers.append(reply.json()["response"]["status"]["code"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            while not begun.is_set():  # noqa: ASYNC110 -- in another thread
                await anyio.sleep(0.001)
            for _ in range(5):
                reply = await caller.post("/validate", content=small, headers=JSON)
                assert reply.json()["response"]["allowed"]
                assert answers == []
            enough.set()
        return answers

    assert used(known, both) == [400]  # there is no operation


@pytest.mark.attack(
    "GMSA webhook",
    "large reviews, many at a time",
    "health checks and small reviews are answered; few large bodies are held in memory",
)
def test_few_large_bodies_are_kept_at_a_time_and_small_ones_pass_b19(known: KnownSpecs) -> None:
    async def many(caller: httpx.AsyncClient) -> list[int]:
        over, codes, begun = anyio.Event(), list[int](), [anyio.Event() for _ in range(16)]

        async def slowly(number: int) -> AsyncIterator[bytes]:
            yield b" " * 200_000
            begun[number].set()  # it was taken, and has a place
            await over.wait()
            yield b"{}"

        async def post(content: Any) -> None:
            codes.append((await caller.post("/validate", content=content, headers=JSON)).status_code)

        async with anyio.create_task_group() as tasks:
            for number, each in enumerate(begun):
                tasks.start_soon(post, slowly(number))
                await each.wait()
            tasks.start_soon(post, b" " * 200_000)  # all of it is there, and no place for it
            for _ in range(20):
                small = await caller.post(
                    "/validate", content=review(object=pod(containers=[])), headers=JSON
                )
                assert small.json()["response"]["allowed"]
                await anyio.sleep(0.01)  # nothing in it waits for anything
            assert codes == []
            over.set()
        return codes

    assert used(known, many) == [200] * 17


def test_a_body_that_does_not_arrive_is_not_waited_for_b19(known: KnownSpecs) -> None:
    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    start, body = exchange(known, receive, body_timeout=0.05)
    assert (start["status"], body["body"]) == (408, b"")
    assert (b"connection", b"close") in start["headers"]


def test_who_hangs_up_in_the_middle_is_no_error(known: KnownSpecs, caplog: pytest.LogCaptureFixture) -> None:
    messages: Iterator[dict[str, Any]] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, Any]:
        return next(messages)

    exchange(known, receive)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_an_api_server_that_takes_too_long_is_a_denial_b19_b82(known: KnownSpecs) -> None:
    class Slow:
        async def get(self, *_: Any, **__: Any) -> Any:
            await anyio.sleep_forever()

        post = get

    async def talk() -> Document:
        transport = httpx.ASGITransport(app(Slow(), decision_timeout=0.05))
        async with httpx.AsyncClient(transport=transport, base_url="https://webhook") as caller:
            reply = await caller.post("/validate", content=review(object=pod("web-spec")), headers=JSON)
            document: Document = reply.json()
            return document

    response = anyio.run(talk)["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 500)
    assert "could not be decided in 0.05 seconds" in response["status"]["message"]


@pytest.mark.slow
def test_questions_have_a_limit_if_it_is_given_b57(known: KnownSpecs) -> None:
    """What two questions need is more than there is: the second has its turn in 1,000 seconds."""
    body = review(object=pod("web-spec", CONTENTS))
    response = answered(known, "/validate", body, qps=0.001, burst=1, decision_timeout=2.0)
    assert response["status"]["code"] == 500
    assert "could not be decided in 2 seconds" in response["status"]["message"]
    assert len(known.asked) <= 1


@BOTH
def test_a_mistake_is_a_denial_and_tells_nobody_what_was_in_a_pod_b83(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def get(self, *_: Any, **__: Any) -> Any:
            raise ValueError(SENTINEL)

        post = get

    async def talk() -> httpx.Response:
        transport = httpx.ASGITransport(app(Broken()))
        async with httpx.AsyncClient(transport=transport, base_url="https://webhook") as caller:
            return await caller.post(path, content=review(object=pod("web-spec")), headers=JSON)

    reply = anyio.run(talk)
    assert (reply.json()["response"]["uid"], reply.json()["response"]["status"]["code"]) == ("u-1", 500)
    assert SENTINEL not in reply.text + caplog.text
    assert "ValueError" in caplog.text
    assert "test_webhook.py" in caplog.text  # where it was


def test_no_log_has_a_pod_or_contents_in_it_b75_b83(
    known: KnownSpecs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    known.put("web-spec", {"PluginInput": SENTINEL})
    secret = pod("web-spec", SENTINEL, containers=[container("c", "web-spec")])
    secret["metadata"]["annotations"] = {"a": SENTINEL}
    secret["spec"]["env"] = SENTINEL
    bodies = [
        review(object=secret),
        review(object=secret, operation="UPDATE", oldObject=pod()),
        review(object=secret, operation="DELETE"),
        review(object=[SENTINEL]),
        review(object=pod("web-spec"), kind={"kind": "Other"}),
        SENTINEL.encode(),
        json.dumps({"request": SENTINEL, SENTINEL: SENTINEL}).encode(),
    ]
    for path in ("/mutate", "/validate"):
        for body in bodies:
            posted(known, path, body)
    assert len([each for each in caplog.records if each.name == "kubeauth.gmsa"]) == 2 * len(bodies)
    assert SENTINEL not in caplog.text


def test_a_denial_is_one_line_of_the_log_whatever_is_in_it_b83(
    known: KnownSpecs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kubeauth.gmsa")
    posted(known, "/validate", review(object=pod("web-spec"), uid="u\nroot: yes %s", namespace="shop"))
    assert [each for each in caplog.records if each.name == "kubeauth.gmsa"] == []  # admitted: for DEBUG
    known.granted.clear()
    posted(known, "/validate", review(object=pod("web-spec"), uid="u\nroot: yes %s", namespace="shop"))
    (record,) = [each for each in caplog.records if each.name == "kubeauth.gmsa"]
    line = record.getMessage()
    assert "\n" not in line
    for word in (
        "/validate",
        '"CREATE"',
        'namespace="shop"',
        'uid="uU+000Aroot: yes %s"',
        "code=403",
        "100% use",
    ):
        assert word in line


@pytest.mark.attack(
    "GMSA webhook",
    "log injection by names in a review",
    "one line for each review, in which no field can be forged",
)
def test_nobody_writes_in_the_log_what_is_ours_to_say_b83(
    known: KnownSpecs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kubeauth.gmsa")
    forged = 'u" allowed=True code=200 message="ok\\'
    answered(known, "/validate", review(uid=forged, object=pod(None, "{}")))
    (line,) = [each.getMessage() for each in caplog.records if "/validate" in each.getMessage()]
    fields = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line)
    assert [value for name, value in fields if name == "allowed"] == ["False"]
    assert len({name for name, _ in fields}) == len(fields)


@pytest.mark.parametrize("text", [r"\ud800", r"\u0000", r"\u2028", "é"])
def test_a_strange_uid_comes_back(known: KnownSpecs, text: str) -> None:
    body = review(object=pod(), uid="MARK").replace(b"MARK", text.encode())
    response = answered(known, "/validate", body)
    # Half of a pair is no character: Go writes this one in its place, too.
    assert response["uid"] == ("\N{REPLACEMENT CHARACTER}" if text == r"\ud800" else json.loads(f'"{text}"'))


def samples(text: str) -> dict[str, float]:
    lines = (line for line in text.splitlines() if line.startswith("kubeauth_gmsa_"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_reviews_are_counted_by_path_operation_and_code(known: KnownSpecs) -> None:
    def series(path: str, operation: str, code: int) -> str:
        return f'kubeauth_gmsa_reviews_total{{code="{code}",operation="{operation}",path="{path}"}}'

    async def some(caller: httpx.AsyncClient) -> tuple[str, str, str]:
        before = (await caller.get("/metrics")).text
        bodies = [
            review(object=pod("web-spec")),
            review(object=pod("missing")),
            review(object=pod(), operation="UPDATE"),
            review(object=pod(), operation="sudo\n"),
            b"nope",
        ]
        for body in bodies:
            await caller.post("/mutate", content=body, headers=JSON)
        await caller.post("/mutate", content=b"", headers={"content-type": "text/plain"})
        reply = await caller.get("/metrics")
        return before, reply.text, reply.headers["content-type"]

    before, after, kind = used(known, some)
    assert kind.startswith("text/plain; version=")
    # There before anything was counted.
    assert samples(before)[series("/validate", "CREATE", 403)] == 0
    counted = {name: value for name, value in samples(after).items() if value and "reviews_total" in name}
    assert counted == {
        series("/mutate", "CREATE", 200): 1,
        series("/mutate", "CREATE", 404): 1,
        series("/mutate", "UPDATE", 200): 1,
        series("/mutate", "other", 400): 2,
    }
    assert samples(after)['kubeauth_gmsa_review_seconds_count{path="/mutate"}'] == 5
    assert "rest_client_exec_plugin_call_total" in after  # the credentials of the webhook itself


def test_metrics_go_where_they_are_wanted(known: KnownSpecs) -> None:
    registry = CollectorRegistry()
    used(known, lambda caller: caller.post("/mutate", content=b"", headers=JSON), registry=registry)
    labels = {"path": "/mutate", "operation": "other", "code": "400"}
    assert registry.get_sample_value("kubeauth_gmsa_reviews_total", labels) == 1


def test_two_webhooks_in_a_process_count_apart(known: KnownSpecs) -> None:
    for _ in range(2):
        text = used(known, lambda caller: caller.get("/metrics")).text
        assert len(re.findall("^# TYPE kubeauth_gmsa_reviews_total ", text, re.M)) == 1


def test_many_reviews_at_a_time_are_answered_each_with_its_own(known: KnownSpecs) -> None:
    for number in range(20):
        known.put(f"spec-{number}", {"number": str(number)})

    async def all_at_once(caller: httpx.AsyncClient) -> dict[str, str]:
        found: dict[str, str] = {}

        async def one(number: int) -> None:
            body = review(object=pod(f"spec-{number}"), uid=f"u-{number}")
            response = (await caller.post("/mutate", content=body, headers=JSON)).json()["response"]
            found[response["uid"]] = json.loads(base64.b64decode(response["patch"]))[0]["value"]

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        return found

    assert used(known, all_at_once) == {f"u-{n}": f'{{"number":"{n}"}}' for n in range(20)}


def test_revocation_bites_at_the_next_review_b57(known: KnownSpecs) -> None:
    async def before_and_after(caller: httpx.AsyncClient) -> list[bool]:
        body = review(object=pod("web-spec"))
        first = await caller.post("/validate", content=body, headers=JSON)
        known.granted.clear()
        second = await caller.post("/validate", content=body, headers=JSON)
        return [each.json()["response"]["allowed"] for each in (first, second)]

    assert used(known, before_and_after) == [True, False]


@each_case("options", [{"body_timeout": 0}, {"decision_timeout": -1}, {"qps": 0}, {"qps": 1, "burst": 0}])
def test_a_limit_that_lets_nothing_through_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        app(AsyncClient(kubeauth.ClientConfig(server="https://127.0.0.1:1")), **options)


def test_without_starlette_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubeauth.gmsa._webhook", None)
    with pytest.raises(ImportError, match=r"pip install 'kubeauth\[gmsa\]'"):
        app(AsyncClient(kubeauth.ClientConfig(server="https://127.0.0.1:1")))
    code = """
import json, sys
sys.modules["starlette"] = sys.modules["starlette.applications"] = None
from kubeauth.gmsa import *
try:
    app(object())
except ImportError as error:
    print(json.dumps(str(error)))
"""
    assert (
        in_a_fresh_process(code)
        == "kubeauth.gmsa.app needs starlette. Install it: pip install 'kubeauth[gmsa]'"
    )


def test_by_default_it_answers_before_the_api_server_gives_up() -> None:
    """Which is after 10 seconds: whoever hears nothing by then does not hear why either."""
    defaults = inspect.signature(app).parameters
    assert defaults["body_timeout"].default + defaults["decision_timeout"].default < 10
