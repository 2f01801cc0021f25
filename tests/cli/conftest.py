from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeauth.cli._registry_flags import BIN_DIR_VARIABLE, CONFIG_VARIABLE
from kubeauth.testing import APIServer, Authority
from tests.cli.in_process import Captured, run_in_process
from tests.cli.nodes import Node

Run = Callable[..., Captured]


@pytest.fixture
def run() -> Run:
    """The command line, in this process."""
    return run_in_process


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """What a command has set is not for the tests after it."""
    names = ("kubeauth", "kubeauth.registry", "httpx", "httpcore")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with no providers yet; the environment says nothing of others."""
    for variable in (CONFIG_VARIABLE, BIN_DIR_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    return Node(tmp_path / "node")


@pytest.fixture(scope="session")
def ca() -> Authority:
    return Authority()


@pytest.fixture
def api(ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[APIServer]:
    """A server that knows alice, bob, and whoever has a certificate; KUBECONFIG is alice's."""
    with APIServer(
        authority=ca, tokens={"alices-token": "alice"}, passwords={"bob": "bobs-password"}
    ) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(server.kubeconfig({"token": "alices-token"})))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield server


@pytest.fixture
def kubectl() -> str:
    """The kubectl that KUBECTL names, or the one on PATH."""
    found = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if not found:
        pytest.skip("no kubectl here")
    return found
