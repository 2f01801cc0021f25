"""Prepares the programs that the end-to-end tests run: `python -m tests.e2e.prepare`.

Exits with 3 when a required program is not available on this machine, and with 1 when a build of ours fails.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.e2e import third_party, tools

UNAVAILABLE = 3

Prepare = Callable[[], Path]

REQUIRED: dict[str, Prepare] = {
    "etcd": lambda: tools.debian("etcd", "etcd-server"),
    "prometheus": lambda: tools.debian("prometheus", "prometheus"),
    "promtool": lambda: tools.debian("promtool", "prometheus"),
    "docker-registry": tools.docker_registry,
    "skopeo": tools.skopeo,
    "htpasswd": tools.htpasswd,
    "chromium": tools.chromium,
    f"kube-apiserver, kube-controller-manager and kubectl {tools.KUBERNETES}": tools.kube,
}


def select_optional(*, full: bool) -> dict[str, Prepare]:
    """The programs whose tests are skipped where they are missing; `full`: those that take minutes to build, too."""
    slow = {name: program.build if full else program.find for name, program in third_party.SLOW.items()}
    return {f"kubeadm {tools.KUBERNETES}": tools.kubeadm} | third_party.QUICK | slow


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.prepare", description=__doc__)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--kubectl", action="store_true", help="only print the path of kubectl")
    group.add_argument(
        "--full", action="store_true", help="also build the plugins that take minutes to build"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _exit)  # so that files of unfinished downloads and builds are removed
    try:
        return print_kubectl() if arguments.kubectl else prepare_all(full=arguments.full)
    except subprocess.CalledProcessError as error:
        print(f"FAILED\n{error.stderr}", file=sys.stderr)
        return 1


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def print_kubectl() -> int:
    try:
        print(tools.kubectl())
    except tools.Missing as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE
    return 0


def prepare_all(*, full: bool) -> int:
    missing = prepare(REQUIRED)
    if missing:
        print(
            f"{len(missing)} of {len(REQUIRED)} required programs are not available: the end-to-end tests cannot run. "
            "Third-party plugins were not prepared.",
            file=sys.stderr,
        )
        return UNAVAILABLE
    prepare(select_optional(full=full))
    return 0


def prepare(programs: Mapping[str, Prepare]) -> list[str]:
    """Prepares each of the programs, prints where it is, and returns the names of those that are missing."""
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
