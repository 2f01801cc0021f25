from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeauth.cli import main
from kubeauth.testing import APIServer, Authority
from tests.cli.programs import Ran

Run = Callable[..., Ran]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The command line, in this process."""

    def ran(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Ran(ended.value.code, out.decode(), err.decode())

    return ran


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
