"""What the libraries below would log at DEBUG or INFO, and must not."""

from __future__ import annotations

import logging
from typing import Any


def keep_secrets_out_of_logs() -> None:
    """Filters on the loggers of those libraries that would show a token or a password.

    As often as you like: a logger keeps one of each.
    """
    # It hides the token in one message, and shows the encoded headers, token and all, in the next.
    logging.getLogger("hpack.hpack").addFilter(_no_header_blocks)
    for library in ("httpcore", "httpcore2"):
        logging.getLogger(f"{library}.socks").addFilter(_no_socks_passwords)
        for version in ("http11", "http2"):
            logging.getLogger(f"{library}.{version}").addFilter(_no_response_headers)
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).addFilter(_no_passwords_in_urls)


def _no_header_blocks(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Encoded header block")


def _no_socks_passwords(record: logging.LogRecord) -> bool:
    return "auth=" not in record.getMessage()


def _no_response_headers(record: logging.LogRecord) -> bool:
    # Cookies of a proxy that people log in at are as good as their passwords.
    message = record.getMessage()
    if message.startswith("receive_response_headers.complete"):
        record.msg, record.args = f"{message.partition('[(')[0]}<headers hidden>)", ()
    return True


def _no_passwords_in_urls(record: logging.LogRecord) -> bool:
    # Of a server in the kubeconfig that has one: `https://user:password@host`.
    if isinstance(record.args, tuple):
        record.args = tuple(_shown(arg) for arg in record.args)
    return True


def _shown(arg: Any) -> object:
    return arg.copy_with(userinfo=b"") if getattr(arg, "userinfo", b"") else arg
