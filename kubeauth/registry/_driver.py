"""How the steps of a dialogue are taken: once per colour, for both libraries."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar, Generic

from kubeauth._compat import discard_content
from kubeauth._credentials.single_flight import Call as SharedCall
from kubeauth._http import parse_content_length
from kubeauth._runtime import Clock
from kubeauth._secret import Secret
from kubeauth._transport.redaction import redact_library_logs
from kubeauth._transport.types import Request, RequestLike, Response, ResponseLike, URLLike
from kubeauth.errors import ChallengeError, ConfigError
from kubeauth.registry._flow import Ask, Dialogue, Fetch, Send, Step, Wait, Wanted, Welcome
from kubeauth.registry._kept import Kept, Outcome
from kubeauth.registry._scopes import subject_of
from kubeauth.registry._source import AsyncLookup, Credentials, Source
from kubeauth.registry._token import MAX_REPLY, NO_BODY, TOO_LONG, Body, Call, Origin, Reply, origin_of

# What of a registry's 401 is read, so that its connection can be used again; with more it is not worth it.
_SHORT = 65536
# Marks the requests that carry a header of ours.
SIGNED = "kubeauth.registry"


class RegistryFlow(ABC, Generic[Request, Response]):
    """The flow of RegistryAuth, for both libraries."""

    _byte_stream: ClassVar[type[Any]]
    """The library's class of bodies that can be sent again."""
    _request_error: ClassVar[type[Any]]
    """The library's class of errors that are about a request."""

    def __init__(
        self,
        credentials: Credentials | None,
        url: Callable[[str], URLLike],
        *,
        acredentials: AsyncLookup | None,
        registry: str | None,
        clock: Clock,
    ) -> None:
        redact_library_logs()
        self._source = Source(credentials, acredentials)
        self._url = url
        self._clock = clock
        self._kept = Kept(clock)
        self._registry = None if registry is None else _registry_of(registry, url)

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        if not self._applies(request):
            yield request
            return
        response: Response | None = None
        with closing(self._steps(request)) as steps:
            for step in steps:
                if isinstance(step, Ask):
                    step.credentials = self._source.get(step.image, step.refused)
                elif isinstance(step, Wait):
                    _wait(step.flight, _patience(request))
                elif isinstance(step, Welcome):
                    self._source.accepted(step.image, step.credential)
                else:
                    self._let_go(response)
                    sent = self._next(step, request)
                    response = None
                    with suppress(GeneratorExit):
                        response = yield sent
                    # The library throws no error into a flow: it closes it, while it handles the error.
                    self._forget(sent, response or sys.exc_info()[1])
                    if response is None:
                        return
                    limit = _limit(step, sent, response)
                    with self._about(response):
                        body = _read(response, limit) if limit else None
                    step.reply = self._heard(step, sent, response, body)

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        if not self._applies(request):
            yield request
            return
        response: Response | None = None
        with closing(self._steps(request)) as steps:
            for step in steps:
                if isinstance(step, Ask):
                    step.credentials = await self._source.aget(step.image, step.refused)
                elif isinstance(step, Wait):
                    await _await(step.flight, _patience(request))
                elif isinstance(step, Welcome):
                    self._source.accepted(step.image, step.credential)
                else:
                    self._let_go(response)
                    sent = self._next(step, request)
                    response = None
                    with suppress(GeneratorExit):
                        response = yield sent
                    # The library throws no error into a flow: it closes it, while it handles the error.
                    self._forget(sent, response or sys.exc_info()[1])
                    if response is None:
                        return
                    limit = _limit(step, sent, response)
                    with self._about(response):
                        body = await _aread(response, limit) if limit else None
                    step.reply = self._heard(step, sent, response, body)

    def _applies(self, request: Request) -> bool:
        """Whether it is for the registry, and nobody has said yet who asks."""
        if "Authorization" in request.headers or request.url.scheme not in ("https", "http"):
            return False
        origin = origin_of(request.url)
        if self._registry is not None:
            return origin == self._registry
        return not self._source.is_fixed or self._kept.is_only(origin)

    def _steps(self, request: Request) -> Generator[Step, None, None]:
        url = request.url
        host = url.raw_host.decode("ascii", "replace")
        subject = subject_of(
            request.method, url.scheme, host, url.port, url.raw_path.decode("ascii", "replace")
        )
        wanted = Wanted(subject, url, isinstance(request.stream, self._byte_stream))
        return Dialogue(self._kept, self._clock, self._url, wanted).steps(is_fixed=self._source.is_fixed)

    def _next(self, step: Send | Fetch, request: Request) -> Request:
        if isinstance(step, Fetch):
            return self._called(step.call, request)
        if step.is_probe:
            return self._called(Call(_root(request.url)), request)
        return request if step.authorization is None else self._signed(request, step.authorization)

    def _let_go(self, response: Response | None) -> None:
        """Another request follows, and the library would unpack what was read: few bytes may be gigabytes."""
        if response is not None and isinstance(response.stream, self._byte_stream):
            response.stream = self._byte_stream(b"")

    def _heard(self, step: Send | Fetch, sent: Request, response: Response, body: Body | None) -> Reply:
        """What it says. What was read of the last one stays there for the caller, unless it is a token."""
        if body is not None:
            response.stream = self._byte_stream(body.data if isinstance(step, Send) else b"")
        if isinstance(step, Fetch) and response.is_closed:  # a hook has read it, and it would be pickled
            discard_content(response)
        headers = response.headers.multi_items()
        challenges = tuple(value for name, value in headers if name.lower() == "www-authenticate")
        encoding = next((value for name, value in headers if name.lower() == "content-encoding"), "")
        return Reply(response.status_code, _is_own(sent, response), challenges, encoding, body or NO_BODY)

    @contextmanager
    def _about(self, response: Any) -> Generator[None]:
        """Errors in reading it name their request, as they do when the library reads."""
        try:
            yield
        except Exception as error:
            if isinstance(error, self._request_error):
                of_the_library: Any = error
                of_the_library.request = response.request
            raise

    @abstractmethod
    def _signed(self, request: Request, authorization: Secret[str]) -> Request:
        """A copy of `request` with this header."""

    @abstractmethod
    def _forget(self, sent: Request, outcome: Response | BaseException | None) -> None:
        """Removes our header from what is kept of a request that was sent, and from what became of it.

        Responses and errors hold their requests, headers and all, and are pickled with them.
        """

    @abstractmethod
    def _called(self, call: Call, request: Request) -> Request:
        """A request to a token endpoint, with the time limits of `request`, and little else of it."""


