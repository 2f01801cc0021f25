"""The demo's cluster: an issuer of credentials that live for seconds, and an API server that checks them."""

from __future__ import annotations

import datetime
import hmac
import json
import math
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509

from kubeauth.testing import APIServer, Authority, Received

USER = "demo"
WATCHED = "/api/v1/pods"


class Issued(NamedTuple):
    """One credential, or its half."""

    number: int
    ends: float


class Issuer:
    """Gives a new credential to each run of the plugin that has the ticket."""

    def __init__(self, authority: Authority, *, token: bool, certificate: bool, lifetime: float) -> None:
        self.lifetime = lifetime
        self.issued = 0
        self.tokens: dict[str, Issued] = {}
        self.numbers: dict[int, int] = {}
        """Of certificates, by serial number: which credential they are of."""
        self._authority = authority
        self._token, self._certificate = token, certificate
        self._ticket = secrets.token_hex(16)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="demo-issuer", daemon=True)
        self._thread.start()

    def exec_config(self) -> dict[str, Any]:
        """`users[].user.exec` of the kubeconfig."""
        host, port = self._socket.getsockname()
        environment = {"KUBEAUTH_DEMO_ISSUER": f"{host}:{port}", "KUBEAUTH_DEMO_TICKET": self._ticket}
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            # -IS: nothing but the standard library, so that it starts quickly.
            "args": ["-IS", str(Path(__file__).with_name("_demo_plugin.py"))],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "interactiveMode": "Never",
        }

    def close(self) -> None:
        """No more credentials."""
        with suppress(OSError):
            # Wakes the thread that waits in accept().
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            # Who goes away is killed, or has no ticket: neither is a reason to stop.
            with suppress(OSError), connection:
                connection.settimeout(5.0)
                with connection.makefile("rwb") as stream:
                    if hmac.compare_digest(stream.readline().strip(), self._ticket.encode()):
                        stream.write(json.dumps(self._issue()).encode())

    def _issue(self) -> dict[str, Any]:
        now = time.time()
        ends = now + self.lifetime
        if self._certificate:
            ends = math.ceil(ends)  # a certificate knows no fractions
        status: dict[str, str] = {"expirationTimestamp": _date(ends).isoformat().replace("+00:00", "Z")}
        self.issued += 1
        if self._token:
            status["token"] = token = secrets.token_urlsafe(24)
            self.tokens[token] = Issued(self.issued, ends)
        if self._certificate:
            pair = self._authority.client(USER, not_before=_date(math.floor(now)), not_after=_date(ends))
            self.numbers[x509.load_pem_x509_certificate(pair.certificate).serial_number] = self.issued
            status |= {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }


class DemoCluster:
    """An API server with an issuer. A credential that is over is a 401, however old the connection."""

    def __init__(self, *, token: bool, certificate: bool, lifetime: float) -> None:
        self.lifetime = lifetime
        self.refused = 0
        """How many requests it answered with a 401."""
        self._token, self._certificate = token, certificate
        # Guards what is counted below; requests come in many threads.
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        authority = Authority("kubeauth demo CA")
        self.issuer = Issuer(authority, token=token, certificate=certificate, lifetime=lifetime)
        self.server = APIServer(authority=authority, authenticate=self._authenticate)
        self._watch = self.server.watch(WATCHED)
        self._events = 0

    @property
    def issued(self) -> int:
        """How many credentials the plugin was given."""
        return self.issuer.issued

    @property
    def seen(self) -> int:
        """How many different credentials were shown to the server."""
        return len(self._seen)

    def kubeconfig(self) -> dict[str, Any]:
        """As a user would have it."""
        return self.server.kubeconfig({"exec": self.issuer.exec_config()})

    def beat(self) -> None:
        """One event for whoever watches."""
        self._events += 1
        pod = {"kind": "Pod", "metadata": {"name": "demo", "resourceVersion": str(self._events)}}
        self._watch.send({"type": "MODIFIED", "object": pod})
        self.server.requests.clear()  # nobody looks at them, and there will be many

    def end_watches(self) -> None:
        """In good order."""
        self._watch.close()  # one may be about to begin

    def close(self) -> None:
        """Stops both."""
        self.server.close()
        self.issuer.close()

    def _authenticate(self, request: Received) -> str | None:
        shown: list[Issued | None] = []
        if self._token:
            scheme, _, token = (request.header("Authorization") or "").partition(" ")
            shown.append(self.issuer.tokens.get(token) if scheme == "Bearer" else None)
        if self._certificate:
            shown.append(self._certificate_of(request))
        now = time.time()
        is_good = all(each is not None and now <= each.ends for each in shown)
        with self._lock:
            self._seen.update(each.number for each in shown if each is not None)
            self.refused += not is_good
        return USER if is_good else None

    def _certificate_of(self, request: Received) -> Issued | None:
        if request.certificate is None:
            return None
        certificate = x509.load_der_x509_certificate(request.certificate)
        number = self.issuer.numbers.get(certificate.serial_number)
        return None if number is None else Issued(number, certificate.not_valid_after_utc.timestamp())


def _date(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
