"""Who may ask for what: kubectl's filters, and two that a browser cannot get around. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kubeauth._proxy._refusal import Refused, bad_request, forbidden
from kubeauth.errors import ConfigError

ACCEPT_HOSTS = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$"
ACCEPT_PATHS = "^.*"
REJECT_PATHS = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach"
REJECT_METHODS = "^$"

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{0,5})?")
# A browser writes the scheme of a page in lower case (RFC 6454, 6.1).
_ORIGIN = re.compile(r"https?://(.+)")
# A page of this proxy, or a user who typed the address. Not "same-site": that is another port of this host.
_ACCEPTED_SITES = frozenset(("same-origin", "none"))

Patterns = tuple[re.Pattern[str], ...]


def patterns(flag: str, text: str) -> Patterns:
    """Expressions with commas between them, as kubectl reads them. ConfigError if one is none."""
    try:
        return tuple(re.compile(each) for each in text.split(","))
    except re.error as error:
        raise ConfigError(f"{flag}: {error.pattern!r} is no regular expression: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is passed on. The defaults are kubectl's.

    A host is accepted if one of the expressions matches it, a path too, and a path or method is refused if
    one matches it, whatever accepts it.
    """

    accept_hosts: str = ACCEPT_HOSTS
    accept_paths: str = ACCEPT_PATHS
    reject_paths: str = REJECT_PATHS
    reject_methods: str = REJECT_METHODS

    def compiled(self, *, hosts: bool = True) -> Rules:
        """To be asked. Without `hosts` nobody's name is looked at. ConfigError."""
        return Rules(
            accept_hosts=patterns("--accept-hosts", self.accept_hosts) if hosts else None,
            accept_paths=patterns("--accept-paths", self.accept_paths),
            reject_paths=patterns("--reject-paths", self.reject_paths),
            reject_methods=patterns("--reject-methods", self.reject_methods),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A filter that is ready."""

    accept_hosts: Patterns | None
    accept_paths: Patterns
    reject_paths: Patterns
    reject_methods: Patterns

    def check_caller(
        self,
        hosts: Sequence[str],
        origins: Sequence[str] = (),
        sites: Sequence[str] = (),
        *,
        is_upgrade: bool = False,
    ) -> None:
        """Refused if who asks may not.

        `sites`: Sec-Fetch-Site, where the page is from that makes a browser ask. Browsers send it with
        every request to loopback, but Chromium not with the one that opens a websocket; and a page of any
        origin can read what comes through a websocket. So with `is_upgrade` the Origin must be this proxy.
        """
        if self.accept_hosts is None:
            return
        self._check_host(hosts, self.accept_hosts)
        # Only browsers send these two, for a page that may be of another origin.
        for origin in origins:
            found = _ORIGIN.fullmatch(origin)
            if found is None or not _accepted(found[1], self.accept_hosts):
                raise forbidden("origin", "the request is from a page of another origin (Origin)")
            if is_upgrade and found[1] not in hosts:
                raise forbidden("origin", "the upgrade is from a page of another origin or port (Origin)")
        if not _ACCEPTED_SITES.issuperset(sites):
            raise forbidden("origin", "the request is from a page of another origin (Sec-Fetch-Site)")

    def check_request(self, method: str, path: str) -> None:
        """Refused if what is asked for is not passed on."""
        if _match(self.reject_methods, method):
            raise forbidden("method", f"{method} is not passed on (--reject-methods)")
        if _match(self.reject_paths, path):
            raise forbidden("path", f"{path} is not passed on (--reject-paths)")
        if not _match(self.accept_paths, path):
            raise forbidden("path", f"{path} is not passed on (--accept-paths)")

    def _check_host(self, hosts: Sequence[str], accepted: Patterns) -> None:
        if len(hosts) > 1:
            raise bad_request("host", "a request has one Host header")
        host = hosts[0] if hosts else ""
        if not _HOST.fullmatch(host):
            raise bad_request("host", "the Host header names no host")
        if not _accepted(host, accepted):
            raise _not_ours()


def _not_ours() -> Refused:
    # Not which: it is a stranger's word, and may be a page's.
    return forbidden("host", "it was asked for by another name than those of this proxy (--accept-hosts)")


def _accepted(host: str, accepted: Patterns) -> bool:
    """With the brackets of an address, or without. kubectl takes them away if there is a port behind them."""
    found = _HOST.fullmatch(host)
    return found is not None and (_match(accepted, found[1]) or _match(accepted, found[1].strip("[]")))


def _match(expressions: Patterns, text: str) -> bool:
    return any(each.search(text) for each in expressions)
