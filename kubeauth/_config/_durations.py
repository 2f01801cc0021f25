"""Go's durations, in configuration files and as kubectl's --request-timeout takes them (K56)."""

from __future__ import annotations

import re

from kubeauth.errors import ConfigError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Nothing of it is looked at twice: a stranger's may be a mebibyte of digits.
_PART = re.compile(r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
LONGEST = 2**63 / 1e9
"""Seconds that Go's duration can hold: 292 years."""


def parse_duration(text: str) -> float | None:
    """Seconds in a Go duration such as 1h30m, 1.5s or 0; None if it is none."""
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    seconds, at = 0.0, 0
    while at < len(body) and body != "0":
        part = _PART.match(body, at)
        if part is None:
            return None
        seconds, at = seconds + float(part[1]) * _UNITS[part[2]], part.end()
    return sign * seconds if body and seconds < LONGEST else None


def write_duration(seconds: float) -> str:
    """`seconds`, which are not negative, as Go writes durations of a second and more: 12h0m0s, 1m30.5s."""
    minutes, rest = divmod(round(seconds, 6), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.6f}".rstrip("0").removesuffix(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def parse_timeout(text: str) -> float | None:
    """Seconds in `text`: an integer, or a Go duration such as 1m30s. Zero means no timeout: None."""
    if re.fullmatch(r"\+?[0-9]{1,10}", text):
        return float(text) or None
    seconds = parse_duration(text)
    if seconds is not None:
        return seconds or None
    raise ConfigError(
        "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by "
        "a corresponding time unit (e.g. 1s | 2m | 3h)"
    )
