"""`kubeauth whoami`: who we are to the server, and by which credential."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from kubeauth.cli import _asking
from kubeauth.cli._flags import Flags
from kubeauth.cli._whoami import in_words
from kubeauth.testing import Answer, APIServer, Authority, PluginScript, Received
from tests.cli import answers
from tests.cli.conftest import Run
from tests.cli.programs import ran
from tests.support.cases import each_case

PATH = "/apis/authentication.k8s.io/{}/selfsubjectreviews"
ALICE = {
    "username": "alice",
    "uid": "42",
    "groups": ["dev", "system:authenticated"],
    "extra": {"example.com/z": ["1", "2"], "a": ["x y"]},
}


def review(request: Received) -> Answer:
    version = f"authentication.k8s.io/{request.path.split('/')[3]}"
    if request.header("content-type") == "application/json":  # kubectl speaks protobuf
        assert json.loads(request.body) == {"kind": "SelfSubjectReview", "apiVersion": version}
    return Answer(
        201,
        {"kind": "SelfSubjectReview", "apiVersion": version, "metadata": {}, "status": {"userInfo": ALICE}},
    )


@pytest.fixture
def api(api: APIServer) -> APIServer:
    api.on("POST", PATH.format("v1"), review)
    return api


def test_who_where_and_by_what(api: APIServer, run: Run) -> None:
    assert run("whoami") == (
        0,
        "ATTRIBUTE              VALUE\n"
        "Username               alice\n"
        "UID                    42\n"
        "Groups                 [dev system:authenticated]\n"
        "Extra: a               [x y]\n"
        "Extra: example.com/z   [1 2]\n"
        f"Server                 {api.url}\n"
        "Context                test\n"
        "Namespace              default\n"
        "Credential             token\n",
        "",
    )


@pytest.mark.oracle
def test_beside_kubectl(api: APIServer, kubectl: str, run: Run) -> None:
    asked = ran(kubectl, "auth", "whoami")
    assert asked.status == 0, asked.err
    theirs, ours = asked.out, run("whoami").out
    assert [line.split() for line in theirs.splitlines()] == [line.split() for line in ours.splitlines()[:6]]
    theirs_said = json.loads(ran(kubectl, "auth", "whoami", "-o", "json").out)
    ours_said = json.loads(run("whoami", "-o", "json").out)
    assert theirs_said["status"] == ours_said["status"]
    assert len({request.path for request in api.requests if request.method == "POST"}) == 1


def test_a_user_of_whom_little_is_known(api: APIServer, run: Run) -> None:
    body = {
        "kind": "SelfSubjectReview",
        "status": {"userInfo": {"username": "x\x1b[31m", "extra": {"k": "v"}}},
    }
    api.on("POST", PATH.format("v1"), Answer(201, body))
    assert run("whoami").out.splitlines()[1:3] == ["Username     xU+001B[31m", "Extra: k     v"]


def test_a_plugin_and_when_its_credential_ends(api: APIServer, run: Run, tmp_path: Path) -> None:
    plugin = PluginScript(tmp_path, "my-plugin")
    plugin.answer(token="alices-token", expires_in=900)
    path = tmp_path / "with-plugin"
    path.write_text(json.dumps(api.kubeconfig({"exec": plugin.exec_config()})))
    shown = dict(line.split(maxsplit=1) for line in run("whoami", "--kubeconfig", path).out.splitlines())
    assert shown["Credential"] == f"token from plugin {plugin.path}"
    assert shown["Ends"].startswith("in 14 min (20")
    said = json.loads(run("whoami", "--kubeconfig", path, "-o", "json").out)["client"]["credential"]
    assert said["kind"] == "token"
    assert said["expirationTimestamp"].endswith("Z")


def test_a_certificate(api: APIServer, ca: Authority, run: Run, tmp_path: Path) -> None:
    dave = ca.client("dave")
    (tmp_path / "cert").write_bytes(dave.certificate)
    (tmp_path / "key").write_bytes(dave.key)
    path = tmp_path / "with-certificate"
    user = {"client-certificate": str(tmp_path / "cert"), "client-key": str(tmp_path / "key")}
    path.write_text(json.dumps(api.kubeconfig(user)))
    shown = dict(line.split(maxsplit=1) for line in run("whoami", "--kubeconfig", path).out.splitlines())
    assert shown["Credential"] == f"client certificate {tmp_path / 'cert'}"
    assert shown["Ends"].startswith("in ")


def test_json_and_yaml_are_the_review_and_what_is_known_here(api: APIServer, run: Run) -> None:
    flags = ["--as", "bob", "--as-uid", "7", "--as-group", "g1", "--as-group", "g2", "--as-user-extra", "k=v"]
    said = json.loads(run("whoami", "-o", "json", "-n", "web", *flags).out)
    assert said == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {"userInfo": ALICE},
        "client": {
            "server": api.url,
            "context": "test",
            "namespace": "web",
            "impersonating": {"username": "bob", "uid": "7", "groups": ["g1", "g2"], "extra": {"k": ["v"]}},
            "credential": {"source": "token", "kind": "token"},
        },
    }
    assert yaml.safe_load(run("whoami", "-o", "yaml", "-n", "web", *flags).out) == said
    assert "Impersonating          bob\n" in run("whoami", "--as", "bob").out
    shown = run("whoami", *flags).out
    assert "\nImpersonating          bob, uid 7, groups [g1 g2], k [v]\n" in shown


def test_without_a_context_there_is_none(api: APIServer, run: Run, tmp_path: Path) -> None:
    document = api.kubeconfig({"token": "alices-token"})
    path = tmp_path / "contextless"
    path.write_text(json.dumps({**document, "contexts": [], "current-context": ""}))
    choose = ["--kubeconfig", path, "--cluster", "local", "--user", "tester"]
    assert "Context" not in run("whoami", *choose).out
    assert "context" not in json.loads(run("whoami", *choose, "-o", "json").out)["client"]


def test_a_password_in_the_address_is_not_shown(api: APIServer, run: Run) -> None:
    server = api.url.replace("https://", "https://bob:bobs-password@")
    for output in ("table", "json", "yaml"):
        shown = run("whoami", "-s", server, "-o", output, "-v", "9")
        assert shown.status == 0
        assert "bobs-password" not in shown.text
        assert "server URL" in shown.out


def test_a_file_that_cannot_be_read_any_more_is_told(
    api: APIServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("alices-token")
    path = tmp_path / "with-file"
    path.write_text(json.dumps(api.kubeconfig({"tokenFile": str(token)})))
    # Due at once, and gone by then.
    monkeypatch.setattr("kubeauth._credentials.files.TOKEN_INTERVAL", 0.0)

    class Asking(_asking.Asking):
        def __init__(self, flags: Flags) -> None:
            super().__init__(flags)
            token.unlink()

    monkeypatch.setattr(_asking, "Asking", Asking)
    assert "Last error   " in run("whoami", "--kubeconfig", path).out
    token.write_text("alices-token")
    assert json.loads(run("whoami", "--kubeconfig", path, "-o", "json").out)["client"]["credential"][
        "lastError"
    ]


class TestOlderServers:
    @pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
    def test_an_older_version_of_the_api(self, version: str, api: APIServer, run: Run) -> None:
        api.on("POST", PATH.format("v1"), answers.REFUSALS["/404-text"])
        api.on("POST", PATH.format(version), review)
        said = json.loads(run("whoami", "-o", "json").out)
        assert said["apiVersion"] == f"authentication.k8s.io/{version}"
        asked = [request.path.split("/")[3] for request in api.requests]
        assert asked == ["v1", "v1beta1", "v1alpha1"][: ["v1", "v1beta1", "v1alpha1"].index(version) + 1]

    def test_none_at_all(self, api: APIServer, run: Run) -> None:
        api.on("POST", PATH.format("v1"), answers.REFUSALS["/404-text"])
        assert run("whoami") == (
            1,
            "",
            "Error from server (NotFound): the server could not find the requested resource\n"
            "The server does not have this API: Kubernetes has it from 1.26 on, and unasked from 1.28 on. "
            "`kubeauth get /version` shows which version it is.\n",
        )
        assert len(api.requests) == 3


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/unauthorized", "The server knows nobody by this credential."),
        ("/forbidden", "The server knows you, but does not let you ask."),
        ("/500-text", ""),
    ],
)
def test_a_refusal_and_the_next_step(path: str, advice: str, api: APIServer, run: Run) -> None:
    api.on("POST", PATH.format("v1"), answers.REFUSALS[path])
    ran = run("whoami")
    assert (ran.status, ran.out) == (1, "")
    first, *rest = ran.err.splitlines()
    assert first.startswith(("Error from server (", "error: You must be logged in to the server"))
    assert "".join(rest).startswith(advice)
    assert bool(rest) is bool(advice)


def test_somebody_who_may_not_act_as_another(api: APIServer, run: Run) -> None:
    api.on("POST", PATH.format("v1"), answers.REFUSALS["/forbidden"])
    assert "without --as it is said who you are yourself" in run("whoami", "--as", "bob").err


@pytest.mark.parametrize("body", [{}, [], {"status": 7}, {"status": {"userInfo": None}}])
def test_an_answer_that_is_no_review(body: object, api: APIServer, run: Run) -> None:
    api.on("POST", PATH.format("v1"), Answer(201, body))
    ran = run("whoami")
    assert ran == (1, "", "error: the server's answer is no SelfSubjectReview. Is it an API server?\n")


@each_case(
    ("left", "expected"),
    [
        (timedelta(minutes=14, seconds=59), "in 14 min"), (timedelta(seconds=90), "in 90 s"), (timedelta(hours=36), "in 36 h"),
        (timedelta(days=400), "in 400 d"), (timedelta(seconds=0.5), "in 0 s"), (timedelta(seconds=-5), "5 s ago"), (timedelta(days=-3), "3 d ago"),
    ],
)  # fmt: skip
def test_when_in_words(left: timedelta, expected: str) -> None:
    assert in_words(left) == expected
