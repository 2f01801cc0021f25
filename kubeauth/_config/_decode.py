"""The kubeconfig codec: a document as it is written -> `Kubeconfig`, or everything wrong with it.

The only place that knows the wire names (K1-K5). Decoding is as strict about types and as lenient
about unknown fields as client-go (K9); null means absent. Nothing here raises for what a document
says: problems are returned, so that no traceback ever holds the document.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from kubeauth._config._model import AuthProvider, Cluster, Context, ExecStanza, Kubeconfig, User
from kubeauth._documents import Json
from kubeauth._frozen import FrozenDict, HiddenDict
from kubeauth._secret import Secret
from kubeauth.errors import Problem

_T = TypeVar("_T")
_Entry = TypeVar("_Entry", bound="_Named")

EXEC_GROUP = "client.authentication.k8s.io"
# v1 plugins must say interactiveMode; older versions did not have it (K12).
_IF_AVAILABLE_BY_DEFAULT = (f"{EXEC_GROUP}/v1beta1", f"{EXEC_GROUP}/v1alpha1")

_MAX_PROBLEMS = 100
_IS_IT_ONE = "Is this the file you meant? A kubeconfig begins with: apiVersion: v1, kind: Config"


class _Wire(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True, frozen=True)


def _named(wire_name: str) -> Any:
    return Field(default=None, validation_alias=wire_name)


# Of a list, the first bad item is reported with all that is wrong with it: a list of a million bad ones
# must not become a million errors.
_List = Annotated[list[_T | None] | None, FailFast()]
_Str = str | None
_Bool = bool | None
_Strs = _List[str]


class _Named(_Wire):
    name: _Str = None


class _Extension(_Named):
    extension: Any = None


_Extensions = _List[_Extension]


class _Cluster(_Wire):
    server: _Str = None
    tls_server_name: _Str = _named("tls-server-name")
    insecure: _Bool = _named("insecure-skip-tls-verify")
    ca: _Str = _named("certificate-authority")
    ca_data: _Str = _named("certificate-authority-data")
    proxy_url: _Str = _named("proxy-url")
    disable_compression: _Bool = _named("disable-compression")
    extensions: _Extensions = None


class _AuthProvider(_Wire):
    name: _Str = None
    config: dict[str, str | None] | None = None


class _EnvVar(_Named):
    value: _Str = None


class _Exec(_Wire):
    command: _Str = None
    args: _Strs = None
    env: _List[_EnvVar] = None
    api_version: _Str = _named("apiVersion")
    install_hint: _Str = _named("installHint")
    provide_cluster_info: _Bool = _named("provideClusterInfo")
    interactive_mode: _Str = _named("interactiveMode")


class _User(_Wire):
    client_certificate: _Str = _named("client-certificate")
    client_certificate_data: _Str = _named("client-certificate-data")
    client_key: _Str = _named("client-key")
    client_key_data: _Str = _named("client-key-data")
    token: _Str = None
    token_file: _Str = _named("tokenFile")
    impersonate: _Str = _named("as")
    impersonate_uid: _Str = _named("as-uid")
    impersonate_groups: _Strs = _named("as-groups")
    impersonate_extra: dict[str, _Strs] | None = _named("as-user-extra")
    username: _Str = None
    password: _Str = None
    auth_provider: _AuthProvider | None = _named("auth-provider")
    exec: _Exec | None = None
    extensions: _Extensions = None


class _Context(_Wire):
    cluster: _Str = None
    user: _Str = None
    namespace: _Str = None
    extensions: _Extensions = None


class _NamedCluster(_Named):
    cluster: _Cluster | None = None


class _NamedUser(_Named):
    user: _User | None = None


class _NamedContext(_Named):
    context: _Context | None = None


class _Preferences(_Wire):
    colors: _Bool = None
    extensions: _Extensions = None


class _Document(_Wire):
    api_version: _Str = _named("apiVersion")
    kind: _Str = None
    preferences: _Preferences | None = None
    clusters: _List[_NamedCluster] = None
    users: _List[_NamedUser] = None
    contexts: _List[_NamedContext] = None
    current_context: _Str = _named("current-context")
    extensions: _Extensions = None


def decode(document: Json, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """`document` as a Kubeconfig whose entries remember `origin`, or all that is wrong with it."""
    if document is None:
        return Kubeconfig(origins=(origin,) if origin else ())
    if not isinstance(document, dict):
        message = f"a kubeconfig must be a mapping, not {_kind_of(document)}"
        return [Problem(message, origin or None, hint=_IS_IT_ONE)]
    try:
        wire = _Document.model_validate(document)
    except ValidationError as error:
        return _problems(error, document, origin)
    if (wire.api_version or "v1", wire.kind or "Config") != ("v1", "Config"):
        return [
            Problem(
                "not a kubeconfig: apiVersion and kind must be v1 and Config",
                origin or None,
                "apiVersion" if (wire.api_version or "v1") != "v1" else "kind",
                hint=_IS_IT_ONE,
            )
        ]
    return _Decoder(origin).kubeconfig(wire)


class _Decoder:
    """Wire models -> values, collecting what cannot be turned into one."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._problems: list[Problem] = []

    def kubeconfig(self, wire: _Document) -> Kubeconfig | list[Problem]:
        clusters = self._entries(
            "clusters", wire.clusters, lambda at, entry: self._cluster(at, entry.cluster)
        )
        users = self._entries("users", wire.users, lambda at, entry: self._user(at, entry.user))
        contexts = self._entries(
            "contexts", wire.contexts, lambda at, entry: self._context(at, entry.context)
        )
        self._extensions("extensions", wire.extensions)
        if wire.preferences:
            self._extensions("preferences.extensions", wire.preferences.extensions)
        current_context = wire.current_context or ""
        return self._problems or Kubeconfig(
            clusters=clusters,
            users=users,
            contexts=contexts,
            current_context=current_context,
            current_context_origin=self._origin if current_context else "",
            origins=(self._origin,) if self._origin else (),
        )

    def _entries(
        self, where: str, entries: list[_Entry | None] | None, decode_one: Callable[[str, _Entry], _T]
    ) -> dict[str, _T]:
        found: dict[str, _T] = {}
        for entry in entries or ():
            name = (entry.name if entry else None) or ""
            at = f'{where}["{name}"]'
            if found.get(name) is not None:
                self._problem(
                    f'duplicate name "{name}" in {where}', at, "Remove or rename one of the two entries."
                )
            elif entry is not None:
                found[name] = decode_one(at, entry)
        return found

    def _extensions(self, where: str, extensions: _Extensions) -> dict[str, Json]:
        return self._entries(where, extensions, lambda _, entry: entry.extension)

    def _cluster(self, at: str, wire: _Cluster | None) -> Cluster:
        if wire is None:
            return Cluster(origin=self._origin)
        return Cluster(
            server=wire.server or "",
            tls_server_name=wire.tls_server_name or "",
            insecure_skip_tls_verify=bool(wire.insecure),
            certificate_authority=wire.ca or "",
            certificate_authority_data=self._bytes(f"{at}.cluster.certificate-authority-data", wire.ca_data),
            proxy_url=wire.proxy_url or "",
            disable_compression=bool(wire.disable_compression),
            extensions=self._extensions(f"{at}.cluster.extensions", wire.extensions),
            origin=self._origin,
        )

    def _user(self, at: str, wire: _User | None) -> User:
        if wire is None:
            return User(origin=self._origin)
        self._extensions(f"{at}.user.extensions", wire.extensions)
        provider = wire.auth_provider
        return User(
            client_certificate=wire.client_certificate or "",
            client_certificate_data=self._bytes(
                f"{at}.user.client-certificate-data", wire.client_certificate_data
            ),
            client_key=wire.client_key or "",
            client_key_data=Secret(self._bytes(f"{at}.user.client-key-data", wire.client_key_data)),
            token=Secret(wire.token or ""),
            token_file=wire.token_file or "",
            impersonate=wire.impersonate or "",
            impersonate_uid=wire.impersonate_uid or "",
            impersonate_groups=_strings(wire.impersonate_groups),
            impersonate_extra=FrozenDict[str, tuple[str, ...]](
                (key, _strings(values)) for key, values in (wire.impersonate_extra or {}).items()
            ),
            username=wire.username or "",
            password=Secret(wire.password or ""),
            auth_provider=_auth_provider(provider) if provider else None,
            exec=_exec(wire.exec) if wire.exec else None,
            origin=self._origin,
        )

    def _context(self, at: str, wire: _Context | None) -> Context:
        if wire is None:
            return Context(origin=self._origin)
        self._extensions(f"{at}.context.extensions", wire.extensions)
        return Context(
            cluster=wire.cluster or "",
            user=wire.user or "",
            namespace=wire.namespace or "",
            origin=self._origin,
        )

    def _bytes(self, field: str, text: str | None) -> bytes:
        if not text:
            return b""
        try:
            # As Go: line breaks inside are skipped, anything else that is not base64 is an error.
            return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
        except ValueError:
            self._problem(
                "not valid base64",
                field,
                "*-data fields take base64 of the PEM text; for a path, use the field without -data.",
            )
            return b""

    def _problem(self, message: str, field: str, hint: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(Problem(message, self._origin or None, field, hint))


def _auth_provider(wire: _AuthProvider) -> AuthProvider:
    config = HiddenDict[str, str]((key, value or "") for key, value in (wire.config or {}).items())
    return AuthProvider(name=wire.name or "", config=config)


def _exec(wire: _Exec) -> ExecStanza:
    api_version = wire.api_version or ""
    default_mode = "IfAvailable" if api_version in _IF_AVAILABLE_BY_DEFAULT else ""
    return ExecStanza(
        command=wire.command or "",
        args=_strings(wire.args),
        env=tuple((item.name or "", item.value or "") if item else ("", "") for item in wire.env or ()),
        api_version=api_version,
        install_hint=wire.install_hint or "",
        provide_cluster_info=bool(wire.provide_cluster_info),
        interactive_mode=wire.interactive_mode or default_mode,
    )


def _strings(values: Sequence[str | None] | None) -> tuple[str, ...]:
    return tuple(value or "" for value in values or ())


_WANTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def _problems(error: ValidationError, document: Json, origin: str) -> list[Problem]:
    """pydantic's findings without its input: what belongs there, and what kind of thing stands there."""
    found: list[Problem] = []
    if error.error_count() > _MAX_PROBLEMS:
        message = f"{error.error_count():,} fields have the wrong type"
        return [Problem(message, origin or None, hint=_IS_IT_ONE)]
    for item in error.errors(include_url=False, include_context=False):
        wanted = _WANTED.get(item["type"], "something else")
        given = _kind_of(item["input"])
        quotes = wanted == "a string" and given in ("a number", "true or false")
        field = _field(document, item["loc"])
        hint = "Put it in quotes." if quotes else f"Write {wanted} there."
        found.append(Problem(f"must be {wanted}, not {given}", origin or None, field, hint))
    return found


def _field(document: Json, loc: tuple[int | str, ...]) -> str:
    """Where an error is: `users["alice"].user.exec`, by name where the list's item has one."""
    text = ""
    value: Json = document
    for step in loc:
        if isinstance(step, int):
            value = value[step]
            name = value.get("name") if isinstance(value, dict) else None
            text += f'["{name}"]' if isinstance(name, str) else f"[{step}]"
        else:
            value = value.get(step) if isinstance(value, dict) else None
            text += f".{step}" if text else step
    return text


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "a mapping"
