"""One question to a server, and what it answered: what both colours of a driver have in common. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kubeauth._config.client_config import ClientConfig
from kubeauth._http import parse_content_length
from kubeauth._secret import Secret
from kubeauth.discovery._kubeconfig import MOST_BYTES
from kubeauth.discovery._token import JWS_HEADER

TOO_LONG = f"its answer is longer than {MOST_BYTES // 2**20} MiB"


@dataclass(frozen=True, slots=True)
class Call:
    """A GET. Whom to trust, and what to show, is what `config` says."""

    url: str
    config: ClientConfig
    limit: float
    """Seconds for all of it."""
    accept: str = "application/json"
    authorization: Secret[str] | None = None
    if_not_trusted: str = ""
    """What to do if its certificate is not: a sentence, where it is not about what `config` says."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered. Of other statuses than 200 there is no body: nobody needs to read it."""

    status: int
    body: Secret[bytes] = field(default_factory=lambda: Secret(b""))
    signatures: tuple[str, ...] = ()
    """Each X-Kubernetes-JWS that there is."""
    location: str | None = field(default=None, repr=False)
    """Where a redirect leads."""


@dataclass(frozen=True, slots=True)
class NoReply:
    """Why there is none."""

    reason: str
    is_final: bool = False
    """Whether it would be the same at every try."""
    is_late: bool = False
    """Whether it was given up when its time was over."""


class Headers(Protocol):
    """Of a response of httpx."""

    def multi_items(self) -> list[tuple[str, str]]: ...


class Answer(Protocol):
    """A response of httpx, of which nothing has been read yet."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Headers: ...


def request_headers(call: Call, user_agent: str) -> dict[str, str]:
    headers = {
        "User-Agent": user_agent,
        "Accept": call.accept,
        # What is signed is what is sent (A81); and of a compressed answer nobody knows how long it is.
        "Accept-Encoding": "identity",
    }
    if call.authorization is not None:
        headers["Authorization"] = f"Bearer {call.authorization.reveal()}"
    return headers


def before_the_body(answer: Answer) -> Reply | NoReply | None:
    """What is known without reading its body; None if that is needed."""
    if answer.status_code != 200:
        return Reply(answer.status_code, location=next(iter(_all(answer, "location")), None))
    if any(value.lower() != "identity" for value in _all(answer, "content-encoding")):
        return NoReply("it sent a compressed answer, which it was not asked for")
    lengths = [parse_content_length(value) for value in _all(answer, "content-length")]
    if None in lengths:
        return NoReply("it sent a Content-Length that is not a valid number")
    if any(length is not None and length > MOST_BYTES for length in lengths):
        return NoReply(TOO_LONG)
    return None


def reply_of(answer: Answer, body: Secret[bytes]) -> Reply:
    return Reply(answer.status_code, body, _all(answer, JWS_HEADER.lower()))


def too_slow(call: Call) -> NoReply:
    return NoReply(f"it did not answer within {call.limit:.3g} seconds", is_late=True)


def _all(answer: Answer, name: str) -> tuple[str, ...]:
    return tuple(value for key, value in answer.headers.multi_items() if key.lower() == name)
