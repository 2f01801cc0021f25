"""How long a fresh process takes: to have a client, beside plain httpx; and as a command, beside kubectl.

    python -m benchmarks.startup [ROUNDS]

Each round starts every process once, in turning order; ratios are per round. All modules are compiled before,
as they are where a package was installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from rich.console import Console
from rich.progress import track
from rich.table import Table

from kubeauth.testing import APIServer


class Program(NamedTuple):
    command: list[str]
    beside: str
    """What it is compared with."""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def programs(config: Path) -> dict[str, Program]:
    client = f"import kubeauth; kubeauth.Client(kubeauth.load_config({str(config)!r}))"
    found = {
        "import httpx": Program(python("import httpx"), "import httpx"),
        "import kubeauth": Program(python("import kubeauth"), "import httpx"),
        "httpx.Client()": Program(python("import httpx; httpx.Client()"), "httpx.Client()"),
        "kubeauth.Client(load_config(path))": Program(python(client), "httpx.Client()"),
    }
    kubectl, kubeauth = shutil.which("kubectl"), str(Path(sys.executable).with_name("kubeauth"))
    if kubectl is None:
        return found
    choose = ["--kubeconfig", str(config)]
    helps, gets = "kubectl --help", "kubectl get --raw /version"
    return found | {
        helps: Program([kubectl, "--help"], helps),
        "kubeauth --help": Program([kubeauth, "--help"], helps),
        gets: Program([kubectl, *choose, "get", "--raw", "/version"], gets),
        "kubeauth get /version": Program([kubeauth, *choose, "get", "/version"], gets),
        "kubeauth token": Program([kubeauth, *choose, "token"], gets),
    }


def seconds(command: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _rounds_of(text: str) -> int:
    if text.isdecimal() and int(text) >= 2:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: a spread needs two rounds or more")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.startup", description=str(__doc__).partition("\n")[0]
    )
    what = "how often each process is started (default: 25)"
    parser.add_argument("rounds", nargs="?", type=_rounds_of, default=25, metavar="ROUNDS", help=what)
    rounds: int = parser.parse_args(arguments).rounds
    with tempfile.TemporaryDirectory() as directory, APIServer() as server:
        path = Path(directory, "config")
        path.write_text(yaml.safe_dump(server.kubeconfig({"token": "t"})))
        environ = {**os.environ, "HOME": directory, "PYTHONPYCACHEPREFIX": str(Path(directory, "compiled"))}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        measured = programs(path)
        found: dict[str, list[float]] = {name: [] for name in measured}
        for program in measured.values():
            seconds(program.command, environ)
        names = list(measured)
        for number in track(range(rounds), "measuring", console=Console(stderr=True), transient=True):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                found[name].append(seconds(measured[name].command, environ))
    table = Table(title=f"a fresh process; {rounds} interleaved rounds", title_justify="left")
    for column in ("", "median", "ratio", "spread, the middle half", "to"):
        table.add_column(column, justify="left" if column in ("", "to") else "right")
    for name, own in found.items():
        beside = measured[name].beside
        ratios = [mine / theirs for mine, theirs in zip(own, found[beside], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        table.add_row(
            name,
            f"{statistics.median(own) * 1000:.0f} ms",
            f"{middle:.2f}",
            f"{low:.2f} - {high:.2f}",
            "" if beside == name else beside,
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
