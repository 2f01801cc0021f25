"""Who is compared: a row per client and colour."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

# kubeauth on kubeauth.transports.DirectTransport.
DIRECT = "kubeauth direct"
GO_CLIENT = Path(__file__).parent / "go" / "client"


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    colour: str
    """sync, async, or go."""
    module: str = ""
    """In benchmarks.clients."""
    face: str = ""
    """What opens it there."""
    package: str = ""
    """Whose version it is."""
    imports: str = ""
    """What a program imports to have a client class: once per library."""
    loads: bool = False
    """Whether it can load a kubeconfig without asking a server."""
    signs: bool = True
    """Whether it runs exec plugins by itself; else it is given a static token."""
    is_ours: bool = False
    transport: str = ""
    """What it has below it, if it is not what its library brings."""

    @property
    def key(self) -> str:
        return self.name if self.colour == "go" else f"{self.name} {self.colour}"

    def __str__(self) -> str:
        return self.key

    def command(self, go_client: str | None) -> list[str]:
        if self.colour == "go":
            assert go_client
            return [go_client]
        return [sys.executable, "-m", "benchmarks.worker", self.module, self.face]


def both(
    name: str,
    module: str,
    package: str,
    imports: str,
    *,
    loads: bool = False,
    signs: bool = True,
    is_ours: bool = False,
    transport: str = "",
) -> list[Subject]:
    return [
        Subject(name, "sync", module, "sync", package, imports, loads, signs, is_ours, transport),
        Subject(name, "async", module, "asyncio", package, "", False, signs, is_ours, transport),
    ]


TABLE: list[Subject] = [
    *both(
        "kubeauth", "with_kubeauth", "kubeauth", "import kubeauth; kubeauth.Client", loads=True, is_ours=True
    ),
    *both(
        "kubeauth on httpx2",
        "with_kubeauth_httpx2",
        "kubeauth",
        "import kubeauth.httpx2; kubeauth.httpx2.Client",
        is_ours=True,
    ),
    *both(DIRECT, "with_kubeauth_direct", "kubeauth", "", is_ours=True, transport=DIRECT),
    *both(
        f"{DIRECT} on httpx2", "with_kubeauth_direct_httpx2", "kubeauth", "", is_ours=True, transport=DIRECT
    ),
    *both("httpx", "httpx_alone", "httpx", "import httpx; httpx.Client", signs=False),
    *both("httpx again", "httpx_alone", "httpx", "", signs=False),
    *both("httpx2", "httpx2_alone", "httpx2", "import httpx2; httpx2.Client", signs=False),
    Subject(
        "kubernetes", "sync", "with_kubernetes", "sync", "kubernetes",
        "from kubernetes import client, config; client.CoreV1Api, config.load_kube_config", loads=True,
    ),
    Subject(
        "kubernetes.aio", "async", "with_kubernetes_aio", "asyncio", "kubernetes",
        "from kubernetes.aio import client, config; client.CoreV1Api, config.load_kube_config", loads=True,
    ),
    Subject(
        "kubernetes_asyncio", "async", "with_kubernetes_asyncio", "asyncio", "kubernetes_asyncio",
        "from kubernetes_asyncio import client, config; client.CoreV1Api, config.load_kube_config",
        loads=True,
    ),
    *both(
        "lightkube", "with_lightkube", "lightkube",
        "import lightkube; from lightkube.resources.core_v1 import Namespace", loads=True,
    ),
    *both("kr8s", "with_kr8s", "kr8s", "import kr8s; kr8s.api"),
    *both(
        "httpx2-k8s", "with_httpx2_k8s", "httpx2-k8s", "import httpx2_k8s; httpx2_k8s.KubeClient", loads=True
    ),
    Subject(
        "pykube-ng", "sync", "with_pykube", "sync", "pykube-ng",
        "import pykube; pykube.HTTPClient", loads=True,
    ),
]  # fmt: skip
CLIENT_GO = Subject("client-go", "go", package="k8s.io/client-go", loads=True)


def found(go_client: str | None, names: list[str] | None = None) -> list[Subject]:
    """Those that can be had here; with `names` (`kr8s`, or `kr8s sync`), only those."""
    everybody = TABLE + ([CLIENT_GO] if go_client else [])
    if names is not None:
        if unknown := set(names) - {name for each in everybody for name in (each.name, each.key)}:
            raise SystemExit(f"nobody here is called {', '.join(sorted(unknown))}")
        everybody = [each for each in everybody if each.name in names or each.key in names]
    return everybody


def version_of(subject: Subject) -> str:
    if subject.colour != "go":
        return version(subject.package)
    lines = (GO_CLIENT / "go.mod").read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.split()[:1] == [subject.package])
