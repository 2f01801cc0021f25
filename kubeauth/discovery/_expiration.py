"""When a token ends: RFC 3339 as Go's time.Parse takes it, which is more than the standard (A12). Pure.

A cluster's own controllers read it so. Who read it otherwise would take signatures out of cluster-info that
they put in again, without end.
"""

from __future__ import annotations

import re

from kubeauth._parsing.go import parse_rfc3339

# More than RFC 3339: an hour of one digit, a comma, zones of 24 hours and of 60 minutes.
_DATE = re.compile(r"(\d{4}-\d\d-\d\dT)(\d\d?)(:\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
LONG_AGO = float("-inf")


def seconds_by_go(text: str) -> float:
    """Seconds since 1970. What is no date is long over."""
    match = _DATE.fullmatch(text)
    if match is None:
        return LONG_AGO
    day, hour, rest, fraction, sign, hours, minutes = match.groups()
    offset = 0
    if sign:
        if int(hours) > 24 or int(minutes) > 60:
            return LONG_AGO
        offset = (int(hours) * 60 + int(minutes)) * (-60 if sign == "-" else 60)
    try:
        seconds = parse_rfc3339(f"{day}{hour:0>2}{rest}.{fraction or 0}Z")
    except ValueError:
        return LONG_AGO
    # The zero time, which elsewhere means that there is none, is a date like any other here.
    return LONG_AGO if seconds is None else seconds - offset
