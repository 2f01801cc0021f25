"""Who may ask a person (X17, X19-X22): the whole table, and for real, on a terminal where somebody types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ExecOptions
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._exec.plugin import Plugin, decide_interactive
from kubeauth.errors import PluginFailed, PluginTimeout
from kubeauth.testing import APIServer, FakeClock
from tests.conformance.plugins import V1, V1BETA1, Seen, ShellPlugin, credential, exec_config, stanza_of
from tests.support.cases import each_case
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.residue import wait_until

ROOT = Path(__file__).parent.parent.parent

NO_TERMINAL = "standard input is not a terminal"
TAKEN = "standard input is unavailable"


@each_case(
    ("mode", "tty", "unavailable", "expected"),
    [
        ("Never", False, False, False), ("Never", False, True, False),
        ("Never", True, False, False), ("Never", True, True, False),
        ("IfAvailable", False, False, False), ("IfAvailable", False, True, False),
        ("IfAvailable", True, True, False), ("IfAvailable", True, False, True),
        ("Always", False, False, NO_TERMINAL), ("Always", False, True, NO_TERMINAL),
        ("Always", True, True, TAKEN), ("Always", True, False, True),
        ("", False, False, 'unknown interactiveMode: ""'), ("", True, True, 'unknown interactiveMode: ""'),
        ("never", True, False, 'unknown interactiveMode: "never"'),
    ],
)  # fmt: skip
def test_the_table_x19_x20(mode: str, tty: bool, unavailable: bool, expected: bool | str) -> None:
    for message in ("", "why"):
        options = ExecOptions(stdin_unavailable=unavailable, stdin_unavailable_message=message)
        why = f"{TAKEN}: {message}" if message and expected == TAKEN else expected
        assert decide_interactive(mode, options, is_terminal=tty) == why


# A plugin that asks a person, and uses the answer.
ASKS = r"""#!/bin/sh
printf '%s' "$KUBERNETES_EXEC_INFO" >"$0.info"
printf 'Password: ' >&2
read -r line || line=nobody
terminal=no
[ -t 0 ] && (: </dev/tty) 2>/dev/null && terminal=yes
printf '{"apiVersion":"VERSION","kind":"ExecCredential","status":{"token":"%s-%s"}}' "$line" "$terminal"
"""

# A program of somebody's, in the foreground of the terminal that its stdin is.
PROGRAM = """
import fcntl, json, os, sys, termios
import kubeauth
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
config = kubeauth.load_config(sys.argv[1], exec_options=kubeauth.ExecOptions(**json.loads(sys.argv[2])))
try:
    with kubeauth.Client(config) as client:
        print(client.get("/version").status_code)
except kubeauth.errors.KubeAuthError as error:
    print(error)
"""


# The same through any variant.
EVERY_VARIANT = """
import fcntl, importlib, sys, termios
import anyio, kubeauth
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
kubeconfig, module, runtime = sys.argv[1:]
variants = importlib.import_module(module)
config = kubeauth.load_config(kubeconfig)

async def ask():
    async with variants.AsyncClient(config) as client:
        print((await client.get("/version")).status_code)

if runtime == "sync":
    with variants.Client(config) as client:
        print(client.get("/version").status_code)
else:
    anyio.run(ask, backend=runtime)
"""


class Person:
    """At the other end of a terminal: reads what is on it, and types."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.screen = ""

    def wait_for(self, words: str) -> None:
        while words not in self.screen:
            self.screen += os.read(self._master, 1024).decode()

    def types(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())


class Session:
    def __init__(self, directory: Path, server: APIServer, mode: str, version: str = V1) -> None:
        self.plugin = directory / "asks"
        self.plugin.write_text(ASKS.replace("VERSION", version))
        self.plugin.chmod(0o700)
        stanza = stanza_of(self.plugin, interactiveMode=mode, apiVersion=version)
        if mode == "":
            del stanza["interactiveMode"]
        self.kubeconfig = directory / "config"
        self.kubeconfig.write_text(json.dumps(server.kubeconfig({"exec": stanza})))

    def start(self, stdin: int, stderr: int, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.kubeconfig), json.dumps(options)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    @property
    def is_interactive(self) -> bool | None:
        """As the plugin was told; None if it was not run."""
        info = Path(f"{self.plugin}.info")
        if not info.exists():
            return None
        found: bool = json.loads(info.read_text())["spec"]["interactive"]
        return found


@contextmanager
def terminal() -> Iterator[tuple[int, Person]]:
    master, slave = os.openpty()
    try:
        yield slave, Person(master)
    finally:
        os.close(slave)
        os.close(master)


@pytest.fixture
def anybody(authority: Any) -> Iterator[APIServer]:
    with APIServer(authority=authority) as server:
        yield server


