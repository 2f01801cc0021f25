"""`.ci/run`, and the preparation of programs for `make e2e`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.e2e import third_party
from tests.support.residue import is_alive, wait_until

ROOT = Path(__file__).parents[2]


def prepare(
    cache: Path, *arguments: str, path: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """On a machine with the programs in `path` only: by default, none."""
    return subprocess.run(
        [sys.executable, "-m", "tests.e2e.prepare", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": str(path or cache), "KUBEAUTH_E2E_CACHE": str(cache), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_prepare_reports_missing_programs_and_fails(tmp_path: Path) -> None:
    ran = prepare(tmp_path)
    assert ran.returncode == 3
    assert "kube: there is no Go on this machine to build it" in ran.stdout
    assert "Third-party plugins were not prepared" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_prepare_does_not_print_a_path_of_kubectl_where_it_is_missing(tmp_path: Path) -> None:
    ran = prepare(tmp_path, "--kubectl")
    missing = "kube: there is no Go on this machine to build it\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "", missing)


@pytest.mark.parametrize("arguments", [("--nonsense",), ("--full", "--kubectl")])
def test_prepare_rejects_wrong_arguments(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ran = prepare(tmp_path, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "usage: python -m tests.e2e.prepare" in ran.stderr


# Logs how it is called, and creates the file that `go build -o FILE` or `go install` creates.
GO = """#!/bin/sh
echo "$*" >>"$GO_LOG"
case "$1" in
  build) while [ "$1" != -o ]; do shift; done; : >"$2" ;;
  install) : >"$GOBIN/program" ;;
esac
"""
SLOW_PLUGINS = {
    "aws-iam-authenticator": "sigs.k8s.io/aws-iam-authenticator/cmd/aws-iam-authenticator@",
    "azure-kubelogin": "github.com/Azure/kubelogin@",
}


class Machine:
    """Has every program that the end-to-end tests need but those that Go builds."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        self.bin = directory / "bin"
        self._go_log = directory / "go.log"
        self.bin.mkdir()
        for name in ("etcd", "prometheus", "promtool", "docker-registry", "skopeo", "htpasswd", "chromium"):
            self._write(self.bin / name, "#!/bin/sh\n")
        self._write(self.bin / "go", GO)
        # The one that comes from PyPI.
        aws = self.cache / "pypi" / f"awscli-{third_party.AWSCLI}" / "bin" / "aws"
        aws.parent.mkdir(parents=True)
        self._write(aws, "#!/bin/sh\n")

    def prepare(self, *arguments: str) -> tuple[str, str]:
        """What it prints, and how it called Go."""
        self._go_log.write_text("")
        ran = prepare(self.cache, *arguments, path=self.bin, GO_LOG=str(self._go_log))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout, self._go_log.read_text()

    def _write(self, path: Path, script: str) -> None:
        path.write_text(script)
        path.chmod(0o700)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_only_e2e_full_builds_the_plugins_that_take_minutes(machine: Machine) -> None:
    printed, built = machine.prepare()
    for name, package in SLOW_PLUGINS.items():
        assert f"{name}: not built; `make e2e-full` builds it" in printed
        assert package not in built
    for name in ("kube", "kubeadm", "int128-kubelogin"):
        assert f"/{name} -ldflags" in built

    printed, built = machine.prepare("--full")
    for package in SLOW_PLUGINS.values():
        assert package in built
    assert "e2e-full" not in printed


def test_programs_that_are_built_are_used_and_not_built_again(machine: Machine) -> None:
    machine.prepare("--full")
    printed, built = machine.prepare()
    assert built == ""
    for name in SLOW_PLUGINS:
        (path,) = machine.cache.glob(f"go/{name}-*/{name}")
        assert str(path) in printed


def test_an_interrupted_build_leaves_no_files(machine: Machine) -> None:
    building = machine.bin / "building"
    build = f"if [ \"$1\" = build ]; then : >'{building}'; exec /bin/sleep 600; fi"
    (machine.bin / "go").write_text(f"#!/bin/sh\n{build}\n")
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.prepare"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(machine.bin), "KUBEAUTH_E2E_CACHE": str(machine.cache)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(building.exists)
        assert any(machine.cache.glob("go/.*"))
    finally:
        os.killpg(running.pid, signal.SIGTERM)

    assert running.wait() == 128 + signal.SIGTERM
    assert list((machine.cache / "go").iterdir()) == []


