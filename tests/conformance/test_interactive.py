"""Interactive plugins (X17-X22): which plugins are interactive, and plugins that read from a real terminal."""

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
from tests.conformance.plugins import V1BETA1, RecordingObserver, exec_config, exec_entry
from tests.support.cases import each_case
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.kubeconfigs import V1
from tests.support.residue import wait_until
from tests.support.shell_plugin import ShellPlugin, credential

ROOT = Path(__file__).parent.parent.parent

NOT_A_TERMINAL = "standard input is not a terminal"
STDIN_UNAVAILABLE = "standard input is unavailable"


@each_case(
    ("mode", "tty", "unavailable", "expected"),
    [
        ("Never", False, False, False), ("Never", False, True, False),
        ("Never", True, False, False), ("Never", True, True, False),
        ("IfAvailable", False, False, False), ("IfAvailable", False, True, False),
        ("IfAvailable", True, True, False), ("IfAvailable", True, False, True),
        ("Always", False, False, NOT_A_TERMINAL), ("Always", False, True, NOT_A_TERMINAL),
        ("Always", True, True, STDIN_UNAVAILABLE), ("Always", True, False, True),
        ("", False, False, 'unknown interactiveMode: ""'), ("", True, True, 'unknown interactiveMode: ""'),
        ("never", True, False, 'unknown interactiveMode: "never"'),
    ],
)  # fmt: skip
def test_decide_interactive_x19_x20(mode: str, tty: bool, unavailable: bool, expected: bool | str) -> None:
    for message in ("", "a reason"):
        options = ExecOptions(stdin_unavailable=unavailable, stdin_unavailable_message=message)
        reason = f"{STDIN_UNAVAILABLE}: {message}" if message and expected == STDIN_UNAVAILABLE else expected
        assert decide_interactive(mode, options, is_terminal=tty) == reason


# Prompts for a line; the token that it prints shows the line, and whether the plugin has a terminal.
PASSWORD_PLUGIN = r"""#!/bin/sh
printf '%s' "$KUBERNETES_EXEC_INFO" >"$0.info"
printf 'Password: ' >&2
read -r line || line=no-input
terminal=no
[ -t 0 ] && (: </dev/tty) 2>/dev/null && terminal=yes
printf '{"apiVersion":"VERSION","kind":"ExecCredential","status":{"token":"%s-%s"}}' "$line" "$terminal"
"""

# A client in the foreground of the terminal that is its stdin.
CLIENT_PROGRAM = """
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

# The same with the module and the event loop of a client variant.
VARIANT_PROGRAM = """
import fcntl, importlib, sys, termios
import anyio, kubeauth
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
kubeconfig, module, runtime = sys.argv[1:]
library = importlib.import_module(module)
config = kubeauth.load_config(kubeconfig)

async def main():
    async with library.AsyncClient(config) as client:
        print((await client.get("/version")).status_code)

if runtime == "sync":
    with library.Client(config) as client:
        print(client.get("/version").status_code)
else:
    anyio.run(main, backend=runtime)
"""


class TerminalUser:
    """The user of a terminal, who reads the screen and types lines."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.screen = ""

    def wait_for(self, text: str) -> None:
        while text not in self.screen:
            self.screen += os.read(self._master, 1024).decode()

    def type_line(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())


