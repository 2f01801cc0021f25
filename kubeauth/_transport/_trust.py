"""The CA file, looked at again every five minutes (K53)."""

from __future__ import annotations

import math
import ssl

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials.files import PolledFile, PolledValue
from kubeauth._runtime import Clock
from kubeauth._transport._tls import Trust, ca_place, load_ca, read_trust

CA_INTERVAL = 300.0


def trust_source(config: ClientConfig, clock: Clock) -> PolledFile[Trust]:
    """The cluster's CA, and its successors if it is a file. What is no CA leaves the one before."""
    from_file = bool(config.ca_file and not config.ca_data)

    def check(trust: Trust) -> None:
        load_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust, ca_place(config))

    due = clock.monotonic() + CA_INTERVAL if from_file else math.inf
    polled = PolledValue(
        lambda: read_trust(config), read_trust(config), due=due, interval=CA_INTERVAL, check=check
    )
    return PolledFile(polled, clock)
