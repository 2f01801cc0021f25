"""The whole comparison, in one run: measured, kept as JSON, told as a page with pictures.

make bench                        everything; docs/ and the README are written anew
make bench QUICK=1                a little of everything, into build/bench
make bench ROUNDS=1               one round of everything
python -m benchmarks --help       parts of it
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import page, subjects
from benchmarks.measures import added, cold, crowds, fleet, imports, kubeconfigs, renewals, stall, warm
from benchmarks.results import Listed, Results
from benchmarks.server import Server, served
from benchmarks.stage import QUICK, ROOT, Rounds, Sizes, Stage
from tests.e2e import tools

MEASURES: dict[str, Callable[[Stage], Rounds]] = {
    "added": added.measure,
    "warm": warm.measure,
    "cold": cold.measure,
    "crowds": crowds.measure,
    "renewals": renewals.tokens,
    "certificates": renewals.certificates,
    "stall": stall.measure,
    "imports": imports.measure,
    "kubeconfigs": kubeconfigs.measure,
    "fleet": fleet.measure,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="kubeauth beside the alternatives"
    )
    parser.add_argument("--quick", action="store_true", help="a little of everything, in about two minutes")
    parser.add_argument("--rounds", type=int, help="so many rounds of everything")
    parser.add_argument("--only", metavar="NAME,...", help=f"only these measures: {', '.join(MEASURES)}")
    parser.add_argument("--subjects", metavar="NAME,...", help="only these clients, by name")
    parser.add_argument("--no-go", action="store_true", help="as if there were no Go here")
    parser.add_argument("--out", type=Path, help="a directory for the page, its pictures and the results")
    parser.add_argument(
        "--render", type=Path, metavar="RESULTS", help="measure nothing: tell these results again"
    )
    parser.add_argument("--note", metavar="WORDS", help="what else to say of this run, on the page")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    console = Console(stderr=True)
    out: Path | None = given.out or (ROOT / "build" / "bench" if given.quick else None)
    if given.render:
        results = Results.read(given.render)
    else:
        sizes = QUICK if given.quick else Sizes()
        results = measured(
            sizes.with_rounds(given.rounds) if given.rounds else sizes,
            console,
            only=given.only.split(",") if given.only else None,
            names=given.subjects.split(",") if given.subjects else None,
            with_go=not given.no_go,
        )
    if given.note:
        results.about["note"] = given.note
    print(page.write(results, out))


def measured(
    sizes: Sizes,
    console: Console,
    *,
    only: list[str] | None = None,
    names: list[str] | None = None,
    with_go: bool = True,
) -> Results:
    """`only` some measures, of some clients by their `names`."""
    if unknown := set(only or ()) - set(MEASURES):
        raise SystemExit(f"there is no measure called {', '.join(sorted(unknown))}: {', '.join(MEASURES)}")
    server_program, go_client = go_programs(console) if with_go else (None, None)
    whom = subjects.found(go_client, names)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), server_program) as server:
        results = Results(about(server), asdict(sizes), listed(whom))
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            whole = progress.add_task("measures", total=len(only or MEASURES))
            part = progress.add_task("")

            def tell(what: str, step: int, steps: int) -> None:
                progress.update(part, description=what, completed=step, total=steps)

            stage = Stage(server, whom, sizes, Path(folder), go_client, tell)
            for name in only or MEASURES:
                if not console.is_terminal:
                    console.print(f"{time.monotonic() - begin:5.0f} s  {name}", highlight=False)
                results.found[name] = MEASURES[name](stage)
                progress.advance(whole)
    minutes = (time.monotonic() - begin) / 60
    results.about["took"] = f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute or less"
    return results


def go_programs(console: Console) -> tuple[Path | None, str | None]:
    """The server, and client-go as a worker: made once, kept outside the checkout. None, without Go."""
    folder = Path(__file__).parent / "go"
    flags = ["-ldflags", "-s -w"]
    try:
        with console.status("go build: the server, and client-go"):
            server = tools.go_folder("bench-server", folder / "server", "1", flags=flags).build()
            client = tools.go_folder("bench-client", folder / "client", "1", flags=flags).build()
    except tools.Missing as error:
        console.print(f"Without client-go, and with a slower server: {error}")
        return None, None
    return server, str(client)


def listed(whom: list[subjects.Subject]) -> list[Listed]:
    found = []
    for each in whom:
        try:
            version = subjects.version_of(each)
        except PackageNotFoundError:
            version = "not installed"
        found.append(Listed(each.key, each.name, each.colour, version, each.is_ours))
    return found


def about(server: Server) -> dict[str, str]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": f"{cores()}, {platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "server": server.language,
    }


def cores() -> str:
    """How many, and of which kind, where the system says so."""
    count = f"{os.cpu_count()} cores"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return count
    kinds = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return f"{count} ({', '.join(sorted(kinds))})" if kinds else count


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped: nothing was written") from None
