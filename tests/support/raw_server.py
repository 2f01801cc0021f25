"""A server that says, byte for byte, what it is told to. For what no decent server would do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from kubeauth import Secret
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.testing import KeyPair
from kubeauth.testing._http import do_handshake

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Talk:
    """The server's side of a connection."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.heard: list[bytes] = []

    def request(self, end: bytes = b"\r\n\r\n") -> bytes:
        """The next request, up to `end`; nothing if the client has closed."""
        received = b""
        while not received.endswith(end):
            more = self.stream.recv(65536)
            if not more:
                return b""
            received += more
        self.heard.append(received)
        return received

    def say(self, data: bytes) -> None:
        self.stream.sendall(data)

    def until_closed(self) -> None:
        """Waits for the client to close."""
        with suppress(OSError):
            while self.stream.recv(65536):
                pass


Conversation = Callable[[Talk], None]


def always(answer: bytes) -> Conversation:
    """Says the same to every request, until the client has had enough."""

    def converse(talk: Talk) -> None:
        while talk.request():
            talk.say(answer)

    return converse


def once(answer: bytes) -> Conversation:
    """Answers one request, and closes."""

    def converse(talk: Talk) -> None:
        if talk.request():
            talk.say(answer)

    return converse


class RawServer:
    """Has one conversation for each connection, in that order; the last of them for all that follow."""

    def __init__(self, *conversations: Conversation, pair: KeyPair | None = None) -> None:
        self._conversations = conversations
        self._context: ssl.SSLContext | None = None
        if pair is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_client_cert(self._context, ClientCertificate(pair.certificate, Secret(pair.key)))
        self.talks: list[Talk] = []
        """One for each connection there ever was."""
        self.ended = threading.Semaphore(0)
        """Released when a conversation is over."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'http' if pair is None else 'https'}://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, name="RawServer", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for talk in self.talks:
            with suppress(OSError):
                talk.stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def requests(self) -> list[bytes]:
        return [request for talk in self.talks for request in talk.heard]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._socket.accept()
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                number = min(len(self.talks), len(self._conversations) - 1)
                self.talks.append(Talk(stream))
                thread = threading.Thread(
                    target=self._serve, args=(self.talks[-1], self._conversations[number]), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _serve(self, talk: Talk, converse: Conversation) -> None:
        with suppress(OSError):
            if self._context is not None:
                talk.stream = self._context.wrap_socket(
                    talk.stream, server_side=True, do_handshake_on_connect=False
                )
                do_handshake(talk.stream)
            converse(talk)
        talk.stream.close()
        self.ended.release()
