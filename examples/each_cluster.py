"""Every context of the kubeconfig, where it leads and how it logs in."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

import kubeauth

path = os.environ.get("KUBECONFIG", Path(__file__).parent / "kubeconfig.yaml")
names = [context["name"] for context in yaml.safe_load(Path(path).read_text())["contexts"]]
for name in sorted(names):
    config = kubeauth.load_config(path, context=name)
    credential = "token" if config.token else "anonymous"
    if config.exec:
        credential = f"exec: {config.exec.command}"
    print(f"{name:10} {config.server:45} {credential}")
