"""The way to the server: which proxy, which addresses, and whether anybody is there."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import choose_proxy, redact_url
from kubeauth._parsing import Json
from kubeauth._secret import Secret
from kubeauth._transport.options import require_proxy
from kubeauth.cli._doctor_findings import Finding, error, ok
from kubeauth.cli._doctor_probe import Failure
from kubeauth.cli._doctor_words import listed, parted, took
from kubeauth.errors import ConfigError

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
# More are not waited for.
_MOST_ADDRESSES = 4
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Route:
    """Whom to connect to, and why."""

    host: str
    port: int
    """Of the first hop: the proxy, if there is one."""
    proxy: Secret[str] | None
    why: str

    @property
    def proxy_shown(self) -> str | None:
        return redact_url(self.proxy.reveal()) if self.proxy else None

    @property
    def handshakes(self) -> int:
        """How many there are when that with the server has begun."""
        return 2 if self.proxy and self.proxy.reveal().lower().startswith("https:") else 1

    @property
    def hop(self) -> str:
        """The first hop, in words."""
        return f"{'the proxy ' if self.proxy else ''}{self.host}:{self.port}"


def route_to(config: ClientConfig, environ: Mapping[str, str]) -> Route:
    """As a client would go, by Go's rules. Pure."""
    server = urlsplit(config.server)
    proxy = choose_proxy(config.server, proxy_url=config.proxy_url, environ=environ)
    target = urlsplit(proxy) if proxy else server
    return Route(
        target.hostname or "",
        target.port or _PORTS.get(target.scheme.lower(), 443),
        Secret(proxy) if proxy else None,
        _why(config, server.scheme, proxy, environ),
    )


def _why(config: ClientConfig, scheme: str, proxy: str | None, environ: Mapping[str, str]) -> str:
    lower = f"{scheme}_proxy"
    variable = lower.upper() if environ.get(lower.upper()) else lower
    if proxy:
        return "proxy-url of the cluster" if config.proxy_url else variable
    if not environ.get(variable):
        if environ.get("ALL_PROXY") or environ.get("all_proxy"):
            return "ALL_PROXY is not read, as in kubectl"
        return f"neither proxy-url nor {lower.upper()} is set"
    without = {name: value for name, value in environ.items() if name.lower() != "no_proxy"}
    if choose_proxy(config.server, proxy_url=None, environ=without):
        return f"NO_PROXY exempts the server from {variable}"
    return f"{variable} is set, but is not for this server"


def proxy_finding(route: Route, failure: Failure | None = None) -> Finding:
    """Whether there is one, by whose word, and whether it can be used. `failure` is why not, if so."""
    if route.proxy is None:
        return ok("proxy", f"none: {route.why}", proxy=None, why=route.why)
    facts: dict[str, Json] = {"proxy": route.proxy_shown, "why": route.why}
    try:
        require_proxy(route.proxy)
    except ConfigError as wrong:
        return error("proxy", *parted(str(wrong)), **facts)
    if failure is not None:
        summary = f"{route.proxy_shown} ({route.why}) does not let us through: {failure.what}"
        return error("proxy", summary, _way_out(route, failure.what), **facts)
    return ok("proxy", f"{route.proxy_shown}, from {route.why}", **facts)


