"""The doctor and credentials that no plugin gives: tokens, files, passwords, certificates, OIDC."""

from __future__ import annotations

import base64
import datetime
import os
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.cli._doctor_findings import Level
from kubeauth.cli._doctor_given import Given, lives_of
from kubeauth.cli._doctor_static import client_cert_finding, identity_lives
from kubeauth.testing import Answer, APIServer, Authority, KeyPair
from tests.cli.doctoring import SENTINEL, TOKEN, Report, examined, jwt, written
from tests.support import oidc
from tests.support.oidc_issuer import CONFIGURATION, Issuer

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
Look = Callable[..., Report]


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(
        authority=authority, tokens={TOKEN: "alice"}, passwords={"bob": f"{SENTINEL}-password"}
    ) as server:
        yield server


@pytest.fixture
def look(server: APIServer, tmp_path: Path) -> Look:
    """At a user who has this."""

    def look(user: dict[str, Any], *arguments: str, secrets: tuple[str, ...] = ()) -> Report:
        path = written(tmp_path / "config", server.kubeconfig(user))
        return examined(*arguments, kubeconfig=path, secrets=secrets)

    return look


class TestTokens:
    def test_one_that_says_nothing_of_itself(self, look: Look) -> None:
        found = look({"token": TOKEN})
        found.fine()
        assert found.one("credential").summary == "token: only its issuer knows when it ends"

    def test_one_that_says_when_it_ends(self, server: APIServer, look: Look) -> None:
        token = jwt(exp=time.time() + 3 * 3600 + 9)
        server.tokens[token] = "alice"
        found = look({"token": token}, secrets=(token,))
        found.fine()
        assert found.one("credential").summary == "token: 3 hours left"
        assert found.one("credential").facts["expires"]

    def test_one_that_has_no_end(self, server: APIServer, look: Look) -> None:
        token = jwt()
        server.tokens[token] = "alice"
        look({"token": token}, secrets=(token,)).fine()

    def test_one_that_looks_over(self, look: Look) -> None:
        token = jwt(exp=time.time() - 3 * 3600)
        found = look({"token": token}, secrets=(token,))
        found.bad("credential", "whoami")
        assert found.one("credential").summary == "token: it looks over, ended 3 hours ago"

    @pytest.mark.parametrize("bad", [" ", "\n", "\u2019"])
    def test_one_that_cannot_be_sent(self, look: Look, bad: str) -> None:
        found = look({"token": f"{TOKEN}{bad}"})
        assert "it cannot be sent" in found.bad("credential").summary
        assert found.one("whoami").summary == "the credential cannot be used"

    def test_none_at_all(self, look: Look) -> None:
        found = look({})
        assert found.warned("credential").summary.startswith("none: ")
        assert "there is no credential" in found.bad("whoami").summary


class TestTokenFiles:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return written(tmp_path / "token", f"{TOKEN}\n")

    def test_one_that_is_well(self, look: Look, file: Path) -> None:
        os.utime(file, (time.time() - 900, time.time() - 900))
        found = look({"tokenFile": "token"})
        found.fine()
        assert found.one("credential").summary.startswith(f"token file {file}, written 15 min ago: ")
        assert found.one("credential").facts["age"] in range(900, 960)

    def test_one_that_is_not_there(self, look: Look, file: Path) -> None:
        file.unlink()
        found = look({"tokenFile": "token"}).bad("entries")
        assert "No such file" in found.summary
        assert "the program that writes the file" in found.next_step

    def test_the_token_itself_in_the_place_of_its_path(self, look: Look) -> None:
        assert "not shown" in look({"tokenFile": TOKEN + "0" * 40}).bad("entries").summary

    def test_one_that_is_emptied_while_the_token_is_there_too(self, look: Look, file: Path) -> None:
        file.write_text("")
        found = look({"tokenFile": "token", "token": TOKEN})
        assert "read empty token" in found.bad("credential").summary
        assert found.levels["whoami"] is Level.SKIPPED

    def test_one_that_others_can_read(self, look: Look, file: Path) -> None:
        file.chmod(0o644)
        found = look({"tokenFile": "token"})
        found.fine("credential")
        assert found.warned("credential").next_step == f"Run: chmod 600 {shlex.quote(str(file))}"

    def test_one_with_something_else_in_it(self, look: Look, file: Path) -> None:
        file.write_text(f"two\nlines of {SENTINEL}")
        assert "line break" in look({"tokenFile": "token"}).bad("credential").summary


