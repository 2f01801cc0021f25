"""`kubeauth fleet` on a real API server under several contexts: each has the rows that kubectl has there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kubeauth import fleet
from kubeauth.fleet import Failure
from tests.cli.programs import environ, kubeauth
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import until
from tests.e2e.minting import Mint, certificates, id_tokens
from tests.fleet.fleets import RUNTIMES, ask, dead_port

NAMESPACE = "e2e-fleet"
GOOD = ("admin", "certificate", "token-plugin-1", "token-plugin-2", "certificate-plugin")


class Clusters:
    """One server by seven names."""

    def __init__(self, cluster: ControlPlane, directory: Path, stack: ExitStack) -> None:
        self.tokens = stack.enter_context(
            Mint(_new(directory / "tokens"), id_tokens(cluster.issuer, "alice", 600))
        )
        self.certificates = stack.enter_context(
            Mint(_new(directory / "certificates"), certificates(cluster.client_ca, "e2e-fleet-dora", 600))
        )
        users: dict[str, dict[str, Any]] = {
            "admin": cluster.admin()["users"][0]["user"],
            "certificate": cluster.certificate_user(cluster.client_ca.client("e2e-fleet-carol")),
            "token-plugin-1": {"exec": self.tokens.exec_config()},
            "token-plugin-2": {"exec": self.tokens.exec_config()},
            "certificate-plugin": {"exec": self.certificates.exec_config()},
            "stranger": {"token": "nobodys"},
            "without-rights": cluster.certificate_user(cluster.client_ca.client("e2e-fleet-erik")),
            "dead": {"token": "nobodys"},
        }
        document = cluster.kubeconfig({})
        names = {"dead": "dead"}
        document["clusters"].append({"name": "dead", "cluster": {"server": stack.enter_context(dead_port())}})
        document["users"] = [{"name": name, "user": user} for name, user in users.items()]
        document["contexts"] = [
            {
                "name": name,
                "context": {"cluster": names.get(name, "e2e"), "user": name, "namespace": NAMESPACE},
            }
            for name in users
        ]
        self.path = directory / "fleet"
        self.path.write_text(json.dumps(document))


def _new(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.fixture(scope="module", autouse=True)
def things(cluster: ControlPlane) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.apply(
        *(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}}
            for name in ("one", "two", "with-a-longer-name")
        )
    )
    # There are others, which the control plane makes when it gets to it.
    for other in ("configmap/kube-root-ca.crt", "serviceaccount/default"):
        until(lambda other=other: cluster.kubectl("get", other, "-n", NAMESPACE).returncode == 0)  # type: ignore[misc]
    for user in ("oidc:alice", "e2e-fleet-carol", "e2e-fleet-dora"):
        cluster.allow("view", user=user)


@pytest.fixture
def clusters(cluster: ControlPlane, tmp_path: Path) -> Iterator[Clusters]:
    with ExitStack() as stack:
        yield Clusters(cluster, tmp_path, stack)


def cells(text: str) -> list[list[str]]:
    """Without the age, which grows while one runs after the other."""
    return [line.split()[:-1] for line in text.splitlines()]


@pytest.mark.parametrize("resource", ["configmaps", "serviceaccounts"])
def test_each_context_has_the_rows_that_kubectl_has(
    resource: str, cluster: ControlPlane, clusters: Clusters
) -> None:
    ran = kubeauth("fleet", "get", resource, "--all-contexts", env=environ(KUBECONFIG=str(clusters.path)))
    expected: list[list[str]] = []
    for name in GOOD:
        theirs = cluster.kubectl("get", resource, "--context", name, kubeconfig=clusters.path)
        assert theirs.returncode == 0, theirs.stderr
        head, *rows = cells(theirs.stdout)
        expected = expected or [["CONTEXT", *head]]
        expected += [[name, *row] for row in rows]
    assert cells(ran.out) == expected
    assert ran.status == 1
    assert ran.err.startswith("3 of 8 failed: 1 unreachable, 1 unauthorized, 1 refused\n")
    assert "without-rights   Error from server (Forbidden):" in ran.err


def test_the_same_rows_in_every_namespace(cluster: ControlPlane, clusters: Clusters) -> None:
    ran = kubeauth(
        "fleet", "get", "configmaps", "-A", "--contexts", "admin", env=environ(KUBECONFIG=str(clusters.path))
    )
    theirs = cluster.kubectl("get", "configmaps", "-A", "--context", "admin", kubeconfig=clusters.path)
    head, *rows = cells(theirs.stdout)
    assert cells(ran.out) == [["CONTEXT", *head], *(["admin", *row] for row in rows)]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_who_asks_is_whom_the_context_names(runtime: str, cluster: ControlPlane, clusters: Clusters) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps?limit=2&by={runtime}"
    report = ask(runtime, path, kubeconfig=clusters.path)
    assert [answer.context for answer in report.succeeded] == list(GOOD)
    assert all(len(answer.json()["items"]) == 2 for answer in report.succeeded)
    assert {answer.context: answer.failure for answer in report.failed} == {
        "stranger": Failure.UNAUTHORIZED, "without-rights": Failure.REFUSED, "dead": Failure.UNREACHABLE
    }  # fmt: skip

    def users() -> set[str]:
        events = [each for each in cluster.audit() if each["requestURI"] == path]
        return {each["user"].get("username") for each in events if each["responseStatus"]["code"] == 200}

    # It is written down when it was answered.
    until(lambda: users() >= {"oidc:alice", "e2e-fleet-carol", "e2e-fleet-dora"})
    assert (clusters.tokens.runs, clusters.certificates.runs) == (1, 1)


def test_versions(cluster: ControlPlane, clusters: Clusters) -> None:
    report = fleet.get("/version", kubeconfig=clusters.path, contexts=GOOD)
    theirs = json.loads(cluster.kubectl("version", "-o", "json").stdout)
    assert {answer.json()["gitVersion"] for answer in report} == {theirs["serverVersion"]["gitVersion"]}
