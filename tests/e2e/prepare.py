"""Gets everything the end-to-end tests need: `python -m tests.e2e.prepare`.

Exits with 3 when something cannot be had on this machine, and says what; with 1 when something of ours is broken.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e import third_party, tools

CANNOT_BE_HAD = 3

NEEDED: dict[str, Callable[[], Path]] = {
    "etcd": lambda: tools.debian("etcd", "etcd-server"),
    "prometheus": lambda: tools.debian("prometheus", "prometheus"),
    "promtool": lambda: tools.debian("promtool", "prometheus"),
    "docker-registry": tools.docker_registry,
    "skopeo": tools.skopeo,
    "htpasswd": tools.htpasswd,
    "chromium": tools.chromium,
    f"kube-apiserver, kube-controller-manager and kubectl {tools.KUBERNETES}": tools.kube,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.prepare", description=__doc__)
    parser.add_argument("--kubectl", action="store_true", help="say where kubectl is, and nothing else")
    try:
        return _kubectl() if parser.parse_args().kubectl else _everything()
    except subprocess.CalledProcessError as error:
        print(f"BROKEN\n{error.stderr}", file=sys.stderr)
        return 1


def _kubectl() -> int:
    try:
        print(tools.kubectl())
    except tools.Missing as error:
        print(error, file=sys.stderr)
        return CANNOT_BE_HAD
    return 0


def _everything() -> int:
    missing = gotten(NEEDED)
    if missing:
        what = f"{len(missing)} of {len(NEEDED)} cannot be had here: the end-to-end tests cannot run"
        print(f"{what}. Plugins of others were not looked for.", file=sys.stderr)
        return CANNOT_BE_HAD
    # Tests of those that cannot be had skip themselves.
    gotten({f"kubeadm {tools.KUBERNETES}": tools.kubeadm} | third_party.PROGRAMS)
    return 0


def gotten(programs: dict[str, Callable[[], Path]]) -> list[str]:
    """Gets each of them, saying so, and returns what cannot be had."""
    missing = []
    for name, get in programs.items():
        print(f"{name} ... ", end="", flush=True)
        started = time.monotonic()
        try:
            path = get()
        except tools.Missing as error:
            print(f"MISSING\n  {error}", flush=True)
            missing.append(name)
        else:
            print(f"{path} ({time.monotonic() - started:.0f} s)", flush=True)
    return missing


if __name__ == "__main__":
    sys.exit(main())
