"""/metrics and /healthz, on a port of their own: the API server has both of these, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11

from kubeauth._proxy._caller import Caller
from kubeauth._proxy._refusal import Refused

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_TEXT = b"text/plain; charset=utf-8"


class Monitor:
    """Answers Prometheus and probes. Says nothing that is secret, and takes no notice of who asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    async def __call__(self, caller: Caller, asked: h11.Request) -> None:
        is_head = asked.method == b"HEAD"
        while await caller.part():
            pass
        path = asked.target.partition(b"?")[0]
        if asked.method not in (b"GET", b"HEAD"):
            await caller.refuse(Refused(405, "method", "there is nothing to change here"))
        elif path == b"/healthz":
            await caller.answer(200, b"ok", [(b"Content-Type", _TEXT)], is_head=is_head)
        elif path == b"/metrics":
            from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

            kind = [(b"Content-Type", CONTENT_TYPE_LATEST.encode())]
            await caller.answer(200, generate_latest(self._registry), kind, is_head=is_head)
        else:
            await caller.refuse(Refused(404, "path", "there are /metrics and /healthz here"), is_head=is_head)
