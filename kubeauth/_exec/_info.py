"""KUBERNETES_EXEC_INFO as a plugin reads it: the JSON of an ExecCredential (X3-X7, X47). Pure.

Nothing here raises for what the text says: the problem is returned, so that no traceback ever holds the text.
"""

from __future__ import annotations

import binascii
from typing import Any, TypeVar

from kubeauth._exec._values import ExecCluster
from kubeauth._parsing import DocumentError, Json, read_json

GROUP = "client.authentication.k8s.io"
KIND = "ExecCredential"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"

_T = TypeVar("_T")
Asked = tuple[str, bool, ExecCluster | None]
"""Version, whether somebody can be asked, and the cluster."""


class _WrongField(Exception):
    """What is wrong with a field, without its value."""


def decode_exec_info(text: str) -> Asked | str:
    """What a client asks of a plugin, or what is wrong with it. As strict as Go; null means absent."""
    try:
        document = read_json(text.encode("utf-8", "surrogatepass"))
        return _wrong_kind(document) or _asked(document)
    except (DocumentError, _WrongField) as error:
        return f"decode: {error}. An {KIND} in JSON is wanted, as kubectl and kubeauth send it."


def _wrong_kind(document: Json) -> str | None:
    if type(document) is not dict:
        raise _WrongField("it is not an object")
    api_version, kind = _field(document, "", "apiVersion", str), _field(document, "", "kind", str)
    if not api_version or not kind:
        raise _WrongField(f"{'kind' if api_version else 'apiVersion'} is missing")
    group = api_version.rpartition("/")[0]
    if (group, kind) != (GROUP, KIND):
        got = " ".join(f"{kind}.{group}".rstrip(".").split())[:200]
        return f"invalid group/kind: wanted {KIND}.{GROUP}, got {got}. Is this what the client sent?"
    if api_version not in (V1, V1BETA1):
        raise _WrongField(f"apiVersion must be {V1} or {V1BETA1}")
    return None


def _asked(document: dict[str, Any]) -> Asked:
    # A client always sends a spec; who tries a plugin by hand need not.
    spec = _field(document, "", "spec", dict) or {}
    cluster = _field(spec, "spec.", "cluster", dict)
    interactive = bool(_field(spec, "spec.", "interactive", bool))
    return document["apiVersion"], interactive, None if cluster is None else _cluster(cluster)


def _cluster(document: dict[str, Any]) -> ExecCluster:
    at = "spec.cluster."
    return ExecCluster(
        server=_field(document, at, "server", str) or "",
        tls_server_name=_field(document, at, "tls-server-name", str) or "",
        insecure_skip_tls_verify=bool(_field(document, at, "insecure-skip-tls-verify", bool)),
        certificate_authority_data=_bytes(document, at, "certificate-authority-data"),
        proxy_url=_field(document, at, "proxy-url", str) or "",
        disable_compression=bool(_field(document, at, "disable-compression", bool)),
        config=document.get("config"),
    )


def _bytes(document: dict[str, Any], at: str, name: str) -> bytes:
    text = _field(document, at, name, str) or ""
    try:
        # As Go: line breaks inside are skipped, anything else that is not base64 is an error.
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        raise _WrongField(f"{at}{name} is not valid base64") from None


_WORDS: dict[type, str] = {str: "a string", bool: "true or false", dict: "an object"}


def _field(document: dict[str, Any], at: str, name: str, kind: type[_T]) -> _T | None:
    value = document.get(name)
    if value is not None and type(value) is not kind:
        raise _WrongField(f"{at}{name} must be {_WORDS[kind]}")
    return value
