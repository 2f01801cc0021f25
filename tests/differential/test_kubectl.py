"""kubeauth beside kubectl: what `config view --minify --flatten --raw` shows, and whether it fails.

kubectl resolves names and files here, but validates little: it shows a user with two passwords without
a word. The cases say so (`kubectl_accepts`); client-go itself is compared with in test_client_go.
"""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubeauth._exec.lookup import escape_terminal
from kubeauth.errors import KubeConfigError
from tests.differential.corpus import CASES, EXTENSION, Case, go_json
from tests.support.cases import each_case

pytestmark = pytest.mark.oracle

# `config view` takes no --user, --cluster or --namespace, wants a context with a name, and prints what
# is written even if K46, K38 or a deliberate difference says that it will not be used.
VIEWED = [case for case in CASES if not case.choose.keys() - {"context"} and case.id != "nameless"]
NOT_USED_AS_WRITTEN = ("K46-", "K38-key-alone", "K45-", "K47-")

# What older kubectls do otherwise: the case, and the last version that did. Of 1.32 and 1.36, none.
KNOWN_UNTIL: dict[str, tuple[int, int]] = {}


@pytest.fixture(scope="session")
def version(kubectl: str) -> tuple[int, int]:
    shown = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True, check=True)
    found = re.search(r"v(\d+)\.(\d+)", shown.stdout)
    assert found, shown.stdout
    return int(found[1]), int(found[2])


def view(kubectl: str, case: Case, directory: Path) -> dict[str, Any] | str:
    flags = [f"--{name}={value}" for name, value in case.choose.items()]
    if case.explicit:
        flags.append(f"--kubeconfig={directory / case.explicit}")
    run = subprocess.run(
        [kubectl, "config", "view", "--minify", "--flatten", "--raw", "-o", "json", *flags],
        env=case.environ(directory),
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr if run.returncode else go_json(run.stdout)


def entry(shown: dict[str, Any], kind: str) -> dict[str, Any]:
    entries = shown.get(f"{kind}s") or [{}]
    found: dict[str, Any] = entries[0].get(kind) or {}
    return found


@pytest.mark.timeout(900)  # runs kubectl more than a hundred times
@each_case("case", VIEWED, ids=lambda case: case.id)
def test_selected_as_kubectl_selects_it(
    case: Case, kubectl: str, version: tuple[int, int], tmp_path: Path
) -> None:
    if case.id in KNOWN_UNTIL and version <= KNOWN_UNTIL[case.id]:
        return
    case.write(tmp_path)
    shown = view(kubectl, case, tmp_path)
    if case.broken:
        with pytest.raises(KubeConfigError):
            case.load(tmp_path)
        assert isinstance(shown, dict) == case.kubectl_accepts, shown
        return
    config = case.load(tmp_path)
    assert isinstance(shown, dict), shown
    cluster, user, context = (entry(shown, kind) for kind in ("cluster", "user", "context"))
    assert config.namespace == context.get("namespace", "default")
    assert config.context == (shown.get("current-context") or None)
    if case.id.startswith(NOT_USED_AS_WRITTEN):
        return
    assert config.server == cluster["server"]
    assert config.tls_server_name == cluster.get("tls-server-name")
    assert config.insecure_skip_tls_verify == cluster.get("insecure-skip-tls-verify", False)
    assert config.proxy_url == cluster.get("proxy-url")
    assert contents(config.ca_data, config.ca_file) == decoded(cluster, "certificate-authority-data")
    assert contents(config.client_cert_data, config.client_cert_file) == decoded(
        user, "client-certificate-data"
    )
    key = config.client_key_data.reveal() if config.client_key_data else None
    assert contents(key, config.client_key_file) == decoded(user, "client-key-data")
    if not config.token_file or "token" in user:
        assert (config.token and config.token.reveal()) == user.get("token")
    assert config.username == user.get("username")
    assert (config.password and config.password.reveal()) == user.get("password")
    assert config.disable_compression == cluster.get("disable-compression", False)
    acting_as = config.impersonate
    assert (acting_as.user if acting_as else None) == user.get("as")
    if acting_as:
        assert acting_as.uid == user.get("as-uid", "")
        assert list(acting_as.groups) == user.get("as-groups", [])
        extra = {key: list(values) for key, values in acting_as.extra.items()}
        assert extra == {key: values or [] for key, values in user.get("as-user-extra", {}).items()}
    exec_ = user.get("exec")
    assert (config.exec is None) == (exec_ is None)
    if config.exec and exec_:
        if "/" not in exec_["command"]:  # `config view` shows a path as it is written
            assert config.exec.command == exec_["command"]
        assert list(config.exec.args) == (exec_["args"] or [])
        assert dict(config.exec.env) == {item["name"]: item["value"] for item in exec_["env"] or ()}
        assert config.exec.interactive_mode == exec_["interactiveMode"]
        assert config.exec.api_version == exec_["apiVersion"]
        assert config.exec.provide_cluster_info == exec_["provideClusterInfo"]
        assert config.exec.install_hint == escape_terminal(exec_.get("installHint", ""))
        extensions = {item["name"]: item["extension"] for item in cluster.get("extensions") or ()}
        assert config.exec.cluster_config == extensions.get(EXTENSION)


def contents(data: bytes | None, path: str | None) -> bytes:
    return data or (Path(path).read_bytes() if path else b"")


def decoded(section: dict[str, Any], name: str) -> bytes:
    return base64.b64decode(section.get(name) or "")
