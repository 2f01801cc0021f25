"""Kubeconfigs with many contexts, servers that do not answer, and a call of every runtime."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from kubeauth import fleet
from kubeauth.testing import APIServer, Authority
from tests.support.kubeconfigs import V1

RUNTIMES = ("sync", "asyncio", "trio")

# Notes its first argument, and gives a token. Not Python: two hundred of these are started.
_PLUGIN = f"""#!/bin/sh
echo "$1" >> "$0.runs"
echo '{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "alices-token"}}}}'
"""


class Fleet:
    """A kubeconfig in the making: `add` a context, with its cluster and user."""

    def __init__(self) -> None:
        self.clusters: dict[str, Any] = {}
        self.users: dict[str, Any] = {}
        self.contexts: dict[str, Any] = {}

    def add(
        self,
        name: str,
        server: APIServer | str,
        user: Mapping[str, Any] | None = None,
        *,
        authority: Authority | None = None,
        user_name: str = "",
        **context: Any,
    ) -> None:
        """A server that is given by its URL is trusted if its `authority` is given."""
        url = server if isinstance(server, str) else server.url
        authority = authority if isinstance(server, str) else server.authority
        trust = {} if authority is None else {"certificate-authority-data": _encoded(authority.pem)}
        self.clusters[f"{name}-cluster"] = {"server": url} | trust
        user_name = user_name or f"{name}-user"
        self.users.setdefault(user_name, {"token": "alices-token"} if user is None else dict(user))
        self.contexts[name] = {"cluster": f"{name}-cluster", "user": user_name} | context

    @property
    def document(self) -> dict[str, Any]:
        return {
            "clusters": [{"name": name, "cluster": each} for name, each in self.clusters.items()],
            "users": [{"name": name, "user": each} for name, each in self.users.items()],
            "contexts": [{"name": name, "context": each} for name, each in self.contexts.items()],
        }

    def write(self, path: Path) -> str:
        path.write_text(json.dumps(self.document))
        return str(path)


def ask(runtime: str, path: Any, **settings: Any) -> fleet.Report:
    """`fleet.get`, or `fleet.aget` on an event loop."""
    if runtime == "sync":
        return fleet.get(path, **settings)
    return anyio.run(partial(fleet.aget, path, **settings), backend=runtime)


def first(runtime: str, path: Any, count: int, **settings: Any) -> list[fleet.Answer]:
    """The first answers that come; then it is left."""
    if runtime == "sync":
        with fleet.stream(path, **settings) as answers:
            return [next(answers) for _ in range(count)]

    async def taken() -> list[fleet.Answer]:
        async with fleet.astream(path, **settings) as answers:
            return [await anext(answers) for _ in range(count)]

    return anyio.run(taken, backend=runtime)


class NotedPlugin:
    """A plugin that is started quickly, and notes its argument."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "noted-plugin"
        self.path.write_text(_PLUGIN)
        self.path.chmod(0o700)

    def user(self, argument: str = "") -> dict[str, Any]:
        stanza = {"apiVersion": V1, "command": str(self.path), "args": [argument], "interactiveMode": "Never"}
        return {"exec": stanza}

    @property
    def runs(self) -> list[str]:
        try:
            return Path(f"{self.path}.runs").read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []


@contextmanager
def dead_port() -> Iterator[str]:
    """An address where nobody listens, and nobody else can in the meantime."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{bound.getsockname()[1]}"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
