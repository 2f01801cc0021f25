"""Issues credentials that live for seconds, and knows whether one was good at a given moment."""

from __future__ import annotations

import datetime
import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cryptography import x509

from kubeauth.testing import Answer, APIServer, Authority, Received
from kubeauth.testing._programs import build_shebang

# Asks the issuer, which lives in the test's process, over a socket: starts in a moment.
_SCRIPT = """{shebang}
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
with connection.makefile() as answer:
    sys.stdout.write(answer.read())
"""


# A machine with other things to do may take seconds to bring a request to the server. That is nobody's fault
# here: what counts is whether the credential was good when the caller asked, and the caller says when that was.
SENT = "X-Sent"
_ON_THE_WAY = 10.0


def sent_now() -> dict[str, str]:
    """For the headers of a request: the moment at which its caller asks."""
    return {SENT: repr(time.time())}


def _end_of(token: str) -> float:
    return float(token.partition("-until-")[2] or 0)


def known(request: Received) -> str | None:
    """For `APIServer(authenticate=)`: who has a token that is not long over.

    As an API server it lets a certificate that is over through the handshake: on a machine that stalls it may
    be by then. The witness says whether it was good when it was asked for.
    """
    token = str(request.header("Authorization"))
    return "alice" if _end_of(token) + _ON_THE_WAY >= time.time() else None


class Issuer:
    """A plugin whose every run gives another token and another certificate."""

    def __init__(self, directory: Path, authority: Authority, *, lifetime: float) -> None:
        self.runs = 0
        self._stopping = False
        self.path = directory / "plugin"
        self._authority = authority
        self._lifetime = lifetime
        address = str(directory / "issuer")
        self.path.write_text(_SCRIPT.format(shebang=build_shebang(sys.executable), address=address))
        self.path.chmod(0o700)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self._stopping:
                    return
                self.runs += 1
                connection.sendall(json.dumps(self._credential()).encode())

    def _credential(self) -> dict[str, Any]:
        expires = time.time() + self._lifetime
        # A certificate ends on a whole second: not before the credential does.
        until = datetime.datetime.fromtimestamp(int(expires) + 1, datetime.UTC)
        pair = self._authority.client("alice", not_after=until)
        timestamp = datetime.datetime.fromtimestamp(expires, datetime.UTC).isoformat().replace("+00:00", "Z")
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {
                "token": f"{self.runs}-until-{expires}",
                "clientCertificateData": pair.certificate.decode(),
                "clientKeyData": pair.key.decode(),
                "expirationTimestamp": timestamp,
            },
        }

    def exec_config(self) -> dict[str, Any]:
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(self.path),
            "interactiveMode": "Never",
        }

    def close(self) -> None:
        self._stopping = True
        with socket.socket(socket.AF_UNIX) as wake:
            wake.connect(self._listener.getsockname())
        self._thread.join()
        self._listener.close()


class Witness:
    """What the server saw: every answer it gave, with what the request was authenticated by."""

    def __init__(self, server: APIServer) -> None:
        self.tokens: set[str] = set()
        self.certificates: set[bytes] = set()
        self.stale: list[str] = []
        self.answered = 0
        self._ends: dict[bytes, float] = {}
        server.on("GET", "/work", self._answer)

    def _answer(self, request: Received) -> Answer:
        """Both token and certificate must have been good when the caller asked."""
        assert request.certificate is not None
        sent, token = float(str(request.header(SENT))), str(request.header("Authorization"))
        if request.certificate not in self._ends:
            end = x509.load_der_x509_certificate(request.certificate).not_valid_after_utc
            self._ends[request.certificate] = end.timestamp()
        if min(self._ends[request.certificate], _end_of(token)) < sent:
            self.stale.append(token)
        self.tokens.add(token)
        self.certificates.add(request.certificate)
        self.answered += 1
        return Answer(body={"ok": True})
