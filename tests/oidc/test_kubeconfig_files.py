"""OIDC tokens are written back to the kubeconfig, are not lost, and are shared with other processes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from kubeauth import Client, OidcOptions, errors, load_config
from kubeauth._config.writeback import exclusive_lock
from kubeauth._credentials.cache import SOURCE_CACHE
from kubeauth._oidc.provider import _providers
from kubeauth.testing import APIServer, Authority, FakeClock
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.oidc import Kubeconfig, authenticate, claims, settings, write_kubeconfig
from tests.support.oidc_issuer import CONFIGURATION, TOKEN, Issuer

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(rotating=True) as issuer:
        yield issuer


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, authenticate=authenticate) as server:
        yield server


@pytest.fixture
def kubeconfig(issuer: Issuer, server: APIServer, tmp_path: Path) -> Kubeconfig:
    (tmp_path / "kube").mkdir()
    return write_kubeconfig(
        server, tmp_path / "kube" / "config", settings(issuer, refresh_token=issuer.new_refresh_token())
    )


def test_tokens_are_written_to_the_file_of_the_user_o7(
    variant: ClientVariant, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    document = kubeconfig.document()
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump({"current-context": "test", "contexts": document.pop("contexts")}))
    third = tmp_path / "third"
    third.write_text(yaml.safe_dump({"users": [{**document["users"][0], "user": {"token": "overridden"}}]}))
    kubeconfig.path.write_text(yaml.safe_dump({**document, "current-context": ""}))
    untouched = [first.read_bytes(), third.read_bytes()]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, kubeconfig.path, third))))

    with variant.client(load_config()) as client:
        assert client.get("/version").status_code == 200

    assert claims(kubeconfig.entry()["id-token"])["sub"] == "alice"
    assert [first.read_bytes(), third.read_bytes()] == untouched


def test_tokens_of_a_document_stay_in_memory_o7(issuer: Issuer, server: APIServer) -> None:
    config = settings(issuer, refresh_token=issuer.new_refresh_token())
    document = server.kubeconfig({"auth-provider": {"name": "oidc", "config": config}})
    clock = FakeClock(time.time())

    for _ in range(3):
        # The first client has used up the refresh token of the document; the others use its successors.
        with Client(load_config(document), clock=clock) as client:
            assert client.get("/version").status_code == 200
        clock.advance(7200)

        # A new source evicts expired ones, but not this one.
        other = settings(issuer, refresh_token=issuer.new_refresh_token())
        another = server.kubeconfig({"auth-provider": {"name": "oidc", "config": other}})
        client = Client(load_config(another), clock=clock)
        client.close()

    assert (issuer.refreshes, issuer.errors) == (3, [])


def test_a_refresh_token_without_a_successor_is_used_again_o6(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    """A document has no file from which it could be read again."""
    issuer.rotating = False
    clock = FakeClock(time.time())
    config = load_config(kubeconfig.document())

    with Client(config, clock=clock) as client:
        for _ in range(3):
            assert client.get("/version").status_code == 200
            clock.advance(7200)

    assert (issuer.refreshes, issuer.errors) == (3, [])


def test_tokens_stay_in_memory_with_write_back_false_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    before = kubeconfig.path.read_bytes()
    kubeconfig.path.parent.chmod(0o500)
    clock = FakeClock(time.time())
    config = load_config(kubeconfig.path, oidc_options=OidcOptions(write_back=False))

    with Client(config, clock=clock) as client:
        for _ in range(3):
            assert client.get("/version").status_code == 200
            clock.advance(7200)
        assert kubeconfig.path.read_bytes() == before
        assert (issuer.refreshes, issuer.errors) == (3, [])

        # A new login is still read from the file.
        kubeconfig.change(refresh_token=issuer.new_refresh_token("bob"))
        clock.advance(7200)
        client.get("/version")
    assert issuer.errors == []

    kubeconfig.path.parent.chmod(0o700)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)  # no request is sent
def test_no_tokens_are_requested_if_the_kubeconfig_cannot_be_written_o7(
    variant: ClientVariant, issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    lock = kubeconfig.path.with_name("config.lock")
    lock.touch()
    config = load_config(kubeconfig.path, oidc_options=OidcOptions(timeout=0.05))
    with variant.client(config) as client:
        with pytest.raises(errors.OidcWriteError, match="could not persist new tokens") as caught:
            client.get("/version")

        assert f"remove {lock}" in str(caught.value)
        assert "OidcOptions(write_back=False)" in str(caught.value)
        assert (caught.value.path, caught.value.issuer) == (str(kubeconfig.path), issuer.url)
        assert issuer.requests == []


def test_tokens_that_could_not_be_written_are_not_lost_o7(
    issuer: Issuer, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full after the old refresh token was used up; client-go would lose the new one."""
    clock = FakeClock(time.time())
    with Client(load_config(kubeconfig.path), clock=clock) as client:

        def disk_is_full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", disk_is_full)
            with pytest.raises(errors.OidcWriteError, match="No space left on device"):
                client.get("/version")
        assert "id-token" not in kubeconfig.entry()

        clock.advance(60)
        assert client.get("/version").status_code == 200
    assert claims(kubeconfig.entry()["id-token"])["sub"] == "alice"
    assert (issuer.refreshes, issuer.errors) == (1, [])


