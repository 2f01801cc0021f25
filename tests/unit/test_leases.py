"""Who still uses which connections: counted, also when lending and retiring meet (C16)."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

from kubeauth._transport._leases import Ledger, Pool
from kubeauth._transport._tls import Trust

TRUST = Trust(None)


class Lease:
    def cut(self) -> None:
        raise AssertionError("nobody is cut here")


class Inner:
    """Stands for a transport: counts how often it was closed, and knows whether it is in use."""

    def __init__(self) -> None:
        self.closed = 0


def pool() -> Pool[Inner]:
    return Pool(Inner(), None, TRUST)


def test_a_retired_pool_is_closed_by_its_last_lease() -> None:
    one, two, it = Lease(), Lease(), pool()
    assert it.lend(one)
    assert it.lend(two)
    assert it.retire(0.0) is None
    assert it.give_back(one) is None
    assert it.give_back(two) is it.inner


def test_a_pool_in_use_by_nobody_is_closed_when_it_is_retired() -> None:
    it = pool()
    assert it.retire(0.0) is it.inner
    assert it.retire(0.0) is None


def test_a_lease_counts_once_however_often_it_is_given_back() -> None:
    one, two, it = Lease(), Lease(), pool()
    it.lend(one)
    it.lend(two)
    it.retire(0.0)
    assert it.give_back(one) is None
    assert it.give_back(one) is None
    assert it.give_back(two) is it.inner
    assert it.give_back(two) is None


def test_the_garbage_collector_may_give_back_a_lease_while_the_pool_is_looked_at() -> None:
    lease, it = Lease(), pool()
    it.lend(lease)
    it.retire(0.0)
    with it._lock:  # whoever has it is interrupted here
        assert it.give_back(lease) is it.inner


def test_a_pool_that_is_not_retired_is_not_closed() -> None:
    one, it = Lease(), pool()
    it.lend(one)
    assert it.give_back(one) is None


def test_what_is_retired_and_in_use_may_still_be_lent_to_somebody_who_was_late() -> None:
    one, late, it = Lease(), Lease(), pool()
    it.lend(one)
    it.retire(0.0)
    assert it.lend(late)
    assert it.give_back(one) is None
    assert it.give_back(late) is it.inner


def test_what_is_closed_is_not_lent() -> None:
    it = pool()
    it.retire(0.0)
    assert not it.lend(Lease())


def test_a_pool_serves_one_identity_and_one_trust() -> None:
    it = pool()
    assert it.serves(None, TRUST)
    assert not it.serves(None, Trust(None))


class TestLedger:
    def test_a_swap_returns_what_must_be_closed(self) -> None:
        old, new = pool(), pool()
        ledger = Ledger(old, None)
        assert ledger.swap(new, 0.0) == [old.inner]
        assert ledger.lend(Lease()) is new

    def test_a_swap_leaves_what_is_in_use(self) -> None:
        old, lease = pool(), Lease()
        ledger = Ledger(old, None)
        ledger.lend(lease)
        assert ledger.swap(pool(), 0.0) == []
        assert ledger.everything() == [ledger.current.inner, old.inner]

    def test_there_is_no_deadline_unless_one_is_asked_for(self) -> None:
        ledger = Ledger(pool(), None)
        ledger.lend(Lease())
        ledger.swap(pool(), 5.0)
        assert ledger.deadline == float("inf")

    def test_the_deadline_is_that_of_the_first(self) -> None:
        first, second = pool(), pool()
        one, two = Lease(), Lease()
        ledger = Ledger(first, 10.0)
        ledger.lend(one)
        ledger.swap(second, 100.0)
        ledger.lend(two)
        ledger.swap(pool(), 105.0)
        assert ledger.deadline == 110.0
        assert ledger.overdue(109.9) == []
        assert ledger.overdue(110.0) == [one]
        assert ledger.deadline == 115.0
        assert ledger.overdue(200.0) == [two]
        assert ledger.deadline == float("inf")

    def test_what_was_cut_for_being_late_is_closed_by_its_last_lease(self) -> None:
        old, lease = pool(), Lease()
        ledger = Ledger(old, 10.0)
        ledger.lend(lease)
        ledger.swap(pool(), 0.0)
        assert ledger.overdue(10.0) == [lease]
        assert ledger.overdue(20.0) == []
        assert old.give_back(lease) is old.inner

    def test_what_is_closed_is_not_lent_and_nobody_waits_for_ever(self) -> None:
        ledger = Ledger(pool(), None)
        before = ledger.current
        assert ledger.everything() == [before.inner]
        assert ledger.everything() == []
        with pytest.raises(RuntimeError, match="closed while"):
            ledger.lend(Lease())
        assert not before.serves(None, TRUST)
        assert ledger.swap(new := pool(), 0.0) == []
        assert ledger.lend(Lease()) is new

    def test_a_pool_whose_users_are_garbage_is_garbage(self) -> None:
        old, lease = pool(), Lease()
        ledger = Ledger(old, None)
        ledger.lend(lease)
        ledger.swap(pool(), 0.0)
        gone = weakref.ref(old)
        del old, lease
        gc.collect()
        assert gone() is None

    def test_a_forgotten_pool_serves_nobody_and_is_not_closed(self) -> None:
        ledger = Ledger(pool(), None)
        ledger.forget()
        assert not ledger.current.serves(None, TRUST)
        assert ledger.swap(pool(), 0.0) == []
        assert ledger.current.serves(None, TRUST)
        ledger.forget()
        ledger.forget()


@pytest.mark.parametrize("threads", [2, 8])
def test_lending_and_swapping_at_once(threads: int) -> None:
    """No pool is closed while somebody uses it, and each is closed exactly once."""
    ledger: Ledger[Inner] = Ledger(pool(), None)
    made = [ledger.current.inner]
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
            mine = ledger.lend(lease)
            if mine.inner.closed:
                wrong.append("closed in use")
            close(mine.give_back(lease))

    users = [threading.Thread(target=use) for _ in range(threads)]
    for user in users:
        user.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        start.wait()
        for _ in range(3000):
            new = pool()
            made.append(new.inner)
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
