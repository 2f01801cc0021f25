"""A cluster on loopback that can be discovered: as decent, or as evil, as a test wants it."""

from __future__ import annotations

import base64
import functools
import time
from dataclasses import dataclass
from typing import Any
from unittest import mock

import anyio

from kubeauth.discovery import Discovered, _discover, adiscover, discover, public_key_pin, sign_detached
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.registry.servers import Server, header

TOKEN = "123456.abcdef1234567890"
SECRET = TOKEN.partition(".")[2]
PATH = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
# So short that a test need not wait, so long that a busy machine is not late.
QUICK: dict[str, Any] = {"timeout": 20.0, "interval": 0.02}
# For what is asked until there is no time: some tries, and that is all. Each has the time that one may have.
BRIEF: dict[str, Any] = {"timeout": 200.0, "interval": 0.02, "by_tries": True}


class ByTries:
    """A clock by which it is later each time that somebody looks, and not while a busy machine stands still."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self._looks = 0

    def monotonic(self) -> float:
        self._looks += 1
        return 10.0 * self._looks


@dataclass(frozen=True)
class Runtime:
    """How a test calls it: all of them block."""

    name: str

    def __str__(self) -> str:
        return self.name

    def discover(self, *args: Any, **options: Any) -> Discovered:
        if options.pop("by_tries", False):
            with mock.patch.object(_discover, "SYSTEM_CLOCK", ByTries()):
                return self.discover(*args, **options)
        if self.name == "sync":
            return discover(*args, **QUICK | options)
        call = functools.partial(adiscover, *args, **QUICK | options)
        return anyio.run(call, backend=self.name)


RUNTIMES = [Runtime("sync"), Runtime("asyncio"), Runtime("trio")]


def data(pem: bytes | str) -> str:
    return base64.b64encode(pem.encode() if isinstance(pem, str) else pem).decode()


def published(server: str, ca: bytes, *, name: str = "") -> str:
    """As kubeadm publishes it: one cluster without a name (A34)."""
    return f"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {data(ca)}
    server: {server}
  name: "{name}"
contexts: null
current-context: ""
kind: Config
preferences: {{}}
users: null
"""


def config_map(kubeconfig: str | None, signature: str | None = None, **changes: Any) -> dict[str, Any]:
    values = {} if kubeconfig is None else {"kubeconfig": kubeconfig}
    if signature is not None:
        values[f"jws-kubeconfig-{TOKEN[:6]}"] = signature
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "cluster-info", "namespace": "kube-public", "resourceVersion": "7"},
        "data": values,
    } | changes


def signed_map(kubeconfig: str) -> dict[str, Any]:
    return config_map(kubeconfig, sign_detached(kubeconfig, TOKEN))


class Cluster(Server):
    """Publishes cluster-info to anybody who asks."""

    def __init__(self, authority: Authority, *, ca: bytes | None = None) -> None:
        super().__init__(self.serve, authority)
        self.authority = authority
        self.pin = public_key_pin(authority.pem)
        self.kubeconfig = published(self.url, authority.pem if ca is None else ca)
        self.signature: str | None = self.signed(self.kubeconfig)

    @staticmethod
    def signed(kubeconfig: str) -> str:
        return sign_detached(kubeconfig, TOKEN)

    def publish(self, kubeconfig: str) -> None:
        """This, well signed: by whoever has a token."""
        self.kubeconfig, self.signature = kubeconfig, self.signed(kubeconfig)

    def serve(self, request: RawRequest) -> Answer:
        if request.path != PATH:
            return Answer(404, {"kind": "Status"})
        return Answer(200, config_map(self.kubeconfig, self.signature))

    @property
    def by_token(self) -> dict[str, Any]:
        """What to pass to `discover`, to find it safely."""
        return {"endpoint": self.host, "token": TOKEN, "ca_cert_hashes": [self.pin]}

    @property
    def unpinned(self) -> dict[str, Any]:
        return {"endpoint": self.host, "token": TOKEN, "unsafe_skip_ca_verification": True}


def shown(server: Server) -> list[str]:
    """All that its clients said who they are."""
    return [header(request, "Authorization") for request in server.requests]
