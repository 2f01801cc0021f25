"""`kubeauth gmsa check`: what becomes of a pod, in a terminal and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer
from tests.cli.answers import status
from tests.cli.conftest import Run
from tests.cli.programs import on_a_terminal
from tests.gmsa.api import REVIEWS, SPECS, KnownSpecs
from tests.gmsa.pods import CONTENTS, CREDSPEC, Document, container, pod, spec_of
from tests.support.leaks import SENTINEL

GOOD = {
    "ActiveDirectoryConfig": {
        "GroupManagedServiceAccounts": [
            {"Name": "WebApp1", "Scope": "CONTOSO"},
            {"Name": "WebApp1", "Scope": "contoso.com"},
        ]
    },
    "CmsPlugins": ["ActiveDirectory"],
    "DomainJoinConfig": {
        "DnsName": "contoso.com",
        "DnsTreeName": "contoso.com",
        "Guid": "244818ae-87ac-4fcd-92ec-e79e5252348a",
        "MachineAccountName": "WebApp1",
        "NetBiosName": "CONTOSO",
        "Sid": "S-1-5-21-2126449477-2524075714-3094792973",
    },
}


@pytest.fixture
def known(api: APIServer) -> KnownSpecs:
    specs = KnownSpecs(api)
    specs.put("web-spec", GOOD)
    return specs


class Files:
    """Files with objects in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, *objects: object, name: str = "objects.yaml") -> Path:
        path = self.directory / name
        path.write_text("\n---\n".join(yaml.safe_dump(each) for each in objects))
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def in_shop(document: Document) -> Document:
    document["metadata"]["namespace"] = "shop"
    return document


def specs_file(files: Files, **specs: object) -> Path:
    objects = [{**spec_of(each), "metadata": {"name": name}} for name, each in specs.items()]
    return files.write(*objects, name="specs.yaml")


def test_a_pod_that_is_admitted_container_by_container(known: KnownSpecs, files: Files, run: Run) -> None:
    document = in_shop(pod("web-spec", containers=[container("app")], initContainers=[container("setup")]))
    done = run("gmsa", "check", files.write(document))
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        "Pod         Pod web\n"
        "Namespace   shop\n"
        "Runs as     service account robot\n"
        "Decision    admitted\n"
        "\n"
        "WHERE                  NAMES      CONTENTS    DECISION   RUNS WITH\n"
        "the pod                web-spec   filled in   ok         -\n"
        "container app          -          -           ok         web-spec, the pod's\n"
        "init container setup   -          -           ok         web-spec, the pod's\n"
    )
    # Each is asked for once, and nothing is created but the question who may.
    assert sorted(known.asked) == [("GET", f"{SPECS}/web-spec"), ("POST", REVIEWS)]


def test_all_that_is_in_the_way_is_said_with_what_to_do(known: KnownSpecs, files: Files, run: Run) -> None:
    known.put("other", GOOD)
    document = in_shop(
        pod("other", containers=[container("a", "missing"), container("b", "web-spec", '{"a":1}')])
    )
    done = run("gmsa", "check", files.write(document))
    assert done.status == Status.FAILED
    # The first thing that the webhook would say: the expander comes first.
    assert 'Decision    denied (404): GMSACredentialSpec "missing" does not exist\n' in done.out
    assert 'service account "robot" of namespace "shop" is not allowed to `use`' in done.out
    assert "no binding of 100% use" in done.out
    assert "do not match" in done.out
    assert [line.split()[-2:] for line in done.out.splitlines() if "denied (" in line][1:] == [
        ["(403)", "-"],
        ["(404)", "-"],
        ["(422)", "-"],
    ]


