"""No secret in a repr, a log at DEBUG, an error, a traceback with its locals, or a pickle (I14)."""

from __future__ import annotations

import base64
import io
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth._transport.redaction import mask_headers
from kubeauth.errors import ConfigError
from kubeauth.testing import Answer, APIServer, Authority
from tests.support.cases import each_case
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.proxy_servers import Proxy

# Not in any local variable of a test: its frames are part of the traceback too.
TOKEN = "s3ntinel-token"
PASSWORD = "s3ntinel-password"
BASIC = base64.b64encode(f"bob:{PASSWORD}".encode()).decode()
OF_THE_PROXY = base64.b64encode(f"user:{PASSWORD}".encode()).decode()


def assert_clean(text: str) -> None:
    for secret in ("s3ntinel", BASIC, OF_THE_PROXY, "PRIVATE KEY-----\\nM", "PRIVATE KEY-----\nM"):
        assert secret not in text


def everything_about(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format()) + repr(error) + str(error) + repr(vars(error))


def with_token(api: APIServer, /, **fields: Any) -> ClientConfig:
    return api.config(token=TOKEN, **fields)


def with_password(api: APIServer, /, **fields: Any) -> ClientConfig:
    return api.config(username="bob", password=Secret(PASSWORD), **fields)


KINDS = [with_token, with_password]


