"""What a run has found: kept as JSON, so that the page can be made again without another run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.stage import Rounds


@dataclass(frozen=True, slots=True)
class Listed:
    """Who was measured."""

    key: str
    name: str
    colour: str
    version: str
    is_ours: bool

    @property
    def shown(self) -> str:
        return f"**{self.name}**" if self.is_ours else self.name


@dataclass(slots=True)
class Results:
    about: dict[str, str]
    """Date, machine, server: what the page says of the run as a whole."""
    sizes: dict[str, float]
    listed: list[Listed]
    found: dict[str, Rounds] = field(default_factory=dict)
    """By measure."""

    def of_colour(self, colour: str) -> list[Listed]:
        """Those of a colour, and client-go, which has none."""
        return [each for each in self.listed if each.colour in (colour, "go")]

    def write(self, path: Path) -> None:
        path.write_text(lines(rounded(asdict(self))) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        document = json.loads(path.read_text())
        listed = [Listed(**each) for each in document.pop("listed")]
        return cls(**document, listed=listed)


def rounded(value: Any) -> Any:
    """Without digits that nobody reads."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value


def lines(value: Any, depth: int = 0) -> str:
    """JSON with a line for each who was measured: neither one line nor a line for each figure."""
    if not isinstance(value, dict) or depth > 2:
        return json.dumps(value)
    inside = (f"{json.dumps(name)}: {lines(each, depth + 1)}" for name, each in value.items())
    return "{\n" + ",\n".join(" " * (depth + 1) + each for each in inside) + "}"
