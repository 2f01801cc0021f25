"""What benchmarks/go/server does, where there is no Go: slower, and HTTP/1.1 only.

    python -m benchmarks.asyncio_server      serves until stdin ends

One process, one loop, and a protocol that knows no more of HTTP than a GET without a body. main.go says what
a run is and what the control port is told.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import math
import ssl
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubeauth.testing import Authority

ANSWERS = Path(__file__).parent / "go" / "server" / "answers.json"
BACKLOG = 4096
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which ssl has no name: a certificate that is over is refused with a
# 401, as an API server does, not in the handshake.
NO_CHECK_TIME = 0x200000


@dataclass(slots=True)
class Run:
    kind: str = "token"
    lifetime: float = 3600.0
    until: float = 0.0
    delay: float = 0.0
    issued: int = 0
    revoked: int = 0
    answered: int = 0
    refused: int = 0

    def takes(self, serial: int, over: float) -> bool:
        return time.time() <= over and serial > self.revoked


class Server:
    def __init__(self) -> None:
        self.authority = Authority("kubeauth benchmarks")
        self.runs: defaultdict[str, Run] = defaultdict(Run)
        self.bodies = {
            path: json.dumps(document, separators=(",", ":")).encode()
            for path, document in json.loads(ANSWERS.read_text()).items()
        }

    def authenticated(self, token: str, certificate: tuple[str, float] | None) -> Run | None:
        """By a token that says its run, number and end, or by a certificate that does."""
        if token:
            subject, _, end = token.rpartition(".")
            over = float(end) if end.isdecimal() else 0.0
        elif certificate:
            subject, over = certificate
        else:
            return None
        name, _, serial = subject.partition(".")
        run = self.runs[name]
        if serial.isdecimal() and run.takes(int(serial), over):
            run.answered += 1
            return run
        run.refused += 1
        return None

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = json.loads(await reader.readline())
        writer.write(json.dumps(await self.obey(order)).encode() + b"\n")
        writer.close()

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        run = self.runs[order["run"]]
        if order["do"] == "issue":
            return await self.issue(order["run"], run)
        if order["do"] == "set":
            run.kind, run.lifetime = order["kind"], order["lifetime"]
            run.until, run.delay = order["until"], order["delay"]
        elif order["do"] == "revoke":
            run.revoked = run.issued
        return {"issued": run.issued, "answered": run.answered, "refused": run.refused}

    async def issue(self, name: str, run: Run) -> dict[str, Any]:
        run.issued += 1
        subject = f"{name}.{run.issued}"
        await asyncio.sleep(run.delay)
        over = run.until
        if over - time.time() < 0.5:
            over = math.ceil(time.time() + run.lifetime)  # whole seconds, as plugins print them
        end = datetime.datetime.fromtimestamp(over, datetime.UTC)
        status = {"expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
        if run.kind == "certificate":
            pair = self.authority.client(subject, not_after=end)
            status["clientCertificateData"] = pair.certificate.decode()
            status["clientKeyData"] = pair.key.decode()
        else:
            status["token"] = f"{subject}.{over:.0f}"
        version = "client.authentication.k8s.io/v1beta1"
        return {"apiVersion": version, "kind": "ExecCredential", "status": status}

    def tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = Path(directory, "server.pem"), Path(directory, "server.key")
            self.authority.server("127.0.0.1").write(certificate, key)
            context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= NO_CHECK_TIME
        context.load_verify_locations(cadata=self.authority.pem.decode())
        return context


class Conversation(asyncio.Protocol):
    """All requests of one connection, which come one after the other."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.received = b""
        self.certificate: tuple[str, float] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if der := transport.get_extra_info("ssl_object").getpeercert(binary_form=True):
            shown = x509.load_der_x509_certificate(der)
            (name,) = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            self.certificate = str(name.value), shown.not_valid_after_utc.timestamp()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head, self.received = self.received[:end], self.received[end + 4 :]
            self.transport.write(self.answer(head.decode("latin-1")))

    def answer(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        path = first.split(" ")[1].partition("?")[0]
        token = ""
        for line in lines:
            if line[:14].lower() == "authorization:":
                token = line[14:].strip().removeprefix("Bearer ")
        status, body = b"404 Not Found", b"{}"
        if self.server.authenticated(token, self.certificate) is None:
            status, body = b"401 Unauthorized", UNAUTHORIZED
        elif found := self.server.bodies.get(path.removesuffix("/")):
            status, body = b"200 OK", found
        return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            status,
            len(body),
            body,
        )


UNAUTHORIZED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"Unauthorized","reason":"Unauthorized","code":401}'
)


async def serve() -> None:
    server = Server()
    loop = asyncio.get_running_loop()
    web = await loop.create_server(
        lambda: Conversation(server), "127.0.0.1", 0, ssl=server.tls(), backlog=BACKLOG
    )
    control = await asyncio.start_server(server.control, "127.0.0.1", 0, backlog=BACKLOG)
    ready = {
        "url": f"https://127.0.0.1:{web.sockets[0].getsockname()[1]}",
        "control": control.sockets[0].getsockname()[1],
        "ca": server.authority.pem.decode(),
    }
    print(json.dumps(ready), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
