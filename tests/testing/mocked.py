"""A cluster that exists only in respx and pytest-httpx, and the clients that users have for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kubeauth import ClientConfig, load_config
from kubeauth.testing import PluginScript
from tests.support.clients import VARIANTS, ClientVariant, Driver
from tests.support.kubeconfigs import document

SERVER = "https://kubernetes.example:6443"
PODS = "/api/v1/pods"
FIRST = {"Authorization": "Bearer first-token"}
SECOND = {"Authorization": "Bearer second-token"}
ITEMS = {"items": [{"metadata": {"name": "web"}}]}
UNAUTHORIZED = {"kind": "Status", "code": 401, "reason": "Unauthorized"}

# Both mock httpx, and not httpx2.
SYNC, ASYNCIO, TRIO = VARIANTS[:3]
each_client = pytest.mark.parametrize("variant", [SYNC, ASYNCIO, TRIO], ids=str)
each_kind = pytest.mark.parametrize("kind", ["Client", "KubeAuth"])


def load_user(user: dict[str, Any]) -> ClientConfig:
    return load_config(document({"server": SERVER}, user))


def load_plugin(plugin: PluginScript) -> ClientConfig:
    return load_user({"exec": plugin.exec_config()})


@contextmanager
def drive(variant: ClientVariant, kind: str, config: ClientConfig) -> Iterator[Driver]:
    """A Client of kubeauth, or a client of httpx with KubeAuth."""

    def create() -> Any:
        if kind == "Client":
            return variant.Client(config)
        auth, verify = variant.kubeauth.KubeAuth(config), variant.kubeauth.ssl_context(config)
        return variant.PlainClient(auth=auth, verify=verify, base_url=config.server)

    with variant.drive(create) as driver:
        yield driver
