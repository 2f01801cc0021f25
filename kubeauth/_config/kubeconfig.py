"""The entries of a kubeconfig as dataclasses, and the decoder that builds them. Nothing is validated here."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kubeauth._parsing import (
    MAX_PROBLEMS,
    DocumentError,
    Fields,
    Findings,
    Json,
    copy_plain,
    describe_type,
    read_document,
)
from kubeauth._secret import FrozenDict, HiddenDict, Secret
from kubeauth.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    # URLs may contain a password, so they are not printed.
    server: str = field(default="", repr=False)
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = field(default="", repr=False)
    certificate_authority_data: bytes = field(default=b"", repr=False)
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    extensions: Mapping[str, Json] = field(default_factory=dict[str, Json], repr=False)
    origin: str = ""
    """Path of the file the entry came from; empty for bytes, a dict or an override."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthProvider:
    name: str = ""
    config: Mapping[str, str] = field(default_factory=lambda: HiddenDict[str, str]())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecEntry:
    """`users[].user.exec`, with the default of interactiveMode applied (K12)."""

    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = ""
    install_hint: str = field(default="", repr=False)
    provide_cluster_info: bool = False
    interactive_mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    # Paths are not printed either: users sometimes put the key itself in place of its path.
    client_certificate: str = field(default="", repr=False)
    client_certificate_data: bytes = field(default=b"", repr=False)
    client_key: str = field(default="", repr=False)
    client_key_data: Secret[bytes] = field(default_factory=lambda: Secret(b""))
    token: Secret[str] = field(default_factory=lambda: Secret(""))
    token_file: str = field(default="", repr=False)
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_extra: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: FrozenDict[str, tuple[str, ...]]()
    )
    username: str = ""
    password: Secret[str] = field(default_factory=lambda: Secret(""))
    auth_provider: AuthProvider | None = None
    exec: ExecEntry | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """The content of one file, or of several merged files."""

    clusters: Mapping[str, Cluster] = field(default_factory=dict[str, Cluster])
    users: Mapping[str, User] = field(default_factory=dict[str, User])
    contexts: Mapping[str, Context] = field(default_factory=dict[str, Context])
    current_context: str = ""
    current_context_origin: str = ""
    origins: tuple[str, ...] = ()
    """Paths of its files."""

    def __repr__(self) -> str:
        return f"<Kubeconfig: {len(self.contexts)} contexts, current {self.current_context!r}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values that take precedence over the files, like kubectl's flags (K24, K31, K32)."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    cluster_info: Cluster = field(default_factory=Cluster)
    user_info: User = field(default_factory=User)
    cluster_defaults: Cluster = field(default_factory=Cluster)
    """Used where the files have no value: a caller can set a default server here (K57)."""


KUBECONFIG_LIMIT = 32 * 2**20

_T = TypeVar("_T")

EXEC_GROUP = "client.authentication.k8s.io"
# interactiveMode is required in v1, and optional in the older versions (K12).
_IF_AVAILABLE_BY_DEFAULT = (f"{EXEC_GROUP}/v1beta1", f"{EXEC_GROUP}/v1alpha1")

_NOT_A_KUBECONFIG_HINT = "Is this the right file? A kubeconfig starts with apiVersion: v1 and kind: Config."


