"""The doctor and the entries: which were chosen, by whom, and what is wrong with them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kubeauth._config.environment import Environment
from kubeauth.cli._doctor_findings import Level
from kubeauth.testing import APIServer, Authority
from tests.cli.doctoring import SENTINEL, TOKEN, examined, written


@pytest.fixture
def document(server: APIServer) -> dict[str, Any]:
    return server.kubeconfig({"token": "alices-token"})


def test_who_chose_what(document: dict[str, Any], tmp_path: Path) -> None:
    document["contexts"].append(
        {"name": "other", "context": {"cluster": "local", "namespace": "kube-system"}}
    )
    path = written(tmp_path / "config", document)
    by_file = examined(kubeconfig=path).one("context")
    assert by_file.summary == f"test (current-context of {path}): cluster local, user tester"
    by_flags = examined("--context=other", "--user=tester", kubeconfig=path).one("context")
    assert by_flags.summary == "other (--context): cluster local, user tester (--user), namespace kube-system"
    assert by_flags.facts["cluster_from"] == str(path)


@pytest.mark.parametrize("flag", ["context", "cluster", "user"])
def test_a_name_that_does_not_exist(document: dict[str, Any], tmp_path: Path, flag: str) -> None:
    found = examined(f"--{flag}=nope", kubeconfig=written(tmp_path / "config", document))
    wrong = found.bad("context")
    assert 'nope" does not exist' in wrong.summary
    assert "Available: " in wrong.next_step
    assert found.levels["tls"] is found.levels["credential"] is Level.SKIPPED


def test_a_current_context_that_leads_nowhere(document: dict[str, Any], tmp_path: Path) -> None:
    document["current-context"] = "gone"
    found = examined(kubeconfig=written(tmp_path / "config", document)).bad("context")
    assert "gone" in found.summary
    assert found.next_step == "Available: test."


def test_no_context_at_all(document: dict[str, Any], tmp_path: Path) -> None:
    del document["current-context"]
    assert (
        "use-context" in examined(kubeconfig=written(tmp_path / "config", document)).bad("context").next_step
    )


def test_a_context_that_names_no_cluster(document: dict[str, Any], tmp_path: Path) -> None:
    document["contexts"][0]["context"]["cluster"] = "gone"
    document["users"][0]["user"] = {"client-certificate-data": "aGVsbG8="}  # that is wrong too
    found = examined(kubeconfig=written(tmp_path / "config", document)).bad("context")
    assert '"gone", which does not exist' in found.next_step


def test_a_user_that_is_not_there_still_leaves_the_way(document: dict[str, Any], tmp_path: Path) -> None:
    document["contexts"][0]["context"]["user"] = "gone"
    found = examined(kubeconfig=written(tmp_path / "config", document))
    assert 'user "gone" was not found' in found.bad("context").summary
    assert found.levels["tls"] is found.levels["clock"] is Level.OK
    assert found.one("credential").summary == "the user's entry is broken"
    assert found.levels["whoami"] is Level.SKIPPED


def test_every_problem_of_the_chosen_entries_has_its_line(document: dict[str, Any], tmp_path: Path) -> None:
    document["users"][0]["user"] = {
        "client-certificate": "gone.pem", "exec": {"command": "", "apiVersion": ""},
    }  # fmt: skip
    found = examined(kubeconfig=written(tmp_path / "config", document))
    found.bad("entries")
    said = " ".join(finding.summary for finding in found.all("entries"))
    for part in (
        "client-key-data or client-key must be specified",
        f"{tmp_path}/gone.pem",
        "apiVersion must",
    ):
        assert part in said
    assert found.all("entries")[0].facts["field"]
    # The cluster has done nothing wrong.
    assert found.levels["tls"] is Level.OK


def test_a_cluster_that_cannot_be_used(document: dict[str, Any], tmp_path: Path) -> None:
    document["clusters"][0]["cluster"]["proxy-url"] = f"ftp://{SENTINEL}@proxy"
    found = examined(kubeconfig=written(tmp_path / "config", document))
    assert "proxy-url" in found.bad("entries").summary
    assert found.one("tls").summary == found.one("whoami").summary == "the cluster's entry is broken"


def test_a_key_in_the_place_of_its_path(
    document: dict[str, Any], tmp_path: Path, authority: Authority
) -> None:
    key = authority.client("alice").key.decode()
    document["users"][0]["user"] = {"client-certificate": "/dev/null", "client-key": key}
    path = written(tmp_path / "config", document)
    found = examined(kubeconfig=path, secrets=key.splitlines()[1:-1]).bad("entries")
    assert "not a path" in found.summary


def test_a_context_that_works_and_is_not_right(document: dict[str, Any], tmp_path: Path) -> None:
    document["contexts"][0]["context"] = {"cluster": "local", "namespace": "No_Namespace"}
    path = written(tmp_path / "config", document)
    found = examined("--token=alices-token", kubeconfig=path)
    found.fine("entries")
    assert [finding.level for finding in found.all("entries")] == [Level.OK, Level.WARNING, Level.WARNING]
    assert "user was not specified" in found.all("entries")[1].summary
    # A flag has mended half of it.
    assert "DNS_LABEL" in examined("--user=tester", kubeconfig=path).warned("entries").summary


def test_problems_elsewhere_are_counted(document: dict[str, Any], tmp_path: Path) -> None:
    document["users"].append({"name": "old", "user": {"client-certificate": "/gone", "client-key": "/gone"}})
    document["contexts"].append({"name": "old", "context": {"cluster": "gone", "user": "old"}})
    found = examined(kubeconfig=written(tmp_path / "config", document))
    others = found.warned("others")
    assert others.summary.startswith("3 problems with entries that are not in use; the first: ")
    assert len(others.facts["problems"]) == others.facts["count"] == 3
    found.fine("others")


def test_plain_http_sends_no_credential(tmp_path: Path) -> None:
    with APIServer(tls=False) as server:
        found = examined(kubeconfig=written(tmp_path / "config", server.kubeconfig({"token": TOKEN})))
        assert all(request.header("Authorization") is None for request in server.requests)
    assert "plain http" in found.warned("entries").summary
    assert found.levels["tls"] is found.levels["ca"] is found.levels["credential"] is Level.SKIPPED
    assert "there is no credential" in found.bad("whoami").summary


def test_flags_alone_are_enough(server: APIServer, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(server.authority.pem)
    flags = (f"--server={server.url}", "--token=alices-token", f"--certificate-authority={ca}")
    found = examined(*flags, "--namespace=apps")
    assert found.one("context").summary == "no context: cluster none, user none, namespace apps (--namespace)"
    assert found.levels["whoami"] is Level.OK
    found.fine("file")


def test_who_is_impersonated_is_said(document: dict[str, Any], tmp_path: Path) -> None:
    found = examined("--as=bob", kubeconfig=written(tmp_path / "config", document))
    assert "acting as bob" in found.one("entries").summary


class TestInAPod:
    @pytest.fixture
    def pod(self, server: APIServer, tmp_path: Path) -> Environment:
        account = tmp_path / "account"
        account.mkdir()
        (account / "token").write_text("alices-token\n")
        (account / "ca.crt").write_bytes(server.authority.pem)
        (account / "namespace").write_text("apps")
        port = server.url.rpartition(":")[2]
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": port,
            "HOME": str(tmp_path),
        }
        return Environment(environ=environ, service_account_dir=str(account))

    def test_its_own_configuration_is_used(self, pod: Environment) -> None:
        found = examined(environment=pod)
        assert found.one("file").level is Level.OK
        assert "pod's own service account, namespace apps" in found.one("context").summary
        assert found.one("credential").summary.startswith("token file ")
        assert found.one("whoami").summary == "alice"
        found.fine()

    def test_a_kubeconfig_wins(self, pod: Environment, document: dict[str, Any], tmp_path: Path) -> None:
        path = written(tmp_path / ".kube" / "config", document)
        assert str(path) in examined(environment=pod).one("context").summary

    def test_a_token_that_is_no_text(self, pod: Environment) -> None:
        Path(pod.service_account_dir, "token").write_bytes(b"\xff")
        found = examined(environment=pod).bad("context")
        assert "it is not UTF-8 text" in found.summary
        assert "automountServiceAccountToken" in found.next_step

    def test_elsewhere_it_is_no_way_out(self, pod: Environment) -> None:
        shutil.rmtree(pod.service_account_dir)
        found = examined(environment=pod).bad("context")
        assert "no configuration" in found.summary
        assert "This looks like a pod, but its token is not mounted" in found.next_step
        assert "automountServiceAccountToken" in found.next_step


def test_an_empty_file_that_was_named(tmp_path: Path) -> None:
    found = examined(kubeconfig=written(tmp_path / "config", "apiVersion: v1\nkind: Config\n"))
    assert found.bad("context").next_step.startswith("Name a kubeconfig with a cluster in it")
    assert found.one("tls").summary == found.one("whoami").summary == "no cluster is chosen"
