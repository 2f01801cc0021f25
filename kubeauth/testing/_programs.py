"""Programs for tests: real ones, that say what they are told to, and remember how they were run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Runs without site-packages, so it starts quickly. Reads what to say from the file beside it. Between these
# two stand `run()`, what is to be remembered, and `document(answer)`, what it prints if it does not fail.
_HEAD = r"""
import json, os, sys, time
"""
_REST = r"""
here = os.path.abspath(__file__)
runs = os.open(here + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, json.dumps(run()).encode() + b"\n")
os.close(runs)
with open(here + ".answer", encoding="utf-8") as file:
    answer = json.load(file)
time.sleep(answer["sleep"])
sys.stderr.write(answer["stderr"])
sys.stderr.flush()
if answer["stdout"] is not None:
    sys.stdout.write(answer["stdout"])
elif not answer["exit_code"]:
    json.dump(document(answer), sys.stdout)
sys.exit(answer["exit_code"])
"""


# Linux reads that much of the line before 5.1; others have their own limits.
_MAX_SHEBANG = 127


def build_shebang(python: str, options: str = "-IS") -> str:
    """The first lines of a Python script that runs with `python`, also where its path has a space in it.

    The kernel splits a `#!` line at blanks, without quoting, and reads only a part of a long one.
    """
    paths = [python]
    if "S" in options:  # without site-packages, a virtual environment's Python is the one that it links to
        paths.append(os.path.realpath(python))
    for path in paths:
        line = f"#!{path} {options}".rstrip()
        if not any(char.isspace() for char in path) and len(os.fsencode(line)) <= _MAX_SHEBANG:
            return line
    # As pip does it: a shell starts the interpreter, with a line that Python reads as a string.
    return f"""#!/bin/sh\n'''exec' "{python}" {options} "$0" "$@"\n' '''"""


class Script:
    """A program in a directory of yours."""

    def __init__(self, directory: str | os.PathLike[str], name: str, particulars: str) -> None:
        self.path = Path(directory, name).absolute()
        self.path.write_text(
            f"{build_shebang(sys.executable)}\n{_HEAD}{particulars}{_REST}", encoding="utf-8"
        )
        self.path.chmod(0o700)

    def _say(
        self,
        particulars: Mapping[str, object],
        *,
        stdout: str | None,
        stderr: str,
        exit_code: int,
        sleep: float,
    ) -> None:
        """From the next run on. One that has started may read it too, but all of it or nothing."""
        common = {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "sleep": sleep}
        new = Path(f"{self.path}.answer.new")
        new.write_text(json.dumps({**particulars, **common}), encoding="utf-8")
        new.replace(f"{self.path}.answer")

    def _remembered(self) -> list[Any]:
        """Of every run so far, in the order they started."""
        try:
            lines = Path(f"{self.path}.runs").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]


EXEC_V1 = "client.authentication.k8s.io/v1"

_PLUGIN_CODE = r"""
import datetime
info = os.environ.pop("KUBERNETES_EXEC_INFO", None)
def run():
    given = {"info": info, "arguments": sys.argv[1:], "environment": dict(os.environ)}
    return {**given, "stdin_is_terminal": os.isatty(0)}
def document(answer):
    status = dict(answer["status"])
    if answer["expires_in"] is not None:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=answer["expires_in"])
        status["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    asked = json.loads(info or "{}").get("apiVersion")
    version = answer["api_version"] or asked or "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}
"""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """One run of a plugin: what it was given."""

    info: Any
    """KUBERNETES_EXEC_INFO, parsed; None if it was not set."""
    arguments: list[str]
    environment: Mapping[str, str]
    stdin_is_terminal: bool


