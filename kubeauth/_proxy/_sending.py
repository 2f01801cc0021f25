"""The transport below: the fast one, which takes a target byte for byte."""

from __future__ import annotations

import httpx

from kubeauth._compat import copy_request
from kubeauth.transports import AsyncDirectTransport


class Sending(AsyncDirectTransport):
    """As AsyncDirectTransport. Behind a proxy the target becomes the URL: httpcore would ask that for it."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._proxy_transport is not None:
            request = copy_request(request, request.headers)
            others = dict(request.extensions)
            request.url = request.url.copy_with(raw_path=others.pop("target"))
            request.extensions = others
        return await super().handle_async_request(request)
