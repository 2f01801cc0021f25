"""The wheel, as users get it: built, installed apart, imported from outside the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    code = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    run = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return out / run.stdout.splitlines()[-1]


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
        commands = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kubeauth"}
    assert "kubeauth/py.typed" in names
    assert sorted(filter(None, commands.splitlines())) == [
        "[console_scripts]",
        "docker-credential-kubeauth = kubeauth.cli._docker_credential:main",
        "kubeauth = kubeauth.cli:main",
    ]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    for extra in ("httpx2", "cli", "gmsa", "http2", "socks", "all", "kubernetes"):
        assert f"Provides-Extra: {extra}" in metadata


def test_the_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # -P and an empty working directory: nothing of the checkout can be picked up by accident.
    code = f"""
import sys
sys.path.insert(0, {str(site)!r})
import kubeauth
assert kubeauth.__file__.startswith({str(site)!r}), kubeauth.__file__
config = kubeauth.load_config(b"clusters: [{{name: c, cluster: {{server: 'https://h'}}}}]", cluster="c")
print(kubeauth.__version__, config.server)
"""
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[1] == "https://h"
