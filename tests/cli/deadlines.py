"""Time limits that begin late: what comes before is not what a test is about, and a machine may stall in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeauth._transport.deadline import Deadline

# Of what is to be late.
SECONDS = 0.2


def beginning_with(event: str, count: int = 1) -> type[Deadline]:
    """One that gives all the time there is until httpcore tells of `event` for the `count`-th time.

    From then on it is as short as a test has patience for. Who does not use it is not ended by it.
    """

    class Late(Deadline):
        _told = 0

        def on_trace(self, told: str, info: Mapping[str, Any]) -> None:
            super().on_trace(told, info)
            self._told += told.endswith(event)
            if self._timer is not None and told.endswith(event) and self._told == count:
                self._timer.cancel()
                self._seconds = SECONDS
                self.__enter__()

    return Late
