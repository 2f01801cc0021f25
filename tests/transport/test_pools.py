"""Who still uses which connections: counted, also when lending and retiring meet (C16)."""

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
        raise AssertionError("nobody is cut here")


class Inner:
    """Stands for a transport: counts how often it was closed, and knows whether it is in use."""

    def __init__(self) -> None:
        self.closed = 0


def pool() -> Pool[Inner]:
    return Pool(Inner(), None, TRUST)


def test_a_retired_pool_is_closed_by_its_last_lease() -> None:
    one, two, it = Lease(), Lease(), pool()
    assert it.checkout(one)
    assert it.checkout(two)
    assert it.retire(0.0) is None
    assert it.checkin(one) is None
    assert it.checkin(two) is it.transport


def test_a_pool_in_use_by_nobody_is_closed_when_it_is_retired() -> None:
    it = pool()
    assert it.retire(0.0) is it.transport
    assert it.retire(0.0) is None


def test_a_lease_counts_once_however_often_it_is_given_back() -> None:
    one, two, it = Lease(), Lease(), pool()
    it.checkout(one)
    it.checkout(two)
    it.retire(0.0)
    assert it.checkin(one) is None
    assert it.checkin(one) is None
    assert it.checkin(two) is it.transport
    assert it.checkin(two) is None


def test_the_garbage_collector_may_give_back_a_lease_while_the_pool_is_looked_at() -> None:
    lease, it = Lease(), pool()
    it.checkout(lease)
    it.retire(0.0)
    with it._lock:  # whoever has it is interrupted here
        assert it.checkin(lease) is it.transport


def test_a_pool_that_is_not_retired_is_not_closed() -> None:
    one, it = Lease(), pool()
    it.checkout(one)
    assert it.checkin(one) is None


def test_what_is_retired_and_in_use_may_still_be_lent_to_somebody_who_was_late() -> None:
    one, late, it = Lease(), Lease(), pool()
    it.checkout(one)
    it.retire(0.0)
    assert it.checkout(late)
    assert it.checkin(one) is None
    assert it.checkin(late) is it.transport


def test_what_is_closed_is_not_lent() -> None:
    it = pool()
    it.retire(0.0)
    assert not it.checkout(Lease())


def test_a_pool_serves_one_identity_and_one_trust() -> None:
    it = pool()
    assert it.matches(None, TRUST)
    assert not it.matches(None, Trust(None))


class TestLedger:
    def test_a_swap_returns_what_must_be_closed(self) -> None:
        old, new = pool(), pool()
        ledger = PoolManager(old, None)
        assert ledger.swap(new, 0.0) == [old.transport]
        assert ledger.checkout(Lease()) is new

    def test_a_swap_leaves_what_is_in_use(self) -> None:
        old, lease = pool(), Lease()
        ledger = PoolManager(old, None)
        ledger.checkout(lease)
        assert ledger.swap(pool(), 0.0) == []
        assert ledger.close_all() == [ledger.current.transport, old.transport]

    def test_there_is_no_deadline_unless_one_is_asked_for(self) -> None:
        ledger = PoolManager(pool(), None)
        ledger.checkout(Lease())
        ledger.swap(pool(), 5.0)
        assert ledger.deadline == float("inf")

    def test_the_deadline_is_that_of_the_first(self) -> None:
        first, second = pool(), pool()
        one, two = Lease(), Lease()
        ledger = PoolManager(first, 10.0)
        ledger.checkout(one)
        ledger.swap(second, 100.0)
        ledger.checkout(two)
        ledger.swap(pool(), 105.0)
        assert ledger.deadline == 110.0
        assert ledger.expired_leases(109.9) == []
        assert ledger.expired_leases(110.0) == [one]
        assert ledger.deadline == 115.0
        assert ledger.expired_leases(200.0) == [two]
        assert ledger.deadline == float("inf")

    def test_what_was_cut_for_being_late_is_closed_by_its_last_lease(self) -> None:
        old, lease = pool(), Lease()
        ledger = PoolManager(old, 10.0)
        ledger.checkout(lease)
        ledger.swap(pool(), 0.0)
        assert ledger.expired_leases(10.0) == [lease]
        assert ledger.expired_leases(20.0) == []
        assert old.checkin(lease) is old.transport

    def test_what_is_closed_is_not_lent_and_nobody_waits_for_ever(self) -> None:
        ledger = PoolManager(pool(), None)
        before = ledger.current
        assert ledger.close_all() == [before.transport]
        assert ledger.close_all() == []
        with pytest.raises(RuntimeError, match="closed while"):
            ledger.checkout(Lease())
        assert not before.matches(None, TRUST)
        assert ledger.swap(new := pool(), 0.0) == []
        assert ledger.checkout(Lease()) is new

    def test_a_pool_whose_users_are_garbage_is_garbage(self) -> None:
        old, lease = pool(), Lease()
        ledger = PoolManager(old, None)
        ledger.checkout(lease)
        ledger.swap(pool(), 0.0)
        gone = weakref.ref(old)
        del old, lease
        gc.collect()
        assert gone() is None

    def test_a_forgotten_pool_serves_nobody_and_is_not_closed(self) -> None:
        ledger = PoolManager(pool(), None)
        ledger.discard_after_fork()
        assert not ledger.current.matches(None, TRUST)
        assert ledger.swap(pool(), 0.0) == []
        assert ledger.current.matches(None, TRUST)
        ledger.discard_after_fork()
        ledger.discard_after_fork()


@pytest.mark.parametrize("threads", [2, 8])
def test_lending_and_swapping_at_once(threads: int) -> None:
    """No pool is closed while somebody uses it, and each is closed exactly once."""
    ledger: PoolManager[Inner] = PoolManager(pool(), None)
    made = [ledger.current.transport]
    wrong: list[str] = []
    start = threading.Barrier(threads + 1)
    stop = threading.Event()

    def close(inner: Inner | None) -> None:
        if inner is not None:
            inner.closed += 1

    def use() -> None:
        start.wait()
        while not stop.is_set():
            lease = Lease()
            mine = ledger.checkout(lease)
            if mine.transport.closed:
                wrong.append("closed in use")
            close(mine.checkin(lease))

    users = [threading.Thread(target=use) for _ in range(threads)]
    for user in users:
        user.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        start.wait()
        for _ in range(3000):
            new = pool()
            made.append(new.transport)
            for inner in ledger.swap(new, 0.0):
                close(inner)
    finally:
        stop.set()
        for user in users:
            user.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    assert [inner.closed for inner in made[:-1]] == [1] * 3000
    assert made[-1].closed == 0
