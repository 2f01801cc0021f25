"""`kubeauth registry check`: all that is wrong with a configuration of credential providers."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Status
from kubeauth.cli._flags import add_output
from kubeauth.cli._output import write_text
from kubeauth.cli._registry_flags import BIN_DIR_VARIABLE, Output, ProviderFlags, add_provider_flags
from kubeauth.cli._tables import cell
from kubeauth.errors import ProviderConfigError

if TYPE_CHECKING:
    from kubeauth.cli._doctor_findings import Finding
    from kubeauth.schemas import CredentialProviderConfig

# A name in the left column; the rest of a longer one is in what is said about it.
_LONGEST = 32

Sections = Mapping[str, Sequence["Finding"]]


class Options(ProviderFlags):
    path: str | None = None
    output: Output = Output.table
    strict: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="CONFIG", nargs="?", help="a file or a directory (default: that of --config)"
    )
    add_provider_flags(parser)
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    add_output(parser, Output, "table (default) or json")


def run(options: Options) -> int:
    """Look at a configuration of credential providers, and say all that is wrong with it.

    Whether the kubelet would take it; whether each provider has a program in --bin-dir, if that is given;
    and which patterns can never match an image, or not the images that one would think. The kubelet is
    silent about patterns. Nothing is run. Exits with 1 if there is an error.
    """
    from kubeauth.cli._doctor import _colour
    from kubeauth.cli._doctor_findings import Level, worst
    from kubeauth.cli._doctor_report import as_json, as_sections, closing

    options.log_less()
    sections = examined(options.path or options.needed_config_path(), options.bin_dir)
    findings = list(chain.from_iterable(sections.values()))
    if options.output is Output.json:
        write_text(f"{as_json(findings)}\n")
    else:
        longest = max(len(finding.id) for finding in findings)
        width = shutil.get_terminal_size().columns
        text = as_sections(sections, closing(findings), longest=longest, width=width, colour=_colour())
        write_text(f"{text}\n")
    bad = (Level.ERROR, Level.WARNING) if options.strict else (Level.ERROR,)
    return Status.FAILED if worst(findings) in bad else Status.OK


def examined(path: str, bin_dir: str) -> Sections:
    """All findings, by what they are about."""
    from kubeauth.cli._doctor_findings import error, ok
    from kubeauth.cli._doctor_words import counted, of_problem
    from kubeauth.registry._load import load_provider_config

    try:
        config = load_provider_config(path)
    except ProviderConfigError as refused:
        problems = [of_problem(problem) for problem in refused.problems]
        return {"configuration": [error("config", what, advice or _MEND) for what, advice in problems]}
    files = f"{path}: {counted(len(config.paths), 'file')}" if config.paths != (path,) else path
    many = counted(len(config.providers), "provider")
    good = ok("config", f"{files}, {many}", files=list(config.paths), hash=config.hash)
    return {
        "configuration": [good],
        "programs": list(_programs(config, bin_dir)),
        "patterns": list(_patterns(config)),
    }


_MEND = "The kubelet does not start with it: mend that."


def _programs(config: CredentialProviderConfig, bin_dir: str) -> Iterator[Finding]:
    from kubeauth.cli._doctor_findings import error, ok, skipped

    if not bin_dir:
        why = f"not looked for: give --bin-dir, or set {BIN_DIR_VARIABLE}"
        yield from (skipped(_id(each.name), why) for each in config.providers)
        return
    if not os.path.isdir(bin_dir):
        yield error("bin-dir", f"{bin_dir} is no directory", "Name the directory of the providers' programs.")
        return
    directory = os.path.abspath(bin_dir)
    for provider in config.providers:
        path, fault = _program(directory, provider.name)
        if fault is None:
            yield ok(_id(provider.name), path, program=path)
        else:
            yield error(_id(provider.name), f"{path} {fault[0]}", fault[1], program=path)


def _program(directory: str, name: str) -> tuple[str, tuple[str, str] | None]:
    """Where it should be, and what is wrong with it: what, and what to do."""
    from kubeauth.registry._provider import program_path

    path = os.path.join(directory, name)
    if (found := program_path(directory, name)) is not None:
        return found, None
    if not os.path.lexists(path):
        return path, ("is not there", "Put it there: a provider's name is that of its program.")
    if not os.path.exists(path):
        return path, ("is a link that leads nowhere", "Let it lead to the program.")
    if os.path.isdir(path):
        return path, ("is a directory", "Name the program itself: a provider's name is that of its program.")
    return path, ("may not be run by this user", f"Make it executable: chmod +x {path}")


def _patterns(config: CredentialProviderConfig) -> Iterator[Finding]:
    from kubeauth.cli._doctor_findings import ok, warning

    for provider in config.providers:
        told = [each for each in config.warnings if each.provider == provider.name]
        is_never_asked = sum(each.is_useless for each in told) == len(provider.match_images)
        for each in told:
            how = "can never match an image" if each.is_useless else "may surprise"
            all_of_them = ", nor any other of this provider: it is never asked" if is_never_asked else ""
            yield warning(
                _id(provider.name),
                f"{each.pattern!r} {how}{all_of_them}",
                f"{each.message[:1].upper()}{each.message[1:]}.",
                pattern=each.pattern,
                isUseless=each.is_useless,
                file=each.path,
            )
        if not told:
            yield ok(_id(provider.name), ", ".join(provider.match_images))


def _id(name: str) -> str:
    return cell(name)[:_LONGEST]
