"""The kubeconfig codec: a document as it is written -> `Kubeconfig`, or everything wrong with it.

The only place that knows the wire names (K1-K5). Decoding is as strict about types and as lenient
about unknown fields as client-go (K9); null means absent. Nothing here raises for what a document
says: problems are returned, so that no traceback ever holds the document.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import TypeVar

from kubeauth._config._model import AuthProvider, Cluster, Context, ExecStanza, Kubeconfig, User
from kubeauth._parsing import MAX_PROBLEMS, Fields, Findings, Json, describe_type
from kubeauth._secret import FrozenDict, HiddenDict, Secret
from kubeauth.errors import Problem

_T = TypeVar("_T")

EXEC_GROUP = "client.authentication.k8s.io"
# v1 plugins must say interactiveMode; older versions did not have it (K12).
_IF_AVAILABLE_BY_DEFAULT = (f"{EXEC_GROUP}/v1beta1", f"{EXEC_GROUP}/v1alpha1")

_IS_IT_ONE = "Is this the file you meant? A kubeconfig begins with: apiVersion: v1, kind: Config"


def decode(document: Json, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """`document` as a Kubeconfig whose entries remember `origin`, or all that is wrong with it."""
    if document is None:
        return Kubeconfig(origins=(origin,) if origin else ())
    if not isinstance(document, dict):
        message = f"a kubeconfig must be a mapping, not {describe_type(document)}"
        return [Problem(message, origin or None, hint=_IS_IT_ONE)]
    findings = Findings(origin)
    fields = findings.fields_of(document)
    versions = fields.string("apiVersion") or "v1", fields.string("kind") or "Config"
    config = _kubeconfig(fields, origin)
    if findings.misfit_count > MAX_PROBLEMS:
        message = f"{findings.misfit_count:,} fields have the wrong type"
        return [Problem(message, origin or None, hint=_IS_IT_ONE)]
    if not findings.misfits and versions != ("v1", "Config"):
        message = "not a kubeconfig: apiVersion and kind must be v1 and Config"
        field = "apiVersion" if versions[0] != "v1" else "kind"
        return [Problem(message, origin or None, field, hint=_IS_IT_ONE)]
    return findings.misfits or findings.faults or config


def _kubeconfig(fields: Fields, origin: str) -> Kubeconfig:
    preferences = fields.within("preferences")
    # Neither is used, but a file in which they are not what they should be is refused (K9, K10).
    preferences.boolean("colors")
    _extensions(preferences)
    clusters = _named(fields, "clusters", lambda entry: _cluster(entry.within("cluster"), origin))
    users = _named(fields, "users", lambda entry: _user(entry.within("user"), origin))
    contexts = _named(fields, "contexts", lambda entry: _context(entry.within("context"), origin))
    current_context = fields.string("current-context")
    _extensions(fields)
    return Kubeconfig(
        clusters=clusters,
        users=users,
        contexts=contexts,
        current_context=current_context,
        current_context_origin=origin if current_context else "",
        origins=(origin,) if origin else (),
    )


def _named(fields: Fields, kind: str, decode_one: Callable[[Fields], _T]) -> dict[str, _T]:
    """A list of entries with names, by their names."""
    found: dict[str, _T] = {}
    for entry in fields.each(kind):
        name = entry.string("name")
        duplicate = found.get(name) is not None
        if duplicate:
            # Cut here already: an alias can repeat a long name ten thousand times.
            entry.refuse(
                f'duplicate name "{name:.1000}" in {kind}', "Remove or rename one of the two entries."
            )
        value = decode_one(entry)
        if entry.given and not duplicate:
            found[name] = value
    return found


def _extensions(fields: Fields) -> dict[str, Json]:
    return _named(fields, "extensions", lambda entry: entry.anything("extension"))


def _cluster(fields: Fields, origin: str) -> Cluster:
    return Cluster(
        server=fields.string("server"),
        tls_server_name=fields.string("tls-server-name"),
        insecure_skip_tls_verify=fields.boolean("insecure-skip-tls-verify"),
        certificate_authority=fields.string("certificate-authority"),
        certificate_authority_data=_bytes(fields, "certificate-authority-data"),
        proxy_url=fields.string("proxy-url"),
        disable_compression=fields.boolean("disable-compression"),
        extensions=_extensions(fields),
        origin=origin,
    )


def _user(fields: Fields, origin: str) -> User:
    user = User(
        client_certificate=fields.string("client-certificate"),
        client_certificate_data=_bytes(fields, "client-certificate-data"),
        client_key=fields.string("client-key"),
        client_key_data=Secret(_bytes(fields, "client-key-data")),
        token=Secret(fields.string("token")),
        token_file=fields.string("tokenFile"),
        impersonate=fields.string("as"),
        impersonate_uid=fields.string("as-uid"),
        impersonate_groups=fields.strings("as-groups"),
        impersonate_extra=_extra(fields.within("as-user-extra")),
        username=fields.string("username"),
        password=Secret(fields.string("password")),
        auth_provider=_auth_provider(fields.within("auth-provider")),
        exec=_exec(fields.within("exec")),
        origin=origin,
    )
    _extensions(fields)
    return user


def _extra(fields: Fields) -> FrozenDict[str, tuple[str, ...]]:
    return FrozenDict[str, tuple[str, ...]]((key, fields.strings(key)) for key in fields.names())


def _auth_provider(fields: Fields) -> AuthProvider | None:
    if not fields.given:
        return None
    name, config = fields.string("name"), fields.within("config")
    return AuthProvider(
        name=name, config=HiddenDict[str, str]((key, config.string(key)) for key in config.names())
    )


def _exec(fields: Fields) -> ExecStanza | None:
    if not fields.given:
        return None
    command, args = fields.string("command"), fields.strings("args")
    env = tuple((item.string("name"), item.string("value")) for item in fields.each("env"))
    api_version = fields.string("apiVersion")
    default_mode = "IfAvailable" if api_version in _IF_AVAILABLE_BY_DEFAULT else ""
    return ExecStanza(
        command=command,
        args=args,
        env=env,
        api_version=api_version,
        install_hint=fields.string("installHint"),
        provide_cluster_info=fields.boolean("provideClusterInfo"),
        interactive_mode=fields.string("interactiveMode") or default_mode,
    )


def _context(fields: Fields, origin: str) -> Context:
    context = Context(
        cluster=fields.string("cluster"),
        user=fields.string("user"),
        namespace=fields.string("namespace"),
        origin=origin,
    )
    _extensions(fields)
    return context


def _bytes(fields: Fields, name: str) -> bytes:
    text = fields.string(name)
    if not text:
        return b""
    try:
        # As Go: line breaks inside are skipped, anything else that is not base64 is an error.
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        hint = "*-data fields take base64 of the PEM text; for a path, use the field without -data."
        fields.refuse("not valid base64", hint, field=name)
        return b""
