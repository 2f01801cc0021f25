"""A copy of the objects at a path of an API server, which follows them as they change."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from anyio import sleep
from pydantic import Field

from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.models import Model, validate_document
from kubeauth._runtime import Clock
from kubeauth.errors import ConfigError, DiscoveryError, KubeAuthError
from kubeauth.schemas._core import ObjectMeta, PartialObjectMetadata, Status

logger = logging.getLogger("kubeauth.discovery")

T = TypeVar("T")

WATCH_SECONDS = 300
# Connect, read, write, and wait for a connection. A watch is silent for longer than the server said it would
# take only if nobody is there any more.
TIMEOUT = (30.0, 60.0, 60.0, 60.0)
_WATCH_TIMEOUT = (30.0, WATCH_SECONDS + 30.0, 60.0, 60.0)
_LONGEST_PAUSE = 30.0
# A watch that ends sooner, and without a word, is one that does not work.
_SHORTEST_WATCH = 1.0
_PAGE = "500"


class Reply(Protocol):
    """What is looked at of a response, whichever library it is of."""

    @property
    def status_code(self) -> int: ...
    @property
    def content(self) -> bytes: ...


class Stream(Protocol):
    """A response that is read as it comes."""

    @property
    def status_code(self) -> int: ...
    async def aread(self) -> bytes: ...
    def aiter_lines(self) -> AsyncIterator[str]: ...


Params = Mapping[str, str]
Timeout = tuple[float, float, float, float]


class APIClient(Protocol):
    """An `AsyncClient` of kubeauth, or of `kubeauth.httpx2`."""

    # Both libraries call it a timeout.
    async def get(self, url: str, /, *, params: Params = ..., timeout: Timeout) -> Reply: ...  # noqa: ASYNC109 -- as httpx has it
    async def put(self, url: str, /, *, json: Json, timeout: Timeout) -> Reply: ...  # noqa: ASYNC109 -- as httpx has it
    def stream(
        self, method: str, url: str, /, *, params: Params = ..., timeout: Timeout
    ) -> AbstractAsyncContextManager[Stream]: ...


class _ListMeta(Model):
    resource_version: str | None = None
    next_page: str = Field(default="", alias="continue")


class _List(Model):
    """A page of a list."""

    metadata: _ListMeta = Field(default_factory=_ListMeta)
    items: list[Any] = Field(default_factory=list, repr=False)


class _Event(Model):
    """A line of a watch."""

    type: str = ""
    object: Any = Field(default=None, repr=False)


class _Gone(Exception):
    """The server has forgotten the version that we wanted to go on from."""


class Mirror(Generic[T]):
    """The objects at `path` that `selector` picks, by name, each as `read` makes of it.

    What the server says may be secret, so that it is in no variable when something is raised.
    """

    def __init__(
        self,
        client: APIClient,
        path: str,
        selector: str,
        read: Callable[[object], T],
        *,
        clock: Clock,
        retry: float = 1.0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.objects: dict[str, T] = {}
        self.is_synced = False
        """Whether it was ever complete."""
        self._client = client
        self._path = path
        self._selector = selector
        self._read = read
        self._clock = clock
        self._retry = retry
        self._changed = changed
        self._version = ""  # to go on from; none yet
        self._failures = 0  # since something last worked

    async def follow(self) -> None:
        """For ever, or until something is wrong that does not pass by itself."""
        while True:
            try:
                if not self._version:
                    await self.list()
                await self._watch()
            except _Gone:
                self._version = ""
                # Not at once: a server that forgets what it has just said would be asked without end.
                await self._pause()
            except Exception as error:
                if not passes(error):
                    raise
                logger.warning("%s: going on in a moment: %s", self._path, error)
                await self._pause()

    async def list(self) -> None:
        """Everything there is now. DiscoveryError if it cannot be had."""
        found: dict[str, T] = {}
        params = {"fieldSelector": self._selector, "limit": _PAGE}
        while True:
            reply = await self._client.get(self._path, params=params, timeout=TIMEOUT)
            page = self._page(reply)
            del reply  # what it says may be secret
            if isinstance(page, DiscoveryError):
                raise page
            items, more, version = page
            found |= items
            if not more:
                break
            params["continue"] = more
        self.objects, self.is_synced, self._version = found, True, version
        self._changed()

    def _page(self, reply: Reply) -> tuple[dict[str, T], str, str] | DiscoveryError:
        """Its objects, where the next begins, and the version of it all. Never raises."""
        content = document(reply.content)
        if reply.status_code != 200:
            return refusal(self._path, reply.status_code, content)
        page = validate_document(_List, content)
        if not isinstance(page, _List) or page.metadata.resource_version is None:
            return DiscoveryError(f"{self._path}: what the server answers is not a list", status_code=200)
        items = {_read_metadata(item).name: self._read(item) for item in page.items}
        return items, page.metadata.next_page, page.metadata.resource_version

    async def _watch(self) -> None:
        """Until the server ends it, which it does every few minutes, and which means nothing."""
        begun, before = self._clock.monotonic(), self._version
        params = {
            "fieldSelector": self._selector,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async with self._client.stream("GET", self._path, params=params, timeout=_WATCH_TIMEOUT) as response:
            if response.status_code == 410:
                raise _Gone
            if response.status_code != 200:
                raise refusal(self._path, response.status_code, document(await response.aread()))
            async for line in response.aiter_lines():
                problem = self._take(line)
                del line  # there may be a secret in it
                if problem is not None:
                    raise problem
        if self._version == before and self._clock.monotonic() - begun < _SHORTEST_WATCH:
            raise DiscoveryError(f"{self._path}: the server ended the watch at once")
        self._failures = 0

    def _take(self, line: str) -> Exception | None:
        """One event; what is wrong with it is returned."""
        event = validate_document(_Event, document(line.encode("utf-8", "surrogatepass")))
        kind, item = (event.type, event.object) if isinstance(event, _Event) else ("", None)
        if kind == "ERROR":  # a Status, in the middle of the stream
            status = validate_document(Status, item)
            if isinstance(status, Status) and status.code == 410:
                return _Gone()
            return DiscoveryError(f"{self._path}: the watch failed{_said(item)}")
        metadata = _read_metadata(item)
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not metadata.resource_version:
            return DiscoveryError(f"{self._path}: what the server sends is not an event")
        self._version, self._failures = metadata.resource_version, 0
        if kind != "BOOKMARK":  # which has a version and nothing else
            if kind == "DELETED":
                self.objects.pop(metadata.name, None)
            else:
                self.objects[metadata.name] = self._read(item)
            self._changed()
        return None

    async def _pause(self) -> None:
        """Longer each time until something works again, and not for all of us equally long."""
        self._failures += 1
        await sleep(pause(self._retry, self._failures))


def pause(first: float, failures: int) -> float:
    seconds: float = min(first * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE)
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 -- nobody gains by guessing it


def passes(error: Exception) -> bool:
    """Whether it may be another time: what goes wrong on the way, of either library, and at the server."""
    if isinstance(error, KubeAuthError):
        return not isinstance(error, ConfigError)
    kinds = {(kind.__module__, kind.__name__) for kind in type(error).__mro__}
    return not kinds.isdisjoint({("httpx", "HTTPError"), ("httpx2", "HTTPError")})


def refusal(path: str, status: int, answer: Json) -> DiscoveryError:
    return DiscoveryError(f"{path}: the server answers {status}{_said(answer)}", status_code=status)


def _said(status: Json) -> str:
    """What a Status says, in short. Anything else may be secret."""
    found = validate_document(Status, status)
    if not isinstance(found, Status) or "kind" not in found.model_fields_set or found.kind != "Status":
        return ""
    return f": {found.message[:300]}" if found.message else ""


def document(data: bytes) -> Json:
    """None if it is no JSON. Never raises: it may be secret."""
    try:
        return read_json(data)
    except DocumentError:
        return None


def _read_metadata(item: Json) -> ObjectMeta:
    found = validate_document(PartialObjectMetadata, item)
    return found.metadata if isinstance(found, PartialObjectMetadata) else ObjectMeta()
