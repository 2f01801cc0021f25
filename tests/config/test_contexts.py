"""A kubeconfig that is read once, for all of its contexts: each is what load_config makes of it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from kubeauth import ExecOptions, PluginPolicy, load_config
from kubeauth._config.contexts import Contexts
from kubeauth._config.environment import Environment
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader
from kubeauth.errors import KubeConfigError
from tests.support.kubeconfigs import document, plugin, write

SAMPLE = Path(__file__).parent.parent.parent / "examples" / "kubeconfig.yaml"
OPTIONS = ExecOptions(timeout=5.0)
KUBERC = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: "


def loader(**environment: str) -> Loader:
    given = Environment(environ=environment) if environment else Environment()
    return Loader(overrides=Overrides(), exec_options=OPTIONS, environment=given)


def test_each_is_what_load_config_makes_of_it() -> None:
    found = Contexts.read(loader(), SAMPLE)
    assert found.names == ("prod", "staging", "local")
    for name in found.names:
        alone = load_config(SAMPLE, context=name, exec_options=OPTIONS)
        assert found.config(name) == alone
        assert found.config(name)._origin == alone._origin
        assert pickle.loads(pickle.dumps(found.config(name))) == alone


def test_files_are_merged_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "first", document())
    second = write(tmp_path / "second", {**document({"server": "https://other"}), "contexts": [
        {"name": "y", "context": {"cluster": "c", "user": "u"}}]})  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([first, second]))
    found = Contexts.read(loader())
    assert found.names == ("x", "y")
    assert found.paths == (first, second)
    for name in found.names:
        assert pickle.loads(pickle.dumps(found.config(name))) == load_config(
            context=name, exec_options=OPTIONS
        )


def test_one_that_is_broken_harms_no_other() -> None:
    made = document()
    made["contexts"].append({"name": "bad", "context": {"cluster": "c", "user": "nobody"}})
    found = Contexts.read(loader(), made)
    assert found.entry("bad").user == "nobody"
    with pytest.raises(KubeConfigError, match='user "nobody" was not found'):
        found.config("bad")
    assert found.config("x").server == "https://h:6443"


def test_a_kuberc_is_read_once_and_only_for_a_plugin(tmp_path: Path) -> None:
    made = document(user=plugin())
    made["contexts"].append({"name": "plain", "context": {"cluster": "c"}})
    path = tmp_path / "kuberc"
    found = Contexts.read(loader(KUBERC=str(path)), made)
    assert found.config("plain").exec is None
    with pytest.raises(KubeConfigError, match="kuberc"):
        found.config("x")
    path.write_text(f"{KUBERC}DenyAll\n")
    first = found.config("x").exec
    path.unlink()
    again = found.config("x").exec
    assert first is not None
    assert again is not None
    assert first.policy == again.policy == PluginPolicy.deny_all()


def test_a_context_is_never_the_pods_own(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    environment = Environment(
        environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
        service_account_dir=str(tmp_path),
    )
    made = {"contexts": [{"name": "empty", "context": {}}]}
    path = write(tmp_path / "config", made)
    found = Contexts.read(Loader(overrides=Overrides(), environment=environment), path)
    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        found.config("empty")
