"""Which kuberc applies: --kuberc, KUBERC, ~/.kube/kuberc and KUBECTL_KUBERC; kubeauth and kubectl alike."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kubeauth.cli._ends import Status
from kubeauth.testing import APIServer, PluginScript
from tests.cli.conftest import Run
from tests.cli.programs import ran
from tests.support.kubeconfigs import write

# Environment variables and flags; {} is a directory with the files `allow` and `deny`. Then whether the plugin is
# run. ~/.kube/kuberc allows none.
CASES: list[tuple[dict[str, str], list[str], bool]] = [
    ({}, [], False),
    ({}, ["--kuberc", "{}/allow"], True),
    ({}, ["--kuberc={}/allow"], True),
    ({}, ["--kuberc={}/deny"], False),
    ({"KUBERC": "{}/allow"}, [], True),
    ({"KUBERC": "{}/allow"}, ["--kuberc={}/deny"], False),
    ({"KUBERC": "{}/deny"}, ["--kuberc={}/allow"], True),
    ({"KUBERC": "off"}, [], True),
    ({"KUBERC": "off"}, ["--kuberc={}/allow"], False),  # mutually exclusive
    ({"KUBECTL_KUBERC": "false"}, [], True),
    ({"KUBECTL_KUBERC": "False"}, [], True),
    ({"KUBECTL_KUBERC": "FALSE"}, [], True),
    ({"KUBECTL_KUBERC": "false", "KUBERC": "{}/deny"}, [], True),
    ({"KUBECTL_KUBERC": "false"}, ["--kuberc={}/allow"], False),  # kubectl does not have the flag then
    ({"KUBECTL_KUBERC": ""}, [], False),
    ({"KUBECTL_KUBERC": "0"}, [], False),
    ({"KUBECTL_KUBERC": "no"}, [], False),
    ({"KUBECTL_KUBERC": "off"}, [], False),
    ({"KUBECTL_KUBERC": " false"}, [], False),
    ({"KUBECTL_KUBERC": "true", "KUBERC": "off"}, [], True),
    ({}, ["--kuberc={}/missing"], False),
    ({}, ["--kuberc=off"], False),  # the name of a file
    ({}, ["--kuberc="], False),
]
EACH_CASE = pytest.mark.parametrize(
    ("variables", "arguments", "runs"),
    CASES,
    ids=[" ".join([*(f"{name}={value}" for name, value in case[0].items()), *case[1]]) for case in CASES],
)


@pytest.fixture
def plugin(api: APIServer, tmp_path: Path) -> PluginScript:
    """A plugin, in KUBECONFIG; and the files of the table."""
    plugin = PluginScript(tmp_path)
    plugin.answer(token="alices-token")
    (tmp_path / "kubeconfig").write_text(json.dumps(api.kubeconfig({"exec": plugin.exec_config()})))
    for name, policy in (("allow", "AllowAll"), ("deny", "DenyAll"), ("home/.kube/kuberc", "DenyAll")):
        head = {"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"}
        write(tmp_path / name, head | {"credentialPluginPolicy": policy})
    return plugin


@EACH_CASE
def test_which_kuberc_applies_p11(
    variables: dict[str, str],
    arguments: list[str],
    runs: bool,
    plugin: PluginScript,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("{}", str(tmp_path)))
    done = run("get", "/version", *(argument.replace("{}", str(tmp_path)) for argument in arguments))
    assert (done.status == 0, len(plugin.runs)) == (runs, int(runs)), done.err


@pytest.mark.oracle
@EACH_CASE
def test_kubectl_applies_the_same(
    variables: dict[str, str],
    arguments: list[str],
    runs: bool,
    plugin: PluginScript,
    kubectl: str,
    tmp_path: Path,
) -> None:
    if "credential plugin" not in ran(kubectl, "kuberc", "set", "--help").out:
        pytest.skip("this kubectl has no policy for plugins in the kuberc")
    environ = {name: value.replace("{}", str(tmp_path)) for name, value in variables.items()}
    flags = [argument.replace("{}", str(tmp_path)) for argument in arguments]
    done = ran(kubectl, "get", "--raw", "/version", *flags, env={**os.environ, **environ})
    assert (done.status == 0, len(plugin.runs)) == (runs, int(runs)), done.err


@pytest.mark.parametrize(
    ("variables", "path", "message", "hint"),
    [
        ({"KUBERC": "off"}, "allow", "--kuberc and KUBERC=off are mutually exclusive", "unset KUBERC."),
        (
            {"KUBECTL_KUBERC": "False"},
            "allow",
            "--kuberc and KUBECTL_KUBERC=false are mutually exclusive",
            "unset KUBECTL_KUBERC.",
        ),
        ({}, "missing", "missing does not exist", "--kuberc names it. Correct the path."),
        ({}, "broken", "broken: ", "Fix the file."),
    ],
)
def test_errors_name_the_flag(
    variables: dict[str, str],
    path: str,
    message: str,
    hint: str,
    plugin: PluginScript,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "broken").write_text("[broken")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = run("get", "/version", "--kuberc", str(tmp_path / path))
    assert (done.status, plugin.runs) == (Status.CONFIG, [])
    assert message in done.err
    assert hint in done.err


def test_a_kuberc_is_not_read_without_a_plugin_p14(api: APIServer, run: Run, tmp_path: Path) -> None:
    assert run("get", "/version", "--kuberc", str(tmp_path / "missing")).status == 0
