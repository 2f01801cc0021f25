"""ExecConfig, ExecOptions and PluginPolicy: validation, equality, pickling and repr."""

from __future__ import annotations

import pickle

import pytest

from kubeauth import ExecConfig, ExecOptions, PluginPolicy
from kubeauth._exec.config import clean_path, find_policy_problem
from kubeauth._exec.lookup import escape_terminal
from kubeauth.errors import ConfigError
from tests.support.cases import each_case


def test_policy_constructors_p1() -> None:
    assert PluginPolicy.allow_all() == PluginPolicy("AllowAll")
    assert PluginPolicy.deny_all() == PluginPolicy("DenyAll")
    assert PluginPolicy.allowlist(["aws", "/usr/bin/kubelogin"]).commands == ("aws", "/usr/bin/kubelogin")


@each_case(
    ("kind", "commands", "problem"),
    [
        ("", None, None),
        ("AllowAll", None, None),
        ("DenyAll", None, None),
        ("Allowlist", ["a", "/b/c"], None),
        ("allowall", None, 'unknown plugin policy: "allowall"'),
        ("bogus", ["a"], 'unknown plugin policy: "bogus"'),
        ("", [], "allowlist is non-nil"),
        ("AllowAll", ["a"], 'plugin policy is "AllowAll" but allowlist is non-nil'),
        ("DenyAll", [], 'plugin policy is "DenyAll" but allowlist is non-nil'),
        ("Allowlist", None, "allowlist is unspecified"),
        ("Allowlist", [], 'allowlist is empty; use "DenyAll" policy instead'),
        ("Allowlist", ["a", ""], "empty allowlist entry #2"),
        ("Allowlist", ["./x"], "non-normalized file path"),
        ("Allowlist", ["a//b"], "non-normalized file path"),
        ("Allowlist", ["/a/"], "non-normalized file path"),
        ("Allowlist", ["//a"], "non-normalized file path"),
    ],
)
def test_a_policy_must_be_consistent_p2(kind: str, commands: list[str] | None, problem: str | None) -> None:
    actual = find_policy_problem(kind, commands)

    assert (problem is None and actual is None) or (problem is not None and problem in (actual or ""))


def test_an_invalid_policy_raises_p2() -> None:
    for commands in ([], ["./x"], "aws"):
        with pytest.raises(ConfigError):
            PluginPolicy.allowlist(commands)
    for kind, listed in (("Sometimes", ()), ("DenyAll", ("a",))):
        with pytest.raises(ConfigError):
            PluginPolicy(kind, listed)


def test_policies_and_configs_do_not_depend_on_mutable_arguments() -> None:
    assert PluginPolicy("") == PluginPolicy.allow_all()
    assert hash(PluginPolicy("Allowlist", ["a"])) == hash(PluginPolicy.allowlist(["a"]))  # type: ignore[arg-type]
    assert ExecConfig(command="c", api_version="v", args=["a"]).args == ("a",)  # type: ignore[arg-type]

    mutable = {"a": [1]}
    config = ExecConfig(command="c", api_version="v", cluster_config=mutable)
    mutable["a"].append(2)
    assert config.cluster_config == {"a": [1]}


def test_the_policy_defaults_to_allow_all_p3() -> None:
    assert ExecConfig(command="c", api_version="v").policy == PluginPolicy.allow_all()


@each_case(
    ("path", "cleaned"),
    [("a", "a"), ("./a", "a"), ("a//b", "a/b"), ("a/../b", "b"), ("/..", "/"), ("//a", "/a"), ("///a", "/a"),
     ("", "."), ("a/", "a"), ("../a", "../a")],
)  # fmt: skip
def test_paths_are_cleaned_as_go_does(path: str, cleaned: str) -> None:
    assert clean_path(path) == cleaned


@each_case(
    ("hint", "cleaned"),
    [
        ("\x1b[1mbold tuna\x1b[0m, fish", "U+001B[1mbold tunaU+001B[0m, fish"),
        ("\x1b[2Aup up, \x1b[2Cright right", "U+001B[2Aup up, U+001B[2Cright right"),
        ("clear: \x1b[2J", "clear: U+001B[2J"),
        ("zero\u200bwidth", "zeroU+200Bwidth"),
        ("\U000e0001tag", "U+E0001tag"),
        *[
            (unchanged, unchanged)
            for unchanged in (
                "tuna\nfish\r\nmarlin\t\r\ntuna\vfish\fmarlin",
                "alpha: \u03b1, beta: \u03b2",
                "tu\u0301na with a mark",
                "t1na, f34h",
                '"here\'s a sentence; with! some...punctuation ;)"',
                "\u222b\u2081\u207f f(x) dx \u2248 \u2211",
                "a paragraph separator\u2029and\u2003em",
            )
        ],
    ],
)
def test_terminal_escapes_in_install_hints_are_escaped_t77(hint: str, cleaned: str) -> None:
    assert escape_terminal(hint) == cleaned


def test_a_long_install_hint_is_escaped() -> None:
    assert escape_terminal("\x1ba\n" * 1_000_000) == "U+001Ba\n" * 1_000_000


def test_the_timeout_must_be_positive() -> None:
    assert (ExecOptions().timeout, ExecOptions().refresh_ahead) == (60.0, True)
    assert ExecOptions(timeout=None).timeout is None
    for timeout in (0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="timeout"):
            ExecOptions(timeout=timeout)


def test_exec_configs_have_equality_and_no_secrets_in_repr_or_pickle_k7() -> None:
    def make() -> ExecConfig:
        return ExecConfig(
            command="plug",
            args=("--password=s3ntinel",),
            env={"A": "s3ntinel"},
            api_version="v1",
            install_hint="s3ntinel",
            cluster_config={"a": "s3ntinel"},
        )

    with pytest.raises(ConfigError, match=r"\(args, env, cluster_config\)"):
        pickle.dumps(make())
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(make().env)
    without_secrets = ExecConfig(command="plug", api_version="v1")
    assert pickle.loads(pickle.dumps(without_secrets)) == without_secrets

    assert make() == make()
    assert hash(make()) == hash(make())

    assert "s3ntinel" not in repr(make())
    assert "plug" in repr(make())
    assert "env=<1 hidden: A>" in repr(make())
