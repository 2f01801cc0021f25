"""The doctor and the server's answer: who you are to it, what time it has, how it is doing."""

from __future__ import annotations

import base64
import datetime
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli._doctor_findings import Level
from kubeauth.cli._doctor_given import Life
from kubeauth.cli._doctor_probe import BROKEN, Failure, Heard
from kubeauth.cli._doctor_server import clock_finding, ready_finding, version_finding, whoami_finding
from kubeauth.testing import Answer, APIServer, Authority, PluginScript
from tests.cli.doctoring import SENTINEL, TOKEN, Report, examined, jwt, written
from tests.support.cases import each_case

REVIEWS = "/apis/authentication.k8s.io/{}/selfsubjectreviews"
REVIEW = REVIEWS.format("v1")
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
Look = Callable[..., Report]


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, tokens={TOKEN: "alice"}) as server:
        server.on("GET", "/readyz", Answer(body=b"ok"))
        yield server


@pytest.fixture
def look(tmp_path: Path) -> Look:
    def look(server: APIServer, user: dict[str, Any] | None = None) -> Report:
        document = server.kubeconfig({"token": TOKEN} if user is None else user)
        return examined(kubeconfig=written(tmp_path / "config", document))

    return look


def status(code: int, message: str) -> Answer:
    return Answer(code, {"kind": "Status", "apiVersion": "v1", "message": message, "code": code})


