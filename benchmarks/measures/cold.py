"""A fresh process, from its start to its first answer: imports, the kubeconfig, the plugin, the handshake."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress

from benchmarks import markdown
from benchmarks.process import Failed
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds, Stage
from benchmarks.telling import Told, comparison, middle, ratio, told_duration, told_ratio

# Nothing but the interpreter.
FLOOR = "python"
BASE = "kubeauth sync"
LIMIT = 30.0


def measure(stage: Stage) -> Rounds:
    run = stage.new_run()
    commands = {FLOOR: [sys.executable, "-c", "print('done')"]} | {
        each.key: [*each.command(stage.go_client), stage.kubeconfig(each, run)]
        for each in stage.subjects
        if each.name != "httpx again"
    }
    environment = stage.environment()
    for command in commands.values():
        with suppress(Failed):
            one(command, environment)  # so that everybody has its bytecode
    return stage.measure(
        "cold", list(commands), stage.sizes.cold_rounds, lambda key: one(commands[key], environment)
    )


def one(command: list[str], environment: dict[str, str]) -> Round:
    start = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        overdue = threading.Timer(LIMIT, process.kill)
        overdue.start()
        line = process.stdout.readline()
        elapsed = time.perf_counter() - start
        overdue.cancel()
        process.kill()  # how it ends is not measured
    if line != "done\n":
        raise Failed("no answer")
    return {"us": elapsed * 1e6}


def tell(results: Results) -> Told:
    rounds = results.found["cold"]
    told = Told(
        markdown.prose("""
        From the start of a process to its first answer: the interpreter, imports, a small kubeconfig, a
        plugin that answers at once, a TLS handshake, a request. `httpx` and `httpx2` have a static token
        and read no YAML; `python` is an interpreter that prints a line. Ratios are to "kubeauth sync":
        below 1 is faster.
        """)
    )
    floor = [FLOOR, told_duration(middle(rounds[FLOOR], "us")), told_ratio(ratio(rounds, FLOOR, BASE, "us"))]
    rows = comparison(
        results,
        rounds,
        told,
        shows={"us": told_duration},
        compares="us",
        base=BASE,
        what="time to the first answer of a fresh process",
    )
    told.text += "\n" + markdown.table(["", "first answer after", "ratio"], [floor, *rows])
    return told
