"""kubeauth and kubectl on one kubeconfig and one plugin: what the plugin was told, and what the server saw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeauth import Client, errors, load_config
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import until
from tests.e2e.minting import Mint, certificates, id_tokens

V1, V1BETA1 = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
EXEC = "client.authentication.k8s.io/exec"

# Fields of the plugin, of the user, and of the cluster.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}, {}),
    "v1beta1": ({"apiVersion": V1BETA1}, {}, {}),
    "arguments and variables": (
        {"args": ["get-token", "--for", "a b"], "env": [{"name": "E2E_VARIABLE", "value": "x=y z"}]},
        {},
        {},
    ),
    "cluster info": ({"provideClusterInfo": True}, {}, {}),
    "cluster info, v1beta1": ({"provideClusterInfo": True, "apiVersion": V1BETA1}, {}, {}),
    "cluster info with a config": (
        {"provideClusterInfo": True},
        {},
        {
            "extensions": [
                {"name": EXEC, "extension": {"audience": "é<&>", "deep": [1, 1.5, None, {"a": True}]}}
            ]
        },
    ),
    "cluster info with a name to expect": (
        {"provideClusterInfo": True},
        {},
        {"tls-server-name": "kubernetes.default.svc"},
    ),
    "cluster info without compression": ({"provideClusterInfo": True}, {}, {"disable-compression": True}),
    "if available": ({"interactiveMode": "IfAvailable"}, {}, {}),
    "impersonated": ({}, {"as": "dave"}, {}),
    "impersonated in full": (
        {},
        {
            "as": "dave",
            "as-uid": "1234",
            "as-groups": ["e2e-readers", "others"],
            "as-user-extra": {"Reason": ["a test", "ü"], "example.com/scope": ["one"]},
        },
        {},
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _known(cluster: ControlPlane) -> None:
    cluster.allow("view", user="dave")
    for user in ("beside-certificate", "oidc:beside-token"):
        cluster.allow("cluster-admin", user=user)


@pytest.mark.parametrize("kind", ["certificate", "token"])
@pytest.mark.parametrize("case", CASES)
def test_plugin_and_server_cannot_tell_them_apart(
    cluster: ControlPlane, tmp_path: Path, case: str, kind: str
) -> None:
    plugin, user, fields = CASES[case]
    give = certificates(cluster.client_ca, "beside-certificate", 600)
    if kind == "token":
        give = id_tokens(cluster.issuer, "beside-token", 600)
    path = f"/api/v1/namespaces/default/configmaps/{kind}-{list(CASES).index(case)}"
    with Mint(tmp_path, give) as mint:
        document = cluster.kubeconfig({"exec": mint.exec_config(**plugin)} | user, cluster=fields)
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(document, allow_unicode=True))
        with Client(load_config(file)) as client:
            ours = client.get(path)
        theirs = cluster.kubectl("get", "--raw", path, kubeconfig=file)
    assert ours.status_code == 404
    assert "not found" in theirs.stderr
    assert mint.runs == 2
    told_us, told_kubectl = mint.told
    assert told_us[0].encode() == told_kubectl[0].encode()  # byte by byte
    assert told_us == told_kubectl
    until(lambda: len(cluster.audit(path=path)) >= 2)  # it is written down when it was answered
    seen_of_us, seen_of_kubectl = (_seen(event) for event in cluster.audit(path=path))
    assert seen_of_us == seen_of_kubectl
    if "as" in user:
        assert seen_of_us["impersonatedUser"]["username"] == "dave"


def _seen(event: Mapping[str, Any]) -> dict[str, Any]:
    """All but what differs by nature: names of programs, times, and which credential of two it was."""
    wanted = ("requestURI", "verb", "user", "impersonatedUser", "sourceIPs", "responseStatus", "annotations")
    seen = {name: event.get(name) for name in wanted}
    seen["user"] = {name: value for name, value in event["user"].items() if name != "extra"}
    extra = event["user"].get("extra", {})
    seen["extra"] = {name: value[0].partition("=")[0] for name, value in extra.items()}
    return seen


# Rules of a kuberc, and whether the plugin may run.
POLICIES: dict[str, tuple[dict[str, Any], bool]] = {
    "allow all": ({"credentialPluginPolicy": "AllowAll"}, True),
    "deny all": ({"credentialPluginPolicy": "DenyAll"}, False),
    "on the list, by path": (
        {"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "PATH"}]},
        True,
    ),
    "on the list, by name": (
        {"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "plugin"}]},
        False,
    ),
    "another on the list": (
        {"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "/bin/true"}]},
        False,
    ),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_in_the_kuberc_is_obeyed_alike_p1_p13(
    cluster: ControlPlane, tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, runs = POLICIES[policy]
    with Mint(tmp_path, certificates(cluster.client_ca, "beside-certificate", 600)) as mint:
        text = json.dumps({"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"} | rules)
        (tmp_path / "kuberc").write_text(text.replace("PATH", str(mint.path)))
        monkeypatch.setenv("KUBERC", str(tmp_path / "kuberc"))
        document = cluster.kubeconfig({"exec": mint.exec_config()})
        kuberc = {"KUBERC": str(tmp_path / "kuberc")}
        theirs = cluster.kubectl("get", "--raw", "/version", kubeconfig=document, env=kuberc)
        assert (theirs.returncode == 0) is runs, theirs.stderr
        assert mint.runs == int(runs)
        with Client(load_config(document)) as client:
            if runs:
                assert client.get("/version").status_code == 200
            else:
                with pytest.raises(errors.PluginNotAllowed):
                    client.get("/version")
        assert mint.runs == 2 * int(runs)
