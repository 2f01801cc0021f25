"""A small HTTP/2 server: one thread per connection, with the package h2."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Self

import h2.config
import h2.connection
import h2.events

from kubeauth import Secret
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.testing import KeyPair


class H2Server:
    def __init__(
        self, pair: KeyPair, hang_up_after: int | None = None, go_away_on: int | None = None
    ) -> None:
        self._go_away_on = go_away_on
        self._hang_up_after = hang_up_after
        self.requests: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_client_cert(self._context, ClientCertificate(pair.certificate, Secret(pair.key)))
        self._context.set_alpn_protocols(["h2"])
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
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
                connection = self._socket.accept()[0]
                threading.Thread(target=self._serve, args=(connection,), name="H2Server", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(connection, server_side=True) as stream:
            http = h2.connection.H2Connection(
                h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
            )
            http.initiate_connection()
            stream.sendall(http.data_to_send())
            bodies: dict[int, bytes] = {}
            while data := stream.recv(65536):
                for event in http.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        self.requests.append({str(name): str(value) for name, value in event.headers})
                        bodies[event.stream_id] = b""
                        if self._hang_up_after == len(self.requests):
                            return
                        if self._go_away_on == len(self.requests):
                            http.close_connection(last_stream_id=0)
                            stream.sendall(http.data_to_send())
                            return
                    elif isinstance(event, h2.events.DataReceived):
                        bodies[event.stream_id] += event.data
                    elif isinstance(event, h2.events.StreamEnded) and self._hang_up_after is None:
                        self.bodies.append(bodies[event.stream_id])
                        http.send_headers(event.stream_id, [(":status", "200")])
                        http.send_data(event.stream_id, b"ok", end_stream=True)
                stream.sendall(http.data_to_send())
