"""The server that everybody asks, in a process of its own: the Go one where there is Go."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeauth.testing._programs import build_shebang

V1BETA1 = "client.authentication.k8s.io/v1beta1"

# What `server plugin` does, where there is no Go. Without site-packages, so that it starts quickly.
PLUGIN = """{shebang}
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as control:
    control.sendall(b'{{"do": "issue", "run": "%b"}}\\n' % sys.argv[2].encode())
    while said := control.recv(65536):
        sys.stdout.write(said.decode())
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the server has seen of a run."""

    issued: int
    answered: int
    refused: int


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    authority: str
    control: int
    plugin: list[str]
    """Its command; the port and the run come after."""
    directory: Path
    language: str

    def order(self, do: str, run: str, **arguments: Any) -> dict[str, Any]:
        with socket.create_connection(("127.0.0.1", self.control), timeout=30) as control:
            control.sendall(json.dumps({"do": do, "run": run, **arguments}).encode() + b"\n")
            with control.makefile() as file:
                answer: dict[str, Any] = json.loads(file.readline())
        return answer

    def set(
        self, run: str, *, kind: str = "token", lifetime: float = 3600.0, delay: float = 0.0, until: int = 0
    ) -> None:
        """Credentials of a run end at `until`; later ones, `lifetime` after the plugin has them."""
        self.order("set", run, kind=kind, lifetime=lifetime, delay=delay, until=until)

    def revoke(self, run: str) -> None:
        self.order("revoke", run)

    def counts(self, run: str) -> Counts:
        return Counts(**self.order("count", run))

    def token(self, run: str) -> str:
        token: str = self.order("issue", run)["status"]["token"]
        return token

    def plugin_command(self, run: str) -> list[str]:
        return [*self.plugin, str(self.control), run]

    def with_plugin(self, run: str) -> str:
        """A kubeconfig with an exec plugin: its path."""
        command, *arguments = self.plugin_command(run)
        entry = {"apiVersion": V1BETA1, "command": command, "args": arguments, "interactiveMode": "Never"}
        return self.kubeconfig(f"{run}.yaml", {"exec": entry})

    def with_token(self, run: str, *, name: str = "") -> str:
        """A kubeconfig with a static token: its path. JSON, for those who cannot read YAML."""
        return self.kubeconfig(f"{name or run}.json", {"token": self.token(run)})

    def kubeconfig(self, name: str, user: dict[str, Any]) -> str:
        """Its path. The CA has a remark of its own, so that no two clusters are the same to anybody."""
        authority = base64.b64encode(f"# {name}\n{self.authority}".encode()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "loopback", "user": "somebody"}}],
            "clusters": [{"name": "loopback", "cluster": cluster}],
            "users": [{"name": "somebody", "user": user}],
        }
        path = self.directory / name
        path.write_text(json.dumps(document) if path.suffix == ".json" else yaml.safe_dump(document))
        return str(path)


@contextmanager
def served(directory: Path, program: Path | None) -> Iterator[Server]:
    """`program` is the one in Go, if there is one."""
    if program:
        command, plugin = [str(program), "serve"], [str(program), "plugin"]
    else:
        script = directory / "plugin"
        script.write_text(PLUGIN.format(shebang=build_shebang(sys.executable)))
        script.chmod(0o700)
        command, plugin = [sys.executable, "-m", "benchmarks.asyncio_server"], [str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        yield Server(
            url=ready["url"],
            authority=ready["ca"],
            control=ready["control"],
            plugin=plugin,
            directory=directory,
            language="Go" if program else "asyncio",
        )
        process.stdin.close()
