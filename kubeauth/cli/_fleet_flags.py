"""Which contexts are meant: the flags of a fleet, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags

if TYPE_CHECKING:
    from kubeauth._config.contexts import Contexts
    from kubeauth._exec.config import ExecOptions

# They say which cluster is meant: here that is what the contexts say.
_OF_ONE = ("context", "cluster", "server", "tls_server_name")


def split(patterns: Iterable[str]) -> tuple[str, ...]:
    """More than once, or with commas between."""
    return tuple(filter(None, (part for each in patterns for part in each.split(","))))


def contexts_of(options: Flags, exec_options: ExecOptions | None = None) -> Contexts:
    """All contexts there are. Failed for flags that are about one cluster."""
    from kubeauth._config.contexts import Contexts

    for name in _OF_ONE:
        if name in vars(options):
            flag = f"--{name.replace('_', '-')}"
            raise Failed(
                f"error: {flag} is about one cluster, and here are many. Which, is said by patterns for the "
                "names of contexts.",
                Status.USAGE,
            )
    return Contexts.read(options.loader(exec_options), options.kubeconfig or None)


def chosen_of(known: Contexts, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Those that fit. KubeConfigError for a pattern that fits none."""
    from kubeauth.fleet._choice import chosen

    return chosen(known.names, patterns, ", ".join(known.paths) or None)
