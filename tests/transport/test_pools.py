"""Pools are closed when their last lease is checked in, also if checkout and swap are concurrent (C16)."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

from kubeauth._transport.pools import Pool, PoolManager
from kubeauth._transport.tls import Trust

TRUST = Trust(None)


class Lease:
    def abort(self) -> None:
        raise AssertionError("no lease is aborted in these tests")


class FakeTransport:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.close_count = 0


def new_pool() -> Pool[FakeTransport]:
    return Pool(FakeTransport(), None, TRUST)


def test_a_retired_pool_is_closed_by_its_last_lease() -> None:
    one, two, pool = Lease(), Lease(), new_pool()
    assert pool.checkout(one)
    assert pool.checkout(two)
    assert pool.retire(0.0) is None
    assert pool.checkin(one) is None
    assert pool.checkin(two) is pool.transport


def test_an_unused_pool_is_closed_when_it_is_retired() -> None:
    pool = new_pool()
    assert pool.retire(0.0) is pool.transport
    assert pool.retire(0.0) is None


def test_a_second_checkin_of_a_lease_is_ignored() -> None:
    one, two, pool = Lease(), Lease(), new_pool()
    pool.checkout(one)
    pool.checkout(two)
    pool.retire(0.0)

    assert pool.checkin(one) is None
    assert pool.checkin(one) is None
    assert pool.checkin(two) is pool.transport
    assert pool.checkin(two) is None


def test_a_lease_can_be_checked_in_while_the_pool_lock_is_held() -> None:
    lease, pool = Lease(), new_pool()
    pool.checkout(lease)
    pool.retire(0.0)

    with pool._lock:  # the garbage collector can run in the thread that holds it
        assert pool.checkin(lease) is pool.transport


def test_a_pool_that_is_not_retired_is_not_closed() -> None:
    one, pool = Lease(), new_pool()
    pool.checkout(one)
    assert pool.checkin(one) is None


def test_a_retired_pool_in_use_can_still_be_checked_out() -> None:
    one, two, pool = Lease(), Lease(), new_pool()
    pool.checkout(one)
    pool.retire(0.0)
    assert pool.checkout(two)
    assert pool.checkin(one) is None
    assert pool.checkin(two) is pool.transport


def test_a_closed_pool_cannot_be_checked_out() -> None:
    pool = new_pool()
    pool.retire(0.0)
    assert not pool.checkout(Lease())


def test_a_pool_matches_one_certificate_and_one_trust() -> None:
    pool = new_pool()
    assert pool.matches(None, TRUST)
    assert not pool.matches(None, Trust(None))


class TestPoolManager:
    def test_swap_returns_an_unused_transport_to_close(self) -> None:
        old, new = new_pool(), new_pool()
        manager = PoolManager(old, None)
        assert manager.swap(new, 0.0) == [old.transport]
        assert manager.checkout(Lease()) is new

    def test_swap_leaves_a_pool_in_use_open(self) -> None:
        old, lease = new_pool(), Lease()
        manager = PoolManager(old, None)
        manager.checkout(lease)
        assert manager.swap(new_pool(), 0.0) == []
        assert manager.close_all() == [manager.current.transport, old.transport]

    def test_without_a_drain_timeout_there_is_no_deadline(self) -> None:
        manager = PoolManager(new_pool(), None)
        manager.checkout(Lease())
        manager.swap(new_pool(), 5.0)
        assert manager.deadline == float("inf")

    def test_the_deadline_is_that_of_the_pool_retired_first(self) -> None:
        first, second = new_pool(), new_pool()
        one, two = Lease(), Lease()
        manager = PoolManager(first, 10.0)
        manager.checkout(one)
        manager.swap(second, 100.0)
        manager.checkout(two)
        manager.swap(new_pool(), 105.0)

        assert manager.deadline == 110.0
        assert manager.expired_leases(109.9) == []
        assert manager.expired_leases(110.0) == [one]
        assert manager.deadline == 115.0
        assert manager.expired_leases(200.0) == [two]
        assert manager.deadline == float("inf")

    def test_a_pool_with_expired_leases_is_closed_by_its_last_lease(self) -> None:
        old, lease = new_pool(), Lease()
        manager = PoolManager(old, 10.0)
        manager.checkout(lease)
        manager.swap(new_pool(), 0.0)

        assert manager.expired_leases(10.0) == [lease]
        assert manager.expired_leases(20.0) == []
        assert old.checkin(lease) is old.transport

    def test_checkout_after_close_all_raises_until_the_next_swap(self) -> None:
        manager = PoolManager(new_pool(), None)
        before = manager.current
        assert manager.close_all() == [before.transport]
        assert manager.close_all() == []

        with pytest.raises(RuntimeError, match="closed while"):
            manager.checkout(Lease())

        assert not before.matches(None, TRUST)
        assert manager.swap(new := new_pool(), 0.0) == []
        assert manager.checkout(Lease()) is new

    def test_a_retired_pool_is_garbage_collected_with_its_leases(self) -> None:
        old, lease = new_pool(), Lease()
        manager = PoolManager(old, None)
        manager.checkout(lease)
        manager.swap(new_pool(), 0.0)
        reference = weakref.ref(old)

        del old, lease
        gc.collect()

        assert reference() is None

    def test_a_pool_discarded_after_a_fork_is_not_used_and_not_closed(self) -> None:
        manager = PoolManager(new_pool(), None)
        manager.discard_after_fork()
        assert not manager.current.matches(None, TRUST)
        assert manager.swap(new_pool(), 0.0) == []
        assert manager.current.matches(None, TRUST)
        manager.discard_after_fork()
        manager.discard_after_fork()


@pytest.mark.parametrize("threads", [2, 8])
def test_concurrent_checkout_and_swap(threads: int) -> None:
    """No pool is closed while it is in use, and each is closed exactly once."""
    manager: PoolManager[FakeTransport] = PoolManager(new_pool(), None)
    transports = [manager.current.transport]
    closed_in_use: list[FakeTransport] = []
    start = threading.Barrier(threads + 1)
    stop = threading.Event()

    def close(transport: FakeTransport | None) -> None:
        if transport is not None:
            transport.close_count += 1

    def use_pools() -> None:
        start.wait()
        while not stop.is_set():
            lease = Lease()
            pool = manager.checkout(lease)
            if pool.transport.close_count:
                closed_in_use.append(pool.transport)
            close(pool.checkin(lease))

    users = [threading.Thread(target=use_pools) for _ in range(threads)]
    for user in users:
        user.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    try:
        start.wait()
        for _ in range(3000):
            new = new_pool()
            transports.append(new.transport)
            for transport in manager.swap(new, 0.0):
                close(transport)
    finally:
        stop.set()
        for user in users:
            user.join()
        sys.setswitchinterval(interval)

    assert closed_in_use == []
    assert [transport.close_count for transport in transports[:-1]] == [1] * 3000
    assert transports[-1].close_count == 0
