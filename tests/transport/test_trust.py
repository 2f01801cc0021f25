"""Which server is trusted, and what is said when it is not (K50, K50a)."""

from __future__ import annotations

import datetime
import pickle
import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from kubeauth import ClientConfig, load_config
from kubeauth.errors import ClientCertificateError, ServerCertificateError, TLSError
from kubeauth.testing import APIServer, Authority, PluginScript
from tests.support.clients import ClientVariant

YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


def refused(variant: ClientVariant, server: APIServer, ca: bytes | None) -> Any:
    with variant.client(server.config(ca_data=ca)) as client, pytest.raises(ServerCertificateError) as caught:
        client.get("/version")
    error: Any = caught.value
    # A handler for errors of httpx catches this one, with its request.
    assert isinstance(error, variant.library.ConnectError)
    assert error.request.url.path == "/version"
    assert isinstance(error.__cause__, variant.library.ConnectError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert server.url in str(error)
    return error


def test_an_intermediate_alone_is_an_anchor_k50a(variant: ClientVariant) -> None:
    intermediate = Authority("root").intermediate()
    with APIServer(certificate=intermediate.server("127.0.0.1", chain=False)) as server:
        with variant.client(server.config(ca_data=intermediate.pem)) as client:
            assert client.get("/version").status_code == 200


def test_the_root_of_an_intermediate_k50(variant: ClientVariant) -> None:
    root = Authority("root")
    with APIServer(certificate=root.intermediate().server("127.0.0.1")) as server:
        with variant.client(server.config(ca_data=root.pem)) as client:
            assert client.get("/version").status_code == 200


def test_a_server_that_does_not_send_its_intermediate(variant: ClientVariant) -> None:
    root = Authority("root")
    with APIServer(certificate=root.intermediate().server("127.0.0.1", chain=False)) as server:
        assert "unknown authority" in str(refused(variant, server, root.pem))


def test_a_ca_without_key_identifiers_k50a(variant: ClientVariant) -> None:
    """Python 3.13's own default would refuse it; Go does not."""
    authority = Authority(key_identifiers=False)
    with APIServer(authority=authority) as server, variant.client(server.config()) as client:
        assert client.get("/version").status_code == 200


def test_the_servers_own_certificate_is_an_anchor_k50a(variant: ClientVariant) -> None:
    pair = Authority().server("127.0.0.1")
    with (
        APIServer(certificate=pair) as server,
        variant.client(server.config(ca_data=pair.certificate)) as client,
    ):
        assert client.get("/version").status_code == 200


def test_another_ca(variant: ClientVariant, server: APIServer) -> None:
    error = refused(variant, server, Authority("other").pem)
    assert "unknown authority" in str(error)
    assert "certificate-authority-data" in str(error)
    assert error.verify_code in (18, 19, 20)


def test_another_ca_of_the_same_name(variant: ClientVariant, server: APIServer) -> None:
    refused(variant, server, Authority().pem)


def test_the_systems_cas_do_not_count_beside_one_k50(
    variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(server.authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    refused(variant, server, Authority("other").pem)


def test_the_systems_cas_count_without_one_k50(
    variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(server.authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with variant.client(server.config(token="alices-token", ca_data=None)) as client:
        assert client.get("/version").status_code == 200


def test_an_expired_certificate(variant: ClientVariant, authority: Authority) -> None:
    with APIServer(
        authority=authority, certificate=authority.server("127.0.0.1", not_after=YESTERDAY)
    ) as server:
        error = refused(variant, server, authority.pem)
    assert "has expired" in str(error)
    assert "clock" in str(error)
    assert error.verify_code == 10


def test_another_name(variant: ClientVariant, authority: Authority) -> None:
    with APIServer(authority=authority, certificate=authority.server("other.example")) as server:
        error = refused(variant, server, authority.pem)
    assert "tls-server-name" in str(error)


def test_a_common_name_is_no_name_k50a(variant: ClientVariant, authority: Authority) -> None:
    """Go has not looked at it for years; OpenSSL does where there are no alternative names."""
    nameless = authority._issue("localhost", ExtendedKeyUsageOID.SERVER_AUTH, None, None, True, ())
    with APIServer(authority=authority, certificate=nameless) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")
        assert refused(variant, server, authority.pem).verify_code == 62


@pytest.mark.parametrize(
    "bad", [b"-----BEGIN CERTIFICATE-----\n\xff\xfe\n-----END CERTIFICATE-----\n", b"\xff\x00"]
)
def test_what_cannot_be_parsed_does_not_spoil_the_rest_k50(
    variant: ClientVariant, server: APIServer, bad: bytes
) -> None:
    with variant.client(server.config(token="alices-token", ca_data=bad + server.authority.pem)) as client:
        assert client.get("/version").status_code == 200
    with pytest.raises(TLSError, match="contains no valid certificate"):
        variant.Client(server.config(ca_data=bad))


@pytest.mark.parametrize("name", ["kubernetes.default.", "kubernetes.default", "KUBERNETES.default"])
def test_a_server_name_as_go_takes_it_k51(variant: ClientVariant, authority: Authority, name: str) -> None:
    with APIServer(authority=authority, certificate=authority.server("kubernetes.default")) as server:
        with variant.client(server.config(tls_server_name=name)) as client:
            assert client.get("/version").status_code == 200


@pytest.mark.parametrize("name", ["::1", "[::1]", "10.0.0.1"])
def test_an_address_for_a_server_name_k51(variant: ClientVariant, authority: Authority, name: str) -> None:
    with APIServer(authority=authority, certificate=authority.server(name.strip("[]"))) as server:
        with variant.client(server.config(tls_server_name=name)) as client:
            assert client.get("/version").status_code == 200


@pytest.mark.parametrize("name", ["a..b", ".", "x" * 70, "a\x00b", ".a"])
def test_a_server_name_that_is_none_is_refused_at_once(variant: ClientVariant, name: str) -> None:
    with pytest.raises(TLSError, match="tls-server-name"):
        variant.Client(ClientConfig(server="https://h", tls_server_name=name))


def test_insecure(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(token="alices-token", ca_data=None, insecure_skip_tls_verify=True)
    with variant.client(config) as client:
        assert client.get("/version").status_code == 200


def test_an_empty_ca_file_trusts_nobody_k50(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").touch()
    with variant.client(server.config(ca_data=None, ca_file=str(tmp_path / "ca.pem"))) as client, pytest.raises(ServerCertificateError):  # fmt: skip
        client.get("/version")


def test_tls_below_1_2_is_refused_k51(variant: ClientVariant, server: APIServer) -> None:
    context = server._listener._context
    assert context is not None
    with warnings.catch_warnings(action="ignore"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with variant.client(server.config()) as client, pytest.raises(variant.library.ConnectError):
        client.get("/version")


class TestServersThatWantACertificate:
    def test_and_get_none(self, variant: ClientVariant, authority: Authority) -> None:
        with (
            APIServer(authority=authority, require_certificate=True) as server,
            variant.client(server.config()) as client,
        ):
            with pytest.raises(ClientCertificateError, match="the kubeconfig's user has none") as caught:
                client.get("/version")
        assert isinstance(caught.value, variant.library.ReadError)

    def test_and_a_plugin_returns_a_token_only(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        """The error names the plugin: the user has no certificate to configure."""
        plugin = PluginScript(tmp_path, "get-token")
        plugin.answer(token="t1")
        with APIServer(authority=authority, require_certificate=True) as server:
            config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
            with variant.client(config) as client, pytest.raises(ClientCertificateError) as caught:
                client.get("/version")
        assert len(plugin.runs) == 1
        assert "requires a client certificate (certificate required)" in str(caught.value)
        assert f"and the exec plugin {plugin.path} returned only a token" in str(caught.value)
        assert "t1" not in str(caught.value)

    def test_and_the_plugin_was_not_run(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        """The caller's own Authorization is used: the plugin is not to blame."""
        plugin = PluginScript(tmp_path)
        with APIServer(authority=authority, require_certificate=True) as server:
            config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
            with variant.client(config) as client, pytest.raises(ClientCertificateError) as caught:
                client.get("/version", headers={"Authorization": "Bearer own"})
        assert plugin.runs == []
        assert "the kubeconfig's user has none" in str(caught.value)

    def test_and_a_plugin_returns_one_of_another_ca(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        plugin, pair = PluginScript(tmp_path), Authority("other").client("mallory")
        plugin.answer(certificate=pair.certificate, key=pair.key)
        with APIServer(authority=authority, require_certificate=True) as server:
            config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
            with variant.client(config) as client, pytest.raises(ClientCertificateError) as caught:
                client.get("/version")
        assert f"rejected the client certificate of the exec plugin {plugin.path}" in str(caught.value)

    def test_and_get_one_of_another_ca(self, variant: ClientVariant, authority: Authority) -> None:
        pair = Authority("other").client("mallory")
        with APIServer(authority=authority, require_certificate=True) as server:
            with variant.client(server.config(identity=pair)) as client, pytest.raises(ClientCertificateError, match="rejected the client certificate"):  # fmt: skip
                client.get("/version")
        assert server.requests == []

    def test_and_get_theirs(self, variant: ClientVariant, authority: Authority) -> None:
        with APIServer(authority=authority, require_certificate=True) as server:
            with variant.client(server.config(identity=authority.client("carol"))) as client:
                assert client.get("/version").status_code == 200


def test_an_error_that_openssl_did_not_make(variant: ClientVariant) -> None:
    """Of a transport of the caller's: it has no number and no words of OpenSSL's, and is told all the same."""

    def fails(_request: Any) -> Any:
        raise variant.library.ConnectError("no") from ssl.SSLCertVerificationError("my own words")

    config = ClientConfig(server="https://h")
    with variant.client(config, transport_factory=variant.in_memory(fails)) as client:
        with pytest.raises(ServerCertificateError, match="my own words") as caught:
            client.get("/version")
    assert caught.value.verify_code == 0

    def fails_otherwise(_request: Any) -> Any:
        raise variant.library.ConnectError("no") from ssl.SSLError("of no kind")

    with variant.client(config, transport_factory=variant.in_memory(fails_otherwise)) as client:
        with pytest.raises(variant.library.ConnectError, match="no") as plain:
            client.get("/version")
    assert not isinstance(plain.value, TLSError)


def test_an_earlier_error_is_not_taken_for_this_one(variant: ClientVariant, authority: Authority) -> None:
    """A client used while another error is being handled: that one's cause is not ours."""
    with APIServer(authority=authority) as server:
        url = server.url
    with variant.client(server.config()) as client:
        try:
            raise ssl.SSLCertVerificationError("earlier")
        except ssl.SSLError:
            with pytest.raises(variant.library.ConnectError) as caught:
                client.get(f"{url}/version")
    assert not isinstance(caught.value, TLSError)
