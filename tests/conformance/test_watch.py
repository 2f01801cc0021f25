"""List and watch with credentials of a second or two, as an informer does (T63, T64)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubeauth.testing import APIServer, FakeClock
from tests.conformance.plugins import ShellPlugin, config_of, credential
from tests.support.clients import ClientVariant, Driver

LIST = "/api/v1/namespaces"
WATCH = "/api/v1/watch/namespaces"


def event(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name}}}


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_a_list_and_a_watch_t63_c23(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock, kind: str
) -> None:
    pair = server.authority.client("carol") if kind == "certificate" else None
    script = ShellPlugin(tmp_path)

    def renew() -> None:
        script.says(credential(None if pair else "alices-token", pair, expires=clock.time() + 1))

    renew()
    watch = server.watch(WATCH)
    with variant.client(config_of(server, script), clock=clock) as client:
        assert len(client.get(LIST).json()["items"]) == 3
        with client.stream("GET", WATCH) as stream:
            watch.wait_for_watchers()
            for type_ in ("ADDED", "MODIFIED", "DELETED"):
                watch.send(event(type_, "test"))
                assert json.loads(stream.line())["type"] == type_
                # The credential ends while the watch goes on, and others need a new one.
                clock.advance(2)
                renew()
                assert client.get(LIST).status_code == 200
    assert {request.user for request in server.requests} == {"carol" if pair else "alice"}


def test_credentials_that_come_and_go_t64(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    script = ShellPlugin(tmp_path)
    watch = server.watch(WATCH)

    def synced(client: Driver) -> bool:
        """As an informer starts: it lists, then it watches."""
        if client.get(LIST).status_code != 200:
            return False
        with client.stream("GET", WATCH) as stream:
            status: int = stream.response.status_code
            if status == 200:
                watch.send(event("ADDED", "new"))
                assert json.loads(stream.line()) == event("ADDED", "new")
                # The server goes away in the middle of it.
                server.hang_up()
                with pytest.raises(variant.library.TransportError):
                    stream.line()
        return status == 200

    def rotate(token: str) -> None:
        script.says(credential(token, expires=clock.time() + 2))

    with variant.client(config_of(server, script), clock=clock) as client:
        for token, expected in (
            ("invalid", False),
            ("alices-token", True),
            ("invalid", False),
            ("alices-token", True),
        ):
            rotate(token)
            assert synced(client) is expected
            if not expected:
                rotate(token)
                assert synced(client) is expected
            clock.advance(3)
