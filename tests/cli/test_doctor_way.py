"""The doctor and the way to the server: proxies, names, ports, TLS; each of them broken."""

from __future__ import annotations

import datetime
import json
import socket
import ssl
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeauth import ClientConfig
from kubeauth.cli import _doctor_probe, _doctor_way
from kubeauth.cli._doctor_certificates import Certificate
from kubeauth.cli._doctor_findings import Level
from kubeauth.cli._doctor_network import connect, look_up, proxy_finding, route_to, within
from kubeauth.cli._doctor_probe import (
    BROKEN,
    CERTIFICATE,
    IDENTITY,
    PROXY,
    Failure,
    Heard,
    anonymous,
    ask_once,
)
from kubeauth.cli._doctor_tls import ca_finding, obstacle, read_ca, server_cert_finding, tls_finding
from kubeauth.cli._doctor_words import DAY
from kubeauth.testing import Answer, APIServer, Authority, KeyPair
from tests.cli.deadlines import beginning_with
from tests.cli.doctoring import PATIENCE, SENTINEL, Report, examined, written
from tests.cli.listeners import closed_port, hanging_up, listening, refusing, silent, speaking_http
from tests.support.cases import each_case
from tests.support.proxy_servers import Proxy

NOW = datetime.datetime.now(datetime.UTC)
USER = {"token": "alices-token"}
Look = Callable[..., Report]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """At a server, with other fields of the cluster."""

    def look(server: APIServer, *arguments: str, timeout: str = PATIENCE, **cluster: Any) -> Report:
        fields = {name.replace("_", "-"): value for name, value in cluster.items()}
        path = written(tmp_path / "config", server.kubeconfig(USER, fields))
        return examined(*arguments, kubeconfig=path, timeout=timeout)

    return look


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look up and to connect takes as long as it takes: on a machine that stalls, they would be late too."""
    monkeypatch.setattr(_doctor_way, "look_up", lambda host, port, _limit: look_up(host, port, 60.0))
    monkeypatch.setattr(_doctor_way, "connect", lambda route, found, _limit: connect(route, found, 60.0))


def test_everything_is_well(server: APIServer, look: Look) -> None:
    found = look(server)
    found.fine()
    assert found.one("tls").summary.startswith("TLSv1.3 in ")
    assert "certificate-authority-data" in found.one("tls").summary
    assert found.one("server-cert").facts["names"] == ["localhost", "127.0.0.1", "::1"]
    assert found.one("connect").facts["address"] == "127.0.0.1"


class TestCertificates:
    def test_of_another_authority(self, server: APIServer, look: Look) -> None:
        other = Authority("another CA")
        server.authority = other  # what goes into the kubeconfig
        found = look(server)
        wrong = found.bad("tls")
        assert "signed by an unknown authority" in wrong.summary
        assert wrong.summary.endswith("; it is signed by CN=kubeauth test CA")
        assert "certificate-authority-data" in wrong.next_step
        assert "signed by CN=kubeauth test CA" in found.one("server-cert").summary
        assert found.one("ca").facts["subject"] == "CN=another CA"
        assert found.one("whoami").summary == "the server's certificate is not accepted"
        # What it says is not believed, but its clock can be looked at.
        assert found.levels["clock"] is Level.OK

    def test_nothing_is_shown_to_who_is_not_believed(self, look: Look) -> None:
        with APIServer(tokens={"alices-token": "alice"}) as server:
            server.authority = Authority("another CA")
            look(server)
            assert server.requests
            assert all(request.header("Authorization") is None for request in server.requests)

    def test_for_another_name(self, authority: Authority, look: Look) -> None:
        pair = authority.server("kubernetes.default.svc", "10.96.0.1")
        with APIServer(authority=authority, certificate=pair, tokens={"alices-token": "alice"}) as server:
            found = look(server)
            wrong = found.bad("tls")
            assert "for another name" in wrong.summary
            assert "it is for kubernetes.default.svc, 10.96.0.1" in wrong.summary
            assert "tls-server-name" in wrong.next_step
            named = look(server, tls_server_name="kubernetes.default.svc")
        named.fine()
        assert "as kubernetes.default.svc (tls-server-name)" in named.one("tls").summary

    def test_that_is_over(self, authority: Authority, look: Look) -> None:
        pair = authority.server("127.0.0.1", not_after=NOW - datetime.timedelta(days=3))
        with APIServer(authority=authority, certificate=pair) as server:
            found = look(server)
        wrong = found.bad("tls", "server-cert")
        assert "expired" in wrong.summary
        assert found.one("server-cert").summary.startswith("ended 3 days ago: ")
        assert "clock" in found.one("server-cert").next_step

    def test_one_between_that_is_over(self, authority: Authority, look: Look) -> None:
        between = Authority("between", parent=authority, not_after=NOW - datetime.timedelta(hours=1))
        pair = between.server("127.0.0.1", not_after=NOW + datetime.timedelta(days=99))
        with APIServer(authority=authority, certificate=pair) as server:
            found = look(server)
        which = "an intermediate, CN=between, is over"
        if not hasattr(ssl.SSLSocket, "get_unverified_chain"):  # before 3.13
            which = "an intermediate, or the CA, is over"
        assert f"; the server's own certificate is valid: {which}" in found.bad("tls").summary
        assert found.levels["server-cert"] is Level.OK

    def test_one_between_that_is_over_is_named(self) -> None:
        """If Python tells which there are: since 3.13."""
        now = NOW.timestamp()
        good, over = (
            Certificate(f"CN={name}", "CN=ca", (), now - 99, now + left)
            for name, left in (("good", 99), ("over", -9))
        )
        failure = Failure(CERTIFICATE, "certificate has expired", "Renew it", verify_code=10)
        config = ClientConfig(server="https://h")
        found = tls_finding(config, Heard(failure=failure), good, now, [good, over])
        assert found.summary.endswith("is valid: an intermediate, CN=over, is over")

    def test_that_is_not_valid_yet(self, authority: Authority, look: Look) -> None:
        begins = NOW + datetime.timedelta(days=3)
        pair = authority.server("127.0.0.1", not_before=begins, not_after=begins + datetime.timedelta(days=9))
        with APIServer(authority=authority, certificate=pair) as server:
            found = look(server)
        found.bad("tls", "server-cert")
        assert found.one("server-cert").summary.startswith("not valid before ")

    def test_that_ends_soon(self, authority: Authority, look: Look) -> None:
        begins, ends = NOW - datetime.timedelta(days=300), NOW + datetime.timedelta(days=12)
        pair = authority.server("127.0.0.1", not_before=begins, not_after=ends)
        with APIServer(authority=authority, certificate=pair, tokens={"alices-token": "alice"}) as server:
            found = look(server)
        found.fine("server-cert")
        assert found.warned("server-cert").summary.startswith("12 days left")

    def test_the_ca_ends_too(self, look: Look) -> None:
        authority = Authority("old CA", not_after=NOW - datetime.timedelta(days=2))
        with APIServer(authority=authority) as server:
            found = look(server)
        found.bad("tls", "ca")
        assert found.one("ca").summary.startswith("ended 2 days ago: CN=old CA")

    def test_in_a_bundle_the_one_that_signed_counts(
        self, server: APIServer, look: Look, tmp_path: Path
    ) -> None:
        old = Authority("old CA", not_after=NOW - datetime.timedelta(days=2))
        bundle = tmp_path / "ca.pem"
        bundle.write_bytes(old.pem + server.authority.pem)
        found = look(server, certificate_authority_data="", certificate_authority=str(bundle))
        found.fine()
        assert f"of 2 certificates, in {bundle}" in found.one("ca").summary

    def test_a_ca_that_is_none(self, server: APIServer, look: Look) -> None:
        found = look(server, certificate_authority_data="aGVsbG8=")
        found.bad("tls", "ca")
        assert "-----BEGIN CERTIFICATE-----" in found.one("ca").next_step

    def test_a_ca_file_that_cannot_be_read_any_more(self, server: APIServer) -> None:
        config = ClientConfig(server=server.url, ca_file="/gone")
        finding = ca_finding(config, read_ca(config), None, 0.0)
        assert (finding.level, finding.next_step) == (Level.ERROR, "Check the path.")

    def test_nobody_is_asked_to_show_who_they_are(self, server: APIServer, look: Look) -> None:
        found = look(server, certificate_authority_data="", insecure_skip_tls_verify=True)
        found.fine("tls")
        assert "insecure-skip-tls-verify" in found.warned("tls").next_step
        assert found.levels["ca"] is Level.SKIPPED

    def test_without_a_ca_the_system_is_trusted(self, public: Authority, look: Look) -> None:
        with APIServer(authority=public, tokens={"alices-token": "alice"}) as server:
            found = look(server, certificate_authority_data="")
        found.fine()
        assert "the system's trust" in found.one("tls").summary
        assert found.one("ca").facts == {"source": "system"}

    @pytest.mark.parametrize(
        ("version", "warned"), [(ssl.TLSVersion.TLSv1_2, ["tls"]), (ssl.TLSVersion.TLSv1_3, [])]
    )
    def test_a_server_that_talks_to_nobody_without_a_certificate(
        self, authority: Authority, tmp_path: Path, version: ssl.TLSVersion, warned: list[str]
    ) -> None:
        with APIServer(authority=authority, require_certificate=True) as server:
            context = server._listener._context
            assert context is not None
            context.maximum_version = version
            pair = authority.client("alice")
            cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
            pair.write(cert, key)
            key.chmod(0o600)
            user = {"client-certificate": str(cert), "client-key": str(key)}
            found = examined(kubeconfig=written(tmp_path / "config", server.kubeconfig(user)))
        found.fine(*warned)
        assert found.one("whoami").summary == "alice"

    def test_a_server_that_wants_one_before_anything_else(self) -> None:
        """In TLS 1.2, and in Go's words: the server has been verified by then."""
        heard = Heard(failure=Failure(IDENTITY, "asks for a client certificate", "Use one"))
        assert tls_finding(ClientConfig(server="https://h"), heard, None).level is Level.OK
        assert obstacle(heard) is None

    def test_a_server_certificate_without_names(self) -> None:
        bare = Certificate("CN=x", "CN=y", (), 0.0, 1000 * DAY)
        assert "for no name" in server_cert_finding(bare, DAY, "").summary

    @pytest.mark.parametrize(("name", "said"), [("", "(without a name)"), ("x" * 20_000, "CN=xxx")])
    @pytest.mark.filterwarnings("error")
    def test_names_that_are_none_or_too_long(self, look: Look, name: str, said: str) -> None:
        with APIServer(certificate=self_signed(name)) as server:
            found = look(server)
        assert f"signed by {said}" in found.one("server-cert").summary
        assert len(found.text) < 10_000

    def test_a_ca_that_ends_soon(self) -> None:
        soon = Certificate("CN=x", "CN=x", (), 0.0, 1000 * DAY)
        finding = ca_finding(ClientConfig(server="https://h", ca_data=b"x"), [soon], None, 990 * DAY)
        assert finding.level is Level.WARNING
        assert "every kubeconfig needs the new one" in finding.next_step

    def test_a_short_life_is_not_always_near_its_end(self) -> None:
        week = Certificate("CN=x", "CN=y", (), 0.0, 7 * DAY)
        assert [week.judged(day * DAY)[0] for day in (1, 4, 5, 6, 8)] == [
            Level.OK, Level.OK, Level.WARNING, Level.WARNING, Level.ERROR,
        ]  # fmt: skip