def test_a_refresh_token_is_written_even_without_an_id_token_o6_o7(
    issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    issuer.with_id_token = False
    clock = FakeClock(time.time())
    first = kubeconfig.entry()["refresh-token"]

    with Client(load_config(kubeconfig.path), clock=clock) as client:
        with pytest.raises(errors.OidcError, match="did not contain an id_token"):
            client.get("/version")
        assert kubeconfig.entry()["refresh-token"] != first

        issuer.with_id_token = True
        clock.advance(60)
        assert client.get("/version").status_code == 200

    assert issuer.errors == []


def test_tokens_of_a_removed_user_stay_in_memory_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    config = load_config(kubeconfig.path)
    kubeconfig.path.write_text("users: []\n")
    with Client(config) as client:
        assert client.get("/version").status_code == 200
    assert kubeconfig.path.read_text() == "users: []\n"


def test_a_reloaded_config_uses_the_latest_login_o8(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    users: list[str | None] = []
    for user in ("alice", "bob"):
        kubeconfig.change(id_token=issuer.id_token(user), refresh_token=issuer.new_refresh_token(user))
        with Client(load_config(kubeconfig.path)) as client:
            client.get("/version")
        users.append(authenticate(server.requests[-1]))
    assert users == ["alice", "bob"]


def test_hard_links_of_the_kubeconfig_get_the_new_tokens_o7(
    issuer: Issuer, kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    other = Kubeconfig(tmp_path / "other", kubeconfig.user)
    os.link(kubeconfig.path, other.path)
    with Client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
    assert other.entry() == kubeconfig.entry()

    with Client(load_config(other.path), clock=FakeClock(time.time() + 7200)) as client:
        client.get("/version")
    assert (issuer.refreshes, issuer.errors) == (2, [])


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_tokens_of_a_pipe_stay_in_memory_and_are_not_shared_o7_o8(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    users: list[str | None] = []
    for user in ("alice", "bob"):
        kubeconfig.change(refresh_token=issuer.new_refresh_token(user))
        reader, writer = os.pipe()
        try:
            os.write(writer, kubeconfig.path.read_bytes())
            os.close(writer)
            with Client(load_config(f"/dev/fd/{reader}")) as client:
                assert client.get("/version").status_code == 200
        finally:
            os.close(reader)
        users.append(authenticate(server.requests[-1]))
    assert users == ["alice", "bob"]


@pytest.mark.parametrize("name", ["idp_issuer_url", "client_id"])
def test_tokens_of_another_issuer_or_client_are_neither_used_nor_overwritten_o7(
    name: str, issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    """The entry was changed after it was loaded: its tokens must not be sent to the old issuer."""
    config = load_config(kubeconfig.path)
    changes = {name: "https://other.test", "refresh_token": "of-another", "id_token": "of-another"}
    kubeconfig.change(**changes)
    entry = kubeconfig.entry()

    with Client(config) as client:
        assert client.get("/version").status_code == 200

    assert kubeconfig.entry() == entry
    assert issuer.errors == []


def test_an_invalid_kubeconfig_is_a_write_error_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    config = load_config(kubeconfig.path)
    kubeconfig.path.write_text("users: [s3ntinel")

    with Client(config) as client, pytest.raises(errors.OidcWriteError, match="cannot be read") as caught:
        client.get("/version")

    assert "s3ntinel" not in str(caught.value)
    assert issuer.requests == []


def test_the_source_of_a_closed_client_is_garbage_collected_o8(
    issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    with Client(load_config(kubeconfig.path)) as client:
        client.get("/version")
        source = weakref.ref(client._kube_transport._source)
    assert source() is not None

    del client
    SOURCE_CACHE._recent.clear()
    gc.collect()
    assert source() is None


CLIENT = """
import sys, time
from kubeauth import Client, load_config
from kubeauth.testing import FakeClock

config = load_config(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    # Another clock means another source, as in a new process.
    with Client(config, clock=FakeClock(time.time() + float(line))) as client:
        print(client.get("/version").status_code, flush=True)
"""


class Process:
    def __init__(self, code: str, path: Path) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def __enter__(self) -> Process:
        assert self.read_line() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.close()
        self.popen.wait()
        self.popen.stdout.close()

    def write_line(self, line: object) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{line}\n")

    def read_line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()


@pytest.fixture
def processes(kubeconfig: Kubeconfig) -> Iterator[list[Process]]:
    with ExitStack() as stack:
        started = [Process(CLIENT, kubeconfig.path) for _ in range(4)]
        yield [stack.enter_context(process) for process in started]


@pytest.mark.slow
def test_one_of_several_processes_refreshes_and_all_use_its_tokens_o7_o8(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig, processes: list[Process]
) -> None:
    for number in range(1, 6):
        kubeconfig.change(id_token=issuer.id_token(seconds=-1))
        before = len(server.requests)

        for process in processes:
            process.write_line(0)

        assert [process.read_line() for process in processes] == ["200"] * len(processes)
        assert (issuer.refreshes, issuer.errors) == (number, [])
        assert len({request.header("Authorization") for request in server.requests[before:]}) == 1


@pytest.mark.slow
def test_processes_do_not_use_a_refresh_token_twice_o7(
    issuer: Issuer, kubeconfig: Kubeconfig, processes: list[Process]
) -> None:
    """By their clocks every ID token has expired, so each requests its own, with the latest refresh token."""
    rounds = 10
    for process in processes:
        for _ in range(rounds):
            process.write_line(10_000)

    for process in processes:
        assert [process.read_line() for _ in range(rounds)] == ["200"] * rounds

    assert (issuer.refreshes, issuer.errors) == (rounds * len(processes), [])
    assert os.listdir(kubeconfig.path.parent) == ["config"]


EXITING_PROGRAMS = {
    "Ctrl-C in the main thread": """
import sys
from kubeauth import Client, load_config
client = Client(load_config(sys.argv[1]))
print("ready", flush=True)
try:
    client.get("/version")
except KeyboardInterrupt:
    print("interrupted", flush=True)
""",
    "exit with a cancelled request": """
import asyncio, sys
from kubeauth import AsyncClient, load_config
async def main():
    task = asyncio.create_task(AsyncClient(load_config(sys.argv[1])).get("/version"))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    task.cancel()
    print("interrupted", flush=True)
asyncio.run(main())
""",
}


@pytest.mark.parametrize("name", EXITING_PROGRAMS)
def test_a_new_refresh_token_is_written_before_the_program_exits_o7(
    name: str, issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    issuer.gates[TOKEN] = threading.Event()
    first = kubeconfig.entry()["refresh-token"]
    with Process(EXITING_PROGRAMS[name], kubeconfig.path) as process:
        while issuer.arrivals.get() != TOKEN:
            pass
        if name.startswith("Ctrl-C"):
            process.popen.send_signal(signal.SIGINT)
        else:
            process.write_line("")
        assert process.read_line() == "interrupted"
        issuer.gates[TOKEN].set()

    assert process.popen.returncode == 0
    assert kubeconfig.entry()["refresh-token"] != first

    with Client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
    assert (issuer.refreshes, issuer.errors) == (1, [])
    assert os.listdir(kubeconfig.path.parent) == ["config"]


FORKING_PROGRAM = """
import os, sys, threading, warnings
from kubeauth import Client, load_config
warnings.simplefilter("ignore")
client = Client(load_config(sys.argv[1]))
thread = threading.Thread(target=client.get, args=("/version",))
thread.start()
print("ready", flush=True)
sys.stdin.readline()
child = os.fork()
if child == 0:
    os._exit(0 if client.get("/version").status_code == 200 else 1)
print("forked", flush=True)
thread.join()
print(os.waitpid(child, 0)[1], flush=True)
"""


def test_a_forked_child_waits_for_the_refresh_of_its_parent_o8(
    issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    issuer.gates[TOKEN] = threading.Event()
    with Process(FORKING_PROGRAM, kubeconfig.path) as process:
        while issuer.arrivals.get() != TOKEN:
            pass
        process.write_line("")
        assert process.read_line() == "forked"

        issuer.gates[TOKEN].set()
        assert process.read_line() == "0"
    assert (issuer.refreshes, issuer.errors) == (1, [])


def test_waiting_for_the_lock_of_another_process_times_out_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    config = load_config(kubeconfig.path, oidc_options=OidcOptions(timeout=0.05))
    with exclusive_lock(str(kubeconfig.path), 60.0), Client(config) as client:
        with pytest.raises(
            errors.OidcWriteError, match="waiting for another process that is refreshing the tokens"
        ):
            client.get("/version")

    # A valid ID token needs no lock.
    kubeconfig.change(id_token=issuer.id_token())
    with exclusive_lock(str(kubeconfig.path), 60.0), Client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
    assert issuer.requests == []


def test_no_refresh_token_is_used_after_the_client_was_closed_o7(
    issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    issuer.gates[CONFIGURATION] = threading.Event()
    client = Client(load_config(kubeconfig.path))
    failures: list[Exception] = []

    def request() -> None:
        try:
            client.get("/version")
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=request)
    thread.start()
    assert issuer.arrivals.get() == CONFIGURATION

    client.close()
    issuer.gates[CONFIGURATION].set()
    thread.join()

    assert isinstance(failures[0], errors.OidcError)
    assert issuer.refreshes == 0


def test_no_refresh_token_is_used_at_interpreter_exit_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    """Daemon threads may still run then, and the new refresh token would be lost."""
    with Client(load_config(kubeconfig.path)) as client:
        (provider,) = [each for each in _providers if each.name == issuer.url]
        provider.shut_down()
        with pytest.raises(errors.OidcError, match="the token refresh was cancelled"):
            client.get("/version")
    assert issuer.refreshes == 0
