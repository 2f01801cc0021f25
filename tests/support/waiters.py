"""Wait until callers wait for the run of a plugin that is in progress."""

from __future__ import annotations

import anyio

from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._runtime import loop_lock
from tests.support.residue import wait_until


def wait_for_waiters(source: RefreshableSource, expected: int) -> None:
    """Wait until this many threads and event loops wait for the run.

    A thread that runs the plugin itself does not count. Of an event loop one task waits, for all of its tasks.
    """
    wait_until(lambda: (call := source._call) is not None and len(call._waiters) == expected)


async def wait_for_waiting_tasks(source: RefreshableSource, expected: int) -> None:
    """Wait until this many tasks of the running event loop, and no other caller, wait for the run."""

    def count() -> int | None:
        if (call := source._call) is None:
            return None
        # One task waits for the call, and holds the lock that the others wait for.
        return len(call._waiters) + loop_lock(call).statistics().tasks_waiting

    with anyio.fail_after(60):
        while count() != expected:  # noqa: ASYNC110 -- no event tells that a caller has started to wait
            await anyio.sleep(0.01)
