"""The types of kubeauth.adapters, as a program sees them. Checked by mypy and pyright, never run."""

from typing import assert_type

import httpx2
import httpx2_k8s
import kr8s
import kr8s.asyncio
import lightkube

import kubeauth
from kubeauth.adapters import httpx2_k8s as with_httpx2_k8s
from kubeauth.adapters import kr8s as with_kr8s
from kubeauth.adapters import lightkube as with_lightkube
from kubeauth.testing import FakeClock

config = kubeauth.load_config()
clock = FakeClock()
assert_type(with_lightkube.client(), lightkube.Client)
assert_type(
    with_lightkube.client(config, namespace="web", field_manager="me", timeout=httpx2.Timeout(5)),
    lightkube.Client,
)
assert_type(with_lightkube.async_client(config, http2=True, dry_run=True, clock=clock), lightkube.AsyncClient)
assert_type(with_httpx2_k8s.client(config, timeout=5.0, clock=clock), httpx2_k8s.KubeClient)
assert_type(with_httpx2_k8s.async_client(trust_env=False), httpx2_k8s.AsyncKubeClient)
sync_api: kr8s.Api = with_kr8s.api(config, clock=clock)
with_kr8s.api().close()


async def main() -> None:
    async_api: kr8s.asyncio.Api = await with_kr8s.aapi()
    await async_api.version()
    await (await with_kr8s.aapi(config)).aclose()
