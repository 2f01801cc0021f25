"""Who asks: so many threads, or so many tasks, each taking the next context when it is done with one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from kubeauth.fleet._answer import Answer
from kubeauth.fleet._plan import OfTheCaller, Plan
from kubeauth.fleet._sync import Asking, Logins
from kubeauth.fleet._threads import Limits

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from kubeauth.fleet import _async

# How long it is waited for threads that were told to end. One that is looking up a name, or connecting,
# cannot be told: it ends when that does, and holds nothing up until then.
_PATIENCE, _A_MOMENT = 1.0, 0.05
_ENDS = (KeyboardInterrupt, SystemExit)


@contextmanager
def threads(plan: Plan) -> Generator[Iterator[Answer]]:
    """Answers as they come. Leaving it ends what is still under way."""
    crew = Crew(plan)
    try:
        crew.start()
        yield crew.answers()
    finally:
        crew.close()


class Crew:
    """The threads of one call. They are daemons: a process that ends does not wait for them."""

    def __init__(self, plan: Plan) -> None:
        self._logins = Logins()
        self._limits = Limits(plan.too_late)
        self._asking = Asking(plan, self._logins, self._limits)
        self._names = iter(plan.names)  # the next one is taken in one step, whoever takes it
        self._came: SimpleQueue[Answer | BaseException | None] = SimpleQueue()
        # Who asks faster than the answers are taken waits, so that they do not pile up.
        self._room = threading.Semaphore(2 * plan.workers)
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._work, name=f"kubeauth-fleet-{number}", daemon=True)
            for number in range(plan.workers)
        ]

    def start(self) -> None:
        """As many as can be had. RuntimeError if that is none."""
        for number, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError:  # the process has too many
                del self._threads[number:]
                if not self._threads:
                    raise
                return

    def answers(self) -> Iterator[Answer]:
        """Each as it comes."""
        running = len(self._threads)
        while running and not self._is_over:
            came = self._came.get()
            if came is None:
                running -= 1
            elif isinstance(came, BaseException):
                raise came
            else:
                self._room.release()
                yield came

    def close(self) -> None:
        """Ends everything: connections, plugins, threads."""
        self._is_over = True
        try:
            self._limits.close()
        finally:
            self._logins.close()
            self._room.release(1 + len(self._threads))
            if not self._is_alone(_PATIENCE):
                last = threading.Thread(target=self._is_alone, name="kubeauth-fleet-last", daemon=True)
                with suppress(RuntimeError):  # the process has too many
                    last.start()

    def _is_alone(self, seconds: float = math.inf) -> bool:
        """Waits for the threads, so long at the most. Whether they have ended."""
        ends = time.monotonic() + seconds
        while running := [thread for thread in self._threads if thread.is_alive()]:
            if time.monotonic() > ends:
                return False
            running[0].join(_A_MOMENT)
            # One of them may have had a plugin started just after the others were ended.
            self._logins.close()
        return True

    def _work(self) -> None:
        try:
            while self._room.acquire() and not self._is_over:
                name = next(self._names, None)
                if name is None:
                    return
                self._came.put(self._asking.answer(name))
        except OfTheCaller as theirs:
            self._came.put(theirs.error)
        except BaseException as error:  # a fault of ours is raised to the caller too
            self._came.put(error)
        finally:
            self._came.put(None)


@asynccontextmanager
async def tasks(plan: Plan) -> AsyncGenerator[AsyncIterator[Answer]]:
    """As `threads`, for asyncio and trio."""
    from anyio import create_memory_object_stream, create_task_group

    from kubeauth.fleet import _async, _loops

    logins = _async.Logins()
    asking = _async.Asking(plan, logins, _loops.Limits(plan.too_late))
    names = iter(plan.names)
    came, taken = create_memory_object_stream[Answer | Exception](2 * plan.workers)
    raised: BaseException | None = None
    try:
        async with create_task_group() as group, taken:
            async with came:
                for _ in range(plan.workers):
                    group.start_soon(_work, asking, names, came.clone())
            try:
                yield _Answers(taken)
            except (Exception, *_ENDS) as error:  # not to be wrapped in a group: there is one
                raised = error
            group.cancel_scope.cancel()
    except BaseExceptionGroup as several:
        # trio's Ctrl-C may strike in any task.
        raised = next((each for each in _leaves(several) if isinstance(each, _ENDS)), several)
    finally:
        await _settled(logins)
    if raised is not None:
        raise raised


async def _work(
    asking: _async.Asking, names: Iterator[str], came: MemoryObjectSendStream[Answer | Exception]
) -> None:
    async with came:
        try:
            for name in names:
                await came.send(await asking.answer(name))
        except OfTheCaller as theirs:
            await came.send(theirs.error)
        except Exception as error:  # a fault of ours is raised to the caller too
            await came.send(error)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


class _Answers(AsyncIterator[Answer]):
    """Not an async generator: whoever leaves one in the middle would have to close it."""

    def __init__(self, taken: MemoryObjectReceiveStream[Answer | Exception]) -> None:
        self._taken = taken

    async def __anext__(self) -> Answer:
        came = await self._taken.__anext__()
        if isinstance(came, Exception):
            raise came
        return came


async def _settled(logins: _async.Logins) -> None:
    from anyio import CancelScope

    with CancelScope(shield=True):
        await logins.aclose()
