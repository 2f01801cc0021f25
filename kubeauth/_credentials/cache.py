"""Sources by configuration: clients with the same configuration share a credential (C1-C4, O8).

A source is retained while a client uses it, and after that until its credential expires or 64 other sources
were used. So a client per task does not run the plugin per task. Only a source whose refresh-token is saved
nowhere else is retained forever.
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
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from kubeauth._config.auth_provider import OidcConfig
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.exec_cluster import build_exec_cluster
from kubeauth._credentials.files import StaticSource, client_cert_reader
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._exec.codec import API_VERSIONS
from kubeauth._exec.config import ExecConfig
from kubeauth._observer import Observer
from kubeauth._runtime import Clock, call_after_fork
from kubeauth._secret import FrozenDict, Secret
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from kubeauth._oidc.protocol import Fetch


_MAX_RECENT = 64
# Arguments and environment may be secrets: without the salt, a hash could be guessed.
_SALT = os.urandom(32)


class HttpFactory(Protocol):
    """How OIDC issuers are reached: passed in by the transport layer, which has the HTTP client."""

    @property
    def trust_env(self) -> bool: ...

    def build_fetch(self, config: OidcConfig) -> Fetch:
        """Return the function that sends requests to the issuer. TLSError if its CA is not valid."""
        ...


class SourceCache:
    """Sources by the hash of their configuration."""

    def __init__(self) -> None:
        # Guards the two below. Held while a source is created, which does no I/O.
        self._lock = threading.Lock()
        self._sources: WeakValueDictionary[tuple[bytes, int], RefreshableSource] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[bytes, int], RefreshableSource] = OrderedDict()
        call_after_fork(self)

    def source(
        self,
        config_hash: bytes,
        clock: Clock,
        make: Callable[[], RefreshableSource],
        matches: Callable[[RefreshableSource], bool] = lambda _: True,
    ) -> RefreshableSource:
        """Return the source for this configuration, created if there is none that `matches`."""
        # A source references its clock, so that the id is not reused while the source exists.
        key = config_hash, id(clock)
        with self._lock:
            found = self._sources.get(key)
            if found is None or not matches(found):
                found = self._sources[key] = make()
            self._retain_locked(key, found)
        return found

    def _retain_locked(self, key: tuple[bytes, int], source: RefreshableSource) -> None:
        for other, recent in list(self._recent.items()):
            if recent.is_expired():
                del self._recent[other]
        self._recent[key] = source
        self._recent.move_to_end(key)
        # A provider with an unsaved token must not be dropped: the token would be lost.
        droppable = [key for key, recent in self._recent.items() if not recent.provider.holds_unsaved_token]
        for other in droppable[:-_MAX_RECENT]:
            del self._recent[other]

    def after_fork(self) -> None:
        """In a forked child the lock may be held by a thread that does not exist."""
        self._lock = threading.Lock()


SOURCE_CACHE = SourceCache()


def plugin_source(
    config: ClientConfig,
    plugin: ExecConfig,
    clock: Clock,
    observer: Observer,
    shared: SourceCache = SOURCE_CACHE,
) -> RefreshableSource:
    """Return the source for this plugin. ConfigError if the cluster info cannot be built."""
    from kubeauth._exec.plugin import Plugin  # clients without a plugin do not need it

    cluster = build_exec_cluster(config) if plugin.provide_cluster_info else None

    def make() -> RefreshableSource:
        provider = Plugin(plugin, cluster, observer, now=clock.monotonic)
        return RefreshableSource(provider, clock, observer, refresh_ahead=plugin.options.refresh_ahead)

    key = _hash([plugin, cluster])
    if key is None:
        raise ConfigError(
            "the exec plugin's cluster_config must be JSON: dict, list, str, int, float, bool and None"
        )
    return shared.source(key, clock, make)


def oidc_source(
    config: ClientConfig, oidc: OidcConfig, clock: Clock, observer: Observer, http: HttpFactory
) -> RefreshableSource:
    """Return the source for this entry of a kubeconfig; or for these tokens, if they came from no file (O8).

    A client that loads the file later finds refreshed tokens in it, and gets the same source. After a new
    login, which may be of another user, it gets a new source. TLSError if the CA is not valid.
    """
    from kubeauth._oidc.provider import OidcProvider

    fetch = http.build_fetch(oidc)
    read_client_cert = client_cert_reader(config, clock)

    def make() -> RefreshableSource:
        provider = OidcProvider(oidc, fetch, now=clock.time, read_client_cert=read_client_cert)
        return RefreshableSource(provider, clock, observer, refresh_ahead=oidc.options.refresh_ahead)

    def matches(source: RefreshableSource) -> bool:
        return isinstance(source.provider, OidcProvider) and source.provider.has_seen(oidc)

    entry = replace(oidc, id_token=None, refresh_token=None) if oidc.path else oidc
    client_cert = [
        config.client_cert_data,
        config.client_key_data,
        config.client_cert_file,
        config.client_key_file,
    ]
    key = _hash([entry, client_cert, http.trust_env])
    assert key is not None  # noqa: S101 -- it contains only text
    return SOURCE_CACHE.source(key, clock, make, matches)


def _hash(parts: list[Any]) -> bytes | None:
    """Return a hash of all values, secrets included; None if they are not JSON."""
    try:
        text = json.dumps([_to_json_value(part) for part in parts], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.blake2b(text.encode(), key=_SALT).digest()


def _to_json_value(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: _to_json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Secret):
        return _to_json_value(value.reveal())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_to_json_value(item) for item in value]
    return list(value.items()) if isinstance(value, FrozenDict) else value


Source = StaticSource | RefreshableSource


def build_source(
    config: ClientConfig, clock: Clock, observer: Observer, build_http_factory: Callable[[], HttpFactory]
) -> Source:
    """Return the source of the credential of `config`. A static credential takes precedence (I1, O10)."""
    if config.exec is not None and config.oidc is not None:
        raise ConfigError(
            "execProvider and authProvider cannot be used in combination. Remove one of the two."
        )
    if config.exec is not None:
        check_exec(config.exec)
    selected = select_provider(config)
    if isinstance(selected, ExecConfig):
        return plugin_source(config, selected, clock, observer)
    if selected is not None:
        return oidc_source(config, selected, clock, observer, build_http_factory())
    return StaticSource(config, clock)


def select_provider(config: ClientConfig) -> ExecConfig | OidcConfig | None:
    """Return the plugin or issuer of `config`; None if its credential is static, or there is none."""
    if config.exec is not None and not (_has_header(config) or _has_certificate(config)):
        return config.exec
    # A client certificate is used together with an id-token, but not with a plugin.
    return None if _has_header(config) else config.oidc


def check_exec(plugin: ExecConfig) -> None:
    """Raise ConfigError for an unknown API version, even if the plugin is not run, as client-go (X1)."""
    if plugin.api_version not in API_VERSIONS:
        raise ConfigError(
            f'exec plugin: invalid apiVersion "{plugin.api_version}". Use {API_VERSIONS[0]}, which the '
            "plugin must support, too."
        )


def _has_certificate(config: ClientConfig) -> bool:
    """Return whether there is a client certificate. One without its key is ignored (I1)."""
    return bool(
        (config.client_cert_data or config.client_cert_file)
        and (config.client_key_data or config.client_key_file)
    )


def _has_header(config: ClientConfig) -> bool:
    """Return whether there is a token or a user name. A password without a user name is ignored (I1)."""
    server = urlsplit(config.server)
    # A password in the URL takes precedence over a plugin, as in Go.
    return bool(config.token or config.token_file or config.username or server.username or server.password)
