"""Put bugs into the core, one at a time, and see which tests find them.

    python -m scripts.mutations record    run all tests once, and record the lines that each of them executes
    python -m scripts.mutations run       try the mutations that have no result yet
    python -m scripts.mutations report    print the results as a Markdown table

The mutations are listed in scripts/mutations.toml. Each is applied to a clone of the last commit, which has a
virtual environment of its own. The tests that execute a changed line run first, those of `make test` before
the others; and with the former the tests in the directory that mirrors its package, which may execute it in
another process. A mutation that survives is tried with all of `make test`, and then of `make test-full`.

A test that times out has found the bug. A test counts only if, run alone, it fails with the mutation and
passes without it.

Results are appended to a file: `run` can be stopped at any time, and continues where it was.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "scripts" / "mutations.toml"
KINDS = ("negated condition", "swapped comparison", "dropped raise", "removed lock")

# The selection of `make test` and `make test-full`.
SELECTION = ("-m", "not load and not e2e and not site")
# It looks for the unmutated code, and so would find every mutation.
EXCLUDED = "tests/project/test_mutations.py"
# So many tests run in one process first: most mutations are found at once, and workers take time to start.
FIRST_BATCH = 60
RUN_TIMEOUT = 3600
# How long pytest may take to end after a failure: a mutation may leave threads behind that it waits for.
EXIT_TIMEOUT = 30


@dataclass(frozen=True)
class Mutation:
    """A bug: `old` in `file` is replaced by `new`."""

    file: str
    kind: str
    what: str
    """What goes wrong, for the table."""
    old: str
    new: str

    @property
    def key(self) -> str:
        """Identifies its result, also when others are added to the table."""
        return hashlib.sha256("\0".join((self.file, self.old, self.new)).encode()).hexdigest()[:16]

    def mutate(self, text: str) -> str:
        """Return the text of the file with the bug. SystemExit if `old` is not there exactly once."""
        if (count := text.count(self.old)) != 1:
            raise SystemExit(f"mutations: {self.file} contains {self.old!r} {count} times, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Failure:
    """The first test that failed."""

    test: str
    timed_out: bool


@dataclass(frozen=True)
class Result:
    """Which tests found a mutation."""

    key: str
    caught_by_quick: bool
    """By `make test`."""
    caught_by_full: bool
    """By `make test-full`, which runs all tests of `make test`, too."""
    test: str
    """The first test that failed."""
    timed_out: bool
    seconds: float


def load_mutations(path: Path = TABLE) -> list[Mutation]:
    """Return the mutations of the table, in its order."""
    return [Mutation(**entry) for entry in tomllib.loads(path.read_text())["mutation"]]


def changed_lines(before: str, after: str) -> set[int]:
    """Return the numbers of the lines in `before` that differ in `after`."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    lines: set[int] = set()
    for tag, start, end, _, _ in matcher.get_opcodes():
        if tag != "equal":
            lines.update(range(start + 1, max(end, start + 1) + 1))
    return lines


def mirrored_directory(file: str) -> str:
    """Return the directory of the tests of a module: `tests/exec/` for `kubeauth/_exec/process.py`."""
    return f"tests/{Path(file).parts[1].lstrip('_')}/"


def order_tests(tests: Iterable[str], file: str) -> list[str]:
    """Order tests so that a bug in `file` is found early.

    Tests in the directory that mirrors its package come first, and one case of each test before the second.
    """
    mirrored = mirrored_directory(file)
    seen: Counter[str] = Counter()
    keys: dict[str, tuple[bool, int]] = {}
    for test in sorted(tests):
        function = test.partition("[")[0]
        keys[test] = (not test.startswith(mirrored), seen[function])
        seen[function] += 1
    return sorted(keys, key=lambda test: keys[test])


