"""What `kubeauth.fleet` costs: time, CPU and memory for a hundred to ten thousand contexts.

    python -m benchmarks.fleet_get [--contexts 100 1000 10000] [--concurrency 8 32 128] [--colours sync]

The clusters are a few servers on loopback, in a process of their own; the contexts share one plugin. Each
line is a process of its own, which asks all contexts twice: cold, with the plugin to be run, and once more,
warm. (`benchmarks.measures.fleet` is about something else: clients that are kept, a thousand of them.)
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from benchmarks import figures, markdown
from kubeauth import fleet
from kubeauth.testing import APIServer, Authority, PluginScript

SERVERS = 4
COLOURS = ("sync", "asyncio")
TOKEN = "token-of-the-plugin"  # noqa: S105 -- a secret to nobody
TIMEOUT = 300.0


class Figures(NamedTuple):
    """Of one line."""

    read: float
    """Seconds to read the kubeconfig."""
    cold: float
    warm: float
    cpu: float
    """Seconds of this process for the warm call."""
    grown: int
    """Bytes by which the process had grown at its largest, with the kubeconfig and all answers."""
    runs: int


def serve() -> None:
    """Until stdin is closed. Says where, and whom to trust."""
    authority = Authority()
    servers = [APIServer(authority=authority, tokens={TOKEN: "alice"}) for _ in range(SERVERS)]
    print(json.dumps({"urls": [each.url for each in servers], "ca": authority.pem.decode()}), flush=True)
    sys.stdin.read()


@contextmanager
def clusters() -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.fleet_get", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def kubeconfig(directory: Path, count: int, about: dict[str, Any], user: dict[str, Any]) -> Path:
    """Each context has a cluster of its own; as JSON, which is read faster than YAML."""
    ca = base64.b64encode(about["ca"].encode()).decode()
    urls, path = about["urls"], directory / f"{count}.json"
    document = {
        "contexts": [{"name": f"c{n}", "context": {"cluster": f"c{n}", "user": "u"}} for n in range(count)],
        "clusters": [
            {"name": f"c{n}", "cluster": {"server": urls[n % len(urls)], "certificate-authority-data": ca}}
            for n in range(count)
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


def one(path: str, concurrency: int, colour: str) -> None:
    """Measures one line, and prints its figures."""
    ask = CALLS[colour]
    # So that everything is imported; from a file of its own, for the large one is to be counted.
    ask("/version", kubeconfig=Path(path).with_name("1.json"), timeout=TIMEOUT)
    _forget_the_credential()
    before = _memory("VmRSS")
    began = time.perf_counter()
    fleet.contexts(kubeconfig=path)
    read = time.perf_counter() - began
    cold = ask("/version", kubeconfig=path, concurrency=concurrency, timeout=TIMEOUT)
    assert cold.ok, cold
    cpu = time.process_time()
    warm = ask("/version", kubeconfig=path, concurrency=concurrency, timeout=TIMEOUT)
    cpu = time.process_time() - cpu
    assert warm.ok, warm
    print(json.dumps([read, cold.seconds, warm.seconds, cpu, _memory("VmHWM") - before]))


def _forget_the_credential() -> None:
    from kubeauth._credentials.cache import SOURCE_CACHE

    SOURCE_CACHE._recent.clear()


def _memory(which: str) -> int:
    """Now (VmRSS) or at the most (VmHWM). Not by getrusage: what the process before us had counts there."""
    found = re.search(rf"^{which}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) * 1024


def _asyncio(path: str, **settings: Any) -> fleet.Report:
    return asyncio.run(fleet.aget(path, **settings))


CALLS: dict[str, Callable[..., fleet.Report]] = {"sync": fleet.get, "asyncio": _asyncio}


def measured(path: Path, plugin: PluginScript, concurrency: int, colour: str) -> Figures:
    before = len(plugin.runs)
    command = [sys.executable, "-m", "benchmarks.fleet_get", "--one", str(path), str(concurrency), colour]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    read, cold, warm, cpu, grown = json.loads(done.stdout)
    # One run is that of the warming up.
    return Figures(read, cold, warm, cpu, grown, len(plugin.runs) - before - 1)


def table(found: dict[tuple[int, int, str], Figures]) -> str:
    head = ["contexts", "", "at a time", "kubeconfig read in", "cold", "warm", "a second", "CPU each"]
    head += ["memory", "memory each", "plugin runs"]
    rows = [
        [
            f"{count:,}",
            colour,
            str(concurrency),
            figures.duration(each.read),
            figures.duration(each.cold),
            figures.duration(each.warm),
            figures.number(count / each.warm),
            figures.duration(each.cpu / count),
            f"{figures.number(each.grown / 2**20)} MiB",
            f"{figures.number(each.grown / count / 1024)} KiB",
            str(each.runs),
        ]
        for (count, concurrency, colour), each in found.items()
    ]
    return markdown.table(head, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.fleet_get", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--contexts", type=int, nargs="+", default=[100, 1000, 10_000], metavar="N")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 32, 128], metavar="N")
    parser.add_argument("--colours", nargs="+", choices=COLOURS, default=list(COLOURS))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        return serve()
    if given.one:
        path, concurrency, colour = given.one
        return one(path, int(concurrency), colour)
    found: dict[tuple[int, int, str], Figures] = {}
    lines = [(n, c, colour) for n in given.contexts for colour in given.colours for c in given.concurrency]
    with tempfile.TemporaryDirectory() as name, clusters() as about:
        directory = Path(name)
        plugin = PluginScript(directory)
        plugin.answer(token=TOKEN, expires_in=86400)
        paths = {
            n: kubeconfig(directory, n, about, {"exec": plugin.exec_config()}) for n in (1, *given.contexts)
        }
        for line in track(lines, "measuring", console=Console(stderr=True), transient=True):
            count, concurrency, colour = line
            found[line] = measured(paths[count], plugin, concurrency, colour)
    print(table(found), end="")
    return None


if __name__ == "__main__":
    main()
