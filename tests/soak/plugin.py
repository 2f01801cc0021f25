"""The plugins of a soak: real programs that ask this process what to say, whether to fail, whether to hang."""

from __future__ import annotations

import datetime
import hashlib
import json
import random
import secrets
import select
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kubeauth.testing import Authority
from kubeauth.testing._programs import build_shebang
from tests.soak.plan import Plan
from tests.support.oidc_issuer import Issuer

USERS = ("cert", "token")

# Says nothing and waits until it is told something, or killed. One in two cannot be asked to go.
_SCRIPT = """{shebang}
import signal, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
connection.sendall(sys.argv[1].encode() + b"\\n")
answer = connection.makefile()
if answer.readline() == "stubborn\\n":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
said = answer.read()
sys.stdout.write(said)
sys.stdout.flush()
sys.exit(0 if said else 1)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run, when it was decided how it ends. Both clocks are the calendar's: credentials end by it."""

    outcome: str
    """`ok`, `fails` or `hangs`."""
    at: float
    expires: float = 0.0


class Plugins:
    """One for each of USERS. Every run gives another credential, and lasts as long as its process lives."""

    def __init__(self, directory: Path, authority: Authority, tokens: Issuer, plan: Plan) -> None:
        self.path = directory / "plugin"
        self.outcomes: Counter[str] = Counter()
        self.at_once = 0
        """Runs that began while another for the same user was under way."""
        self.faults_from = float("inf")
        """Before this moment every run is a good one."""
        self._plan, self._authority, self._tokens = plan, authority, tokens
        self._random = random.Random(plan.seed)  # noqa: S311 -- repeatable, and no secret
        # Guards everything below.
        self._lock = threading.Lock()
        self._deck: list[str] = []
        self._runs: dict[str, list[Run]] = {user: [] for user in USERS}
        self._open: dict[str, set[socket.socket]] = {user: set() for user in USERS}
        self._ends: dict[str, float] = {}
        address = "\0kubeauth-" + secrets.token_hex(
            8
        )  # no file: the name of one could be too long for a socket
        self.path.write_text(_SCRIPT.format(shebang=build_shebang(sys.executable), address=address))
        self.path.chmod(0o700)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="soak-plugins")
        self._thread.start()

    def exec_config(self, user: str) -> dict[str, Any]:
        """`users[].user` of a kubeconfig."""
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(self.path),
                "args": [user],
                "interactiveMode": "Never",
            }
        }

    def ends(self, identifier: str) -> float | None:
        """Until when a credential is good, by the name that the server's audit log has for it."""
        with self._lock:
            return self._ends.get(identifier)

    def runs(self, user: str) -> list[Run]:
        """The latest, oldest first."""
        with self._lock:
            return list(self._runs[user])

    def close(self) -> None:
        self._stopping.set()
        with socket.socket(socket.AF_UNIX) as wake:
            wake.connect(self._listener.getsockname())
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        """Listens to everybody at once: a connection ends when its process does."""
        known: dict[socket.socket, str] = {}
        while True:
            readable, _, _ = select.select([self._listener, *known], [], [])
            # First those that have ended: whoever comes next is not blamed for them.
            for connection in [each for each in readable if each is not self._listener]:
                if not connection.recv(64):
                    self._gone(known.pop(connection), connection)
            if self._listener in readable:
                connection, _ = self._listener.accept()
                if self._stopping.is_set():
                    connection.close()
                    break
                with connection.makefile() as words:
                    user = words.readline().strip()
                known[connection] = user
                self._begin(user, connection, known)
        for connection, user in known.items():
            self._gone(user, connection)

    def _begin(self, user: str, connection: socket.socket, known: dict[socket.socket, str]) -> None:
        for other in list(self._open[user]):
            # It may have ended a moment ago.
            if select.select([other], [], [], 0)[0] and not other.recv(64):
                known.pop(other, None)
                self._gone(user, other)
        others = len(self._open[user])
        self._open[user].add(connection)
        outcome = self._next_outcome()
        expires = time.time() + self._plan.lifetime
        answer = self._credential(user, expires) if outcome == "ok" else ""
        with self._lock:
            self.at_once += bool(others)
            self.outcomes[outcome] += 1
            self._runs[user] = [*self._runs[user][-40:], Run(outcome, time.time(), expires)]
        if outcome == "hangs":
            connection.sendall(b"stubborn\n" if self.outcomes["hangs"] % 2 else b"polite\n")
        else:
            connection.sendall(f"\n{answer}".encode())
            connection.shutdown(socket.SHUT_WR)

    def _gone(self, user: str, connection: socket.socket) -> None:
        self._open[user].discard(connection)
        connection.close()

    def _next_outcome(self) -> str:
        if time.time() < self.faults_from:
            return "ok"
        if not self._deck:
            plan = self._plan
            good = plan.deck - plan.failing - plan.hanging
            self._deck = ["ok"] * good + ["fails"] * plan.failing + ["hangs"] * plan.hanging
            self._random.shuffle(self._deck)
        return self._deck.pop()

    def _credential(self, user: str, expires: float) -> str:
        # Whole seconds, as certificates and tokens have them.
        until = (
            int(expires + self._plan.grace) + 1 if self._plan.sabotage != "stale" else int(time.time()) - 60
        )
        status: dict[str, str] = {}
        if user == "cert":
            end = datetime.datetime.fromtimestamp(until, datetime.UTC)
            pair = self._authority.client("soak", not_after=end)
            der = x509.load_pem_x509_certificate(pair.certificate).public_bytes(serialization.Encoding.DER)
            identifier = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
            status["clientCertificateData"] = pair.certificate.decode()
            status["clientKeyData"] = pair.key.decode()
        else:
            name = f"{time.time_ns():x}"
            identifier = f"JTI={name}"
            status["token"] = self._tokens.id_token("soak", exp=until, jti=name)
        with self._lock:
            self._ends[identifier] = expires
            # Nobody asks about those of long ago.
            if len(self._ends) > 200:
                del self._ends[next(iter(self._ends))]
        date = datetime.datetime.fromtimestamp(expires, datetime.UTC)
        status["expirationTimestamp"] = date.isoformat().replace("+00:00", "Z")
        head = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        return json.dumps({**head, "status": status})
