"""Plugins of pydantic, such as logfire's, are told not to record documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# What logfire's plugin does with its settings.
PLUGIN = """
seen = []

class Handler:
    def on_enter(self, input, **_options):
        seen.append(repr(input))

class Plugin:
    def new_schema_validator(self, schema, schema_type, path, kind, config, plugin_settings):
        if plugin_settings.get("logfire", {}).get("record") == "off":
            return None, None, None
        return Handler(), Handler(), Handler()

plugin = Plugin()
"""
PROGRAM = """
from pydantic import BaseModel
from recording import seen
from kubeauth import load_config, schemas

class Control(BaseModel):
    x: str

class Derived(schemas.User):
    more: str = ""

Control(x="recorded")
Derived.model_validate({"token": "s3cr3t"})
schemas.ExecCredential.model_validate({"status": {"token": "s3cr3t"}})
schemas.SecretObject(data={"k": b"s3cr3t"})
load_config({
    "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
    "users": [{"name": "u", "user": {"token": "s3cr3t"}}],
})
print(seen)
"""


def test_documents_are_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "recording.py").write_text(PLUGIN)
    metadata = tmp_path / "recording-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: recording\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pydantic]\nrecording = recording:plugin\n")

    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert "recorded" in run.stdout
    assert "s3cr3t" not in run.stdout
