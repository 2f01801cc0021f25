"""kubeauth.AsyncClient on an inner transport of kubeauth.inner: face by face, whatever it offers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine
from typing import Any

import kubeauth
from benchmarks.clients.opened import AsyncOpened
from benchmarks.clients.with_kubeauth import aopened


def __getattr__(name: str) -> Callable[[str], Coroutine[Any, Any, AsyncOpened]]:
    factory = getattr(importlib.import_module("kubeauth.inner"), name)

    async def face(kubeconfig: str) -> AsyncOpened:
        return aopened(kubeauth.AsyncClient(kubeauth.load_config(kubeconfig), inner=factory))

    return face
