"""List and watch with credentials that expire after a second or two, as an informer does (T63, T64)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubeauth.testing import APIServer, FakeClock
from tests.conformance.plugins import plugin_config
from tests.support.clients import ClientVariant, Driver
from tests.support.shell_plugin import ShellPlugin, credential

LIST = "/api/v1/namespaces"
WATCH = "/api/v1/watch/namespaces"


def event(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name}}}


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_a_watch_continues_after_the_credential_expired_t63_c23(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock, kind: str
) -> None:
    pair = server.authority.client("carol") if kind == "certificate" else None
    script = ShellPlugin(tmp_path)

    def issue_credential() -> None:
        script.set_output(credential(None if pair else "alices-token", pair, expires=clock.time() + 1))

    issue_credential()
    watch = server.watch(WATCH)

    with variant.client(plugin_config(server, script), clock=clock) as client:
        assert len(client.get(LIST).json()["items"]) == 3
        with client.stream("GET", WATCH) as stream:
            watch.wait_for_watchers()
            for type_ in ("ADDED", "MODIFIED", "DELETED"):
                watch.send(event(type_, "test"))
                assert json.loads(stream.line())["type"] == type_
                # The credential of the watch expires, and the next request needs a new one.
                clock.advance(2)
                issue_credential()
                assert client.get(LIST).status_code == 200

    assert {request.user for request in server.requests} == {"carol" if pair else "alice"}


def test_lists_and_watches_recover_from_invalid_credentials_t64(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    script = ShellPlugin(tmp_path)
    watch = server.watch(WATCH)

    def list_and_watch(client: Driver) -> bool:
        """Whether both requests were accepted."""
        if client.get(LIST).status_code != 200:
            return False
        with client.stream("GET", WATCH) as stream:
            status: int = stream.response.status_code
            if status == 200:
                watch.send(event("ADDED", "new"))
                assert json.loads(stream.line()) == event("ADDED", "new")
                # The server closes the connection during the watch.
                server.hang_up()
                with pytest.raises(variant.library.TransportError):
                    stream.line()
        return status == 200

    def issue_token(token: str) -> None:
        script.set_output(credential(token, expires=clock.time() + 2))

    with variant.client(plugin_config(server, script), clock=clock) as client:
        for token, expected in (
            ("invalid", False),
            ("alices-token", True),
            ("invalid", False),
            ("alices-token", True),
        ):
            issue_token(token)
            assert list_and_watch(client) is expected
            if not expected:
                issue_token(token)
                assert list_and_watch(client) is expected
            clock.advance(3)
