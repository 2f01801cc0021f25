"""Through which proxy, with which name, and who trusts whom (K51, K52)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth.errors import ServerCertificateError
from kubeauth.testing import APIServer, Authority
from tests.support import proxy_cases as proxies
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
def named(authority: Authority) -> Iterator[APIServer]:
    """Its certificate has one name, which is not its address."""
    with APIServer(
        authority=authority, certificate=authority.server("kubernetes.default"), tokens={"t": "alice"}
    ) as it:
        yield it


class TestServerName:
    """tls-server-name x {direct, http, https, socks5} x {httpx, httpx2} x {sync, asyncio, trio}."""

    def test_direct_k51(self, variant: ClientVariant, named: APIServer) -> None:
        with variant.client(named.config(token="t", tls_server_name="kubernetes.default")) as client:
            assert client.get("/version").status_code == 200
        assert named.requests[0].sni == "kubernetes.default"

    def test_through_a_proxy_k51(self, variant: ClientVariant, named: APIServer, proxy: Proxy) -> None:
        config = named.config(token="t", tls_server_name="kubernetes.default", proxy_url=proxy.url)
        with variant.client(config) as client:
            for _ in range(2):
                assert client.get("/version").status_code == 200
        assert [request.sni for request in named.requests] == ["kubernetes.default"] * 2
        assert proxy.targets == [named.url.removeprefix("https://")]

    def test_a_name_that_it_does_not_have(self, variant: ClientVariant, named: APIServer) -> None:
        for name in (None, "other.example"):
            with variant.client(named.config(tls_server_name=name)) as client, pytest.raises(ServerCertificateError, match="tls-server-name") as caught:  # fmt: skip
                client.get("/version")
            assert isinstance(caught.value, variant.library.ConnectError)
        assert named.requests == []

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
    def test_its_name_and_password_k52(self, variant: ClientVariant, server: APIServer, proxy: Proxy) -> None:
        url = proxy.url.replace("//", "//user:p%40ss@")
        with variant.client(server.config(token="alices-token", proxy_url=url)) as client:
            assert client.get("/version").status_code == 200
        assert proxy.credentials == ["user:p@ss"]
        assert server.requests[0].header("proxy-authorization") is None

    def test_a_client_certificate_goes_through_it_and_not_to_it(
        self, variant: ClientVariant, server: APIServer, proxy: Proxy
    ) -> None:
        """The proxy asks for one. Go shows it the cluster's; we do not."""
        config = server.config(identity=server.authority.client("carol"), proxy_url=proxy.url)
        with variant.client(config) as client:
            assert client.get("/version").status_code == 200
        assert server.requests[0].common_name == "carol"
        assert set(proxy.certificates) <= {None}

    def test_an_https_proxy_may_have_a_public_certificate(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        public = Authority("public CA")
        (tmp_path / "ca.pem").write_bytes(public.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        with Proxy("https", public.server("127.0.0.1")) as proxy:
            with variant.client(server.config(token="alices-token", proxy_url=proxy.url)) as client:
                assert client.get("/version").status_code == 200
        assert len(proxy.targets) == 1

    def test_an_https_proxy_of_nobody_is_refused(self, variant: ClientVariant, server: APIServer) -> None:
        with Proxy("https", Authority("nobody").server("127.0.0.1")) as proxy:
            config = server.config(token="alices-token", proxy_url=proxy.url.replace("//", "//user:S3CRET@"))
            with (
                variant.client(config) as client,
                pytest.raises(ServerCertificateError, match=r"or the proxy https://") as caught,
            ):
                client.get("/version")
        assert "S3CRET" not in str(caught.value)
        assert server.requests == []

    def test_insecure_goes_for_the_proxy_too_as_in_go(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        config = dataclasses.replace(
            server.config(token="alices-token"), ca_data=None, insecure_skip_tls_verify=True
        )
        with Proxy("https", Authority("nobody").server("127.0.0.1")) as proxy:
            with variant.client(dataclasses.replace(config, proxy_url=proxy.url)) as client:
                assert client.get("/version").status_code == 200


@pytest.mark.parametrize("kind", ["http", "https"])
def test_plain_http_is_forwarded(variant: ClientVariant, authority: Authority, kind: str) -> None:
    with Proxy(kind, authority.server("127.0.0.1") if kind == "https" else None) as proxy:
        with APIServer(tls=False, tokens={"t": "alice"}) as server:
            url = proxy.url.replace("//", "//user:pass@")
            with variant.client(server.config(token="t", proxy_url=url, ca_data=authority.pem)) as client:
                assert client.get("/version").status_code == 200
            assert server.requests[0].user == "alice"
            assert server.requests[0].header("proxy-authorization") is None
    assert proxy.credentials == ["user:pass"]


class TestTheEnvironment:
    @pytest.fixture
    def elsewhere(self, authority: Authority) -> Iterator[APIServer]:
        """A server by a name that only a proxy can find: loopback itself never goes through one."""
        with APIServer(
            authority=authority, certificate=authority.server("api.example"), tokens={"t": "alice"}
        ) as it:
            it.url = it.url.replace("127.0.0.1", "api.example")
            yield it

    def test_it_is_asked_when_the_kubeconfig_says_nothing_k52(
        self, variant: ClientVariant, elsewhere: APIServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with variant.client(elsewhere.config(token="t")) as client:
            assert client.get("/version").status_code == 200
        assert elsewhere.requests[0].sni == "api.example"
        assert len(proxy.targets) == 1

    def test_it_is_not_asked_without_trust_env(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def inner(_context: Any, proxy: Any) -> Any:
            seen.append(proxy)
            return variant.library.MockTransport(lambda _request: variant.library.Response(200))

        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        variant.Client(ClientConfig(server="https://h"), transport_factory=inner)
        variant.Client(ClientConfig(server="https://h"), transport_factory=inner, trust_env=False)
        assert [str(each and each.url) for each in seen] == ["http://127.0.0.1:9", "None"]

    def test_no_proxy_leads_past_it_k52(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
        with variant.client(server.config(token="alices-token")) as client:
            assert client.get("/version").status_code == 200  # loopback, never through a proxy

    def test_the_kubeconfigs_proxy_is_used_whatever_no_proxy_says_k52(
        self, variant: ClientVariant, server: APIServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "*")
        with variant.client(server.config(token="alices-token", proxy_url=proxy.url)) as client:
            assert client.get("/version").status_code == 200
        assert len(proxy.targets) == 1

    def test_other_origins_are_asked_about_one_by_one_k52(
        self, variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        seen: list[Any] = []

        def inner(_context: Any, proxy: Any) -> Any:
            seen.append(proxy and str(proxy.url))
            return variant.library.MockTransport(lambda _request: variant.library.Response(200))

        monkeypatch.setenv("NO_PROXY", "direct.example")
        with variant.client(server.config(token="alices-token"), transport_factory=inner) as client:
            for url in ("http://a.example", "http://b.example", "ws://c.example", "http://direct.example"):
                client.get(url)
        assert seen == [None, "http://127.0.0.1:9", None]


@each_case(("url", "environ", "expected"), proxies.TABLE)
def test_the_no_proxy_table_reaches_the_inner_transport_k52(
    url: str, environ: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go's answers, through the variant: httpx itself would ask the environment by other rules."""
    import httpx
    import httpx2

    import kubeauth
    import kubeauth.httpx2

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for library, names in ((httpx, kubeauth), (httpx2, kubeauth.httpx2)):
        seen: list[Any] = []

        def inner(_context: Any, proxy: Any) -> Any:
            seen.append(proxy)  # noqa: B023 -- called before the next turn
            return library.MockTransport(lambda _request: library.Response(200))  # noqa: B023 -- called before the next turn

        try:
            names.KubeTransport(ClientConfig(server=url), transport_factory=inner)
        except (kubeauth.errors.ConfigError, library.InvalidURL):
            assert expected is not None
            assert "99999" in expected  # a port that cannot be
            continue
        found = seen[0]
        if expected is None:
            assert found is None
        else:
            parts = library.URL(expected)
            assert (found.url.scheme, found.url.host, found.url.port) == (
                parts.scheme,
                parts.host,
                parts.port,
            )


def test_a_server_behind_both(variant: ClientVariant, server: APIServer) -> None:
    """Two clients, two ways, at once."""
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy("http"))
        direct = stack.enter_context(variant.client(server.config(token="alices-token")))
        through = stack.enter_context(
            variant.client(server.config(token="alices-token", proxy_url=proxy.url))
        )
        for _ in range(3):
            assert direct.get("/version").status_code == through.get("/version").status_code == 200
    assert len(proxy.targets) == 1
