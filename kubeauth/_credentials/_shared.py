"""Sources that are shared: clients configured alike ask a plugin or issuer once, not once each (C1-C4, O8).

A source is kept until its credential is over, or 64 others were used since, and after that for as long as
somebody uses it. So a client for each task does not mean a run for each task, and nothing is kept for ever
but a refresh-token that stands nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._exec_cluster import exec_cluster
from kubeauth._config._oidc import OidcConfig
from kubeauth._credentials._asked_source import AskedSource
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._static import identity_reader
from kubeauth._exec.config import ExecConfig
from kubeauth._fork import call_after_fork
from kubeauth._frozen import FrozenDict
from kubeauth._observer import Observer
from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from kubeauth._oidc._dialogue import Fetch

_KEPT = 64
# So that a digest says nothing to who does not know it: arguments and environment may be secrets.
_SALT = os.urandom(32)


class Fetching(Protocol):
    """How issuers are reached: handed in from above, where HTTP is done."""

    @property
    def trust_env(self) -> bool: ...

    def fetch_for(self, config: OidcConfig) -> Fetch:
        """TLSError if the issuer's CA is none."""
        ...


class SharedSources:
    """Sources by what they are made of."""

    def __init__(self) -> None:
        # Guards both; held while a source is made, which does no I/O.
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[tuple[bytes, int], AskedSource] = WeakValueDictionary()
        self._kept: OrderedDict[tuple[bytes, int], AskedSource] = OrderedDict()
        call_after_fork(self)

    def source(
        self,
        digest: bytes,
        clock: Clock,
        make: Callable[[], AskedSource],
        serves: Callable[[AskedSource], bool] = lambda _: True,
    ) -> AskedSource:
        """The one for what was digested, made if there is none that `serves`."""
        # A source keeps its clock, so nobody else's can have that number while it is known.
        key = digest, id(clock)
        with self._lock:
            found = self._known.get(key)
            if found is None or not serves(found):
                found = self._known[key] = make()
            self._keep_locked(key, found)
        return found

    def _keep_locked(self, key: tuple[bytes, int], source: AskedSource) -> None:
        for other, kept in list(self._kept.items()):
            if kept.is_over():
                del self._kept[other]
        self._kept[key] = source
        self._kept.move_to_end(key)
        # With one that knows what stands nowhere else, that would be lost.
        for other in [key for key, kept in self._kept.items() if not kept.asker.is_only_copy][:-_KEPT]:
            del self._kept[other]

    def after_fork(self) -> None:
        """In a child the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()


SHARED = SharedSources()


def plugin_source(
    config: ClientConfig,
    plugin: ExecConfig,
    clock: Clock,
    observer: Observer,
    shared: SharedSources = SHARED,
) -> AskedSource:
    """The one for this plugin. ConfigError if what it must be told cannot be had."""
    from kubeauth._exec.plugin import Plugin  # no other kind of credential needs it

    cluster = exec_cluster(config) if plugin.provide_cluster_info else None

    def make() -> AskedSource:
        asker = Plugin(plugin, cluster, observer, now=clock.monotonic)
        return AskedSource(asker, clock, observer, refresh_ahead=plugin.options.refresh_ahead)

    digest = _digest([plugin, cluster])
    if digest is None:
        raise ConfigError(
            "the exec plugin's cluster_config must be JSON: dict, list, str, int, float, bool and None"
        )
    return shared.source(digest, clock, make)


def oidc_source(
    config: ClientConfig, oidc: OidcConfig, clock: Clock, observer: Observer, fetching: Fetching
) -> AskedSource:
    """The one for this entry of a kubeconfig; or for these tokens, if they came from no file (O8).

    Whoever loads the file later finds other tokens in it, and means the same; unless they are not ours:
    somebody has logged in since, who may be another person. TLSError for a CA that is none.
    """
    from kubeauth._oidc._provider import OidcProvider

    fetch = fetching.fetch_for(oidc)
    identity = identity_reader(config, clock)

    def make() -> AskedSource:
        asker = OidcProvider(oidc, fetch, now=clock.time, identity=identity)
        return AskedSource(asker, clock, observer, refresh_ahead=oidc.options.refresh_ahead)

    def serves(source: AskedSource) -> bool:
        return isinstance(source.asker, OidcProvider) and source.asker.knows(oidc)

    entry = replace(oidc, id_token=None, refresh_token=None) if oidc.path else oidc
    pair = [config.client_cert_data, config.client_key_data, config.client_cert_file, config.client_key_file]
    digest = _digest([entry, pair, fetching.trust_env])
    assert digest is not None  # noqa: S101 -- there is nothing in it but text
    return SHARED.source(digest, clock, make, serves)


def _digest(parts: list[Any]) -> bytes | None:
    """Never of what is printed: that hides what tells two apart. None if it is not JSON."""
    try:
        text = json.dumps([_plain(part) for part in parts], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.blake2b(text.encode(), key=_SALT).digest()


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Secret):
        return _plain(value.reveal())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return list(value.items()) if isinstance(value, FrozenDict) else value
