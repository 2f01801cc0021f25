"""What a shell is told to offer, and that bash, zsh and fish make of it what they should."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeauth.cli import main
from kubeauth.cli._app import COMMANDS, commands_of, parser_of
from kubeauth.cli._complete import Offer, names_in_kubeconfig, offered
from kubeauth.cli._completion import Shell
from kubeauth.testing._programs import build_shebang
from tests.support.cases import each_case

EKS = "arn:aws:eks:eu-west-1:123:cluster/prod"
NAMES = {
    "context": [EKS, "kubernetes-admin@kubernetes", "staging"],
    "cluster": ["c1"],
    "user": ["u1"],
    "namespace": ["web"],
}


def names(kind: str, _path: str) -> list[str]:
    return NAMES[kind]


def words(*typed: str) -> list[str]:
    offer = offered(typed, names)
    assert not offer.files
    return list(offer.words)


class TestWhatIsOffered:
    def test_commands(self) -> None:
        assert words("") == list(commands_of(""))
        assert words("who") == ["whoami"]
        assert words("--context", "staging", "who") == ["whoami"]
        assert words() == list(commands_of(""))

    def test_every_flag_of_a_command_and_what_it_does(self) -> None:
        offer = offered(["get", "--"], names)
        assert {"--output", "--watch", "--context", "--request-timeout"} <= set(offer.words)
        assert offer.words["--watch"].startswith("then print what changes")
        assert offer.words["--context"] == "another context than the current one"
        assert "--output" not in offered(["--"], names).words

    @each_case("command", COMMANDS)
    def test_each_command_has_all_global_flags(self, command: str) -> None:
        assert {"--kubeconfig", "--namespace", "--as", "--v"} <= set(words(*command.split(), "--"))
        assert all(offered([*command.split(), "--"], names).words.values())
        assert parser_of(command).description

    def test_commands_of_a_group(self) -> None:
        assert words("registry", "") == ["match", "credentials", "check", "manifest"]
        assert words("registry", "manifest", "-o", "") == ["table", "json", "raw"]
        assert "--show-passwords" in words("registry", "credentials", "nginx", "--")

    def test_a_command_that_is_a_group(self) -> None:
        assert words("disc") == ["discover"]
        assert words("discover", "") == ["pin", "token"]
        assert words("discover", "--mode", "seed", "t") == ["token"]
        assert words("discover", "h:1", "") == []
        assert words("discover", "h:1", "token", "") == []
        assert "--ca-cert-hash" in words("discover", "--")
        assert "--discovery-token-ca-cert-hash" in words("discover", "h:1", "--")
        assert words("discover", "token", "") == ["create", "list", "delete"]
        assert "--ttl" in words("discover", "token", "create", "--")
        assert "--ttl" not in words("discover", "--")
        assert words("discover", "token", "list", "-o", "") == ["table", "json"]
        assert words("discover", "-o", "k") == ["kubeconfig"]

    def test_certificates_are_files_however_many(self) -> None:
        assert offered(["discover", "pin", ""], names).files
        assert offered(["discover", "pin", "one.crt", "two.crt", ""], names).files
        assert offered(["discover", "--file", ""], names).files
        assert offered(["discover", "--save", ""], names).files

    def test_a_configuration_of_providers_is_a_file(self) -> None:
        assert offered(["registry", "check", ""], names).files
        assert offered(["registry", "match", "--config", ""], names).files
        assert not offered(["registry", "match", ""], names).files
        assert not offered(["get", ""], names).files

    @each_case(
        ("typed", "expected"),
        [
            (["get", "-o", ""], ["table", "wide", "json", "yaml", "raw"]),
            (["get", "-o", "y"], ["yaml"]),
            (["get", "--output", "y"], ["yaml"]),
            (["get", "--output=y"], ["--output=yaml"]),
            (["token", "-o", ""], ["json", "yaml"]),
            (["--context", ""], sorted(NAMES["context"])),
            (["get", "pods", "--context", "ar"], [EKS]),
            (["--context=st"], ["--context=staging"]),
            (["--cluster", ""], ["c1"]),
            (["--user", "u"], ["u1"]),
            (["-n", ""], ["web"]),
            (["completion", ""], ["bash", "zsh", "fish"]),
            (["completion", "bash", ""], []),
            (["get", "po"], ["pods"]),
            (["get", "-w", "po"], ["pods"]),
            (["get", "--request-timeout", "5s", "po"], ["pods"]),
            (["get", "--request-timeout=5s", "po"], ["pods"]),
            (["get", "pods", ""], []),
            (["get", "--", "-"], []),
            (["get", "--", "po"], ["pods"]),
            (["get", "--nope=x"], []),
            (["get", "--watch="], []),
            (["get", "--nope", "po"], ["pods"]),
            (["demo", "--mode", "c"], ["cert"]),
            (["demo", ""], []),
            (["--request-timeout", ""], []),
            (["nope", ""], []),
            (["nope", "--"], []),
        ],
    )
    def test_words(self, typed: list[str], expected: list[str]) -> None:
        assert words(*typed) == expected

    @each_case(
        "typed",
        [["--kubeconfig", ""], ["get", "--kubeconfig", "~/x"], ["--client-key=/e"], ["get", "pods", "--certificate-authority", ""]],
    )  # fmt: skip
    def test_paths_are_left_to_the_shell(self, typed: list[str]) -> None:
        assert offered(typed, names) == Offer({}, files=True)

    def test_names_are_those_of_the_kubeconfig_that_the_line_names(self, tmp_path: Path) -> None:
        asked: list[tuple[str, str]] = []

        def remember(kind: str, path: str) -> list[str]:
            asked.append((kind, path))
            return []

        offered(["--kubeconfig", "/one", "--context", ""], remember)
        offered(["--kubeconfig=~/two", "get", "--user="], remember)
        offered(["get", "--cluster", ""], remember)
        assert asked == [("context", "/one"), ("user", f"{os.environ['HOME']}/two"), ("cluster", "")]

    def test_a_name_that_could_steer_a_terminal_is_not_offered(self) -> None:
        bad = ["good", "bad\x1b[2J", "two\nlines", "tab\tbed"]
        assert list(offered(["--context", ""], lambda _kind, _path: bad).words) == ["good"]


def kubeconfig(path: Path, *contexts: str) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u", "namespace": "web"}} for name in contexts],
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return path


class TestNamesInAKubeconfig:
    def test_of_each_kind(self, tmp_path: Path) -> None:
        path = str(kubeconfig(tmp_path / "config", "a", "b"))
        found = {kind: sorted(names_in_kubeconfig(kind, path)) for kind in NAMES}
        assert found == {"context": ["a", "b"], "cluster": ["c"], "user": ["u"], "namespace": ["web"]}

    def test_of_the_chain_if_no_path_is_given(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        one, two = kubeconfig(tmp_path / "1", "a"), kubeconfig(tmp_path / "2", "b")
        monkeypatch.setenv("KUBECONFIG", f"{one}{os.pathsep}{two}")
        assert sorted(names_in_kubeconfig("context", "")) == ["a", "b"]

    def test_without_one_there_are_none(self, tmp_path: Path) -> None:
        (tmp_path / "broken").write_text("{")
        assert not list(names_in_kubeconfig("context", str(tmp_path / "broken")))
        assert not list(names_in_kubeconfig("context", str(tmp_path / "missing")))

    def test_it_is_what_the_hidden_command_prints(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = str(kubeconfig(tmp_path / "config", "a"))
        with pytest.raises(SystemExit) as ended:
            main(["__complete", "--kubeconfig", path, "--context", ""])
        assert ended.value.code == 0
        assert capsys.readouterr().out == "words\na\tcontext\n"


# Asks the real program what to offer, and writes down what it is run with.
STUB = """{shebang}
import json, sys
if sys.argv[1:2] == ["__complete"]:
    from kubeauth.cli import main
    main(sys.argv[1:])
