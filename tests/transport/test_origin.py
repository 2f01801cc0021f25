"""Token, client certificate and impersonation are sent to the origin of the cluster only (I11, I12)."""

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
    """Has a publicly trusted certificate, and requests client certificates of the CA of the cluster."""
    with APIServer(authority=public, client_authority=authority) as it:
        yield it


@pytest.fixture
def plain_server() -> Iterator[APIServer]:
    with APIServer(tls=False) as it:
        yield it


def config_with_all_credentials(server: APIServer, **fields: Any) -> ClientConfig:
    return server.config(
        token="alices-token",
        identity=server.authority.client("carol"),
        impersonate=Impersonation(user="dave"),
        **fields,
    )


def assert_no_credentials(request: Received) -> None:
    assert request.header("authorization") is None
    assert request.certificate is None
    assert not [name for name, _ in request.headers if name.lower().startswith("impersonate")]


def test_an_absolute_url_of_another_origin_gets_no_credentials(
    variant: ClientVariant, server: APIServer, other_origin: APIServer, plain_server: APIServer
) -> None:
    with variant.client(config_with_all_credentials(server)) as client:
        for other in (other_origin, plain_server, other_origin):
            assert client.get(f"{other.url}/version").status_code == 200
            assert_no_credentials(other.requests[-1])
        assert client.get(f"{server.url}/version").status_code == 200

    assert (server.requests[0].user, server.requests[0].common_name) == ("alice", "carol")
    # One transport is used for all other origins.
    assert {request.connection for request in other_origin.requests} == {1}


def test_localhost_and_its_address_are_different_origins(
    variant: ClientVariant, server: APIServer, public: Authority
) -> None:
    """Origins are compared by name."""
    with (
        variant.client(config_with_all_credentials(server)) as client,
        pytest.raises(variant.library.ConnectError),
    ):
        client.get(server.url.replace("127.0.0.1", "localhost") + "/version")
    # The certificate was verified with the CAs of the system, not with that of the cluster.
    assert server.requests == []


@pytest.mark.parametrize(
    "spelling", ["HTTPS://127.0.0.1:{port}/version", "https://127.0.0.1:0{port}/version"]
)
def test_equivalent_urls_are_the_same_origin(
    variant: ClientVariant, server: APIServer, spelling: str
) -> None:
    with variant.client(config_with_all_credentials(server)) as client:
        assert client.get(spelling.format(port=server.url.rpartition(":")[2])).status_code == 200
    assert server.requests[0].user == "alice"


def test_the_default_port_is_the_same_origin(variant: ClientVariant) -> None:
    authorizations: list[str | None] = []

    def respond(request: Any) -> Any:
        authorizations.append(request.headers.get("authorization"))
        return variant.library.Response(200)

    for server in ("https://h", "https://h:443", "https://H:443/"):
        with variant.client(
            ClientConfig(server=server, token=Secret("t")), transport_factory=variant.in_memory(respond)
        ) as client:
            for url in ("https://h/", "https://h:443/", "https://h:444/", "http://h/", "http://h:443/", "https://h./",
                        "https://user@h/", "https://h.evil/", "wss://h/", "ws://h/"):  # fmt: skip
                client.get(url)
    # httpx sends a username in the URL as Basic credentials.
    expected = ["Bearer t", "Bearer t", None, None, None, None, "Basic dXNlcjo=", None, "Bearer t", None]

    assert authorizations == expected * 3


NewClient = Callable[[ClientVariant, ClientConfig], Any]


def new_kube_client(variant: ClientVariant, config: ClientConfig) -> Any:
    return variant.client(config, follow_redirects=True)


def new_client_with_kube_transport(variant: ClientVariant, config: ClientConfig) -> Any:
    def new() -> Any:
        return variant.PlainClient(
            transport=variant.KubeTransport(config), base_url=config.server, follow_redirects=True
        )

    return variant.drive(new)