class Recording:
    """The lines that each test executes, and the tests of `make test`."""

    def __init__(self, directory: Path) -> None:
        self.coverage = directory / "coverage"
        self.quick_list = directory / "quick.txt"
        self.commit_file = directory / "commit.txt"

    def commit(self) -> str:
        """Return the commit that was recorded. SystemExit if there is no recording."""
        if not (self.coverage.exists() and self.quick_list.exists() and self.commit_file.exists()):
            raise SystemExit("mutations: nothing is recorded. Run: python -m scripts.mutations record")
        return self.commit_file.read_text().strip()

    def quick_tests(self) -> set[str]:
        return {line for line in self.quick_list.read_text().splitlines() if "::" in line}

    def tests_of(self, lines: Mapping[str, set[int]]) -> set[str]:
        """Return the tests that execute one of these lines, by file."""
        data = CoverageData(basename=str(self.coverage))
        data.read()
        tests: set[str] = set()
        for measured in data.measured_files():
            wanted = next((lines[file] for file in lines if measured.endswith(f"/{file}")), None)
            if wanted is None:
                continue
            contexts = data.contexts_by_lineno(measured)
            # A context is `tests/test_a.py::test_b|run`; code that runs at import has none.
            tests.update(
                name.rpartition("|")[0] for line in wanted for name in contexts.get(line, ()) if name
            )
        return tests