@pytest.mark.parametrize(
    ("kind", "nested"),
    [
        ("Deployment", lambda template: {"spec": {"template": template}}),
        ("StatefulSet", lambda template: {"spec": {"template": template}}),
        ("Job", lambda template: {"spec": {"template": template}}),
        ("CronJob", lambda template: {"spec": {"jobTemplate": {"spec": {"template": template}}}}),
        ("PodTemplate", lambda template: {"template": template}),
    ],
)
def test_workloads_have_pods_in_them(
    known: KnownSpecs, files: Files, run: Run, kind: str, nested: Any
) -> None:
    template = {"spec": pod("web-spec", containers=[container("app")])["spec"]}
    workload = {"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, **nested(template)}
    done = run("gmsa", "check", "-o", "json", files.write(workload))
    (found,) = json.loads(done.out)["pods"]
    assert (done.status, found["pod"], found["namespace"]) == (0, f"{kind} web", "shop")
    assert [each["runsWith"] for each in found["places"]] == [None, "web-spec"]
    assert found["places"][0]["name"] == "web-"  # as its controller will name it


def test_several_in_a_file_in_a_list_and_from_stdin(known: KnownSpecs, files: Files, run: Run) -> None:
    one, two = in_shop(pod("web-spec", containers=[])), in_shop(pod(None, "{}", containers=[]))
    without_kind = {key: value for key, value in two.items() if key != "kind"}
    path = files.write(
        {"kind": "ConfigMap"}, {"kind": "List", "items": [one]}, {"kind": "PodList", "items": [without_kind]}
    )
    done = run("gmsa", "check", str(path), "-", "-o", "json", input=f"# one more\n{json.dumps(one)}")
    assert done.status == Status.FAILED  # one of them
    assert [each["allowed"] for each in json.loads(done.out)["pods"]] == [True, False, True]


def test_a_namespace_is_the_pods_or_that_of_the_flag(known: KnownSpecs, files: Files, run: Run) -> None:
    path = files.write(pod("web-spec", containers=[]))
    assert "Namespace   shop\n" in run("gmsa", "check", "-n", "shop", path).out
    done = run("gmsa", "check", "-n", "elsewhere", files.write(in_shop(pod("web-spec", containers=[]))))
    assert (done.status, done.out) == (Status.USAGE, "")
    assert "is in the namespace shop, and not in elsewhere" in done.err


def test_files_in_place_of_a_cluster(files: Files, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    bad = {"CmsPlugins": [], "Nonsense\x1b[2J": 1}
    specs = specs_file(files, **{"web-spec": GOOD, "bad": bad})
    done = run(
        "gmsa", "check", "--specs", specs, files.write(pod("web-spec", containers=[container("a", "bad")]))
    )
    assert (done.status, done.err) == (0, "")
    assert "Namespace   default\n" in done.out
    assert "Not asked" in done.out
    assert 'CmsPlugins: must have ActiveDirectory in it. Write ["ActiveDirectory"].\n' in done.out
    assert "unknown member" in done.out
    assert "\x1b" not in done.out
    assert "in web-spec" not in done.out


def test_a_credential_spec_that_is_wrong_is_said_of_a_cluster_too(
    known: KnownSpecs, files: Files, run: Run
) -> None:
    known.put("web-spec", CREDSPEC)
    done = run("gmsa", "check", "-o", "json", files.write(in_shop(pod("web-spec", containers=[]))))
    (spec,) = json.loads(done.out)["pods"][0]["credentialSpecs"]
    assert spec["name"] == "web-spec"
    assert {
        "problem": "CmsPlugins: must have ActiveDirectory in it",
        "hint": 'Write ["ActiveDirectory"].',
    } in spec["errors"]
    assert done.status == 0  # it denies nobody anything (B70)


def test_contents_are_never_shown_b75(known: KnownSpecs, files: Files, run: Run) -> None:
    known.put("web-spec", {**GOOD, "CmsPlugins": [SENTINEL]})
    document = in_shop(pod("web-spec", SENTINEL, containers=[container("a", None, SENTINEL)]))
    for output in ("table", "json"):
        done = run("gmsa", "check", "-v", "9", "-o", output, files.write(document))
        assert done.status == Status.FAILED
        assert SENTINEL not in done.out + done.err


def test_compat_is_as_the_shipped_webhook_and_warns_b15(known: KnownSpecs, files: Files, run: Run) -> None:
    path = files.write(in_shop(pod(containers=[], initContainers=[container("setup", None, CONTENTS)])))
    assert run("gmsa", "check", path).status == Status.FAILED
    done = run("gmsa", "check", "--compat", path)
    assert done.status == 0
    assert "init container setup   -       given      not looked at   <no name>\n" in done.out
    assert "Warning" in done.out


def test_a_random_hostname_b33(known: KnownSpecs, files: Files, run: Run) -> None:
    path = files.write(in_shop(pod("web-spec", containers=[])))
    assert "Hostname    a random one\n" in run("gmsa", "check", "--random-hostname", path).out
    assert "Hostname" not in run("gmsa", "check", path).out


def test_who_may_not_ask_is_told_so_in_the_servers_words(known: KnownSpecs, files: Files, run: Run) -> None:
    """And not that the pod is denied: nobody knows that."""
    known.server.on("POST", REVIEWS, status(403, "Forbidden", "bob cannot create localsubjectaccessreviews"))
    done = run("gmsa", "check", files.write(in_shop(pod("web-spec", containers=[]))))
    assert (done.status, done.out) == (Status.FAILED, "")
    assert "Error from server (Forbidden): bob cannot create" in done.err
    known.server.on("GET", f"{SPECS}/web-spec", status(403, "Forbidden", "bob cannot get"))
    assert "bob cannot get" in run("gmsa", "check", files.write(in_shop(pod("web-spec", containers=[])))).err


def test_a_cluster_without_the_resource_b55(known: KnownSpecs, files: Files, run: Run) -> None:
    known.server.on("GET", f"{SPECS}/web-spec", Answer(404, b"404 page not found\n"))
    done = run("gmsa", "check", files.write(in_shop(pod("web-spec", containers=[]))))
    assert done.status == Status.FAILED
    assert "is its custom resource definition installed?" in done.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "not valid YAML"),
        ("- 1", "no Kubernetes object"),
        ("a: 1", "no Kubernetes object"),
        ("kind: 1", "no Kubernetes object"),
        ("kind: ConfigMap", "pod.yaml, and nothing that makes pods"),
        ("# nothing", "error: there is no pod in /"),
        ("kind: Pod\n---\nkind: pod", "kind pod is unknown to Kubernetes. Did you mean Pod?"),
        ("kind: Pod\n---\nkind: DeployMent", "Did you mean Deployment?"),
        ("kind: Pod\n---\nkind: list\nitems: []", "Did you mean List?"),
        ("kind: Pod\n---\nkind: {", "document 2"),
        ("kind: List\nitems: [1]", "no Kubernetes object"),
        ("kind: List\nitems: [{metadata: {}}]", "no Kubernetes object"),
        ("kind: Deployment\nspec: []", "has no pod template"),
        ("kind: Deployment\nspec: {template: hello}", "has no pod template"),
        ("kind: Deployment\nspec: {tempalte: {}}", "has no pod template: spec.template is none"),
        ("kind: CronJob\nspec: {jobTemplate: 5}", "has no pod template"),
        ("--- {kind: Pod}\n---\nkind: Pod", "something stands behind a ---"),
        (
            "kind: Pod\nmetadata: {namespace: 5}",
            "error: Pod: metadata.namespace: must be a string, not a number",
        ),
    ],
)
def test_what_has_no_pod_in_it_is_told(tmp_path: Path, run: Run, text: str, words: str) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    done = run("gmsa", "check", "--specs", "x", path)
    assert (done.status, done.out) == (Status.CONFIG, "")
    assert words in done.err


