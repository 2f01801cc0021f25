"""What `.ci/run` does, and `make e2e` where there is no real API server to be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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


# Stands in for `make`: reports how it was called, and makes a Python that does so too.
MAKE = """#!/bin/sh
mkdir -p .venv/bin
cat >.venv/bin/python <<'END'
#!/bin/sh
echo "called: .venv/bin/python $*"
exit {prepared}
END
chmod +x .venv/bin/python
echo "called: make $*"
case "$1" in test-full|demo)
  echo "$1 in: $PWD"
  echo "$1 keys: $(grep -l 'PRIVATE KEY' "$TMPDIR"/* | wc -l)"
  echo "$1 home: $(cd "$HOME" && find . -type f | sort | xargs)"
  echo "$1 kubeconfig: $(ls "$KUBECONFIG" 2>/dev/null || echo missing)"
  echo "$1 umask: $(umask)"
  echo "$1 repository: $(git rev-parse --absolute-git-dir)"
esac
[ "$1" != "{fails}" ]
"""


class Checkout:
    """A repository with the real script in it, and a `make` that reports how it was called."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "elsewhere"
        self.bin = directory / "bin"
        self.scratch = directory / "scratch"
        for each in (self.path / ".ci", self.bin, self.scratch):
            each.mkdir(parents=True)
        self.script = self.path / ".ci" / "run"
        self.script.write_bytes((ROOT / ".ci" / "run").read_bytes())
        self.script.chmod(0o700)
        git = ["git", "-C", str(self.path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
            subprocess.run([*git, *command], check=True)

    def run(self, *, prepared: int = 0, fails: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        make = self.bin / "make"
        make.write_text(MAKE.format(prepared=prepared, fails=fails))
        make.chmod(0o700)
        path = f"{self.bin}:{os.environ['PATH']}"
        return subprocess.run(
            [str(self.script)],
            cwd=self.path,
            env={**os.environ, "PATH": path, "TMPDIR": str(self.scratch), "CI": "true", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("prepared", "exit_code", "is_tried", "is_skipped"),
    [(0, 0, True, False), (3, 0, False, True), (1, 1, False, False)],
    ids=["all there", "something is missing", "something is broken"],
)
def test_the_end_to_end_tests_are_skipped_loudly_and_only_where_they_cannot_run(
    prepared: int, exit_code: int, is_tried: bool, is_skipped: bool, checkout: Checkout
) -> None:
    ran = checkout.run(prepared=prepared)
    assert ran.returncode == exit_code, ran.stderr
    assert "called: .venv/bin/python -m tests.e2e.prepare\n" in ran.stdout
    assert ("called: make e2e\n" in ran.stdout) is is_tried
    # There, and once more at the end of it all.
    assert ran.stdout.count("!!! SKIPPED") == 2 * is_skipped
    assert ran.stdout.splitlines()[-1].startswith("!!!") is is_skipped


def report(step: str, stdout: str) -> dict[str, str]:
    """What `make` reports of this step."""
    lines = (line for line in stdout.splitlines() if line.startswith(f"{step} "))
    return dict(line.removeprefix(f"{step} ").split(": ", 1) for line in lines)


@pytest.mark.parametrize("step", ["test-full", "demo"])
def test_the_tests_and_the_demo_run_as_on_the_machine_of_a_newcomer(step: str, checkout: Checkout) -> None:
    ran = checkout.run()
    assert ran.returncode == 0, ran.stderr
    reported = report(step, ran.stdout)
    clone = Path(reported["in"])
    assert clone.name == "kubeauth"
    assert " " in str(clone.relative_to(checkout.scratch))
    assert not str(clone.relative_to(checkout.scratch)).isascii()
    assert reported["keys"] == "2"
    assert reported["home"] == "./.docker/config.json ./.kube/config ./.kube/kuberc ./.netrc"
    assert reported["kubeconfig"] == "missing"
    assert reported["umask"] == "0077"


@pytest.mark.parametrize("fails", ["", "lint", "test-full", "demo"])
def test_the_first_step_that_fails_is_the_last_and_nothing_is_left_behind(
    fails: str, checkout: Checkout
) -> None:
    ran = checkout.run(fails=fails)
    assert ran.returncode == bool(fails), ran.stderr
    called = [line for line in ran.stdout.splitlines() if line.startswith("called: make ")]
    assert called[-1].startswith(f"called: make {fails or 'demo'}")
    assert list(checkout.scratch.iterdir()) == []
    assert not (checkout.path / ".venv").exists()


def test_changes_that_are_not_committed_are_reported(checkout: Checkout) -> None:
    assert "!!! NOT TESTED" not in checkout.run().stdout
    (checkout.path / "new").touch()
    assert "!!! NOT TESTED, because it is not committed:\n?? new\n" in checkout.run().stdout


def test_a_hook_of_git_can_start_it(checkout: Checkout) -> None:
    """Which has set the variables that say where its repository is."""
    ran = checkout.run(GIT_DIR=str(checkout.path / ".git"), GIT_INDEX_FILE=".git/index")
    assert ran.returncode == 0, ran.stderr
    reported = report("test-full", ran.stdout)
    assert reported["repository"] == f"{reported['in']}/.git"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_checkout_of_another_user_is_cloned(checkout: Checkout, nobody: int) -> None:
    """As in a container, where a volume has another owner."""
    for path in (checkout.path, *checkout.path.rglob("*")):
        os.chown(path, nobody, nobody)
    ran = checkout.run()
    assert ran.returncode == 0, ran.stderr
