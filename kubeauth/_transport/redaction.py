"""Keep secrets out of logs and tracebacks: of our own messages, and of the libraries below."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from kubeauth._compat import is_suspended

_MASKED = "<masked>"
_SCHEMES = ("bearer", "basic", "negotiate")
# Browsers cannot set Authorization for a websocket: they send the token in Sec-WebSocket-Protocol.
_SECRET_HEADERS = ("cookie", "set-cookie", "proxy-authorization", "sec-websocket-protocol")


def mask_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers for a log: of Authorization, only the scheme."""
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
    """Clear the local variables in the tracebacks of `error`: they contain the signed headers.

    Tools that print tracebacks with variables would show the token. File names and lines stay. Frames that
    are still running keep their variables. `handled` is the exception that was being handled before: it is
    not changed.
    """
    for cause in iter_causes(error, handled):
        trace = cause.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if not is_suspended(frame):
                with suppress(RuntimeError):  # still running
                    frame.clear()


def iter_causes(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    """Yield `error`, its causes and their causes, but not `handled`, which was being handled before."""
    seen = {id(handled)}
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            pending += (cause.__context__, cause.__cause__)
            if isinstance(cause, BaseExceptionGroup):
                pending += cause.exceptions


def redact_library_logs() -> None:
    """Add filters to the loggers of httpx, httpcore and hpack, which log tokens and passwords.

    May be called any number of times: a logger adds each filter once.
    """
    # hpack hides the token in one message, and logs the encoded headers in the next.
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
    # Set-Cookie of an authenticating proxy is as secret as a password.
    message = record.getMessage()
    if message.startswith("receive_response_headers.complete"):
        record.msg, record.args = f"{message.partition('[(')[0]}<headers hidden>)", ()
    return True


def _hide_userinfo(record: logging.LogRecord) -> bool:
    # The kubeconfig's server may be `https://user:password@host`.
    if isinstance(record.args, tuple):
        record.args = tuple(_strip_userinfo(arg) for arg in record.args)
    return True


def _strip_userinfo(arg: Any) -> object:
    return arg.copy_with(userinfo=b"") if getattr(arg, "userinfo", b"") else arg
