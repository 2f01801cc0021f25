"""tls-server-name, the choice of the proxy, and the certificates of proxies (K51, K52)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth.errors import ServerCertificateError
from kubeauth.testing import APIServer, Authority
from tests.support import proxy_cases
from tests.support.cases import each_case
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.proxy_servers import Proxy

KINDS = ["http", "https", "socks5"]


@pytest.fixture(params=KINDS)
def proxy(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Proxy]:
    pair = authority.server("127.0.0.1") if request.param == "https" else None
    with Proxy(request.param, pair, client_authority=authority) as it:
        yield it


@pytest.fixture
def named_server(authority: Authority) -> Iterator[APIServer]:
    """Its certificate is for a name, and not for its address."""
    with APIServer(
        authority=authority, certificate=authority.server("kubernetes.default"), tokens={"t": "alice"}
    ) as it:
        yield it


class TestServerName:
    """tls-server-name x {direct, http, https, socks5} x {httpx, httpx2} x {sync, asyncio, trio}."""

    def test_a_direct_connection_uses_the_server_name_k51(
        self, variant: ClientVariant, named_server: APIServer
    ) -> None:
        with variant.client(named_server.config(token="t", tls_server_name="kubernetes.default")) as client:
            assert client.get("/version").status_code == 200
        assert named_server.requests[0].sni == "kubernetes.default"

    def test_a_connection_through_a_proxy_uses_the_server_name_k51(
        self, variant: ClientVariant, named_server: APIServer, proxy: Proxy
    ) -> None:
        config = named_server.config(token="t", tls_server_name="kubernetes.default", proxy_url=proxy.url)
        with variant.client(config) as client:
            for _ in range(2):
                assert client.get("/version").status_code == 200

        assert [request.sni for request in named_server.requests] == ["kubernetes.default"] * 2
        assert proxy.targets == [named_server.url.removeprefix("https://")]

    def test_a_name_that_is_not_in_the_certificate_is_rejected(
        self, variant: ClientVariant, named_server: APIServer
    ) -> None:
        for name in (None, "other.example"):
            with variant.client(named_server.config(tls_server_name=name)) as client, pytest.raises(ServerCertificateError, match="tls-server-name") as caught:  # fmt: skip
                client.get("/version")
            assert isinstance(caught.value, variant.library.ConnectError)
        assert named_server.requests == []

    @pytest.mark.parametrize("variant", VARIANTS, ids=str)
    def test_http2_through_a_proxy(self, variant: ClientVariant, authority: Authority, proxy: Proxy) -> None:
        from tests.support.h2_server import H2Server

        with H2Server(authority.server("kubernetes.default")) as server:
            config = ClientConfig(
                server=server.url, ca_data=authority.pem, token=Secret("t"), proxy_url=proxy.url, tls_server_name="kubernetes.default"
            )  # fmt: skip
            with variant.client(config, http2=True) as client:
                assert client.get("/x").http_version == "HTTP/2"


class TestProxies:
    def test_proxy_credentials_are_sent_to_the_proxy_only_k52(
        self, variant: ClientVariant, server: APIServer, proxy: Proxy
    ) -> None:
        url = proxy.url.replace("//", "//user:p%40ss@")
        with variant.client(server.config(token="alices-token", proxy_url=url)) as client:
            assert client.get("/version").status_code == 200

        assert proxy.credentials == ["user:p@ss"]
        assert server.requests[0].header("proxy-authorization") is None

    def test_the_client_certificate_is_sent_to_the_server_and_not_to_the_proxy(
        self, variant: ClientVariant, server: APIServer, proxy: Proxy
    ) -> None:
        """The proxy requests a certificate. Go sends it that of the cluster; kubeauth does not."""
        config = server.config(identity=server.authority.client("carol"), proxy_url=proxy.url)
        with variant.client(config) as client:
            assert client.get("/version").status_code == 200

        assert server.requests[0].common_name == "carol"
        assert set(proxy.certificates) <= {None}

    def test_an_https_proxy_can_have_a_publicly_trusted_certificate(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        public = Authority("public CA")
        (tmp_path / "ca.pem").write_bytes(public.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

        with Proxy("https", public.server("127.0.0.1")) as proxy:
            with variant.client(server.config(token="alices-token", proxy_url=proxy.url)) as client:
                assert client.get("/version").status_code == 200

        assert len(proxy.targets) == 1

    def test_an_https_proxy_with_an_untrusted_certificate_is_rejected(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with Proxy("https", Authority("untrusted CA").server("127.0.0.1")) as proxy:
            config = server.config(token="alices-token", proxy_url=proxy.url.replace("//", "//user:S3CRET@"))
            with (
                variant.client(config) as client,
                pytest.raises(ServerCertificateError, match=r"or the proxy https://") as caught,
            ):
                client.get("/version")

        assert "S3CRET" not in str(caught.value)
        assert server.requests == []

    def test_insecure_skip_tls_verify_applies_to_the_proxy_as_in_go(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        config = dataclasses.replace(
            server.config(token="alices-token"), ca_data=None, insecure_skip_tls_verify=True
        )
        with Proxy("https", Authority("untrusted CA").server("127.0.0.1")) as proxy:
            with variant.client(dataclasses.replace(config, proxy_url=proxy.url)) as client:
                assert client.get("/version").status_code == 200


@pytest.mark.parametrize("kind", ["http", "https"])
def test_plain_http_requests_are_forwarded(variant: ClientVariant, authority: Authority, kind: str) -> None:
    with Proxy(kind, authority.server("127.0.0.1") if kind == "https" else None) as proxy:
        with APIServer(tls=False, tokens={"t": "alice"}) as server:
            url = proxy.url.replace("//", "//user:pass@")
            with variant.client(server.config(token="t", proxy_url=url, ca_data=authority.pem)) as client:
                assert client.get("/version").status_code == 200
            assert server.requests[0].user == "alice"
            assert server.requests[0].header("proxy-authorization") is None

    assert proxy.credentials == ["user:pass"]


class TestEnvironment:
    @pytest.fixture
    def remote_server(self, authority: Authority) -> Iterator[APIServer]:
        """Has a name that only the proxy resolves: connections to loopback never use a proxy."""
        with APIServer(
            authority=authority, certificate=authority.server("api.example"), tokens={"t": "alice"}
        ) as it:
            it.url = it.url.replace("127.0.0.1", "api.example")
            yield it

    def test_https_proxy_is_used_if_the_kubeconfig_has_no_proxy_k52(
        self, variant: ClientVariant, remote_server: APIServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with variant.client(remote_server.config(token="t")) as client:
            assert client.get("/version").status_code == 200

        assert remote_server.requests[0].sni == "api.example"
        assert len(proxy.targets) == 1

    def test_https_proxy_is_ignored_without_trust_env(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proxies: list[Any] = []

        def factory(_context: Any, proxy: Any) -> Any:
            proxies.append(proxy)
            return variant.library.MockTransport(lambda _request: variant.library.Response(200))

        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        variant.Client(ClientConfig(server="https://h"), transport_factory=factory)
        variant.Client(ClientConfig(server="https://h"), transport_factory=factory, trust_env=False)

        assert [str(proxy and proxy.url) for proxy in proxies] == ["http://127.0.0.1:9", "None"]

    def test_a_loopback_server_is_connected_to_directly_k52(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
        with variant.client(server.config(token="alices-token")) as client:
            assert client.get("/version").status_code == 200

    def test_the_kubeconfig_proxy_is_used_regardless_of_no_proxy_k52(
        self, variant: ClientVariant, server: APIServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "*")
        with variant.client(server.config(token="alices-token", proxy_url=proxy.url)) as client:
            assert client.get("/version").status_code == 200

        assert len(proxy.targets) == 1

    def test_the_proxy_is_chosen_for_each_other_origin_k52(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        proxies: list[Any] = []

        def factory(_context: Any, proxy: Any) -> Any:
            proxies.append(proxy and str(proxy.url))
            return variant.library.MockTransport(lambda _request: variant.library.Response(200))

        monkeypatch.setenv("NO_PROXY", "direct.example")

        with variant.client(server.config(token="alices-token"), transport_factory=factory) as client:
            for url in ("http://a.example", "http://b.example", "ws://c.example", "http://direct.example"):
                client.get(url)

        # One transport for the cluster, and one for the other origins with each proxy.
        assert proxies == [None, "http://127.0.0.1:9", None]


@each_case(("url", "environ", "expected"), proxy_cases.TABLE)
def test_the_no_proxy_table_determines_the_proxy_of_the_transport_k52(
    url: str, environ: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxies that Go would use: httpx has other rules for the environment."""
    import httpx
    import httpx2

    import kubeauth
    import kubeauth.httpx2

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for library, package in ((httpx, kubeauth), (httpx2, kubeauth.httpx2)):
        found: list[Any] = []

        def factory(_context: Any, proxy: Any) -> Any:
            found.append(proxy)  # noqa: B023 -- called in this iteration
            return library.MockTransport(lambda _request: library.Response(200))  # noqa: B023 -- called in this iteration

        try:
            package.KubeTransport(ClientConfig(server=url), transport_factory=factory)
        except (kubeauth.errors.ConfigError, library.InvalidURL):
            assert expected is not None
            assert "99999" in expected  # not a valid port
            continue
        (proxy,) = found
        if expected is None:
            assert proxy is None
        else:
            parts = library.URL(expected)
            assert (proxy.url.scheme, proxy.url.host, proxy.url.port) == (
                parts.scheme,
                parts.host,
                parts.port,
            )


def test_one_server_is_reached_directly_and_through_a_proxy(
    variant: ClientVariant, server: APIServer
) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy("http"))
        direct = stack.enter_context(variant.client(server.config(token="alices-token")))
        through = stack.enter_context(
            variant.client(server.config(token="alices-token", proxy_url=proxy.url))
        )
        for _ in range(3):
            assert direct.get("/version").status_code == through.get("/version").status_code == 200

    assert len(proxy.targets) == 1