with open({record!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
"""
# No files of whoever runs the tests; a prompt that is no surprise; and what loads our script.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(kubeauth-script bash)\n"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; unsetopt list_beep; source <(kubeauth-script zsh)\n",
    ),
    "fish": (["fish", "--no-config", "-i"], "kubeauth-script fish | source\n"),
}


class Terminal:
    """A shell on a terminal of its own, and a program `kubeauth` that writes down how it was run."""

    def __init__(self, shell: str, directory: Path) -> None:
        import pty

        self.record = directory / "record"
        for name, text in {
            "kubeauth": STUB.format(shebang=build_shebang(sys.executable, ""), record=str(self.record)),
            "kubeauth-script": f'#!/bin/sh\nexec "{sys.executable}" -m kubeauth completion "$1"\n',
        }.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o755)
        environ = {
            "PATH": f"{directory}:{os.environ['PATH']}", "HOME": str(directory), "TERM": "dumb",
            "KUBECONFIG": str(directory / "config"), "PYTHONPATH": os.pathsep.join(sys.path), "LANG": "C.UTF-8",
        }  # fmt: skip
        command, setup = SHELLS[shell]
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ,
            cwd=directory,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # it becomes theirs
        )
        os.close(theirs)
        self.typed(setup)
        self.ran("kubeauth ready\n")

    def typed(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def ran(self, keys: str) -> list[str]:
        """What kubeauth was run with after these keys."""
        before = len(self._runs())
        self.typed(keys)
        for _ in range(1200):  # each key that completes is a process
            if len(found := self._runs()) > before:
                return found[-1]
            self._drain()
            time.sleep(0.05)
        pytest.fail(f"nothing was run after {keys!r}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _runs(self) -> list[list[str]]:
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [json.loads(line) for line in lines]

    def _drain(self) -> None:
        """Reads what the shell says, so that it never waits for a reader."""
        while select.select([self._ours], [], [], 0)[0]:
            os.read(self._ours, 65536)


@pytest.fixture(params=SHELLS)
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    kubeconfig(tmp_path / "config", EKS, "kubernetes-admin@kubernetes", "$(touch spoiled) x")
    (tmp_path / "file-of-mine").write_text("{}")
    terminal = Terminal(request.param, tmp_path)
    yield terminal
    terminal.close()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")
def test_a_shell_completes(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.ran("kubeauth who\t\n") == ["whoami"]
    assert terminal.ran("kubeauth whoami --cont\t ar\t\n") == ["whoami", "--context", EKS]
    assert terminal.ran("kubeauth whoami --context arn:aws:e\t\n") == ["whoami", "--context", EKS]
    assert (
        terminal.ran("kubeauth whoami --context kubernetes-admin@\t\n")[-1] == "kubernetes-admin@kubernetes"
    )
    assert terminal.ran("kubeauth whoami --context arn:\t\n") == ["whoami", "--context", EKS]
    assert terminal.ran("kubeauth whoami --context ku\t\n")[-1] == "kubernetes-admin@kubernetes"
    assert terminal.ran("kubeauth whoami --context=\\$\t\n") == ["whoami", "--context=$(touch spoiled) x"]
    assert terminal.ran("kubeauth whoami --context=ar\t\n") == ["whoami", f"--context={EKS}"]
    assert terminal.ran("kubeauth get -o y\t pod\t\n") == ["get", "-o", "yaml", "pods"]
    assert terminal.ran("kubeauth --kubeconfig file\t whoami\n") == ["--kubeconfig", "file-of-mine", "whoami"]
    # A name that a shell would make something of is quoted.
    assert terminal.ran("kubeauth --context \\$\t get\n") == ["--context", "$(touch spoiled) x", "get"]
    assert not (tmp_path / "spoiled").exists()


@pytest.mark.parametrize("shell", Shell)
def test_a_script_for_each_shell(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    assert "__complete" in capsys.readouterr().out