def self_signed(name: str) -> KeyPair:
    """A certificate for loopback whose names are `name`, which may be empty, or longer than is allowed."""
    key = ec.generate_private_key(ec.SECP256R1())
    with warnings.catch_warnings(action="ignore"):
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)] if name else []
    certificate = (
        x509.CertificateBuilder(x509.Name(attributes), x509.Name(attributes), key.public_key(), 5)
        .not_valid_before(NOW - datetime.timedelta(days=1))
        .not_valid_after(NOW + datetime.timedelta(days=99))
        .sign(key, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


class TestConnections:
    def test_a_closed_port(self, server: APIServer, look: Look) -> None:
        found = look(server, f"--server=https://127.0.0.1:{closed_port()}")
        wrong = found.bad("connect")
        assert "Connection refused" in wrong.summary
        assert "Is the API server running" in wrong.next_step
        assert found.levels["tls"] is found.levels["whoami"] is found.levels["clock"] is Level.SKIPPED
        # What needs no server is still looked at.
        assert found.levels["ca"] is found.levels["credential"] is Level.OK

    def test_a_port_without_tls(self, server: APIServer, look: Look) -> None:
        with listening(speaking_http) as port:
            found = look(server, f"--server=https://127.0.0.1:{port}")
        wrong = found.bad("tls")
        assert wrong.summary == "what answers there does not speak TLS"
        assert "http port" in wrong.next_step

    def test_another_quarrel_about_tls(self, server: APIServer) -> None:
        context = server._listener._context
        assert context is not None
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("NULL:@SECLEVEL=0")
        heard = ask_once(anonymous(server.config()), "/version", 60.0)
        finding = tls_finding(server.config(), heard, None)
        assert "alert handshake failure" in finding.summary
        assert finding.level is Level.WARNING

    def test_a_port_that_is_closed_meanwhile(self) -> None:
        heard = ask_once(ClientConfig(server=f"https://127.0.0.1:{closed_port()}"), "/version", 60.0)
        assert heard.failure is not None
        assert (heard.failure.kind, "refused" in heard.failure.what) == (BROKEN, True)

    @pytest.mark.usefixtures("unhurried")
    def test_a_black_hole(self, server: APIServer, look: Look) -> None:
        with listening(silent) as port:
            found = look(server, f"--server=https://127.0.0.1:{port}", timeout="200ms")
        wrong = found.bad("tls")
        assert wrong.summary == "no answer within 0.2 s"
        assert found.one("whoami").summary == "the server does not answer"

    @pytest.mark.usefixtures("unhurried")
    @pytest.mark.parametrize("converse", [silent, hanging_up])
    def test_plain_http_without_an_answer(
        self, server: APIServer, look: Look, converse: Callable[[socket.socket], None]
    ) -> None:
        with listening(converse) as port:
            found = look(server, f"--server=http://127.0.0.1:{port}", timeout="200ms")
        wrong = found.bad("connect")
        assert "takes connections, but there was no answer to plain http" in wrong.summary
        assert "write https:// in server" in wrong.next_step
        assert found.levels["whoami"] is Level.SKIPPED

    def test_plain_http_to_a_port_with_tls(self, server: APIServer, look: Look) -> None:
        found = look(server, f"--server=http://127.0.0.1:{server.url.rpartition(':')[2]}")
        assert "no answer to plain http" in found.bad("connect").summary

    def test_a_server_that_hangs_up(self, server: APIServer, look: Look) -> None:
        with listening(hanging_up) as port:
            found = look(server, f"--server=https://127.0.0.1:{port}")
        assert found.bad("tls").next_step
        assert found.levels["whoami"] is Level.SKIPPED

    def test_a_server_that_says_nothing_after_the_handshake(
        self, server: APIServer, look: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_doctor_probe, "Deadline", beginning_with("receive_response_headers.started"))
        late = threading.Event()

        def wait(_: object) -> Answer:
            late.wait(60)
            return Answer()

        for method, path in (
            ("GET", "/version"),
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ):
            server.on(method, path, wait)
        server._allow_anonymous = True
        found = look(server)
        late.set()
        assert found.bad("whoami").summary == "no answer within 60 s"
        assert found.levels["tls"] is found.levels["server-cert"] is Level.OK

    def test_a_server_that_never_comes_to_the_end(self, server: APIServer) -> None:
        """A timeout of httpx begins anew with each byte."""
        over = threading.Event()

        def drip() -> Iterator[bytes]:
            while not over.wait(0.05):
                yield b" "

        server.on("GET", "/version", Answer(chunks=drip()))
        heard = ask_once(server.config(token="alices-token"), "/version", 0.2)
        over.set()
        assert heard.failure is not None
        assert heard.failure.what == "no answer within 0.2 s"

    def test_a_server_that_says_too_much(self, server: APIServer) -> None:
        server.on("GET", "/big", Answer(body=b"x" * 2**22))
        heard = ask_once(server.config(token="alices-token"), "/big", 60.0)
        assert heard.status == 200
        assert 2**20 < len(heard.body) < 2**22

    def test_a_name_that_cannot_be_looked_up(self, server: APIServer, look: Look) -> None:
        found = look(server, "--server=https://no..name:6443")
        wrong = found.bad("dns")
        assert "no..name cannot be looked up: it cannot be a name" in wrong.summary
        assert "VPN" in wrong.next_step
        assert found.levels["connect"] is Level.SKIPPED

    def test_a_name_that_the_resolver_does_not_know(self) -> None:
        assert "not known" in look_up("fe80::1%nosuchinterface", 443, 60.0).problem

    def test_a_resolver_that_does_not_answer(self) -> None:
        over = threading.Event()
        looked = look_up("h", 443, 0.05, resolve=lambda *_, **__: over.wait(60))
        over.set()
        assert looked.problem == "no answer within 0.05 s"

    def test_what_goes_wrong_in_time_is_told(self) -> None:
        assert isinstance(within(60.0, lambda: 1 // 0).error, ZeroDivisionError)

    def test_a_name_with_several_addresses(self, server: APIServer, look: Look) -> None:
        port = server.url.rpartition(":")[2]
        found = look(server, f"--server=https://localhost:{port}")
        found.fine()
        assert "localhost is " in found.one("dns").summary
        assert "127.0.0.1" in found.one("dns").facts["addresses"]

    def test_the_first_address_that_answers_is_enough(self) -> None:
        with listening(silent) as port:
            route = route_to(ClientConfig(server=f"https://h:{port}"), {})
            connected = connect(route, ("127.0.0.2", "127.0.0.1"), 60.0)
        assert connected.address == "127.0.0.1"
        assert [address for address, _ in connected.failed] == ["127.0.0.2"]

    def test_an_address_that_does_not_answer_in_time(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            port = full.getsockname()[1]
            waiting = [socket.socket() for _ in range(8)]
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            connected = connect(route_to(ClientConfig(server=f"https://h:{port}"), {}), ("127.0.0.1",), 0.3)
            for each in waiting:
                each.close()
        assert connected.failed == (("127.0.0.1", "no answer within 0.3 s"),)

    def test_offline_nothing_is_touched(self, server: APIServer, look: Look) -> None:
        found = look(server, "--offline")
        found.fine()
        assert server.requests == []
        assert server.open_connections == 0
        assert {found.one(id).summary for id in ("proxy", "dns", "connect", "tls", "whoami", "clock")} == {
            "--offline"
        }
        assert found.levels["ca"] is Level.OK


class TestProxies:
    @pytest.mark.parametrize("kind", ["http", "https", "socks5"])
    def test_one_that_works(self, server: APIServer, look: Look, kind: str) -> None:
        pair = server.authority.server("127.0.0.1") if kind == "https" else None
        with Proxy(kind, pair) as proxy:
            found = look(server, proxy_url=proxy.url.replace("//", f"//me:{SENTINEL}@"))
        found.fine()
        assert proxy.url.replace("//", "//***@") in found.one("proxy").summary
        assert "proxy-url of the cluster" in found.one("proxy").summary
        assert found.one("connect").summary.startswith(f"the proxy 127.0.0.1:{proxy.port} takes connections")
        # The server's certificate, not that of the proxy.
        assert found.one("server-cert").facts["names"] == ["localhost", "127.0.0.1", "::1"]
        assert found.one("whoami").summary == "alice"

    def test_one_of_the_environment(
        self, server: APIServer, look: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        port = server.url.rpartition(":")[2]
        with Proxy("http") as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"http://localhost:{proxy.port}")
            found = look(server, f"--server=https://cluster.example:{port}", tls_server_name="localhost")
            there = look(server, f"--server=https://cluster.example:{port}", "--tls-server-name=localhost")
        assert "the server's own name is for the proxy to look up" in found.one("dns").summary
        assert found.one("proxy").summary == f"http://localhost:{proxy.port}, from HTTPS_PROXY"
        # Another server has another name: the file's tls-server-name does not count for it.
        found.bad("tls")
        there.fine()

    def test_one_that_refuses(self, server: APIServer, look: Look) -> None:
        with listening(refusing) as port:
            found = look(server, proxy_url=f"http://me:{SENTINEL}@127.0.0.1:{port}")
        wrong = found.bad("proxy")
        assert "does not let us through: 403 Not For You" in wrong.summary
        assert "remove proxy-url" in wrong.next_step
        assert found.one("tls").summary == "the proxy does not let us through"
        assert found.levels["whoami"] is Level.SKIPPED

    def test_one_that_wants_to_know_who_asks(self) -> None:
        route = route_to(ClientConfig(server="https://h", proxy_url="http://p"), {})
        refusal = Failure(PROXY, "407 Proxy Authentication Required", "")
        assert "a name and a password" in proxy_finding(route, refusal).next_step

    def test_one_of_the_environment_that_refuses(
        self, server: APIServer, look: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with listening(refusing) as port:
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
            found = look(server, "--server=https://cluster.example:6443")
        assert "NO_PROXY" in found.bad("proxy").next_step

    def test_one_that_is_not_there(self, server: APIServer, look: Look) -> None:
        found = look(server, proxy_url=f"http://127.0.0.1:{closed_port()}")
        assert "Is the proxy running" in found.bad("connect").next_step

    @pytest.mark.parametrize("kind", ["http", "socks5"])
    def test_one_that_says_nothing(
        self, server: APIServer, look: Look, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_doctor_probe, "Deadline", beginning_with("connect_tcp.complete"))
        with listening(silent) as port:
            found = look(server, proxy_url=f"{kind}://127.0.0.1:{port}")
        assert found.bad("proxy").summary.endswith("does not let us through: no answer within 60 s")
        assert found.one("tls").summary == "the proxy does not let us through"

    @pytest.mark.parametrize("kind", ["http", "socks5"])
    def test_one_that_makes_no_sense(self, server: APIServer, look: Look, kind: str) -> None:
        with listening(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n")) as port:
            found = look(server, proxy_url=f"{kind}://127.0.0.1:{port}")
        assert "does not let us through" in found.bad("proxy").summary

    def test_one_with_tls_that_is_not_believed(self, server: APIServer, look: Look) -> None:
        with Proxy("https", Authority("another CA").server("127.0.0.1")) as proxy:
            found = look(server, proxy_url=proxy.url)
        assert "signed by an unknown authority" in found.bad("proxy").summary
        assert found.levels["tls"] is found.levels["server-cert"] is Level.SKIPPED

    def test_one_with_tls_that_hangs_up_behind_its_word(self, server: APIServer, look: Look) -> None:
        """Its TLS and its certificate are not the server's."""
        with listening(hanging_up) as nowhere, Proxy("https", server.authority.server("127.0.0.1")) as proxy:
            found = look(server, f"--server=https://127.0.0.1:{nowhere}", proxy_url=proxy.url)
        found.bad("tls")
        assert found.levels["server-cert"] is Level.SKIPPED
        assert found.one("tls").facts["version"] is None

    def test_one_whose_name_leads_nowhere(self, server: APIServer, look: Look) -> None:
        assert "proxy-url or HTTPS_PROXY" in look(server, proxy_url="http://no..name:1").bad("dns").next_step

    def test_socks_without_the_package(
        self, server: APIServer, look: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "socksio", None)
        found = look(server, proxy_url=f"socks5://127.0.0.1:{closed_port()}")
        wrong = found.bad("proxy")
        assert "kubeauth[socks]" in wrong.next_step
        assert found.one("dns").summary == "the proxy cannot be used"

    @each_case(
        ("server_url", "environ", "why"),
        [
            ("https://h", {}, "neither proxy-url nor HTTPS_PROXY is set"),
            ("http://h", {}, "neither proxy-url nor HTTP_PROXY is set"),
            ("https://h", {"ALL_PROXY": "http://p"}, "ALL_PROXY is not read, as in kubectl"),
            ("https://h", {"HTTPS_PROXY": "http://p", "NO_PROXY": "h"}, "NO_PROXY exempts the server from HTTPS_PROXY"),
            ("https://h", {"https_proxy": "http://p", "no_proxy": "*"}, "NO_PROXY exempts the server from https_proxy"),
            ("https://127.0.0.1", {"HTTPS_PROXY": "http://p"}, "HTTPS_PROXY is set, but is not for this server"),
        ],
    )  # fmt: skip
    def test_why_there_is_none(self, server_url: str, environ: dict[str, str], why: str) -> None:
        route = route_to(ClientConfig(server=server_url), environ)
        assert (route.proxy, route.why, route.host) == (None, why, server_url.partition("//")[2])

    @each_case(
        ("url", "port"), [("http://p", 80), ("https://p", 443), ("socks5://p", 1080), ("http://p:3128", 3128)]
    )
    def test_its_port(self, url: str, port: int) -> None:
        assert route_to(ClientConfig(server="https://h", proxy_url=url), {}).port == port


def test_all_of_it_is_json(server: APIServer, look: Look) -> None:
    document = json.loads(look(server).json)
    assert list(document) == ["kubeauth", "status", "checks"]
    assert all(
        list(check) == ["id", "status", "summary", "next_step", "facts"] for check in document["checks"]
    )
