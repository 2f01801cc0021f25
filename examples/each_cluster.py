"""Every context of a kubeconfig: where it leads, and how it logs in.

python examples/each_cluster.py [KUBECONFIG]
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

import kubeauth

path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "kubeconfig.yaml"
document = yaml.safe_load(path.read_text())
for name in sorted(context["name"] for context in document["contexts"]):
    # From the file, so that its relative paths count from where it lies.
    config = kubeauth.load_config(path, context=name)
    credential = "token" if config.token else "anonymous"
    if config.exec:
        credential = f"exec: {config.exec.command}"
    print(f"{name:10} {config.server:50} {credential}")
