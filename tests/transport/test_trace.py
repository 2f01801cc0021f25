"""How many modules and frames of kubeauth a request uses: fewer are easier to follow.

Three of those of the first request are the model of the ExecCredential and its base.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import httpx
import pytest

import kubeauth
from kubeauth.testing import APIServer
from tests.support.shell_plugin import ShellPlugin

PACKAGE = Path(kubeauth.__file__).parent


@contextmanager
def traced() -> Iterator[set[str]]:
    """The kubeauth modules in which this thread calls a function."""
    modules: set[str] = set()

    def on_event(frame: FrameType, event: str, _arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            modules.add(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(on_event)
    try:
        yield modules
    finally:
        sys.setprofile(None)


class Cluster:
    """A server and a client whose plugin returns the server's current token."""

    def __init__(self, server: APIServer, directory: Path) -> None:
        self.server = server
        self.plugin = ShellPlugin(directory)
        self.plugin.answer(token="t1", expires_in=3600)
        self.client = kubeauth.Client(
            kubeauth.load_config(server.kubeconfig({"exec": self.plugin.exec_config()}))
        )

    def get(self) -> None:
        assert self.client.get("/version").status_code == 200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with APIServer(tokens={"t1": "alice", "t2": "alice"}) as server:
        cluster = Cluster(server, tmp_path)
        with cluster.client:
            yield cluster


def test_the_first_request_uses_at_most_23_modules(cluster: Cluster) -> None:
    with traced() as modules:
        cluster.get()
    assert len(cluster.plugin.runs) == 1
    assert len(modules) <= 23, sorted(modules)


def test_a_request_with_a_cached_credential_uses_at_most_6_modules(cluster: Cluster) -> None:
    cluster.get()
    with traced() as modules:
        cluster.get()

    assert len(cluster.plugin.runs) == 1
    assert len(modules) <= 6, sorted(modules)


def test_a_retry_after_a_401_uses_at_most_25_modules(cluster: Cluster) -> None:
    cluster.get()
    cluster.plugin.answer(token="t2", expires_in=3600)
    cluster.server.tokens.pop("t1")

    with traced() as modules:
        cluster.get()

    assert len(cluster.plugin.runs) == 2
    assert len(modules) <= 25, sorted(modules)


class FrameRecorder(httpx.BaseTransport):
    """Responds from memory, and records the frames of kubeauth below `handle_request`."""

    def __init__(self, next_status: Callable[[], int]) -> None:
        self.frames: list[list[str]] = []
        self._next_status = next_status

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        names: list[str] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                names.append(frame.f_code.co_name)
            frame = frame.f_back
        self.frames.append(names[::-1])
        return httpx.Response(self._next_status())


def test_at_most_three_frames_between_handle_request_and_the_underlying_transport(tmp_path: Path) -> None:
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="t1")
    statuses = iter([200, 401, 200, 200])

    def next_status() -> int:
        plugin.answer(token="t2")  # for the run after the 401
        return next(statuses)

    transport = FrameRecorder(next_status)
    config = kubeauth.ClientConfig(
        server="https://10.0.0.1",
        exec=kubeauth.ExecConfig(
            command=str(plugin.path),
            api_version="client.authentication.k8s.io/v1",
            interactive_mode="Never",
        ),
    )

    with kubeauth.Client(config, transport_factory=lambda _context, _proxy: transport) as client:
        for path in ("/a", "/b", "https://other.example/"):
            assert client.get(path).status_code == 200

    assert transport.frames == [
        ["handle_request", "_send_signed", "_send_once"],
        ["handle_request", "_send_signed", "_send_once"],
        ["handle_request", "_retry_after_401", "_send_signed", "_send_once"],
        ["handle_request", "_send_public"],
    ]