class TestPasswords:
    def test_they_are_a_thing_of_the_past(self, look: Look) -> None:
        found = look({"username": "bob", "password": f"{SENTINEL}-password"})
        found.fine("credential")
        assert "since 1.19" in found.warned("credential").summary
        assert found.one("whoami").summary == "bob"

    def test_one_in_the_address(self, server: APIServer, look: Look) -> None:
        there = server.url.replace("//", f"//bob:{SENTINEL}-password@")
        found = look({}, f"--server={there}")
        found.fine("credential")
        assert "password in the server's URL" in found.warned("credential").summary
        assert "***@127.0.0.1" in found.one("entries").summary


def inline(pair: KeyPair) -> dict[str, str]:
    halves = {"client-certificate-data": pair.certificate, "client-key-data": pair.key}
    return {name: base64.b64encode(data).decode() for name, data in halves.items()}


class TestCertificates:
    def test_one_that_is_well(self, look: Look, authority: Authority) -> None:
        pair = authority.client("alice", ["dev"])
        found = look(inline(pair), secrets=tuple(pair.key.decode().splitlines()[1:-1]))
        found.fine()
        said = found.one("client-cert")
        assert said.summary.startswith("30 days left: CN=alice,O=dev, signed by CN=kubeauth test CA")
        assert said.facts["key_matches"] is True
        assert found.all("credential") == []
        assert found.one("whoami").summary == "alice"

    def test_one_that_is_over(self, look: Look, authority: Authority) -> None:
        found = look(inline(authority.client("alice", not_after=NOW - 4 * DAY)))
        found.bad("client-cert", "whoami")
        assert found.one("client-cert").summary.startswith("ended 4 days ago: ")
        assert "rejected the client certificate" in found.one("whoami").summary

    def test_one_that_ends_soon(self, look: Look, authority: Authority) -> None:
        pair = authority.client("alice", not_before=NOW - 300 * DAY, not_after=NOW + 9 * DAY)
        found = look(inline(pair))
        found.fine("client-cert")
        assert found.warned("client-cert").summary.startswith("9 days left")

    def test_one_with_the_key_of_another(self, look: Look, authority: Authority) -> None:
        user = inline(authority.client("alice")) | {
            "client-key-data": inline(authority.client("bob"))["client-key-data"]
        }
        found = look(user)
        wrong = found.bad("client-cert")
        assert "does not match" in wrong.summary
        assert wrong.next_step == "Were both replaced?"
        assert found.levels["whoami"] is Level.SKIPPED

    def test_one_that_is_no_pem(self, look: Look, authority: Authority) -> None:
        user = inline(authority.client("alice")) | {"client-certificate-data": "aGVsbG8="}
        assert "PEM" in look(user).bad("client-cert").next_step

    def test_one_whose_key_others_can_read(self, look: Look, authority: Authority, tmp_path: Path) -> None:
        authority.client("alice").write(tmp_path / "cert.pem", tmp_path / "key.pem")
        (tmp_path / "key.pem").chmod(0o640)
        found = look({"client-certificate": "cert.pem", "client-key": "key.pem"})
        found.fine("client-cert")
        assert (
            found.warned("client-cert").next_step
            == f"Run: chmod 600 {shlex.quote(str(tmp_path / 'key.pem'))}"
        )

    def test_one_that_the_server_does_not_take(self, look: Look) -> None:
        found = look(inline(Authority("another CA").client("alice")))
        assert "unknown ca" in found.bad("whoami").summary
        assert found.levels["client-cert"] is Level.OK

    def test_one_whose_dates_cannot_be_told(self) -> None:
        odd = ClientCertificate(b"OpenSSL may take it", Secret(b""))
        finding = client_cert_finding(ClientConfig(server="https://h", client_cert_data=b"x"), odd, 0.0)
        assert (finding.level, list(identity_lives(odd))) == (Level.OK, [])


