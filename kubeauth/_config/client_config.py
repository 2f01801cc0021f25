"""What a client needs to know, resolved: `ClientConfig`, and how it travels to another process."""

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

# RFC 7230 token characters but for `%`, which would be read as the start of an escape.
_TOKEN_CHARACTERS = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The user to impersonate, with uid, groups and extra fields."""

    user: str
    """`as` in a kubeconfig."""
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
    """How a config was made, so that another process can make it again from its own files."""

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
    """Everything a client needs: client-go's rest.Config, for Python.

    Made by `load_config` and `in_cluster_config`, or by hand. PEM data is decoded bytes, secrets are
    `Secret`, paths are absolute. Printing it shows no secret. Pickling it sends no secret either: a
    config that came from files travels as a origin (paths, context, overrides) and is loaded anew
    where it arrives, so those files must be there.

    A config made by hand is checked: a field of another type than it says is a ConfigError that names the
    field and never shows the value. At run time `token` and `password` may also be `str`, `client_key_data`
    may be `bytes`, and files may be `os.PathLike`; what is read back has the declared type. (Type checkers
    know the declared types alone: write `token=Secret("...")` for them.)
    """

    server: str
    """The API server's URL: https, unless the kubeconfig says http. A path is a prefix for all requests."""
    namespace: str = "default"
    """For whoever builds paths: no request is changed by it."""
    context: str | None = None
    """The name of the kubeconfig context this came from."""

    ca_data: bytes | None = None
    """Whom to trust, as PEM. Wins over `ca_file`; without either, the system's roots."""
    ca_file: str | None = None
    """The same in a file, which is read again every five minutes."""
    insecure_skip_tls_verify: bool = False
    """Trust any server. Not beside a CA."""
    tls_server_name: str | None = None
    """The name to ask the server for, and to verify, in the place of its host."""
    proxy_url: str | None = None
    """The proxy for everything; without it the environment's, by Go's rules."""
    disable_compression: bool = False
    """Do not ask for compressed answers."""

    token: Secret[str] | None = None
    """With `token_file`: what to use while the file has never been read."""
    token_file: str | None = None
    """Read again when what was read is 50 seconds old."""
    username: str | None = None
    password: Secret[str] | None = None
    client_cert_data: bytes | None = None
    """A client certificate, PEM, leaf first. With its key it wins over `exec`, as token and password do."""
    client_key_data: Secret[bytes] | None = None
    client_cert_file: str | None = None
    """The same in files, which are read again every second."""
    client_key_file: str | None = None

    impersonate: Impersonation | None = None
    """Whom to act as."""
    exec: ExecConfig | None = None
    """The plugin to ask for a credential."""
    oidc: OidcConfig | None = None
    """`auth-provider: oidc`. Never beside `exec`."""

    # Not a field: a config changed with dataclasses.replace is no longer what its origin makes.
    _origin: ClassVar[ConfigOrigin | None] = None

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)

    def describe(self) -> dict[str, str]:
        """What is set, by name, for a table or a log: without any secret, as in `repr`."""
        return {name: str(value) for name, value in self._shown()}

    def __repr__(self) -> str:
        return f"ClientConfig({', '.join(f'{name}={value!r}' for name, value in self._shown())})"

    def _shown(self) -> Iterator[tuple[str, object]]:
        for each in fields(self):
            value = getattr(self, each.name)
            if value not in (None, False):
                yield each.name, _redact(each.name, value)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., ClientConfig], tuple[object, ...]]:
        if self._origin is not None:
            return _load_again, (self._origin,)
        if secrets := [name for name in _SECRETS if getattr(self, name)] + _find_hidden_fields(self):
            raise ConfigError(
                f"this ClientConfig holds secrets ({', '.join(secrets)}) and did not come from a file as it "
                "is, so it cannot be pickled; send the path of a kubeconfig, and call load_config there"
            )
        return _rebuild, ({each.name: getattr(self, each.name) for each in fields(self)},)


_FIELDS = field_types(ClientConfig, Impersonation, ExecConfig, OidcConfig)
_SECRETS = ("token", "password", "client_key_data")


def _find_hidden_fields(config: ClientConfig) -> list[str]:
    """What a repr of `config` hides, beside its secrets: what is not printed is not pickled."""
    hidden = [f"exec.{name}" for name in config.exec.hidden()] if config.exec else []
    hidden += [f"oidc.{name}" for name in config.oidc.hidden()] if config.oidc else []
    return hidden + [name for name in ("server", "proxy_url") if has_userinfo(getattr(config, name) or "")]


class _Placeholder(str):
    """Stands where a value is not shown."""

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
    """`config`, remembering how to make it again. For the loader, on a config it just made."""
    object.__setattr__(config, "_origin", origin)
    return config


def _load_again(origin: ConfigOrigin) -> ClientConfig:
    from kubeauth._config.loader import load_from_origin

    return load_from_origin(origin)


def _rebuild(values: dict[str, Any]) -> ClientConfig:
    return ClientConfig(**values)


def build_impersonation_headers(impersonation: Impersonation) -> list[tuple[str, str]]:
    """The headers for a request, in order; a name may come more than once."""
    headers = [("Impersonate-User", impersonation.user)]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", impersonation.uid))
    headers.extend(("Impersonate-Group", group) for group in impersonation.groups)
    for key, values in impersonation.extra.items():
        headers.extend((f"Impersonate-Extra-{_escape_key(key)}", value) for value in values)
    return headers


def _escape_key(key: str) -> str:
    return "".join(chr(byte) if byte in _TOKEN_CHARACTERS else f"%{byte:02X}" for byte in key.encode())