def new_client_with_kube_auth(variant: ClientVariant, config: ClientConfig) -> Any:
    config = dataclasses.replace(config, impersonate=None)
    verify = variant.kubeauth.ssl_context(config)
    # Other origins must be trusted too: KubeAuth does not change how their certificates are verified.
    verify.set_default_verify_paths()

    def new() -> Any:
        auth = variant.kubeauth.KubeAuth(config)
        return variant.PlainClient(auth=auth, verify=verify, base_url=config.server, follow_redirects=True)

    return variant.drive(new)


@pytest.mark.parametrize(
    "new_client", [new_kube_client, new_client_with_kube_transport, new_client_with_kube_auth]
)
class TestRedirects:
    def follow(self, variant: ClientVariant, new_client: NewClient, server: APIServer, target: str) -> Driver:
        server.on("GET", "/from", Answer(307, headers={"Location": target}))
        with new_client(variant, config_with_all_credentials(server)) as client:
            response = client.get("/from")
            assert response.status_code == 200
            assert "alices-token" not in str(response.request.headers.raw)
            return client  # type: ignore[no-any-return]

    def test_a_redirect_to_another_port_sends_no_credentials(
        self, variant: ClientVariant, new_client: NewClient, server: APIServer, other_origin: APIServer
    ) -> None:
        self.follow(variant, new_client, server, f"{other_origin.url}/version")
        assert server.requests[0].user == "alice"
        assert_no_credentials(other_origin.requests[0])

    def test_a_redirect_to_http_sends_no_credentials(
        self, variant: ClientVariant, new_client: NewClient, server: APIServer, plain_server: APIServer
    ) -> None:
        self.follow(variant, new_client, server, f"{plain_server.url}/version")
        assert_no_credentials(plain_server.requests[0])

    def test_a_redirect_to_another_host_sends_no_credentials(
        self, variant: ClientVariant, new_client: NewClient, server: APIServer, other_origin: APIServer
    ) -> None:
        self.follow(
            variant, new_client, server, other_origin.url.replace("127.0.0.1", "localhost") + "/version"
        )
        assert_no_credentials(other_origin.requests[0])

    def test_a_redirect_to_another_host_and_back_sends_it_no_credentials(
        self, variant: ClientVariant, new_client: NewClient, server: APIServer, plain_server: APIServer
    ) -> None:
        plain_server.on("GET", "/back", Answer(307, headers={"Location": f"{server.url}/version"}))
        server.on("GET", "/from", Answer(307, headers={"Location": f"{plain_server.url}/back"}))
        with new_client(variant, config_with_all_credentials(server)) as client:
            client.get("/from")

        assert_no_credentials(plain_server.requests[0])

    def test_a_redirect_to_the_same_origin_is_signed(
        self, variant: ClientVariant, new_client: NewClient, server: APIServer
    ) -> None:
        server.on("GET", "/from", Answer(307, headers={"Location": "/version"}))
        with new_client(variant, config_with_all_credentials(server)) as client:
            assert client.get("/from").status_code == 200
        assert [request.user for request in server.requests] == ["alice", "alice"]


def test_a_redirect_from_http_to_https_sends_no_credentials(
    variant: ClientVariant, plain_server: APIServer, other_origin: APIServer
) -> None:
    plain_server.on("GET", "/from", Answer(307, headers={"Location": f"{other_origin.url}/version"}))
    with variant.client(plain_server.config(token="t"), follow_redirects=True) as client:
        assert client.get("/from").status_code == 200
    assert_no_credentials(other_origin.requests[0])


def test_insecure_skip_tls_verify_does_not_apply_to_other_origins(
    variant: ClientVariant, server: APIServer
) -> None:
    config = dataclasses.replace(
        config_with_all_credentials(server), ca_data=None, insecure_skip_tls_verify=True
    )
    with APIServer(authority=Authority("untrusted CA")) as other, variant.client(config) as client:
        assert client.get("/version").status_code == 200
        with pytest.raises(
            ServerCertificateError, match="not the cluster, so its certificate must be one that"
        ) as caught:
            client.get(f"{other.url}/version")
        assert isinstance(caught.value, variant.library.ConnectError)