def test_files_that_are_not_there(files: Files, run: Run) -> None:
    assert "cannot be read: No such file" in run("gmsa", "check", "/nowhere.yaml").err
    path = files.write(pod(containers=[]))
    done = run("gmsa", "check", path, "--specs", path)
    assert (done.status, "no GMSACredentialSpec in it" in done.err) == (Status.CONFIG, True)


def test_what_may_stand_behind_three_dashes(files: Files, run: Run) -> None:
    specs, path = specs_file(files, **{"web-spec": GOOD}), files.directory / "pods.yaml"
    path.write_text("--- # one\nkind: Pod\n---   \nkind: Pod\n---\r\nkind: Pod\n")
    assert len(json.loads(run("gmsa", "check", "--specs", specs, "-o", "json", path).out)["pods"]) == 3


@pytest.mark.parametrize("names", [("web", "web"), ("web", None)])
def test_specs_have_names_and_each_another(files: Files, run: Run, names: tuple[str | None, ...]) -> None:
    specs = files.write(*[{**spec_of({}), "metadata": {"name": name}} for name in names], name="specs.yaml")
    done = run("gmsa", "check", "--specs", specs, files.write(pod(containers=[])))
    assert (done.status, done.out) == (Status.CONFIG, "")
    assert "is there twice" in done.err or "one has no name" in done.err


def test_stdin_is_read_once(run: Run) -> None:
    for arguments in (("-", "-"), ("-", "--specs", "-")):
        done = run("gmsa", "check", *arguments)
        assert (done.status, "stdin can be read once" in done.err) == (Status.USAGE, True)


def test_a_workload_of_another_shape_is_a_denial(files: Files, run: Run) -> None:
    specs = specs_file(files, **{"web-spec": GOOD})
    broken = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": 1}}},
    }
    done = run("gmsa", "check", "--specs", specs, files.write(broken))
    assert done.status == Status.FAILED
    assert "denied (400): this is not a pod" in done.out


def test_it_fits_a_narrow_terminal(known: KnownSpecs, files: Files) -> None:
    path = files.write(
        in_shop(pod("missing", containers=[container("a-long-name-of-a-container", "web-spec")]))
    )
    code, shown = on_a_terminal("gmsa", "check", str(path))
    assert code == Status.FAILED
    assert max(map(len, shown.splitlines())) <= 80
