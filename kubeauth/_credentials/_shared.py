"""Sources that are shared: clients configured alike cause one run of the plugin, not one each (C1-C4).

A source is kept until its credential is over, or 64 others were used since, and after that for as long as
somebody uses it. So a client for each task does not mean a run for each task, and nothing is kept for ever.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from dataclasses import fields, is_dataclass
from typing import Any
from weakref import WeakValueDictionary

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._exec_cluster import exec_cluster
from kubeauth._credentials._asked_source import AskedSource
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._fork import call_after_fork
from kubeauth._exec._observer import Observer
from kubeauth._exec._plugin import Plugin
from kubeauth._exec._values import ExecCluster, ExecConfig
from kubeauth._frozen import FrozenDict
from kubeauth.errors import ConfigError

_KEPT = 64
# So that a digest says nothing to who does not know it: arguments and environment may be secrets.
_SALT = os.urandom(32)


class SharedSources:
    """Sources by what they are made of."""

    def __init__(self) -> None:
        # Guards both; held while a source is made, which does no I/O.
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[tuple[bytes, int], AskedSource] = WeakValueDictionary()
        self._kept: OrderedDict[tuple[bytes, int], AskedSource] = OrderedDict()
        call_after_fork(self)

    def source(
        self, config: ClientConfig, plugin: ExecConfig, clock: Clock, observer: Observer
    ) -> AskedSource:
        """The one for this configuration. ConfigError if what the plugin must be told cannot be had."""
        cluster = exec_cluster(config) if plugin.provide_cluster_info else None
        # A source keeps its clock, so nobody else's can have that number while it is known.
        key = _digest(plugin, cluster), id(clock)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = AskedSource(
                    Plugin(plugin, cluster, observer, now=clock.monotonic),
                    clock,
                    observer,
                    refresh_ahead=plugin.options.refresh_ahead,
                )
                self._known[key] = found
            self._keep_locked(key, found)
        return found

    def _keep_locked(self, key: tuple[bytes, int], source: AskedSource) -> None:
        for other, kept in list(self._kept.items()):
            if kept.is_over():
                del self._kept[other]
        self._kept[key] = source
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def after_fork(self) -> None:
        """In a child the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()


SHARED = SharedSources()


def _digest(plugin: ExecConfig, cluster: ExecCluster | None) -> bytes:
    """Never of what is printed: that hides what tells two apart."""
    try:
        text = json.dumps([_plain(plugin), _plain(cluster)], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = ""
    if not text:
        raise ConfigError(
            "the exec plugin's cluster_config must be JSON: dict, list, str, int, float, bool and None"
        )
    return hashlib.blake2b(text.encode(), key=_SALT).digest()


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    return list(value.items()) if isinstance(value, FrozenDict) else value
