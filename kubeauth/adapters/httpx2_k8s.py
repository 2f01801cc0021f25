"""httpx2-k8s with kubeauth's credentials.

    from kubeauth.adapters.httpx2_k8s import client

    with client() as kube:  # an httpx2_k8s.KubeClient, for whatever cluster kubectl would talk to
        print(kube.version().git_version)

By what httpx2-k8s offers to everybody: the address of a server, and `transport=`.
Needs the extra: `pip install 'kubeauth[httpx2-k8s]'`.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

try:
    import httpx2_k8s
except ImportError as error:
    raise ImportError(
        "kubeauth.adapters.httpx2_k8s needs httpx2-k8s. Install it: pip install 'kubeauth[httpx2-k8s]'"
    ) from error

import httpx2

from kubeauth._config.client_config import ClientConfig
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport.base import resolve_config
from kubeauth._transport.httpx2 import AsyncKubeTransport, KubeTransport
from kubeauth._transport.options import reject_conflicting_options
from kubeauth.adapters._versions import check_version

__all__ = ["async_client", "client"]


class Options(TypedDict, total=False):
    """What is passed on to httpx2-k8s as it is."""

    timeout: float
    retry_policy: httpx2_k8s.RetryPolicy | None


def client(
    config: ClientConfig | None = None,
    *,
    http2: bool = False,
    trust_env: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    **options: Unpack[Options],
) -> httpx2_k8s.KubeClient:
    """A KubeClient for the cluster of `config`, or for the one that kubectl would talk to.

    Credentials, trust and proxy are those of the config; `options` are httpx2-k8s's own. Without
    `trust_env` no proxy is taken from the environment. `clock` is for tests: kubeauth.testing.FakeClock.
    Errors of kubeauth reach the caller as they are. To be closed, or used in a `with`.
    """
    config = _checked(config, options)
    transport = KubeTransport(config, http2=http2, trust_env=trust_env, clock=clock)
    return httpx2_k8s.KubeClient(_server(config), transport=transport, **options)


def async_client(
    config: ClientConfig | None = None,
    *,
    http2: bool = False,
    trust_env: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    **options: Unpack[Options],
) -> httpx2_k8s.AsyncKubeClient:
    """As `client`, for event loops."""
    config = _checked(config, options)
    transport = AsyncKubeTransport(config, http2=http2, trust_env=trust_env, clock=clock)
    return httpx2_k8s.AsyncKubeClient(_server(config), transport=transport, **options)


def _checked(config: ClientConfig | None, options: Options) -> ClientConfig:
    check_version(
        "httpx2-k8s", since="0.2.0", before="0.3", why="what it does with transport= is not promised"
    )
    reject_conflicting_options(options)
    return resolve_config(config)


def _server(config: ClientConfig) -> str:
    # A password in the address is sent as a header by our transport: here it would be logged.
    return str(httpx2.URL(config.server).copy_with(userinfo=b""))
