"""A kubeconfig that is read once for all of its contexts; each config equals what load_config returns."""

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


def loader(**environ: str) -> Loader:
    return Loader(
        overrides=Overrides(),
        exec_options=OPTIONS,
        environment=Environment(environ=environ) if environ else Environment(),
    )


def test_each_context_equals_the_result_of_load_config() -> None:
    contexts = Contexts.read(loader(), SAMPLE)
    assert contexts.names == ("prod", "staging", "local")
    for name in contexts.names:
        expected = load_config(SAMPLE, context=name, exec_options=OPTIONS)
        assert contexts.config(name) == expected
        assert contexts.config(name)._origin == expected._origin
        assert pickle.loads(pickle.dumps(contexts.config(name))) == expected


def test_several_files_are_merged_as_by_load_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "first", document())
    second = write(tmp_path / "second", {**document({"server": "https://other"}), "contexts": [
        {"name": "y", "context": {"cluster": "c", "user": "u"}}]})  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([first, second]))

    contexts = Contexts.read(loader())

    assert contexts.names == ("x", "y")
    assert contexts.paths == (first, second)
    for name in contexts.names:
        assert pickle.loads(pickle.dumps(contexts.config(name))) == load_config(
            context=name, exec_options=OPTIONS
        )


def test_an_invalid_context_does_not_affect_the_others() -> None:
    kubeconfig = document()
    kubeconfig["contexts"].append({"name": "bad", "context": {"cluster": "c", "user": "missing"}})

    contexts = Contexts.read(loader(), kubeconfig)

    assert contexts.entry("bad").user == "missing"
    with pytest.raises(KubeConfigError, match='user "missing" was not found'):
        contexts.config("bad")
    assert contexts.config("x").server == "https://h:6443"


def test_kuberc_is_read_once_and_only_for_a_plugin(tmp_path: Path) -> None:
    kubeconfig = document(user=plugin())
    kubeconfig["contexts"].append({"name": "plain", "context": {"cluster": "c"}})
    path = tmp_path / "kuberc"
    contexts = Contexts.read(loader(KUBERC=str(path)), kubeconfig)

    assert contexts.config("plain").exec is None
    with pytest.raises(KubeConfigError, match="kuberc"):
        contexts.config("x")

    path.write_text(f"{KUBERC}DenyAll\n")
    first = contexts.config("x").exec
    path.unlink()
    again = contexts.config("x").exec

    assert first is not None
    assert again is not None
    assert first.policy == again.policy == PluginPolicy.deny_all()


def test_a_context_never_falls_back_to_the_in_cluster_config(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    environment = Environment(
        environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
        service_account_dir=str(tmp_path),
    )
    kubeconfig = {"contexts": [{"name": "empty", "context": {}}]}
    path = write(tmp_path / "config", kubeconfig)
    contexts = Contexts.read(Loader(overrides=Overrides(), environment=environment), path)

    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        contexts.config("empty")
