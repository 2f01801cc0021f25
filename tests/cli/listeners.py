"""Listeners on loopback that are no API server: each has a way of its own not to be one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.ports import free_port


@contextmanager
def listening(converse: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where `converse` is given each connection, in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=16)
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            converse(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def silent(connection: socket.socket) -> None:
    """A black hole: takes everything, and says nothing."""
    while connection.recv(65536):
        pass


def speaking_http(connection: socket.socket) -> None:
    """Plain http, whatever it hears."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def hanging_up(connection: socket.socket) -> None:
    """Without a word."""
    connection.recv(65536)


def refusing(connection: socket.socket) -> None:
    """A proxy that lets nobody through."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 403 Not For You\r\nContent-Length: 0\r\n\r\n")


def closed_port() -> int:
    """Where nobody listens, as far as one can know: not one that the system would give to somebody else."""
    return free_port()
