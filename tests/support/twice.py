"""pytest, for `.ci/run`: what fails beside all the others is run again alone.

    python -m tests.support.twice [pytest's arguments]

Of thousands of tests with processes, sockets and signals, one in some runs meets a machine that stands still at the
wrong moment. It is neither waved through nor does it hold up what has nothing to do with it: it must pass five
times in a row, by itself, and is named at the end. More than three that failed are no accident.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

AT_MOST = 3
TIMES = 5
FAILED = Path(".pytest_cache/v/cache/lastfailed")
# What is to be said once more at the end.
NAMED = Path(".pytest_cache/failed_once")


def main(arguments: list[str]) -> int:
    """The exit code."""
    FAILED.unlink(missing_ok=True)
    code = pytest(*arguments)
    if code != 1 or not FAILED.exists():  # 1: tests have failed. All else is no matter of luck.
        return code
    failed = sorted(json.loads(FAILED.read_text()))
    if len(failed) > AT_MOST:
        return code
    for number in range(1, TIMES + 1):
        print(f"\n=== failed once, alone now ({number} of {TIMES}): {', '.join(failed)}", flush=True)
        if code := pytest("-q", "-p", "no:cacheprovider", *failed, PYTEST_TIMEOUT="300"):  # as the load tests
            return code
    with NAMED.open("a") as file:
        file.writelines(f"{name}\n" for name in failed)
    return 0


def pytest(*arguments: str, **variables: str) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
