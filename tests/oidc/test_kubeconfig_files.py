"""Tokens of an issuer and the kubeconfig they stand in: written, not lost, and shared with other processes."""

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


def test_into_the_file_that_the_user_came_from_o7(
    variant: ClientVariant, issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    document = kubeconfig.document()
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump({"current-context": "test", "contexts": document.pop("contexts")}))
    third = tmp_path / "third"
    third.write_text(yaml.safe_dump({"users": [{**document["users"][0], "user": {"token": "later"}}]}))
    kubeconfig.path.write_text(yaml.safe_dump({**document, "current-context": ""}))
    untouched = [first.read_bytes(), third.read_bytes()]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, kubeconfig.path, third))))
    with variant.client(load_config()) as client:
        assert client.get("/version").status_code == 200
    assert claims(kubeconfig.entry()["id-token"])["sub"] == "alice"
    assert [first.read_bytes(), third.read_bytes()] == untouched


def test_from_a_document_it_stays_in_memory_o7(issuer: Issuer, server: APIServer) -> None:
    config = settings(issuer, refresh_token=issuer.new_refresh_token())
    document = server.kubeconfig({"auth-provider": {"name": "oidc", "config": config}})
    clock = FakeClock(time.time())
    for _ in range(3):
        # The token in the document was spent by the first: what came of it is kept for the others.
        with Client(load_config(document), clock=clock) as client:
            assert client.get("/version").status_code == 200
        clock.advance(7200)
        # When another is made, those that are over are forgotten; but not this one.
        other = settings(issuer, refresh_token=issuer.new_refresh_token())
        another = server.kubeconfig({"auth-provider": {"name": "oidc", "config": other}})
        client = Client(load_config(another), clock=clock)
        client.close()
    assert (issuer.refreshes, issuer.errors) == (3, [])


def test_a_refresh_token_that_comes_with_no_other_is_used_again_o6(
    issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    """In memory, where there is no file to read it from again."""
    issuer.rotating = False
    clock = FakeClock(time.time())
    config = load_config(kubeconfig.document())
    with Client(config, clock=clock) as client:
        for _ in range(3):
            assert client.get("/version").status_code == 200
            clock.advance(7200)
    assert (issuer.refreshes, issuer.errors) == (3, [])


def test_in_memory_alone_if_you_say_so_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
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
        # But whoever logs in anew is heard.
        kubeconfig.change(refresh_token=issuer.new_refresh_token("bob"))
        clock.advance(7200)
        client.get("/version")
    assert issuer.errors == []
    kubeconfig.path.parent.chmod(0o700)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)  # nothing is sent, whatever it would be sent by
