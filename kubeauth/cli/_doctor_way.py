"""The way to the server, walked as far as it goes: as nobody, so that nothing is shown to the wrong one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import uses_tls
from kubeauth.cli._doctor_certificates import Certificate
from kubeauth.cli._doctor_findings import SECTIONS, Finding, Level, skipped
from kubeauth.cli._doctor_network import (
    Route,
    connect,
    connect_finding,
    dns_finding,
    look_up,
    proxy_finding,
    route_to,
)
from kubeauth.cli._doctor_probe import CERTIFICATE, PROXY, Heard, anonymous, ask_once
from kubeauth.cli._doctor_tls import (
    ca_finding,
    obstacle,
    read_ca,
    server_cert_finding,
    server_certificate,
    shown_with_it,
    tls_finding,
)

IDS = SECTIONS["the way to the server"]


class Way:
    """What is seen on it is there for who comes after."""

    def __init__(self, config: ClientConfig, *, timeout: float, tell: Callable[[str], None]) -> None:
        self._config = config
        self._timeout = timeout
        self._tell = tell
        self.obstacle: str | None = "the server was not asked"
        """Why the server cannot be asked; None if it can."""
        self.heard = Heard()
        self._between: list[Certificate] = []
        """What it said to nobody in particular."""
        self.shown: Certificate | None = None
        """The certificate it showed, believed or not."""
        self.skew: float | None = None

    def look(self, *, offline: bool) -> Iterator[Finding]:
        """A line for each step, also for those that could not be taken."""
        left = [id for id in IDS if id != "ca"]
        if offline:
            self.obstacle = "--offline"
        else:
            for finding in self._walk():
                left.remove(finding.id)
                yield finding
        for id in left:
            yield skipped(id, self.obstacle or "plain http")
        if uses_tls(self._config.server):
            yield ca_finding(self._config, read_ca(self._config), self.shown, time.time())
        else:
            yield skipped("ca", "plain http")

    def _walk(self) -> Iterator[Finding]:
        route = route_to(self._config, os.environ)
        proxy = proxy_finding(route)
        if proxy.level is Level.ERROR:
            self.obstacle = "the proxy cannot be used"
            yield proxy
            return
        self._tell(f"the address of {route.host}")
        looked = look_up(route.host, route.port, self._timeout)
        yield dns_finding(route, looked)
        if looked.problem:
            self.obstacle = f"{route.host} cannot be looked up"
            yield proxy
            return
        self._tell(f"a connection to {route.hop}")
        connected = connect(route, looked.found, self._timeout)
        if not connected.address:
            yield connect_finding(route, connected)
            self.obstacle = f"nobody takes connections at {route.hop}"
            yield proxy
            return
        has_tls = uses_tls(self._config.server)
        self._tell("TLS with the server" if has_tls else "the server")
        self._ask(route)
        failure = self.heard.failure
        is_the_proxy_s = failure is not None and failure.kind == PROXY
        yield proxy_finding(route, failure if is_the_proxy_s else None)
        # With TLS its line tells; without, there is no other.
        yield connect_finding(route, connected, None if has_tls or is_the_proxy_s else failure)
        if has_tls:
            yield tls_finding(self._config, self.heard, self.shown, time.time(), self._between)
            yield server_cert_finding(self.shown, time.time(), self.obstacle or "none was shown")

    def _ask(self, route: Route) -> None:
        self.heard = seen = ask_once(anonymous(self._config), "/version", self._timeout)
        failure = self.heard.failure
        if failure is not None and self._is_the_proxy_s(route):
            self.heard = replace(self.heard, failure=replace(failure, kind=PROXY))
        elif failure is not None and failure.kind == CERTIFICATE:
            # Nothing that matters is said to whoever it is: but who is it, and what time do they have?
            seen = ask_once(anonymous(self._config, verify=False), "/version", self._timeout)
        self.shown, self._between, self.skew = server_certificate(seen), shown_with_it(seen), seen.skew
        self.obstacle = obstacle(self.heard)

    def _is_the_proxy_s(self, route: Route) -> bool:
        """Whether a failure is: with TLS, if it never came to a handshake with the server."""
        heard, has_tls = self.heard, uses_tls(self._config.server)
        return bool(route.proxy and has_tls and heard.is_connected and heard.handshakes < route.handshakes)