class PluginScript(Script):
    """An exec plugin in a directory of yours.

        plugin = PluginScript(tmp_path)
        plugin.answer(token="t1", expires_in=900)
        user = {"exec": plugin.exec_config()}
        ...
        assert len(plugin.runs) == 1

    A real program, for this Python without site-packages, so that it starts quickly.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = "plugin") -> None:
        super().__init__(directory, name, _PLUGIN_CODE)
        self.answer(token="token-of-the-plugin")  # noqa: S106 -- a secret to nobody

    def answer(
        self,
        *,
        token: str | None = None,
        certificate: bytes | None = None,
        key: bytes | None = None,
        expires_in: float | None = None,
        api_version: str | None = None,
        stdout: str | None = None,
        stderr: str = "",
        exit_code: int = 0,
        sleep: float = 0.0,
    ) -> None:
        """What it says from the next run on. `stdout` takes the place of the ExecCredential."""
        status = {
            "token": token,
            "clientCertificateData": certificate.decode() if certificate else None,
            "clientKeyData": key.decode() if key else None,
        }
        answer = {
            "status": {name: value for name, value in status.items() if value is not None},
            "expires_in": expires_in,
            "api_version": api_version,
        }
        self._say(answer, stdout=stdout, stderr=stderr, exit_code=exit_code, sleep=sleep)

    def exec_config(self, arguments: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
        """`users[].user.exec` for a kubeconfig; `fields` are added, or replace what is there."""
        command, args = str(self.path), list(arguments)
        if os.name == "nt":
            command, args = sys.executable, [str(self.path), *args]
        return {"apiVersion": EXEC_V1, "command": command, "args": args, "interactiveMode": "Never"} | fields

    @property
    def runs(self) -> list[PluginRun]:
        """Every run so far, in the order they started."""
        return [_run(each) for each in self._remembered()]


def _run(said: dict[str, Any]) -> PluginRun:
    info = json.loads(said["info"]) if said["info"] is not None else None
    return PluginRun(info, said["arguments"], said["environment"], said["stdin_is_terminal"])


PROVIDER_V1 = "credentialprovider.kubelet.k8s.io/v1"

_PROVIDER_CODE = r"""
asked = sys.stdin.read()
def run():
    return {"request": asked, "arguments": sys.argv[1:], "environment": dict(os.environ)}
def document(answer):
    version = answer["api_version"] or json.loads(asked)["apiVersion"]
    return {"apiVersion": version, "kind": "CredentialProviderResponse", **answer["says"]}
"""


@dataclass(frozen=True, slots=True)
class ProviderRun:
    """One run of a provider: what it was given."""

    request: Any
    """The CredentialProviderRequest, parsed."""
    arguments: list[str]
    environment: Mapping[str, str]


class ProviderScript(Script):
    """An image credential provider in a directory of yours, under its name.

        provider = ProviderScript(tmp_path)
        provider.answer({"registry.test": ("user", "password")}, cache_duration="10m")
        config = ProviderScript.config(provider.entry(["registry.test"]))
        (tmp_path / "config.json").write_text(json.dumps(config))
        CredentialProviders(tmp_path / "config.json", tmp_path).credentials("registry.test/app")

    A real program, for this Python without site-packages, so that it starts quickly.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = "provider") -> None:
        super().__init__(directory, name, _PROVIDER_CODE)
        self.answer({})

    def answer(
        self,
        auth: Mapping[str, tuple[str, str]] | None = None,
        *,
        cache_key_type: str = "Registry",
        cache_duration: str | None = None,
        api_version: str | None = None,
        stdout: str | None = None,
        stderr: str = "",
        exit_code: int = 0,
        sleep: float = 0.0,
    ) -> None:
        """What it says from the next run on: user name and password by key.

        `stdout` takes the place of the CredentialProviderResponse.
        """
        says: dict[str, object] = {"cacheKeyType": cache_key_type}
        if auth is not None:
            says["auth"] = {key: {"username": name, "password": word} for key, (name, word) in auth.items()}
        if cache_duration is not None:
            says["cacheDuration"] = cache_duration
        answer = {"says": says, "api_version": api_version}
        self._say(answer, stdout=stdout, stderr=stderr, exit_code=exit_code, sleep=sleep)

    def entry(self, match_images: Sequence[str], **fields: Any) -> dict[str, Any]:
        """Its entry in a configuration; `fields` are added, or replace what is there."""
        entry = {"name": self.path.name, "matchImages": list(match_images), "apiVersion": PROVIDER_V1}
        return {**entry, "defaultCacheDuration": "10m"} | fields

    @staticmethod
    def config(*entries: Mapping[str, Any]) -> dict[str, Any]:
        """A CredentialProviderConfig of such entries. As JSON it is one for CredentialProviders."""
        version, kind = "kubelet.config.k8s.io/v1", "CredentialProviderConfig"
        return {"apiVersion": version, "kind": kind, "providers": list(entries)}

    @property
    def runs(self) -> list[ProviderRun]:
        """Every run so far, in the order they started."""
        return [
            ProviderRun(json.loads(each["request"]), each["arguments"], each["environment"])
            for each in self._remembered()
        ]
