"""What each command imports: a command that is typed all day must start at once."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeauth import cli
from kubeauth._compat import OPTIONAL_IMPORTS
from kubeauth.testing import APIServer, PluginScript
from tests.cli.nodes import Node
from tests.cli.programs import environ, ran

# As a program, then what it had imported by its end. What is None was kept from being imported.
PROGRAM = """
import sys
from kubeauth.cli import main
sys.argv[0] = "kubeauth"
try:
    main()
finally:
    found = [name for name, module in sys.modules.items() if module is not None]
    open({record!r}, "w").write("\\n".join(found))
"""
NEVER = {"rich", "click", "trio", "h2", "prometheus_client", "cryptography", "asyncio", "httpx2"}
NO_HTTP = {"httpx", "httpcore", "anyio"}
# Imported when a kubeconfig is read.
NO_DOCUMENT = {"pydantic", "yaml"}

GMSA = ("gmsa", "gmsa manifests")
DISCOVER = ("discover", "discover pin", "discover token", "discover token list", "discover token create")
REGISTRY = ("match", "credentials", "check", "manifest")

Imported = Callable[..., set[str]]


@pytest.fixture
def imported(tmp_path: Path, api: APIServer) -> Imported:
    """The modules that a command line has imported, below the dot too."""

    def after(*arguments: str, kubeconfig: object = None) -> set[str]:
        record = tmp_path / "modules"
        env = environ(COVERAGE_PROCESS_START="")
        if kubeconfig is not None:
            path = tmp_path / "other-kubeconfig"
            path.write_text(json.dumps(kubeconfig))
            env["KUBECONFIG"] = str(path)
        done = ran(sys.executable, "-c", PROGRAM.format(record=str(record)), *arguments, env=env)
        assert done.status == 0, done.err
        return {name.partition(".")[0] for name in record.read_text().splitlines()} | set(
            record.read_text().splitlines()
        )

    return after


def test_help_is_next_to_nothing(imported: Imported) -> None:
    for arguments in (["--help"], ["--version"]):
        assert not imported(*arguments) & (NEVER | NO_HTTP | NO_DOCUMENT | {"ssl", "json", "logging"})


@pytest.mark.parametrize(
    "command",
    [
        "get",
        "token",
        "whoami",
        "completion",
        "fleet",
        "fleet get",
        "fleet contexts",
        "registry",
        *(f"registry {each}" for each in REGISTRY),
        *DISCOVER,
        *GMSA,
    ],
)
def test_the_help_of_a_command(command: str, imported: Imported) -> None:
    assert not imported(*command.split(), "--help") & (NEVER | NO_HTTP | NO_DOCUMENT | {"ssl"})


def test_completion(imported: Imported) -> None:
    found = imported("__complete", "get", "-")
    assert not found & (NEVER | NO_HTTP | NO_DOCUMENT | {"ssl"})
    assert not imported("__complete", "--context", "") & (NEVER | NO_HTTP)
    assert not imported("completion", "zsh") & (NEVER | NO_HTTP | NO_DOCUMENT)


@pytest.mark.parametrize("command", ["get /version", "get /version -o json", "get /version -o raw", "whoami", "whoami -o json",
                                     "fleet get /version --all-contexts", "fleet get /version --all-contexts -o json"])  # fmt: skip
def test_asking_a_server(command: str, imported: Imported) -> None:
    """The kubeconfig of this test is JSON, so that there is no YAML to be read."""
    found = imported(*command.split())
    assert "httpx" in found
    assert not found & (NEVER | {"yaml", "kubeauth.testing", "kubeauth.plugin", "kubeauth._exec.process"})
    assert not found & {"kubeauth._oidc.provider", "subprocess"}
    # There is no event loop. anyio is there, but only httpcore has named it.
    assert not found & {"anyio.to_thread", "anyio._core._synchronization", "anyio._core._tasks"}


def test_a_token_needs_no_http(imported: Imported, api: APIServer, tmp_path: Path) -> None:
    assert not imported("token") & (NEVER | NO_HTTP | {"subprocess", "yaml"})
    plugin = PluginScript(tmp_path)
    found = imported("token", "-o", "json", kubeconfig=api.kubeconfig({"exec": plugin.exec_config()}))
    assert "subprocess" in found
    assert not found & (NEVER | NO_HTTP)


def test_providers_need_no_http(imported: Imported, node: Node) -> None:
    """The configuration of this test is JSON."""
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", "password")})
    for command, argument in (("match", "gcr.io/x"), ("credentials", "gcr.io/x"), ("check", node.config)):
        found = imported("registry", command, str(argument), *node.flags)
        assert not found & (NEVER | NO_HTTP | {"yaml", "ssl", "kubeauth.testing"}), command
        assert ("subprocess" not in found) == (command == "match"), command


def test_what_is_installed_is_kept_out(imported: Imported) -> None:
    """The test would notice: without this httpx and httpcore import them, if they are there."""
    probe = "import httpx, httpcore, sys; print([n for n in ('rich', 'trio', 'h2') if n in sys.modules])"
    there = ran(sys.executable, "-c", probe).out
    assert there == "['rich', 'trio', 'h2']\n"
    assert not imported("get", "/version") & {"rich", "click", "trio", "h2"}


def test_main_without_arguments_is_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in OPTIONAL_IMPORTS:
        importlib.import_module(name)  # what is there already stays
    monkeypatch.setattr(sys, "argv", ["kubeauth", "--version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("kubeauth ")
    assert all(sys.modules[name] for name in OPTIONAL_IMPORTS)


def test_what_is_kept_out_is_not_kept_from_those_who_call_main(api: APIServer) -> None:
    program = """
import sys
from kubeauth.cli import main
try:
    main(["get", "/version", "-o", "raw"])
except SystemExit as ended:
    assert not ended.code
import trio, h2, httpx
assert httpx.main.__module__ == "httpx", httpx.main
"""
    assert ran(sys.executable, "-c", program).status == 0
