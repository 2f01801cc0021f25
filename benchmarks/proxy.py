"""How many requests a second go through `kubeauth proxy`, and through `kubectl proxy`: 1 and 64 clients.

    python -m benchmarks.proxy [ROUNDS]

Both in front of one server on loopback (benchmarks/go/server, with TLS and a token), asked by one program
(benchmarks/go/load), in interleaved rounds of one run. "Direct" is that program and a plain HTTP server in Go
that does nothing: it says how much the one who asks can ask. Ratios are per round. "Processor" is what the
process of the proxy took for each thousand requests, on all processors together; others on the machine
disturb that less than the rest. Needs Go, and the kubectl that the end-to-end tests are run with.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.server import served
from tests.e2e import tools

CLIENTS = (1, 64)
SECONDS = 2.0
PATH = "/api/v1/namespaces"
GO = Path(__file__).parent / "go"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Contender:
    """A proxy that runs, and whoever asks it."""

    name: str
    process: subprocess.Popen[str]
    load: subprocess.Popen[str]
    rates: dict[int, list[float]] = field(default_factory=lambda: {count: [] for count in CLIENTS})
    processor: dict[int, list[float]] = field(default_factory=lambda: {count: [] for count in CLIENTS})
    failures: int = 0

    def ask(self, clients: int, seconds: float) -> tuple[float, float]:
        """Requests a second, and seconds of processor for a thousand of them."""
        assert self.load.stdin
        assert self.load.stdout
        before = self._ticks()
        self.load.stdin.write(f"{clients} {seconds}\n")
        self.load.stdin.flush()
        answers, failures, took = self.load.stdout.readline().split()
        self.failures += int(failures)
        return int(answers) / float(took), (self._ticks() - before) / _TICKS / int(answers) * 1000

    def measure(self, clients: int) -> None:
        rate, processor = self.ask(clients, SECONDS)
        self.rates[clients].append(rate)
        self.processor[clients].append(processor)

    def _ticks(self) -> int:
        """Of the processor: its own and the system's for it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@contextmanager
def running(name: str, command: list[str], load: Path) -> Iterator[Contender]:
    """A proxy that says where it serves, and the program that asks it there."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        with subprocess.Popen(
            [str(load), address, PATH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as asking:
            assert asking.stdin
            contender = Contender(name, process, asking)
            for clients in CLIENTS:
                contender.ask(clients, 0.3)  # connections, caches
            yield contender
            asking.stdin.close()
        process.terminate()


def table_of(clients: int, contenders: list[Contender]) -> Table:
    table = Table(title=f"{clients} client{'s' * (clients > 1)}", title_justify="left")
    for column in ("", "requests/s", "to kubectl proxy", "spread", "processor, s per 1,000"):
        table.add_column(column, justify="right" if column else "left")
    theirs = contenders[0].rates[clients]
    for each in contenders:
        ratios = [mine / other for mine, other in zip(each.rates[clients], theirs, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        table.add_row(
            each.name,
            f"{statistics.median(each.rates[clients]):,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{low:.2f} - {high:.2f}",
            f"{statistics.median(each.processor[clients]):.2f}",
        )
    return table


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    flags = ["-ldflags", "-s -w"]
    server = tools.go_folder("bench-server", GO / "server", "1", flags=flags).build()
    load = tools.go_folder("bench-load", GO / "load", "1", flags=flags).build()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), server) as api, ExitStack() as stack:
        api.set("proxy")
        kubeconfig = ["--kubeconfig", api.with_token("proxy"), "--port", "0"]
        commands = {
            "kubectl proxy": [str(tools.kubectl()), "proxy", *kubeconfig],
            "kubeauth proxy": [sys.executable, "-m", "kubeauth", "proxy", *kubeconfig],
            "direct": [str(load), "serve"],
        }
        contenders = [stack.enter_context(running(name, each, load)) for name, each in commands.items()]
        for number in track(range(rounds), "rounds", console=Console(stderr=True), transient=True):
            for clients in CLIENTS:
                first = number % len(contenders)
                for each in contenders[first:] + contenders[:first]:
                    each.measure(clients)
    console = Console(width=110)
    for clients in CLIENTS:
        console.print(table_of(clients, contenders))
    failed = ", ".join(f"{each.name} {each.failures}" for each in contenders)
    console.print(
        f"{rounds} interleaved rounds of {SECONDS:g} s; spread: the middle half. Failures: {failed}."
    )


if __name__ == "__main__":
    main()
