"""A plugin that starts in a moment: the test's own process says what it prints, and keeps what it was told."""

from __future__ import annotations

import datetime
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from kubeauth.testing import Authority
from kubeauth.testing._programs import build_shebang
from tests.support.oidc_issuer import Issuer

_SCRIPT = """{shebang}
import json, os, socket, sys
told = [os.environ.get("KUBERNETES_EXEC_INFO"), sys.argv[1:], os.environ.get("E2E_VARIABLE"), os.isatty(0)]
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
connection.sendall(json.dumps(told).encode())
connection.shutdown(socket.SHUT_WR)
with connection.makefile() as answer:
    sys.stdout.write(answer.read())
"""

Status = dict[str, Any]


class Mint:
    """`give()` is asked for the `status` of each ExecCredential. `told` has what each run was given."""

    def __init__(self, directory: Path, give: Callable[[], Status]) -> None:
        self.path = directory / "plugin"
        self.told: list[list[Any]] = []
        self.given: list[Status] = []
        self._give = give
        self._stopping = False
        address = "\0kubeauth-" + secrets.token_hex(
            8
        )  # no file: the name of one could be too long for a socket
        self.path.write_text(_SCRIPT.format(shebang=build_shebang(sys.executable), address=address))
        self.path.chmod(0o700)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)

    @property
    def runs(self) -> int:
        return len(self.told)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        with socket.socket(socket.AF_UNIX) as wake:
            wake.connect(self._listener.getsockname())
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile() as reader:
                if self._stopping:
                    return
                self.told.append(json.loads(reader.read()))
                info = self.told[-1][0]
                version = json.loads(info)["apiVersion"] if info else "client.authentication.k8s.io/v1"
                self.given.append(self._give())
                answer = {"apiVersion": version, "kind": "ExecCredential", "status": self.given[-1]}
                connection.sendall(json.dumps(answer).encode())

    def exec_config(self, **fields: Any) -> dict[str, Any]:
        """`users[].user.exec`."""
        version = "client.authentication.k8s.io/v1"
        return {"apiVersion": version, "command": str(self.path), "interactiveMode": "Never"} | fields


def certificates(authority: Authority, user: str, seconds: float) -> Callable[[], Status]:
    """Client certificates that end after `seconds`, to the second."""

    def give() -> Status:
        expires = int(time.time() + seconds)
        # The server takes it in its last second too; whoever comes later is late.
        until = datetime.datetime.fromtimestamp(expires, datetime.UTC)
        pair = authority.client(user, not_after=until)
        return {
            "clientCertificateData": pair.certificate.decode(),
            "clientKeyData": pair.key.decode(),
            "expirationTimestamp": timestamp(expires),
        }

    return give


def id_tokens(issuer: Issuer, user: str, seconds: float) -> Callable[[], Status]:
    """ID tokens that end after `seconds`."""

    def give() -> Status:
        token = issuer.id_token(user, seconds)
        return {"token": token, "expirationTimestamp": timestamp(int(time.time() + seconds))}

    return give


def timestamp(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
