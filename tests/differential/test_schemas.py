"""kubectl reads what the models of its own files write."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth._parsing import write_document
from kubeauth.schemas import (
    AliasOverride,
    AllowlistEntry,
    Cluster,
    CommandDefaults,
    CommandOptionDefault,
    Context,
    Kubeconfig,
    Model,
    Preference,
    User,
)
from tests.schemas.examples import build_strategy

pytestmark = pytest.mark.oracle

# Each example starts kubectl.
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# kubectl reformats extensions, and shortens paths.
NOT_WRITTEN_AS_READ = {
    "extensions",
    "certificate_authority",
    "client_certificate",
    "client_key",
    "token_file",
}


def view(kubectl: str, *arguments: object, directory: Path) -> str:
    run = subprocess.run(
        [kubectl, *map(str, arguments)],
        env={"PATH": os.environ["PATH"], "HOME": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def without(model: Model, names: set[str]) -> Any:
    return model.model_copy(update={name: type(model)().__getattribute__(name) for name in names})


def strip(config: Kubeconfig) -> Kubeconfig:
    """Return a copy without what kubectl changes or drops."""
    ours = NOT_WRITTEN_AS_READ
    entries: dict[str, Any] = {
        kind: {
            name: without(entry, ours & set(type(entry).model_fields))
            for name, entry in getattr(config, kind).items()
        }
        for kind in ("clusters", "users", "contexts")
    }
    return config.model_copy(update={**entries, "extensions": {}, "preferences": type(config.preferences)()})


@FEW
@given(data=st.data())
def test_kubectl_reads_a_kubeconfig_that_a_model_wrote(
    kubectl: str, tmp_path: Path, data: st.DataObject
) -> None:
    config: Any = data.draw(build_strategy(Kubeconfig))
    config = strip(config)
    path = tmp_path / "config"
    path.write_bytes(write_document(config.to_document(reveal_secrets=True)))

    shown = view(kubectl, "config", "view", "--raw", "-o", "json", "--kubeconfig", path, directory=tmp_path)

    assert Kubeconfig.model_validate_json(shown) == config


def test_kubectl_reads_every_kind_of_credential_that_a_model_wrote(kubectl: str, tmp_path: Path) -> None:
    config = Kubeconfig(
        clusters={
            "c": Cluster(server="https://h:6443", certificate_authority_data=b"pem", tls_server_name="n")
        },
        users={
            "token": User(token=Secret("t"), impersonate="u", impersonate_groups=("g",)),
            "basic": User(username="u", password=Secret("p")),
            "certificate": User(client_certificate_data=b"pem", client_key_data=Secret(b"key")),
        },
        contexts={"x": Context(cluster="c", user="token", namespace="n")},
        current_context="x",
    )
    path = tmp_path / "config"
    path.write_bytes(write_document(config.to_document(reveal_secrets=True)))

    shown = view(kubectl, "config", "view", "--raw", "-o", "json", "--kubeconfig", path, directory=tmp_path)

    assert Kubeconfig.model_validate(json.loads(shown)) == config


def test_kubectl_reads_a_kuberc_that_a_model_wrote(kubectl: str, tmp_path: Path) -> None:
    if "kuberc" not in view(kubectl, "--help", directory=tmp_path):
        pytest.skip("this kubectl has no command kuberc")
    option = CommandOptionDefault(name="output", default="json")
    preference = Preference(
        aliases=(AliasOverride(name="getn", command="get", prepend_args=("nodes",), options=(option,)),),
        defaults=(CommandDefaults(command="get", options=(option,)),),
        credential_plugin_policy="Allowlist",
        credential_plugin_allowlist=(AllowlistEntry(command="aws"),),
    )
    path = tmp_path / "kuberc"
    path.write_bytes(write_document(preference.to_document()))

    shown = view(kubectl, "kuberc", "view", "--kuberc", path, directory=tmp_path)

    assert Preference.model_validate(yaml.safe_load(shown)) == preference
