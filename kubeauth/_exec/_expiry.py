"""Timestamps as Kubernetes writes them: RFC 3339, and nothing near it (X39). Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()


def seconds_of(text: str) -> float | None:
    """Seconds since 1970; None for the zero time, which means that none was set. ValueError if it is none."""
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
    moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
    seconds = (moment - _EPOCH).total_seconds()
    # Before the fraction is added: that long ago, a float has no room for it.
    if seconds == _ZERO and not (fraction or "").strip("0"):
        return None
    return seconds + float(f"0.{fraction or 0}")


def date_of(seconds: float | None) -> datetime | None:
    """As a date in UTC, for people; None if there is none, or no calendar has it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def good_until(seconds: float | None) -> str:
    """The end of a sentence about what ends then."""
    end = date_of(seconds)
    return f", good until {end:%Y-%m-%dT%H:%M:%SZ}" if end else ""
