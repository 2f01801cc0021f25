"""Locks for event loops: one for each loop, since none works in two."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from anyio import Lock
from anyio.lowlevel import RunVar

_gates: RunVar[WeakKeyDictionary[object, Lock]] = RunVar("kubeauth_gates")


def gate_of(owner: object) -> Lock:
    """The lock of `owner` in this event loop, so that of all its tasks at most one occupies a thread."""
    try:
        gates = _gates.get()
    except LookupError:
        gates = WeakKeyDictionary()
        _gates.set(gates)
    return gates.setdefault(owner, Lock())
