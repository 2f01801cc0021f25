"""Real proxies on loopback: http, https and socks5. They record targets, credentials and client certificates."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from contextlib import suppress
from typing import Self

from kubeauth import Secret
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.testing import Authority, KeyPair
from kubeauth.testing._http import do_handshake


class Proxy:
    """`kind` is http, https or socks5. Every host name resolves to 127.0.0.1."""

    def __init__(
        self,
        kind: str,
        pair: KeyPair | None = None,
        client_authority: Authority | None = None,
        require_certificate: bool = False,
    ) -> None:
        self.kind = kind
        self.targets: list[str] = []
        self.forward = b""
        self.credentials: list[str | None] = []
        self.certificates: list[bytes | None] = []
        self._context = None
        if pair is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_client_cert(self._context, ClientCertificate(pair.certificate, Secret(pair.key)))
        if self._context is not None and client_authority is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED if require_certificate else ssl.CERT_OPTIONAL
            self._context.load_verify_locations(cadata=client_authority.pem.decode())
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        self.url = f"{kind}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._socket.accept()[:1], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
                with client:
                    do_handshake(client)
                    self._forward(client)
            else:
                self._forward(client)

    def _forward(self, client: socket.socket) -> None:
        if isinstance(client, ssl.SSLSocket):
            self.certificates.append(client.getpeercert(binary_form=True))
        target = self._socks(client) if self.kind == "socks5" else self._connect(client)
        _, _, port = target.rpartition(":")
        self.targets.append(target)
        with socket.create_connection(("127.0.0.1", int(port))) as upstream:
            if self.forward:
                upstream.sendall(self.forward)
            else:
                self._confirm(client)
            downstream = threading.Thread(target=_pump, args=(upstream, client), daemon=True)
            downstream.start()
            _pump(client, upstream)
            downstream.join()

    def _connect(self, client: socket.socket) -> str:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _read(client, 1)
        lines = head.decode().split("\r\n")
        found = [line.partition(": ")[2] for line in lines if line.lower().startswith("proxy-authorization:")]
        self.credentials.append(base64.b64decode(found[0].removeprefix("Basic ")).decode() if found else None)
        method, target, version = lines[0].split(" ")
        if method == "CONNECT":
            return target
        # A request in absolute form is forwarded in origin form.
        authority, _, path = target.removeprefix("http://").partition("/")
        headers = [line for line in lines[1:] if not line.lower().startswith("proxy-")]
        self.forward = "\r\n".join([f"{method} /{path} {version}", *headers]).encode()
        return authority

    def _socks(self, client: socket.socket) -> str:
        _version, count = _read(client, 2)
        methods = client.recv(count)
        if 2 in methods:
            client.sendall(b"\x05\x02")
            _version, length = client.recv(2)
            name = client.recv(length).decode()
            password = client.recv(client.recv(1)[0]).decode()
            self.credentials.append(f"{name}:{password}")
            client.sendall(b"\x01\x00")
        else:
            self.credentials.append(None)
            client.sendall(b"\x05\x00")
        *_, kind = client.recv(4)
        host = socket.inet_ntoa(client.recv(4)) if kind == 1 else client.recv(client.recv(1)[0]).decode()
        return f"{host}:{int.from_bytes(client.recv(2), 'big')}"

    def _confirm(self, client: socket.socket) -> None:
        if self.kind == "socks5":
            client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        else:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")


def _read(client: socket.socket, count: int) -> bytes:
    data = client.recv(count)
    if not data:
        raise ConnectionError("the client closed the connection without a request")
    return data


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
