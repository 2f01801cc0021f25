"""Go's formats: RFC 3339 timestamps (X39), durations (K56), and the JSON that Go writes (X4, X7). Pure."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone

from kubeauth._parsing import Json
from kubeauth.errors import ConfigError

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO = datetime(1, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> datetime | None:
    """Parse RFC 3339 as Go does; None for Go's zero time, which means not set. ValueError if invalid."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("not RFC 3339")
    *parts, fraction, sign, hours, minutes = match.groups()
    offset = timedelta()
    if sign:
        if int(minutes) > 59:
            raise ValueError("not RFC 3339")
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    year, month, day, hour, minute, second = map(int, parts)
    microsecond = int(f"{fraction or 0:0<6}"[:6])
    moment = datetime(year, month, day, hour, minute, second, microsecond, timezone(offset))
    return None if moment == _ZERO else moment


def parse_rfc3339(text: str) -> float | None:
    """Return seconds since 1970; None for Go's zero time, which means not set. ValueError if invalid."""
    moment = parse_time(text)
    return None if moment is None else (moment - _EPOCH).total_seconds()


def to_datetime(seconds: float | None) -> datetime | None:
    """Convert seconds since 1970 to a UTC datetime; None for None, and if datetime cannot represent it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def expiry_suffix(seconds: float | None) -> str:
    """Return ", expires 2030-01-02T15:04:05Z" for the end of a log line; empty for None."""
    expires = to_datetime(seconds)
    return f", expires {expires:%Y-%m-%dT%H:%M:%SZ}" if expires else ""


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Possessive quantifiers: untrusted text may be a mebibyte of digits, which must not be scanned twice.
_PART = re.compile(r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
MAX_DURATION = 2**63 / 1e9
"""The longest Go duration in seconds: 292 years."""


def parse_duration(text: str) -> float | None:
    """Return the seconds in a Go duration such as 1h30m, 1.5s or 0; None if it is invalid."""
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    seconds, at = 0.0, 0
    while at < len(body) and body != "0":
        part = _PART.match(body, at)
        if part is None:
            return None
        seconds, at = seconds + float(part[1]) * _UNITS[part[2]], part.end()
    return sign * seconds if body and seconds < MAX_DURATION else None


def format_duration(seconds: float) -> str:
    """Format seconds (0 or more) as Go prints durations of a second and more: 12h0m0s, 1m30.5s."""
    minutes, rest = divmod(round(seconds, 6), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.6f}".rstrip("0").removesuffix(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def parse_timeout(text: str) -> float | None:
    """Parse kubectl's --request-timeout: an integer or a Go duration such as 1m30s. None for no timeout."""
    if re.fullmatch(r"\+?[0-9]{1,10}", text):
        return float(text) or None
    seconds = parse_duration(text)
    if seconds is not None:
        return seconds or None
    raise ConfigError(
        "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by "
        "a corresponding time unit (e.g. 1s | 2m | 3h)"
    )


# Go escapes these so that JSON can be embedded in HTML.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def sort_keys(value: Json) -> Json:
    """Return a copy whose mappings have sorted text keys, the order in which Go writes maps."""
    return json.loads(json.dumps(value, sort_keys=True, allow_nan=False))


def go_json(value: Json) -> str:
    """Return `value` as Go writes it, on one line, with keys in their current order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{go_json(key)}:{go_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(go_json, value)) + "]"
    if isinstance(value, float):
        return _format_float(value)
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


def _format_float(value: float) -> str:
    """Return a float as Go writes it: a plugin written in Go reads 1000 as an integer, but not 1000.0."""
    from decimal import Decimal  # few kubeconfigs contain floats

    shortest = repr(value)
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(shortest):f}".removesuffix(".0")
    digits, _, exponent = shortest.partition("e")
    return f"{digits}e{int(exponent):+d}"
