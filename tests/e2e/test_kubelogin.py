"""int128/kubelogin before a real API server: the same person to it, by whichever client, for as long as it takes."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubeauth
from kubeauth.testing import APIServer, Received
from tests.e2e import third_party, tools
from tests.e2e.clouds import claims_of
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import until
from tests.e2e.plugin_setups import V1BETA1, oidc_arguments
from tests.e2e.recorder import Recorder
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.oidc_issuer import Issuer

NAMESPACES = "/api/v1/namespaces"
PASSWORD = "password-of-alice"

_GETS = """
import kubeauth
with kubeauth.Client() as client:
    print("answered", client.get("/api/v1/namespaces").status_code, client.get("/version").status_code)
"""


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    try:
        return Recorder(tmp_path / "bin", "kubectl-oidc_login", third_party.int128_kubelogin())
    except tools.Missing as missing:
        pytest.skip(str(missing))


def exec_config(recorder: Recorder, issuer: Issuer, cache: Path, *more: str) -> dict[str, Any]:
    """`exec`: alice logs in."""
    arguments = oidc_arguments(issuer, "--username=alice", f"--token-cache-dir={cache}", *more)
    return {
        "apiVersion": V1BETA1,
        "command": str(recorder.path),
        "args": arguments,
        "interactiveMode": "IfAvailable",
    }


@pytest.fixture
def issuer(cluster: ControlPlane) -> Iterator[Issuer]:
    """The one that the API server trusts, for as long as this test takes."""
    before = cluster.issuer.lifetime
    # "view" itself is empty here: nobody runs the controller that puts it together.
    cluster.allow("system:aggregate-to-view", user="oidc:alice")
    yield cluster.issuer
    cluster.issuer.lifetime = before


def test_a_real_api_server_takes_it_for_the_same_person(
    cluster: ControlPlane, issuer: Issuer, recorder: Recorder, variant: ClientVariant, tmp_path: Path
) -> None:
    user = {"exec": exec_config(recorder, issuer, tmp_path / "cache", f"--password={PASSWORD}")}
    document = cluster.kubeconfig(user)
    seen = len(cluster.audit())
    with variant.client(kubeauth.load_config(document)) as client:
        names = {item["metadata"]["name"] for item in client.get(NAMESPACES).json()["items"]}
        assert client.client.status().expires == recorder.runs[0].expires
    theirs = cluster.kubectl("get", "namespaces", "-o", "name", kubeconfig=document)
    assert names == {line.removeprefix("namespace/") for line in theirs.stdout.split()}, theirs.stderr
    first, second = recorder.runs
    assert first.info == second.info
    assert first.token == second.token  # it keeps it in a file

    def events(*agents: str) -> list[dict[str, Any]]:
        asked = [event for event in cluster.audit()[seen:] if event["requestURI"].startswith(NAMESPACES)]
        return [event for event in asked if event["userAgent"].startswith(agents)]

    # It is written down when it was answered.
    until(lambda: all((events("kubeauth", "python-"), events("kubectl", "kube/"))))
    (ours,), (its,) = events("kubeauth", "python-"), events("kubectl", "kube/")
    assert ours["user"] == its["user"]
    assert ours["user"]["username"] == "oidc:alice"


@pytest.mark.parametrize("variant", VARIANTS[:3], ids=str)
def test_tokens_that_end_are_followed_by_others(
    recorder: Recorder, variant: ClientVariant, tmp_path: Path
) -> None:
    """It gives the one it has until that is over, and the next by its refresh token. Nobody sees a 401."""

    def authenticate(request: Received) -> str | None:
        claims = claims_of(str(request.header("Authorization")))
        return str(claims["sub"]) if claims["exp"] > time.time() else None

    with Issuer(passwords={"alice": PASSWORD}, lifetime=6) as issuer:
        with APIServer(authenticate=authenticate) as server:
            user = {"exec": exec_config(recorder, issuer, tmp_path / "cache", f"--password={PASSWORD}")}
            with variant.client(kubeauth.load_config(server.kubeconfig(user))) as client:
                statuses = {client.get(NAMESPACES).status_code for _ in until_tokens(recorder, 3)}
        assert statuses == {200}
        assert issuer.refreshes == len({run.token for run in recorder.runs}) - 1 >= 2
        # Who has a password is asked for it once.
        assert len(issuer.token_requests("password")) == 1


def test_a_real_api_server_takes_the_next_one_too(
    cluster: ControlPlane, issuer: Issuer, recorder: Recorder, tmp_path: Path
) -> None:
    # It remembers a good token for ten seconds, and looks again then.
    issuer.lifetime = 12
    user = {"exec": exec_config(recorder, issuer, tmp_path / "cache", f"--password={PASSWORD}")}
    with kubeauth.Client(kubeauth.load_config(cluster.kubeconfig(user))) as client:
        statuses = {client.get(NAMESPACES).status_code for _ in until_tokens(recorder, 2)}
        assert client.get(NAMESPACES).status_code == 200
    assert statuses == {200}


def until_tokens(recorder: Recorder, count: int) -> Iterator[None]:
    """Again and again, until the plugin has given so many."""
    while len({run.token for run in recorder.runs}) < count:
        yield
        time.sleep(0.05)


@pytest.mark.parametrize("command", ["kubeauth", "kubectl"])
def test_it_asks_for_the_password_at_the_terminal(command: str, recorder: Recorder, tmp_path: Path) -> None:
    with Issuer(passwords={"alice": PASSWORD}) as issuer, APIServer() as server:
        document = server.kubeconfig({"exec": exec_config(recorder, issuer, tmp_path / "cache")})
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        kubectl = [str(tools.kube()), "kubectl", "get", "--raw", NAMESPACES]
        shown = at_terminal(
            [sys.executable, "-c", _GETS] if command == "kubeauth" else kubectl,
            {"KUBECONFIG": str(path)},
            prompt="Password: ",
            answer=PASSWORD,
        )
        assert PASSWORD not in shown
        assert ("answered 200 200" if command == "kubeauth" else "NamespaceList") in shown
        (run,) = recorder.runs
        assert run.info["spec"] == {"interactive": True}
        assert run.stdin == "terminal"
        assert {each.header("Authorization") for each in server.requests} == {f"Bearer {run.token}"}
        assert claims_of(run.token)["sub"] == "alice"


def at_terminal(command: list[str], variables: dict[str, str], *, prompt: str, answer: str) -> str:
    """Runs it at a terminal, types `answer` at `prompt`, and returns all that the screen shows."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    os.close(its)
    shown, answered = b"", False
    try:
        while select.select([ours], [], [], 60)[0]:
            # The terminal is gone when the last program that has it open is.
            with suppress(OSError):
                if data := os.read(ours, 4096):
                    shown += data
                    if not answered and prompt.encode() in shown:
                        answered = True
                        wait_for_secrecy(ours)
                        os.write(ours, answer.encode() + b"\n")
                    continue
            break
        assert process.wait(30) == 0, shown.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert answered, shown
    return shown.decode(errors="replace")


def wait_for_secrecy(terminal: int) -> None:
    """Until what is typed is not shown: the prompt comes first."""
    while termios.tcgetattr(terminal)[3] & termios.ECHO:
        time.sleep(0.01)
