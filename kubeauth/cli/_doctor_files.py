"""The kubeconfig files: which there are, what is in them, who wins, and who else can read them."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubeauth._config.files import make_absolute
from kubeauth._config.kubeconfig import LoadedFiles, read_kubeconfigs
from kubeauth._parsing import Json
from kubeauth.cli._doctor_findings import Finding, error, ok, warning
from kubeauth.cli._doctor_words import counted, listed, of_problem
from kubeauth.schemas._kubeconfig import Kubeconfig, User

Entry = tuple[str, str]
"""Of which kind, and its name."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of the chain, read once: it may be a pipe."""

    path: str
    found: LoadedFiles
    mode: int | None


def look_at_files(paths: Sequence[str]) -> list[File]:
    """Each of them."""
    return [File(path, read_kubeconfigs((path,)), mode_of(make_absolute(path))) for path in paths if path]


def together(files: Sequence[File]) -> LoadedFiles:
    """As if they had been read as a chain."""
    return LoadedFiles(
        tuple(config for file in files for config in file.found.configs),
        tuple(path for file in files for path in file.found.missing),
        tuple(problem for file in files for problem in file.found.problems),
    )


def mode_of(path: str) -> int | None:
    """Its permissions; None if there are none that mean something."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) if os.name == "posix" else None
    except (OSError, ValueError):
        return None


def exposure(mode: int | None, *, holds_secrets: bool) -> str | None:
    """Who else can do what with a file; None if nobody can, or it does not matter."""
    if mode is None:
        return None
    for others, group, verb in ((0o002, 0o020, "write"), (0o004, 0o040, "read")):
        if mode & (others | group) and (holds_secrets or verb == "write"):
            return f"{'everybody' if mode & others else 'its group'} can {verb} it (mode {mode:04o})"
    return None


def make_private(path: str) -> str:
    """What to do about that."""
    return f"Run: chmod 600 {shlex.quote(path)}"


def file_findings(files: Sequence[File], named_by: str, *, in_pod: bool) -> Iterator[Finding]:
    """A line for each. `named_by` is who named them: --kubeconfig, KUBECONFIG, or nobody."""
    before: dict[Entry, str] = {}
    if not files:
        yield _nowhere(named_by)
    for file in files:
        facts: dict[str, Json] = {"path": file.path, "named_by": named_by or None}
        if file.found.missing:
            yield _missing(file.path, named_by, in_pod)
        elif file.found.problems:
            for problem in file.found.problems:
                what, advice = of_problem(problem)
                yield error("file", what, advice, **facts)
        else:
            (config,) = file.found.configs
            yield _readable(file, config, before, facts)
            for entry in entries_of(config):
                before.setdefault(entry, file.path)


def _nowhere(named_by: str) -> Finding:
    if named_by:
        say = error if named_by == "--kubeconfig" else warning
        return say(
            "file", f"{named_by} names no file", f"Name one, or leave out {named_by}.", named_by=named_by
        )
    advice = "Set KUBECONFIG to the path of a kubeconfig, or HOME."
    return warning("file", "there is no home directory to look in", advice, named_by=None)


def _missing(path: str, named_by: str, in_pod: bool) -> Finding:
    facts: dict[str, Json] = {"path": path, "named_by": named_by or None, "exists": False}
    summary = f"{path} does not exist"
    if named_by == "--kubeconfig":
        tilde = " `~` was not expanded: leave out the quotes, or write $HOME." if path.startswith("~") else ""
        return error("file", summary, f"Check the path.{tilde}", **facts)
    if named_by:
        return warning("file", summary, f"Create it, or take it out of {named_by}.", **facts)
    if in_pod:
        return ok("file", f"{summary}: this is a pod, which has its own configuration", **facts)
    return warning("file", summary, "Set KUBECONFIG, or put a kubeconfig there.", **facts)


def _readable(file: File, config: Kubeconfig, before: dict[Entry, str], facts: dict[str, Json]) -> Finding:
    counts = {"contexts": len(config.contexts), "clusters": len(config.clusters), "users": len(config.users)}
    summary = f"{file.path}: " + ", ".join(counted(n, name[:-1]) for name, n in counts.items())
    hidden = [entry for entry in entries_of(config) if entry in before]
    if hidden:
        names = listed([f"{kind} {name}" for kind, name in hidden], 3)
        summary += f"; {len(hidden)} hidden by {before[hidden[0]]}, which comes first: {names}"
    mode = None if file.mode is None else f"{file.mode:04o}"
    known = {**facts, "exists": True, "mode": mode, **counts, "hidden": [list(entry) for entry in hidden]}
    holds_secrets = any(_holds_secrets(user) for user in config.users.values())
    if exposed := exposure(file.mode, holds_secrets=holds_secrets):
        holds = ", and it holds secrets" if holds_secrets else ", and so choose the plugin that is run"
        return warning("file", f"{summary}; {exposed}{holds}", make_private(file.path), **known)
    return ok("file", summary, **known)


def entries_of(config: Kubeconfig) -> Iterator[Entry]:
    """Everything that has a name in it."""
    for kind, names in (("context", config.contexts), ("cluster", config.clusters), ("user", config.users)):
        yield from ((kind, name) for name in names)


def _holds_secrets(user: User) -> bool:
    return bool(user.token or user.password or user.client_key_data or user.auth_provider)