class Session:
    """A plugin that prompts, a kubeconfig that names it, and programs that use the kubeconfig."""

    def __init__(self, directory: Path, server: APIServer, mode: str, version: str = V1) -> None:
        self.plugin = directory / "prompting-plugin"
        self.plugin.write_text(PASSWORD_PLUGIN.replace("VERSION", version))
        self.plugin.chmod(0o700)
        entry = exec_entry(self.plugin, interactiveMode=mode, apiVersion=version)
        if mode == "":
            del entry["interactiveMode"]
        self.kubeconfig = directory / "config"
        self.kubeconfig.write_text(json.dumps(server.kubeconfig({"exec": entry})))

    def start(self, stdin: int, stderr: int, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT_PROGRAM, str(self.kubeconfig), json.dumps(options)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    @property
    def is_interactive(self) -> bool | None:
        """spec.interactive as the plugin received it; None if it was not run."""
        info = Path(f"{self.plugin}.info")
        if not info.exists():
            return None
        interactive: bool = json.loads(info.read_text())["spec"]["interactive"]
        return interactive


@contextmanager
def terminal() -> Iterator[tuple[int, TerminalUser]]:
    master, slave = os.openpty()
    try:
        yield slave, TerminalUser(master)
    finally:
        os.close(slave)
        os.close(master)


@pytest.fixture
def permissive_server(authority: Any) -> Iterator[APIServer]:
    """A server that accepts any token."""
    with APIServer(authority=authority) as server:
        yield server


@pytest.mark.parametrize(("mode", "version"), [("IfAvailable", V1), ("Always", V1), ("", V1BETA1)])
def test_plugin_reads_a_line_from_the_terminal_x17_x19_t10_t15(
    permissive_server: APIServer, tmp_path: Path, mode: str, version: str
) -> None:
    session = Session(tmp_path, permissive_server, mode, version)

    with terminal() as (slave, user):
        program = session.start(slave, slave)
        user.wait_for("Password: ")
        user.type_line("open sesame")
        out, _ = program.communicate(timeout=60)

    assert out == "200\n"
    # It shares the terminal: a background process group would be stopped, another session would have none.
    assert permissive_server.requests[0].header("authorization") == "Bearer open sesame-yes"
    assert session.is_interactive is True


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)  # the transport does not matter
@pytest.mark.parametrize("line", ["open sesame", "\x03"], ids=["types", "interrupts"])
def test_plugin_uses_the_terminal_with_every_client_x17_x19(
    variant: ClientVariant, permissive_server: APIServer, tmp_path: Path, line: str
) -> None:
    """With an event loop the plugin is run by another thread, but on the same terminal."""
    session = Session(tmp_path, permissive_server, "IfAvailable")

    with terminal() as (slave, user):
        program = subprocess.Popen(
            [sys.executable, "-c", VARIANT_PROGRAM, session.kubeconfig, variant.kubeauth.__name__, variant.runtime],
            stdin=slave, stdout=subprocess.PIPE, stderr=slave, text=True, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        user.wait_for("Password: ")
        user.type_line(line)
        out, _ = program.communicate(timeout=60)
    if line == "\x03":
        assert (out, program.returncode != 0, permissive_server.requests) == ("", True, [])
    else:
        assert out == "200\n"
        assert permissive_server.requests[0].header("authorization") == "Bearer open sesame-yes"


def test_ctrl_c_interrupts_plugin_and_caller_x17(permissive_server: APIServer, tmp_path: Path) -> None:
    """Ctrl-C reaches the plugin and the program that waits for it."""
    session = Session(tmp_path, permissive_server, "IfAvailable")

    with terminal() as (slave, user):
        program = session.start(slave, slave)
        user.wait_for("Password: ")
        user.type_line("\x03")
        program.communicate(timeout=60)

    assert program.returncode != 0
    assert permissive_server.requests == []


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("Never", {}, "200\n"),
        ("IfAvailable", {"stdin_unavailable": True}, "200\n"),
        ("Always", {"stdin_unavailable": True, "stdin_unavailable_message": "used by another reader"}, f"{STDIN_UNAVAILABLE}: used by another reader"),
    ],
)  # fmt: skip
def test_plugin_cannot_use_an_unavailable_terminal_x19_x17_t11_t13_t14(
    permissive_server: APIServer, tmp_path: Path, mode: str, options: dict[str, Any], expected: str
) -> None:
    session = Session(tmp_path, permissive_server, mode)

    with terminal() as (slave, user):
        user.type_line("typed before")
        out, _ = session.start(slave, slave, **options).communicate(timeout=60)
    assert expected in out
    if expected == "200\n":
        # Its stdin was empty, and it had no terminal.
        assert permissive_server.requests[0].header("authorization") == "Bearer no-input-no"
        assert session.is_interactive is False
    else:
        assert out.startswith("getting credentials: exec plugin cannot support interactive mode: ")
        assert session.is_interactive is None


