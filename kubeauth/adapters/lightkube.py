"""lightkube with kubeauth's credentials.

    from kubeauth.adapters.lightkube import client

    with client() as kube:  # a lightkube.Client, for whatever cluster kubectl would talk to
        for namespace in kube.list(Namespace):
            print(namespace.metadata.name)

By what lightkube 1.x offers to everybody: a config of one cluster without credentials, and `transport=`.
Needs the extra: `pip install 'kubeauth[lightkube]'`.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

try:
    import lightkube
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.config.models import Cluster, User
except ImportError as error:
    raise ImportError(
        "kubeauth.adapters.lightkube needs lightkube. Install it: pip install 'kubeauth[lightkube]'"
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
    """What is passed on to lightkube as it is."""

    namespace: str | None
    timeout: httpx2.Timeout | None
    lazy: bool
    field_manager: str | None
    dry_run: bool


def client(
    config: ClientConfig | None = None,
    *,
    http2: bool = False,
    trust_env: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    **options: Unpack[Options],
) -> lightkube.Client:
    """A lightkube.Client for the cluster of `config`, or for the one that kubectl would talk to.

    Credentials, trust and proxy are those of the config; the namespace is too, unless it is among the
    `options`, which are lightkube's own. Without `trust_env` no proxy is taken from the environment.
    `clock` is for tests: kubeauth.testing.FakeClock. Errors of kubeauth reach the caller as they are. To be
    closed, or used in a `with`.
    """
    config = _checked(config, options)
    return lightkube.Client(
        config=_config(config),
        transport=KubeTransport(config, http2=http2, trust_env=trust_env, clock=clock),
        trust_env=False,  # decided here: lightkube and httpx2 need not look again
        **options,
    )


def async_client(
    config: ClientConfig | None = None,
    *,
    http2: bool = False,
    trust_env: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    **options: Unpack[Options],
) -> lightkube.AsyncClient:
    """As `client`, for event loops."""
    config = _checked(config, options)
    return lightkube.AsyncClient(
        config=_config(config),
        transport=AsyncKubeTransport(config, http2=http2, trust_env=trust_env, clock=clock),
        trust_env=False,  # decided here: lightkube and httpx2 need not look again
        **options,
    )


def _checked(config: ClientConfig | None, options: Options) -> ClientConfig:
    why = "1.0.0 makes a copy of its transport, and older ones are built on httpx"
    check_version("lightkube", since="1.0.1", before="2", why=why)
    reject_conflicting_options(options)
    return resolve_config(config)


def _config(config: ClientConfig) -> KubeConfig:
    """What lightkube must know: where the cluster is, and no credential to send itself."""
    # A password in the address is sent as a header by our transport: here it would be logged.
    server = str(httpx2.URL(config.server).copy_with(userinfo=b""))
    return KubeConfig.from_one(cluster=Cluster(server=server), user=User(), namespace=config.namespace)
