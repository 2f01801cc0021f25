"""The API server, as a command asks it: one thing after the other, with kubectl's time limit and warnings."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Generator
from contextlib import contextmanager
from typing import Any, Self

import httpx

from kubeauth._client import TIMEOUT, Client
from kubeauth._compat import is_invalid_redirect
from kubeauth._transport.deadline import Deadline
from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags
from kubeauth.cli._paths import Target
from kubeauth.cli._refusals import MOST_STATUS, refusal

ANYTHING = "application/json, */*"

# Redirects are followed as Go does. To another origin nothing of the kubeconfig goes along.
_MOST_REDIRECTS = 10
# `299 - "words"`; a quote in them has a backslash before it.
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_QUOTED, _ITSELF = re.compile(r"\\(.)"), r"\1"


class TimedOut(Failed):
    """--request-timeout is over."""


class Asking:
    """A client for the cluster that the flags choose."""

    def __init__(self, flags: Flags) -> None:
        self.config = flags.config()
        limit = flags.request_timeout
        # Less than none is none, as in Go.
        self._seconds = limit if limit is not None and limit > 0 else None
        self._deadline = Deadline(self._seconds)
        self._warned: set[str] = set()
        self.client = Client(
            self.config,
            follow_redirects=True,
            max_redirects=_MOST_REDIRECTS,
            timeout=TIMEOUT if self._seconds is None else self._seconds,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    @contextmanager
    def answer(
        self,
        target: Target,
        *,
        accept: str = ANYTHING,
        method: str = "GET",
        json: Any = None,
        answers: Container[int] = (),
    ) -> Generator[httpx.Response]:
        """The answer, its body still to be read. Refused if the server says no; TimedOut.

        `answers`: codes of those refusals that are answers as well.
        """
        if self._seconds is not None:
            target = target.with_parameters(timeout=_go_seconds(self._seconds))
        # Not `client.stream(path)`: a path of two slashes would be another host's.
        url = f"{str(self.client.base_url).rstrip('/')}{target.url}"
        came = False
        try:
            with (
                self._deadline,
                self.client.stream(
                    method,
                    url,
                    headers={"Accept": accept},
                    json=json,
                    extensions={"trace": self._deadline.on_trace},
                ) as response,
            ):
                came = True
                self._pass_warnings_on(response)
                if not response.is_success and response.status_code not in answers:
                    raise refusal(
                        response.status_code, response.headers.get("Content-Type", ""), _start_of(response)
                    )
                yield response
                return
        except httpx.InvalidURL as error:
            raise Failed(f"error: {url} is no address: {error}", Status.USAGE) from None
        except httpx.RequestError as error:
            is_late = self._seconds is not None and isinstance(error, httpx.TimeoutException)
            if not (is_late or self._deadline.has_expired):
                if _leads_nowhere(error):
                    raise Failed("error: the server sends elsewhere, to an address that is none") from None
                self._tell_of_a_proxy(error)
                raise
        raise self._timed_out(came)

    def _pass_warnings_on(self, response: httpx.Response) -> None:
        """Each once, as kubectl does."""
        for value in response.headers.get_list("Warning"):
            for words in _WARNING.findall(value):
                if words not in self._warned:
                    self._warned.add(words)
                    tell(f"Warning: {_QUOTED.sub(_ITSELF, words)}")

    def _tell_of_a_proxy(self, error: httpx.RequestError) -> None:
        """kubectl says that the server has refused, also if it was the proxy."""
        from kubeauth.cli._doctor_network import route_to

        route = route_to(self.config, os.environ)
        if route.proxy and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            error.add_note(f"The way to it is through {route.hop}, from {route.why}.")

    def _timed_out(self, came: bool) -> TimedOut:
        what = "the answer was not complete" if came else "it did not answer"
        limit = _go_seconds(self._seconds or 0)
        return TimedOut(
            f"Unable to connect to the server: {what} within {limit} (--request-timeout)", Status.UNREACHABLE
        )


def _leads_nowhere(error: httpx.RequestError) -> bool:
    """Whether it is about where a redirect leads to. The connection itself is well."""
    return isinstance(error, httpx.UnsupportedProtocol) or is_invalid_redirect(str(error))


def _start_of(response: httpx.Response) -> bytes:
    """As much of a refusal as anybody reads."""
    body = b""
    for part in response.iter_bytes():
        body += part
        if len(body) > MOST_STATUS:
            break
    return body


def _go_seconds(seconds: float) -> str:
    """As Go reads a duration: it knows no exponents."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
