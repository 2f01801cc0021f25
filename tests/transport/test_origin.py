"""Token, certificate and impersonation go to the cluster's origin, and to nobody else (I11, I12)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubeauth import ClientConfig, Impersonation, Secret
from kubeauth.errors import ConfigError, ServerCertificateError
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.support.clients import ClientVariant, Driver


@pytest.fixture
def other_origin(public: Authority, authority: Authority) -> Iterator[APIServer]:
    """Another server: it has a public certificate, and asks for ones of the cluster's CA."""
    with APIServer(authority=public, client_authority=authority) as it:
        yield it


@pytest.fixture
def plain() -> Iterator[APIServer]:
    with APIServer(tls=False) as it:
        yield it


def everything(server: APIServer, **fields: Any) -> ClientConfig:
    return server.config(
        token="alices-token",
        identity=server.authority.client("carol"),
        impersonate=Impersonation(user="dave"),
        **fields,
    )


def assert_nothing_of_ours(request: Received) -> None:
    assert request.header("authorization") is None
    assert request.certificate is None
    assert not [name for name, _ in request.headers if name.lower().startswith("impersonate")]


def test_an_absolute_url_to_a_stranger(
    variant: ClientVariant, server: APIServer, other_origin: APIServer, plain: APIServer
) -> None:
    with variant.client(everything(server)) as client:
        for other in (other_origin, plain, other_origin):
            assert client.get(f"{other.url}/version").status_code == 200
            assert_nothing_of_ours(other.requests[-1])
        assert client.get(f"{server.url}/version").status_code == 200
    assert (server.requests[0].user, server.requests[0].common_name) == ("alice", "carol")
    # One transport for all others, made once.
    assert {request.connection for request in other_origin.requests} == {1}


def test_the_same_by_other_spellings_is_a_stranger(
    variant: ClientVariant, server: APIServer, public: Authority
) -> None:
    """`localhost` is not `127.0.0.1`: who compares origins compares names."""
    with variant.client(everything(server)) as client, pytest.raises(variant.library.ConnectError):
        client.get(server.url.replace("127.0.0.1", "localhost") + "/version")
    # Reached with the system's trust, to which the cluster's CA says nothing.
    assert server.requests == []


@pytest.mark.parametrize(
    "spelling", ["HTTPS://127.0.0.1:{port}/version", "https://127.0.0.1:0{port}/version"]
)
def test_the_same_origin_by_the_rules_of_urls(
    variant: ClientVariant, server: APIServer, spelling: str
) -> None:
    with variant.client(everything(server)) as client:
        assert client.get(spelling.format(port=server.url.rpartition(":")[2])).status_code == 200
    assert server.requests[0].user == "alice"


def test_a_default_port_is_the_same_as_none(variant: ClientVariant) -> None:
    seen: list[str | None] = []

    def answer(request: Any) -> Any:
        seen.append(request.headers.get("authorization"))
        return variant.library.Response(200)

    for server in ("https://h", "https://h:443", "https://H:443/"):
        with variant.client(
            ClientConfig(server=server, token=Secret("t")), transport_factory=variant.in_memory(answer)
        ) as client:
            for url in ("https://h/", "https://h:443/", "https://h:444/", "http://h/", "http://h:443/", "https://h./",
                        "https://user@h/", "https://h.evil/", "wss://h/", "ws://h/"):  # fmt: skip
                client.get(url)
    # A name in the URL is a credential of the caller's own.
    ours = ["Bearer t", "Bearer t", None, None, None, None, "Basic dXNlcjo=", None, "Bearer t", None]
    assert seen == ours * 3


NewClient = Callable[[ClientVariant, ClientConfig], Any]


def by_client(variant: ClientVariant, config: ClientConfig) -> Any:
    return variant.client(config, follow_redirects=True)


def by_transport(variant: ClientVariant, config: ClientConfig) -> Any:
    def make() -> Any:
        return variant.PlainClient(
            transport=variant.KubeTransport(config), base_url=config.server, follow_redirects=True
        )

    return variant.drive(make)


def by_auth(variant: ClientVariant, config: ClientConfig) -> Any:
    config = dataclasses.replace(config, impersonate=None)
    verify = variant.kubeauth.ssl_context(config)
    # Trust for the other origins too: their certificate is not what is tested.
    verify.set_default_verify_paths()

    def make() -> Any:
        auth = variant.kubeauth.KubeAuth(config)
        return variant.PlainClient(auth=auth, verify=verify, base_url=config.server, follow_redirects=True)

    return variant.drive(make)


