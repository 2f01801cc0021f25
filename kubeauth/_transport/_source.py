"""What a config's requests are signed by, for whoever wants the credential and sends no request."""

from __future__ import annotations

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials.cache import Source, build_source
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport._fetch import Fetching
from kubeauth.metrics import COUNTS


def source_of(config: ClientConfig, *, clock: Clock = SYSTEM_CLOCK, trust_env: bool = True) -> Source:
    """The same for all clients that are configured alike. Raises what can be known before it is asked."""
    return build_source(config, clock, COUNTS, Fetching(trust_env))
