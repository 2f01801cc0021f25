"""Requests and responses of clients that are not on httpx, in the shape that `_transport` knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from kubeauth._http import parse_content_length
from kubeauth._transport.signing import Signer

# What of a 401 is read before the request is repeated; with more, its connection is not worth it.
SHORT = 65536


class Again:
    """Stands for a body that can be sent again."""


class Once:
    """Stands for a body that may be gone when it was sent."""


_AGAIN, _ONCE = Again(), Once()


@dataclass(slots=True)
class Request:
    """A request of any library: what decides about it, and in `options` whatever else that library takes."""

    method: str
    url: httpx.URL
    address: str
    """The URL as it was given: httpx may write the same in another way."""
    headers: httpx.Headers
    stream: object
    options: Mapping[str, Any] = field(repr=False)
    extensions: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(
        cls, method: str, address: str, headers: Iterable[tuple[bytes, bytes]], body: object, options: Any
    ) -> Request:
        """`body` is looked at, not kept: it is among the `options`."""
        can_repeat = body is None or isinstance(body, str | bytes | bytearray)
        stream = _AGAIN if can_repeat else _ONCE
        return cls(method, httpx.URL(address), address, httpx.Headers(list(headers)), stream, options)

    def with_headers(self, headers: httpx.Headers) -> Request:
        """A copy that differs in its headers."""
        return Request(
            self.method, self.url, self.address, headers, self.stream, self.options, self.extensions
        )


def signed(signer: Signer, request: Request, credential: Any) -> Request:
    """A copy of `request` with our headers; the same if there are none to add."""
    headers = signer.sign(request.headers, credential)
    return request if headers is None else request.with_headers(headers)


def is_short(length: str | None) -> bool:
    """Whether a Content-Length says that reading to the end costs less than a new connection."""
    parsed = None if length is None else parse_content_length(length)
    return parsed is not None and parsed <= SHORT


def address_of(server: str) -> str:
    """The server's URL to put paths behind, without the password that may be in it."""
    return str(httpx.URL(server).copy_with(userinfo=b"")).rstrip("/")