@pytest.mark.parametrize(("mode", "runs"), [("IfAvailable", True), ("Always", False)])
def test_redirected_stdin_is_not_passed_to_the_plugin_x17_x19_t8_t12(
    permissive_server: APIServer, tmp_path: Path, mode: str, runs: bool
) -> None:
    """Only stdin decides, even if stderr is a terminal; and the plugin must not read the caller's input."""
    session = Session(tmp_path, permissive_server, mode)

    with terminal() as (slave, _), (tmp_path / "manifest").open("w+") as manifest:
        manifest.write("kind: Pod\n")
        manifest.seek(0)
        out, _ = session.start(manifest.fileno(), slave).communicate(timeout=60)
    if runs:
        assert out == "200\n"
        assert permissive_server.requests[0].header("authorization") == "Bearer no-input-no"
        assert session.is_interactive is False
    else:
        assert f"cannot support interactive mode: {NOT_A_TERMINAL}. " in out
        assert session.is_interactive is None


def test_an_interactive_plugin_has_no_timeout_x18(tmp_path: Path) -> None:
    script = ShellPlugin(tmp_path)
    script.path.write_text(f"#!/bin/sh\nsleep 0.3\nprintf '{credential('slow')}'\n")
    config = exec_config(script.path, options=ExecOptions(timeout=0.05))
    answer = Plugin(config, None, RecordingObserver(), is_terminal=lambda: True).fetch()
    assert answer.token is not None
    script.path.write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(PluginTimeout):
        Plugin(config, None, RecordingObserver(), is_terminal=lambda: False).fetch()


@pytest.mark.parametrize(
    ("tty", "hint"), [(False, "It printed nothing to stderr"), (True, "Its output, if any, is above")]
)
def test_error_says_where_stderr_went_x18(tmp_path: Path, tty: bool, hint: str) -> None:
    """On a terminal stderr is not captured, so the error must not say that it is empty."""
    script = ShellPlugin(tmp_path)
    script.path.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(PluginFailed, match=f"exit code 3\\. {hint}; run the command"):
        Plugin(exec_config(script.path), None, RecordingObserver(), is_terminal=lambda: tty).fetch()


@pytest.mark.parametrize("tty", [False, True])
def test_an_interactive_plugin_is_not_refreshed_ahead_x19_x43(
    tmp_path: Path, clock: FakeClock, tty: bool
) -> None:
    """A prompt must not appear unexpectedly: it is refreshed when a caller needs it, in the thread of the caller."""
    script = ShellPlugin(tmp_path, credential("one", expires=clock.time() + 1000))
    plugin = Plugin(exec_config(script.path), None, RecordingObserver(), is_terminal=lambda: tty)
    observer = RecordingObserver()
    source = RefreshableSource(plugin, clock, observer)
    first = source.get()
    script.set_output(credential("two", expires=clock.time() + 3000))
    clock.advance(950)
    before = set(threading.enumerate())
    assert source.cached_if_fresh(clock.monotonic()) is None
    assert source.get() is first
    if tty:
        assert set(threading.enumerate()) <= before
        assert (len(script.exec_infos), source.get()) == (1, first)
        clock.advance(51)
        assert source.get().authorization == "Bearer two"
        assert observer.refreshes == [("first", True), ("expired", True)]
    else:
        wait_until(lambda: len(observer.refreshes) == 2)
        assert source.current is not first
        assert observer.refreshes == [("first", True), ("refresh_ahead", True)]

    assert len(script.exec_infos) == 2
