"""How many images a second get their credentials, when every provider has answered before: nothing is run.

    python -m benchmarks.registry_lookup [ROUNDS]

A thousand images, looked up one after the other, with so many providers configured: each image matches one
of them, or all. Each provider is a real program that is run once, before anything is measured. Interleaved
rounds in one run; a second is one of the process's own time, which others on the machine disturb less; what
it grows by is per round.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from kubeauth.registry import CredentialProviders
from kubeauth.registry._source import Source
from kubeauth.testing import ProviderScript

SIZES = (1, 10, 100)
IMAGES = 1_000


def warm(directory: Path, count: int, *, all_match: bool) -> tuple[CredentialProviders, list[str]]:
    """So many providers, and images that they have been asked about."""
    directory.mkdir()
    entries = []
    for number in range(count):
        host = "registry.example.com" if all_match else f"registry-{number}.example.com"
        script = ProviderScript(directory, f"provider-{number}")
        script.answer({host: (f"robot-{number}", "password")}, cache_duration="24h")
        entries.append(script.entry([host, f"other-{number}-*.example.com"]))
    config = directory / "providers.json"
    config.write_text(json.dumps(ProviderScript.config(*entries)))
    hosts = 1 if all_match else count
    images = [
        f"registry{'' if all_match else f'-{number % hosts}'}.example.com/team-{number}/app"
        for number in range(IMAGES)
    ]
    providers = CredentialProviders(config, directory)
    for image in images:
        assert len(providers.credentials(image)) == (count if all_match else 1)
    assert all(answer.from_cache for answer in providers.lookup(images[0]).answers if answer.matched)
    return providers, images


def ways(providers: CredentialProviders, images: list[str]) -> dict[str, Callable[[], None]]:
    """Each asks about all images once."""
    source = Source(providers, None)

    def lookup() -> None:
        for image in images:
            providers.lookup(image)

    def credentials() -> None:
        for image in images:
            source.get(image, ())

    async def all_of_them() -> None:
        for image in images:
            await source.aget(image, ())

    return {
        "CredentialProviders.lookup": lookup,
        "RegistryAuth's source": credentials,
        "RegistryAuth's source, async": lambda: asyncio.run(all_of_them()),
    }


def a_second(work: Callable[[], None]) -> float:
    """How many images. A thousand are at least some milliseconds."""
    gc.collect()
    gc.disable()
    begun = time.process_time()
    work()
    passed = time.process_time() - begun
    gc.enable()
    return IMAGES / passed


def measured(rounds: int, directory: Path, *, all_match: bool) -> Table:
    made = {size: ways(*warm(directory / f"{size}-{all_match}", size, all_match=all_match)) for size in SIZES}
    found = {(name, size): list[float]() for size in SIZES for name in made[size]}
    order = list(found)
    for number in track(range(rounds), "looking up", console=Console(stderr=True), transient=True):
        for name, size in order if number % 2 else reversed(order):
            found[name, size].append(a_second(made[size][name]))
    which = "all of them match" if all_match else "one of them matches"
    table = Table(title=f"{IMAGES:,} images, {which}; {rounds} interleaved rounds", title_justify="left")
    for column in ("", "providers", "images/s", "middle half", "to 1 provider"):
        table.add_column(column, justify="left" if not column else "right")
    for name in made[SIZES[0]]:
        for size in SIZES:
            low, middle, high = statistics.quantiles(found[name, size], n=4)
            grown = [a / b for a, b in zip(found[name, SIZES[0]], found[name, size], strict=True)]
            table.add_row(
                name if size == SIZES[0] else "",
                str(size),
                f"{middle:,.0f}",
                f"{low:,.0f} - {high:,.0f}",
                f"{statistics.median(grown):.2f} times the time",
            )
    return table


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as directory:
        for all_match in (False, True):
            console.print(measured(rounds, Path(directory), all_match=all_match))


if __name__ == "__main__":
    main()