class TestWhoAmI:
    def test_somebody(self, server: APIServer, look: Look) -> None:
        info = {
            "username": "alice",
            "groups": ["dev", "system:authenticated"],
            "uid": "7",
            "extra": {"a": ["b"]},
        }
        server.on("POST", REVIEW, Answer(201, {"status": {"userInfo": info}}))
        found = look(server)
        found.fine()
        assert found.one("whoami").summary == "alice, in dev, system:authenticated"
        assert found.one("whoami").facts["uid"] == "7"

    @pytest.mark.parametrize(
        ("user", "advice"),
        [({"token": f"{SENTINEL}-revoked"}, "Get a new one"), ({}, "Use a user that has")],
    )
    def test_401(self, server: APIServer, look: Look, user: dict[str, Any], advice: str) -> None:
        found = look(server, user)
        wrong = found.bad("whoami")
        assert wrong.summary.startswith("401 Unauthorized: the server ")
        assert advice in wrong.next_step
        assert found.levels["clock"] is Level.OK
        assert found.levels["version"] is found.levels["ready"] is Level.SKIPPED

    def test_401_for_what_a_plugin_gave(self, server: APIServer, look: Look, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(token=f"{SENTINEL}-revoked", expires_in=900)
        wrong = look(server, {"exec": plugin.exec_config()}).bad("whoami")
        assert "Log in again" in wrong.next_step
        # What was refused once is not asked for again: this is an examination.
        assert len(plugin.runs) == 1

    def test_401_for_a_certificate(self) -> None:
        finding = whoami_finding(Heard(401), is_review=True, methods=["a client certificate"])
        assert "signed by a CA that this cluster takes" in finding.next_step

    def test_403_is_not_401(self, server: APIServer, look: Look) -> None:
        server.on("POST", REVIEW, status(403, f'User "alice" cannot create this {TOKEN}'))
        wrong = look(server).bad("whoami")
        assert wrong.summary.startswith("403 Forbidden: the server knows you")
        assert 'User "alice" cannot create this <hidden>' in wrong.summary
        assert "Logging in again does not help" in wrong.next_step

    @pytest.mark.parametrize("code", [401, 403, 503])
    def test_a_token_at_the_end_of_what_is_shown_is_hidden_whole(
        self, server: APIServer, look: Look, code: int
    ) -> None:
        """Wherever the cut comes, which is not looked for here: in the middle of one of these."""
        server.on("POST", REVIEW, status(code, "x" * 250 + f" Bearer {TOKEN}" * 200))
        found = look(server)
        found.bad("whoami")
        assert TOKEN[:6] not in found.text + found.json
        assert "<hidden>" in str(found.one("whoami").facts["message"])
        assert len(found.one("whoami").summary) < 700

    def test_a_password_that_is_repeated_as_it_was_sent(self, authority: Authority, look: Look) -> None:
        sent = base64.b64encode(f"u:{SENTINEL}".encode()).decode()
        with APIServer(authority=authority, authenticate=lambda _: "alice") as server:
            server.on("POST", REVIEW, status(403, f"what is Basic {sent}?"))
            found = look(server, {"username": "u", "password": SENTINEL})
        assert "what is Basic <hidden>?" in found.one("whoami").summary

    def test_a_long_name_is_cut(self, server: APIServer, look: Look) -> None:
        info = {"username": "a" * 400_000, "groups": ["g" * 10_000]}
        server.on("POST", REVIEW, Answer(201, {"status": {"userInfo": info}}))
        found = look(server)
        assert len(found.text) < 10_000
        assert len(found.json) < 30_000

    def test_403_for_who_acts_as_another(self, server: APIServer, look: Look) -> None:
        message = 'users "bob" is forbidden: User "alice" cannot impersonate resource "users"'
        server.on("POST", REVIEW, status(403, message))
        assert "does not let you act as somebody else" in look(server).bad("whoami").summary

    def test_403_for_nobody(self, server: APIServer, look: Look) -> None:
        server.on("POST", REVIEW, status(403, 'User "system:anonymous" cannot create'))
        wrong = look(server).bad("whoami")
        assert "nobody (system:anonymous)" in wrong.summary
        assert "Logging in again does not help" not in wrong.next_step

    @pytest.mark.parametrize("user", [{}, {"token": TOKEN}])
    def test_nobody(self, authority: Authority, look: Look, user: dict[str, Any]) -> None:
        with APIServer(authority=authority) as server:
            found = look(server, user)
        assert "nobody (system:anonymous)" in found.bad("whoami").summary

    @pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
    def test_an_older_server(self, server: APIServer, look: Look, version: str) -> None:
        server.on("POST", REVIEW, Answer(404))
        server.on(
            "POST", REVIEWS.format(version), Answer(201, {"status": {"userInfo": {"username": "alice"}}})
        )
        assert look(server).one("whoami").summary == "alice"

    def test_a_server_without_reviews(self, server: APIServer, look: Look) -> None:
        server.on("POST", REVIEW, Answer(404))
        server.on("POST", ACCESS, Answer(201, {"status": {"allowed": True}}))
        found = look(server)
        found.fine()
        assert "too old to say as whom" in found.one("whoami").summary

    def test_no_api_server_at_all(self, server: APIServer, look: Look) -> None:
        server.on("POST", REVIEW, Answer(404))
        assert "no Kubernetes API" in look(server).bad("whoami").summary

    @pytest.mark.parametrize(
        "answer",
        [Answer(200, b"<html>Please log in"), Answer(200, []), Answer(302, b""), status(503, "try later")],
    )
    def test_something_else_answers(self, server: APIServer, look: Look, answer: Answer) -> None:
        server.on("POST", REVIEW, answer)
        wrong = look(server).bad("whoami")
        assert f"the server answered {answer.status}" in wrong.summary
        assert "login page" in wrong.next_step

    @pytest.mark.parametrize(
        "body", [{"status": 5}, {"status": {"userInfo": []}}, {"status": {"userInfo": {"username": 5}}}]
    )
    def test_an_answer_that_names_nobody(self, server: APIServer, look: Look, body: Any) -> None:
        server.on("POST", REVIEW, Answer(201, body))
        assert "takes you for nobody" in look(server).bad("whoami").summary

    def test_a_server_that_hangs_up(self, server: APIServer, look: Look) -> None:
        server.on("POST", REVIEW, Answer(hang_up=True))
        found = look(server)
        assert "the connection broke" in found.bad("whoami").summary
        assert found.one("ready").summary == "the server gave no answer to who you are"
        assert found.levels["version"] is found.levels["ready"] is Level.SKIPPED

    @pytest.mark.parametrize("name", ["a\nb", "a\x1b"])
    def test_a_name_to_act_as_that_cannot_be_sent(self, server: APIServer, tmp_path: Path, name: str) -> None:
        path = written(tmp_path / "config", server.kubeconfig({"token": TOKEN}))
        wrong = examined(f"--as={name}", kubeconfig=path).bad("whoami")
        assert "mpersonat" in wrong.summary

    def test_a_token_that_cannot_be_sent_is_told_once(self, server: APIServer, look: Look) -> None:
        found = look(server, {"token": f"{SENTINEL}\x1b"})
        found.bad("credential")
        assert found.one("whoami").summary == "the credential cannot be used"

    def test_a_failure_that_has_no_advice(self) -> None:
        heard = Heard(failure=Failure(BROKEN, "it broke", ""))
        assert whoami_finding(heard, is_review=True, methods=[]).next_step


class TestClock:
    def skewed(self, server: APIServer, seconds: float) -> None:
        body = {"gitVersion": "v1.36.0"}
        server.on(
            "GET",
            "/version",
            lambda _: Answer(body=body, headers={"Date": formatdate(time.time() + seconds, usegmt=True)}),
        )

    @pytest.fixture
    def anybody(self, authority: Authority) -> Iterator[APIServer]:
        """To whom nobody is a stranger, so that everybody is told the time."""
        with APIServer(authority=authority, authenticate=lambda _: "alice") as server:
            yield server

    @pytest.mark.parametrize("seconds", [0, -10])
    def test_it_agrees(self, anybody: APIServer, look: Look, seconds: float) -> None:
        self.skewed(anybody, seconds)
        found = look(anybody)
        found.fine()
        assert "agree within " in found.one("clock").summary

    @pytest.mark.parametrize(
        ("skew", "said"),
        [(0.4, "within a second or two"), (-1.9, "within a second or two"), (-10, "within 10 s")],
    )
    def test_how_well_it_agrees(self, skew: float, said: str) -> None:
        """To a second or two, which an answer may be on its way, on a machine that stalls."""
        assert clock_finding(skew, [], 0.0).summary == f"this machine and the server agree {said}"

    @pytest.mark.parametrize(
        ("seconds", "said"), [(300, "behind the server's"), (-300, "ahead of the server's")]
    )
    def test_it_is_off(self, anybody: APIServer, look: Look, seconds: float, said: str) -> None:
        self.skewed(anybody, seconds)
        found = look(anybody)
        found.fine("clock")
        assert said in found.warned("clock").summary
        assert "timedatectl" in found.warned("clock").next_step
        assert abs(found.one("clock").facts["skew_seconds"] - seconds) < 30

    def test_a_credential_hangs_on_it(self, anybody: APIServer, look: Look, tmp_path: Path) -> None:
        """Good here, over there."""
        self.skewed(anybody, 3600)
        plugin = PluginScript(tmp_path)
        plugin.answer(token=TOKEN, expires_in=900)
        wrong = look(anybody, {"exec": plugin.exec_config()}).bad("clock")
        assert "the credential is good to this machine, but not to the server" in wrong.summary

    def test_a_certificate_that_is_over_only_here(self, authority: Authority, look: Look) -> None:
        over = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=30)
        pair = authority.server("127.0.0.1", not_after=over)
        with APIServer(authority=authority, certificate=pair, authenticate=lambda _: "alice") as server:
            self.skewed(server, -7200)
            found = look(server)
        found.bad("tls", "server-cert", "clock")
        assert (
            "the server's certificate is good to the server, but not to this machine"
            in found.one("clock").summary
        )

    def test_a_token_is_judged_by_the_server_s_clock(self, anybody: APIServer, look: Look) -> None:
        self.skewed(anybody, -7200)
        found = look(anybody, {"token": jwt(exp=time.time() - 60)})
        found.bad("clock")
        assert found.levels["credential"] is Level.OK

    def test_a_server_that_says_nothing_of_it(self, anybody: APIServer, look: Look) -> None:
        anybody.on("GET", "/version", Answer(body={"gitVersion": "v1"}, headers={"Date": "yesterday"}))
        anybody.on(
            "POST", REVIEW, Answer(201, {"status": {"userInfo": {"username": "a"}}}, headers={"Date": ""})
        )
        assert "did not say" in look(anybody).one("clock").summary

    @pytest.mark.parametrize("year", ["0001", "9999", "99999999999999999999"])
    def test_a_date_that_cannot_be(self, anybody: APIServer, look: Look, year: str) -> None:
        date = {"Date": f"Mon, 01 Jan {year} 00:00:00 GMT"}
        anybody.on("GET", "/version", Answer(body={"gitVersion": "v1"}, headers=date))
        assert look(anybody).levels["version"] is Level.OK

    def test_the_one_who_knows_us_may_tell(self, anybody: APIServer, look: Look) -> None:
        anybody.on("GET", "/version", Answer(body={"gitVersion": "v1"}, headers={"Date": "yesterday"}))
        assert look(anybody).levels["clock"] is Level.OK

    def test_what_begins_later(self) -> None:
        finding = clock_finding(-600.0, [Life("it", 1000.0, None)], 1200.0)
        assert "it is good to this machine, but not to the server" in finding.summary


