"""Undocumented behaviour of httpx, httpcore, ssl, aiohttp and CPython that kubeauth depends on.

No other module uses private attributes of these, or distinguishes their errors by message.
tests/test_compat.py fails when a new version of a library changes one of them.
"""

from __future__ import annotations

import sys
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from opcode import opmap
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import argparse
    import socket
    from collections.abc import Callable
    from types import FrameType


class _HasHeaders(Protocol):
    headers: Any


_Request = TypeVar("_Request", bound=_HasHeaders)

# httpx and httpx2


def copy_request(request: _Request, headers: Any) -> _Request:
    """Return a copy of a request with other headers.

    The constructor would also copy headers, URL and extensions, and lose the content.
    """
    copy = object.__new__(type(request))
    copy.__dict__.update(request.__dict__)
    copy.headers = headers
    return copy


def get_request(outcome: object) -> Any:
    """Return the request of a response or an error, or None. The property `request` raises without one."""
    return getattr(outcome, "_request", None)


def is_body_consumed(stream: object) -> bool:
    """Return whether the body is a file or an iterator that has already been sent.

    httpx would send it again from its end: an empty body with the original Content-Length.
    """
    return bool(getattr(stream, "_is_stream_consumed", False))


def discard_content(response: object) -> None:
    """Remove the content of a response that was read, so that no repr, traceback or pickle contains it."""
    vars(response).update(_content=b"", _text="")


def is_disconnect(message: str) -> bool:
    """Return whether the message of a RemoteProtocolError says that the server closed the connection.

    The same class is raised for an invalid response.
    """
    return "disconnected" in message or "ConnectionTerminated" in message


def is_invalid_redirect(message: str) -> bool:
    """Return whether the message of a RemoteProtocolError is about the Location of a redirect."""
    return "in location header" in message


OPTIONAL_IMPORTS = ("httpx._main", "trio", "h2")


def skip_optional_imports() -> None:
    """Prevent httpx and httpcore from importing packages that the command line does not need.

    These are httpx's own command line with click and rich, trio, and HTTP/2: together they take longer to
    import than everything else. httpx and httpcore import them in `try: ... except ImportError`, and None in
    sys.modules raises ImportError.
    """
    for name in OPTIONAL_IMPORTS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


# ssl


def close_half_wrapped_socket(error: BaseException) -> None:
    """Close the socket that SSLContext.wrap_socket leaves open if it fails before the handshake.

    Before Python 3.13, it has detached the original socket by then, and raises without closing the new one:
    if the connection was reset, or if the host name is not valid. The only reference to the new socket is a
    local variable in the traceback.
    """
    from ssl import SSLSocket

    trace = error.__traceback__
    while trace is not None:
        candidate = trace.tb_frame.f_locals.get("self")
        if isinstance(candidate, SSLSocket):
            candidate.close()
        trace = trace.tb_next


def shut_down(connection: socket.socket, how: int) -> None:
    """Shut down a socket without removing its TLS layer.

    After SSLSocket.shutdown(), reads return the encrypted bytes as if they were the response.
    """
    from socket import socket

    socket.shutdown(connection, how)


# aiohttp


def hide_request_info(response: Any, hide: Callable[[Any], object]) -> None:
    """Replace the request info that errors print. The public property would cache its current value."""
    response._request_info = hide(response._request_info)


def hide_proxy(error: Any) -> None:
    """Remove the proxy and its password from a ClientConnectorError."""
    error._conn_key = error._conn_key._replace(proxy=None, proxy_auth=None, proxy_headers_hash=None)
    error.args = (error._conn_key, *error.args[1:])


# CPython

_RESUMABLE = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_YIELD_VALUE = opmap["YIELD_VALUE"]


def is_suspended(frame: FrameType) -> bool:
    """Return whether this is the frame of a coroutine or generator that will be resumed.

    One error may be raised in several tasks, as HTTP/2 does when a connection breaks, and its traceback
    then has the frames of all of them. Before Python 3.13, clearing a suspended frame would close it.
    """
    code = frame.f_code
    return bool(code.co_flags & _RESUMABLE) and code.co_code[frame.f_lasti] == _YIELD_VALUE


def is_out_of_threads(error: BaseException) -> bool:
    """Return whether no thread could be started: there are too many, or the interpreter is exiting."""
    return isinstance(error, RuntimeError) and "new thread" in str(error)


def argparse_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the actions of a parser, in order."""
    return parser._actions


def argparse_options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the actions of a parser by flag, such as `--context`."""
    return parser._option_string_actions
