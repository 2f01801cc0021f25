"""An API server that speaks websockets, as pods/exec does: says who asked, and what it was asked to run."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal
from cryptography import x509

from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth._secret import Secret
from kubeauth.testing import Authority

PATH = "/api/v1/namespaces/{namespace}/pods/{pod}/exec"


class Asked:
    """One handshake."""

    def __init__(self, request: web.Request) -> None:
        self.authorization = request.headers.get("Authorization")
        self.impersonated = request.headers.get("Impersonate-User")
        self.command = request.query.getall("command", [])
        transport: Any = request.transport
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        subject = x509.load_der_x509_certificate(shown).subject if shown else None
        self.certificate = subject.rfc4514_string() if subject else None


class Shells:
    """`url` to connect to; `asked` has every handshake. `welcome` decides whether there is an answer."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.asked: list[Asked] = []
        self.welcome: Callable[[Asked], bool] = lambda asked: True
        self.url = ""

    async def start(self) -> web.AppRunner:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self.authority.server("127.0.0.1")
        load_client_cert(context, ClientCertificate(pair.certificate, Secret(pair.key)))
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.pem.decode())
        app = web.Application()
        app.router.add_get(PATH, self._exec)
        app.router.add_get("/away", self._redirect)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _redirect(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(request.query["to"])

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request)
        self.asked.append(asked)
        if not self.welcome(asked):
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io", "v5.channel.k8s.io"])
        await socket.prepare(request)
        await socket.send_bytes(b"\x01" + f"ran {' '.join(asked.command)}".encode())
        await socket.send_bytes(b"\x03" + json.dumps({"status": "Success"}).encode())
        await socket.close()
        return socket


@contextmanager
def shells(authority: Authority) -> Iterator[Shells]:
    with start_blocking_portal("asyncio") as portal:
        server = Shells(authority)
        runner = portal.call(server.start)
        try:
            yield server
        finally:
            portal.call(_stop, runner)


async def _stop(runner: web.AppRunner) -> None:
    """Not before the connections are closed: a loop that ends leaves them as they are."""
    for _ in range(500):
        if runner.server is None or not runner.server.connections:
            break
        await asyncio.sleep(0.01)
    await runner.cleanup()
    await asyncio.sleep(0.1)
