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

# Never in a local variable of a test: its frames are part of tracebacks too.
TOKEN = "s3ntinel-token"
PASSWORD = "s3ntinel-password"
BASIC = base64.b64encode(f"bob:{PASSWORD}".encode()).decode()
PROXY_BASIC = base64.b64encode(f"user:{PASSWORD}".encode()).decode()


def assert_clean(text: str) -> None:
    for secret in ("s3ntinel", BASIC, PROXY_BASIC, "PRIVATE KEY-----\\nM", "PRIVATE KEY-----\nM"):
        assert secret not in text


def render(error: BaseException) -> str:
    """Its traceback with all local variables, its repr, message and attributes."""
    formatted = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(formatted.format()) + repr(error) + str(error) + repr(vars(error))


def with_token(api: APIServer, /, **fields: Any) -> ClientConfig:
    return api.config(token=TOKEN, **fields)


def with_password(api: APIServer, /, **fields: Any) -> ClientConfig:
    return api.config(username="bob", password=Secret(PASSWORD), **fields)


CREDENTIALS = [with_token, with_password]


@pytest.fixture(autouse=True)
def log() -> Any:
    """All records of all loggers."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    # The HTTP/2 server of a test is in this process, and hpack logs what it receives.
    handler.addFilter(lambda record: record.threadName != "H2Server")
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)
    assert_clean(stream.getvalue())


@pytest.mark.parametrize("new_config", CREDENTIALS)
def test_a_successful_request_leaks_no_secret(
    variant: ClientVariant, server: APIServer, new_config: Callable[..., ClientConfig], log: io.StringIO
) -> None:
    server.tokens[TOKEN] = "alice"
    server.passwords["bob"] = PASSWORD
    config = new_config(server, identity=server.authority.client("carol"))

    with variant.client(config) as client:
        response = client.get("/version")
        assert response.status_code == 200
        for value in (config, client.client, client.client._transport, client.client._transport._source,
                      client.client._transport._source.get(), response, response.request, response.request.headers,
                      client.client.status()):  # fmt: skip
            assert_clean(repr(value) + str(value))

    # The header was logged, masked.
    assert "<masked>" in log.getvalue()


@pytest.mark.parametrize("new_config", CREDENTIALS)
@pytest.mark.parametrize(
    "failure",
    [
        "connection refused",
        "wrong CA",
        "connection closed",
        "invalid response",
        "timeout",
        "stream closed",
        "proxy",
        "401",
    ],
)
def test_a_failed_request_leaks_no_secret(
    variant: ClientVariant, server: APIServer, new_config: Callable[..., ClientConfig], failure: str
) -> None:
    config = new_config(server)
    with Proxy("http") as proxy:
        if failure == "connection refused":
            config = new_config(server, server="https://127.0.0.1:9")
        elif failure == "wrong CA":
            config = new_config(server, ca_data=Authority("other").pem)
        elif failure == "proxy":
            config = new_config(
                server, proxy_url=proxy.url.replace("//", f"//user:{PASSWORD}@"), server="https://127.0.0.1:9"
            )
        server.tokens = {TOKEN: "alice"}
        server.passwords = {"bob": PASSWORD} if failure != "401" else {}
        watch = server.watch("/watch")
        responses = {
            "connection closed": Answer(hang_up=True),
            "invalid response": Answer(200, headers={"a b": "c"}),
        }
        server.on("POST", "/failure", responses.get(failure, Answer()))
        timeout = variant.library.Timeout(60.0, read=0.3) if failure == "timeout" else None

        try:
            with variant.client(config, timeout=timeout) as client:
                if failure == "timeout":
                    with client.stream("GET", "/watch") as stream:
                        stream.line()
                elif failure == "stream closed":
                    with client.stream("GET", "/watch") as stream:
                        watch.wait_for_watchers()
                        server.hang_up()
                        stream.rest()
                else:
                    client.request("POST", "/failure", content=b"x").raise_for_status()
        except Exception as error:
            watch.end()
            assert_clean(render(error))
            if failure != "401":
                assert_clean(repr(pickle.dumps(error)))
        else:
            assert failure == "401"
            assert new_config is with_token


def test_a_body_that_raises_while_it_is_sent_leaks_no_secret(
    variant: ClientVariant, server: APIServer
) -> None:
    """At that moment, frames of the library have the headers in local variables."""

    def chunks() -> Any:
        yield b"x"
        raise ValueError("from the caller")

    async def achunks() -> Any:
        yield b"x"
        raise ValueError("from the caller")

    with variant.client(with_token(server)) as client:
        with pytest.raises(ValueError, match="from the caller") as caught:
            client.request("POST", "/x", content=achunks() if variant.is_async else chunks())

    assert_clean(render(caught.value))


def test_an_earlier_error_of_the_caller_keeps_its_local_variables(
    variant: ClientVariant, server: APIServer
) -> None:
    """It is being handled when the request fails, and so is in the context of the new error."""

    def raise_key_error() -> None:
        caller_variable = "value"
        raise KeyError(caller_variable)

    with variant.client(server.config(server="https://127.0.0.1:9")) as client:
        try:
            raise_key_error()
        except KeyError as first:
            with pytest.raises(variant.library.ConnectError):
                client.get("/version")
            formatted = traceback.TracebackException.from_exception(first, capture_locals=True)
            assert "caller_variable = 'value'" in "".join(formatted.format())


@pytest.mark.parametrize("new_config", CREDENTIALS)
def test_client_transport_source_and_credential_cannot_be_pickled(
    variant: ClientVariant, server: APIServer, new_config: Callable[..., ClientConfig]
) -> None:
    client = variant.Client(new_config(server, identity=server.authority.client("carol")))
    source = client._transport._source
    for value in (client, client._transport, source, source.get(), source.get().client_certificate):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError, ConfigError)):
            pickle.dumps(value)


def test_errors_about_files_do_not_contain_their_content(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\x00")

    with pytest.raises(Exception, match=r"not a valid HTTP header value|cannot be sent") as caught:
        variant.Client(server.config(token_file=str(token)))

    assert_clean(render(caught.value))

    pair = server.authority.client("carol")
    (tmp_path / "c.pem").write_bytes(pair.certificate)
    (tmp_path / "k.pem").write_bytes(server.authority.client("dave").key)

    with pytest.raises(Exception, match="does not match") as caught:
        variant.Client(
            server.config(client_cert_file=str(tmp_path / "c.pem"), client_key_file=str(tmp_path / "k.pem"))
        )

    assert_clean(render(caught.value))


def test_a_key_in_place_of_its_path_is_not_in_the_error(variant: ClientVariant, server: APIServer) -> None:
    def new_client() -> None:
        key = server.authority.client("carol").key.decode()
        variant.Client(server.config(client_cert_file="/c.pem", client_key_file=key))

    with pytest.raises(Exception, match="cannot be used") as caught:
        new_client()

    assert_clean(str(caught.value))


def test_response_headers_are_not_logged(variant: ClientVariant, server: APIServer, log: io.StringIO) -> None:
    """The session cookie of an authenticating proxy is a credential."""
    server.on("GET", "/version", Answer(headers={"Set-Cookie": "session=s3ntinel", "X-Echo": TOKEN}))
    with variant.client(server.config(token="alices-token")) as client:
        assert "s3ntinel" in client.get("/version").headers["Set-Cookie"]
    assert "200" in log.getvalue()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_http2_headers_are_not_logged(variant: ClientVariant, authority: Authority, log: io.StringIO) -> None:
    """Also not in their encoded form, which anyone can decode."""
    from tests.support.h2_server import H2Server

    with H2Server(authority.server("127.0.0.1")) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret(TOKEN))
        with variant.client(config, http2=True) as client:
            assert client.get("/x").http_version == "HTTP/2"

    assert "to the header table" in log.getvalue()
    assert "Encoded header block" not in log.getvalue()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_http2_headers_with_a_transport_factory_are_not_logged(
    variant: ClientVariant, authority: Authority, log: io.StringIO
) -> None:
    from tests.support.h2_server import H2Server

    def factory(context: Any, proxy: Any) -> Any:
        return variant.PlainTransport(context, proxy=proxy, http2=True)

    with H2Server(authority.server("127.0.0.1")) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret(TOKEN))
        with variant.client(config, transport_factory=factory) as client:
            assert client.get("/x").http_version == "HTTP/2"

    assert "Encoded header block" not in log.getvalue()


@pytest.mark.parametrize("use", ["KubeTransport", "KubeAuth"])
def test_a_password_in_the_server_url_is_not_logged_by_a_plain_client(
    variant: ClientVariant, server: APIServer, use: str, log: io.StringIO
) -> None:
    """With base_url=config.server, as documented."""
    server.passwords["bob"] = PASSWORD
    config = server.config(server=server.url.replace("//", f"//bob:{PASSWORD}@"))

    def new_client() -> Any:
        if use == "KubeTransport":
            return variant.PlainClient(transport=variant.KubeTransport(config), base_url=config.server)
        context = variant.kubeauth.ssl_context(config)
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config), verify=context, base_url=config.server
        )

    with variant.drive(new_client) as client:
        assert client.get("/version").status_code == 200

    assert "HTTP Request: GET https://127.0.0.1" in log.getvalue()


def test_an_exception_group_leaks_no_secret(variant: ClientVariant) -> None:
    """As raised by a transport that uses a task group."""

    def error_with_local(header: str) -> Exception:
        try:
            int(f"not a number: {len(header)}")
        except ValueError as error:
            return error
        return Exception()

    def raise_group(request: Any) -> Any:
        raise ExceptionGroup(
            "several", [ValueError("one"), error_with_local(request.headers["authorization"])]
        )

    config = ClientConfig(server="https://h", token=Secret(TOKEN))

    with (
        variant.client(config, transport_factory=variant.in_memory(raise_group)) as client,
        pytest.raises(ExceptionGroup) as caught,
    ):
        client.get("/x")

    assert_clean(render(caught.value))


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_a_proxy_password_is_not_logged(variant: ClientVariant, server: APIServer, kind: str) -> None:
    with Proxy(kind) as proxy:
        url = proxy.url.replace("//", f"//user:{PASSWORD}@")
        with variant.client(server.config(token=TOKEN, proxy_url=url)) as client:
            client.get("/version")
        assert proxy.credentials == [f"user:{PASSWORD}"]


def test_a_proxy_password_is_not_in_an_error_of_another_origin(
    variant: ClientVariant, server: APIServer
) -> None:
    config = server.config(proxy_url=f"http://user:{PASSWORD}@127.0.0.1:9")
    with variant.client(config) as client, pytest.raises(variant.library.ConnectError) as caught:
        client.get("http://other.example/")
    assert_clean(render(caught.value))


@pytest.mark.parametrize(
    "new_config",
    [
        lambda: ClientConfig(server=f"https://user:{PASSWORD}/er2@h:1"),
        lambda: ClientConfig(server=f"ftp://user:{PASSWORD}@h"),
        lambda: ClientConfig(server="https://h", proxy_url=f"http://user:{PASSWORD}/ss@proxy:3128"),
        lambda: ClientConfig(server="https://h", proxy_url=f"ftp://user:{PASSWORD}@proxy:3128"),
        lambda: ClientConfig(server="https://h", token=Secret(f"{TOKEN}\n")),
    ],
)
def test_an_error_about_an_invalid_config_leaks_no_secret(
    variant: ClientVariant, new_config: Callable[[], ClientConfig]
) -> None:
    with pytest.raises(ConfigError) as caught:
        variant.Client(new_config())
    assert_clean(render(caught.value))


def test_a_password_with_a_lone_surrogate_is_not_logged(variant: ClientVariant, server: APIServer) -> None:
    """json.loads can return such a string. The log is checked by the fixture."""
    with variant.client(server.config(username="bob", password=Secret("\udcffs3ntinel"))) as client:
        assert client.get("/version").status_code == 401


@each_case(
    ("value", "masked"),
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
def test_authorization_is_masked_i14(value: str, masked: str) -> None:
    assert mask_headers([("Authorization", value), ("Accept", "x")]) == {
        "Authorization": masked,
        "Accept": "x",
    }


def test_cookies_and_other_credentials_are_masked_i14() -> None:
    assert mask_headers([("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.x")]) == {
        "Sec-WebSocket-Protocol": "<masked>"
    }
    assert mask_headers([("Cookie", "a"), ("Proxy-Authorization", "b")]) == {
        "Cookie": "<masked>",
        "Proxy-Authorization": "<masked>",
    }
