"""What it takes to import a client class, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from benchmarks import markdown
from benchmarks.process import Failed
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds, Stage
from benchmarks.telling import Told, comparison, told_duration

PROGRAM = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def measure(stage: Stage) -> Rounds:
    programs = {each.key: PROGRAM.format(each.imports) for each in stage.subjects if each.imports}
    environment = stage.environment()
    for program in programs.values():
        with suppress(Failed):
            one(program, environment)  # so that everybody has its bytecode
    return stage.measure(
        "imports", list(programs), stage.sizes.import_rounds, lambda key: one(programs[key], environment)
    )


def one(program: str, environment: dict[str, str]) -> Round:
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise Failed("cannot be imported")
    return {"us": float(ran.stdout) * 1e6}


def tell(results: Results) -> Told:
    rounds = results.found["imports"]
    told = Told(
        markdown.prose("""
        In a fresh interpreter, until the class of a client can be used (some import it only then), with
        bytecode at hand. Ratios are to kubeauth: below 1 is faster.
        """)
    )
    rows = comparison(
        results,
        rounds,
        told,
        shows={"us": told_duration},
        compares="us",
        base="kubeauth sync",
        what="time to import",
    )
    told.text += "\n" + markdown.table(["", "import", "ratio"], rows)
    return told
