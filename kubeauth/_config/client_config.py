"""ClientConfig, the resolved configuration of a client; how it is pickled; the impersonation headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from kubeauth._config.auth_provider import OidcConfig, OidcOptions
from kubeauth._config.urls import has_userinfo, redact_url
from kubeauth._exec.config import ExecConfig, ExecOptions, PluginPolicy
from kubeauth._field_types import check_fields, field_types
from kubeauth._secret import HIDDEN, FrozenDict, Secret
from kubeauth.errors import ConfigError

# The token characters of RFC 7230 without `%`, which the server would decode as an escape.
_TOKEN_CHARACTERS = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The user to impersonate, with uid, groups and extra fields."""

    user: str
    """User name; `as` in a kubeconfig."""
    uid: str = ""
    """`as-uid`."""
    groups: Sequence[str] = ()
    """`as-groups`."""
    extra: Mapping[str, Sequence[str]] = field(default_factory=lambda: FrozenDict[str, tuple[str, ...]]())
    """`as-user-extra`."""

    def __post_init__(self) -> None:
        check_fields(self, _IMPERSONATION_FIELDS)
        object.__setattr__(self, "extra", FrozenDict[str, Sequence[str]](self.extra))


_IMPERSONATION_FIELDS = field_types(Impersonation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOrigin:
    """The arguments a config was loaded with, so that another process can load it from its own files."""

    paths: tuple[str, ...] = ()
    in_cluster: bool = False
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    exec_options: ExecOptions | None = None
    oidc_options: OidcOptions | None = None
    plugin_policy: PluginPolicy | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClientConfig:
    """How to reach a cluster and authenticate to it, like client-go's rest.Config.

    Returned by `load_config` and `in_cluster_config`, or built directly. PEM data is decoded to bytes,
    secrets are `Secret`, paths are absolute. The `repr` contains no secrets, and neither does a pickle: a
    config that was loaded from files is pickled as their paths, the context and the overrides, and is loaded
    again when it is unpickled. The same files must exist there.

    The constructor checks types. A field of the wrong type raises ConfigError, which names the field but
    does not contain the value. At run time `token` and `password` also accept `str`, `client_key_data`
    accepts `bytes`, and files accept `os.PathLike`; the attributes always have the declared type. Type
    checkers accept only the declared types: write `token=Secret("...")` for them.
    """

    server: str
    """URL of the API server, with https or http. A path in it is a prefix of every request path."""
    namespace: str = "default"
    """The default namespace, for code that builds request paths. No request is changed by it."""
    context: str | None = None
    """Name of the kubeconfig context this config was resolved from."""

    ca_data: bytes | None = None
    """CA certificates (PEM) that verify the server. Takes precedence over `ca_file`; if neither is set, the
    system's root certificates are used."""
    ca_file: str | None = None
    """Path of a file with CA certificates (PEM). Reloaded every five minutes."""
    insecure_skip_tls_verify: bool = False
    """Skip server certificate verification (insecure: allows man-in-the-middle attacks). Not allowed together
    with a CA."""
    tls_server_name: str | None = None
    """Server name for SNI and for certificate verification, instead of the host in `server`."""
    proxy_url: str | None = None
    """Proxy for all requests. If it is not set, HTTPS_PROXY, HTTP_PROXY and NO_PROXY apply, by Go's rules."""
    disable_compression: bool = False
    """Disable response compression."""

    token: Secret[str] | None = None
    """Bearer token. If `token_file` is set too, this token is used only until the file has been read once."""
    token_file: str | None = None
    """Path of a file with a bearer token. Reloaded when the cached token is 50 seconds old."""
    username: str | None = None
    password: Secret[str] | None = None
    client_cert_data: bytes | None = None
    """Client certificate chain (PEM), leaf first. With its key it takes precedence over `exec`, as token and
    password do."""
    client_key_data: Secret[bytes] | None = None
    client_cert_file: str | None = None
    """Path of a client certificate file (PEM). Both files are reloaded every second."""
    client_key_file: str | None = None

    impersonate: Impersonation | None = None
    """User to impersonate."""
    exec: ExecConfig | None = None
    """Exec plugin that provides the credential."""
    oidc: OidcConfig | None = None
    """OIDC auth provider (`auth-provider: oidc`). Not allowed together with `exec`."""

    # Not a field, so that dataclasses.replace does not copy it: loading again would lose the changes.
    _origin: ClassVar[ConfigOrigin | None] = None

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)

    def describe(self) -> dict[str, str]:
        """Return the fields that are set, by name, as text for a table or a log. Contains no secrets."""
        return {name: str(value) for name, value in self._iter_redacted_fields()}

    def __repr__(self) -> str:
        return (
            f"ClientConfig({', '.join(f'{name}={value!r}' for name, value in self._iter_redacted_fields())})"
        )

    def _iter_redacted_fields(self) -> Iterator[tuple[str, object]]:
        for item in fields(self):
            value = getattr(self, item.name)
            if value not in (None, False):
                yield item.name, _redact(item.name, value)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., ClientConfig], tuple[object, ...]]:
        if self._origin is not None:
            return _load_from_origin, (self._origin,)
        if secrets := [name for name in _SECRET_FIELDS if getattr(self, name)] + _find_hidden_fields(self):
            raise ConfigError(
                f"cannot pickle this ClientConfig: it contains secrets ({', '.join(secrets)}) and was not "
                "loaded unchanged from files. Pass the path of a kubeconfig to the other process, and call "
                "load_config there."
            )
        return _rebuild, ({item.name: getattr(self, item.name) for item in fields(self)},)