def test_tls_server_name_does_not_apply_to_other_origins(
    variant: ClientVariant, server: APIServer, other_origin: APIServer, authority: Authority
) -> None:
    pair = authority.server("kubernetes.default")
    with APIServer(authority=authority, certificate=pair) as named:
        with variant.client(
            config_with_all_credentials(named, tls_server_name="kubernetes.default")
        ) as client:
            assert client.get("/version").status_code == 200
            assert (
                client.get(other_origin.url.replace("127.0.0.1", "localhost") + "/version").status_code == 200
            )
        assert named.requests[0].sni == "kubernetes.default"

    assert other_origin.requests[0].sni == "localhost"


class TestKubeAuth:
    def test_requests_to_the_cluster_are_signed(self, variant: ClientVariant, server: APIServer) -> None:
        config = server.config(token="alices-token")
        with new_client_with_kube_auth(variant, config) as client:
            assert client.get("/version").status_code == 200
        assert server.requests[0].user == "alice"

    def test_requests_to_other_origins_are_not_signed(
        self, variant: ClientVariant, server: APIServer, plain_server: APIServer
    ) -> None:
        with new_client_with_kube_auth(variant, config_with_all_credentials(server)) as client:
            client.get(f"{plain_server.url}/version")
        assert_no_credentials(plain_server.requests[0])

    def test_authorization_of_the_caller_is_not_replaced_i8(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with new_client_with_kube_auth(variant, server.config(token="wrong")) as client:
            assert client.get("/version", headers={"Authorization": "Bearer alices-token"}).status_code == 200

    def test_the_request_of_the_caller_is_not_modified(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with new_client_with_kube_auth(variant, server.config(token="alices-token")) as client:
            request = client.client.build_request("GET", "/version")
            headers = request.headers.raw
            send = client.client.send
            response = client._portal.call(send, request) if client._portal else send(request)
            assert response.status_code == 200
            assert request.headers.raw == headers

    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}])
    def test_use_together_with_kube_transport_raises_config_error(
        self, variant: ClientVariant, server: APIServer, headers: dict[str, str]
    ) -> None:
        config = server.config(token="alices-token")
        with (
            variant.client(config, auth=variant.kubeauth.KubeAuth(config)) as client,
            pytest.raises(ConfigError, match="remove auth=KubeAuth"),
        ):
            client.get("/version", headers=headers)
        assert server.requests == []

    def test_a_config_with_only_a_certificate_raises_config_error(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        with pytest.raises(ConfigError, match=r"client certificate.*Use KubeTransport"):
            variant.kubeauth.KubeAuth(server.config(identity=server.authority.client("carol")))

    def test_impersonation_and_http_on_port_80_are_rejected(
        self, variant: ClientVariant, server: APIServer
    ) -> None:
        """On a redirect, httpx removes only Authorization, and not even that from port 80 to https."""
        with pytest.raises(ConfigError, match=r"impersonation headers.*Use KubeTransport"):
            variant.kubeauth.KubeAuth(server.config(token="t", impersonate=Impersonation(user="dave")))

        with pytest.raises(ConfigError, match=r"port 80.*Use KubeTransport"):
            variant.kubeauth.KubeAuth(ClientConfig(server="http://h", token=Secret("t")))

        variant.kubeauth.KubeAuth(ClientConfig(server="http://h:8001", token=Secret("t")))

    def test_an_invalid_token_is_rejected_at_construction(self, variant: ClientVariant) -> None:
        with pytest.raises(ConfigError, match=r"not a valid HTTP header value|cannot be sent"):
            variant.kubeauth.KubeAuth(ClientConfig(server="https://h", token=Secret("a\nb")))
