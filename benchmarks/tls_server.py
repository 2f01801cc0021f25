"""Answers every request with the same few bytes, over TLS, in as little time as Python can.

    python -m benchmarks.tls_server

Prints its port and, in hex, its CA. Ends with its standard input, and prints how many requests it has
answered, and how many microseconds of processor time each took it. The server of kubeauth.testing takes seven
times as long, so that clients beside it would differ by less than they do.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import sys
import time
from contextlib import suppress

from kubeauth import Secret
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.testing import Authority

BODY = b'{"major":"1","minor":"36","gitVersion":"v1.36.3","platform":"linux/amd64"}\n'
# As long as what an API server says to the same question.
HEAD = (
    "HTTP/1.1 200 OK", "Audit-Id: 9a3b0c8e-1d3c-4e0e-9d0e-2b7f0d1c1a2b", "Cache-Control: no-cache, private",
    "Content-Type: application/json", "X-Kubernetes-Pf-Flowschema-Uid: 0ac1b4ff-6d0a-4b5f-8f55-2c7c6d7b4e1e",
    "X-Kubernetes-Pf-Prioritylevel-Uid: 5f6c3d7e-9c1f-4f0e-8a53-6a4a3f6a1b8c",
    "Date: Mon, 16 Nov 2026 10:00:00 GMT", f"Content-Length: {len(BODY)}", "", "",
)  # fmt: skip
ANSWER = "\r\n".join(HEAD).encode() + BODY


class Server:
    def __init__(self) -> None:
        authority = Authority()
        pair = authority.server("127.0.0.1")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_client_cert(self._context, ClientCertificate(pair.certificate, Secret(pair.key)))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._answered = 0
        self._took = 0.0
        print(self._listener.getsockname()[1], authority.pem.hex(), flush=True)

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    print(self._answered, round(self._took / max(1, self._answered) * 1e6, 1), flush=True)
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    begun = time.process_time()
                    self._answer(key.fileobj)
                    self._took += time.process_time() - begun

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.settimeout(5.0)
        with suppress(OSError):  # one that goes away before it has shaken hands
            connection = self._context.wrap_socket(accepted, server_side=True)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, connection: object) -> None:
        assert isinstance(connection, ssl.SSLSocket)
        try:
            # A request is one record, and nobody sends a second one before the first is answered.
            if connection.recv(65536):
                connection.send(ANSWER)
                self._answered += 1
                return
        except ssl.SSLWantReadError:
            return
        except OSError:
            pass
        self._selector.unregister(connection)
        connection.close()


if __name__ == "__main__":
    Server().run()
