"""Real exec plugins and image credential providers for tests: programs that record each run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A program runs without site-packages, so that it starts quickly. It reads its answer from a file next to it.
# Between the two parts below are `describe_run()`, which returns what to record of the run, and
# `build_output(answer)`, which returns the document to print.
_PROLOGUE = r"""
import json, os, sys, time
"""
_MAIN = r"""
path = os.path.abspath(__file__)
runs = os.open(path + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, json.dumps(describe_run()).encode() + b"\n")
os.close(runs)
with open(path + ".answer", encoding="utf-8") as file:
    answer = json.load(file)
time.sleep(answer["sleep"])
sys.stderr.write(answer["stderr"])
sys.stderr.flush()
if answer["stdout"] is not None:
    sys.stdout.write(answer["stdout"])
elif not answer["exit_code"]:
    json.dump(build_output(answer), sys.stdout)
sys.exit(answer["exit_code"])
"""


# The limit of Linux before 5.1; other systems have their own.
_MAX_SHEBANG = 127


def build_shebang(python: str, options: str = "-IS") -> str:
    """Return the first lines of a script that runs with `python`, even if that path contains a space.

    The kernel splits a `#!` line at whitespace, without quoting, and truncates a long one.
    """
    paths = [python]
    if "S" in options:  # without site-packages, the Python that a virtual environment links to is equivalent
        paths.append(os.path.realpath(python))
    for path in paths:
        line = f"#!{path} {options}".rstrip()
        if not any(char.isspace() for char in path) and len(os.fsencode(line)) <= _MAX_SHEBANG:
            return line
    # As pip does: a shell runs the interpreter, by a line that Python reads as a string.
    return f"""#!/bin/sh\n'''exec' "{python}" {options} "$0" "$@"\n' '''"""


class _Program:
    """An executable Python script in a directory."""

    def __init__(self, directory: str | os.PathLike[str], name: str, code: str) -> None:
        self.path = Path(directory, name).absolute()
        self.path.write_text(f"{build_shebang(sys.executable)}\n{_PROLOGUE}{code}{_MAIN}", encoding="utf-8")
        self.path.chmod(0o700)

    def _set_answer(
        self,
        answer: Mapping[str, object],
        *,
        stdout: str | None,
        stderr: str,
        exit_code: int,
        sleep: float,
    ) -> None:
        """Set the answer of the next runs. A run in progress may read it too, but never a part of it."""
        common = {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "sleep": sleep}
        new = Path(f"{self.path}.answer.new")
        new.write_text(json.dumps({**answer, **common}), encoding="utf-8")
        new.replace(f"{self.path}.answer")

    def _read_runs(self) -> list[Any]:
        """Return what was recorded of each run, in the order they started."""
        try:
            lines = Path(f"{self.path}.runs").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]


EXEC_V1 = "client.authentication.k8s.io/v1"

_PLUGIN_CODE = r"""
import datetime
info = os.environ.pop("KUBERNETES_EXEC_INFO", None)
def describe_run():
    run = {"info": info, "arguments": sys.argv[1:], "environment": dict(os.environ)}
    return {**run, "stdin_is_terminal": os.isatty(0)}
def build_output(answer):
    status = dict(answer["status"])
    if answer["expires_in"] is not None:
        lifetime = datetime.timedelta(seconds=answer["expires_in"])
        expires = datetime.datetime.now(datetime.timezone.utc) + lifetime
        status["expirationTimestamp"] = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    requested = json.loads(info or "{}").get("apiVersion")
    version = answer["api_version"] or requested or "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}
"""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """One run of a plugin."""

    info: Any
    """The parsed KUBERNETES_EXEC_INFO; None if it was not set."""
    arguments: list[str]
    environment: Mapping[str, str]
    stdin_is_terminal: bool


