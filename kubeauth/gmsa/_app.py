"""`app`: the webhook as an ASGI application. What it needs is imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeauth.errors import ConfigError
from kubeauth.gmsa._decision import STRICT, Policy

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.applications import Starlette

    from kubeauth.gmsa._cluster import APIClient


def app(
    client: APIClient,
    *,
    policy: Policy = STRICT,
    qps: float | None = None,
    burst: int = 10,
    body_timeout: float = 2.0,
    decision_timeout: float = 7.0,
    registry: CollectorRegistry | None = None,
) -> Starlette:
    """The admission webhook, to be served over HTTPS: `/mutate`, `/validate`, `/health`, `/info`, `/metrics`.

        app = kubeauth.gmsa.app(kubeauth.AsyncClient())

    `client` is an `AsyncClient`; whoever it is needs to `get` gmsacredentialspecs and to `create`
    localsubjectaccessreviews. It is asked again for each review, so that who loses a right loses it at once,
    at most `qps` times a second after `burst` at once if you say so. Closing it is up to you.

    A body has `body_timeout` seconds to arrive, and 4 MiB. A review that is not decided after
    `decision_timeout` seconds is denied: both together should be less than the API server waits for, which is
    10 seconds unless a webhook configuration says otherwise.

    The metrics go to `registry`, which `/metrics` shows; without one they have their own. The log
    `kubeauth.gmsa` has a line for each denial. No pod and no credential spec is ever in it.

    Raises ImportError if starlette is not installed.
    """
    try:
        from kubeauth.gmsa._webhook import webhook
    except ImportError as error:
        raise ImportError(
            "kubeauth.gmsa.app needs starlette. Install it: pip install 'kubeauth[gmsa]'"
        ) from error
    from kubeauth.gmsa._cluster import Cluster
    from kubeauth.gmsa._reviews import ReviewMetrics
    from kubeauth.gmsa._throttle import Throttle

    if not (body_timeout > 0 and decision_timeout > 0):
        raise ConfigError("body_timeout and decision_timeout must be more than 0.")
    cluster = Cluster(client, None if qps is None else Throttle(qps, burst))
    metrics = ReviewMetrics(registry)
    return webhook(
        cluster, metrics, policy=policy, body_timeout=body_timeout, decision_timeout=decision_timeout
    )