def test_what_cannot_be_written_is_not_asked_for_o7(
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


def test_what_could_not_be_written_is_not_lost_o7(
    issuer: Issuer, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the old token is spent already: client-go would have lost the new one."""
    clock = FakeClock(time.time())
    with Client(load_config(kubeconfig.path), clock=clock) as client:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises(errors.OidcWriteError, match="No space left on device"):
                client.get("/version")
        assert "id-token" not in kubeconfig.entry()
        clock.advance(60)
        assert client.get("/version").status_code == 200
    assert claims(kubeconfig.entry()["id-token"])["sub"] == "alice"
    assert (issuer.refreshes, issuer.errors) == (1, [])


def test_a_refresh_token_without_an_id_token_is_kept_o6_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
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


def test_a_user_that_was_removed_goes_on_in_memory_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    config = load_config(kubeconfig.path)
    kubeconfig.path.write_text("users: []\n")
    with Client(config) as client:
        assert client.get("/version").status_code == 200
    assert kubeconfig.path.read_text() == "users: []\n"


def test_whoever_has_logged_in_since_is_who_a_config_loaded_anew_is_for_o8(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    seen: list[str | None] = []
    for person in ("alice", "bob"):
        kubeconfig.change(id_token=issuer.id_token(person), refresh_token=issuer.new_refresh_token(person))
        with Client(load_config(kubeconfig.path)) as client:
            client.get("/version")
        seen.append(authenticate(server.requests[-1]))
    assert seen == ["alice", "bob"]


def test_other_names_of_the_file_have_the_new_tokens_too_o7(
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


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="pipes have no names here")
def test_from_a_pipe_it_stays_in_memory_and_is_nobody_elses_o7_o8(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig
) -> None:
    seen: list[str | None] = []
    for person in ("alice", "bob"):
        kubeconfig.change(refresh_token=issuer.new_refresh_token(person))
        reader, writer = os.pipe()
        try:
            os.write(writer, kubeconfig.path.read_bytes())
            os.close(writer)
            with Client(load_config(f"/dev/fd/{reader}")) as client:
                assert client.get("/version").status_code == 200
        finally:
            os.close(reader)
        seen.append(authenticate(server.requests[-1]))
    assert seen == ["alice", "bob"]


@pytest.mark.parametrize("name", ["idp_issuer_url", "client_id"])
def test_tokens_of_another_issuer_or_client_are_neither_used_nor_replaced_o7(
    name: str, issuer: Issuer, kubeconfig: Kubeconfig
) -> None:
    """Somebody has changed the entry since it was loaded: what stands there now is not for this issuer's eyes."""
    config = load_config(kubeconfig.path)
    others = {name: "https://other.test", "refresh_token": "of-another", "id_token": "of-another"}
    kubeconfig.change(**others)
    entry = kubeconfig.entry()
    with Client(config) as client:
        assert client.get("/version").status_code == 200
    assert kubeconfig.entry() == entry
    assert issuer.errors == []


def test_a_kubeconfig_that_was_damaged_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    config = load_config(kubeconfig.path)
    kubeconfig.path.write_text("users: [s3ntinel")
    with Client(config) as client, pytest.raises(errors.OidcWriteError, match="cannot be read") as caught:
        client.get("/version")
    assert "s3ntinel" not in str(caught.value)
    assert issuer.requests == []


def test_nothing_is_kept_alive_by_it_o8(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
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
    # A clock of its own means a source of its own, as in a new process.
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
        assert self.says() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.close()
        self.popen.wait()
        self.popen.stdout.close()

    def tell(self, line: object) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{line}\n")

    def says(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()


@pytest.fixture
def processes(kubeconfig: Kubeconfig) -> Iterator[list[Process]]:
    with ExitStack() as stack:
        started = [Process(CLIENT, kubeconfig.path) for _ in range(4)]
        yield [stack.enter_context(process) for process in started]


@pytest.mark.slow
def test_of_many_processes_one_renews_and_all_use_it_o7_o8(
    issuer: Issuer, server: APIServer, kubeconfig: Kubeconfig, processes: list[Process]
) -> None:
    for number in range(1, 6):
        kubeconfig.change(id_token=issuer.id_token(seconds=-1))
        before = len(server.requests)
        for process in processes:
            process.tell(0)
        assert [process.says() for process in processes] == ["200"] * len(processes)
        assert (issuer.refreshes, issuer.errors) == (number, [])
        assert len({request.header("Authorization") for request in server.requests[before:]}) == 1


@pytest.mark.slow
def test_no_process_spends_the_token_of_another_o7(
    issuer: Issuer, kubeconfig: Kubeconfig, processes: list[Process]
) -> None:
    """To each of them every id-token is over, so each asks for its own, with the others' refresh-token."""
    rounds = 10
    for process in processes:
        for _ in range(rounds):
            process.tell(10_000)
    for process in processes:
        assert [process.says() for _ in range(rounds)] == ["200"] * rounds
    assert (issuer.refreshes, issuer.errors) == (rounds * len(processes), [])
    assert os.listdir(kubeconfig.path.parent) == ["config"]


ENDINGS = {
    "ctrl-c in the main thread": """
import sys
from kubeauth import Client, load_config
client = Client(load_config(sys.argv[1]))
print("ready", flush=True)
try:
    client.get("/version")
except KeyboardInterrupt:
    print("interrupted", flush=True)
""",
    "the end of the program": """
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


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_token_that_was_spent_is_not_lost_o7(ending: str, issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    issuer.gates[TOKEN] = threading.Event()
    first = kubeconfig.entry()["refresh-token"]
    with Process(ENDINGS[ending], kubeconfig.path) as process:
        while issuer.arrivals.get() != TOKEN:
            pass
        if ending.startswith("ctrl-c"):
            process.popen.send_signal(signal.SIGINT)
        else:
            process.tell("")
        assert process.says() == "interrupted"
        issuer.gates[TOKEN].set()
    assert process.popen.returncode == 0
    assert kubeconfig.entry()["refresh-token"] != first
    with Client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
    assert (issuer.refreshes, issuer.errors) == (1, [])
    assert os.listdir(kubeconfig.path.parent) == ["config"]


FORKS = """
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


def test_a_child_waits_for_what_its_parent_has_asked_o8(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    issuer.gates[TOKEN] = threading.Event()
    with Process(FORKS, kubeconfig.path) as process:
        while issuer.arrivals.get() != TOKEN:
            pass
        process.tell("")
        assert process.says() == "forked"
        issuer.gates[TOKEN].set()
        assert process.says() == "0"
    assert (issuer.refreshes, issuer.errors) == (1, [])


def test_another_process_that_takes_too_long_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    config = load_config(kubeconfig.path, oidc_options=OidcOptions(timeout=0.05))
    with exclusive_lock(str(kubeconfig.path), 1.0), Client(config) as client:
        with pytest.raises(
            errors.OidcWriteError, match="waiting for another process that is refreshing the tokens"
        ):
            client.get("/version")
        # One that is good needs nobody's leave.
        kubeconfig.change(id_token=issuer.id_token())
    with exclusive_lock(str(kubeconfig.path), 1.0), Client(load_config(kubeconfig.path)) as client:
        assert client.get("/version").status_code == 200
    assert issuer.requests == []


def test_nothing_is_spent_when_nobody_waits_any_more_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    issuer.gates[CONFIGURATION] = threading.Event()
    client = Client(load_config(kubeconfig.path))
    failures: list[Exception] = []

    def ask() -> None:
        try:
            client.get("/version")
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert issuer.arrivals.get() == CONFIGURATION
    client.close()
    issuer.gates[CONFIGURATION].set()
    thread.join()
    assert isinstance(failures[0], errors.OidcError)
    assert issuer.refreshes == 0


def test_nothing_is_spent_when_the_program_is_at_its_end_o7(issuer: Issuer, kubeconfig: Kubeconfig) -> None:
    """Other threads go on until the very end, and what they got then would be lost."""
    with Client(load_config(kubeconfig.path)) as client:
        (provider,) = [each for each in _providers if each.name == issuer.url]
        provider.shut_down()
        with pytest.raises(errors.OidcError, match="the token refresh was cancelled"):
            client.get("/version")
    assert issuer.refreshes == 0