@pytest.fixture(autouse=True)
def log() -> Any:
    """Everything that anybody logs, at every level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    # What a server in this process has read is not what the client says.
    handler.addFilter(lambda record: record.threadName != "H2Server")
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)
    assert_clean(stream.getvalue())


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_works(
    variant: ClientVariant, server: APIServer, kind: Callable[..., ClientConfig], log: io.StringIO
) -> None:
    server.tokens[TOKEN] = "alice"
    server.passwords["bob"] = PASSWORD
    config = kind(server, identity=server.authority.client("carol"))
    with variant.client(config) as client:
        response = client.get("/version")
        assert response.status_code == 200
        for it in (config, client.client, client.client._transport, client.client._transport._source,
                   client.client._transport._source.get(), response, response.request, response.request.headers,
                   client.client.status()):  # fmt: skip
            assert_clean(repr(it) + str(it))
    # The test would notice: the request was logged, with the header.
    assert "<masked>" in log.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "fault", ["refused", "wrong CA", "hangs up", "nonsense", "timeout", "stream", "proxy", "401"]
)
def test_a_request_that_does_not(
    variant: ClientVariant, server: APIServer, kind: Callable[..., ClientConfig], fault: str
) -> None:
    config = kind(server)
    with Proxy("http") as proxy:
        if fault == "refused":
            config = kind(server, server="https://127.0.0.1:9")
        elif fault == "wrong CA":
            config = kind(server, ca_data=Authority("other").pem)
        elif fault == "proxy":
            config = kind(
                server, proxy_url=proxy.url.replace("//", f"//user:{PASSWORD}@"), server="https://127.0.0.1:9"
            )
        server.tokens = {TOKEN: "alice"}
        server.passwords = {"bob": PASSWORD} if fault != "401" else {}
        watch = server.watch("/watch")
        answers = {"hangs up": Answer(hang_up=True), "nonsense": Answer(200, headers={"a b": "c"})}
        server.on("POST", "/fault", answers.get(fault, Answer()))
        try:
            with variant.client(config, timeout=0.3 if fault == "timeout" else None) as client:
                if fault == "timeout":
                    with client.stream("GET", "/watch") as stream:
                        stream.line()
                elif fault == "stream":
                    with client.stream("GET", "/watch") as stream:
                        watch.wait_for_watchers()
                        server.hang_up()
                        stream.rest()
                else:
                    client.request("POST", "/fault", content=b"x").raise_for_status()
        except Exception as error:
            watch.end()
            assert_clean(everything_about(error))
            if fault != "401":
                assert_clean(repr(pickle.dumps(error)))
        else:
            assert fault == "401"
            assert kind is with_token


def test_a_body_that_fails_while_it_is_sent(variant: ClientVariant, server: APIServer) -> None:
    """The frames below us hold the headers at that moment."""

    def chunks() -> Any:
        yield b"x"
        raise ValueError("of the caller's")

    async def achunks() -> Any:
        yield b"x"
        raise ValueError("of the caller's")

    with variant.client(with_token(server)) as client:
        with pytest.raises(ValueError, match="of the caller's") as caught:
            client.request("POST", "/x", content=achunks() if variant.is_async else chunks())
    assert_clean(everything_about(caught.value))


def test_the_callers_own_errors_keep_their_variables(variant: ClientVariant, server: APIServer) -> None:
    """What was being handled when the request was made is not ours to empty."""

    def fails() -> None:
        precious = "the caller's own"
        raise KeyError(precious)

    with variant.client(server.config(server="https://127.0.0.1:9")) as client:
        try:
            fails()
        except KeyError as first:
            with pytest.raises(variant.library.ConnectError):
                client.get("/version")
            told = traceback.TracebackException.from_exception(first, capture_locals=True)
            assert "precious" in "".join(told.format())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_it_can_be_pickled(
    variant: ClientVariant, server: APIServer, kind: Callable[..., ClientConfig]
) -> None:
    client = variant.Client(kind(server, identity=server.authority.client("carol")))
    source = client._transport._source
    for it in (client, client._transport, source, source.get(), source.get().client_certificate):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError, ConfigError)):
            pickle.dumps(it)


def test_files_that_fail_say_nothing_of_what_is_in_them(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\x00")
    with pytest.raises(Exception, match=r"not a valid HTTP header value|cannot be sent") as caught:
        variant.Client(server.config(token_file=str(token)))
    assert_clean(everything_about(caught.value))
    pair = server.authority.client("carol")
    (tmp_path / "c.pem").write_bytes(pair.certificate)
    (tmp_path / "k.pem").write_bytes(server.authority.client("dave").key)
    with pytest.raises(Exception, match="does not match") as caught:
        variant.Client(
            server.config(client_cert_file=str(tmp_path / "c.pem"), client_key_file=str(tmp_path / "k.pem"))
        )
    assert_clean(everything_about(caught.value))


def test_a_key_where_its_path_belongs(variant: ClientVariant, server: APIServer) -> None:
    def make() -> None:
        key = server.authority.client("carol").key.decode()
        variant.Client(server.config(client_cert_file="/c.pem", client_key_file=key))

    with pytest.raises(Exception, match="cannot be used") as caught:
        make()
    assert_clean(str(caught.value))


def test_headers_of_answers_are_not_logged(
    variant: ClientVariant, server: APIServer, log: io.StringIO
) -> None:
    """The cookie of a proxy that people log in at is as good as their password."""
    server.on("GET", "/version", Answer(headers={"Set-Cookie": "session=s3ntinel", "X-Echo": TOKEN}))
    with variant.client(server.config(token="alices-token")) as client:
        assert "s3ntinel" in client.get("/version").headers["Set-Cookie"]
    assert "200" in log.getvalue()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_http2_headers_are_not_logged(variant: ClientVariant, authority: Authority, log: io.StringIO) -> None:
    """Nor in the form they have on the wire, from which anybody can read them."""
    from tests.support.h2_server import H2Server

    with H2Server(authority.server("127.0.0.1")) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret(TOKEN))
        with variant.client(config, http2=True) as client:
            assert client.get("/x").http_version == "HTTP/2"
    assert "to the header table" in log.getvalue()
    assert "Encoded header block" not in log.getvalue()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_http2_through_a_factory_is_not_logged_either(
    variant: ClientVariant, authority: Authority, log: io.StringIO
) -> None:
    from tests.support.h2_server import H2Server

    def inner(context: Any, proxy: Any) -> Any:
        return variant.PlainTransport(context, proxy=proxy, http2=True)

    with H2Server(authority.server("127.0.0.1")) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret(TOKEN))
        with variant.client(config, transport_factory=inner) as client:
            assert client.get("/x").http_version == "HTTP/2"
    assert "Encoded header block" not in log.getvalue()


@pytest.mark.parametrize("way", ["transport", "auth"])
def test_a_password_in_the_servers_address_on_a_client_of_ones_own(
    variant: ClientVariant, server: APIServer, way: str, log: io.StringIO
) -> None:
    """base_url=config.server, as the documentation says."""
    server.passwords["bob"] = PASSWORD
    config = server.config(server=server.url.replace("//", f"//bob:{PASSWORD}@"))

    def make() -> Any:
        if way == "transport":
            return variant.PlainClient(transport=variant.KubeTransport(config), base_url=config.server)
        trust = variant.kubeauth.ssl_context(config)
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config), verify=trust, base_url=config.server
        )

    with variant.drive(make) as client:
        assert client.get("/version").status_code == 200
    assert "HTTP Request: GET https://127.0.0.1" in log.getvalue()


def test_an_error_that_is_a_group(variant: ClientVariant) -> None:
    """As of a transport that uses a task group."""

    def inside(header: str) -> Exception:
        try:
            int(f"no number: {len(header)}")
        except ValueError as error:
            return error
        return Exception()

    def fails(request: Any) -> Any:
        raise ExceptionGroup("several", [ValueError("one"), inside(request.headers["authorization"])])

    config = ClientConfig(server="https://h", token=Secret(TOKEN))
    with (
        variant.client(config, transport_factory=variant.in_memory(fails)) as client,
        pytest.raises(ExceptionGroup) as caught,
    ):
        client.get("/x")
    assert_clean(everything_about(caught.value))


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_a_proxys_password_is_not_logged(variant: ClientVariant, server: APIServer, kind: str) -> None:
    with Proxy(kind) as proxy:
        url = proxy.url.replace("//", f"//user:{PASSWORD}@")
        with variant.client(server.config(token=TOKEN, proxy_url=url)) as client:
            client.get("/version")
        assert proxy.credentials == [f"user:{PASSWORD}"]


def test_a_proxys_password_on_the_way_to_another_origin(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(proxy_url=f"http://user:{PASSWORD}@127.0.0.1:9")
    with variant.client(config) as client, pytest.raises(variant.library.ConnectError) as caught:
        client.get("http://other.example/")
    assert_clean(everything_about(caught.value))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClientConfig(server=f"https://user:{PASSWORD}/er2@h:1"),
        lambda: ClientConfig(server=f"ftp://user:{PASSWORD}@h"),
        lambda: ClientConfig(server="https://h", proxy_url=f"http://user:{PASSWORD}/ss@proxy:3128"),
        lambda: ClientConfig(server="https://h", proxy_url=f"ftp://user:{PASSWORD}@proxy:3128"),
        lambda: ClientConfig(server="https://h", token=Secret(f"{TOKEN}\n")),
    ],
)
def test_what_is_refused_when_it_is_built(variant: ClientVariant, make: Callable[[], ClientConfig]) -> None:
    with pytest.raises(ConfigError) as caught:
        variant.Client(make())
    assert_clean(everything_about(caught.value))


def test_a_password_that_is_no_unicode(variant: ClientVariant, server: APIServer) -> None:
    """As json.loads may hand them out: sent as it is, and told to nobody."""
    with variant.client(server.config(username="bob", password=Secret("\udcffs3ntinel"))) as client:
        assert client.get("/version").status_code == 401


@each_case(
    ("value", "shown"),
    [
        ("Bearer abc", "Bearer <masked>"),
        ("bearer abc", "bearer <masked>"),
        ("BASIC abc def", "BASIC <masked>"),
        ("Negotiate abc", "Negotiate <masked>"),
        ("Digest abc", "<masked>"),
        ("abc", "<masked>"),
        ("Bearer", "Bearer"),
        ("", ""),
    ],
)
def test_how_an_authorization_is_masked_i14(value: str, shown: str) -> None:
    assert mask_headers([("Authorization", value), ("Accept", "x")]) == {
        "Authorization": shown,
        "Accept": "x",
    }


def test_cookies_are_masked_too_i14() -> None:
    assert mask_headers([("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.x")]) == {
        "Sec-WebSocket-Protocol": "<masked>"
    }
    assert mask_headers([("Cookie", "a"), ("Proxy-Authorization", "b")]) == {
        "Cookie": "<masked>",
        "Proxy-Authorization": "<masked>",
    }
