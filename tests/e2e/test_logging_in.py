"""Credentials that a real cluster gives: service account tokens, certificates that its controller signs."""

from __future__ import annotations

import base64
import sys
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from kubeauth import Client, errors, load_config
from tests.e2e import tools
from tests.e2e.cluster import ADMIN_TOKEN, ControlPlane
from tests.support.clients import ClientVariant

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ACCOUNT = "system:serviceaccount:default:robot"


@pytest.fixture(scope="module", autouse=True)
def _known(cluster: ControlPlane) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    cluster.allow("view", user=ACCOUNT)
    cluster.allow("view", user="carol")


def exec_config(*arguments: str, **fields: Any) -> dict[str, Any]:
    """`users[].user.exec` for login_plugin.py."""
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tools.HERE / "login_plugin.py"), *arguments],
        "env": [
            {"name": "E2E_LOGIN", "value": ADMIN_TOKEN},
            {"name": "PYTHONPATH", "value": str(tools.HERE.parents[1])},
        ],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    } | fields


def user(*arguments: str) -> dict[str, Any]:
    return {"exec": exec_config(*arguments)}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--account", "robot"), ACCOUNT),
        (("--user", "carol"), "carol"),
        # The server looks at the certificate first.
        (("--account", "robot", "--user", "carol"), "carol"),
    ],
    ids=["token", "certificate", "both"],
)
def test_a_plugin_logs_in_at_the_cluster(
    cluster: ControlPlane, variant: ClientVariant, arguments: tuple[str, ...], name: str
) -> None:
    document = cluster.kubeconfig(user(*arguments))
    with variant.client(load_config(document)) as client:
        assert client.get("/api/v1/namespaces").status_code == 200
        me = client.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
        assert me.json()["status"]["userInfo"]["username"] == name
        status = client.client.status()
        assert status.last_error is None
        assert status.expires is not None


@pytest.mark.parametrize(
    "arguments", [("--account", "robot"), ("--user", "carol"), ("--account", "robot", "--user", "carol")]
)
def test_kubectl_is_the_same_person(cluster: ControlPlane, arguments: tuple[str, ...]) -> None:
    document = cluster.kubeconfig(user(*arguments))
    who = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", kubeconfig=document)
    with Client(load_config(document)) as client:
        me = client.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
    assert who.stdout == me.json()["status"]["userInfo"]["username"]


def test_the_server_saw_what_the_controller_signed(cluster: ControlPlane) -> None:
    with Client(load_config(cluster.admin())) as admin:
        before = {each["metadata"]["name"] for each in admin.get(CSRS).json()["items"]}
        with Client(load_config(cluster.kubeconfig(user("--user", "carol")))) as client:
            assert client.get("/api/v1/namespaces/default/pods").status_code == 200
        (made,) = (each for each in admin.get(CSRS).json()["items"] if each["metadata"]["name"] not in before)
    certificate = x509.load_pem_x509_certificate(base64.b64decode(made["status"]["certificate"]))
    seen = cluster.audit(user="carol", path="/api/v1/namespaces/default/pods")[-1]["user"]["extra"]
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    assert seen["authentication.kubernetes.io/credential-id"] == [f"X509SHA256={fingerprint}"]


def test_the_plugin_fails_in_the_words_of_the_cluster(cluster: ControlPlane) -> None:
    with Client(load_config(cluster.kubeconfig(user("--account", "nobody-here")))) as client:
        with pytest.raises(errors.PluginFailed, match=r"serviceaccounts .*nobody-here.* not found") as caught:
            client.get("/api/v1/namespaces")
    assert caught.value.exit_code == 1
