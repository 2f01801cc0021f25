"""What must be made anew in a child process: locks, and connections that are the parent's."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Called in the child, before any other code of the program."""
        ...


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()


def call_after_fork(thing: Forkable) -> None:
    """Has `thing.after_fork()` called in every child that is forked while it lives."""
    _registered.add(thing)


def _in_the_child() -> None:
    for thing in list(_registered):
        thing.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_in_the_child)