@pytest.mark.parametrize(("mode", "version"), [("IfAvailable", V1), ("Always", V1), ("", V1BETA1)])
def test_somebody_types_x17_x19_t10_t15(anybody: APIServer, tmp_path: Path, mode: str, version: str) -> None:
    session = Session(tmp_path, anybody, mode, version)
    with terminal() as (slave, person):
        program = session.start(slave, slave)
        person.wait_for("Password: ")
        person.types("open sesame")
        out, _ = program.communicate(timeout=60)
    assert out == "200\n"
    # It read the line from our own terminal: a group of its own would be stopped, a session have none.
    assert anybody.requests[0].header("authorization") == "Bearer open sesame-yes"
    assert session.is_interactive is True


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)  # what is below a client has no part in it
@pytest.mark.parametrize("line", ["open sesame", "\x03"], ids=["types", "interrupts"])
def test_through_every_face_x17_x19(
    variant: ClientVariant, anybody: APIServer, tmp_path: Path, line: str
) -> None:
    """In an event loop the plugin is run by another thread, but it is the same terminal."""
    session = Session(tmp_path, anybody, "IfAvailable")
    with terminal() as (slave, person):
        program = subprocess.Popen(
            [sys.executable, "-c", EVERY_VARIANT, session.kubeconfig, variant.kubeauth.__name__, variant.runtime],
            stdin=slave, stdout=subprocess.PIPE, stderr=slave, text=True, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        person.wait_for("Password: ")
        person.types(line)
        out, _ = program.communicate(timeout=60)
    if line == "\x03":
        assert (out, program.returncode != 0, anybody.requests) == ("", True, [])
    else:
        assert out == "200\n"
        assert anybody.requests[0].header("authorization") == "Bearer open sesame-yes"


def test_somebody_interrupts_x17(anybody: APIServer, tmp_path: Path) -> None:
    """Ctrl-C reaches the plugin and whoever waits for it."""
    session = Session(tmp_path, anybody, "IfAvailable")
    with terminal() as (slave, person):
        program = session.start(slave, slave)
        person.wait_for("Password: ")
        person.types("\x03")
        program.communicate(timeout=60)
    assert program.returncode != 0
    assert anybody.requests == []


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("Never", {}, "200\n"),
        ("IfAvailable", {"stdin_unavailable": True}, "200\n"),
        ("Always", {"stdin_unavailable": True, "stdin_unavailable_message": "used by somebody"}, f"{TAKEN}: used by somebody"),
    ],
)  # fmt: skip
def test_a_terminal_that_is_not_for_the_plugin_x19_x17_t11_t13_t14(
    anybody: APIServer, tmp_path: Path, mode: str, options: dict[str, Any], expected: str
) -> None:
    session = Session(tmp_path, anybody, mode)
    with terminal() as (slave, person):
        person.types("typed before")
        out, _ = session.start(slave, slave, **options).communicate(timeout=60)
    assert expected in out
    if expected == "200\n":
        # It found nothing on its stdin, and there was no terminal.
        assert anybody.requests[0].header("authorization") == "Bearer nobody-no"
        assert session.is_interactive is False
    else:
        assert out.startswith("getting credentials: exec plugin cannot support interactive mode: ")
        assert session.is_interactive is None


@pytest.mark.parametrize(("mode", "runs"), [("IfAvailable", True), ("Always", False)])
def test_stdin_is_something_else_x17_x19_t8_t12(
    anybody: APIServer, tmp_path: Path, mode: str, runs: bool
) -> None:
    """Its stderr is a terminal; only stdin counts. And what is on stdin is not for the plugin."""
    session = Session(tmp_path, anybody, mode)
    with terminal() as (slave, _), (tmp_path / "manifest").open("w+") as manifest:
        manifest.write("kind: Pod\n")
        manifest.seek(0)
        out, _ = session.start(manifest.fileno(), slave).communicate(timeout=60)
    if runs:
        assert out == "200\n"
        assert anybody.requests[0].header("authorization") == "Bearer nobody-no"
        assert session.is_interactive is False
    else:
        assert f"cannot support interactive mode: {NO_TERMINAL}. " in out
        assert session.is_interactive is None


def test_a_person_may_take_their_time_x18(tmp_path: Path) -> None:
    script = ShellPlugin(tmp_path)
    script.path.write_text(f"#!/bin/sh\nsleep 0.3\nprintf '{credential('slow')}'\n")
    config = exec_config(script.path, options=ExecOptions(timeout=0.05))
    answer = Plugin(config, None, Seen(), is_terminal=lambda: True).fetch()
    assert answer.token is not None
    script.path.write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(PluginTimeout):
        Plugin(config, None, Seen(), is_terminal=lambda: False).fetch()


@pytest.mark.parametrize(
    ("tty", "words"), [(False, "It printed nothing to stderr"), (True, "Its output, if any, is above")]
)
def test_what_is_said_on_a_terminal_is_not_denied_x18(tmp_path: Path, tty: bool, words: str) -> None:
    """There its stderr is the terminal, and nobody listens in."""
    script = ShellPlugin(tmp_path)
    script.path.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(PluginFailed, match=f"exit code 3\\. {words}; run the command"):
        Plugin(exec_config(script.path), None, Seen(), is_terminal=lambda: tty).fetch()


@pytest.mark.parametrize("tty", [False, True])
def test_nobody_is_asked_in_the_background_x19_x43(tmp_path: Path, clock: FakeClock, tty: bool) -> None:
    """With a terminal it is not renewed ahead of its end, but when somebody needs it, and in their thread."""
    script = ShellPlugin(tmp_path, credential("one", expires=clock.time() + 1000))
    asked = Plugin(exec_config(script.path), None, Seen(), is_terminal=lambda: tty)
    seen = Seen()
    source = RefreshableSource(asked, clock, seen)
    first = source.get()
    script.says(credential("two", expires=clock.time() + 3000))
    clock.advance(950)
    before = set(threading.enumerate())
    assert source.cached_if_fresh(clock.monotonic()) is None
    assert source.get() is first
    if tty:
        assert set(threading.enumerate()) <= before
        assert (len(script.infos), source.get()) == (1, first)
        clock.advance(51)
        assert source.get().authorization == "Bearer two"
        assert seen.renewals == [("first", True), ("expired", True)]
    else:
        wait_until(lambda: len(seen.renewals) == 2)  # which is said when it is done
        assert source.current is not first
        assert seen.renewals == [("first", True), ("refresh_ahead", True)]
    assert len(script.infos) == 2
