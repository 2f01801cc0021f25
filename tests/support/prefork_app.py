"""The application that tests run under gunicorn: forwards a request to the cluster, and returns its process id.

With MADE=lazily each worker creates its client at the first request; otherwise it is created at import, which is
before the fork if gunicorn runs with `--preload`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any

import kubeauth


@cache
def client() -> kubeauth.Client:
    return kubeauth.Client()


@cache
def async_client() -> kubeauth.AsyncClient:
    return kubeauth.AsyncClient()


if os.environ["MADE"] == "at import":
    client()
    async_client()


def sent_now() -> dict[str, str]:
    return {"X-Sent": repr(time.time())}


def encode_body(status: int) -> bytes:
    return json.dumps({"process": os.getpid(), "status": status}).encode()


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """For the sync worker."""
    response = client().get(environ["PATH_INFO"], headers=sent_now())
    body = encode_body(response.status_code)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """For the worker with an event loop."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    response = await async_client().get(scope["path"], headers=sent_now())
    body = encode_body(response.status_code)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