def _way_out(route: Route, refusal: str) -> str:
    if refusal.startswith("407"):
        return "It wants a name and a password: write http://name:password@host:port."
    way_out = "remove proxy-url" if route.why.startswith("proxy-url") else "name the server in NO_PROXY"
    return f"Ask who runs it to let this server through; or go without it: {way_out}."


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a name stands for; or why that is not known."""

    found: tuple[str, ...]
    seconds: float
    problem: str = ""


def look_up(
    host: str, port: int, timeout: float, resolve: Callable[..., Any] = socket.getaddrinfo
) -> Addresses:
    """Asks the resolver, for no longer than `timeout` seconds."""

    def addresses() -> tuple[str, ...]:
        answers = resolve(host, port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in answers))

    started = time.monotonic()
    outcome = within(timeout, addresses)
    seconds = time.monotonic() - started
    if isinstance(outcome.error, OSError | UnicodeError):
        return Addresses((), seconds, getattr(outcome.error, "strerror", None) or "it cannot be a name")
    if outcome.value is None:
        return Addresses((), seconds, f"no answer within {timeout:g} s")
    return Addresses(outcome.value, seconds)


def dns_finding(route: Route, looked: Addresses) -> Finding:
    """Whether the name leads anywhere."""
    facts: dict[str, Json] = {
        "host": route.host,
        "addresses": list(looked.found),
        "seconds": round(looked.seconds, 4),
    }
    if looked.problem:
        advice = (
            "Check the name in proxy-url or HTTPS_PROXY" if route.proxy else "Check server in the kubeconfig"
        )
        advice += "; is a VPN needed to look it up?"
        return error("dns", f"{route.host} cannot be looked up: {looked.problem}", advice, **facts)
    if _is_address(route.host):
        return ok("dns", f"{route.host} is an address already", **facts)
    summary = f"{route.host} is {listed(looked.found, 4)}, found in {took(looked.seconds)}"
    if route.proxy is not None:
        summary += "; the server's own name is for the proxy to look up"
    return ok("dns", summary, **facts)


@dataclass(frozen=True, slots=True)
class Connected:
    """Whether somebody takes connections there."""

    address: str
    seconds: float
    failed: tuple[tuple[str, str], ...]
    """Addresses that did not, and why."""


def connect(route: Route, addresses: tuple[str, ...], timeout: float) -> Connected:
    """To the first that answers, and hangs up again. All of them have `timeout` seconds together."""
    started = time.monotonic()
    failed: list[tuple[str, str]] = []
    for address in addresses[:_MOST_ADDRESSES]:
        left = timeout - (time.monotonic() - started)
        try:
            with socket.create_connection((address, route.port), timeout=max(left, 0.1)):
                return Connected(address, time.monotonic() - started, tuple(failed))
        except TimeoutError:
            failed.append((address, f"no answer within {timeout:g} s"))
        except OSError as why:
            failed.append((address, why.strerror or str(why)))
    return Connected("", time.monotonic() - started, tuple(failed))


def connect_finding(route: Route, connected: Connected, failure: Failure | None = None) -> Finding:
    """Whether anybody is there. `failure` is why there was no answer all the same, if so."""
    failed = "; ".join(f"{address}: {why}" for address, why in connected.failed)
    facts: dict[str, Json] = {
        "address": connected.address or None,
        "port": route.port,
        "seconds": round(connected.seconds, 4),
        "failed": [{"address": address, "problem": why} for address, why in connected.failed],
    }
    if connected.address and failure is not None:
        summary = f"{route.hop} takes connections, but there was no answer to plain http: {failure.what}"
        advice = "Is it an https port? Then write https:// in server. " + failure.advice
        return error("connect", summary, advice, **facts)
    if connected.address:
        after = f", after {failed}" if failed else ""
        return ok("connect", f"{route.hop} takes connections ({took(connected.seconds)}{after})", **facts)
    whose = "the proxy" if route.proxy else "the API server"
    advice = (
        f"Is {whose} running, and are address and port right? A firewall or a missing VPN looks the same."
    )
    return error("connect", f"nobody takes connections at {route.hop}: {failed}", advice, **facts)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class Outcome(Generic[_T]):
    """What came of a call: a value, an error, or neither, if it is not over."""

    value: _T | None = None
    error: Exception | None = None


def within(seconds: float, call: Callable[[], _T]) -> Outcome[_T]:
    """`call`, waited for no longer than that: a resolver cannot be interrupted, only left behind."""
    outcome: Outcome[_T] = Outcome()

    def run() -> None:
        try:
            outcome.value = call()
        except Exception as why:
            outcome.error = why

    thread = threading.Thread(target=run, name="kubeauth-doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome if not thread.is_alive() else Outcome()