class PluginScript(_Program):
    """An exec plugin, written to a directory.

        plugin = PluginScript(tmp_path)
        plugin.answer(token="t1", expires_in=900)
        user = {"exec": plugin.exec_config()}
        ...
        assert len(plugin.runs) == 1

    It runs with this Python interpreter, without site-packages, so that it starts quickly.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = "plugin") -> None:
        super().__init__(directory, name, _PLUGIN_CODE)
        self.answer(token="token-of-the-plugin")  # noqa: S106 -- not a secret

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
        """Set the result of the next runs. `stdout` is printed in place of the ExecCredential."""
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
        self._set_answer(answer, stdout=stdout, stderr=stderr, exit_code=exit_code, sleep=sleep)

    def exec_config(self, arguments: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
        """Return `users[].user.exec` for a kubeconfig; `fields` override or extend it."""
        command, args = str(self.path), list(arguments)
        if os.name == "nt":
            command, args = sys.executable, [str(self.path), *args]
        return {"apiVersion": EXEC_V1, "command": command, "args": args, "interactiveMode": "Never"} | fields

    @property
    def runs(self) -> list[PluginRun]:
        """All runs so far, in the order they started."""
        return [_parse_run(run) for run in self._read_runs()]


def _parse_run(run: dict[str, Any]) -> PluginRun:
    info = json.loads(run["info"]) if run["info"] is not None else None
    return PluginRun(info, run["arguments"], run["environment"], run["stdin_is_terminal"])


PROVIDER_V1 = "credentialprovider.kubelet.k8s.io/v1"

_PROVIDER_CODE = r"""
request = sys.stdin.read()
def describe_run():
    return {"request": request, "arguments": sys.argv[1:], "environment": dict(os.environ)}
def build_output(answer):
    version = answer["api_version"] or json.loads(request)["apiVersion"]
    return {"apiVersion": version, "kind": "CredentialProviderResponse", **answer["fields"]}
"""


@dataclass(frozen=True, slots=True)
class ProviderRun:
    """One run of a provider."""

    request: Any
    """The parsed CredentialProviderRequest."""
    arguments: list[str]
    environment: Mapping[str, str]


class ProviderScript(_Program):
    """An image credential provider, written to a directory.

        provider = ProviderScript(tmp_path)
        provider.answer({"registry.test": ("user", "password")}, cache_duration="10m")
        config = ProviderScript.config(provider.entry(["registry.test"]))
        (tmp_path / "config.json").write_text(json.dumps(config))
        CredentialProviders(tmp_path / "config.json", tmp_path).credentials("registry.test/app")

    It runs with this Python interpreter, without site-packages, so that it starts quickly.
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
        """Set the result of the next runs: a user name and a password for each key of `auth`.

        `stdout` is printed in place of the CredentialProviderResponse.
        """
        fields: dict[str, object] = {"cacheKeyType": cache_key_type}
        if auth is not None:
            fields["auth"] = {
                key: {"username": name, "password": password} for key, (name, password) in auth.items()
            }
        if cache_duration is not None:
            fields["cacheDuration"] = cache_duration
        answer = {"fields": fields, "api_version": api_version}
        self._set_answer(answer, stdout=stdout, stderr=stderr, exit_code=exit_code, sleep=sleep)

    def entry(self, match_images: Sequence[str], **fields: Any) -> dict[str, Any]:
        """Return its entry for a CredentialProviderConfig; `fields` override or extend it."""
        entry = {"name": self.path.name, "matchImages": list(match_images), "apiVersion": PROVIDER_V1}
        return {**entry, "defaultCacheDuration": "10m"} | fields

    @staticmethod
    def config(*entries: Mapping[str, Any]) -> dict[str, Any]:
        """Return a CredentialProviderConfig with these entries, to be written as JSON."""
        version, kind = "kubelet.config.k8s.io/v1", "CredentialProviderConfig"
        return {"apiVersion": version, "kind": kind, "providers": list(entries)}

    @property
    def runs(self) -> list[ProviderRun]:
        """All runs so far, in the order they started."""
        return [
            ProviderRun(json.loads(run["request"]), run["arguments"], run["environment"])
            for run in self._read_runs()
        ]
