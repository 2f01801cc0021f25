"""The command line beside kubectl of the same release, on a real API server."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeauth import Client, load_config
from kubeauth.cli._app import group_parser
from kubeauth.cli._ends import Status
from kubeauth.cli._paths import CLUSTER_SCOPED, RESOURCES, target_of
from tests.cli.programs import KUBEAUTH, Ran, environ, kubeauth, started
from tests.e2e.cluster import ControlPlane
from tests.e2e.minting import Mint, certificates, id_tokens
from tests.support.residue import wait_until

NAMESPACE = "e2e-cli"


@pytest.fixture(scope="module", autouse=True)
def things(cluster: ControlPlane) -> None:
    """A namespace with something in it, and one with nothing."""
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "e2e-cli-empty"}},
    )
    # What the control plane makes there when it gets to it: no test shall see it come.
    for other in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
        for namespace in (NAMESPACE, "e2e-cli-empty"):
            there = ["get", other, "-n", namespace]
            wait_until(lambda there=there: cluster.kubectl(*there).returncode == 0)  # type: ignore[misc]
    container = {"name": "c", "image": "registry.invalid/c:1"}
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    cluster.apply(
        *(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": {"k": "ü\n"}}
            for name in ("one", "with-a-longer-name")
        ),
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "namespace": NAMESPACE, "labels": {"app": "lone"}}, "spec": {"containers": [container]}},
    )  # fmt: skip


@pytest.fixture
def admin(cluster: ControlPlane, tmp_path: Path) -> Path:
    return written(tmp_path / "admin", cluster.admin())


def written(path: Path, document: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(dict(document)))
    return path


def theirs(cluster: ControlPlane, kubeconfig: Path, *arguments: str) -> Ran:
    done = cluster.kubectl(*arguments, kubeconfig=kubeconfig)
    return Ran(done.returncode, done.stdout, done.stderr)


def ours(kubeconfig: Path, *arguments: str) -> Ran:
    return kubeauth(*arguments, env=environ(KUBECONFIG=str(kubeconfig)))


def both(ours: Callable[[], Ran], theirs: Callable[[], Ran]) -> tuple[Ran, Ran]:
    """Both, until they are equal: the ages in a table grow while one runs after the other."""
    for _ in range(5):
        found = ours(), theirs()
        if found[0] == found[1]:
            break
    return found


class TestGet:
    @pytest.mark.parametrize("output", [[], ["-o", "wide"]])
    @pytest.mark.parametrize(
        ("path", "as_kubectl"),
        [
            ("configmaps", ["configmaps"]),
            ("configmaps/one", ["configmaps", "one"]),
            ("serviceaccounts", ["serviceaccounts"]),
            ("pods", ["pods"]),
            ("pods?labelSelector=app=lone", ["pods", "-l", "app=lone"]),
            ("apps/v1/deployments", ["deployments.v1.apps"]),
            ("apps/v1/deployments/web", ["deployments.v1.apps", "web"]),
            ("namespaces", ["namespaces"]),
            ("rbac.authorization.k8s.io/v1/clusterroles/view", ["clusterroles", "view"]),
            ("scheduling.k8s.io/v1/priorityclasses", ["priorityclasses"]),
        ],
    )  # fmt: skip
    def test_tables_are_kubectls(
        self, path: str, as_kubectl: list[str], output: list[str], cluster: ControlPlane, admin: Path
    ) -> None:
        mine, kubectls = both(
            lambda: ours(admin, "get", path, "-n", NAMESPACE, *output),
            lambda: theirs(cluster, admin, "get", *as_kubectl, "-n", NAMESPACE, *output),
        )
        assert mine == kubectls
        assert mine.status == 0
        assert mine.out.startswith("NAME ")

    @pytest.mark.parametrize("resource", ["configmaps", "nodes", "pods"])
    def test_all_namespaces(self, resource: str, cluster: ControlPlane, admin: Path) -> None:
        mine, kubectls = both(
            lambda: ours(admin, "get", resource, "-A"), lambda: theirs(cluster, admin, "get", resource, "-A")
        )
        assert mine._replace(err=mine.err.rstrip(".\n")) == kubectls._replace(err=kubectls.err.rstrip(".\n"))

    def test_nothing_there(self, cluster: ControlPlane, admin: Path) -> None:
        where = ["-n", "e2e-cli-empty"]
        assert ours(admin, "get", "pods", *where) == theirs(cluster, admin, "get", "pods", *where)

    @pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/healthz", "/api/v1/namespaces/default"])
    def test_raw_is_kubectls(self, path: str, cluster: ControlPlane, admin: Path) -> None:
        mine = ours(admin, "get", path, "-o", "raw")
        assert mine == theirs(cluster, admin, "get", "--raw", path)
        assert mine.status == 0

    @pytest.mark.parametrize(
        "path", ["/", "/api/v1", "/healthz", "/livez?verbose", "/metrics", "/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration"]
    )  # fmt: skip
    def test_whatever_a_server_has(self, path: str, admin: Path) -> None:
        mine = ours(admin, "get", path)
        assert (mine.status, mine.err) == (0, "")
        assert mine.out

    def test_yaml_and_json_say_the_same(self, cluster: ControlPlane, admin: Path) -> None:
        asked = ["get", "configmaps/one", "-n", NAMESPACE, "-o"]
        said = json.loads(ours(admin, *asked, "json").out)
        assert yaml.safe_load(ours(admin, *asked, "yaml").out) == said
        kubectls = json.loads(theirs(cluster, admin, *asked, "json", "--show-managed-fields").out)
        assert said == kubectls

    @pytest.mark.parametrize(
        "path", ["/nothing", "/api/v1/namespaces/nothing", "/api/v1/nothing", "/api/v1/namespaces/default/pods?limit=x", "/api/v1/pods?watch=1&resourceVersion=x"]
    )  # fmt: skip
    def test_refusals_are_kubectls(self, path: str, cluster: ControlPlane, admin: Path) -> None:
        mine, kubectls = ours(admin, "get", path), theirs(cluster, admin, "get", "--raw", path)
        assert mine == kubectls
        assert mine.status == 1

    def test_somebody_who_may_not(self, cluster: ControlPlane, tmp_path: Path) -> None:
        nobody = cluster.certificate_user(cluster.client_ca.client("cli-nobody"))
        kubeconfig = written(tmp_path / "nobody", cluster.kubeconfig(nobody))
        path = "/api/v1/namespaces/default/secrets"
        mine = ours(kubeconfig, "get", path)
        assert mine == theirs(cluster, kubeconfig, "get", "--raw", path)
        assert mine.err.startswith("Error from server (Forbidden): secrets is forbidden: User")

    def test_somebody_who_is_not_known(self, cluster: ControlPlane, tmp_path: Path) -> None:
        kubeconfig = written(tmp_path / "unknown", cluster.kubeconfig({"token": "nonsense"}))
        mine = ours(kubeconfig, "get", "/api/v1/pods")
        assert mine == theirs(cluster, kubeconfig, "get", "--raw", "/api/v1/pods")
        assert mine == (1, "", "error: You must be logged in to the server (Unauthorized)\n")


class TestWatch:
    def test_changes_as_kubectl_prints_them(self, cluster: ControlPlane, admin: Path) -> None:
        command, env = ["get", "configmaps", "-w", "-n", NAMESPACE], environ(KUBECONFIG=str(admin))
        with (
            started(*command, env=env) as mine,
            subprocess.Popen(
                [str(cluster._kube), "kubectl", *command], env=env, stdout=subprocess.PIPE, text=True
            ) as kubectls,
        ):
            said = [self.up_to(each, "with-a-longer-name") for each in (mine, kubectls)]
            thing = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "watched", "namespace": NAMESPACE},
            }
            cluster.apply(thing)
            cluster.apply({**thing, "data": {"a": "b"}})
            assert cluster.kubectl("delete", "configmap", "watched", "-n", NAMESPACE).returncode == 0
            said = [
                first + self.up_to(each, "watched", 3)
                for first, each in zip(said, (mine, kubectls), strict=True)
            ]
            mine.terminate()
            kubectls.terminate()
        ages = [re.sub(r"\d\w*$", "AGE", text, flags=re.M) for text in said]
        assert ages[0] == ages[1]

    def up_to(self, process: subprocess.Popen[str], word: str, times: int = 1) -> str:
        """What it prints, until that word has come so often."""
        assert process.stdout is not None
        text = ""
        while text.count(word) < times:
            line = process.stdout.readline()
            assert line, text
            text += line
        return text

    def test_one_object_as_json(self, cluster: ControlPlane, admin: Path) -> None:
        arguments = ["get", "configmaps/one", "-w", "-o", "json", "-n", NAMESPACE, "--output-watch-events"]
        with started(*arguments, env=environ(KUBECONFIG=str(admin))) as process:
            assert process.stdout is not None
            events = [json.loads(process.stdout.readline())]
            for name in ("with-a-longer-name", "one"):
                cluster.kubectl("label", "--overwrite", "configmap", name, "seen=yes", "-n", NAMESPACE)
            events.append(json.loads(process.stdout.readline()))
            process.terminate()
        found = [
            (event["type"], event["object"]["kind"], event["object"]["metadata"]["name"]) for event in events
        ]
        assert found == [("ADDED", "ConfigMap", "one"), ("MODIFIED", "ConfigMap", "one")]

    def test_it_lives_through_the_end_of_its_certificate(self, cluster: ControlPlane, tmp_path: Path) -> None:
        cluster.allow("cluster-admin", user="cli-watcher")
        with Mint(tmp_path, certificates(cluster.client_ca, "cli-watcher", 5)) as mint:
            kubeconfig = written(tmp_path / "minted", cluster.kubeconfig({"exec": mint.exec_config()}))
            arguments = ["get", "configmaps/one", "-w", "-o", "json", "-n", NAMESPACE]
            with started(*arguments, env=environ(KUBECONFIG=str(kubeconfig))) as process:
                assert process.stdout is not None
                process.stdout.readline()
                time.sleep(7)
                cluster.kubectl("label", "--overwrite", "configmap", "one", "late=yes", "-n", NAMESPACE)
                assert json.loads(process.stdout.readline())["metadata"]["labels"]["late"] == "yes"
                process.terminate()

    def test_a_time_limit_ends_it_as_with_kubectl(self, cluster: ControlPlane, admin: Path) -> None:
        command = ["get", "configmaps", "-w", "-n", NAMESPACE, "--request-timeout=10s"]
        assert (ours(admin, *command).status, theirs(cluster, admin, *command).status) == (0, 0)


class TestWhoami:
    def test_beside_kubectl(self, cluster: ControlPlane, admin: Path, tmp_path: Path) -> None:
        pair = cluster.client_ca.client("cli-carol", ["dev", "ops"])
        carol = written(tmp_path / "carol", cluster.kubeconfig(cluster.certificate_user(pair)))
        for kubeconfig, flags in (
            (admin, []),
            (carol, []),
            (
                admin,
                ["--as=bob", "--as-uid=7", "--as-group=dev", "--as-user-extra=k=v", "--as-user-extra=k=w"],
            ),
        ):
            kubectls = theirs(cluster, kubeconfig, "auth", "whoami", *flags)
            assert kubectls.status == 0, kubectls.err
            mine = ours(kubeconfig, "whoami", *flags)
            lines = [line.split() for line in mine.out.splitlines()]
            expected = [line.split() for line in kubectls.out.splitlines()]
            assert lines[: len(expected)] == expected
            said = json.loads(ours(kubeconfig, "whoami", "-o", "json", *flags).out)
            kubectls_said = json.loads(
                theirs(cluster, kubeconfig, "auth", "whoami", "-o", "json", *flags).out
            )
            assert said["status"]["userInfo"] == kubectls_said["status"]["userInfo"]
            assert said["client"]["server"] == cluster.server

    def test_somebody_who_is_not_known(self, cluster: ControlPlane, tmp_path: Path) -> None:
        kubeconfig = written(tmp_path / "unknown", cluster.kubeconfig({"token": "nonsense"}))
        mine = ours(kubeconfig, "whoami")
        kubectls = theirs(cluster, kubeconfig, "auth", "whoami")
        assert (mine.status, mine.out) == (1, "")
        assert mine.err.splitlines()[0] == kubectls.err.splitlines()[0]


class TestToken:
    @pytest.mark.parametrize("kind", ["certificate", "token"])
    @pytest.mark.parametrize("version", ["v1", "v1beta1"])
    def test_as_the_plugin_of_kubectl(
        self, kind: str, version: str, cluster: ControlPlane, tmp_path: Path
    ) -> None:
        give = certificates(cluster.client_ca, "cli-plugged", 600)
        if kind == "token":
            give = id_tokens(cluster.issuer, "cli-plugged", 600)
        with Mint(tmp_path, give) as mint:
            inner = written(tmp_path / "inner", cluster.kubeconfig({"exec": mint.exec_config()}))
            stanza = {
                "apiVersion": f"client.authentication.k8s.io/{version}",
                "command": KUBEAUTH[0],
                "args": [*KUBEAUTH[1:], "token", "-o", "json", "--kubeconfig", str(inner)],
                "interactiveMode": "Never",
            }
            outer = written(tmp_path / "outer", cluster.kubeconfig({"exec": stanza}))
            asked = theirs(cluster, outer, "auth", "whoami", "-o", "json")
            assert asked.status == 0, asked.err
            name = "cli-plugged" if kind == "certificate" else "oidc:cli-plugged"
            assert json.loads(asked.out)["status"]["userInfo"]["username"] == name
            assert (
                json.loads(ours(outer, "whoami", "-o", "json").out)["status"]["userInfo"]["username"] == name
            )
            assert mint.runs == 2

    def test_a_certificate_is_no_token(self, cluster: ControlPlane, tmp_path: Path) -> None:
        pair = cluster.client_ca.client("cli-carol")
        carol = written(tmp_path / "carol", cluster.kubeconfig(cluster.certificate_user(pair)))
        assert ours(carol, "token").status == Status.CREDENTIAL


def test_the_resources_that_are_in_no_namespace(cluster: ControlPlane, admin: Path) -> None:
    """What is known by heart here is what the server says, as far as it has it."""
    found: dict[str, dict[str, bool]] = {}
    with Client(load_config(admin)) as client:
        groups = client.get("/apis").json()["groups"]
        paths = {
            f"/apis/{each['groupVersion']}": group["name"] for group in groups for each in group["versions"]
        }
        for path, group in {"/api/v1": "", **paths}.items():
            for resource in client.get(path).json()["resources"]:
                if "/" not in resource["name"] and {"get", "list"} & set(resource["verbs"]):
                    found.setdefault(group, {})[resource["name"]] = resource["namespaced"]
        completed = [target_of(each, namespace="default").url for each in RESOURCES]
        assert {url: client.get(url).status_code for url in completed} == dict.fromkeys(completed, 200)
    scoped = {group: {name for name, inside in names.items() if not inside} for group, names in found.items()}
    assert {group: names - CLUSTER_SCOPED.get(group, set()) for group, names in scoped.items() if names} == {
        group: set() for group, names in scoped.items() if names
    }
    wrong = {
        name for group, names in CLUSTER_SCOPED.items() for name in names if found.get(group, {}).get(name)
    }
    assert wrong == set()


def test_all_of_kubectls_global_flags_are_there(cluster: ControlPlane) -> None:
    listed = cluster.kubectl("options").stdout
    kubectls = set(re.findall(r"^    (?:-\w, )?(--[a-z-]+)=", listed, re.M))
    mine = {flag for action in group_parser("").actions for flag in action.option_strings}
    assert kubectls - mine == {
        "--cache-dir", "--log-flush-frequency", "--match-server-version", "--profile", "--profile-output",
        "--vmodule", "--warnings-as-errors",
    }  # fmt: skip
