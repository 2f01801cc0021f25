"""What the libraries below would log at DEBUG or INFO, and must not."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from kubeauth._compat import is_suspended

_MASKED = "<masked>"
_SCHEMES = ("bearer", "basic", "negotiate")
# The last one carries a token to API servers, for browsers that cannot set a header.
_SECRET_HEADERS = ("cookie", "set-cookie", "proxy-authorization", "sec-websocket-protocol")


def redact_library_logs() -> None:
    """Filters on the loggers of those libraries that would show a token or a password.

    As often as you like: a logger keeps one of each.
    """
    # It hides the token in one message, and shows the encoded headers, token and all, in the next.
    logging.getLogger("hpack.hpack").addFilter(_drop_header_blocks)
    for library in ("httpcore", "httpcore2"):
        logging.getLogger(f"{library}.socks").addFilter(_drop_socks_passwords)
        for version in ("http11", "http2"):
            logging.getLogger(f"{library}.{version}").addFilter(_hide_response_headers)
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).addFilter(_hide_userinfo)


def _drop_header_blocks(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Encoded header block")


def _drop_socks_passwords(record: logging.LogRecord) -> bool:
    return "auth=" not in record.getMessage()


def _hide_response_headers(record: logging.LogRecord) -> bool:
    # Cookies of a proxy that people log in at are as good as their passwords.
    message = record.getMessage()
    if message.startswith("receive_response_headers.complete"):
        record.msg, record.args = f"{message.partition('[(')[0]}<headers hidden>)", ()
    return True


def _hide_userinfo(record: logging.LogRecord) -> bool:
    # Of a server in the kubeconfig that has one: `https://user:password@host`.
    if isinstance(record.args, tuple):
        record.args = tuple(_strip_userinfo(arg) for arg in record.args)
    return True


def _strip_userinfo(arg: Any) -> object:
    return arg.copy_with(userinfo=b"") if getattr(arg, "userinfo", b"") else arg


def mask_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers for a log: the scheme of an Authorization, but not what follows it."""
    return {name: _mask_value(name.lower(), value) for name, value in headers}


def _mask_value(name: str, value: str) -> str:
    if name in _SECRET_HEADERS:
        return _MASKED
    if name != "authorization" or not value:
        return value
    scheme, blank, _ = value.partition(" ")
    if scheme.lower() not in _SCHEMES:
        return _MASKED
    return f"{scheme} {_MASKED}" if blank else scheme


def hide_locals(error: BaseException, handled: BaseException | None) -> None:
    """Empties the frames that `error` came through, which hold the signed headers.

    Tools that print a traceback with the values of variables would show the token otherwise. File names
    and lines stay; frames that still run, ours and the caller's, keep their variables. `handled` is what
    the caller was dealing with before: that is not ours.
    """
    for link in iter_causes(error, handled):
        trace = link.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if not is_suspended(frame):
                with suppress(RuntimeError):  # it still runs
                    frame.clear()


def iter_causes(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    """The error, what caused it, what caused that, ... but not what was `handled` before all of it."""
    seen = {id(handled)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += (link.__context__, link.__cause__)
            if isinstance(link, BaseExceptionGroup):
                waiting += link.exceptions
