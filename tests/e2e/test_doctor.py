"""`kubeauth doctor` and a real API server: well, revoked, over, mistaken for another, nobody, and not allowed."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path
from typing import Any

from kubeauth.cli._doctor_findings import Level
from kubeauth.testing import Authority
from tests.cli.doctoring import Report, examined, written
from tests.e2e.cluster import ADMIN_TOKEN, ControlPlane
from tests.e2e.minting import Mint, certificates

# A real server on two busy cores.
PATIENCE = "60s"


def look(path: Path, document: dict[str, Any], *arguments: str, secrets: tuple[str, ...] = ()) -> Report:
    kubeconfig = written(path / "config", document)
    return examined(*arguments, kubeconfig=kubeconfig, timeout=PATIENCE, secrets=secrets)


def test_all_is_well(cluster: ControlPlane, tmp_path: Path) -> None:
    with Mint(tmp_path, certificates(cluster.client_ca, "alice", 600)) as mint:
        document = cluster.kubeconfig({"exec": mint.exec_config(provideClusterInfo=True)})
        found = look(tmp_path, document)
        keys = [line for status in mint.given for line in status["clientKeyData"].splitlines()[1:-1]]
    found.fine()
    assert found.one("whoami").facts["username"] == "alice"
    assert "system:authenticated" in found.one("whoami").facts["groups"]
    assert found.one("version").summary.startswith("Kubernetes v1.")
    assert found.levels["ready"] is found.levels["clock"] is Level.OK
    assert "kubernetes.default.svc" in found.one("server-cert").facts["names"]
    assert mint.runs == 1
    assert keys
    assert not [key for key in keys if key in found.text + found.json]


def test_a_token_that_was_revoked(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "doomed"}})
    token = cluster.kubectl("create", "token", "doomed").stdout.strip()
    document = cluster.kubeconfig({"token": token})
    before = look(tmp_path, document, secrets=(token,))
    before.fine()
    assert before.one("whoami").facts["username"] == "system:serviceaccount:default:doomed"
    assert before.one("credential").summary.endswith("60 min left")
    assert cluster.kubectl("delete", "serviceaccount", "doomed").returncode == 0
    # It remembers for ten seconds that a token was good.
    cluster._wait("a refusal", lambda: cluster.kubectl("auth", "whoami", kubeconfig=document).returncode != 0)
    after = look(tmp_path, document, secrets=(token,))
    assert after.bad("whoami").summary.startswith("401 Unauthorized")
    # Anybody may know these.
    assert after.levels["version"] is Level.OK


def test_a_certificate_that_is_over(cluster: ControlPlane, tmp_path: Path) -> None:
    over = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    pair = cluster.client_ca.client("alice", not_after=over)
    found = look(tmp_path, cluster.kubeconfig(cluster.certificate_user(pair)))
    found.bad("client-cert", "whoami")
    assert found.one("client-cert").summary.startswith("ended 3 days ago")
    assert found.one("whoami").summary.startswith("401 Unauthorized")


def test_another_ca(cluster: ControlPlane, tmp_path: Path) -> None:
    other = base64.b64encode(Authority("another CA").pem).decode()
    document = cluster.kubeconfig({"token": ADMIN_TOKEN}, {"certificate-authority-data": other})
    found = look(tmp_path, document, secrets=(ADMIN_TOKEN,))
    assert found.bad("tls").summary.endswith("; it is signed by CN=kubeauth e2e server")
    assert found.levels["clock"] is Level.OK
    assert found.levels["whoami"] is Level.SKIPPED


def test_nobody(cluster: ControlPlane, tmp_path: Path) -> None:
    found = look(tmp_path, cluster.kubeconfig({}))
    assert "nobody (system:anonymous)" in found.bad("whoami").summary


def test_not_allowed(cluster: ControlPlane, tmp_path: Path) -> None:
    pair = cluster.client_ca.client("alice")
    found = look(tmp_path, cluster.kubeconfig(cluster.certificate_user(pair)), "--as=bob")
    wrong = found.bad("whoami")
    assert wrong.summary.startswith("403 Forbidden: the server knows you")
    assert 'User "alice" cannot impersonate' in wrong.summary
