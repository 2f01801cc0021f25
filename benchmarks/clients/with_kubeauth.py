"""kubeauth's own clients, on httpx."""

from __future__ import annotations

from typing import Any

import kubeauth
from benchmarks.clients.opened import AsyncOpened, Opened


def opened(client: Any) -> Opened:
    def ask() -> int:
        return len(client.get("/api/v1/namespaces").raise_for_status().json()["items"])

    return Opened(ask, client.close)


def aopened(client: Any) -> AsyncOpened:
    async def ask() -> int:
        return len((await client.get("/api/v1/namespaces")).raise_for_status().json()["items"])

    return AsyncOpened(ask, client.aclose)


def sync(kubeconfig: str) -> Opened:
    return opened(kubeauth.Client(kubeauth.load_config(kubeconfig)))


async def asyncio(kubeconfig: str) -> AsyncOpened:
    return aopened(kubeauth.AsyncClient(kubeauth.load_config(kubeconfig)))


def sync_on_expiry(kubeconfig: str) -> Opened:
    """Renewed when it is over and not before, as client-go does."""
    options = kubeauth.ExecOptions(refresh_ahead=False)
    return opened(kubeauth.Client(kubeauth.load_config(kubeconfig, exec_options=options)))


def load(kubeconfig: str) -> object:
    return kubeauth.load_config(kubeconfig)
