"""Every context of a kubeconfig: where it leads, and how it logs in.

python examples/each_cluster.py [KUBECONFIG]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

import kubeauth

parser = argparse.ArgumentParser(description="Every context of a kubeconfig: where it leads, how it logs in.")
parser.add_argument("path", nargs="?", type=Path, default=Path(__file__).parent / "kubeconfig.yaml")
path = parser.parse_args().path
try:
    document = yaml.safe_load(path.read_text())
except OSError as error:
    sys.exit(f"error: cannot read {path}: {error.strerror}. Give the path of a kubeconfig.")
for name in sorted(context["name"] for context in document["contexts"]):
    # From the file, so that its relative paths count from where it lies.
    config = kubeauth.load_config(path, context=name)
    credential = "token" if config.token else "anonymous"
    if config.exec:
        credential = f"exec: {config.exec.command}"
    print(f"{name:10} {config.server:50} {credential}")
