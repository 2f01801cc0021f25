"""What the environment says about the webhook, under the names that kubernetes-sigs' has (B76). Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kubeauth.errors import ConfigError, escape_control

logger = logging.getLogger("kubeauth.gmsa")

T = TypeVar("T")

# As Go's strconv.ParseBool.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
# logrus has more names than there are levels here.
_LEVELS = {
    "panic": logging.CRITICAL,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the webhook is served."""

    certificate_file: str
    """`TLS_CRT`."""
    key_file: str
    """`TLS_KEY`."""
    port: int = 443
    """`HTTPS_PORT`."""
    qps: float | None = None
    """`QPS`: how often the API server is asked, a second. Ours: without it there is no limit."""
    burst: int = 10
    """`BURST`: how often at once."""
    random_hostname: bool = False
    """`RANDOM_HOSTNAME`."""
    log_level: int = logging.INFO
    """`LOG_LEVEL`: info, as in upstream's image; ours: so it is without an image as well."""


def settings_of(environ: Mapping[str, str]) -> Settings:
    """What is wrong with a number is a warning, and does not count; ConfigError for the rest."""
    return Settings(
        certificate_file=_file(environ, "TLS_CRT"),
        key_file=_file(environ, "TLS_KEY"),
        port=_read(environ, "HTTPS_PORT", port_of, 443),
        qps=_read(environ, "QPS", rate_of, None),
        burst=_read(environ, "BURST", count_of, 10),
        random_hostname=_boolean(environ, "RANDOM_HOSTNAME"),
        log_level=_read(environ, "LOG_LEVEL", level_of, logging.INFO),
    )


def _file(environ: Mapping[str, str], name: str) -> str:
    if path := environ.get(name):
        return path
    raise ConfigError(
        f"{name} must be set to the path of a PEM file: TLS_CRT (or --tls-crt) has the certificate of the "
        "webhook, TLS_KEY (or --tls-key) its key."
    )


def _boolean(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name)
    if text is None:
        return False
    if text not in _BOOLEANS:  # nor is an empty one
        raise ConfigError(f'{name} must be true or false, not "{_shown(text)}".')
    return _BOOLEANS[text]


def _read(environ: Mapping[str, str], name: str, read: Callable[[str], T], default: T) -> T:
    text = environ.get(name)
    if text is None:
        return default
    try:
        return read(text)
    except (ValueError, KeyError):
        logger.warning('%s cannot be "%s", and does not count', name, _shown(text))
        return default


def level_of(text: str) -> int:
    return _LEVELS[text.lower()]


def port_of(text: str) -> int:
    return _between(int(_plain(text)), 1, 65535)


def rate_of(text: str) -> float:
    # No number is less than itself: nor is nan.
    return _between(float(_plain(text)), 1e-3, 1e6)


def count_of(text: str) -> int:
    return _between(int(_plain(text)), 1, 10**6)


def _plain(text: str) -> str:
    """As Go has numbers: no digits of other scripts, no underscores."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return text


Number = TypeVar("Number", int, float)


def _between(value: Number, least: Number, most: Number) -> Number:
    if not least <= value <= most:
        raise ValueError(value)
    return value


def _shown(text: str) -> str:
    return escape_control(text[:40])
