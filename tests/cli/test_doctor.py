"""`kubeauth doctor` as it is run: what it prints, where, and how it exits."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth.cli import _doctor_run, main
from kubeauth.cli._doctor_findings import SECTIONS, Finding, Level, ok, skipped, warning, worst
from kubeauth.cli._doctor_report import as_json, as_text, closing
from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer, Authority, PluginScript
from tests.cli.doctoring import SENTINEL, TOKEN, written
from tests.cli.listeners import listening, silent

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, tokens={TOKEN: "alice"}) as server:
        server.on("GET", "/readyz", Answer(body=b"ok"))
        yield server


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    plugin = PluginScript(tmp_path, "acme-login")
    plugin.answer(token=TOKEN, expires_in=900)
    return plugin


@pytest.fixture
def kubeconfig(server: APIServer, plugin: PluginScript, tmp_path: Path) -> Path:
    """All is well with it."""
    stanza = plugin.exec_config(["--password", SENTINEL], provideClusterInfo=True)
    return written(tmp_path / "config", server.kubeconfig({"exec": stanza}))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", *arguments])
    return int(exited.value.code or 0)


class TestTheCommand:
    def test_nothing_is_wrong(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"--kubeconfig={kubeconfig}", "--strict") == Status.OK
        said = capsys.readouterr()
        assert said.out.rstrip().endswith("Nothing is wrong: 19 ok.")
        assert said.err == ""
        assert SENTINEL not in said.out

    def test_an_error_is_a_status(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"--kubeconfig={kubeconfig}", "--context=nope") == Status.FAILED
        assert "error    context" in capsys.readouterr().out

    def test_a_warning_is_one_if_that_is_wanted(
        self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        kubeconfig.chmod(0o666)
        assert run(f"--kubeconfig={kubeconfig}") == Status.OK
        assert run(f"--kubeconfig={kubeconfig}", "--strict") == Status.FAILED
        assert "1 warning, 18 ok. Begin with file: Run: chmod 600 " in " ".join(
            capsys.readouterr().out.split()
        )

    def test_json(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("-o", "json", f"--kubeconfig={kubeconfig}") == Status.OK
        found = json.loads(capsys.readouterr().out)
        assert (found["status"], found["kubeauth"]) == ("ok", kubeauth.__version__)
        assert {check["status"] for check in found["checks"]} == {"ok"}
        assert {check["next_step"] for check in found["checks"]} == {None}

    def test_whatever_takes_its_output(self, kubeconfig: Path) -> None:
        with redirect_stdout(Terminal()) as taken:
            assert run(f"--kubeconfig={kubeconfig}", "--offline") == Status.OK
        assert "Nothing is wrong" in taken.getvalue()

    def test_flags_may_stand_before_it(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as exited:
            main(["--kubeconfig", str(kubeconfig), "doctor", "--offline"])
        assert exited.value.code == 0
        assert "--offline" in capsys.readouterr().out

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("--help") == 0
        said = capsys.readouterr().out
        assert "No secret is shown" in said
        assert "--plugin-timeout" in said

    def test_letters_that_the_output_has_not(self, kubeconfig: Path) -> None:
        environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "kubeauth", "doctor", f"--kubeconfig={kubeconfig}", "--context=Köln"]
        ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
        assert ran.returncode == Status.FAILED, ran.stderr
        assert r'context "K\xf6ln" does not exist' in ran.stdout
        assert ran.stderr == ""

    @pytest.mark.skipif(os.name != "posix", reason="there is no such shell")
    def test_what_is_closed_is_no_terminal(self, kubeconfig: Path) -> None:
        doctor = f"{shlex.quote(sys.executable)} -m kubeauth doctor --kubeconfig={shlex.quote(str(kubeconfig))} 2>&-"
        ran = subprocess.run(["/bin/sh", "-c", doctor], cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == Status.OK
        assert "Nothing is wrong" in ran.stdout

    def test_a_fault_of_ours_is_a_line_too(
        self,
        kubeconfig: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def broken(*_: object) -> Any:
            raise RuntimeError(SENTINEL)

        monkeypatch.setattr(_doctor_run, "ask_who", broken)
        assert run(f"--kubeconfig={kubeconfig}", "-v", "4") == Status.FAILED
        said = capsys.readouterr()
        assert "error    whoami       the check itself failed (RuntimeError)" in said.out
        assert "ok       versions" in said.out
        assert SENTINEL not in said.out + said.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestOnATerminal:
    def test_who_waits_is_told_what_for(
        self, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setenv("TERM", "xterm")
        assert run(f"--kubeconfig={kubeconfig}") == Status.OK
        assert isinstance(sys.stderr, Terminal)
        lines = sys.stderr.getvalue().split("\r\x1b[K")
        assert lines[0] == lines[-1] == ""
        assert "Looking at what acme-login gives\n" in lines
        assert max(map(len, lines)) < 40
        assert "Nothing is wrong" in capsys.readouterr().out

    def test_a_table_is_drawn(self, kubeconfig: Path) -> None:
        text = on_a_terminal(80, f"--kubeconfig={kubeconfig}")
        assert "\x1b[32mok       \x1b[0m" in text
        assert "\r\x1b[KLooking at TLS with the server" in text
        plain = shown(text)
        # A path may be longer than a line, and is not cut.
        assert max(len(line) for line in plain.splitlines() if "/pytest-" not in line) <= 80, plain
        assert "  ok       whoami       alice\n" in plain
        assert plain.rstrip().endswith("Nothing is wrong: 19 ok.")
        assert SENTINEL not in text

    def test_what_the_plugin_says_comes_below_its_name(self, kubeconfig: Path, plugin: PluginScript) -> None:
        plugin.answer(exit_code=1, stderr="session over\n")
        text = on_a_terminal(120, f"--kubeconfig={kubeconfig}")
        assert re.search(r"Looking at what acme-login gives\r?\nsession over", text), text
        assert "stderr: session over" in shown(text)
        assert "\x1b[1;31merror    \x1b[0m" in text

    def test_a_plugin_s_name_does_not_steer_the_terminal(self, server: APIServer, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path, "acme\x1b]0;owned\x07")
        plugin.answer(token=TOKEN, expires_in=900)
        document = server.kubeconfig({"exec": plugin.exec_config()})
        text = on_a_terminal(120, f"--kubeconfig={written(tmp_path / 'steering', document)}")
        assert "Looking at what acmeU+001B]0;ownedU+0007 gives" in text
        assert "\x1b]0;" not in text

    def test_a_plugin_may_ask_there(self, kubeconfig: Path, server: APIServer, plugin: PluginScript) -> None:
        document = server.kubeconfig({"exec": plugin.exec_config(interactiveMode="Always")})
        plain = shown(on_a_terminal(80, f"--kubeconfig={written(kubeconfig, document)}"))
        assert "interactiveMode Always with a terminal" in " ".join(plain.split())
        assert plugin.runs[0].stdin_is_terminal

    @pytest.mark.slow
    def test_no_colour_where_none_is_wanted(self, kubeconfig: Path) -> None:
        assert "\x1b[32m" not in on_a_terminal(80, f"--kubeconfig={kubeconfig}", NO_COLOR="1")
        assert "\x1b[" not in on_a_terminal(80, f"--kubeconfig={kubeconfig}", TERM="dumb")

    def test_ctrl_c_ends_it(self, server: APIServer, tmp_path: Path) -> None:
        with listening(silent) as port:
            document = server.kubeconfig({"token": TOKEN}, {"server": f"https://127.0.0.1:{port}"})
            path = written(tmp_path / "silent", document)
            text, status = terminal(
                80, f"--kubeconfig={path}", "--request-timeout=60s", interrupt_at="TLS with the server"
            )
        assert status == Status.INTERRUPTED
        assert "Traceback" not in text


def on_a_terminal(columns: int, *arguments: str, **environ: str) -> str:
    return terminal(columns, *arguments, **environ)[0]


def terminal(columns: int, *arguments: str, interrupt_at: str = "", **environ: str) -> tuple[str, int]:
    """What a person would see, and the exit status."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from kubeauth.cli import main; main(['doctor', *sys.argv[1:]])"
    )
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)} | environ
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
    ) as process:
        os.close(theirs)
        text = ""
        while part := read(ours):
            text += part
            if interrupt_at and interrupt_at in text:
                process.send_signal(signal.SIGINT)
                interrupt_at = ""
    os.close(ours)
    return text, process.returncode


