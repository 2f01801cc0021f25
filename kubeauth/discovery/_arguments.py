"""What `discover` was asked for, checked before anything is read or connected to (A36, A42, A64). Pure."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Literal, TypeAlias, get_args
from urllib.parse import unquote, urlsplit

from kubeauth._config.urls import InvalidURL, parse_server_url, uses_tls
from kubeauth._secret import Secret
from kubeauth.discovery._pins import Pins
from kubeauth.discovery._token import BootstrapToken
from kubeauth.errors import ConfigError

Mode: TypeAlias = Literal["shipped", "seed"]
GivenToken: TypeAlias = BootstrapToken | Secret[str] | str | None

STDIN = "-"
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class ByToken:
    """Of an endpoint that nobody knows yet, by a token that it must know too."""

    server: str
    token: BootstrapToken
    pins: Pins
    mode: Mode
    audience: str | None


@dataclass(frozen=True, slots=True)
class ByFile:
    """Of a kubeconfig that somebody handed over."""

    path: str


@dataclass(frozen=True, slots=True)
class ByUrl:
    """Of one that is to be had by https, from a server that this system trusts."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One call of `discover`."""

    by: ByToken | ByFile | ByUrl
    tls_bootstrap_token: BootstrapToken | None
    timeout: float
    interval: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Those of `discover`, as they were given."""

    endpoint: str | None = None
    token: BootstrapToken | Secret[str] | None = None
    file: str | PathLike[str] | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    ca_cert_hashes: Iterable[str] = ()
    unsafe_skip_ca_verification: bool = False
    tls_bootstrap_token: BootstrapToken | Secret[str] | None = None
    mode: str = "shipped"
    audience: str | None = None
    timeout: float = 300.0
    interval: float = 5.0

    def checked(self) -> Asked:
        """ConfigError for the first thing that is wrong with them."""
        by_token = self.endpoint is not None or self.token is not None
        ways = [by_token, self.file is not None, self.url is not None]
        if sum(ways) != 1:
            raise ConfigError(
                "a cluster is discovered in one way: by endpoint= and token=, by file=, or by url=. "
                f"{'None' if not any(ways) else 'More than one'} of them was given."
            )
        _check_seconds("timeout", self.timeout, at_least=0)
        _check_seconds("interval", self.interval, at_least=0.001)
        tls = None if self.tls_bootstrap_token is None else _parsed(self.tls_bootstrap_token)
        by: ByToken | ByFile | ByUrl
        if by_token:
            by = self._by_token()
            # What is joined with is what was discovered with, unless it is told apart (A36).
            tls = tls or by.token
        else:
            self._refuse_what_is_for_tokens()
            by = ByUrl(_https(self.url or "")) if self.file is None else _by_file(fspath(self.file))
        return Asked(by=by, tls_bootstrap_token=tls, timeout=self.timeout, interval=self.interval)

    def _by_token(self) -> ByToken:
        if not self.endpoint:
            raise ConfigError("endpoint= is missing: the API server's host:port, such as 192.0.2.10:6443")
        if self.token is None:
            raise ConfigError(
                "token= is missing: a bootstrap token that the cluster knows. `kubeadm token create` prints "
                "one."
            )
        server, token, pins = _server(self.endpoint), _parsed(self.token), Pins.parse(self.ca_cert_hashes)
        if not pins and not self.unsafe_skip_ca_verification:
            raise ConfigError(
                "ca_cert_hashes= is missing: without it anybody who has the token can pretend to be the "
                "cluster. `kubeadm token create --print-join-command` prints it, and `kubeauth discover pin` "
                "prints that of a CA file; to go without, say unsafe_skip_ca_verification=True."
            )
        if self.mode not in get_args(Mode):
            raise ConfigError(f"mode= must be one of {', '.join(get_args(Mode))}")
        if self.audience is not None and self.mode != "seed":
            raise ConfigError('audience= is for mode="seed": in the other, requests say nothing')
        mode: Mode = "seed" if self.mode == "seed" else "shipped"
        return ByToken(server, token, pins, mode, self.audience)

    def _refuse_what_is_for_tokens(self) -> None:
        given = {
            "ca_cert_hashes": not isinstance(self.ca_cert_hashes, tuple) or bool(self.ca_cert_hashes),
            "unsafe_skip_ca_verification": self.unsafe_skip_ca_verification,
            "mode": self.mode != "shipped",
            "audience": self.audience is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise ConfigError(f"{name}= is for discovery by endpoint= and token= alone")


def hidden(token: GivenToken) -> BootstrapToken | Secret[str] | None:
    """A token that no traceback shows. For whoever was given it, before anything else."""
    return Secret(token) if isinstance(token, str) else token


def https_url(text: str) -> str | None:
    """`text` if it is an https URL, and nobody's password is in it."""
    try:
        if parse_server_url(text) and uses_tls(text.lower()) and "@" not in urlsplit(text).netloc:
            return text
    except (InvalidURL, ValueError):
        pass
    return None


def _parsed(token: BootstrapToken | Secret[str]) -> BootstrapToken:
    # One that was made of its parts has not been looked at.
    return BootstrapToken.parse(token if isinstance(token, Secret) else Secret(token.reveal()))


def _server(endpoint: str) -> str:
    host, colon, port = endpoint.rpartition(":")
    # Of one with more digits the system would take what is left of it, and go elsewhere.
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 65535
    if not colon or not is_port or not _is_host(host):
        # Not repeated if it may be a token that was given in the wrong place.
        shown = f" {endpoint!r}" if len(endpoint) < 200 and colon else ""
        raise ConfigError(
            f"the endpoint{shown} must be host:port, such as 192.0.2.10:6443, [2001:db8::1]:6443 or "
            "cluster.example:6443; the port is needed, a scheme or a path is not"
        )
    return f"https://{endpoint.lower()}"


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return _is_address(host[1:-1], 6)
    # What is all numbers is an address, or a mistake in one.
    if host.rpartition(".")[2].isdigit():
        return _is_address(host, 4)
    return _NAME.fullmatch(host.lower()) is not None


def _is_address(text: str, version: int) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _by_file(file: str) -> ByFile | ByUrl:
    """As kubeadm's --discovery-file: a path, or an https URL (A64)."""
    scheme = _SCHEME.match(file)
    if scheme is None:
        if not file:
            raise ConfigError(
                "file= is empty: it must be the path of a kubeconfig, `-` for stdin, or an https URL"
            )
        return ByFile(file)
    if scheme[0].lower() == "file://":
        return _by_file(unquote(file[len(scheme[0]) :]))
    return ByUrl(_https(file))


def _https(text: str) -> str:
    url = https_url(text)
    if url is None:
        raise ConfigError(
            "what is to be fetched must be an https URL, without a user and a password: the answer decides "
            "whom to trust, and nothing is shown to whoever gives it"
        )
    return url


def _check_seconds(name: str, value: float, *, at_least: float) -> None:
    # Also for who does not check types: True would be a second.
    if type(value) not in (int, float) or not at_least <= value < math.inf:
        raise ConfigError(f"{name}= must be a number of seconds, at least {at_least:g}")
