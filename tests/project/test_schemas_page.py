"""docs/schemas.md: what it shows of check-jsonschema is what a user sees, and its settings name existing schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubeauth.cli._schema import MODELS
from tests.cli.programs import kubeauth
from tests.support.blocks import ROOT, blocks

PAGE = ROOT / "docs" / "schemas.md"
CHECK = Path(sys.executable).parent / "check-jsonschema"
MISSPELLED = """\
apiVersion: v1
kind: Config
users:
- name: aws
  user:
    exec: {comand: aws, args: [1]}
"""


def check(*arguments: object, directory: Path) -> tuple[int, str]:
    done = subprocess.run(
        [CHECK, *map(str, arguments)], cwd=directory, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def schema(tmp_path: Path) -> str:
    (tmp_path / "kubeconfig.schema.json").write_text(kubeauth("schema", "kubeconfig").out)
    return "kubeconfig.schema.json"


def test_check_jsonschema_prints_what_the_page_shows(tmp_path: Path, schema: str) -> None:
    (shown,) = (block.code for block in blocks(PAGE, "console") if "comand" in block.code)
    (tmp_path / "config.yaml").write_text(MISSPELLED)

    status, printed = check("--schemafile", schema, "config.yaml", directory=tmp_path)

    assert status == 1
    assert printed.strip() == "\n".join(line for line in shown.splitlines() if line[0] != "$")


def test_check_jsonschema_accepts_our_kubeconfig_and_the_one_on_the_page(tmp_path: Path, schema: str) -> None:
    (written,) = (block.code for block in blocks(PAGE, "text") if "kind: Config" in block.code)
    (tmp_path / "config.yaml").write_text(written)

    for path in (ROOT / "examples" / "kubeconfig.yaml", "config.yaml"):
        assert check("--schemafile", schema, path, directory=tmp_path) == (0, "ok -- validation done\n")


def test_the_settings_of_vs_code_name_existing_schemas() -> None:
    (settings,) = (json.loads(block.code) for block in blocks(PAGE, "json"))
    names = [Path(path).name.removesuffix(".schema.json") for path in settings["yaml.schemas"]]
    assert names
    assert set(names) <= set(MODELS)