def read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # Linux says so when the other side is closed
        return ""


def shown(text: str) -> str:
    """What is left of it on a screen: lines that were wiped are gone."""
    lines = [line.rpartition("\r\x1b[K")[2].rstrip("\r") for line in text.split("\n")]
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", "\n".join(lines))


class TestWords:
    FINDINGS = (
        ok("file", "a kubeconfig"),
        warning("others", "2 problems " + "with entries " * 9, "Look at /" + "long" * 20),
        skipped("dns", "no way"),
        skipped("connect", "no way"),
        skipped("tls", "another reason"),
        Finding("whoami", Level.ERROR, "401", "Log in"),
    )

    def test_the_table(self) -> None:
        text = as_text(self.FINDINGS, width=80, colour=False)
        assert text.splitlines() == [
            "kubeconfig",
            "  ok       file         a kubeconfig",
            "  warning  others       2 problems with entries with entries with entries with",
            "                        entries with entries with entries with entries with",
            "                        entries with entries",
            "                        -> Look at",
            "                           /" + "long" * 20,  # whole, to be copied
            "",
            "the way to the server",
            "  skipped  dns, connect: no way",
            "  skipped  tls          another reason",
            "",
            "the server's answer",
            "  error    whoami       401",
            "                        -> Log in",
            "",
            "1 error, 1 warning, 1 ok, 3 skipped. Begin with whoami: Log in",
        ]

    def test_it_has_the_same_words_in_any_width_and_colour(self) -> None:
        def words(text: str) -> list[str]:
            return re.sub(r"\x1b\[[\d;]*m", "", text).split()

        plain = words(as_text(self.FINDINGS, width=80, colour=False))
        for width in (1, 60, 120, 1000):
            drawn = as_text(self.FINDINGS, width=width, colour=True)
            assert words(drawn) == plain

    def test_warnings_alone(self) -> None:
        assert (
            closing([warning("ca", "x", "Do it"), ok("dns", "y")]) == "1 warning, 1 ok. Begin with ca: Do it"
        )
        assert closing([ok("dns", "y"), skipped("tls", "z")]) == "Nothing is wrong: 1 ok, 1 skipped."

    def test_a_clock_on_which_something_hangs_comes_first(self) -> None:
        wrong = [Finding(id, Level.ERROR, "x", f"Mend {id}") for id in ("credential", "whoami", "clock")]
        assert closing(wrong).endswith("Begin with clock: Mend clock")

    def test_the_worst(self) -> None:
        assert [worst(self.FINDINGS[:end]) for end in (1, 2, 6)] == [Level.OK, Level.WARNING, Level.ERROR]
        assert json.loads(as_json([]))["status"] == "ok"

    def test_secrets_are_hidden_wherever_they_come_up(self) -> None:
        finding = warning(
            "file", "a secret-word", "secret-word", a=["secret-word", {"b": "secret-word"}], c=5
        )
        hidden = finding.without(["secret-w", "secret-word", "a"])
        assert hidden.summary == "a <hidden>"
        assert hidden.next_step == "<hidden>"
        assert hidden.facts == {"a": ["<hidden>", {"b": "<hidden>"}], "c": 5}

    def test_a_secret_is_hidden_as_it_is_in_a_line_too(self) -> None:
        assert (
            warning("file", "my  secret\x1bword", "x").without(["my  secret\x1bword"]).summary == "<hidden>"
        )

    def test_what_could_steer_a_terminal_is_spelled_out(self) -> None:
        finding = warning("file", "one\n\x1b[31mtwo\u202e", "three\tfour")
        assert (finding.summary, finding.next_step) == ("one U+001B[31mtwoU+202E", "three four")


def test_the_documentation_explains_every_line() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    rows = re.findall(r"^\| `([a-z][a-z-]*)` \|", page, re.M)
    assert rows == [id for ids in SECTIONS.values() for id in ids]
