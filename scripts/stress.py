"""Run the whole test suite repeatedly on a machine that is busy: `python -m scripts.stress --runs 5`.

Each run is what `make test-full` runs, without retries. Two processes that only use CPU time compete with it,
and with --pause any process of the run is stopped at random for up to two seconds (SIGSTOP, SIGCONT), as on
an overcommitted virtual machine. A test that fails here depends on timing.

    python -m scripts.stress --runs 50 --pause -- tests/exec/test_closing.py -k cancel
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

TESTS = "not load and not e2e and not site"
LONGEST_PAUSE = 2.0
# Ends with its standard input, so that none is left if this script is killed.
BURNER = """
import os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()
while True: pass
"""


@dataclass(frozen=True, slots=True)
class Run:
    passed: int
    failed: list[str]
    seconds: float
    pauses: int


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stress",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=5, help="how often to run the suite (default: 5)")
    parser.add_argument("--burners", type=int, default=2, help="processes that use CPU time (default: 2)")
    parser.add_argument("--pause", action="store_true", help="stop and continue processes at random")
    parser.add_argument(
        "pytest_arguments",
        nargs="*",
        metavar="PYTEST_ARGUMENT",
        help="tests to run (default: all); options of pytest after --",
    )
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs must be at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runs = []
    print(f"{'run':>4} {'passed':>7} {'failed':>7} {'pauses':>7} {'minutes':>8}", flush=True)
    with burn_cpu(arguments.burners):
        for number in range(1, arguments.runs + 1):
            run = run_suite(arguments.pytest_arguments, arguments.pause)
            runs.append(run)
            numbers = f"{run.passed:>7} {len(run.failed):>7} {run.pauses:>7} {run.seconds / 60:>8.1f}"
            print(f"{number:>4} {numbers}", *run.failed, sep="\n       ", flush=True)
    return int(any(run.failed or not run.passed for run in runs))


@contextmanager
def burn_cpu(count: int) -> Iterator[None]:
    command = [sys.executable, "-c", BURNER]
    burners = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.communicate()


def run_suite(tests: list[str], pause: bool) -> Run:
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", TESTS, "-n", "auto", "--dist", "worksteal"]
        started = time.monotonic()
        with (Path(directory) / "output").open("wb") as output:
            process = subprocess.Popen(
                [*command, f"--junitxml={results}", *tests],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            pauser = Pauser(process.pid)
            try:
                if pause:
                    pauser.start()
                status = process.wait()
            finally:
                # Also if this script is interrupted: nothing is left running or stopped.
                pauser.stop()
                kill_group(process)
        seconds = time.monotonic() - started
        text = (Path(directory) / "output").read_text(errors="replace")
        passed, failed = read_results(results) if results.exists() else (0, [])
        if status and not failed:
            failed = [f"exit status {status} of {shlex.join(command)}"]
        if failed:
            log = Path(tempfile.gettempdir()) / f"kubeauth-stress-{os.getpid()}-{int(time.time())}.log"
            log.write_text(text)
            failed = [*failed, f"(output: {log})"]
        return Run(passed, failed, seconds, pauser.count)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_results(path: Path) -> tuple[int, list[str]]:
    passed, failed = 0, []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed


class Pauser(threading.Thread):
    """Stops random descendants of a process for a moment, until `stop`."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._root = root
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(random.uniform(0, 0.5)):
            if processes := find_descendants(self._root):
                self._pause(random.choice(processes))

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()

    def _pause(self, process: int) -> None:
        # Most pauses are short. A process that ends meanwhile is no error.
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
            try:
                self._stopped.wait(LONGEST_PAUSE * random.random() ** 3)
            finally:
                os.kill(process, signal.SIGCONT)
            self.count += 1


def find_descendants(root: int) -> list[int]:
    """Return the running descendants of a process, without itself (Linux)."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = status.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, queue = [], [root]
    while queue:
        queue += (direct := children.get(queue.pop(), []))
        found += direct
    return found


if __name__ == "__main__":
    sys.exit(main())
