"""Client and KubeTransport: the credentials, headers and options of their requests, with a real server."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubeauth
from kubeauth import ClientConfig, Impersonation, Secret
from kubeauth.errors import ClientCertificateError, ConfigError, TLSError
from kubeauth.testing import Answer, APIServer, Authority
from tests.support.clients import VARIANTS, ClientVariant


def item_names(response: Any) -> list[str]:
    return [item["metadata"]["name"] for item in response.json()["items"]]


def test_a_token_is_sent_as_bearer_k58(variant: ClientVariant, server: APIServer) -> None:
    with variant.client(server.config(token="alices-token")) as client:
        assert item_names(client.get("/api/v1/namespaces")) == ["default", "kube-public", "kube-system"]

    (request,) = server.requests
    assert (request.user, request.header("authorization")) == ("alice", "Bearer alices-token")
    assert request.certificate is None


@pytest.mark.parametrize(("password", "status"), [("pass:word", 200), ("wrong", 401)])
def test_a_username_and_password_are_sent_i8(
    variant: ClientVariant, server: APIServer, password: str, status: int
) -> None:
    config = server.config(username="bob", password=Secret(password))
    with variant.client(config) as client:
        assert client.get("/version").status_code == status


def test_an_empty_password_is_valid_i8(variant: ClientVariant, authority: Authority) -> None:
    with APIServer(authority=authority, passwords={"bob": ""}) as server, variant.client(server.config(username="bob")) as client:  # fmt: skip
        assert client.get("/version").status_code == 200
    assert server.requests[0].header("authorization") == "Basic Ym9iOg=="


def test_a_client_certificate_from_inline_data_k55(variant: ClientVariant, server: APIServer) -> None:
    with variant.client(server.config(identity=server.authority.client("carol", ["dev"]))) as client:
        assert client.get("/version").status_code == 200
    (request,) = server.requests
    assert (request.user, request.common_name, request.header("authorization")) == ("carol", "carol", None)


def test_a_client_certificate_from_files_k54(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    server.authority.client("carol").write(tmp_path / "c.pem", tmp_path / "k.pem")
    config = server.config(client_cert_file=str(tmp_path / "c.pem"), client_key_file=str(tmp_path / "k.pem"))
    with variant.client(config) as client:
        assert client.get("/version").status_code == 200

    assert server.requests[0].common_name == "carol"


def test_a_certificate_and_a_token_are_sent_together(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(token="alices-token", identity=server.authority.client("carol"))
    with variant.client(config) as client:
        client.get("/version")

    (request,) = server.requests
    assert (request.user, request.common_name) == ("alice", "carol")


def test_without_credentials_the_request_is_anonymous(variant: ClientVariant, server: APIServer) -> None:
    with variant.client(server.config()) as client:
        assert client.get("/version").status_code == 401
    (request,) = server.requests
    assert (request.header("authorization"), request.certificate) == (None, None)


def test_a_401_with_a_static_credential_is_returned_without_a_retry(
    variant: ClientVariant, server: APIServer
) -> None:
    with variant.client(server.config(token="wrong")) as client:
        response = client.get("/version")
    assert (response.status_code, response.json()["reason"]) == (401, "Unauthorized")
    assert len(server.requests) == 1


def test_without_a_config_the_default_kubeconfig_is_loaded(
    variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document = server.kubeconfig({"token": "alices-token"})
    document["users"].append({"name": "other", "user": {"token": "wrong"}})
    document["contexts"].append({"name": "other", "context": {"cluster": "local", "user": "other"}})
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(path))

    with variant.client() as client:
        assert client.get("/version").status_code == 200

    with variant.client(context="other") as client:
        assert client.get("/version").status_code == 401

    with variant.drive(
        lambda: variant.PlainClient(transport=variant.KubeTransport(), base_url=server.url)
    ) as client:
        assert client.get("/version").status_code == 200


def test_a_config_together_with_a_context_raises_type_error(variant: ClientVariant) -> None:
    with pytest.raises(TypeError, match="not both"):
        variant.Client(ClientConfig(server="https://h"), context="prod")


def test_kube_transport_works_with_a_plain_client(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(token="alices-token", identity=server.authority.client("carol"))
    with variant.drive(
        lambda: variant.PlainClient(transport=variant.KubeTransport(config), base_url=config.server)
    ) as client:
        assert client.get("/version").status_code == 200

    (request,) = server.requests
    assert (request.user, request.common_name) == ("alice", "carol")


@pytest.mark.parametrize("prefix", ["/k8s/clusters/c-1", "/k8s/clusters/c-1/"])
@pytest.mark.parametrize("path", ["/version", "version"])
def test_a_path_in_the_server_url_is_a_prefix(
    variant: ClientVariant, server: APIServer, prefix: str, path: str
) -> None:
    config = server.config(token="alices-token")
    with variant.client(dataclasses.replace(config, server=server.url + prefix)) as client:
        client.get(path)
    assert server.requests[0].path == "/k8s/clusters/c-1/version"


def test_base_url_can_be_overridden(variant: ClientVariant, server: APIServer) -> None:
    with variant.client(server.config(token="alices-token"), base_url=f"{server.url}/api/v1") as client:
        assert client.get("namespaces").status_code == 200


def test_a_password_in_the_server_url_is_sent_and_not_logged(
    variant: ClientVariant, server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    config = server.config(token="alices-token")
    config = dataclasses.replace(config, server=server.url.replace("//", "//bob:pass%3Aword@"))

    with variant.client(config) as client:
        assert client.get("/version").status_code == 200
        assert client.client.status().source == "server URL"

    assert server.requests[0].user == "bob"
    assert "word" not in caplog.text


class TestCallerHeaders:
    def test_authorization_is_not_replaced_i8(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config(token="wrong")) as client:
            assert client.get("/version", headers={"authorization": "Bearer alices-token"}).status_code == 200
        assert server.requests[0].all_headers("authorization") == ["Bearer alices-token"]

    def test_an_empty_authorization_is_replaced_i8(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config(token="alices-token")) as client:
            assert client.get("/version", headers={"Authorization": ""}).status_code == 200
        assert server.requests[0].all_headers("authorization") == ["Bearer alices-token"]

    def test_auth_takes_precedence_over_the_credential_i8(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(token="wrong"), auth=("bob", "pass:word")) as client:
            assert client.get("/version").status_code == 200

    def test_the_request_object_is_not_modified_i7(self, variant: ClientVariant, server: APIServer) -> None:
        config = server.config(token="alices-token", impersonate=Impersonation(user="dave"))
        with variant.client(config) as client:
            request = client.client.build_request("GET", "/version")
            before = request.headers.raw

            response = client.get("/version")

            assert request.headers.raw == before
            assert "authorization" not in response.request.headers
            assert "impersonate-user" not in response.request.headers


class TestImpersonation:
    DAVE = Impersonation(
        user="dave", uid="7", groups=["a", "b"], extra={"scopes/x%": ["1", "2"], "team": ["t"]}
    )

    def test_all_impersonation_headers_are_sent_i9(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config(token="alices-token", impersonate=self.DAVE)) as client:
            client.get("/version")

        (request,) = server.requests
        sent = [
            (name.lower(), value) for name, value in request.headers if name.lower().startswith("impersonate")
        ]
        assert sent == [
            ("impersonate-user", "dave"),
            ("impersonate-uid", "7"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-extra-scopes%2fx%25", "1"),
            ("impersonate-extra-scopes%2fx%25", "2"),
            ("impersonate-extra-team", "t"),
        ]
        assert request.user == "alice"

    def test_no_headers_are_added_if_the_caller_impersonates_a_user_i9(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(token="alices-token", impersonate=self.DAVE)) as client:
            client.get("/version", headers={"impersonate-user": "erin"})

        (request,) = server.requests
        assert request.all_headers("impersonate-user") == ["erin"]
        assert request.all_headers("impersonate-group") == []
        assert request.header("authorization") == "Bearer alices-token"

    def test_groups_are_added_to_those_of_the_caller_i9(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(token="alices-token", impersonate=self.DAVE)) as client:
            client.get(
                "/version",
                headers=[("Impersonate-Group", "mine"), ("Impersonate-Uid", "9"), ("X-Other", "o")],
            )

        (request,) = server.requests
        assert request.all_headers("impersonate-group") == ["mine", "a", "b"]
        assert request.all_headers("impersonate-uid") == ["7"]
        assert request.header("x-other") == "o"

    def test_names_are_sent_as_utf8_i9(self, variant: ClientVariant, server: APIServer) -> None:
        impersonate = Impersonation(user="jörg", groups=["日本"])
        with variant.client(server.config(token="alices-token", impersonate=impersonate)) as client:
            client.get("/version")

        (request,) = server.requests
        values = (request.header("impersonate-user") or "", request.header("impersonate-group") or "")

        assert [value.encode("latin-1").decode() for value in values] == ["jörg", "日本"]

    @pytest.mark.parametrize("value", ["a\nb", "a\x00", " a", "a\x7f"])
    def test_an_invalid_header_value_is_rejected_at_construction_i9(
        self, variant: ClientVariant, value: str
    ) -> None:
        for impersonate in (
            Impersonation(user=value),
            Impersonation(user="u", groups=[value]),
            Impersonation(user="u", extra={"k": [value]}),
        ):
            with pytest.raises(ConfigError, match=r"not a valid HTTP header value|cannot be sent"):
                variant.Client(ClientConfig(server="https://h", impersonate=impersonate))

    def test_headers_are_sent_with_a_client_certificate_i9(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        config = server.config(identity=server.authority.client("carol"), impersonate=self.DAVE)
        with variant.client(config) as client:
            client.get("/version")
        assert server.requests[0].header("impersonate-user") == "dave"


class TestDefaults:
    def test_default_user_agent_i10(self, variant: ClientVariant, server: APIServer) -> None:
        with variant.client(server.config()) as client:
            client.get("/version")
        pattern = rf"kubeauth/{re.escape(kubeauth.__version__)} \([a-z]+/[a-z0-9_]+\) python-httpx2?/\d.*"
        assert re.fullmatch(pattern, server.requests[0].header("user-agent") or "")

    def test_a_user_agent_of_the_caller_is_not_replaced_i10(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with variant.client(server.config(), headers={"user-agent": "mine/1"}) as client:
            client.get("/version")
            client.get("/version", headers={"user-agent": "mine/2"})
        assert [request.header("user-agent") for request in server.requests] == ["mine/1", "mine/2"]

    def test_compression_is_requested_unless_disabled_k51(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        for disabled in (False, True):
            with variant.client(server.config(disable_compression=disabled)) as client:
                client.get("/version")
        with variant.client(
            server.config(disable_compression=True), headers={"accept-encoding": "br"}
        ) as client:
            client.get("/version")

        first, second, third = (request.header("accept-encoding") for request in server.requests)
        assert "gzip" in (first or "")
        assert (second, third) == (None, "br")

    def test_only_connect_has_a_default_timeout(self, variant: ClientVariant) -> None:
        with variant.client(ClientConfig(server="https://h")) as client:
            assert client.client.timeout.as_dict() == {
                "connect": 30.0,
                "read": None,
                "write": None,
                "pool": None,
            }

    @pytest.mark.parametrize("variant", VARIANTS, ids=str)
    def test_default_and_custom_connection_limits(self, variant: ClientVariant) -> None:
        custom = {"limits": variant.library.Limits(max_connections=7)}
        for options, expected in (({}, (sys.maxsize, 100, 90.0)), (custom, (7, 7, 5.0))):
            client = variant.Client(ClientConfig(server="https://h"), **options)
            pool = client._transport._pools.current.transport._pool
            assert (
                pool._max_connections,
                pool._max_keepalive_connections,
                pool._keepalive_expiry,
            ) == expected

    @pytest.mark.parametrize("config", ["/path", {"clusters": []}])
    def test_a_config_of_the_wrong_type_raises_type_error(self, variant: ClientVariant, config: Any) -> None:
        for new in (variant.Client, variant.KubeTransport, variant.kubeauth.KubeAuth):
            with pytest.raises(TypeError, match=r"load_config\(path\)"):
                new(config)

    def test_httpx_options_are_passed_on(self, variant: ClientVariant, server: APIServer) -> None:
        server.on("GET", "/from", Answer(302, headers={"Location": "/version"}))
        options: dict[str, Any] = {
            "params": {"a": "b"},
            "cookies": {"c": "d"},
            "follow_redirects": True,
            "timeout": 70.0,
        }
        with variant.client(server.config(token="alices-token"), **options) as client:
            assert client.get("/from").status_code == 200
            assert client.client.timeout.read == 70.0

        assert server.requests[0].path == "/from?a=b"
        assert server.requests[0].header("cookie") == "c=d"
        assert [request.user for request in server.requests] == ["alice", "alice"]

    @pytest.mark.parametrize("option", ["verify", "cert", "transport", "proxy"])
    def test_options_that_the_kubeconfig_determines_are_rejected(
        self, variant: ClientVariant, option: str
    ) -> None:
        with pytest.raises(TypeError, match=f"{option}= "):
            variant.Client(ClientConfig(server="https://h"), **{option: None})


class TestTransportFactory:
    def test_the_factory_receives_the_ssl_context_and_the_proxy(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        calls: list[Any] = []

        def factory(context: Any, proxy: Any) -> Any:
            calls.append((context, proxy))
            return variant.PlainTransport(context, proxy=proxy)

        with variant.client(server.config(token="alices-token"), transport_factory=factory) as client:
            assert client.get("/version").status_code == 200

        ((context, proxy),) = calls

        assert len(context.get_ca_certs()) == 1
        assert proxy is None

    def test_the_proxy_is_an_object_of_the_library(self, variant: ClientVariant) -> None:
        proxies: list[Any] = []

        def factory(_context: Any, proxy: Any) -> Any:
            proxies.append(proxy)
            return variant.library.MockTransport(lambda _request: variant.library.Response(200))

        variant.Client(
            ClientConfig(server="https://h", proxy_url="http://u:p@proxy:1"), transport_factory=factory
        )
        (proxy,) = proxies

        assert isinstance(proxy, variant.library.Proxy)
        assert (str(proxy.url), proxy.auth) == ("http://proxy:1", ("u", "p"))

    def test_the_transport_receives_the_signed_request(self, variant: ClientVariant) -> None:
        requests: list[Any] = []

        def respond(request: Any) -> Any:
            requests.append(request)
            return variant.library.Response(200, json={})

        with variant.client(
            ClientConfig(server="https://h", token=Secret("t")), transport_factory=variant.in_memory(respond)
        ) as client:
            assert client.get("/x").json() == {}

        assert requests[0].headers["authorization"] == "Bearer t"


class TestRejectedAtConstruction:
    """Errors that can be found without a server are raised before the first request."""

    def construction_error(self, variant: ClientVariant, config: ClientConfig) -> Exception:
        with pytest.raises(kubeauth.errors.KubeAuthError) as caught:
            variant.Client(config)
        with pytest.raises(type(caught.value)):
            variant.KubeTransport(config)
        return caught.value

    def test_a_key_that_does_not_match_k55(self, variant: ClientVariant, authority: Authority) -> None:
        pair, other = authority.client("a"), authority.client("b")
        config = ClientConfig(
            server="https://h", client_cert_data=pair.certificate, client_key_data=Secret(other.key)
        )
        error = self.construction_error(variant, config)
        assert isinstance(error, ClientCertificateError)
        assert "does not match" in str(error)

    def test_an_invalid_certificate_k55(self, variant: ClientVariant, authority: Authority) -> None:
        invalid_der = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        for data in (b"not PEM", invalid_der):
            config = ClientConfig(
                server="https://h", client_cert_data=data, client_key_data=Secret(authority.client("a").key)
            )
            assert isinstance(self.construction_error(variant, config), ClientCertificateError)

    def test_an_invalid_or_missing_ca_k50(self, variant: ClientVariant, tmp_path: Path) -> None:
        for field in ({"ca_data": b"x"}, {"ca_file": str(tmp_path / "missing")}):
            assert isinstance(
                self.construction_error(variant, ClientConfig(server="https://h", **field)), TLSError
            )

    def test_insecure_with_a_ca(self, variant: ClientVariant, authority: Authority) -> None:
        config = ClientConfig(server="https://h", ca_data=authority.pem, insecure_skip_tls_verify=True)
        assert isinstance(self.construction_error(variant, config), TLSError)

    def test_a_token_together_with_a_username(self, variant: ClientVariant) -> None:
        config = ClientConfig(server="https://h", token=Secret("t"), username="u")
        assert isinstance(self.construction_error(variant, config), ConfigError)

    @pytest.mark.parametrize(
        "token", ["S3CRET\nb", "S3CRET ", " S3CRET", "S3CRETä", "S3CRET\x00", "S3CRET\tb"]
    )
    def test_a_token_that_is_not_a_valid_header_value(self, variant: ClientVariant, token: str) -> None:
        error = self.construction_error(variant, ClientConfig(server="https://h", token=Secret(token)))
        assert isinstance(error, ConfigError)
        assert "S3CRET" not in str(error)

    @pytest.mark.parametrize("server", ["", "h:6443", "ftp://h", "https://", "https://h:x"])
    def test_an_invalid_server_url(self, variant: ClientVariant, server: str) -> None:
        assert isinstance(self.construction_error(variant, ClientConfig(server=server)), ConfigError)

    def test_a_certificate_without_a_key_and_a_key_without_a_certificate(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        pair = authority.client("a")
        error = self.construction_error(
            variant, ClientConfig(server="https://h", client_cert_data=pair.certificate)
        )
        assert "its key is not set" in str(error)
        error = self.construction_error(
            variant, ClientConfig(server="https://h", client_key_data=Secret(pair.key))
        )

        assert "its certificate is not set" in str(error)

    def test_an_exec_api_version_that_was_removed_x1(self, variant: ClientVariant) -> None:
        exec_config = kubeauth.ExecConfig(command="p", api_version="client.authentication.k8s.io/v1alpha1")
        for token in (None, Secret("t")):
            error = self.construction_error(
                variant, ClientConfig(server="https://h", exec=exec_config, token=token)
            )
            assert 'invalid apiVersion "client.authentication.k8s.io/v1alpha1"' in str(error)

    def test_a_proxy_with_an_unsupported_scheme(
        self, variant: ClientVariant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "ftp://u:secret@proxy:1")
        error = self.construction_error(variant, ClientConfig(server="https://h"))
        assert "must be http, https, or socks5" in str(error)
        assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("package", "fields", "options", "extra"),
    [("h2", {}, {"http2": True}, "http2"), ("socksio", {"proxy_url": "socks5://u:S3CRET@p:1"}, {}, "socks")],
)
def test_a_missing_optional_dependency_names_its_extra(
    variant: ClientVariant,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    fields: Any,
    options: Any,
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"kubeauth\[{extra}\]") as caught:
        variant.Client(ClientConfig(server="https://h", **fields), **options)
    assert "S3CRET" not in str(caught.value)


def test_a_static_credential_takes_precedence_over_a_plugin_i1(
    variant: ClientVariant, server: APIServer
) -> None:
    exec_config = kubeauth.ExecConfig(
        command="/does/not/exist", api_version="client.authentication.k8s.io/v1"
    )
    with variant.client(server.config(token="alices-token", exec=exec_config)) as client:
        assert client.get("/version").status_code == 200


class TestStatus:
    def test_source_and_kind_of_each_credential(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        pair = authority.client("carol")
        (tmp_path / "token").write_text("t")
        data: dict[str, Any] = {"client_cert_data": pair.certificate, "client_key_data": Secret(pair.key)}
        for fields, source, kind in (
            ({}, "none", "none"),
            ({"token": Secret("t")}, "token", "token"),
            ({"token_file": str(tmp_path / "token")}, f"token file {tmp_path}/token", "token"),
            ({"username": "u"}, "username and password", "basic"),
            (data, "client certificate", "certificate"),
            (data | {"token": Secret("t")}, "token, client certificate", "token+certificate"),
        ):
            status = variant.Client(ClientConfig(server="https://h", **fields)).status()
            assert (status.source, status.kind, status.last_error) == (source, kind, None)
            assert (status.expires is not None) == ("certificate" in kind)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_http2_requests_are_signed(variant: ClientVariant, authority: Authority) -> None:
    from tests.support.h2_server import H2Server

    with H2Server(authority.server("127.0.0.1")) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret("t"))
        with variant.client(config, http2=True) as client:
            response = client.request("POST", "/x", json={"a": 1})
        assert (response.http_version, response.text) == ("HTTP/2", "ok")
        with variant.client(config, http2=True, http1=False) as client:
            assert client.get("/y").http_version == "HTTP/2"

    assert [(headers[":path"], headers["authorization"]) for headers in server.requests] == [
        ("/x", "Bearer t"),
        ("/y", "Bearer t"),
    ]
    assert json.loads(server.bodies[0]) == {"a": 1}


def test_requests_over_plain_http_are_signed(variant: ClientVariant) -> None:
    with (
        APIServer(tls=False, tokens={"t": "alice"}) as server,
        variant.client(server.config(token="t")) as client,
    ):
        assert client.get("/version").status_code == 200


def test_classes_are_subclasses_of_those_of_httpx(variant: ClientVariant) -> None:
    client = variant.Client(ClientConfig(server="https://h"))
    assert isinstance(client, variant.PlainClient)
    assert isinstance(variant.KubeTransport(ClientConfig(server="https://h")), variant.BaseTransport)
    assert issubclass(variant.kubeauth.KubeAuth, variant.library.Auth)
