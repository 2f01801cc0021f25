"""The command line as a whole: commands, groups of them, flags before and behind, and what makes no sense."""

from __future__ import annotations

import argparse
import re
import sys
from types import ModuleType

import pytest

import kubeauth
from kubeauth.cli import _app
from kubeauth.cli._app import COMMANDS, command_of, parser_of
from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags
from tests.cli.conftest import Run


class MatchOptions(Flags):
    image: str
    loud: bool = False


class Match(ModuleType):
    """A command of a group: `kubeauth images match IMAGE`."""

    Options = MatchOptions

    def __init__(self) -> None:
        super().__init__("kubeauth.cli._images_match")
        self.given: list[MatchOptions] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("image", metavar="IMAGE", help="an image")
        parser.add_argument("--loud", action="store_true", help="say it loud")

    def run(self, options: MatchOptions) -> int:
        """Say which provider an image is for."""
        self.given.append(options)
        return 7


@pytest.fixture
def match(monkeypatch: pytest.MonkeyPatch) -> Match:
    found = Match()
    monkeypatch.setitem(sys.modules, "kubeauth.cli._images_match", found)
    monkeypatch.setattr(_app, "COMMANDS", {**COMMANDS, "images match": "which provider an image is for"})
    monkeypatch.setattr(_app, "GROUPS", {"images": "credentials for images"})
    return found


class TestGroups:
    def test_a_command_of_a_group(self, match: Match, run: Run) -> None:
        assert run("images", "match", "nginx").status == 7
        assert match.given[0].image == "nginx"

    @pytest.mark.parametrize(
        "arguments",
        [
            "--context prod images match nginx --loud",
            "images --context prod match nginx --loud",
            "images match --context prod nginx --loud",
            "images match nginx --loud --context=prod",
            "--loud images match nginx --context prod",
        ],
    )
    def test_flags_may_stand_anywhere(self, arguments: str, match: Match, run: Run) -> None:
        assert run(*arguments.split()).status == 7
        (given,) = match.given
        assert (given.context, given.image, given.loud) == ("prod", "nginx", True)

    @pytest.mark.parametrize("value", ["-dash", "--loud", "--loud=false", "a=b", "", "get"])
    def test_the_word_behind_a_flag_is_its_value(self, value: str, match: Match, run: Run) -> None:
        """As with kubectl: a password may begin with a dash."""
        assert run("images", "match", "nginx", "--password", value, "-n", value).status == 7
        assert run("--password", value, "-n", value, "images", "match", "nginx").status == 7
        for given in match.given:
            assert (given.password.reveal(), given.namespace, given.loud) == (value, value, False)

    def test_its_help_lists_what_is_in_it(self, match: Match, run: Run) -> None:
        ran = run("images", "--help")
        assert ran.status == 0
        assert ran.out.startswith("usage: kubeauth images [flags] COMMAND ...\n\nCredentials for images.\n")
        assert "\n  match  which provider an image is for\n" in ran.out
        # `images --config x match` cannot be told from a command `x`.
        assert "\nGlobal flags may stand before the command, its own behind it." in ran.out
        assert "images match" not in run("--help").out
        assert re.search(r"\n  images +credentials for images\n", run("--help").out)
        assert run("images", "match", "--help").out.startswith("usage: kubeauth images match ")

    def test_without_a_command_its_help_is_an_error(self, match: Match, run: Run) -> None:
        ran = run("images")
        assert (ran.status, ran.out) == (Status.USAGE, "")
        assert "match" in ran.err

    def test_an_unknown_command_in_it(self, match: Match, run: Run) -> None:
        assert run("images", "mach", "x").err == (
            'error: unknown command "mach" for "kubeauth images". Did you mean match?\n'
            "See `kubeauth images --help`.\n"
        )

    def test_they_are_completed(self, match: Match, monkeypatch: pytest.MonkeyPatch) -> None:
        from kubeauth.cli import _complete

        monkeypatch.setattr(_complete, "COMMANDS", _app.COMMANDS)
        monkeypatch.setattr(_complete, "GROUPS", _app.GROUPS)

        def words(*typed: str) -> list[str]:
            return list(_complete.offered(typed, lambda _kind, _path: ["prod"]).words)

        assert words("ima") == ["images"]
        assert words("images", "") == ["match"]
        assert words("images", "--context", "p") == ["prod"]
        assert words("images", "match", "--l") == ["--loud"]
        assert words("images", "nope", "") == []


