"""Which server certificates a client trusts, and its errors for the others (K50, K50a)."""

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
from kubeauth.testing import APIServer, Authority
from tests.support.clients import ClientVariant
from tests.support.shell_plugin import ShellPlugin

YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


def certificate_error(variant: ClientVariant, server: APIServer, ca: bytes | None) -> Any:
    """Return the error of a request to `server` that trusts only `ca`."""
    with variant.client(server.config(ca_data=ca)) as client, pytest.raises(ServerCertificateError) as caught:
        client.get("/version")
    error: Any = caught.value
    # `except httpx.ConnectError` catches it, and it has a request.
    assert isinstance(error, variant.library.ConnectError)
    assert error.request.url.path == "/version"
    assert isinstance(error.__cause__, variant.library.ConnectError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert server.url in str(error)
    return error


def test_an_intermediate_ca_is_a_trust_anchor_k50a(variant: ClientVariant) -> None:
    intermediate = Authority("root").intermediate()
    with APIServer(certificate=intermediate.server("127.0.0.1", chain=False)) as server:
        with variant.client(server.config(ca_data=intermediate.pem)) as client:
            assert client.get("/version").status_code == 200


def test_a_chain_with_an_intermediate_is_verified_by_its_root_k50(variant: ClientVariant) -> None:
    root = Authority("root")
    with APIServer(certificate=root.intermediate().server("127.0.0.1")) as server:
        with variant.client(server.config(ca_data=root.pem)) as client:
            assert client.get("/version").status_code == 200


def test_a_chain_without_its_intermediate_is_rejected(variant: ClientVariant) -> None:
    root = Authority("root")
    with APIServer(certificate=root.intermediate().server("127.0.0.1", chain=False)) as server:
        assert "unknown authority" in str(certificate_error(variant, server, root.pem))


def test_a_ca_without_key_identifiers_is_accepted_k50a(variant: ClientVariant) -> None:
    """Python 3.13 rejects it by default; Go does not."""
    authority = Authority(key_identifiers=False)
    with APIServer(authority=authority) as server, variant.client(server.config()) as client:
        assert client.get("/version").status_code == 200


def test_the_server_certificate_is_a_trust_anchor_k50a(variant: ClientVariant) -> None:
    pair = Authority().server("127.0.0.1")
    with (
        APIServer(certificate=pair) as server,
        variant.client(server.config(ca_data=pair.certificate)) as client,
    ):
        assert client.get("/version").status_code == 200


def test_a_certificate_of_another_ca_is_rejected(variant: ClientVariant, server: APIServer) -> None:
    error = certificate_error(variant, server, Authority("other").pem)
    assert "unknown authority" in str(error)
    assert "certificate-authority-data" in str(error)
    assert error.verify_code in (18, 19, 20)


def test_a_certificate_of_another_ca_with_the_same_name_is_rejected(
    variant: ClientVariant, server: APIServer
) -> None:
    certificate_error(variant, server, Authority().pem)


def test_the_system_cas_are_ignored_if_a_ca_is_configured_k50(
    variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(server.authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    certificate_error(variant, server, Authority("other").pem)


def test_the_system_cas_are_used_if_no_ca_is_configured_k50(
    variant: ClientVariant, server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(server.authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with variant.client(server.config(token="alices-token", ca_data=None)) as client:
        assert client.get("/version").status_code == 200


def test_an_expired_certificate_is_rejected(variant: ClientVariant, authority: Authority) -> None:
    with APIServer(
        authority=authority, certificate=authority.server("127.0.0.1", not_after=YESTERDAY)
    ) as server:
        error = certificate_error(variant, server, authority.pem)

    assert "has expired" in str(error)
    assert "clock" in str(error)
    assert error.verify_code == 10


def test_a_certificate_for_another_name_is_rejected(variant: ClientVariant, authority: Authority) -> None:
    with APIServer(authority=authority, certificate=authority.server("other.example")) as server:
        error = certificate_error(variant, server, authority.pem)
    assert "tls-server-name" in str(error)


def test_the_common_name_is_not_a_host_name_k50a(variant: ClientVariant, authority: Authority) -> None:
    """OpenSSL uses it if there are no alternative names; Go does not."""
    without_san = authority._issue("localhost", ExtendedKeyUsageOID.SERVER_AUTH, None, None, True, ())
    with APIServer(authority=authority, certificate=without_san) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")
        assert certificate_error(variant, server, authority.pem).verify_code == 62


@pytest.mark.parametrize(
    "invalid", [b"-----BEGIN CERTIFICATE-----\n\xff\xfe\n-----END CERTIFICATE-----\n", b"\xff\x00"]
)
def test_ca_data_that_cannot_be_parsed_is_skipped_k50(
    variant: ClientVariant, server: APIServer, invalid: bytes
) -> None:
    with variant.client(
        server.config(token="alices-token", ca_data=invalid + server.authority.pem)
    ) as client:
        assert client.get("/version").status_code == 200
    with pytest.raises(TLSError, match="contains no valid certificate"):
        variant.Client(server.config(ca_data=invalid))


@pytest.mark.parametrize("name", ["kubernetes.default.", "kubernetes.default", "KUBERNETES.default"])
def test_tls_server_name_accepts_the_same_names_as_go_k51(
    variant: ClientVariant, authority: Authority, name: str
) -> None:
    with APIServer(authority=authority, certificate=authority.server("kubernetes.default")) as server:
        with variant.client(server.config(tls_server_name=name)) as client:
            assert client.get("/version").status_code == 200


@pytest.mark.parametrize("name", ["::1", "[::1]", "10.0.0.1"])
def test_tls_server_name_can_be_an_ip_address_k51(
    variant: ClientVariant, authority: Authority, name: str
) -> None:
    with APIServer(authority=authority, certificate=authority.server(name.strip("[]"))) as server:
        with variant.client(server.config(tls_server_name=name)) as client:
            assert client.get("/version").status_code == 200


@pytest.mark.parametrize("name", ["a..b", ".", "x" * 70, "a\x00b", ".a"])
def test_an_invalid_tls_server_name_is_rejected_at_construction(variant: ClientVariant, name: str) -> None:
    with pytest.raises(TLSError, match="tls-server-name"):
        variant.Client(ClientConfig(server="https://h", tls_server_name=name))


def test_insecure_skip_tls_verify_accepts_any_certificate(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(token="alices-token", ca_data=None, insecure_skip_tls_verify=True)
    with variant.client(config) as client:
        assert client.get("/version").status_code == 200


def test_a_client_with_an_empty_ca_file_trusts_no_server_k50(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").touch()
    with variant.client(server.config(ca_data=None, ca_file=str(tmp_path / "ca.pem"))) as client, pytest.raises(ServerCertificateError):  # fmt: skip
        client.get("/version")


def test_tls_1_1_is_rejected_k51(variant: ClientVariant, server: APIServer) -> None:
    context = server._listener._context
    assert context is not None
    with warnings.catch_warnings(action="ignore"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.minimum_version = ssl.TLSVersion.TLSv1

    context.set_ciphers("ALL:@SECLEVEL=0")

    with variant.client(server.config()) as client, pytest.raises(variant.library.ConnectError):
        client.get("/version")


class TestServersThatRequireACertificate:
    def test_no_certificate_is_configured(self, variant: ClientVariant, authority: Authority) -> None:
        with (
            APIServer(authority=authority, require_certificate=True) as server,
            variant.client(server.config()) as client,
        ):
            with pytest.raises(ClientCertificateError, match="the kubeconfig's user has none") as caught:
                client.get("/version")
        assert isinstance(caught.value, variant.library.ReadError)

    def test_the_plugin_returns_only_a_token(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        """The error names the plugin, which did not return a certificate."""
        plugin = ShellPlugin(tmp_path, name="get-token")
        plugin.answer(token="t1")
        with APIServer(authority=authority, require_certificate=True) as server:
            config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
            with variant.client(config) as client, pytest.raises(ClientCertificateError) as caught:
                client.get("/version")

        assert len(plugin.runs) == 1
        assert "requires a client certificate (certificate required)" in str(caught.value)
        assert f"and the exec plugin {plugin.path} returned only a token" in str(caught.value)
        assert "t1" not in str(caught.value)

    def test_the_plugin_is_not_run(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        """The Authorization header of the caller is used, so the error does not name the plugin."""
        plugin = ShellPlugin(tmp_path)
        with APIServer(authority=authority, require_certificate=True) as server:
            config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
            with variant.client(config) as client, pytest.raises(ClientCertificateError) as caught:
                client.get("/version", headers={"Authorization": "Bearer own"})

        assert plugin.runs == []
        assert "the kubeconfig's user has none" in str(caught.value)

    def test_the_plugin_returns_a_certificate_of_another_ca(
        self, variant: ClientVariant, authority: Authority, tmp_path: Path
    ) -> None:
        plugin, pair = ShellPlugin(tmp_path), Authority("other").client("mallory")
        plugin.answer(certificate=pair.certificate, key=pair.key)
        with APIServer(authority=authority, require_certificate=True) as server:
            config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
            with variant.client(config) as client, pytest.raises(ClientCertificateError) as caught:
                client.get("/version")

        assert f"rejected the client certificate of the exec plugin {plugin.path}" in str(caught.value)

    def test_a_client_certificate_of_another_ca_is_rejected(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        pair = Authority("other").client("mallory")
        with APIServer(authority=authority, require_certificate=True) as server:
            with variant.client(server.config(identity=pair)) as client, pytest.raises(ClientCertificateError, match="rejected the client certificate"):  # fmt: skip
                client.get("/version")

        assert server.requests == []

    def test_a_client_certificate_of_the_ca_is_accepted(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        with APIServer(authority=authority, require_certificate=True) as server:
            with variant.client(server.config(identity=authority.client("carol"))) as client:
                assert client.get("/version").status_code == 200


def test_ssl_errors_raised_by_a_custom_transport(variant: ClientVariant) -> None:
    """They have no verify_code and no message of OpenSSL."""

    def raise_verification_error(_request: Any) -> Any:
        raise variant.library.ConnectError("no") from ssl.SSLCertVerificationError("custom message")

    config = ClientConfig(server="https://h")
    with variant.client(config, transport_factory=variant.in_memory(raise_verification_error)) as client:
        with pytest.raises(ServerCertificateError, match="custom message") as caught:
            client.get("/version")

    assert caught.value.verify_code == 0

    def raise_other_error(_request: Any) -> Any:
        raise variant.library.ConnectError("no") from ssl.SSLError("other")

    with variant.client(config, transport_factory=variant.in_memory(raise_other_error)) as client:
        with pytest.raises(variant.library.ConnectError, match="no") as other:
            client.get("/version")

    assert not isinstance(other.value, TLSError)


def test_an_ssl_error_that_is_being_handled_is_not_the_cause(
    variant: ClientVariant, authority: Authority
) -> None:
    """The request fails because the server is closed."""
    with APIServer(authority=authority) as server:
        url = server.url

    with variant.client(server.config()) as client:
        try:
            raise ssl.SSLCertVerificationError("earlier")
        except ssl.SSLError:
            with pytest.raises(variant.library.ConnectError) as caught:
                client.get(f"{url}/version")

    assert not isinstance(caught.value, TLSError)
