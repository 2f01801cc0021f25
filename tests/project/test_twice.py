"""What `.ci/run` makes of tests that fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import twice

# Fails as often as it is told to, and counts how often it was run.
COUNTED = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({failing}))
def test_it(number):
    ran = pathlib.Path(f"ran-{{number}}")
    times = len(ran.read_text()) if ran.exists() else 0
    ran.write_text("x" * (times + 1))
    assert times >= {failures}

def test_that_passes():
    with open("passed", "a") as file:
        file.write("x")
"""


def run(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, twice.__file__, "-q", *arguments],
        cwd=where,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # which take longer than all the rest
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "failures", "code", "times", "named"),
    [
        pytest.param(1, 0, 0, 1, 0, id="none fails"),
        pytest.param(1, 1, 0, 6, 1, id="one fails once"),
        pytest.param(3, 1, 0, 6, 3, id="three fail once"),
        pytest.param(4, 1, 1, 1, 0, id="four fail"),
        pytest.param(1, 2, 1, 2, 0, id="it fails again"),
        pytest.param(1, 9, 1, 2, 0, id="it always fails"),
    ],
)
def test_what_failed_once_must_pass_five_times_alone(
    failing: int, failures: int, code: int, times: int, named: int, tmp_path: Path
) -> None:
    (tmp_path / "test_counted.py").write_text(COUNTED.format(failing=failing, failures=failures))
    ran = run(tmp_path, "test_counted.py")
    assert ran.returncode == code, ran.stdout
    assert {len(path.read_text()) for path in tmp_path.glob("ran-*")} == {times}
    assert (tmp_path / "passed").read_text() == "x"
    file = tmp_path / twice.NAMED
    assert (file.read_text().splitlines() if file.exists() else []) == [
        f"test_counted.py::test_it[{number}]" for number in range(named)
    ]


@pytest.mark.parametrize(("source", "code"), [("", 5), ("nonsense(", 2)], ids=["no test", "no Python"])
def test_whatever_else_is_wrong_is_wrong(source: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(source)
    assert run(tmp_path, "test_nothing.py").returncode == code
    assert run(tmp_path, "--nonsense").returncode == 4


def test_what_failed_before_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / twice.FAILED).parent.mkdir(parents=True)
    (tmp_path / twice.FAILED).write_text('{"test_other.py::test_gone": true}')
    (tmp_path / "test_counted.py").write_text(COUNTED.format(failing=1, failures=1))
    assert run(tmp_path, "test_counted.py").returncode == 0
    assert "gone" not in (tmp_path / twice.NAMED).read_text()