class OnceBody:
    """The body of a POST to a token endpoint. Sent once: a redirect would show its secret to others."""

    def __init__(self, data: Secret[bytes], realm: str) -> None:
        self._data: Secret[bytes] | None = data
        self._realm = realm

    def __iter__(self) -> Iterator[bytes]:
        yield self._taken()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._taken()

    def _taken(self) -> bytes:
        data, self._data = self._data, None
        if data is None:
            reason = "it redirects, and what it was sent is not for others"
            raise ChallengeError(
                f"the token endpoint {self._realm} gave no token: {reason}. Tell whoever runs the registry.",
                realm=self._realm,
                reason=reason,
            )
        return data.reveal()


def called_extensions(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a request to a token endpoint: the caller's time limits, and that it is ours."""
    return {SIGNED: True, **{name: value for name, value in given.items() if name == "timeout"}}


def headers_of(call: Call, given: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of a request to a token endpoint. Of the caller's own it has the name of the program alone."""
    headers = [(name, value) for name, value in given if name.lower() == "user-agent"]
    # Not compressed: what little there is might turn into a lot.
    headers += [("Accept", "application/json"), ("Accept-Encoding", "identity")]
    if call.authorization is not None:
        headers.append(("Authorization", call.authorization.reveal()))
    if call.form is not None:
        headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        headers.append(("Content-Length", str(len(call.form.reveal()))))
    return headers


def _registry_of(text: str, url: Callable[[str], URLLike]) -> Origin:
    found: URLLike | None = None
    with suppress(Exception):  # each library has its own class for it, with the address in its words
        found = url(text)
    if found is None or found.scheme not in ("http", "https") or not found.raw_host:
        shown = "" if "@" in text else f" {text!r}"
        raise ConfigError(f"the registry{shown} is not an http(s) URL. It must look like https://host:5000")
    return origin_of(found)


def _root(url: URLLike) -> str:
    host = url.raw_host.decode("ascii", "replace")
    port = "" if url.port is None else f":{url.port}"
    return f"{url.scheme}://{f'[{host}]' if ':' in host else host}{port}/v2/"


def _is_own(sent: RequestLike, response: ResponseLike) -> bool:
    """Whether whoever answers is who was asked: redirects are followed before we see anything (9.16)."""
    return origin_of(sent.url) == origin_of(response.url)


def _limit(step: Send | Fetch, sent: RequestLike, response: ResponseLike) -> int:
    """How much of it to read now: nothing of what is the caller's."""
    if isinstance(step, Fetch):
        return MAX_REPLY
    is_refusal = response.status_code in (401, 403) and _is_own(sent, response)
    return _SHORT if step.is_probe or is_refusal else 0


def _read(response: Any, limit: int) -> Body:
    """The body as it is on the wire, unless it is longer. Its connection is free after that, or closed."""
    if response.is_closed:  # a hook has read it
        return Body.of(response.read(), limit)
    data = bytearray()
    is_whole = _may_be_short(response, limit)
    if is_whole:
        for part in response.stream:
            data += part
            if len(data) > limit:
                break
    response.stream.close()
    return Body.of(data, limit) if is_whole else TOO_LONG


async def _aread(response: Any, limit: int) -> Body:
    if response.is_closed:  # a hook has read it
        return Body.of(await response.aread(), limit)
    data = bytearray()
    is_whole = _may_be_short(response, limit)
    if is_whole:
        async for part in response.stream:
            data += part
            if len(data) > limit:
                break
    await response.stream.aclose()
    return Body.of(data, limit) if is_whole else TOO_LONG


def _may_be_short(response: ResponseLike, limit: int) -> bool:
    """Not if it says itself that it is longer. Then it is not begun: trio warns of who stops halfway."""
    lengths = [value for name, value in response.headers.multi_items() if name.lower() == "content-length"]
    parsed = [parse_content_length(length) for length in lengths]
    return all(length is not None and length <= limit for length in parsed)


def _patience(request: RequestLike) -> float | None:
    """How long `request` would wait for an answer: whoever asks in its place may have no limit."""
    seconds: float | None = request.extensions.get("timeout", {}).get("read")
    return seconds


def _wait(flight: SharedCall[Outcome], patience: float | None) -> None:
    # Never for oneself: a hook or a signal handler that asks while this thread asks would wait for ever.
    if flight.leader_thread != threading.get_ident():
        flight.wait(patience)


async def _await(flight: SharedCall[Outcome], patience: float | None) -> None:
    # For those alone who have an event loop.
    from anyio import move_on_after

    from kubeauth._runtime import loop_lock

    # Of all tasks of a loop one occupies a thread; the others find that it has landed.
    with move_on_after(patience):
        async with loop_lock(flight):
            if not flight.is_done:
                await flight.await_done()
