"""A client that is not there, or not one that an adapter was made for, is said to be so."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from kubeauth import adapters
from kubeauth.adapters._versions import check_version
from kubeauth.errors import ConfigError
from tests.support.cases import each_case

MAKES = {
    "lightkube": "kubeauth.adapters.lightkube.client",
    "kr8s": "kubeauth.adapters.kr8s.api",
    "httpx2-k8s": "kubeauth.adapters.httpx2_k8s.client",
}


def in_a_fresh_process(code: str) -> Any:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@each_case(
    ("module", "package"),
    [
        ("kubernetes", "kubernetes"),
        ("kubernetes_aio", "kubernetes"),
        ("kubernetes_asyncio", "kubernetes_asyncio"),
        ("lightkube", "lightkube"),
        ("kr8s", "kr8s"),
        ("httpx2_k8s", "httpx2-k8s"),
    ],
)
def test_without_the_client_it_says_what_to_install(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == package.replace("-", "_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    monkeypatch.delitem(sys.modules, f"kubeauth.adapters.{module}", raising=False)
    monkeypatch.delitem(vars(adapters), module, raising=False)
    with pytest.raises(ImportError) as caught:
        import_module(f"kubeauth.adapters.{module}")
    assert str(caught.value).startswith(f"kubeauth.adapters.{module} needs {package}")
    assert f"pip install 'kubeauth[{package}]'" in str(caught.value)


def test_what_there_is() -> None:
    assert dir(adapters) == sorted(
        ["kubernetes", "kubernetes_aio", "kubernetes_asyncio", "lightkube", "kr8s", "httpx2_k8s"]
    )
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        getattr(adapters, "nope")  # noqa: B009 -- an unknown name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "installed", "range"),
    [
        ("lightkube", "1.0.0", ">=1.0.1,<2"),
        ("lightkube", "2.0.0", ">=1.0.1,<2"),
        ("kr8s", "0.20.9", ">=0.20.10,<0.21"),
        ("kr8s", "0.21.0rc1", ">=0.20.10,<0.21"),
        ("httpx2-k8s", "0.3.0", ">=0.2.0,<0.3"),
        ("httpx2-k8s", "unknown", ">=0.2.0,<0.3"),
    ],
)
def test_another_version_is_refused(package: str, installed: str, range: str, tmp_path: Path) -> None:
    """What is installed says so itself: a folder that is found first says something else."""
    folder = tmp_path / f"{package.replace('-', '_')}-{installed}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {installed}\n")
    module, _, function = MAKES[package].rpartition(".")
    code = f"""
import json, sys
sys.path.insert(0, {str(tmp_path)!r})
import kubeauth, {module}
try:
    {module}.{function}(kubeauth.ClientConfig(server="https://127.0.0.1:1"))
except kubeauth.errors.ConfigError as error:
    print(json.dumps(str(error)))
"""
    said = in_a_fresh_process(code)
    assert said.startswith(f"{package} {installed} is installed, and this adapter works with ")
    assert said.endswith(f"pip install '{package}{range}'")


def test_versions_are_compared_as_numbers() -> None:
    installed = version("pytest")
    major = int(installed.partition(".")[0])
    check_version("pytest", since=installed, before=f"{major + 1}", why="of nothing")
    check_version("pytest", since="0.10", before="1000", why="of nothing")
    with pytest.raises(
        ConfigError, match=f"pytest {installed} is installed.*before 1.0: of nothing. Install"
    ):
        check_version("pytest", since="0.9", before="1.0", why="of nothing")