class TestACommandThatIsAGroup:
    """`discover HOST:PORT`, `discover pin` and `discover token list`."""

    def test_its_help_says_both(self, run: Run) -> None:
        out = run("discover", "--help").out
        assert out.startswith("usage: kubeauth discover [-h] ")
        assert "\n  HOST:PORT " in out
        assert (
            "\n  pin    print the pins of certificates\n  token  the bootstrap tokens of a cluster\n" in out
        )
        assert re.search(r"\n  discover +find a cluster by", run("--help").out)

    def test_each_of_three_words(self, run: Run) -> None:
        assert run("discover", "token", "--help").out.startswith(
            "usage: kubeauth discover token [flags] COMMAND"
        )
        assert run("discover", "token", "list", "--help").out.startswith(
            "usage: kubeauth discover token list "
        )
        assert run("discover", "token").status == Status.USAGE

    @pytest.mark.parametrize(
        "arguments",
        [
            "--context nope discover token list",
            "discover --context nope token list",
            "discover token --context nope list",
            "discover token list --context=nope",
            "discover --token token token list --context nope",
            "discover --show-secrets token list --context nope",
            "--context nope discover pin",
            "discover --context nope pin",
        ],
    )
    def test_flags_may_stand_anywhere(self, arguments: str, run: Run) -> None:
        ran = run(*arguments.split())
        assert ran.status == Status.CONFIG
        assert "nope" in ran.err

    @pytest.mark.parametrize("arguments", ["h:1", "--mode seed h:1", "--token token h:1", "h:1 --file pin"])
    def test_what_is_no_command_of_it_is_its_argument(self, arguments: str, run: Run) -> None:
        ran = run("discover", *arguments.split())
        assert ran.status == Status.USAGE
        assert ran.err.endswith("See `kubeauth discover --help`.\n")

    def test_a_token_in_the_wrong_place_is_not_repeated(self, run: Run) -> None:
        for words in (["get", "/x"], ["discover", "token"], ["discover", "token", "list"], []):
            err = run(*words, "abcdef.0123456789abcdef").err
            assert "abcdef.****" in err
            assert "0123456789abcdef" not in err


@pytest.mark.parametrize("columns", ["80", "50"])
def test_what_it_does_is_told_in_the_width_of_the_terminal(
    columns: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    said = run("discover", "pin", "--help").out
    assert all(len(line) <= int(columns) for line in said.splitlines())
    assert "\n  kubeauth discover pin /etc/kubernetes/pki/ca.crt\n" in said  # an example stays as it is


@pytest.mark.parametrize("name", COMMANDS)
class TestEachCommand:
    def test_says_what_it_does(self, name: str, run: Run) -> None:
        ran = run(*name.split(), "--help")
        assert (ran.status, ran.err) == (0, "")
        assert ran.out.startswith(f"usage: kubeauth {name} [-h]")
        assert "see `kubeauth --help`" in ran.out or "Of the global flags there is -v" in ran.out
        assert all(len(line) <= 110 for line in ran.out.splitlines())

    def test_is_in_the_list(self, name: str, run: Run) -> None:
        assert COMMANDS[name] in run(*name.split()[:-1], "--help").out

    def test_has_defaults_for_its_flags(self, name: str) -> None:
        parser, options = parser_of(name), command_of(name).Options
        flags = [action for action in parser.actions if action.option_strings and action.dest != "help"]
        assert all(hasattr(options, action.dest) for action in flags)


class TestNonsense:
    def test_no_command(self, run: Run) -> None:
        ran = run()
        assert (ran.status, ran.out) == (Status.USAGE, "")
        assert ran.err.startswith("usage: kubeauth [flags] COMMAND ...")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["gte"], 'unknown command "gte" for "kubeauth". Did you mean get?\nSee `kubeauth --help`.'),
            (["xyzzy"], 'unknown command "xyzzy" for "kubeauth".\nSee `kubeauth --help`.'),
            (["get", "/x", "--secret-flag=secret"], "unknown flag: --secret-flag\nSee `kubeauth get --help`."),
            (["get", "/x", "y"], "unexpected argument: y\nSee `kubeauth get --help`."),
            (["get"], "the following arguments are required: PATH\nSee `kubeauth get --help`."),
            (["get", "/x", "--watch=maybe"], 'invalid argument "maybe" for "--watch": it is true or false\nSee `kubeauth get --help`.'),
            (["--context"], "argument --context: expected one argument\nSee `kubeauth --help`."),
            (["--context", "--", "get"], "argument --context: expected one argument\nSee `kubeauth --help`."),
            (["get", "/x", "--cont", "y"], "unknown flag: --cont\nSee `kubeauth get --help`."),
        ],
    )  # fmt: skip
    def test_is_said_in_a_line(self, arguments: list[str], said: str, run: Run) -> None:
        assert run(*arguments) == (Status.USAGE, "", f"error: {said}\n")


class TestBooleans:
    """As Go has them: --insecure-skip-tls-verify=true is in half of all instructions."""

    @pytest.mark.parametrize(
        ("flag", "expected"),
        [("--loud", True), ("--loud=true", True), ("--loud=1", True), ("--loud=T", True), ("--loud=false", False), ("--loud=0", False)],
    )  # fmt: skip
    def test_with_a_value(self, flag: str, expected: bool, match: Match, run: Run) -> None:
        for arguments in ([flag, "images", "match", "x"], ["images", "match", "x", flag]):
            run(*arguments)
            assert match.given[-1].loud is expected

    def test_not_behind_two_dashes(self, match: Match, run: Run) -> None:
        run("images", "match", "--", "--loud=true")
        assert match.given[0].image == "--loud=true"


def test_the_version(run: Run) -> None:
    assert run("--version") == (0, f"kubeauth {kubeauth.__version__}\n", "")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, match: Match, run: Run) -> None:
    def needs(package: str) -> None:
        def missing(_options: MatchOptions) -> int:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)

        monkeypatch.setattr(match, "run", missing)

    needs("rich.console")
    assert run("images", "match", "x") == (
        1, "", "error: this command needs rich. Install it: pip install 'kubeauth[cli]'\n"
    )  # fmt: skip
    needs("something_else")
    assert run("images", "match", "x").status == Status.FAULT
