"""The soak, for half a minute; and that it can fail."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.soak.plan import SABOTAGES

ROOT = Path(__file__).parent.parent.parent
SOAK = [sys.executable, "-m", "tests.soak"]


def _soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SOAK, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def _value(table: str, row: str) -> int:
    found = re.search(rf"^.\s+{re.escape(row)}\s+([\d,]+)", table, re.M)
    assert found, table
    return int(found[1].replace(",", ""))


def test_nothing_of_ours_fails_whatever_is_done_to_it() -> None:
    run = _soak("--seconds", "36")
    assert run.returncode == 0, run.stdout + run.stderr
    for row in (
        "failed: OURS",
        "two at once",
        "lost",
        "twice",
        "left behind",
        "signed with one that was over",
    ):
        assert _value(run.stdout, row) == 0, run.stdout
    # And something was done to it.
    for row in ("requests", "server saw", "API server killed", "connections cut", "watch events"):
        assert _value(run.stdout, row) > 0, run.stdout
    for row in ("server down or restarting", "connection cut", "plugin failed, no good credential left"):
        assert _value(run.stdout, f"failed: {row}") > 0, run.stdout


SAYS = {
    "stale": "401",
    "twice": "two at once",
    "lose": "did not see",
    "leak": "descriptors: ",
}


def test_every_sabotage_is_tried() -> None:
    assert set(SAYS) == set(SABOTAGES)


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_it_fails_if_it_is_made_to(sabotage: str) -> None:
    run = _soak("--seconds", "12", "--sabotage", sabotage)
    assert run.returncode == 1, run.stdout + run.stderr
    assert any(SAYS[sabotage] in line for line in run.stdout.splitlines() if line.startswith("OURS: "))


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = tmp_path / "temporary"
    directory.mkdir()
    environment = {**os.environ, "TMPDIR": str(directory)}
    command = [*SOAK, "--seconds", "600"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    ) as soak:
        assert soak.stdout is not None
        try:
            soak.stdout.readline()  # it has begun
            time.sleep(3)
            soak.send_signal(signal.SIGINT)
            said = soak.stdout.read()
        finally:
            soak.kill()
    assert soak.returncode == 0, said
    assert "Interrupted after" in said
    assert list(directory.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(soak.pid, 0)


@pytest.mark.parametrize(
    ("arguments", "environment", "seconds"),
    [([], {}, "600"), (["SECONDS=45"], {}, "45"), ([], {"SECONDS": "90"}, "90")],
)
def test_make_says_for_how_long(arguments: list[str], environment: dict[str, str], seconds: str) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in ("SECONDS", "MAKEFLAGS")}
    make = shutil.which("make")
    assert make is not None
    run = subprocess.run(
        [make, "-n", "soak", *arguments],
        cwd=ROOT,
        env=variables | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"-m tests.soak --seconds {seconds} " in f"{run.stdout} "
