"""The connection pool of the direct transports: which connections are reused, and which are closed."""

from __future__ import annotations

import pytest

from kubeauth.testing import FakeClock
from kubeauth.transports._pool import Origin, Pool

ORIGIN: Origin = ("https", "h", 6443, "h")
OTHER_ORIGIN: Origin = ("https", "h", 443, "h")


class FakeConnection:
    """A connection that counts how often it was aborted."""

    def __init__(self, origin: Origin = ORIGIN) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.aborts = 0

    def abort(self) -> None:
        self.aborts += 1


def build_pool(
    clock: FakeClock, max_idle: int | None = 3, expiry: float | None = 90.0
) -> Pool[FakeConnection]:
    return Pool(max_idle, expiry, clock.monotonic)


def use_and_release(pool: Pool[FakeConnection], *connections: FakeConnection) -> None:
    for connection in connections:
        pool.add(connection)
    for connection in connections:
        pool.release(connection)


def test_the_most_recently_used_connection_is_reused_first(clock: FakeClock) -> None:
    pool, one, two = build_pool(clock), FakeConnection(), FakeConnection()
    assert pool.acquire(ORIGIN) is None
    use_and_release(pool, one, two)
    assert (pool.acquire(ORIGIN), pool.acquire(ORIGIN), pool.acquire(ORIGIN)) == (two, one, None)


def test_a_connection_is_only_reused_for_its_origin(clock: FakeClock) -> None:
    pool, here, there = build_pool(clock), FakeConnection(ORIGIN), FakeConnection(OTHER_ORIGIN)
    use_and_release(pool, here, there)
    assert (pool.acquire(ORIGIN), pool.acquire(ORIGIN), pool.acquire(OTHER_ORIGIN)) == (here, None, there)


def test_an_expired_connection_is_not_reused(clock: FakeClock) -> None:
    pool, one = build_pool(clock), FakeConnection()
    use_and_release(pool, one)
    clock.advance(89.9)
    assert pool.acquire(ORIGIN) is one

    pool.release(one)
    clock.advance(90.0)
    assert pool.acquire(ORIGIN) is None


def test_releasing_a_connection_closes_expired_ones_of_any_origin(clock: FakeClock) -> None:
    pool, one, two, three = (
        build_pool(clock),
        FakeConnection(OTHER_ORIGIN),
        FakeConnection(),
        FakeConnection(),
    )
    use_and_release(pool, one)
    clock.advance(60.0)
    use_and_release(pool, two)
    clock.advance(30.0)
    use_and_release(pool, three)

    assert (one.aborts, two.aborts, three.aborts) == (1, 0, 0)


def test_the_oldest_idle_connections_are_closed_above_the_limit(clock: FakeClock) -> None:
    pool, connections = build_pool(clock, max_idle=2), [FakeConnection() for _ in range(4)]
    use_and_release(pool, *connections)
    assert [connection.aborts for connection in connections] == [1, 1, 0, 0]
    assert pool.acquire(ORIGIN) is connections[3]


def test_a_limit_of_zero_retains_no_connection(clock: FakeClock) -> None:
    pool, one = build_pool(clock, max_idle=0), FakeConnection()
    use_and_release(pool, one)
    assert (one.aborts, pool.acquire(ORIGIN)) == (1, None)


def test_without_limits_all_connections_are_retained(clock: FakeClock) -> None:
    pool, connections = build_pool(clock, None, None), [FakeConnection() for _ in range(200)]
    use_and_release(pool, *connections)
    clock.advance(1e9)

    assert pool.acquire(ORIGIN) is connections[-1]
    assert {connection.aborts for connection in connections} == {0}


def test_a_discarded_connection_is_closed_and_not_reused(clock: FakeClock) -> None:
    pool, one = build_pool(clock), FakeConnection()
    pool.add(one)
    pool.discard(one)
    assert (one.aborts, pool.acquire(ORIGIN)) == (1, None)

    pool.close()
    assert one.aborts == 1


def test_close_closes_all_connections_and_those_released_later(clock: FakeClock) -> None:
    pool, idle, busy, late = build_pool(clock), FakeConnection(), FakeConnection(), FakeConnection()
    use_and_release(pool, idle)
    pool.add(busy)
    pool.close()

    assert (idle.aborts, busy.aborts) == (1, 1)

    use_and_release(pool, late)
    assert (late.aborts, pool.acquire(ORIGIN)) == (1, None)

    pool.close()
    assert (idle.aborts, busy.aborts, late.aborts) == (1, 1, 1)


def test_a_forked_child_forgets_the_connections_of_its_parent(clock: FakeClock) -> None:
    pool, idle, busy = build_pool(clock), FakeConnection(), FakeConnection()
    use_and_release(pool, idle)
    pool.add(busy)
    pool._lock.acquire()  # held by a thread that does not exist in the child
    pool.after_fork()

    assert pool.acquire(ORIGIN) is None

    pool.release(busy)
    assert (idle.aborts, busy.aborts, pool.acquire(ORIGIN)) == (0, 1, None)


@pytest.mark.parametrize("moment", range(1, 7))
@pytest.mark.parametrize(("max_idle", "idle_time"), [(1, 0.0), (None, 90.0)])
def test_the_garbage_collector_may_release_a_connection_at_any_moment(
    clock: FakeClock, moment: int, max_idle: int | None, idle_time: float
) -> None:
    """An abandoned generator around a response is closed when the garbage collector finds it."""
    calls = 0

    def now() -> float:
        nonlocal calls
        calls += 1
        if calls == moment:
            pool.release(garbage)
        return clock.monotonic()

    pool = Pool[FakeConnection](max_idle, 90.0, now)
    one, two, garbage = connections = [FakeConnection() for _ in range(3)]
    for connection in connections:
        pool.add(connection)
    pool.release(one)
    clock.advance(idle_time)
    pool.release(two)
    if (reused := pool.acquire(ORIGIN)) is not None:
        pool.release(reused)
    pool.close()

    assert [one.aborts, two.aborts] == [1, 1]
    assert garbage.aborts == 1
