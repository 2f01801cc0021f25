"""Issues credentials that expire within seconds, and records requests with an expired one."""

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

# Requests the credential from the issuer in the test's process over a socket, which is faster than creating one.
_SCRIPT = """{shebang}
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
with connection.makefile() as credential:
    sys.stdout.write(credential.read())
"""


# On a busy machine a request may take seconds to reach the server. A credential must be valid when the caller sends
# the request, so the caller adds that time.
SENT = "X-Sent"
_MAX_DELAY = 10.0


def sent_now() -> dict[str, str]:
    """The header with the time at which the caller sends the request."""
    return {SENT: repr(time.time())}


def _get_expiry(token: str) -> float:
    return float(token.partition("-until-")[2] or 0)


def authenticate(request: Received) -> str | None:
    """For `APIServer(authenticate=)`: accept a token that expired a few seconds ago.

    The TLS handshake accepts an expired certificate, as that of an API server. RequestRecorder checks whether both
    were valid when the request was sent.
    """
    token = str(request.header("Authorization"))
    return "alice" if _get_expiry(token) + _MAX_DELAY >= time.time() else None


class Issuer:
    """A plugin that returns a new token and a new certificate at each run."""

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
        # A certificate expires on a whole second, and must not expire before the credential.
        not_after = datetime.datetime.fromtimestamp(int(expires) + 1, datetime.UTC)
        pair = self._authority.client("alice", not_after=not_after)
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


class RequestRecorder:
    """The tokens and certificates of all requests to `/work`; `stale` has the tokens of those that had expired."""

    def __init__(self, server: APIServer) -> None:
        self.tokens: set[str] = set()
        self.certificates: set[bytes] = set()
        self.stale: list[str] = []
        self.answered = 0
        self._expiries: dict[bytes, float] = {}
        server.on("GET", "/work", self._answer)

    def _answer(self, request: Received) -> Answer:
        """Token and certificate must have been valid when the caller sent the request."""
        assert request.certificate is not None
        sent, token = float(str(request.header(SENT))), str(request.header("Authorization"))
        if request.certificate not in self._expiries:
            expires = x509.load_der_x509_certificate(request.certificate).not_valid_after_utc
            self._expiries[request.certificate] = expires.timestamp()
        if min(self._expiries[request.certificate], _get_expiry(token)) < sent:
            self.stale.append(token)
        self.tokens.add(token)
        self.certificates.add(request.certificate)
        self.answered += 1
        return Answer(body={"ok": True})
