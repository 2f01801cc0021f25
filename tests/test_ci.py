"""What `.ci/run` and `make e2e` do where there is no real API server to be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def prepare(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """On a machine with neither Go nor apt-get."""
    return subprocess.run(
        [sys.executable, "-m", "tests.e2e.prepare", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": str(cache), "KUBEAUTH_E2E_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_missing_is_said_and_is_no_success(tmp_path: Path) -> None:
    ran = prepare(tmp_path)
    assert ran.returncode == 3
    assert "kube: no Go here to build it with" in ran.stdout
    assert "Plugins of others were not looked for" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_kubectl_nothing_is_printed_for_it(tmp_path: Path) -> None:
    ran = prepare(tmp_path, "--kubectl")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "", "kube: no Go here to build it with\n")


def test_prepare_explains_itself_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    assert "--kubectl" in prepare(tmp_path, "--help").stdout
    refused = prepare(tmp_path, "--nonsense")
    assert (refused.returncode, refused.stdout) == (2, "")


@pytest.mark.parametrize(
    ("prepared", "exit_code", "is_tried", "is_skipped"),
    [(0, 0, True, False), (3, 0, False, True), (1, 1, False, False)],
    ids=["all there", "something is missing", "something is broken"],
)
def test_the_end_to_end_tests_are_skipped_loudly_and_only_where_they_cannot_run(
    prepared: int, exit_code: int, is_tried: bool, is_skipped: bool, tmp_path: Path
) -> None:
    """The real script, in a checkout whose `make` and Python say what they were called with."""
    for name, code in (("make", 0), (".venv/bin/python", prepared)):
        stub = tmp_path / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(f'#!/bin/sh\necho "called: {name} $*"\nexit {code}\n')
        stub.chmod(0o700)
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    script.write_bytes((ROOT / ".ci" / "run").read_bytes())
    script.chmod(0o700)
    ran = subprocess.run(
        [str(script)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == exit_code, ran.stderr
    assert "called: .venv/bin/python -m tests.e2e.prepare\n" in ran.stdout
    assert ("called: make e2e\n" in ran.stdout) is is_tried
    # There, and once more at the end of it all.
    assert ran.stdout.count("!!! SKIPPED") == 2 * is_skipped
    assert ran.stdout.splitlines()[-1].startswith("!!!") is is_skipped
