"""Connections up to the limit and beyond: new clients are answered, and requests in progress go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from kubeauth.testing import APIServer
from tests.proxy.conftest import Proxied
from tests.proxy.serving import PATIENCE, Proxy, Wire, code_of, get
from tests.support.residue import wait_until

OpenWires = Callable[[int], Iterator[Wire]]

LIMIT = 200
KEEP_ALIVE = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEAD = b"GET /version HTTP/1.1\r\nHost: local"


def send_nothing(_wire: Wire) -> None:
    pass


def send_half_a_head(wire: Wire) -> None:
    wire.say(HALF_A_HEAD)


def complete_request(wire: Wire) -> None:
    wire.say(KEEP_ALIVE)
    assert code_of(wire.until(b"linux/amd64")) == 200


@pytest.fixture
def proxy(proxied: Proxied, server: APIServer) -> Proxy:
    # Longer than any test: nothing is closed because of its age.
    seconds = {"head_seconds": 3600.0, "idle_seconds": 3600.0}
    return proxied(server.config(token="alices-token"), limits={"connections": LIMIT, **seconds})


@pytest.fixture
def open_wires(proxy: Proxy) -> Iterator[OpenWires]:
    """Opens connections one by one. They stay open to the end of the test unless the proxy closes them."""
    with ExitStack() as stack:
        yield lambda count: (stack.enter_context(proxy.connect()) for _ in range(count))


@pytest.mark.slow
@pytest.mark.attack(
    "proxy",
    "connection flood: silent, half a request head, idle after a request",
    "new clients are answered, and requests in progress go on",
)
@pytest.mark.parametrize("flood", [send_nothing, send_half_a_head, complete_request])
def test_a_new_client_is_answered_and_a_watch_goes_on(
    proxy: Proxy, server: APIServer, open_wires: OpenWires, flood: Callable[[Wire], None]
) -> None:
    watch = server.watch("/watch")
    (watching,) = open_wires(1)
    watching.say(get("/watch"))
    watching.until(b"\r\n\r\n")
    watch.wait_for_watchers(timeout=60)

    for wire in open_wires(LIMIT + 20):
        flood(wire)
    wait_until(lambda: proxy.counts.evicted >= 21)
    assert proxy.get("/version").status_code == 200

    # And while the flood goes on, for more connections than the limit.
    for number in range(15):
        for wire in open_wires(15):
            flood(wire)
        assert proxy.get("/version").status_code == 200
        watch.send({"type": "ADDED", "object": {"number": number}})
        watching.until(b'"number": %d}' % number)
    wait_until(lambda: proxy.counts.connections <= LIMIT)
    assert proxy.counts.refused == {}


def test_connections_that_never_completed_a_request_are_evicted_before_idle_ones(
    proxy: Proxy, open_wires: OpenWires
) -> None:
    (steady,) = open_wires(1)
    complete_request(steady)
    first, *_ = open_wires(LIMIT + 20)
    assert first.rest() == b""  # the oldest of them was closed
    complete_request(steady)


def test_the_longest_idle_is_evicted_first(proxy: Proxy, open_wires: OpenWires) -> None:
    idle = list(open_wires(LIMIT))
    for wire in idle:
        complete_request(wire)
    complete_request(idle[0])  # so the second has been idle longest
    assert proxy.get("/version").status_code == 200
    assert idle[1].rest() == b""
    complete_request(idle[0])


def test_many_that_connect_at_once_beside_idle_connections_are_all_answered(
    proxy: Proxy, open_wires: OpenWires
) -> None:
    for wire in open_wires(LIMIT):
        complete_request(wire)
    new = list(open_wires(15))
    wait_until(lambda: proxy.counts.evicted == 15)  # all of them were accepted before the first request
    for wire in new:
        complete_request(wire)


def test_only_requests_in_progress_keep_a_new_client_out(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), limits={"connections": 2}, metrics_port=0)
    watch = server.watch("/watch")
    with proxy.connect() as one, proxy.connect() as other:
        for count, wire in enumerate((one, other), start=1):
            wire.say(get("/watch"))
            wire.until(b"\r\n\r\n")
            watch.wait_for_watchers(count, timeout=60)
        with proxy.connect() as third:
            rejected = third.rest()
        assert code_of(rejected) == 503
        assert b"have a request in progress" in rejected
        assert b"connection: close" in rejected.lower()
        assert proxy.counts.refused == {"connections": 1}
        # Probes have a limit of their own.
        assert httpx.get(f"http://{proxy.metrics}/healthz", timeout=PATIENCE, trust_env=False).text == "ok"
        watch.send({"type": "ADDED"})
        for wire in (one, other):
            wire.until(b"ADDED")
    wait_until(lambda: proxy.counts.connections == 0)
    assert proxy.get("/version").status_code == 200


def test_probes_are_answered_beside_idle_connections(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), limits={"connections": 2}, metrics_port=0)
    host, _, port = str(proxy.metrics).rpartition(":")
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(Wire.to(host, int(port)))
        wait_until(lambda: proxy.counts.evicted == 3)
        answer = httpx.get(f"http://{proxy.metrics}/metrics", timeout=PATIENCE, trust_env=False).text
    assert "kubeauth_proxy_evicted_connections_total 4.0" in answer
