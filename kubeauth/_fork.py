"""What must be made anew in a child process: locks, and connections that are the parent's."""

from __future__ import annotations

import os
import threading
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


# Held by who imports something late, in a thread: a fork in the middle of that would leave the child with a
# module that nobody finishes, and everybody waits for. Reentrant: what is imported may fork.
no_fork = threading.RLock()


def _in_the_child() -> None:
    no_fork.release()
    for thing in list(_registered):
        thing.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=_in_the_child)
