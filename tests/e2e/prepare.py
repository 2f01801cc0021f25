"""Gets everything the end-to-end tests need: `python -m tests.e2e.prepare`.

With --kubectl, says where that is. Exits with 3 when something cannot be had on this machine, and says what; with 1 when something of ours is broken.
"""

from __future__ import annotations

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
    f"kube-apiserver, kube-controller-manager and kubectl {tools.KUBERNETES}": tools.kube,
}


def main() -> int:
    if sys.argv[1:] == ["--kubectl"]:
        print(tools.kubectl())
        return 0
    missing = 0
    for name, get in NEEDED.items():
        print(f"{name} ... ", end="", flush=True)
        started = time.monotonic()
        try:
            path = get()
        except tools.Missing as error:
            print(f"MISSING\n  {error}")
            missing += 1
        except subprocess.CalledProcessError as error:
            print(f"BROKEN\n{error.stderr}")
            return 1
        else:
            print(f"{path} ({time.monotonic() - started:.0f} s)")
    # Tests of those that cannot be had skip themselves.
    third_party.prepare()
    if missing:
        print(
            f"{missing} of {len(NEEDED)} cannot be had here: the end-to-end tests cannot run", file=sys.stderr
        )
    return CANNOT_BE_HAD if missing else 0


if __name__ == "__main__":
    sys.exit(main())
