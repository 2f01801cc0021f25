"""Protocols for what kubeauth uses of httpx, httpx2 and the adapters' libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar


class URLLike(Protocol):
    @property
    def scheme(self) -> str: ...
    @property
    def raw_host(self) -> bytes: ...
    @property
    def port(self) -> int | None: ...
    @property
    def raw_path(self) -> bytes: ...


class HeadersLike(Protocol):
    def __init__(self, headers: Any) -> None: ...
    def multi_items(self) -> list[tuple[str, str]]: ...
    def __contains__(self, key: Any, /) -> bool: ...
    def __setitem__(self, key: str, value: str, /) -> None: ...
    @property
    def raw(self) -> list[tuple[bytes, bytes]]: ...


class RequestLike(Protocol):
    method: str

    @property
    def url(self) -> URLLike: ...
    @property
    def headers(self) -> HeadersLike: ...
    @property
    def stream(self) -> object: ...
    @property
    def extensions(self) -> Mapping[str, Any]: ...


class ResponseLike(Protocol):
    status_code: int
    is_closed: bool
    stream: Any

    @property
    def url(self) -> URLLike: ...
    @property
    def headers(self) -> HeadersLike: ...
    @property
    def extensions(self) -> Mapping[str, Any]: ...


class SyncStream(Protocol):
    def __iter__(self) -> Any: ...
    def close(self) -> None: ...


class AsyncStream(Protocol):
    def __aiter__(self) -> Any: ...
    async def aclose(self) -> None: ...


Headers = TypeVar("Headers", bound=HeadersLike)
Request = TypeVar("Request", bound=RequestLike)
Response = TypeVar("Response", bound=ResponseLike)
RequestT_contra = TypeVar("RequestT_contra", bound=RequestLike, contravariant=True)
ResponseT_co = TypeVar("ResponseT_co", bound=ResponseLike, covariant=True)


class SyncTransportLike(Protocol[RequestT_contra, ResponseT_co]):
    """An underlying transport."""

    def handle_request(self, request: RequestT_contra) -> ResponseT_co: ...
    def close(self) -> None: ...


class AsyncTransportLike(Protocol[RequestT_contra, ResponseT_co]):
    """An underlying transport, for event loops."""

    async def handle_async_request(self, request: RequestT_contra) -> ResponseT_co: ...
    async def aclose(self) -> None: ...
