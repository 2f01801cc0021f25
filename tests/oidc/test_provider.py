"""`auth-provider: oidc` with an issuer, an API server and a kubeconfig file."""

from __future__ import annotations

import dataclasses
import gzip
import logging
import pickle
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import kubeauth
from kubeauth import Client, OidcConfig, OidcOptions, Secret, errors, load_config
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.clients import ClientVariant
from tests.support.observers import NullObserver
from tests.support.oidc import Kubeconfig, authenticate, settings, write_kubeconfig
from tests.support.oidc_issuer import CONFIGURATION, TOKEN, Issuer
from tests.support.proxy_servers import Proxy
from tests.support.residue import wait_until


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(rotating=True, client_secret="s3cret") as issuer:
        yield issuer


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, authenticate=authenticate) as server:
        yield server


@pytest.fixture
def kubeconfig(issuer: Issuer, server: APIServer, tmp_path: Path) -> Kubeconfig:
    """With a refresh token, and without an ID token."""
    return write_kubeconfig(
        server, tmp_path / "config", settings(issuer, refresh_token=issuer.new_refresh_token())
    )


def authorizations(server: APIServer) -> list[str]:
    return [str(request.header("Authorization")) for request in server.requests]


def test_tokens_are_refreshed_written_back_and_used_o2_o4_o6_o7(
    variant: ClientVariant, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    first = kubeconfig.entry()["refresh-token"]
    with variant.client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
        entry = kubeconfig.entry()
        assert authorizations(server) == [f"Bearer {entry['id-token']}"]
        assert entry["refresh-token"] not in ("", first)
        assert client.get("/version").status_code == 200
        assert (issuer.refreshes, issuer.errors) == (1, [])

        # A header of the caller is not replaced.
        client.get("/version", headers={"Authorization": "Bearer mine"})
        assert authorizations(server)[-1] == "Bearer mine"
        assert issuer.refreshes == 1

        status = client.client.status()
        assert (status.source, status.kind) == (f"oidc {issuer.url}", "token")

    # The next client uses the ID token from the file.
    with variant.client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
    assert issuer.refreshes == 1
    assert {path.name for path in kubeconfig.path.parent.iterdir()} == {"config", "home"}


def test_a_valid_id_token_is_used_without_the_issuer_o2_o3(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    with Issuer() as issuer:
        token = issuer.id_token("alice", 60)
        kubeconfig = write_kubeconfig(server, tmp_path / "config", settings(issuer, id_token=token))
    before = kubeconfig.path.read_bytes()

    with variant.client(load_config(kubeconfig.path)) as client:  # the issuer is closed
        assert client.get("/version").status_code == 200

    assert authorizations(server) == [f"Bearer {token}"]
    assert kubeconfig.path.read_bytes() == before


def test_kubeauth_auth_uses_the_id_token_o2(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    config = load_config(kubeconfig.path)
    with httpx.Client(
        auth=kubeauth.KubeAuth(config),
        verify=kubeauth.ssl_context(config),
        base_url=config.server,
        timeout=60.0,
    ) as client:
        assert client.get("/version").status_code == 200
        assert authorizations(server) == [f"Bearer {kubeconfig.entry()['id-token']}"]


class TestRefresh:
    def test_an_id_token_is_refreshed_ten_seconds_before_its_expiry_o3(
        self, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
    ) -> None:
        clock = FakeClock(time.time())
        exp = int(clock.time()) + 100
        token = issuer.sign({"sub": "alice", "exp": exp})
        kubeconfig.change(id_token=token)
        config = load_config(kubeconfig.path, oidc_options=OidcOptions(refresh_ahead=False))

        with Client(config, clock=clock) as client:
            clock.advance(exp - 10.5 - clock.time())
            client.get("/version")
            assert issuer.refreshes == 0
            assert client.status().expires is not None

            clock.advance(0.5)
            client.get("/version")
            assert issuer.refreshes == 1

        assert authorizations(server)[0] == f"Bearer {token}"
        assert authorizations(server)[1] == f"Bearer {kubeconfig.entry()['id-token']}"

    def test_an_id_token_is_refreshed_ahead_in_the_background(
        self, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
    ) -> None:
        clock = FakeClock(time.time())
        token = issuer.sign({"sub": "alice", "exp": int(clock.time()) + 1000})
        kubeconfig.change(id_token=token)

        with Client(load_config(kubeconfig.path), clock=clock) as client:
            client.get("/version")
            clock.advance(960)
            client.get("/version")
            source: Any = client._kube_transport._source
            if (call := source._call) is not None:
                call.wait()
            client.get("/version")

        assert issuer.refreshes == 1
        assert authorizations(server)[:2] == [f"Bearer {token}"] * 2
        assert authorizations(server)[2] == f"Bearer {kubeconfig.entry()['id-token']}"

    def test_a_401_refreshes_the_id_token_once_o9(
        self, variant: ClientVariant, issuer: Issuer, kubeconfig: Kubeconfig
    ) -> None:
        """client-go returns the 401 and continues to send the rejected token."""
        kubeconfig.change(id_token=issuer.id_token("revoked"))
        rejected = {"revoked"}
        with APIServer(authenticate=lambda r: None if authenticate(r) in rejected else "alice") as server:
            config = load_config(kubeconfig.path)
            config = dataclasses.replace(config, server=server.url, ca_data=server.authority.pem)
            with variant.client(config, clock=FakeClock(time.time())) as client:
                assert client.get("/version").status_code == 200
                assert len(server.requests) == 2

                # Then the rate limit applies, after one more refresh.
                rejected.add("alice")
                assert [client.get("/version").status_code for _ in range(5)] == [401] * 5
        assert (issuer.refreshes, issuer.errors) == (2, [])

    def test_a_401_without_a_refresh_token_is_returned_o4_o9(self, issuer: Issuer, tmp_path: Path) -> None:
        with APIServer(authenticate=lambda _: None) as server:
            config = settings(issuer, id_token=issuer.id_token())
            kubeconfig = write_kubeconfig(server, tmp_path / "config", config)
            with Client(load_config(kubeconfig.path)) as client:
                assert client.get("/version").status_code == 401
                assert "cannot refresh without refresh-token" in str(client.status().last_error)

    def test_concurrent_requests_refresh_once_o8(
        self, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
    ) -> None:
        issuer.gate.clear()
        config = load_config(kubeconfig.path)
        clients = [Client(config), Client(load_config(kubeconfig.path))]
        source: Any = clients[0]._kube_transport._source
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda c=client: statuses.append(c.get("/version").status_code))
            for client in clients
            for _ in range(10)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: source._call is not None and len(source._call._waiters) == len(threads) - 1)

        issuer.gate.set()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()

        assert statuses == [200] * 20
        assert (issuer.refreshes, issuer.errors) == (1, [])

    def test_users_of_one_issuer_do_not_share_tokens_o8(
        self, issuer: Issuer, server: APIServer, tmp_path: Path
    ) -> None:
        """client-go would use the tokens of the first for both."""
        paths = []
        for name in ("alice", "bob"):
            config = settings(issuer, refresh_token=issuer.new_refresh_token(name))
            paths.append(write_kubeconfig(server, tmp_path / name, config).path)

        for path in paths:
            with Client(load_config(path)) as client:
                client.get("/version")

        assert [request.user for request in server.requests] == ["alice", "bob"]


class TestErrors:
    @pytest.mark.parametrize(
        ("path", "answer", "message"),
        [
            (CONFIGURATION, Answer(status=503, body=b"x" * 200), f'503: "{"x" * 80}..."'),
            (CONFIGURATION, Answer(body=b"<html>"), "failed to decode provider discovery object"),
            (CONFIGURATION, Answer(body={}), "doesn't contain a token_endpoint"),
            (CONFIGURATION, Answer(body=b"x" * 2**21), "is larger than 1 MiB"),
            (
                CONFIGURATION,
                Answer(status=302, headers={"Location": CONFIGURATION}),
                "stopped after 10 redirects",
            ),
            *[
                (CONFIGURATION, Answer(body={"issuer": "x", "token_endpoint": address}), "cannot be reached")
                for address in ("https://[::1", "http://[bad]/", "http://\u2100.com/", "https://xn--/")
            ],
            *[
                (CONFIGURATION, Answer(status=302, headers={"Location": address}), "cannot be reached")
                for address in ("https://[::1", f"https://{'x' * 70}.test/")
            ],
            (
                TOKEN,
                Answer(body=gzip.compress(b" " * 2**24), headers={"Content-Encoding": "gzip"}),
                "the response is compressed, which was not requested",
            ),
            (CONFIGURATION, Answer(hang_up=True), "cannot be reached"),
            (TOKEN, Answer(hang_up=True), "cannot be reached"),
            (TOKEN, Answer(status=400, body={"error": "invalid_grant"}), "log in again"),
            (TOKEN, Answer(status=302, headers={"Location": "/elsewhere"}), "cannot fetch token: status 302"),
            (TOKEN, Answer(body=b"garbage"), "cannot parse the response"),
            (TOKEN, Answer(body={"access_token": "a"}), "did not contain an id_token"),
            (TOKEN, Answer(body={"access_token": "a", "id_token": "s3cret"}), "is not a valid JWT"),
        ],
    )
    def test_a_failed_refresh_is_an_oidc_error_and_the_next_succeeds_o5_o6(
        self, path: str, answer: Answer, message: str, issuer: Issuer, kubeconfig: Kubeconfig
    ) -> None:
        clock = FakeClock(time.time())
        issuer.answers[path] = answer
        with Client(load_config(kubeconfig.path), clock=clock) as client:
            with pytest.raises(errors.OidcError) as caught:
                client.get("/version")
            assert message in str(caught.value)
            assert caught.value.issuer == issuer.url
            assert issuer.url in str(caught.value)

            # During the backoff the issuer gets no request.
            requests = len(issuer.requests)
            with pytest.raises(errors.OidcError):
                client.get("/version")
            assert len(issuer.requests) == requests

            issuer.answers.clear()
            clock.advance(2)
            assert client.get("/version").status_code == 200
            assert client.status().last_error is None

    def test_an_issuer_that_is_slow_or_down_o5(self, issuer: Issuer, kubeconfig: Kubeconfig) -> None:
        options = OidcOptions(timeout=0.2)
        issuer.gate.clear()
        with Client(load_config(kubeconfig.path, oidc_options=options)) as client:
            with pytest.raises(errors.OidcError, match=r"within 0.2 seconds \(OidcOptions.timeout\)"):
                client.get("/version")

        issuer.close()
        with Client(load_config(kubeconfig.path)) as client:
            with pytest.raises(errors.OidcError, match=r"cannot be reached.*Check idp-issuer-url"):
                client.get("/version")

    @pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
    def test_a_response_that_never_ends_times_out_o5(self, head: bytes) -> None:
        """Each byte arrives within the read timeout of httpx."""
        listener = socket.create_server(("127.0.0.1", 0))

        def send_forever() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(head)
                while True:
                    connection.sendall(b"a")
                    time.sleep(0.01)

        thread = threading.Thread(target=send_forever)
        thread.start()
        oidc = OidcConfig(
            issuer_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
            client_id="kubernetes",
            refresh_token=Secret("r"),
            options=OidcOptions(timeout=0.3),
        )

        with listener, Client(kubeauth.ClientConfig(server="https://127.0.0.1:1", oidc=oidc)) as client:
            with pytest.raises(errors.OidcError, match=r"within 0.3 seconds \(OidcOptions.timeout\)"):
                client.get("/version")
            thread.join()

    def test_an_expired_id_token_without_a_refresh_token_o4(
        self, issuer: Issuer, kubeconfig: Kubeconfig
    ) -> None:
        kubeconfig.change(refresh_token="", id_token=issuer.id_token(seconds=9))
        with Client(load_config(kubeconfig.path)) as client:
            message = "No valid id-token, and cannot refresh without refresh-token. Log in again"
            with pytest.raises(errors.OidcError, match=message):
                client.get("/version")
        assert issuer.requests == []

    def test_an_invalid_id_token_o3(self, issuer: Issuer, kubeconfig: Kubeconfig) -> None:
        kubeconfig.change(id_token="s3ntinel")
        with Client(load_config(kubeconfig.path)) as client:
            with pytest.raises(errors.OidcError, match="ID Token is not a valid JWT"):
                client.get("/version")

    def test_an_expired_id_token_of_the_issuer_is_used_once_o3(
        self, issuer: Issuer, kubeconfig: Kubeconfig
    ) -> None:
        # For the client it expires in five seconds, for the server in an hour.
        clock = FakeClock(time.time() + issuer.lifetime - 5)
        with Client(load_config(kubeconfig.path), clock=clock) as client:
            assert client.get("/version").status_code == 200
            assert "issuer returned an expired credential" in str(client.status().last_error)

    @pytest.mark.parametrize("auth", ["header", "params"])
    def test_the_client_secret_is_sent_as_the_issuer_requires_o6(
        self, auth: str, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
    ) -> None:
        issuer.client_auth, issuer.lifetime = auth, 11
        clock = FakeClock(time.time())
        with Client(load_config(kubeconfig.path), clock=clock) as client:
            client.get("/version")
            clock.advance(3600)
            client.get("/version")

        # The header is tried once, and the result is cached.
        assert issuer.errors == (["invalid_client"] if auth == "params" else [])
        assert issuer.refreshes == (3 if auth == "params" else 2)

    def test_a_wrong_client_secret_o6(self, issuer: Issuer, kubeconfig: Kubeconfig) -> None:
        kubeconfig.change(client_secret="wr0ng")
        with Client(load_config(kubeconfig.path)) as client:
            with pytest.raises(errors.OidcError, match=r"invalid_client.*Check client-id and client-secret"):
                client.get("/version")
        assert issuer.errors == ["invalid_client"] * 2

    def test_an_issuer_with_an_untrusted_certificate_o5(self, issuer: Issuer, kubeconfig: Kubeconfig) -> None:
        config = load_config(kubeconfig.path)
        assert config.oidc is not None
        config = dataclasses.replace(config, oidc=dataclasses.replace(config.oidc, ca_data=None))
        with Client(config) as client:
            with pytest.raises(errors.OidcError, match=r"(?i)certificate.verify.failed.*its CA"):
                client.get("/version")

    def test_an_invalid_ca_is_rejected_when_the_client_is_created_o5(
        self, issuer: Issuer, kubeconfig: Kubeconfig
    ) -> None:
        config = load_config(kubeconfig.path)
        assert config.oidc is not None
        oidc = dataclasses.replace(config.oidc, ca_data=b"no certificate")
        with pytest.raises(errors.TLSError, match="idp-certificate-authority of the auth provider oidc"):
            Client(dataclasses.replace(config, oidc=oidc))


class TestConfiguration:
    def load(self, server: APIServer, config: dict[str, str], **user: Any) -> kubeauth.ClientConfig:
        return load_config(server.kubeconfig({"auth-provider": {"name": "oidc", "config": config}, **user}))

    def test_the_auth_provider_config_is_loaded_o1(self, issuer: Issuer, server: APIServer) -> None:
        config = settings(issuer, id_token="i", refresh_token="r", extra_scopes="groups")
        oidc = self.load(server, config).oidc
        assert oidc == OidcConfig(
            issuer_url=issuer.url,
            client_id="kubernetes",
            client_secret=Secret("s3cret"),
            id_token=Secret("i"),
            refresh_token=Secret("r"),
            ca_data=issuer.ca,
        )

    @pytest.mark.parametrize(
        ("changes", "field", "message"),
        [
            ({"idp_issuer_url": None}, "idp-issuer-url", "Must provide idp-issuer-url"),
            ({"idp_issuer_url": ""}, "idp-issuer-url", "Must provide idp-issuer-url"),
            ({"idp_issuer_url": "issuer"}, "idp-issuer-url", "it must be a URL"),
            ({"idp_issuer_url": "ftp://h"}, "idp-issuer-url", "scheme"),
            ({"client_id": None}, "client-id", "Must provide client-id"),
            ({"idp_certificate_authority_data": "?"}, "idp-certificate-authority-data", "not valid base64"),
            (
                {"idp_certificate_authority_data": None, "idp_certificate_authority": "/nope"},
                "idp-certificate-authority",
                "unable to read idp-certificate-authority /nope",
            ),
        ],
    )
    def test_an_invalid_field_is_an_error_o1(
        self, changes: dict[str, str | None], field: str, message: str, issuer: Issuer, server: APIServer
    ) -> None:
        with pytest.raises(errors.KubeConfigError) as caught:
            self.load(server, settings(issuer, **changes), token="also-with-a-token")
        assert message in str(caught.value)
        assert caught.value.field == f'users["tester"].user.auth-provider.config.{field}'

    def test_a_static_token_or_password_has_precedence_o10_k39_k40(
        self, issuer: Issuer, server: APIServer
    ) -> None:
        config = settings(issuer, refresh_token=issuer.new_refresh_token())
        for user in ({"token": "mine"}, {"username": "bob", "password": "p"}):
            with Client(self.load(server, config, **user)) as client:
                client.get("/version")

        assert [value.partition(" ")[0] for value in authorizations(server)] == ["Bearer", "Basic"]
        assert authorizations(server)[0] == "Bearer mine"
        assert issuer.requests == []

    def test_a_client_certificate_is_sent_too_o10_k40(
        self, issuer: Issuer, authority: Authority, server: APIServer, tmp_path: Path
    ) -> None:
        """As client-go does, unlike with an exec plugin."""
        authority.client("carol").write(tmp_path / "c", tmp_path / "k")
        user = {"client-certificate": str(tmp_path / "c"), "client-key": str(tmp_path / "k")}
        config = self.load(server, settings(issuer, id_token=issuer.id_token()), **user)
        with Client(config) as client:
            client.get("/version")
            assert client.status().kind == "token+certificate"
        (request,) = server.requests

        assert (request.common_name, request.user) == ("carol", "alice")

    def test_auth_provider_and_exec_are_mutually_exclusive_o10_k41_i2(
        self, issuer: Issuer, server: APIServer
    ) -> None:
        exec_entry = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "p",
            "interactiveMode": "Never",
        }
        with pytest.raises(errors.KubeConfigError, match="authProvider cannot be provided in combination"):
            self.load(server, settings(issuer), exec=exec_entry)

        config = dataclasses.replace(
            self.load(server, settings(issuer)), exec=kubeauth.ExecConfig(command="p", api_version="v")
        )
        with pytest.raises(
            errors.ConfigError, match="execProvider and authProvider cannot be used in combination"
        ):
            Client(config)

    def test_a_relative_ca_is_resolved_against_the_kubeconfig_o1(
        self, issuer: Issuer, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then against the working directory, as in client-go."""
        (tmp_path / "kube").mkdir()
        config = settings(issuer, idp_certificate_authority_data=None, idp_certificate_authority="ca.pem")
        kubeconfig = write_kubeconfig(server, tmp_path / "kube" / "config", config)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "ca.pem").write_bytes(issuer.ca)

        oidc = load_config(kubeconfig.path).oidc
        assert oidc is not None
        assert oidc.ca_file == str(tmp_path / "ca.pem")

        (tmp_path / "kube" / "ca.pem").write_bytes(issuer.ca)
        kubeconfig.change(refresh_token=issuer.new_refresh_token())
        loaded = load_config(kubeconfig.path)
        assert loaded.oidc is not None
        assert loaded.oidc.ca_file == str(tmp_path / "kube" / "ca.pem")
        with Client(loaded) as client:
            assert client.get("/version").status_code == 200

    def test_the_auth_provider_is_ignored_over_http_k46(self, issuer: Issuer) -> None:
        document = {
            "clusters": [{"name": "c", "cluster": {"server": "http://h"}}],
            "users": [{"name": "u", "user": {"auth-provider": {"name": "oidc", "config": {}}}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        assert load_config(document).oidc is None


class TestSecrets:
    def test_secrets_are_not_printed_or_pickled_o7(self, issuer: Issuer, kubeconfig: Kubeconfig) -> None:
        kubeconfig.change(id_token=issuer.id_token())
        config = load_config(kubeconfig.path)
        secrets = [kubeconfig.entry()[name] for name in ("id-token", "refresh-token", "client-secret")]

        shown = f"{config!r} {config.oidc!r} {config.describe()}"
        assert not [secret for secret in secrets if secret in shown]

        assert pickle.loads(pickle.dumps(config)).oidc == config.oidc
        with pytest.raises(errors.ConfigError, match=r"oidc\.client_secret"):
            pickle.dumps(dataclasses.replace(config, namespace="n"))
        with pytest.raises(errors.ConfigError, match="client_secret, id_token, refresh_token"):
            pickle.dumps(config.oidc)
        without_secrets = OidcConfig(
            issuer_url="https://i", client_id="c", options=OidcOptions(write_back=False)
        )
        assert pickle.loads(pickle.dumps(without_secrets)) == without_secrets

    @pytest.mark.parametrize("status", [200, 400])
    def test_the_response_of_the_issuer_is_not_in_errors_logs_or_tracebacks_o6(
        self, status: int, issuer: Issuer, kubeconfig: Kubeconfig, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        refresh = kubeconfig.entry()["refresh-token"]
        body = {"access_token": "s3ntinel", "id_token": "s3ntinel", "error_description": f"{refresh} s3cret"}
        issuer.answers[TOKEN] = Answer(status=status, body=body)

        with Client(load_config(kubeconfig.path)) as client:
            with pytest.raises(errors.OidcError) as caught:
                client.get("/version")

        text = str(caught.value) + caplog.text
        for frame, _ in traceback.walk_tb(caught.value.__traceback__):
            if frame.f_code.co_filename != __file__:  # the locals of this test contain the secrets
                text += repr(frame.f_locals)
        assert "failed to refresh token" in text or "not a valid JWT" in text
        assert not [
            secret for secret in ("s3ntinel", refresh, "s3cret") if secret in text.replace("\\'", "'")
        ]


def test_refreshes_are_counted_but_not_as_plugin_runs_m2(
    issuer: Issuer, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CountingObserver(NullObserver):
        def __init__(self) -> None:
            self.refreshes: list[tuple[str, bool]] = []
            self.runs = 0

        def on_refresh(self, *, reason: str, succeeded: bool) -> None:
            self.refreshes.append((reason, succeeded))

        def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
            self.runs += 1

    observer = CountingObserver()
    monkeypatch.setattr("kubeauth._transport.base.RECORDER", observer)

    with Client(load_config(kubeconfig.path)) as client:
        client.get("/version")

    assert (observer.refreshes, observer.runs) == ([("first", True)], 0)


@pytest.mark.parametrize("kind", ["http", "https", "socks5"])
def test_the_issuer_is_reached_through_the_proxy_of_the_environment_o5(
    kind: str, server: APIServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = authority.server("issuer.test")
    pair = authority.server("127.0.0.1") if kind == "https" else None
    with (
        Issuer(authority=authority, certificate=certificate) as issuer,
        Proxy(kind, pair) as proxy,
        Proxy("http") as cluster_proxy,
    ):
        issuer.url = f"https://issuer.test:{issuer.port}"
        kubeconfig = write_kubeconfig(
            server, tmp_path / "config", settings(issuer, refresh_token=issuer.new_refresh_token())
        )
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        config = dataclasses.replace(load_config(kubeconfig.path), proxy_url=cluster_proxy.url)

        with Client(config) as client:
            assert client.get("/version").status_code == 200

        assert set(proxy.targets) == {f"issuer.test:{issuer.port}"}
        assert cluster_proxy.targets == [server.url.removeprefix("https://")]

        # Not with trust_env=False.
        kubeconfig.change(id_token="")
        with Client(load_config(kubeconfig.path), trust_env=False) as client:
            with pytest.raises(errors.OidcError, match="cannot be reached"):
                client.get("/version")
