"""What came of asking: an answer for each context, and how many failed of what. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import overload

from kubeauth._parsing import Json

# As much of a server's own words as is repeated.
_MOST_WORDS = 500


class Failure(StrEnum):
    """Why there is no answer that could be used."""

    CONFIG = "config"
    """The kubeconfig must be changed, or a plugin may not be run. Nobody was asked."""
    CREDENTIAL = "credential"
    """The plugin failed, or an issuer, or a token file. The cluster was not asked."""
    UNREACHABLE = "unreachable"
    """No connection, no TLS, or it broke."""
    TIMEOUT = "timeout"
    """No whole answer in the time there was."""
    UNAUTHORIZED = "unauthorized"
    """401: the server does not know who asks."""
    REFUSED = "refused"
    """Any other answer than one of the 200s: 403, 404, 500."""
    TOO_LARGE = "too-large"
    """The answer has more bytes than one may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one context came to."""

    context: str
    """Its name."""
    cluster: str = ""
    """The cluster that it names in the kubeconfig."""
    user: str = ""
    """The user that it names there."""
    server: str = ""
    """The address that was asked; empty if it did not come to that."""
    status_code: int | None = None
    """What the server answered, if it did."""
    content_type: str = ""
    body: bytes = field(default=b"", repr=False)
    """All of it; what was refused as well. Empty if it was too large."""
    failure: Failure | None = None
    """None if the answer is one of the 200s."""
    error: Exception | None = field(default=None, repr=False)
    """A KubeAuthError or an error of httpx: why there was no answer at all."""
    seconds: float
    """From taking up the context until now: credential, connection and body."""

    @property
    def ok(self) -> bool:
        """Whether the server answered, and with what was asked for."""
        return self.failure is None

    @property
    def reason(self) -> str:
        """Why it failed, for people: our words, or the server's. Empty if it did not."""
        if self.failure is None:
            return ""
        if self.error is not None:
            return str(self.error) or type(self.error).__name__
        return f"{self.status_code} {_phrase(self.status_code or 0)}: {_words(self.body)}".strip(": ")

    def json(self) -> Json:
        """The body, read as JSON. ValueError if it is none."""
        return json.loads(self.body)


class Report(Sequence[Answer]):
    """The answers in the order of their contexts in the kubeconfig."""

    __slots__ = ("_answers", "seconds")

    def __init__(self, answers: Iterable[Answer], seconds: float) -> None:
        self._answers = tuple(answers)
        self.seconds = seconds
        """How long it took for all of them."""

    @property
    def succeeded(self) -> tuple[Answer, ...]:
        """Those that are ok."""
        return tuple(answer for answer in self._answers if answer.ok)

    @property
    def failed(self) -> tuple[Answer, ...]:
        """The others."""
        return tuple(answer for answer in self._answers if not answer.ok)

    @property
    def failures(self) -> Mapping[Failure, int]:
        """How many failed of what; only what there was."""
        return counted(self._answers)

    @property
    def ok(self) -> bool:
        """Whether none failed."""
        return all(answer.ok for answer in self._answers)

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Answer, ...]: ...
    def __getitem__(self, index: int | slice) -> Answer | tuple[Answer, ...]:
        return self._answers[index]

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __repr__(self) -> str:
        return f"<Report: {summary(len(self), self.failures)}>"


def counted(answers: Iterable[Answer]) -> dict[Failure, int]:
    """How many failed of what, in the order of the kinds."""
    found = Counter(answer.failure for answer in answers)
    return {kind: found[kind] for kind in Failure if found[kind]}


def summary(number: int, failures: Mapping[Failure, int]) -> str:
    """`3 of 1,000 failed: 1 unreachable, 2 unauthorized`."""
    if not failures:
        return f"{number:,} answered"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in failures.items())
    return f"{sum(failures.values()):,} of {number:,} failed: {kinds}"


def failure_of_status(code: int) -> Failure | None:
    """What a status is counted as."""
    if 200 <= code < 300:
        return None
    return Failure.UNAUTHORIZED if code == HTTPStatus.UNAUTHORIZED else Failure.REFUSED


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def _words(body: bytes) -> str:
    """The message of a Status; else the first line of a text that is short."""
    try:
        message = json.loads(body).get("message")
    except (ValueError, RecursionError, AttributeError):
        message = None
    if not isinstance(message, str):
        text = body[:_MOST_WORDS].decode(errors="replace").strip()
        message = "" if text.startswith(("{", "[", "<")) else text.partition("\n")[0]
    return message[:_MOST_WORDS]
