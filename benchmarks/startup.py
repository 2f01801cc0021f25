"""How long a fresh process takes until it has a client, beside one that has a plain httpx.Client.

    make bench      or      python -m benchmarks.startup [ROUNDS]

Each round starts every process once, in turning order; ratios are per round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import track
from rich.table import Table

from kubeauth.testing import APIServer


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    with tempfile.TemporaryDirectory() as directory, APIServer() as server:
        path = Path(directory, "config")
        path.write_text(yaml.safe_dump(server.kubeconfig({"token": "t"})))
        client = f"import kubeauth; kubeauth.Client(kubeauth.load_config({str(path)!r}))"
        programs = {
            "import httpx": "import httpx",
            "import kubeauth": "import kubeauth",
            "httpx.Client()": "import httpx; httpx.Client()",
            "kubeauth.Client(load_config(path))": client,
        }
        beside = {"import kubeauth": "import httpx", "kubeauth.Client(load_config(path))": "httpx.Client()"}
        found: dict[str, list[float]] = {name: [] for name in programs}
        for code in programs.values():
            seconds(code)
        names = list(programs)
        for number in track(range(rounds), "measuring", console=Console(stderr=True), transient=True):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                found[name].append(seconds(programs[name]))
    table = Table(title=f"a fresh process; {rounds} interleaved rounds", title_justify="left")
    for column in ("", "median", "ratio to httpx", "spread, the middle half"):
        table.add_column(column, justify="right" if column else "left")
    for name, own in found.items():
        ratios = [mine / theirs for mine, theirs in zip(own, found[beside.get(name, name)], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        table.add_row(
            name, f"{statistics.median(own) * 1000:.0f} ms", f"{middle:.2f}", f"{low:.2f} - {high:.2f}"
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
