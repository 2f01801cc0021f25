"""Go's durations, as kubectl's --request-timeout takes them (K56)."""

from __future__ import annotations

import re

from kubeauth.errors import ConfigError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_timeout(text: str) -> float | None:
    """Seconds in `text`: an integer, or a Go duration such as 1m30s. Zero means no timeout: None."""
    if re.fullmatch(r"\+?[0-9]{1,10}", text):
        return float(text) or None
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    parts = list(_PART.finditer(body))
    if body == "0" or (parts and "".join(part[0] for part in parts) == body):
        seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
        if seconds < 2**63 / 1e9:  # what Go's duration can hold
            return sign * seconds or None
    raise ConfigError(
        "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by "
        "a corresponding time unit (e.g. 1s | 2m | 3h)"
    )
