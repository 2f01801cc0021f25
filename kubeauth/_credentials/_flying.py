"""What is done once for all who want it at the same time, in threads and in event loops."""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from kubeauth._compat import is_out_of_threads
from kubeauth._credentials._flight import Flight
from kubeauth.errors import KubeAuthError

T = TypeVar("T")

Board = Callable[[Flight[T]], T | Flight[T]]
"""Gives what is at hand; or the flight to wait for. If that is the one it was given, that must be flown."""
Fly = Callable[[Flight[T]], None]
"""Does what is to be done, and lands whatever comes of it."""


class Flying(ABC, Generic[T]):
    """Who has flights under way. Which they are, and what each is for, is its own business."""

    def _taken(self, board: Board[T], fly: Fly[T]) -> T:
        """What `board` has at hand, or what a flight came to. KubeAuthError if it failed."""
        while True:
            own: Flight[T] = Flight()
            # From the moment that others can see it: one of them may be a signal handler of this thread.
            own.pilot = threading.get_ident()
            try:
                boarded = board(own)
                if not isinstance(boarded, Flight):
                    return boarded
                if boarded is own:
                    fly(own)
                else:
                    self._wait_for(boarded)
            except BaseException:
                self._abandon(own)
                raise
            if (outcome := boarded.taken()) is not None:
                return outcome

    async def _ataken(self, board: Board[T], fly: Fly[T]) -> T:
        """As `_taken`, off the event loop. Cancelling leaves the flight to itself, and to the others."""
        from kubeauth._credentials._gate import gate_of  # for those alone who have an event loop

        while True:
            own: Flight[T] = Flight()
            try:
                boarded = board(own)
                if not isinstance(boarded, Flight):
                    return boarded
                if boarded is own:
                    self._fly_in_background(own, fly)
            except BaseException:
                self._abandon(own)
                raise
            # Of all tasks of a loop one occupies a thread; the others find that it has landed.
            async with gate_of(boarded):
                if not boarded.has_landed:
                    await self._await_landing(boarded)
            if (outcome := boarded.taken()) is not None:
                return outcome

    def _fly_in_background(self, flight: Flight[T], fly: Fly[T]) -> None:
        """In a thread that no exit waits for, and no cancelled caller ends."""
        thread = threading.Thread(target=fly, args=(flight,), name="kubeauth-renewal", daemon=True)
        flight.pilot = None  # it says so itself
        try:
            thread.start()
        except RuntimeError as error:
            if not is_out_of_threads(error):
                raise
            self._land_failure(flight, self._no_thread())

    def _wait_for(self, flight: Flight[T]) -> None:
        if flight.pilot == threading.get_ident():
            raise self._error(
                f"this thread is asking {self._asked} already: a signal handler cannot wait for what it has "
                "interrupted. Make the request from another thread."
            )
        flight.wait()

    async def _await_landing(self, flight: Flight[T]) -> None:
        try:
            await flight.await_landing()
        except RuntimeError as error:
            if not is_out_of_threads(error):
                raise
            raise self._no_thread() from None

    def _no_thread(self) -> KubeAuthError:
        return self._error(
            f"no thread can be started for {self._asked}: this process has too many. Raise its limit "
            "(ulimit -u), or look for a leak."
        )

    def _fault(self, error: Exception) -> KubeAuthError:
        """For what we did not think of."""
        return self._error(
            f"asking {self._asked} failed unexpectedly ({type(error).__name__}). This is a fault of "
            "kubeauth: please report it, with what it has logged."
        )

    @property
    @abstractmethod
    def _asked(self) -> str:
        """The name of whoever is asked."""

    @abstractmethod
    def _error(self, message: str) -> KubeAuthError:
        """An error for what went wrong around it."""

    @abstractmethod
    def _land_failure(self, flight: Flight[T], error: KubeAuthError) -> None:
        """For everybody who waits."""

    @abstractmethod
    def _abandon(self, flight: Flight[T]) -> None:
        """If it has not landed, nobody flies it any more: who waited must see to it themselves.

        Ctrl-C, or whatever else a signal handler raises, may come between any two instructions: whoever is
        about to fly calls this for it, from the moment that others could wait for it.
        """


def places(error: Exception) -> str:
    """Where it happened. That may be logged, but not its words: they may quote what was said."""
    return "".join(traceback.format_tb(error.__traceback__))