_FIELDS = field_types(ClientConfig, Impersonation, ExecConfig, OidcConfig)
_SECRET_FIELDS = ("token", "password", "client_key_data")


def _find_hidden_fields(config: ClientConfig) -> list[str]:
    """Return the other fields that the repr of `config` hides. They may hold secrets, so none is pickled."""
    hidden = [f"exec.{name}" for name in config.exec.list_hidden_fields()] if config.exec else []
    hidden += [f"oidc.{name}" for name in config.oidc.list_hidden_fields()] if config.oidc else []
    return hidden + [name for name in ("server", "proxy_url") if has_userinfo(getattr(config, name) or "")]


class _Placeholder(str):
    """Text in place of a redacted value. Its repr has no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _redact(name: str, value: object) -> object:
    if isinstance(value, Secret):
        return _Placeholder(HIDDEN)
    if isinstance(value, bytes):
        return _Placeholder(f"<{len(value)} bytes>")
    if name in ("server", "proxy_url") and isinstance(value, str):
        return redact_url(value)
    return value


def set_origin(config: ClientConfig, origin: ConfigOrigin | None) -> ClientConfig:
    """Set the origin of `config` and return `config`. Only for a config that has just been built."""
    object.__setattr__(config, "_origin", origin)
    return config


def _load_from_origin(origin: ConfigOrigin) -> ClientConfig:
    from kubeauth._config.loader import load_from_origin

    return load_from_origin(origin)


def _rebuild(values: dict[str, Any]) -> ClientConfig:
    return ClientConfig(**values)


def build_impersonation_headers(impersonation: Impersonation) -> list[tuple[str, str]]:
    """Return the impersonation headers of a request, in order. A header name may occur several times."""
    headers = [("Impersonate-User", impersonation.user)]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", impersonation.uid))
    headers.extend(("Impersonate-Group", group) for group in impersonation.groups)
    for key, values in impersonation.extra.items():
        headers.extend((f"Impersonate-Extra-{_escape_key(key)}", value) for value in values)
    return headers


def _escape_key(key: str) -> str:
    return "".join(chr(byte) if byte in _TOKEN_CHARACTERS else f"%{byte:02X}" for byte in key.encode())
