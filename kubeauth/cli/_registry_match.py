"""`kubeauth registry match`: which providers the kubelet would ask about an image, and why not the others."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Status, tell
from kubeauth.cli._flags import add_output
from kubeauth.cli._output import as_json, write, write_text
from kubeauth.cli._registry_flags import Output, ProviderFlags, add_image, add_provider_flags
from kubeauth.cli._tables import Columns, cell

if TYPE_CHECKING:
    from kubeauth._parsing import Json
    from kubeauth.registry._reference import ImageReference
    from kubeauth.schemas import CredentialProvider


class Options(ProviderFlags):
    image: ImageReference
    output: Output = Output.table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser)
    add_provider_flags(parser)
    add_output(parser, Output, "table (default) or json")


def run(options: Options) -> int:
    """Say which credential providers the kubelet would ask about an image, and why not the others.

    For each provider the patterns that match; if none does, all of them, each with what is in the way.
    Nothing is run, and no directory of programs is needed. Exits with 1 if no provider matches.
    """
    from kubeauth.registry._load import load_provider_config

    options.log_less()
    config = load_provider_config(options.needed_config_path())
    found = [_compared(provider, options.image.repository) for provider in config.providers]
    if options.output is Output.json:
        write(as_json(_document(options.image, found)))
    else:
        facts = [("Image", cell(str(options.image))), ("Asked as", cell(options.image.repository))]
        write_text(f"{Columns().text(facts)}\n{Columns().text(_rows(found))}")
    if any(each.matches for each in found):
        return Status.OK
    tell("No provider matches: the kubelet would ask none, and pull with what else it has, or as nobody.")
    return Status.FAILED


@dataclass(frozen=True, slots=True)
class _Compared:
    """A provider, and for each of its patterns why it does not match; None if it does."""

    provider: str
    patterns: Sequence[tuple[str, str | None]]

    @property
    def matches(self) -> bool:
        return any(why is None for _, why in self.patterns)


def _compared(provider: CredentialProvider, image: str) -> _Compared:
    from kubeauth.registry._mismatch import why_not

    return _Compared(provider.name, [(each, why_not(each, image)) for each in provider.match_images])


def _rows(found: Sequence[_Compared]) -> Iterator[tuple[str, ...]]:
    yield "PROVIDER", "MATCHES", "PATTERN", "WHY NOT"
    for each in found:
        # One that matches is enough: what is wrong with the others is not asked.
        shown = [(pattern, why) for pattern, why in each.patterns if (why is None) == each.matches]
        for pattern, why in shown:
            about = cell(each.provider), "no" if why else "yes", cell(pattern)
            yield (*about, cell(why)) if why else about


def _document(image: ImageReference, found: Sequence[_Compared]) -> Json:
    return {
        "image": str(image),
        "repository": image.repository,
        "providers": [
            {
                "name": each.provider,
                "matches": each.matches,
                "patterns": [
                    {"pattern": pattern, "matches": why is None, "whyNot": why}
                    for pattern, why in each.patterns
                ],
            }
            for each in found
        ],
    }
