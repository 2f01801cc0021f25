"""ExecCredential: what a plugin is told, and what it answers (X3-X7, X30-X42). Pure.

The only place that knows the wire names. Nothing here raises for what a plugin says: problems are returned,
so that no traceback ever holds its output.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

from kubeauth._exec._info import KIND, V1, V1BETA1
from kubeauth._exec._values import ExecCluster
from kubeauth._parsing import DocumentError, Json, read_json, read_yaml
from kubeauth._parsing.go import go_json, parse_rfc3339, sort_keys
from kubeauth._secret import Secret

API_VERSIONS = (V1, V1BETA1)


def exec_info(api_version: str, cluster: ExecCluster | None, *, interactive: bool) -> str:
    """The value of KUBERNETES_EXEC_INFO: one line of JSON, keys in client-go's order."""
    spec: dict[str, Json] = {"cluster": _cluster(cluster)} if cluster else {}
    spec["interactive"] = interactive
    return go_json({"kind": KIND, "apiVersion": api_version, "spec": spec}) + "\n"


def _cluster(cluster: ExecCluster) -> dict[str, Json]:
    optional: dict[str, Json] = {
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": b64encode(cluster.certificate_authority_data).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    said = {name: value for name, value in optional.items() if value}
    # client-go writes null where there is no extension (X7).
    return {"server": cluster.server, **said, "config": sort_keys(cluster.config)}


@dataclass(frozen=True, slots=True)
class PluginCredential:
    """What a plugin gave: a token, a certificate with its key, or both, and when they are over."""

    token: Secret[str] | None
    certificate: bytes | None = field(repr=False)
    key: Secret[bytes] | None
    expires: float | None
    """Seconds since 1970; None: until the server refuses it."""


@dataclass(frozen=True, slots=True)
class BadOutput:
    """Why a plugin's output is not usable, in client-go's words, and what to do about it."""

    reason: str
    advice: str


_NOT_ONE = (
    "A plugin must print one ExecCredential and nothing else on its standard output; run it by hand to see "
    "what it prints."
)
_OTHER_VERSION = (
    "Set apiVersion in users[].user.exec to what the plugin speaks, or install a version of it that speaks "
    "this one."
)


def read_output(data: bytes, api_version: str) -> PluginCredential | BadOutput:
    """The credential in a plugin's output."""
    # As Go: in JSON, bytes that are no text are taken for U+FFFD.
    text = data.decode("utf-8", "replace")
    try:
        # As client-go decides: what starts like JSON is JSON, with nothing behind it; all else is YAML.
        document = read_json(text.encode()) if text.lstrip().startswith("{") else read_yaml(data)
    except DocumentError as error:
        return BadOutput(f"decoding stdout: {error}", _NOT_ONE)
    return _credential(document, api_version)


def _credential(document: Json, api_version: str) -> PluginCredential | BadOutput:
    if document is None:
        document = {}
    if not isinstance(document, dict):
        return BadOutput("decoding stdout: not an object", _NOT_ONE)
    head = _strings(document, "apiVersion", "kind")
    if isinstance(head, BadOutput):
        return head
    version, kind = head
    if version and (version not in API_VERSIONS or kind not in ("", KIND)):
        # Its own words could be anything.
        shown = [part if part.isprintable() and len(part) < 100 else "?" for part in (kind or KIND, version)]
        return BadOutput(
            f'decoding stdout: no kind "{shown[0]}" is registered for version "{shown[1]}"', _NOT_ONE
        )
    if version != api_version:
        return BadOutput(
            f"exec plugin is configured to use API version {api_version}, plugin returned version "
            f"{version or 'none'}",
            # Who names none has not printed another one: mostly, it has printed nothing.
            _OTHER_VERSION if version else _NOT_ONE,
        )
    status = document.get("status")
    if status is None:
        return BadOutput("exec plugin didn't return a status field", _NOT_ONE)
    if not isinstance(status, dict):
        return BadOutput("decoding stdout: status is not an object", _NOT_ONE)
    return _status(status)


def _status(status: dict[str, Any]) -> PluginCredential | BadOutput:
    values = _strings(status, "token", "clientCertificateData", "clientKeyData")
    if isinstance(values, BadOutput):
        return values
    token, certificate, key = values
    if not (token or certificate or key):
        return BadOutput("exec plugin didn't return a token or cert/key pair", _NOT_ONE)
    if bool(certificate) != bool(key):
        return BadOutput(
            "exec plugin returned only certificate or key, not both", "It must print both, or neither."
        )
    expires = None
    timestamp = status.get("expirationTimestamp")
    if timestamp is not None:
        try:
            expires = parse_rfc3339(timestamp)
        except (TypeError, ValueError):
            return BadOutput(
                "decoding stdout: expirationTimestamp is not a time",
                "It must be RFC 3339 with a zone, as 2030-01-02T15:04:05Z.",
            )
    return PluginCredential(
        token=Secret(token) if token else None,
        certificate=certificate.encode() if certificate else None,
        key=Secret(key.encode()) if key else None,
        expires=expires,
    )


def _strings(values: dict[str, Any], *names: str) -> list[str] | BadOutput:
    """The values of these, empty for what is not there."""
    found: list[str] = []
    for name in names:
        value = values.get(name)
        if value is not None and not isinstance(value, str):
            return BadOutput(f"decoding stdout: {name} is not a string", _NOT_ONE)
        found.append(value or "")
    return found