class TestOidc:
    @pytest.fixture
    def issuer(self) -> Iterator[Issuer]:
        with Issuer() as issuer:
            yield issuer

    @pytest.fixture
    def server(self, authority: Authority) -> Iterator[APIServer]:
        with APIServer(authority=authority, authenticate=oidc.authenticate) as server:
            yield server

    def settings(self, issuer: Issuer, **more: str | None) -> dict[str, Any]:
        return {"auth-provider": {"name": "oidc", "config": oidc.settings(issuer, **more)}}

    def test_a_token_that_is_good(self, look: Look, issuer: Issuer) -> None:
        token = issuer.id_token("alice", 3600)
        user = self.settings(issuer, id_token=token, refresh_token=issuer.new_refresh_token("alice"))
        found = look(user, secrets=(token,))
        found.fine()
        assert found.one("issuer").summary.endswith("answers; id-token 60 min left, refresh-token there")
        assert found.one("credential").summary.startswith(f"token from oidc {issuer.url} in ")
        assert found.one("whoami").summary == "alice"
        # Nothing is spent that need not be.
        assert [asked.path for asked in issuer.requests] == [CONFIGURATION]

    def test_a_token_that_is_over_is_renewed_as_kubectl_would(
        self, look: Look, issuer: Issuer, tmp_path: Path
    ) -> None:
        over, refresh = issuer.id_token("alice", -600), issuer.new_refresh_token("alice")
        found = look(self.settings(issuer, id_token=over, refresh_token=refresh), secrets=(over, refresh))
        found.fine()
        assert "id-token ended 10 min ago" in found.one("issuer").summary
        new = oidc.Kubeconfig(tmp_path / "config").entry()["id-token"]
        assert new != over
        assert new not in found.text + found.json

    def test_without_a_refresh_token(self, look: Look, issuer: Issuer) -> None:
        good = look(self.settings(issuer, id_token=issuer.id_token("alice", 3600)))
        good.fine("issuer")
        assert "log in again" in good.warned("issuer").next_step
        over = look(self.settings(issuer, id_token=issuer.id_token("alice", -60)))
        over.bad("issuer", "credential")
        assert over.levels["whoami"] is Level.SKIPPED

    def test_an_issuer_that_is_away(self, look: Look, issuer: Issuer) -> None:
        token = issuer.id_token("alice", 3600)
        good = self.settings(issuer, id_token=token, refresh_token=f"{SENTINEL}-refresh")
        issuer.close()
        found = look(good)
        found.fine("issuer")
        assert "cannot be reached" in found.warned("issuer").summary
        bad = look(self.settings(issuer, refresh_token=f"{SENTINEL}-refresh"))
        bad.bad("issuer", "credential")
        assert "no id-token" in bad.one("issuer").summary

    def test_an_issuer_that_makes_no_sense(self, look: Look, issuer: Issuer) -> None:
        issuer.answers[CONFIGURATION] = Answer(body=b"<html>")
        found = look(self.settings(issuer, refresh_token=f"{SENTINEL}-refresh"))
        assert "login page" in found.bad("issuer", "credential").next_step

    def test_a_ca_that_is_none(self, look: Look, issuer: Issuer) -> None:
        config = self.settings(issuer, idp_certificate_authority_data=base64.b64encode(b"hello").decode())
        found = look(config)
        assert "idp-certificate-authority" in found.bad("issuer").summary
        assert found.one("credential").summary == "the issuer cannot be reached"

    def test_it_is_not_asked(self, look: Look, issuer: Issuer) -> None:
        user = self.settings(issuer, refresh_token=issuer.new_refresh_token("alice"))
        for flag in ("--no-exec", "--offline"):
            found = look(user, flag)
            assert found.one("issuer").summary == found.one("credential").summary == flag
        assert issuer.requests == []


def test_what_was_not_given_has_no_life() -> None:
    assert list(lives_of(Given("plugin p", 0.0, None))) == []
