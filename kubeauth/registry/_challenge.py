"""What a registry says in WWW-Authenticate (9.2-9.4). Pure; it takes time in proportion to what is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

# Longer ones, and more of them, are nobody's: a realm, a service and a few scopes.
MAX_LENGTH = 8192
MAX_HEADERS = 16

# None of these goes back over what it has passed: whatever is said, it is read once.
_GAP = re.compile(r"[ \t,]++")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]++")
_TOKEN68 = re.compile(r"[ \t]++[A-Za-z0-9._~+/-]++=*+(?=[ \t]*+(?:,|\Z))")
_EQUALS = re.compile(r"[ \t]*+=[ \t]*+")
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*)"', re.DOTALL)
# More than the grammar has: some write a URL without quotes.
_BARE = re.compile(r'([^ \t,"]*+)')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to authenticate."""

    scheme: str
    """In lower case, as the names of the parameters."""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def realm(self) -> str:
        return self.parameters.get("realm", "")

    @property
    def service(self) -> str:
        return self.parameters.get("service", "")

    @property
    def scopes(self) -> list[str]:
        return self.parameters.get("scope", "").split()


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """All of them, in order, whatever their scheme. What makes no sense is skipped; nothing raises."""
    found: list[Challenge] = []
    for number, header in enumerate(headers):
        # Not cut: half a realm would be another one.
        if number < MAX_HEADERS and len(header) <= MAX_LENGTH:
            found += _challenges(header)
    return found


def chosen(challenges: Iterable[Challenge]) -> Challenge | None:
    """Bearer rather than Basic; None if there is neither (9.4). Bearer without a realm is no use."""
    usable = [
        each for each in challenges if each.scheme == "basic" or (each.scheme == "bearer" and each.realm)
    ]
    return min(usable, key=lambda each: each.scheme != "bearer", default=None)


def _challenges(text: str) -> Iterator[Challenge]:
    scheme: str | None = None
    parameters: dict[str, str] = {}
    at = 0
    while at < len(text):
        if gap := _GAP.match(text, at):
            at = gap.end()
            continue
        name = _NAME.match(text, at)
        if name is None:
            # Out of place: a quoted text as a whole, since there may be anything in it, or a character.
            at = _value(text, at)[1] if text[at] == '"' else at + 1
            continue
        at = name.end()
        if equals := _EQUALS.match(text, at):
            value, at = _value(text, equals.end())
            # A name that comes twice is not allowed; the first is what most others take.
            if value is not None:
                parameters.setdefault(name[0].lower(), value)
            continue
        if scheme is not None:
            yield Challenge(scheme, parameters)
        scheme, parameters = name[0].lower(), {}
        if token68 := _TOKEN68.match(text, at):
            at = token68.end()
    if scheme is not None:
        yield Challenge(scheme, parameters)


def _value(text: str, at: int) -> tuple[str | None, int]:
    """What stands there, in quotes or not, and where it ends. None for a quoted text that does not end."""
    is_quoted = text.startswith('"', at)
    found = (_QUOTED if is_quoted else _BARE).match(text, at)
    if found is None:
        return None, len(text)
    return _ESCAPED.sub(r"\1", found[1]) if is_quoted else found[1], found.end()
