"""Programs for tests: real ones, that say what they are told to, and remember how they were run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Runs without site-packages, so it starts quickly. Reads what to say from the file beside it. Between these
# two stand `run()`, what is to be remembered, and `document(answer)`, what it prints if it does not fail.
_HEAD = r"""
import json, os, sys, time
"""
_REST = r"""
here = os.path.abspath(__file__)
runs = os.open(here + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, json.dumps(run()).encode() + b"\n")
os.close(runs)
with open(here + ".answer", encoding="utf-8") as file:
    answer = json.load(file)
time.sleep(answer["sleep"])
sys.stderr.write(answer["stderr"])
sys.stderr.flush()
if answer["stdout"] is not None:
    sys.stdout.write(answer["stdout"])
elif not answer["exit_code"]:
    json.dump(document(answer), sys.stdout)
sys.exit(answer["exit_code"])
"""


# Linux reads that much of the line before 5.1; others have their own limits.
_MAX_SHEBANG = 127


def build_shebang(python: str, options: str = "-IS") -> str:
    """The first lines of a Python script that runs with `python`, also where its path has a space in it.

    The kernel splits a `#!` line at blanks, without quoting, and reads only a part of a long one.
    """
    paths = [python]
    if "S" in options:  # without site-packages, a virtual environment's Python is the one that it links to
        paths.append(os.path.realpath(python))
    for path in paths:
        line = f"#!{path} {options}".rstrip()
        if not any(char.isspace() for char in path) and len(os.fsencode(line)) <= _MAX_SHEBANG:
            return line
    # As pip does it: a shell starts the interpreter, with a line that Python reads as a string.
    return f"""#!/bin/sh\n'''exec' "{python}" {options} "$0" "$@"\n' '''"""


class Script:
    """A program in a directory of yours."""

    def __init__(self, directory: str | os.PathLike[str], name: str, particulars: str) -> None:
        self.path = Path(directory, name).absolute()
        self.path.write_text(
            f"{build_shebang(sys.executable)}\n{_HEAD}{particulars}{_REST}", encoding="utf-8"
        )
        self.path.chmod(0o700)

    def _say(
        self,
        particulars: Mapping[str, object],
        *,
        stdout: str | None,
        stderr: str,
        exit_code: int,
        sleep: float,
    ) -> None:
        """From the next run on. One that has started may read it too, but all of it or nothing."""
        common = {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "sleep": sleep}
        new = Path(f"{self.path}.answer.new")
        new.write_text(json.dumps({**particulars, **common}), encoding="utf-8")
        new.replace(f"{self.path}.answer")

    def _remembered(self) -> list[Any]:
        """Of every run so far, in the order they started."""
        try:
            lines = Path(f"{self.path}.runs").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]