@pytest.mark.parametrize(("target", "arguments"), [("e2e", ""), ("e2e-full", " --full")])
def test_make_prepares_the_programs_before_the_end_to_end_tests(target: str, arguments: str) -> None:
    dry_run = ["make", "-n", target]
    ran = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=True)
    commands = [
        line for line in ran.stdout.splitlines() if "tests.e2e.prepare" in line or "tests/e2e" in line
    ]
    assert commands[0] == f".venv/bin/python -m tests.e2e.prepare{arguments}"
    assert " -m e2e tests/e2e " in commands[1]


@pytest.mark.slow
def test_tests_of_a_plugin_that_is_not_built_are_skipped(machine: Machine) -> None:
    test = "tests/e2e/test_third_party_plugins.py::test_where_it_is_not_installed_the_hint_is_shown"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *(f"{test}[{name}]" for name in SLOW_PLUGINS)],
        cwd=ROOT,
        env={**os.environ, "PATH": str(machine.bin), "KUBEAUTH_E2E_CACHE": str(machine.cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.splitlines()[-1].startswith(f"{len(SLOW_PLUGINS)} skipped")
    for name in SLOW_PLUGINS:
        assert f"{name}: not built; `make e2e-full` builds it" in ran.stdout


# Stands in for `make`: reports how it was called; `make venv` creates a Python that does so too.
MAKE = """#!/bin/sh
if [ "$1" = venv ]; then
  mkdir -p .venv/bin
  cat >.venv/bin/python <<'END'
#!/bin/sh
echo "called: .venv/bin/python $*"
{prepare}
END
  chmod +x .venv/bin/python
fi
echo "called: make $*"
case "$1" in test-full|demo)
  echo "$1 in: $PWD"
  echo "$1 keys: $(grep -l 'PRIVATE KEY' "$TMPDIR"/* | wc -l)"
  echo "$1 home: $(cd "$HOME" && find . -type f | sort | xargs)"
  echo "$1 kubeconfig: $(ls "$KUBECONFIG" 2>/dev/null || echo missing)"
  echo "$1 umask: $(umask)"
  echo "$1 repository: $(git rev-parse --absolute-git-dir)"
esac
case "$1" in
  {commands}
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

    def run(
        self,
        *,
        prepare: str = "exit 0",
        fails: str = "",
        commands: Mapping[str, str] = MappingProxyType({}),
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        """With shell commands for the preparation, and for targets of `make`."""
        make = self.bin / "make"
        cases = "\n  ".join(f"{target}) {command} || exit 1 ;;" for target, command in commands.items())
        make.write_text(MAKE.format(prepare=prepare, fails=fails, commands=cases or "none) ;;"))
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
    ran = checkout.run(prepare=f"exit {prepared}")
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


def test_load_tests_wait_for_the_preparation_and_earlier_steps_do_not(checkout: Checkout) -> None:
    documented, prepared = checkout.bin / "documented", checkout.bin / "prepared"
    ran = checkout.run(
        prepare=f"until [ -e '{documented}' ]; do sleep 0.05; done; sleep 0.2; touch '{prepared}'",
        commands={"docs": f"touch '{documented}'", "test-load": f"[ -e '{prepared}' ]"},
    )
    assert ran.returncode == 0, ran.stderr
    assert "called: make e2e\n" in ran.stdout


def test_a_preparation_that_still_runs_is_stopped_with_its_children(checkout: Checkout) -> None:
    pids = checkout.bin / "pids"
    ran = checkout.run(
        prepare=f"sleep 600 & echo $$ $! >'{pids}.new'; mv '{pids}.new' '{pids}'; wait",
        fails="lint",
        commands={"lint": f"until [ -e '{pids}' ]; do sleep 0.05; done"},
    )
    assert ran.returncode == 1
    started = [int(pid) for pid in pids.read_text().split()]
    wait_until(lambda: not any(map(is_alive, started)))
    assert list(checkout.scratch.iterdir()) == []


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
def test_a_checkout_of_another_user_is_cloned(checkout: Checkout, unprivileged_user: int) -> None:
    """As in a container, where a volume has another owner."""
    for path in (checkout.path, *checkout.path.rglob("*")):
        os.chown(path, unprivileged_user, unprivileged_user)
    ran = checkout.run()
    assert ran.returncode == 0, ran.stderr
