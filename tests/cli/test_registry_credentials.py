"""`kubeauth registry credentials`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer
from tests.cli.conftest import Run
from tests.cli.nodes import Node
from tests.cli.programs import Ran, on_a_terminal

SENTINEL = "sentinel-of-a-password"
TOKENS = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}


def rows(text: str, number: int) -> list[list[str]]:
    """Of one of its two tables, without the header."""
    return [line.split(None, 3) for line in text.split("\n\n")[number].splitlines()[1:]]


def test_they_are_in_the_order_in_which_the_kubelet_tries_them(node: Node, run: Run) -> None:
    node.provider("first", "gcr.io", auth={"gcr.io": ("one", SENTINEL)})
    node.provider("second", "gcr.io", auth={"gcr.io": ("two", SENTINEL), "gcr.io/team": ("three", SENTINEL)})
    ran = run("registry", "credentials", "gcr.io/team/app:1", *node.flags)
    assert (ran.status, ran.err) == (0, "")
    # 5.5: the longer key first, whoever gave it.
    assert rows(ran.out, 0) == [
        ["gcr.io/team", "three", "<hidden>", "provider second"],
        ["gcr.io", "one", "<hidden>", "provider first"],
        ["gcr.io", "two", "<hidden>", "provider second"],
    ]
    assert ran.out.split("\n\n")[1].splitlines() == [
        "PROVIDER   ANSWER",
        "first      1 credential, 1 for this image",
        "second     2 credentials, 2 for this image",
    ]
    assert SENTINEL not in ran.out


def test_the_provider_is_asked_about_the_repository(node: Node, run: Run) -> None:
    script = node.provider("p", "docker.io", auth={"docker.io": ("me", SENTINEL)})
    assert run("registry", "credentials", "nginx:1.29", *node.flags).status == 0
    assert [each.request["image"] for each in script.runs] == ["docker.io/library/nginx"]


def test_passwords_are_shown_if_that_is_asked_for(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    ran = run("registry", "credentials", "gcr.io/x", "--show-passwords", *node.flags)
    assert rows(ran.out, 0) == [["gcr.io", "me", SENTINEL, "provider p"]]
    said = json.loads(
        run("registry", "credentials", "gcr.io/x", "--show-passwords", "-o", "json", *node.flags).out
    )
    assert said["credentials"] == [
        {"key": "gcr.io", "username": "me", "password": SENTINEL, "source": "provider p"}
    ]


def test_as_json_without_them(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", SENTINEL), "quay.io": ("me", SENTINEL)})
    node.provider("q", "quay.io")
    ran = run("registry", "credentials", "gcr.io/x", "-o", "json", *node.flags)
    assert SENTINEL not in ran.out
    nothing: dict[str, Any] = {"notAsked": None, "failure": None, "skipped": []}
    assert json.loads(ran.out) == {
        "image": "gcr.io/x",
        "credentials": [{"key": "gcr.io", "username": "me", "source": "provider p"}],
        "providers": [
            {"name": "p", "matches": True, "credentials": 2, **nothing},
            {"name": "q", "matches": False, "credentials": 0, **nothing},
        ],
    }


def test_there_is_none(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io", auth={})
    node.provider("q", "quay.io")
    node.provider("r", "gcr.io", fields={"tokenAttributes": TOKENS})
    ran = run("registry", "credentials", "gcr.io/x", *node.flags)
    assert (ran.status, ran.err) == (Status.CREDENTIAL, "")
    assert ran.out.startswith("No credentials for gcr.io/x: the kubelet would pull it as nobody.\n\n")
    assert [" ".join(row) for row in rows(ran.out, 1)] == [
        "p 0 credentials, 0 for this image",
        "q not asked: none of its patterns matches (`kubeauth registry match` says why)",
        "r not asked: it is for pods with a service account: name one with --pod",
    ]


POD = "/api/v1/namespaces/apps/pods/app-7f9c"
ACCOUNT = "/api/v1/namespaces/apps/serviceaccounts/puller"


class TestInTheNameOfAPod:
    @pytest.fixture
    def cluster(self, api: APIServer) -> APIServer:
        """Has a pod, its service account, and a token for it."""
        pod = {"metadata": {"name": "app-7f9c", "uid": "u-1"}, "spec": {"serviceAccountName": "puller"}}
        api.on("GET", POD, Answer(body=pod))
        metadata = {"namespace": "apps", "name": "puller", "uid": "u-2", "annotations": {"role": "r"}}
        api.on("GET", ACCOUNT, Answer(body={"kind": "ServiceAccount", "metadata": metadata}))
        status = {"token": f"{SENTINEL}-token", "expirationTimestamp": "2999-01-01T00:00:00Z"}
        api.on("POST", f"{ACCOUNT}/token", Answer(201, {"kind": "TokenRequest", "status": status}))
        return api

    def asked(self, run: Run, node: Node, pod: str = "app-7f9c") -> Ran:
        return run("registry", "credentials", "gcr.io/x", "--pod", pod, "-n", "apps", *node.flags)

    def test_its_provider_is_given_a_token(self, cluster: APIServer, node: Node, run: Run) -> None:
        attributes = {**TOKENS, "optionalServiceAccountAnnotationKeys": ["role"]}
        auth = {"gcr.io": ("me", SENTINEL)}
        script = node.provider("p", "gcr.io", auth=auth, fields={"tokenAttributes": attributes})
        ran = self.asked(run, node)
        assert (ran.status, ran.err) == (0, "")
        assert rows(ran.out, 0) == [["gcr.io", "me", "<hidden>", "provider p"]]
        assert SENTINEL not in ran.out
        (request,) = (each.request for each in script.runs)
        assert request["serviceAccountToken"] == f"{SENTINEL}-token"
        assert request["serviceAccountAnnotations"] == {"role": "r"}
        (asked,) = (json.loads(each.body) for each in cluster.requests if each.method == "POST")
        assert asked["spec"]["boundObjectRef"]["name"] == "app-7f9c"
        assert asked["spec"]["boundObjectRef"]["uid"] == "u-1"

    def test_why_it_is_not_asked(self, cluster: APIServer, node: Node, run: Run) -> None:
        attributes = {**TOKENS, "requiredServiceAccountAnnotationKeys": ["another"]}
        node.provider("p", "gcr.io", fields={"tokenAttributes": attributes})
        ran = self.asked(run, node)
        assert ran.status == Status.CREDENTIAL
        assert "p          not asked: service account apps/puller has no annotation another\n" in ran.out

    def test_there_is_no_such_pod(self, cluster: APIServer, node: Node, run: Run) -> None:
        node.provider("p", "gcr.io", fields={"tokenAttributes": TOKENS})
        ran = self.asked(run, node, "another")
        assert (ran.status, ran.out) == (Status.FAILED, "")
        assert ran.err.startswith("Error from server")

    @pytest.mark.parametrize(
        "body", [[], {}, {"metadata": {"uid": 7}, "spec": {}}, {"metadata": {"uid": "u"}, "spec": 7}]
    )
    def test_what_is_no_pod(self, body: object, cluster: APIServer, node: Node, run: Run) -> None:
        cluster.on("GET", POD, Answer(body=body))
        node.provider("p", "gcr.io", fields={"tokenAttributes": TOKENS})
        ran = self.asked(run, node)
        assert (ran.status, ran.out, ran.err) == (Status.FAILED, "", "error: the server's answer is no pod\n")


@pytest.mark.parametrize(("others", "status"), [(False, Status.CREDENTIAL), (True, Status.FAILED)])
def test_a_provider_that_fails_is_told_and_the_others_are_asked(
    others: bool, status: Status, node: Node, run: Run
) -> None:
    node.provider("bad", "gcr.io", exit_code=3, stderr="no metadata server")
    if others:
        node.provider("good", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    ran = run("registry", "credentials", "gcr.io/x", *node.flags)
    assert ran.status == status
    # Once: on stderr it is not logged as well.
    assert ran.err == (
        "error: provider bad gave no credentials for gcr.io/x: it failed with exit code 3\n"
        "stderr:\n  no metadata server\n"
    )
    assert "\nbad        failed (exit)\n" in ran.out
    assert ("provider good" in ran.out) is others
    said = json.loads(run("registry", "credentials", "gcr.io/x", "-o", "json", *node.flags).out)
    assert said["providers"][0]["failure"]["reason"] == "exit"


def test_a_credential_for_nobody(node: Node, run: Run) -> None:
    """10.2: the provider of Azure always gives one."""
    node.provider("acr", "*.azurecr.io", auth={"*.azurecr.*": ("", "")})
    ran = run("registry", "credentials", "a.azurecr.io/x", "--show-passwords", *node.flags)
    assert rows(ran.out, 0) == [["*.azurecr.*", "<nobody>", "<none>", "provider acr"]]


def test_a_password_without_a_name_and_a_key_that_is_none(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("", SENTINEL), "gcr.io:x": ("me", SENTINEL)})
    ran = run("registry", "credentials", "gcr.io/x", *node.flags)
    assert "<hidden>" in ran.out
    assert "1 credential, 1 for this image; left out: gcr.io:x (" in ran.out
    said = json.loads(run("registry", "credentials", "gcr.io/x", "-o", "json", *node.flags).out)
    assert said["providers"][0]["skipped"][0]["key"] == "gcr.io:x"


def test_a_name_without_a_password(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", "")})
    ran = run("registry", "credentials", "gcr.io/x", "--show-passwords", *node.flags)
    assert rows(ran.out, 0) == [["gcr.io", "me", "<none>", "provider p"]]


def test_what_a_provider_says_cannot_steer_the_terminal(node: Node) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("m\x1b[31me\n", "pass\x1b]0;\nword\t")})
    node.provider("q", "gcr.io", exit_code=1, stderr="\x1b[2Jgone")
    status, said = on_a_terminal("registry", "credentials", "gcr.io/x", "--show-passwords", *node.flags)
    assert status == Status.FAILED
    assert "\x1b" not in said
    assert "passU+001B]0;U+000AwordU+0009" in said
    assert "U+001B[2Jgone" in said


def test_without_a_directory_of_programs_it_says_what_to_do(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io")
    ran = run("registry", "credentials", "gcr.io/x", "--config", node.config)
    assert (ran.status, ran.out) == (Status.USAGE, "")
    assert "give --bin-dir, or set KUBEAUTH_CREDENTIAL_PROVIDER_BIN_DIR" in ran.err


def test_the_environment_names_both(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    assert run("registry", "credentials", "gcr.io/x", env=node.environ()).status == 0


def test_a_program_that_is_missing(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io").path.unlink()
    ran = run("registry", "credentials", "gcr.io/x", *node.flags)
    assert (ran.status, ran.out) == (Status.CONFIG, "")
    assert "did not exist" in ran.err