class TestHealth:
    def test_the_release(self, server: APIServer, look: Look) -> None:
        assert look(server).one("version").summary == "Kubernetes v1.36.0 on linux/amd64"

    @pytest.mark.parametrize("body", [{}, b"<html>", {"gitVersion": 5}])
    def test_no_release(self, server: APIServer, look: Look, body: Any) -> None:
        server.on("GET", "/version", Answer(body=body))
        found = look(server)
        found.fine("version")
        assert "answers 200 and no version" in found.warned("version").summary

    def test_nobody_may_know_the_release(self, server: APIServer, look: Look) -> None:
        server.on("GET", "/version", Answer(403))
        assert look(server).one("version").summary == "the server does not tell you (403)"

    def test_it_broke(self) -> None:
        assert version_finding(Heard(failure=Failure(BROKEN, "it broke", ""))).summary == "it broke"
        assert "it broke" in ready_finding(Heard(failure=Failure(BROKEN, "it broke", ""))).summary

    def test_it_is_ready(self, server: APIServer, look: Look) -> None:
        assert look(server).levels["ready"] is Level.OK

    def test_a_login_page_is_not_ready(self, server: APIServer, look: Look) -> None:
        server.on("GET", "/readyz", Answer(body=b"<html>Please log in"))
        found = look(server)
        found.fine("ready")
        assert found.warned("ready").summary == "/readyz answers 200, but not ok"

    def test_it_is_not(self, server: APIServer, look: Look) -> None:
        body = b"[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/x failed\nreadyz check failed"
        server.on("GET", "/readyz", Answer(500, body))
        found = look(server)
        found.fine("ready")
        assert "because of etcd, poststarthook/x" in found.warned("ready").summary

    def test_it_does_not_tell(self, server: APIServer, look: Look) -> None:
        server.on("GET", "/readyz", Answer(403))
        assert look(server).levels["ready"] is Level.SKIPPED


@each_case(
    ("methods", "said"),
    [(["a token"], "the token"), (["a token file"], "the token file"), (["an OIDC issuer"], "the id-token"),
     (["the plugin aws"], "the credential of the plugin aws"),
     (["a password", "a client certificate"], "the password or the client certificate")],
)  # fmt: skip
def test_what_was_not_recognised_is_named(methods: list[str], said: str) -> None:
    found = whoami_finding(Heard(401), is_review=True, methods=methods)
    assert found.summary == f"401 Unauthorized: the server does not know who you are by {said}"