class Tree:
    """A clone of the last commit, with a virtual environment of its own: tests start programs, too."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "tree"
        self.python = self.path / ".venv" / "bin" / "python"
        self._tests = directory / "tests.txt"
        self._failure = directory / "failure.txt"
        self._log = directory / "pytest.log"

    def update(self) -> str:
        """Check out the last commit without changes, and return it."""
        commit = _git(ROOT, "rev-parse", "HEAD")
        if not self.path.exists():
            _git(ROOT, "clone", "--quiet", "--no-checkout", str(ROOT), str(self.path))
        _git(self.path, "fetch", "--quiet", "origin", "HEAD")
        _git(self.path, "checkout", "--quiet", "--force", "--detach", commit)
        subprocess.run(["make", "--silent", "venv"], cwd=self.path, check=True)  # noqa: S607 -- as in the guide
        return commit

    def reset(self) -> None:
        """Undo a mutation."""
        changed = _git(self.path, "diff", "--name-only").splitlines()
        _git(self.path, "checkout", "--quiet", "--", ".")
        self._remove_bytecode(changed)

    def apply(self, mutation: Mutation) -> dict[str, set[int]]:
        """Apply a mutation to its file and to generated copies. Return the changed lines by file."""
        path = self.path / mutation.file
        path.write_text(mutation.mutate(path.read_text()))
        subprocess.run([self.python, "scripts/generate.py"], cwd=self.path, check=True, capture_output=True)
        changed = _git(self.path, "diff", "--name-only").splitlines()
        self._remove_bytecode(changed)
        return {
            name: changed_lines(_git(self.path, "show", f"HEAD:{name}"), (self.path / name).read_text())
            for name in changed
        }

    def _remove_bytecode(self, files: Iterable[str]) -> None:
        # Python compares time and size of the source: a mutation in the same second can have the same size.
        for name in files:
            with suppress(FileNotFoundError):
                os.unlink(importlib.util.cache_from_source(str(self.path / name)))

    def find_failure(self, arguments: Sequence[str], tests: Sequence[str] | None = None) -> Failure | None:
        """Run all tests, or these, until one fails; None if all pass."""
        self._failure.unlink(missing_ok=True)
        command = [str(self.python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "scripts.mutation_tests", "--failure-to", str(self._failure)]
        command += [*SELECTION, "--ignore", EXCLUDED, *arguments]
        if tests is not None:
            self._tests.write_text("".join(f"{test}\n" for test in tests))
            files = dict.fromkeys(test.partition("::")[0] for test in tests)
            command += ["--tests-from", str(self._tests), *files]
        code = self._wait(command)
        if self._failure.exists():
            test, reason = self._failure.read_text().splitlines()
            return Failure(test, timed_out=reason == "timeout")
        if code is None:
            return Failure("pytest itself", timed_out=True)
        # 5: no test was collected, as when all that were recorded have been renamed.
        return None if code in (0, 5) else Failure("pytest itself", timed_out=False)

    def _wait(self, command: Sequence[str]) -> int | None:
        """Run a command in a process group of its own. None if it was killed because it takes too long."""
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                command, cwd=self.path, env=environ, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + RUN_TIMEOUT
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(1)
                if self._failure.exists():
                    deadline = min(deadline, time.monotonic() + EXIT_TIMEOUT)
                if time.monotonic() >= deadline:
                    return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _git(directory: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=directory, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S607
    return ran.stdout.removesuffix("\n")


class Trial:
    """Looks for a test that finds a mutation."""

    def __init__(self, tree: Tree, recording: Recording, *, workers: int, whole_suite: bool) -> None:
        self._tree = tree
        self._recording = recording
        self._whole_suite = whole_suite
        self._parallel = ("-n", str(workers), "--dist", "worksteal")
        self._unreliable: list[str] = []
        """Tests that fail for other reasons: with another test before them, or on a busy machine."""

    def run(self, mutation: Mutation) -> Result:
        """Apply the mutation and run tests until one fails."""
        started = time.monotonic()
        self._tree.reset()
        tests = self._recording.tests_of(self._tree.apply(mutation))
        quick = self._recording.quick_tests()
        mirrored = mirrored_directory(mutation.file)
        # These may execute it in another process.
        related = [test for test in sorted(quick) if test.startswith(mirrored) and test not in tests]
        ordered = [*order_tests(tests, mutation.file), *related]
        failure: Failure | None = None
        is_quick = False
        for is_quick, selected in _stages(ordered, quick):
            if selected is None and not self._whole_suite:
                break
            failure = self._find_failure(mutation, is_quick, selected)
            if failure is not None:
                break
        self._tree.reset()
        return Result(
            mutation.key,
            caught_by_quick=failure is not None and is_quick,
            caught_by_full=failure is not None,
            test=failure.test if failure else "",
            timed_out=failure is not None and failure.timed_out,
            seconds=round(time.monotonic() - started, 1),
        )

    def _find_failure(
        self, mutation: Mutation, is_quick: bool, tests: Sequence[str] | None
    ) -> Failure | None:
        quick = ["--quick"] if is_quick else []
        while True:
            arguments = [*quick, *(each for test in self._unreliable for each in ("--deselect", test))]
            if tests is None or len(tests) > FIRST_BATCH:
                arguments += self._parallel
            failure = self._tree.find_failure(arguments, tests)
            if failure is None or "::" not in failure.test:
                return failure
            if self._is_reliable(mutation, quick, failure.test):
                return failure
            print(f"    ignored, because it does not depend on the mutation: {failure.test}", flush=True)
            self._unreliable.append(failure.test)

    def _is_reliable(self, mutation: Mutation, arguments: Sequence[str], test: str) -> bool:
        """Whether the test, run alone, fails with the mutation and passes without it."""
        if self._tree.find_failure(arguments, [test]) is None:
            return False
        self._tree.reset()
        without = self._tree.find_failure(arguments, [test])
        self._tree.apply(mutation)
        return without is None


def _stages(ordered: Sequence[str], quick: set[str]) -> Iterator[tuple[bool, Sequence[str] | None]]:
    """Yield which tests to run, and whether they belong to `make test`. None: all of them."""
    of_quick = [test for test in ordered if test in quick]
    others = [test for test in ordered if test not in quick]
    for is_quick, tests in ((True, of_quick), (False, others)):
        for batch in (tests[:FIRST_BATCH], tests[FIRST_BATCH:]):
            if batch:
                yield is_quick, batch
        yield is_quick, None


def record(directory: Path, paths: Sequence[str], workers: int) -> None:
    """Record all tests or, in addition to what is recorded, those in `paths`."""
    tree, recording = Tree(directory), Recording(directory)
    commit = tree.update()
    tree.reset()
    command = [str(tree.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTION, *paths]
    environ = {**os.environ, "COVERAGE_FILE": str(recording.coverage)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    measure = ["--cov", "--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
    if paths:
        measure.append("--cov-append")
    else:
        recording.commit_file.unlink(missing_ok=True)  # an interrupted recording is not used
    # Whether they pass does not matter: `run` ignores tests that fail without a mutation.
    parallel = ["-n", str(workers), "--dist", "worksteal"]
    subprocess.run([*command, *measure, *parallel], cwd=tree.path, env=environ, check=False)
    collect = [str(tree.python), "-m", "pytest", "-q", "--quick", "--collect-only", *SELECTION]
    collected = subprocess.run(collect, cwd=tree.path, env=environ, check=True, stdout=subprocess.PIPE)
    recording.quick_list.write_bytes(collected.stdout)
    recording.commit_file.write_text(f"{commit}\n")


def run(directory: Path, numbers: Sequence[int], *, workers: int, whole_suite: bool) -> int:
    """Try the mutations that have no result, or those with these numbers. Return how many survived."""
    tree, recording = Tree(directory), Recording(directory)
    mutations, results = load_mutations(), read_results(directory)
    if unknown := [number for number in numbers if not 1 <= number <= len(mutations)]:
        raise SystemExit(f"mutations: there is no mutation {unknown[0]}: they are 1 to {len(mutations)}.")
    recorded, commit = recording.commit(), tree.update()
    if _git(ROOT, "diff", "--name-only", recorded, commit, "--", "kubeauth"):
        raise SystemExit("mutations: kubeauth/ has changed since the recording. Run `record` again.")
    trial = Trial(tree, recording, workers=workers, whole_suite=whole_suite)
    survived = 0
    for number, mutation in enumerate(mutations, start=1):
        if (numbers and number not in numbers) or (not numbers and mutation.key in results):
            continue
        print(f"{number:2} {mutation.file}: {mutation.what}", flush=True)
        result = trial.run(mutation)
        with open(directory / "results.jsonl", "a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        survived += not result.caught_by_full
        by = "make test" if result.caught_by_quick else "make test-full"
        outcome = f"caught by {by}: {result.test}" if result.caught_by_full else "survived"
        print(f"    {outcome} ({result.seconds:.0f} s)", flush=True)
    return survived


def read_results(directory: Path) -> dict[str, Result]:
    """Return the last result of each mutation."""
    path = directory / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {result.key: result for line in lines for result in [Result(**json.loads(line))]}


def report(mutations: Sequence[Mutation], results: Mapping[str, Result]) -> str:
    """Return the results as a Markdown table, with totals."""
    lines = [
        "| | file | kind | mutation | `make test` | `make test-full` | first failing test |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, mutation in enumerate(mutations, start=1):
        result = results.get(mutation.key)
        if result is None:
            cells = ["not run", "not run", ""]
        else:
            caught = [result.caught_by_quick, result.caught_by_full]
            cells = ["caught" if each else "survived" for each in caught]
            test = result.test.replace("|", "\\|")
            cells.append(f"`{test}`{' (timeout)' if result.timed_out else ''}" if test else "")
        row = (str(number), f"`{mutation.file}`", mutation.kind, mutation.what, *cells)
        lines.append(f"| {' | '.join(row)} |")
    known = [results[mutation.key] for mutation in mutations if mutation.key in results]
    by_quick = sum(result.caught_by_quick for result in known)
    by_full = sum(result.caught_by_full for result in known)
    lines += [
        "",
        f"{len(mutations)} mutations, {len(known)} tried: {by_quick} caught by `make test`, {by_full} by "
        f"`make test-full`, {len(known) - by_full} survived.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.mutations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--work", type=Path, default=ROOT / ".mutations", help="directory for clone and results (.mutations)"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that run tests (2)")
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="run all tests, and record the lines that each executes")
    recorder.add_argument("paths", nargs="*", help="record only these tests, in addition to what is recorded")
    runner = commands.add_parser("run", help="try the mutations that have no result yet")
    runner.add_argument(
        "numbers", nargs="*", type=int, help="try these mutations, even if they have a result"
    )
    runner.add_argument(
        "--no-whole-suite", action="store_true", help="run only the tests that execute a changed line"
    )
    commands.add_parser("report", help="print the results as a Markdown table")
    options = parser.parse_args(arguments)
    directory: Path = options.work.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    # As Ctrl-C does, so that no test is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.command == "record":
        record(directory, options.paths, options.workers)
    elif options.command == "run":
        whole_suite = not options.no_whole_suite
        return 1 if run(directory, options.numbers, workers=options.workers, whole_suite=whole_suite) else 0
    else:
        print(report(load_mutations(), read_results(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
