"""Which connection is evicted when a server has as many as it can serve."""

from __future__ import annotations

import random

import pytest

from kubeauth._connections import ConnectionLimit, ConnectionLimitReached


def complete_request(limit: ConnectionLimit[str], connection: str) -> None:
    assert limit.on_request_started(connection)
    limit.on_request_completed(connection)


def fill(limit: ConnectionLimit[str], *connections: str) -> None:
    for connection in connections:
        assert limit.add(connection) is None


def test_nothing_is_evicted_below_the_limit() -> None:
    limit = ConnectionLimit[str](3)
    fill(limit, "a", "b", "c")
    assert len(limit) == 3

    limit.remove("b")
    fill(limit, "d")
    assert "b" not in limit
    assert "d" in limit


def test_the_oldest_connection_without_a_completed_request_is_evicted_first() -> None:
    limit = ConnectionLimit[str](3)
    fill(limit, "a", "b", "c")
    complete_request(limit, "a")

    assert limit.add("d") == "b"
    assert limit.add("e") == "c"
    assert "a" in limit
    assert len(limit) == 3


def test_the_longest_idle_connection_is_evicted_next() -> None:
    limit = ConnectionLimit[str](3)
    fill(limit, "a", "b", "c")
    for connection in ("a", "b", "c", "a"):
        complete_request(limit, connection)
    assert limit.add("d") == "b"

    complete_request(limit, "d")
    assert limit.add("e") == "c"

    complete_request(limit, "e")
    assert limit.add("f") == "a"


def test_a_connection_with_a_request_in_progress_is_never_evicted() -> None:
    limit = ConnectionLimit[str](3)
    fill(limit, "a", "b", "c")
    complete_request(limit, "b")

    assert limit.on_request_started("a")  # its first
    assert limit.on_request_started("b")  # its second
    assert limit.add("d") == "c"
    assert limit.on_request_started("d")
    with pytest.raises(ConnectionLimitReached, match="all 3 connections"):
        limit.add("e")
    assert "e" not in limit
    assert len(limit) == 3

    limit.on_request_completed("b")
    assert limit.add("e") == "b"


def test_slow_readers_above_a_tenth_of_the_limit_are_evicted_first() -> None:
    """Their clients do not read. Idle connections are kept, whatever the slow ones complete."""
    limit = ConnectionLimit[str](20)
    idle, slow = ["idle-0", "idle-1"], [f"slow-{n}" for n in range(18)]
    fill(limit, *idle, *slow)
    for connection in idle:
        complete_request(limit, connection)
    for connection in slow:
        assert limit.on_request_started(connection)
        limit.on_response_started(connection)
    limit.on_request_completed("slow-0")
    assert limit.on_request_started("slow-0")
    limit.on_response_started("slow-0")  # its second response, so it is the newest
    limit.on_response_started("slow-1")  # another part of the same response
    assert limit.on_request_started("slow-1")  # not in progress before the response was sent

    evicted = [limit.add(f"new-{n}") for n in range(18)]
    # Two slow and two new connections are within the tenth, and are not evicted early.
    assert evicted == [*slow[1:17], "new-0", "new-1"]
    assert all(connection in limit for connection in [*idle, "slow-17", "slow-0"])


def test_a_connection_sending_a_response_is_evicted_if_all_others_are_in_progress() -> None:
    limit = ConnectionLimit[str](10)
    fill(limit, *"abcdefghij")
    for connection in "abcdefghij":
        assert limit.on_request_started(connection)

    limit.on_response_started("c")
    assert limit.add("k") == "c"

    limit.on_response_started("c")
    assert "c" not in limit
    assert len(limit) == 10


def test_an_evicted_connection_is_not_served() -> None:
    """Its request may have been read in the meantime."""
    limit = ConnectionLimit[str](1)
    fill(limit, "a")
    assert limit.add("b") == "a"
    assert not limit.on_request_started("a")

    limit.on_request_completed("a")
    limit.remove("a")
    assert len(limit) == 1
    assert "b" in limit


def test_a_tenth_of_the_limit_is_available_to_new_connections() -> None:
    """Otherwise, with idle connections only, each new connection would evict the previous new one."""
    limit = ConnectionLimit[str](100)
    idle = [f"idle-{n}" for n in range(100)]
    fill(limit, *idle)
    for connection in idle:
        complete_request(limit, connection)
    new = [f"new-{n}" for n in range(12)]

    # There can be a tenth of the limit plus one new connections.
    assert [limit.add(connection) for connection in new] == [*idle[:11], "new-0"]
    assert all(limit.on_request_started(connection) for connection in new[1:])


def test_a_connection_cannot_be_added_twice() -> None:
    limit = ConnectionLimit[str](2)
    fill(limit, "a")

    with pytest.raises(ValueError, match="already"):
        limit.add("a")
    with pytest.raises(ValueError, match="at least 1"):
        ConnectionLimit[str](0)


@pytest.mark.parametrize("seed", range(20))
def test_random_operations_never_exceed_the_limit_nor_evict_requests_in_progress(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 -- a test
    limit = ConnectionLimit[int](random_.choice([1, 5, 40]))
    open_: set[int] = set()
    in_progress: set[int] = set()
    responding: set[int] = set()
    for number in range(2000):
        match random_.choice(["add", "add", "start", "respond", "complete", "remove"]):
            case "add":
                try:
                    evicted = limit.add(number)
                except ConnectionLimitReached:
                    assert len(in_progress) == limit.max_connections
                    continue
                open_.add(number)
                if evicted is not None:
                    assert evicted not in in_progress
                    open_.remove(evicted)
                    responding.discard(evicted)
            case "start" if open_:
                connection = random_.choice(sorted(open_))
                assert limit.on_request_started(connection)
                if connection not in responding:
                    in_progress.add(connection)
            case "respond" if in_progress:
                connection = random_.choice(sorted(in_progress))
                limit.on_response_started(connection)
                in_progress.remove(connection)
                responding.add(connection)
            case "complete" if in_progress or responding:
                connection = random_.choice(sorted(in_progress | responding))
                limit.on_request_completed(connection)
                in_progress.discard(connection)
                responding.discard(connection)
            case "remove" if open_:
                connection = random_.choice(sorted(open_))
                limit.remove(connection)
                open_.discard(connection)
                in_progress.discard(connection)
                responding.discard(connection)
        assert len(limit) == len(open_) <= limit.max_connections
        assert all(connection in limit for connection in open_)