@pytest.mark.parametrize("way", [by_client, by_transport, by_auth])
class TestRedirects:
    def follow(self, variant: ClientVariant, way: NewClient, server: APIServer, target: str) -> Driver:
        server.on("GET", "/from", Answer(307, headers={"Location": target}))
        with way(variant, everything(server)) as client:
            response = client.get("/from")
            assert response.status_code == 200
            assert "alices-token" not in str(response.request.headers.raw)
            return client  # type: ignore[no-any-return]

    def test_to_another_port(
        self, variant: ClientVariant, way: NewClient, server: APIServer, other_origin: APIServer
    ) -> None:
        self.follow(variant, way, server, f"{other_origin.url}/version")
        assert server.requests[0].user == "alice"
        assert_nothing_of_ours(other_origin.requests[0])

    def test_down_to_http(
        self, variant: ClientVariant, way: NewClient, server: APIServer, plain: APIServer
    ) -> None:
        self.follow(variant, way, server, f"{plain.url}/version")
        assert_nothing_of_ours(plain.requests[0])

    def test_to_another_host(
        self, variant: ClientVariant, way: NewClient, server: APIServer, other_origin: APIServer
    ) -> None:
        self.follow(variant, way, server, other_origin.url.replace("127.0.0.1", "localhost") + "/version")
        assert_nothing_of_ours(other_origin.requests[0])

    def test_to_another_host_and_back(
        self, variant: ClientVariant, way: NewClient, server: APIServer, plain: APIServer
    ) -> None:
        plain.on("GET", "/back", Answer(307, headers={"Location": f"{server.url}/version"}))
        server.on("GET", "/from", Answer(307, headers={"Location": f"{plain.url}/back"}))
        with way(variant, everything(server)) as client:
            client.get("/from")
        assert_nothing_of_ours(plain.requests[0])

    def test_to_the_same_origin(self, variant: ClientVariant, way: NewClient, server: APIServer) -> None:
        server.on("GET", "/from", Answer(307, headers={"Location": "/version"}))
        with way(variant, everything(server)) as client:
            assert client.get("/from").status_code == 200
        assert [request.user for request in server.requests] == ["alice", "alice"]


def test_an_upgrade_to_https_is_another_origin(
    variant: ClientVariant, plain: APIServer, other_origin: APIServer
) -> None:
    plain.on("GET", "/from", Answer(307, headers={"Location": f"{other_origin.url}/version"}))
    with variant.client(plain.config(token="t"), follow_redirects=True) as client:
        assert client.get("/from").status_code == 200
    assert_nothing_of_ours(other_origin.requests[0])


def test_the_certificate_of_a_stranger_is_verified_though_the_clusters_is_not(
    variant: ClientVariant, server: APIServer
) -> None:
    config = dataclasses.replace(everything(server), ca_data=None, insecure_skip_tls_verify=True)
    with APIServer(authority=Authority("of nobody")) as other, variant.client(config) as client:
        assert client.get("/version").status_code == 200
        with pytest.raises(
            ServerCertificateError, match="not the cluster, so its certificate must be one that"
        ) as caught:
            client.get(f"{other.url}/version")
        assert isinstance(caught.value, variant.library.ConnectError)


def test_tls_server_name_is_not_asked_of_strangers(
    variant: ClientVariant, server: APIServer, other_origin: APIServer, authority: Authority
) -> None:
    pair = authority.server("kubernetes.default")
    with APIServer(authority=authority, certificate=pair) as named:
        with variant.client(everything(named, tls_server_name="kubernetes.default")) as client:
            assert client.get("/version").status_code == 200
            assert (
                client.get(other_origin.url.replace("127.0.0.1", "localhost") + "/version").status_code == 200
            )
        assert named.requests[0].sni == "kubernetes.default"
    assert other_origin.requests[0].sni == "localhost"


class TestKubeAuth:
    def test_it_signs_for_the_cluster(self, variant: ClientVariant, server: APIServer) -> None:
        config = server.config(token="alices-token")
        with by_auth(variant, config) as client:
            assert client.get("/version").status_code == 200
        assert server.requests[0].user == "alice"

    def test_it_signs_for_nobody_else(
        self, variant: ClientVariant, server: APIServer, plain: APIServer
    ) -> None:
        with by_auth(variant, everything(server)) as client:
            client.get(f"{plain.url}/version")
        assert_nothing_of_ours(plain.requests[0])

    def test_the_callers_authorization_is_left_alone_i8(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with by_auth(variant, server.config(token="wrong")) as client:
            assert client.get("/version", headers={"Authorization": "Bearer alices-token"}).status_code == 200

    def test_the_callers_request_is_not_touched(self, variant: ClientVariant, server: APIServer) -> None:
        with by_auth(variant, server.config(token="alices-token")) as client:
            request = client.client.build_request("GET", "/version")
            headers = request.headers.raw
            send = client.client.send
            response = client._portal.call(send, request) if client._portal else send(request)
            assert response.status_code == 200
            assert request.headers.raw == headers

    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}])
    def test_on_a_client_with_a_kube_transport_it_raises(
        self, variant: ClientVariant, server: APIServer, headers: dict[str, str]
    ) -> None:
        config = server.config(token="alices-token")
        with (
            variant.client(config, auth=variant.kubeauth.KubeAuth(config)) as client,
            pytest.raises(ConfigError, match="remove auth=KubeAuth"),
        ):
            client.get("/version", headers=headers)
        assert server.requests == []

    def test_for_a_certificate_alone_it_names_kube_transport(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with pytest.raises(ConfigError, match=r"client certificate.*Use KubeTransport"):
            variant.kubeauth.KubeAuth(server.config(identity=server.authority.client("carol")))

    def test_what_it_could_not_take_back_it_does_not_do(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        """httpx takes Authorization off a redirect, but nothing else, and not always."""
        with pytest.raises(ConfigError, match=r"impersonation headers.*Use KubeTransport"):
            variant.kubeauth.KubeAuth(server.config(token="t", impersonate=Impersonation(user="dave")))
        with pytest.raises(ConfigError, match=r"port 80.*Use KubeTransport"):
            variant.kubeauth.KubeAuth(ClientConfig(server="http://h", token=Secret("t")))
        variant.kubeauth.KubeAuth(ClientConfig(server="http://h:8001", token=Secret("t")))

    def test_faults_surface_when_it_is_built(self, variant: ClientVariant) -> None:
        with pytest.raises(ConfigError, match=r"not a valid HTTP header value|cannot be sent"):
            variant.kubeauth.KubeAuth(ClientConfig(server="https://h", token=Secret("a\nb")))