def decode(document: Json, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """Decode `document`, or return all its problems. `origin` is the path of the file."""
    if document is None:
        return Kubeconfig(origins=(origin,) if origin else ())
    if not isinstance(document, dict):
        message = f"a kubeconfig must be a mapping, not {describe_type(document)}"
        return [Problem(message, origin or None, hint=_NOT_A_KUBECONFIG_HINT)]
    findings = Findings(origin)
    fields = findings.root(document)
    versions = fields.string("apiVersion") or "v1", fields.string("kind") or "Config"
    config = _decode_kubeconfig(fields, origin)
    if findings.schema_problem_count > MAX_PROBLEMS:
        message = f"{findings.schema_problem_count:,} fields have the wrong type"
        return [Problem(message, origin or None, hint=_NOT_A_KUBECONFIG_HINT)]
    if not findings.schema_problems and versions != ("v1", "Config"):
        message = "not a kubeconfig: apiVersion and kind must be v1 and Config"
        field = "apiVersion" if versions[0] != "v1" else "kind"
        return [Problem(message, origin or None, field, hint=_NOT_A_KUBECONFIG_HINT)]
    return findings.schema_problems or findings.value_problems or config


def _decode_kubeconfig(fields: Fields, origin: str) -> Kubeconfig:
    preferences = fields.within("preferences")
    # Both are unused, but values of the wrong type are rejected (K9, K10).
    preferences.boolean("colors")
    _decode_extensions(preferences)
    clusters = _decode_named(
        fields, "clusters", lambda entry: _decode_cluster(entry.within("cluster"), origin)
    )
    users = _decode_named(fields, "users", lambda entry: _decode_user(entry.within("user"), origin))
    contexts = _decode_named(
        fields, "contexts", lambda entry: _decode_context(entry.within("context"), origin)
    )
    current_context = fields.string("current-context")
    _decode_extensions(fields)
    return Kubeconfig(
        clusters=clusters,
        users=users,
        contexts=contexts,
        current_context=current_context,
        current_context_origin=origin if current_context else "",
        origins=(origin,) if origin else (),
    )


def _decode_named(fields: Fields, kind: str, decode_one: Callable[[Fields], _T]) -> dict[str, _T]:
    """Decode a list of named entries to a dict."""
    found: dict[str, _T] = {}
    for entry in fields.each(kind):
        name = entry.string("name")
        duplicate = found.get(name) is not None
        if duplicate:
            # Truncated, because YAML aliases can repeat a long name thousands of times.
            entry.add_problem(
                f'duplicate name "{name:.1000}" in {kind}', "Remove or rename one of the two entries."
            )
        value = decode_one(entry)
        if entry.is_present and not duplicate:
            found[name] = value
    return found


def _decode_extensions(fields: Fields) -> dict[str, Json]:
    return _decode_named(fields, "extensions", lambda entry: entry.raw("extension"))


def _decode_cluster(fields: Fields, origin: str) -> Cluster:
    return Cluster(
        server=fields.string("server"),
        tls_server_name=fields.string("tls-server-name"),
        insecure_skip_tls_verify=fields.boolean("insecure-skip-tls-verify"),
        certificate_authority=fields.string("certificate-authority"),
        certificate_authority_data=_decode_base64(fields, "certificate-authority-data"),
        proxy_url=fields.string("proxy-url"),
        disable_compression=fields.boolean("disable-compression"),
        extensions=_decode_extensions(fields),
        origin=origin,
    )


def _decode_user(fields: Fields, origin: str) -> User:
    user = User(
        client_certificate=fields.string("client-certificate"),
        client_certificate_data=_decode_base64(fields, "client-certificate-data"),
        client_key=fields.string("client-key"),
        client_key_data=Secret(_decode_base64(fields, "client-key-data")),
        token=Secret(fields.string("token")),
        token_file=fields.string("tokenFile"),
        impersonate=fields.string("as"),
        impersonate_uid=fields.string("as-uid"),
        impersonate_groups=fields.strings("as-groups"),
        impersonate_extra=_decode_extra(fields.within("as-user-extra")),
        username=fields.string("username"),
        password=Secret(fields.string("password")),
        auth_provider=_decode_auth_provider(fields.within("auth-provider")),
        exec=_decode_exec(fields.within("exec")),
        origin=origin,
    )
    _decode_extensions(fields)
    return user


def _decode_extra(fields: Fields) -> FrozenDict[str, tuple[str, ...]]:
    return FrozenDict[str, tuple[str, ...]]((key, fields.strings(key)) for key in fields.names())


def _decode_auth_provider(fields: Fields) -> AuthProvider | None:
    if not fields.is_present:
        return None
    name, config = fields.string("name"), fields.within("config")
    return AuthProvider(
        name=name, config=HiddenDict[str, str]((key, config.string(key)) for key in config.names())
    )


def _decode_exec(fields: Fields) -> ExecEntry | None:
    if not fields.is_present:
        return None
    command, args = fields.string("command"), fields.strings("args")
    env = tuple((item.string("name"), item.string("value")) for item in fields.each("env"))
    api_version = fields.string("apiVersion")
    default_mode = "IfAvailable" if api_version in _IF_AVAILABLE_BY_DEFAULT else ""
    return ExecEntry(
        command=command,
        args=args,
        env=env,
        api_version=api_version,
        install_hint=fields.string("installHint"),
        provide_cluster_info=fields.boolean("provideClusterInfo"),
        interactive_mode=fields.string("interactiveMode") or default_mode,
    )


def _decode_context(fields: Fields, origin: str) -> Context:
    context = Context(
        cluster=fields.string("cluster"),
        user=fields.string("user"),
        namespace=fields.string("namespace"),
        origin=origin,
    )
    _decode_extensions(fields)
    return context


def _decode_base64(fields: Fields, name: str) -> bytes:
    text = fields.string(name)
    if not text:
        return b""
    try:
        # Like Go, ignore line breaks and reject all other characters that are not base64.
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        hint = "*-data fields contain base64-encoded PEM; for a path, use the field without -data."
        fields.add_problem("not valid base64", hint, field=name)
        return b""


_NOT_A_DOCUMENT_HINT = "A kubeconfig is YAML or JSON text; compare it with the output of: kubectl config view"


def decode_bytes(data: bytes, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """Decode a kubeconfig in YAML or JSON. Empty text is an empty kubeconfig (K8)."""
    try:
        document = read_document(data, limit=KUBECONFIG_LIMIT)
    except DocumentError as error:
        return [Problem(str(error), origin or None, hint=_NOT_A_DOCUMENT_HINT)]
    return decode(document, origin=origin)


def decode_mapping(document: Mapping[str, object]) -> Kubeconfig | list[Problem]:
    """Decode a parsed kubeconfig. It is copied, so that later changes to it have no effect."""
    try:
        copied = copy_plain(document)
    except DocumentError as error:
        return [Problem(str(error), hint="Pass the result of yaml.safe_load or json.load.")]
    return decode(copied)
