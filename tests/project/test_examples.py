"""The examples run, and print what the documentation says they print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubeauth.testing import APIServer, Authority, KeyPair, PluginScript
from kubeauth.testing._authority import _encode_key

EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLE = EXAMPLES / "kubeconfig.yaml"


def run(name: str, *args: str, stdin: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        env={**os.environ, **environ},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.rglob("*.py") if f'{path.name}"' not in text] == []


def test_show_config_without_a_kubeconfig_shows_the_sample(tmp_path: Path) -> None:
    shown = run("show_config.py", COLUMNS="100")
    assert shown.returncode == 0, shown.stderr
    assert "sample" in shown.stdout
    assert "https://prod.example.com:6443" in shown.stdout
    assert "aws" in shown.stdout
    assert "hidden" in shown.stdout
    assert "sample-secret" not in shown.stdout


@pytest.mark.parametrize("context", ["prod", "staging", "local"])
def test_show_config_of_each_sample_context(context: str) -> None:
    shown = run("show_config.py", str(SAMPLE), context)
    assert shown.returncode == 0, shown.stderr
    assert context in shown.stdout
    assert "sample-secret" not in shown.stdout


def test_show_config_explains_what_is_wrong() -> None:
    shown = run("show_config.py", "/nope")
    assert shown.returncode == 1
    assert 'kubeconfig "/nope" does not exist' in shown.stderr


def test_each_cluster() -> None:
    shown = run("each_cluster.py", str(SAMPLE))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0].split() == ["local", "http://127.0.0.1:8080", "anonymous"]
    assert "exec: aws" in shown.stdout


def test_fleet(kubeconfig: str) -> None:
    shown = run("fleet.py", KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stdout.split(), shown.stderr) == (0, ["v1.36.0", "1", "clusters"], "")
    shown = run("fleet.py", "prod-*", KUBECONFIG=kubeconfig)
    assert shown.returncode == 1
    assert 'no context fits "prod-*"' in shown.stderr
    Path(kubeconfig).write_text(Path(kubeconfig).read_text().replace("alices-token", "unknown"))
    shown = run("fleet.py", KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "test: unauthorized: 401 Unauthorized: Unauthorized\n"


def test_errors_example() -> None:
    shown = run("errors.py")
    assert shown.returncode == 0, shown.stderr
    assert 'users["alice"].user.token' in shown.stdout


@pytest.fixture
def kubeconfig(server: APIServer, tmp_path: Path) -> str:
    path = tmp_path / "local"
    path.write_text(yaml.safe_dump(server.kubeconfig({"token": "alices-token"})))
    return str(path)


@pytest.mark.slow
def test_rotation() -> None:
    shown = run("rotation.py", COLUMNS="120")
    assert shown.returncode == 0, shown.stderr
    assert "kubeauth.Client lists namespaces: default, kube-public, kube-system" in shown.stdout
    assert "kubeauth.AsyncClient lists namespaces: default, kube-public, kube-system" in shown.stdout
    rows = [line for line in shown.stdout.splitlines() if "GET /api/v1/namespaces" in line]
    assert [row.split("│")[2].strip() for row in rows] == ["alice", "bob", "bob"]


def test_namespaces(kubeconfig: str) -> None:
    shown = run("namespaces.py", KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stdout.split()) == (0, ["default", "kube-public", "kube-system"])
    shown = run("namespaces.py", "other", KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert 'context "other" does not exist' in shown.stderr


@pytest.mark.slow
def test_dask_fleet(server: APIServer, tmp_path: Path) -> None:
    """With workers of its own. What fails is told of, and does not hold up the rest."""
    plugin = PluginScript(tmp_path)
    plugin.answer(exit_code=1, stderr="log in first\n")
    document = server.kubeconfig({"tokenFile": "token"})  # beside the kubeconfig
    (tmp_path / "token").write_text("alices-token")
    document["users"].append({"name": "other", "user": {"exec": plugin.exec_config()}})
    contexts = {"good": "tester", "locked": "other", "typo": "nobody"}
    document["contexts"] = [
        {"name": name, "context": {"cluster": "local", "user": user}} for name, user in contexts.items()
    ]
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    shown = run("dask_fleet.py", "--at-once", "2", str(path))
    assert (shown.returncode, shown.stdout) == (1, "     1 v1.36.0\n1 of 3 contexts answered\n"), shown.stderr
    said = [line for line in shown.stderr.splitlines() if line.startswith(("good", "locked", "typo"))]
    assert said[0].startswith("locked: credential: getting credentials: ")
    assert said[1].startswith("typo: config: ")


def test_dask_fleet_without_a_kubeconfig() -> None:
    shown = run("dask_fleet.py", "/nope")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "error: " in shown.stderr
    assert "/nope" in shown.stderr


WITH_OTHERS = pytest.mark.parametrize("name", ["with_httpx2_k8s.py", "with_kr8s.py", "with_lightkube.py"])


@pytest.mark.slow
@WITH_OTHERS
def test_namespaces_with_the_clients_of_others(name: str, kubeconfig: str) -> None:
    shown = run(name, KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.split() == ["default", "kube-public", "kube-system"]


@pytest.mark.slow
@WITH_OTHERS
def test_the_clients_of_others_are_refused(name: str, server: APIServer, kubeconfig: str) -> None:
    server.tokens.clear()
    shown = run(name, KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "error: " in shown.stderr
    assert "Unauthorized" in shown.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["namespaces.py", "with_httpx2_k8s.py", "with_kr8s.py", "with_lightkube.py"])
def test_namespaces_of_a_server_that_is_gone(name: str, server: APIServer, kubeconfig: str) -> None:
    server.close()
    shown = run(name, KUBECONFIG=kubeconfig)
    assert (shown.returncode, shown.stdout) == (1, "")
    (said,) = shown.stderr.splitlines()
    assert said.startswith("error: ")
    assert "onnection" in said


def test_watch(server: APIServer, kubeconfig: str) -> None:
    watch = server.watch("/api/v1/namespaces/web/pods")
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "watch.py"), "web"],
        env={**os.environ, "KUBECONFIG": kubeconfig},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        watch.wait_for_watchers(timeout=60)
        for kind, name in (("ADDED", "a"), ("DELETED", "a")):
            watch.send({"type": kind, "object": {"metadata": {"name": name}}})
            assert process.stdout is not None
            assert process.stdout.readline() == f"{kind} {name}\n"
        watch.end()
        assert process.wait() == 0


@pytest.mark.slow
def test_with_kubernetes() -> None:
    shown = run("with_kubernetes.py")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "namespaces: default, kube-public, kube-system",
        "ADDED settings",
        "namespaces again: 3",
        "who asked: alice, alice, bob",
        "runs of the plugin: 2",
    ]


def test_with_kubernetes_asyncio() -> None:
    shown = run("with_kubernetes_asyncio.py")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "lists of namespaces: 50",
        "namespaces: default, kube-public, kube-system",
        "credential: certificate",
        "who asked: {'alice'}",
        "runs of the plugin: 1",
    ]


INFO = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}'


def test_token_plugin(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    arguments = ["--key-file", str(tmp_path / "key"), "--user", "alice"]
    shown = run("token_plugin.py", *arguments, KUBERNETES_EXEC_INFO=INFO)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["status"]["token"].count(".") == 2
    shown = run("token_plugin.py", *arguments)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "To run it by hand" in shown.stderr


def test_certificate_plugin(authority: Authority, tmp_path: Path) -> None:
    files = tmp_path / "ca.pem", tmp_path / "ca.key"
    KeyPair(authority.pem, _encode_key(authority._key)).write(*files)
    arguments = ["--ca", str(files[0]), "--ca-key", str(files[1]), "--user", "alice"]
    shown = run("certificate_plugin.py", *arguments, KUBERNETES_EXEC_INFO=INFO)
    assert shown.returncode == 0, shown.stderr
    assert "BEGIN CERTIFICATE" in json.loads(shown.stdout)["status"]["clientCertificateData"]
    shown = run("certificate_plugin.py", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_pull_manifest() -> None:
    shown = run("pull_manifest.py")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "/v2/team/app/manifests/v1: nobody",
        "/token: Basic",
        "/v2/team/app/manifests/v1: Bearer",
        "{'schemaVersion': 2}",
        "/v2/team/app/manifests/v1: Bearer",
        "{'schemaVersion': 2}",
    ]


def test_discover_cluster() -> None:
    shown = run("discover_cluster.py")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "endpoint, try 1",
        "signature, try 2",
        "verification, try 1",
        "found by token, and its CA is the one that is pinned: True",
        "saved for its owner alone: 600",
        "let in with the token: True",
        "not trusted: pin",
    ]


def test_gmsa_pods() -> None:
    shown = run("gmsa_pods.py")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[:4] == [
        "a pod of the service account web:",
        "  add /spec/securityContext/windowsOptions/gmsaCredentialSpec",
        '  app runs with {"CmsPlugins":["ActiveDirectory"]}',
        '  sidecar runs with {"CmsPlugins":["ActiveDirectory"]}',
    ]
    assert lines[-1].startswith(
        '  denied, 403: service account "somebody" of namespace "shop" is not allowed'
    )


REQUEST = """{"kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
"image": "registry.example.com/team/app"}"""
ACCOUNTS = {"registry.example.com": {"username": "robot", "password": "sample-secret"}}


def test_registry_provider(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.json"
    accounts.write_text(json.dumps(ACCOUNTS))
    shown = run("registry_provider.py", "--accounts", str(accounts), stdin=REQUEST)
    assert (shown.returncode, shown.stderr) == (0, "")
    answer = json.loads(shown.stdout)
    assert (answer["cacheKeyType"], answer["cacheDuration"], answer["auth"]) == ("Registry", "5m0s", ACCOUNTS)
    shown = run(
        "registry_provider.py",
        "--accounts",
        str(accounts),
        stdin=REQUEST.replace("team", "x").replace("registry", "r"),
    )
    assert json.loads(shown.stdout)["auth"] == {}


@pytest.mark.parametrize(
    ("accounts", "stdin", "words"),
    [
        (None, REQUEST, "cannot read the accounts in "),
        ("not JSON: sample-secret", REQUEST, "must be JSON like "),
        ('["sample-secret"]', REQUEST, "must be JSON like "),
        ('{"registry.example.com": {"password": "sample-secret"}}', REQUEST, "must be JSON like "),
        (json.dumps(ACCOUNTS), "", "To try it by hand"),
    ],
)
def test_registry_provider_fails(accounts: str | None, stdin: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    if accounts is not None:
        path.write_text(accounts)
    shown = run("registry_provider.py", "--accounts", str(path), stdin=stdin)
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (1, "", 1)
    assert words in shown.stderr
    assert "sample-secret" not in shown.stderr


def test_registry_provider_is_called_what_the_configuration_calls_it(tmp_path: Path) -> None:
    program = tmp_path / "accounts"
    program.symlink_to(EXAMPLES / "registry_provider.py")
    shown = subprocess.run(
        [program, "--accounts", tmp_path / "gone"],
        # `env python3` must find one with kubeauth.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        input=REQUEST,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.startswith("accounts: cannot read the accounts in ")


def test_testing_your_code() -> None:
    shown = run("testing_your_code.py")
    assert (shown.returncode, shown.stdout) == (0, "ok\n"), shown.stderr


@pytest.mark.slow
def test_scraped() -> None:
    shown = run("observability/scraped.py", "--port", "0", "--seconds", "1")
    assert shown.returncode == 0, shown.stderr
    assert re.fullmatch(
        r"Metrics at http://127\.0\.0\.1:\d+/metrics\nRuns of the plugin: [1-9]\d*\nRuns of the provider: [1-9]\d*\n",
        shown.stdout,
    )


@pytest.mark.parametrize("number", ["taken", "99999"])
def test_scraped_where_there_is_no_such_port(number: str, server: APIServer) -> None:
    port = server.url.rpartition(":")[2] if number == "taken" else number
    shown = run("observability/scraped.py", "--port", port, "--seconds", "1")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert f"error: --port {port}: " in shown.stderr
    assert "Traceback" not in shown.stderr
