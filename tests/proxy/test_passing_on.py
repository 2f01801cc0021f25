"""Requests go through signed, and answers come back as they are, on asyncio and trio."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kubeauth import ClientConfig, PluginPolicy, load_config
from kubeauth._proxy._sending import Sending
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.proxy.conftest import Proxied
from tests.proxy.serving import PATIENCE, code_of, get
from tests.support.proxy_servers import Proxy as ForwardProxy
from tests.support.raw_server import RawServer, ServerConnection, always
from tests.support.residue import wait_until
from tests.support.shell_plugin import ShellPlugin


def echo(request: Received) -> Answer:
    """What arrived."""
    lowered = [[name.lower(), value] for name, value in request.headers]
    said = {"method": request.method, "path": request.path, "headers": lowered, "user": request.user}
    return Answer(body={**said, "body": request.body.decode("latin-1")}, headers={"Warning": '299 - "w"'})


@pytest.fixture
def api(server: APIServer) -> APIServer:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
        server.on(method, "/echo", echo)
    return server


def test_requests_are_signed(proxied: Proxied, api: APIServer) -> None:
    proxy = proxied(api.config(token="alices-token"))
    answer = proxy.get("/echo?a=%2f&b", headers={"X-Mine": "1", "Cookie": "c=d"})
    assert answer.status_code == 200
    assert answer.headers["Warning"] == '299 - "w"'
    said = answer.json()
    assert (said["user"], said["path"]) == ("alice", "/echo?a=%2f&b")
    headers = dict(said["headers"])
    assert (headers["x-mine"], headers["cookie"]) == ("1", "c=d")
    assert headers["host"] == api.url.removeprefix("https://")
    assert "x-forwarded-for" not in headers


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method(proxied: Proxied, api: APIServer, method: str) -> None:
    proxy = proxied(api.config(token="alices-token"))
    with httpx.Client(base_url=proxy.url, timeout=PATIENCE, trust_env=False) as client:
        for content in (None, b"", b"short", b"x" * 300_000, iter([b"in ", b"parts"])):
            answer = client.request(method, "/echo", content=content)
            body = "in parts" if isinstance(content, Iterator) else (content or b"").decode()
            assert (answer.json()["method"], answer.json()["body"]) == (method, body)
    wait_until(lambda: proxy.counts.requests[method, "2xx"] == 5)
    assert proxy.counts.in_flight == 0


def test_head(proxied: Proxied, api: APIServer) -> None:
    proxy = proxied(api.config(token="alices-token"))
    with httpx.Client(base_url=proxy.url, timeout=PATIENCE, trust_env=False) as client:
        for path, code in [("/echo", 200), ("/nothing", 404), ("/a%2fb", 400)]:
            answer = client.head(path)
            assert (answer.status_code, answer.content) == (code, b"")
            assert int(answer.headers["Content-Length"]) > 0


def test_one_connection_is_enough(proxied: Proxied, api: APIServer) -> None:
    proxy = proxied(api.config(token="alices-token"))
    with proxy.connect() as wire:
        for _ in range(3):
            wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"v1.36" in wire.until(b'"linux/amd64"}')
        # Two at once are answered one after the other.
        wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/api"))
        said = wire.rest()
    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert said.index(b"v1.36") < said.index(b"APIVersions")
    assert {request.connection for request in api.requests} == {1}


def test_the_callers_own_credential_counts(proxied: Proxied, api: APIServer) -> None:
    """As with kubectl proxy."""
    proxy = proxied(api.config(token="alices-token"))
    assert proxy.get("/echo", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert proxy.get("/echo", auth=("bob", "pass:word")).json()["user"] == "bob"
    headers = dict(proxy.get("/echo", headers={"Impersonate-User": "eve"}).json()["headers"])
    assert headers["impersonate-user"] == "eve"


def test_redirects_are_the_callers(proxied: Proxied, api: APIServer) -> None:
    api.on("GET", "/away", Answer(307, headers={"Location": "https://elsewhere.test/"}))
    answer = proxied(api.config(token="alices-token")).get("/away")
    assert (answer.status_code, answer.headers["Location"]) == (307, "https://elsewhere.test/")


def test_a_body_goes_through_as_it_is_packed(proxied: Proxied, api: APIServer) -> None:
    packed = Answer(body=b"not really gzip", headers={"Content-Encoding": "gzip"})
    api.on("GET", "/packed", packed)
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        with client.stream("GET", f"{proxied(api.config(token='alices-token')).url}/packed") as answer:
            assert b"".join(answer.iter_raw()) == b"not really gzip"
    assert [r.header("Accept-Encoding") for r in api.requests] == ["gzip, deflate"]


def test_100_continue(proxied: Proxied, api: APIServer) -> None:
    proxy = proxied(api.config(token="alices-token"))
    with proxy.connect() as wire:
        head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        wire.say(head + b"Connection: close\r\n\r\n")
        assert wire.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        wire.say(b"hi")
        assert b'"body": "hi"' in wire.rest()
    # Who is refused is not asked to go on.
    refused = proxy.say(head.replace(b"/echo", b"/a//b") + b"\r\n")
    assert refused.startswith(b"HTTP/1.1 400 ")


def test_events_come_as_they_happen_and_who_leaves_is_noticed(proxied: Proxied, api: APIServer) -> None:
    watch = api.watch("/watch")
    proxy = proxied(api.config(token="alices-token"))
    with proxy.connect() as wire:
        wire.say(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"chunked" in wire.until(b"\r\n\r\n")  # before there is any event
        watch.wait_for_watchers(timeout=PATIENCE)
        for number in range(3):
            watch.send({"n": number})
            wire.until(b'{"n": %d}' % number)
        assert proxy.counts.in_flight == 1
    # It is quiet again, and nobody is there any more.
    wait_until(lambda: proxy.counts.requests["GET", "gone"] == 1)
    assert proxy.counts.in_flight == 0


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"])
def test_the_server_is_told_at_once_when_somebody_leaves(proxied: Proxied, said: bytes) -> None:
    asked, left = threading.Event(), threading.Event()

    def converse(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(said)
        asked.set()
        connection.wait_closed()
        left.set()

    with RawServer(converse) as server:
        proxy = proxied(ClientConfig(server=server.url))
        with proxy.connect() as wire:
            wire.say(get("/slow"))
            assert asked.wait(PATIENCE)
            if said:
                wire.until(b"hi")
        assert left.wait(PATIENCE)


def test_a_short_body_is_sent_again_when_the_credential_is_refused(
    proxied: Proxied, api: APIServer, tmp_path: Path
) -> None:
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="old")
    proxy = proxied(load_config(api.kubeconfig({"exec": plugin.exec_config()})))
    assert proxy.get("/echo").status_code == 401  # it has nothing else to offer
    plugin.answer(token="alices-token")
    api.tokens["old"] = "alice"
    assert proxy.get("/echo").json()["user"] == "alice"


@pytest.mark.parametrize(("length", "code"), [(1000, 200), (200_000, 401)])
def test_what_is_sent_again_and_what_is_not(
    proxied: Proxied, api: APIServer, tmp_path: Path, length: int, code: int
) -> None:
    """A long body is on its way before anybody knows what is said to it. The next request is fine."""
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="old")
    api.tokens["old"] = "alice"
    proxy = proxied(load_config(api.kubeconfig({"exec": plugin.exec_config()})))
    assert proxy.get("/echo").status_code == 200
    plugin.answer(token="new")
    del api.tokens["old"]
    api.tokens["new"] = "alice"
    with httpx.Client(base_url=proxy.url, timeout=PATIENCE, trust_env=False) as client:
        answer = client.post("/echo", content=b"x" * length)
        assert answer.status_code == code
        if code == 200:
            assert answer.json()["body"] == "x" * length
        assert client.post("/echo", content=b"x" * length).status_code == 200
    assert len(plugin.runs) == 2


def test_an_answer_that_breaks_off_is_not_ended_politely(proxied: Proxied, authority: Authority) -> None:
    heads = {
        "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    }
    for name, head in heads.items():
        seen: queue.Queue[None] = queue.Queue()

        def converse(
            connection: ServerConnection, head: bytes = head, seen: queue.Queue[None] = seen
        ) -> None:
            connection.read_request()
            connection.send(head)
            seen.get()  # until what was said has arrived

        with RawServer(converse, pair=authority.server("127.0.0.1")) as server:
            proxy = proxied(with_trust(server, authority))
            for version in ("1.1", "1.0"):
                with proxy.connect() as wire:
                    wire.say(get("/x").replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
                    said = wire.until(b"hello")
                    seen.put(None)
                    rest = wire.rest()
                assert b"\r\n0\r\n" not in said + rest, name
                if version == "1.0" and name == "chunked":
                    # To whom the end of the connection would be the end of the answer.
                    assert rest.endswith(b"<reset>")


def with_trust(server: RawServer, authority: Authority) -> ClientConfig:
    return ClientConfig(server=server.url, ca_data=authority.pem if server.url.startswith("https") else None)


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (b"", 502, "disconnected"),
        (b"nonsense\r\n\r\n", 502, "gave no answer that makes sense: illegal status line"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502, "no Upgrade header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 502, "bad Content-Length"),
    ],
)
def test_a_server_that_makes_no_sense(
    proxied: Proxied, authority: Authority, said: bytes, code: int, words: str
) -> None:
    def converse(connection: ServerConnection) -> None:
        if connection.read_request():
            connection.send(said)

    with RawServer(converse, pair=authority.server("127.0.0.1")) as server:
        answer = proxied(with_trust(server, authority)).get("/x")
    status = answer.json()
    assert (answer.status_code, status["code"], status["kind"]) == (code, code, "Status")
    assert words in status["message"]


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: abc\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
    ],
)
def test_a_length_that_makes_no_sense_where_there_is_no_body(
    proxied: Proxied, caplog: pytest.LogCaptureFixture, method: str, said: bytes
) -> None:
    with RawServer(always(said)) as server:
        answer = proxied(ClientConfig(server=server.url)).say(get("/x", method=method))
    assert code_of(answer) == 502
    assert "a fault of kubeauth" not in caplog.text


def test_an_answer_without_an_end_of_its_own(proxied: Proxied, authority: Authority) -> None:
    """Until the server closes. To who asked it has one."""

    def converse(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n\r\nall there is")

    with RawServer(converse, pair=authority.server("127.0.0.1")) as server:
        answer = proxied(with_trust(server, authority)).get("/x")
    assert (answer.text, answer.headers["Transfer-Encoding"]) == ("all there is", "chunked")


def test_http_1_0(proxied: Proxied, authority: Authority) -> None:
    with RawServer(always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
                   pair=authority.server("127.0.0.1")) as server:  # fmt: skip
        said = proxied(with_trust(server, authority)).say(b"GET /x HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert code_of(said) == 200
    assert said.endswith(b"\r\n\r\nok")


def test_nobody_is_there(proxied: Proxied, authority: Authority) -> None:
    with RawServer(always(b""), pair=authority.server("127.0.0.1")) as server:
        config = with_trust(server, authority)
    answer = proxied(config).get("/x")
    assert (answer.status_code, answer.json().get("reason")) == (502, None)
    assert "was not reached" in answer.json()["message"]


def test_a_server_that_cannot_be_reached_in_time(
    proxied: Proxied, api: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_late(self: Sending, request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"] == {"connect": 30.0, "read": None, "write": None, "pool": None}
        raise httpx.ConnectTimeout("")

    monkeypatch.setattr(Sending, "handle_async_request", too_late)
    answer = proxied(api.config(token="alices-token")).get("/version")
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")


def test_a_server_of_somebody_else(proxied: Proxied, api: APIServer) -> None:
    answer = proxied(api.config(token="alices-token", ca_data=Authority("other").pem)).get("/version")
    assert answer.status_code == 502
    assert "certificate" in answer.json()["message"]
    assert api.requests == []


def test_a_plugin_that_fails(
    proxied: Proxied, api: APIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="the-secret", exit_code=3, stdout="the-secret", stderr="log in as alice@example.test")
    proxy = proxied(load_config(api.kubeconfig({"exec": plugin.exec_config()})))
    answer = proxy.get("/version")
    assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert "exit code 3" in answer.json()["message"]
    assert "the-secret" not in answer.text
    # What it wrote is for who runs the proxy.
    assert "alice@example.test" not in answer.text
    assert "alice@example.test" in caplog.text
    assert proxy.counts.refused == {"credential": 1}


def test_a_plugin_that_is_not_allowed(proxied: Proxied, api: APIServer, tmp_path: Path) -> None:
    document = api.kubeconfig({"exec": ShellPlugin(tmp_path).exec_config()})
    answer = proxied(load_config(document, plugin_policy=PluginPolicy.deny_all())).get("/version")
    assert answer.status_code == 500


@pytest.mark.parametrize("kind", ["http", "https"])
def test_behind_a_proxy_of_the_cluster(
    proxied: Proxied, authority: Authority, public: Authority, kind: str
) -> None:
    """There it is httpx's own transport that sends."""
    ok = always(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    pair = public.server("127.0.0.1") if kind == "https" else None
    with (
        RawServer(ok, pair=authority.server("127.0.0.1")) as server,
        ForwardProxy(kind, pair) as between,
    ):
        proxy = proxied(ClientConfig(server=server.url, ca_data=authority.pem, proxy_url=between.url))
        with httpx.Client(base_url=proxy.url, timeout=PATIENCE, trust_env=False) as client:
            assert [client.get("/x%20y?a=%2f&b").text for _ in range(2)] == ["ok", "ok"]
    assert [request.split(b" ")[1] for request in server.requests] == [b"/x%20y?a=%2f&b"] * 2
    assert between.targets == [server.url.removeprefix("https://")]


def test_a_long_answer_that_is_at_hand(proxied: Proxied, api: APIServer) -> None:
    """Many small chunks at once, and one that is long."""
    text = b"".join(b"%d\n" % number for number in range(50_000))
    api.on("GET", "/long", lambda _: Answer(chunks=[text, b"end"]))
    api.on("GET", "/big", Answer(body=text))
    proxy = proxied(api.config(token="alices-token"))
    assert proxy.get("/long").content == text + b"end"
    assert proxy.get("/big").content == text


def test_each_request_is_a_line_in_the_log(
    proxied: Proxied, api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "kubeauth")
    proxy = proxied(api.config(token="alices-token"))
    proxy.get("/version?secret=1", headers={"X-Secret": "2"})
    proxy.get("/a%2fb")
    wait_until(lambda: "was answered 400 after" in caplog.text)
    assert "GET /version was answered 200 after" in caplog.text
    assert "secret=1" not in caplog.text


def test_prefixes(proxied: Proxied, api: APIServer) -> None:
    api.on("GET", "/k8s/c-1/echo", echo)
    config = api.config(token="alices-token", server=f"{api.url}/k8s/c-1/")
    proxy = proxied(config, api_prefix="/custom", append_server_path=True)
    assert proxy.get("/custom/echo?x").json()["path"] == "/k8s/c-1/echo?x"
    assert proxy.get("/echo").status_code == 404
    # As kubectl: without it, the path of the server's address does not count.
    assert proxied(config).get("/echo").json()["path"] == "/echo"


def test_everything_is_passed_on_without_a_filter(proxied: Proxied, api: APIServer) -> None:
    proxy = proxied(api.config(token="alices-token"), filter=None)
    said = proxy.say(get("/a%2Fb/../c", "evil.example", "Origin: http://evil.example"))
    assert code_of(said) == 404
    assert [request.path for request in api.requests] == ["/a%2Fb/../c"]
    assert json.loads(said.partition(b"\r\n\r\n")[2])["kind"] == "Status"
