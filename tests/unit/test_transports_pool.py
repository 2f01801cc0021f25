"""Which connections are lent again, and which are ended."""

from __future__ import annotations

import pytest

from kubeauth.testing import FakeClock
from kubeauth.transports._pool import Origin, Pool

HERE: Origin = ("https", "h", 6443, "h")
THERE: Origin = ("https", "h", 443, "h")


class Fake:
    """A connection that remembers its end."""

    def __init__(self, origin: Origin = HERE) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.aborts = 0

    def abort(self) -> None:
        self.aborts += 1


def pool(clock: FakeClock, max_idle: int | None = 3, expiry: float | None = 90.0) -> Pool[Fake]:
    return Pool(max_idle, expiry, clock.monotonic)


def used(pool: Pool[Fake], *connections: Fake) -> None:
    for each in connections:
        pool.add(each)
    for each in connections:
        pool.release(each)


def test_the_one_in_use_last_is_lent_first(clock: FakeClock) -> None:
    it, one, two = pool(clock), Fake(), Fake()
    assert it.acquire(HERE) is None
    used(it, one, two)
    assert (it.acquire(HERE), it.acquire(HERE), it.acquire(HERE)) == (two, one, None)


def test_each_goes_to_its_own_origin(clock: FakeClock) -> None:
    it, here, there = pool(clock), Fake(HERE), Fake(THERE)
    used(it, here, there)
    assert (it.acquire(HERE), it.acquire(HERE), it.acquire(THERE)) == (here, None, there)


def test_what_is_idle_for_too_long_is_not_lent(clock: FakeClock) -> None:
    it, one = pool(clock), Fake()
    used(it, one)
    clock.advance(89.9)
    assert it.acquire(HERE) is one
    it.release(one)
    clock.advance(90.0)
    assert it.acquire(HERE) is None


def test_and_is_ended_by_whoever_comes_next_wherever_that_was(clock: FakeClock) -> None:
    it, one, two, three = pool(clock), Fake(THERE), Fake(), Fake()
    used(it, one)
    clock.advance(60.0)
    used(it, two)
    clock.advance(30.0)
    used(it, three)
    assert (one.aborts, two.aborts, three.aborts) == (1, 0, 0)


def test_one_too_many_is_the_oldest(clock: FakeClock) -> None:
    it, connections = pool(clock, max_idle=2), [Fake() for _ in range(4)]
    used(it, *connections)
    assert [each.aborts for each in connections] == [1, 1, 0, 0]
    assert it.acquire(HERE) is connections[3]


def test_none_at_all_may_be_kept(clock: FakeClock) -> None:
    it, one = pool(clock, max_idle=0), Fake()
    used(it, one)
    assert (one.aborts, it.acquire(HERE)) == (1, None)


def test_any_number_may_be_kept_for_ever(clock: FakeClock) -> None:
    it, connections = pool(clock, None, None), [Fake() for _ in range(200)]
    used(it, *connections)
    clock.advance(1e9)
    assert it.acquire(HERE) is connections[-1]
    assert {each.aborts for each in connections} == {0}


def test_what_is_dropped_is_ended_and_not_lent(clock: FakeClock) -> None:
    it, one = pool(clock), Fake()
    it.add(one)
    it.discard(one)
    assert (one.aborts, it.acquire(HERE)) == (1, None)
    it.close()
    assert one.aborts == 1


def test_all_are_ended_and_none_is_kept_that_comes_later(clock: FakeClock) -> None:
    it, idle, busy, late = pool(clock), Fake(), Fake(), Fake()
    used(it, idle)
    it.add(busy)
    it.close()
    assert (idle.aborts, busy.aborts) == (1, 1)
    used(it, late)
    assert (late.aborts, it.acquire(HERE)) == (1, None)
    it.close()
    assert (idle.aborts, busy.aborts, late.aborts) == (1, 1, 1)


def test_in_a_child_they_are_the_parents(clock: FakeClock) -> None:
    it, idle, busy = pool(clock), Fake(), Fake()
    used(it, idle)
    it.add(busy)
    it._lock.acquire()  # by a thread that the child does not have
    it.after_fork()
    assert it.acquire(HERE) is None
    it.release(busy)
    assert (idle.aborts, busy.aborts, it.acquire(HERE)) == (0, 1, None)


@pytest.mark.parametrize("moment", range(1, 7))
@pytest.mark.parametrize(("max_idle", "late"), [(1, 0.0), (None, 90.0)])
def test_garbage_may_give_one_back_in_the_middle_of_anything(
    clock: FakeClock, moment: int, max_idle: int | None, late: float
) -> None:
    """A generator around a response that nobody goes on with is closed when the collector finds it."""
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        if looks == moment:
            it.release(garbage)
        return clock.monotonic()

    it = Pool[Fake](max_idle, 90.0, now)
    one, two, garbage = everything = [Fake() for _ in range(3)]
    for each in everything:
        it.add(each)
    it.release(one)
    clock.advance(late)
    it.release(two)
    if (lent := it.acquire(HERE)) is not None:
        it.release(lent)
    it.close()
    # Each has ended once, and none is forgotten.
    assert [one.aborts, two.aborts] == [1, 1]
    assert garbage.aborts == 1
