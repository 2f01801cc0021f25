"""ExecCredential: KUBERNETES_EXEC_INFO and a plugin's output (X3-X7, X30-X42, X47).

Pure, and the only module that knows the field names. Functions return problems instead of raising them, so
that no traceback contains a plugin's output.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubeauth._exec.config import ExecCluster
from kubeauth._parsing import DocumentError, InvalidField, Json, read_field, read_json, read_yaml
from kubeauth._parsing.go import go_json, sort_keys
from kubeauth._secret import Secret

if TYPE_CHECKING:
    from kubeauth._parsing.models import Invalid
    from kubeauth.schemas._exec_credential import ExecCredentialStatus

GROUP = "client.authentication.k8s.io"
KIND = "ExecCredential"
V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"

DecodedExecInfo = tuple[str, bool, ExecCluster | None]
"""API version, whether the plugin may prompt, and the cluster."""


def decode_exec_info(text: str) -> DecodedExecInfo | str:
    """Decode KUBERNETES_EXEC_INFO, or return why it is invalid. As strict as Go; null means absent."""
    try:
        document = read_json(text.encode("utf-8", "surrogatepass"))
        return _check_kind(document) or _decode_spec(document)
    except (DocumentError, InvalidField) as error:
        return f"decode: {error}. It must be an {KIND} in JSON, as kubectl and kubeauth send it."


def _check_kind(document: Json) -> str | None:
    if type(document) is not dict:
        raise InvalidField("it is not an object")
    api_version, kind = read_field(document, "", "apiVersion", str), read_field(document, "", "kind", str)
    if not api_version or not kind:
        raise InvalidField(f"{'kind' if api_version else 'apiVersion'} is missing")
    group = api_version.rpartition("/")[0]
    if (group, kind) != (GROUP, KIND):
        got = " ".join(f"{kind}.{group}".rstrip(".").split())[:200]
        return f"invalid group/kind: wanted {KIND}.{GROUP}, got {got}. Is this what the client sent?"
    if api_version not in (V1, V1BETA1):
        raise InvalidField(f"apiVersion must be {V1} or {V1BETA1}")
    return None


def _decode_spec(document: dict[str, Any]) -> DecodedExecInfo:
    # Clients always send a spec; a user who runs the plugin by hand may omit it.
    spec = read_field(document, "", "spec", dict) or {}
    cluster = read_field(spec, "spec.", "cluster", dict)
    interactive = bool(read_field(spec, "spec.", "interactive", bool))
    return document["apiVersion"], interactive, None if cluster is None else _decode_cluster(cluster)


def _decode_cluster(document: dict[str, Any]) -> ExecCluster:
    parent = "spec.cluster."
    return ExecCluster(
        server=read_field(document, parent, "server", str) or "",
        tls_server_name=read_field(document, parent, "tls-server-name", str) or "",
        insecure_skip_tls_verify=bool(read_field(document, parent, "insecure-skip-tls-verify", bool)),
        certificate_authority_data=_read_bytes(document, parent, "certificate-authority-data"),
        proxy_url=read_field(document, parent, "proxy-url", str) or "",
        disable_compression=bool(read_field(document, parent, "disable-compression", bool)),
        config=document.get("config"),
    )


def _read_bytes(document: dict[str, Any], parent: str, name: str) -> bytes:
    text = read_field(document, parent, name, str) or ""
    try:
        # As Go: line breaks are skipped, anything else that is not base64 is an error.
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        raise InvalidField(f"{parent}{name} is not valid base64") from None


API_VERSIONS = (V1, V1BETA1)


def encode_exec_info(api_version: str, cluster: ExecCluster | None, *, interactive: bool) -> str:
    """Return the value of KUBERNETES_EXEC_INFO: one line of JSON with keys in client-go's order."""
    spec: dict[str, Json] = {"cluster": _encode_cluster(cluster)} if cluster else {}
    spec["interactive"] = interactive
    return go_json({"kind": KIND, "apiVersion": api_version, "spec": spec}) + "\n"


def _encode_cluster(cluster: ExecCluster) -> dict[str, Json]:
    optional: dict[str, Json] = {
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": b64encode(cluster.certificate_authority_data).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    present = {name: value for name, value in optional.items() if value}
    # client-go writes null where there is no extension (X7).
    return {"server": cluster.server, **present, "config": sort_keys(cluster.config)}


@dataclass(frozen=True, slots=True)
class ProviderCredential:
    """The response of a plugin or OIDC issuer: a token, a client certificate, or both, and their expiry."""

    token: Secret[str] | None
    certificate: bytes | None = field(repr=False)
    key: Secret[bytes] | None
    expires: float | None
    """Seconds since 1970; None: valid until a 401."""


@dataclass(frozen=True, slots=True)
class InvalidOutput:
    """Why a plugin's output is invalid, as client-go reports it, and what to do about it."""

    reason: str
    advice: str


_PRINT_ONE = (
    "A plugin must print one ExecCredential and nothing else on its standard output; run it by hand to see "
    "what it prints."
)
_SET_VERSION = (
    "Set apiVersion in users[].user.exec to the version that the plugin supports, or install a plugin that "
    "supports this one."
)


def load_models() -> None:
    """Import and build the model of a plugin's output. It takes time: call it while the plugin runs."""
    from kubeauth.schemas._exec_credential import ExecCredential

    ExecCredential.model_rebuild()


def decode_output(data: bytes, api_version: str) -> ProviderCredential | InvalidOutput:
    """Return the credential in a plugin's output, or why it is invalid."""
    # As Go: in JSON, bytes that are not UTF-8 become U+FFFD.
    text = data.decode("utf-8", "replace")
    try:
        # As client-go: output that starts with { is JSON, with nothing after it; anything else is YAML.
        document = read_json(text.encode()) if text.lstrip().startswith("{") else read_yaml(data)
    except DocumentError as error:
        return InvalidOutput(f"decoding stdout: {error}", _PRINT_ONE)
    return _decode_credential(document, api_version)


def _decode_credential(document: Json, api_version: str) -> ProviderCredential | InvalidOutput:
    # Here, because plugins that are written with kubeauth.plugin import this module, too.
    from kubeauth._parsing.models import Invalid, validate_document
    from kubeauth.schemas._exec_credential import ExecCredential

    head = (document.get("apiVersion"), document.get("kind")) if type(document) is dict else None
    if head != (api_version, KIND) and (problem := _check_head(document, api_version)):
        return problem
    output = validate_document(ExecCredential, document)
    if isinstance(output, Invalid):
        return _describe(output)
    if output.status is None:
        return InvalidOutput("exec plugin didn't return a status field", _PRINT_ONE)
    return _build_credential(output.status)


def _check_head(document: Json, api_version: str) -> InvalidOutput | None:
    """Return why the output is no ExecCredential of this version. As in client-go, the kind may be empty."""
    from kubeauth._parsing.models import Invalid, TypeMeta, validate_document

    head = validate_document(TypeMeta, document)
    if isinstance(head, Invalid):
        return _describe(head)
    version, kind = head.api_version, head.kind
    if version and (version not in API_VERSIONS or kind not in ("", KIND)):
        # Untrusted text.
        shown = [part if part.isprintable() and len(part) < 100 else "?" for part in (kind or KIND, version)]
        return InvalidOutput(
            f'decoding stdout: no kind "{shown[0]}" is registered for version "{shown[1]}"', _PRINT_ONE
        )
    if version != api_version:
        return InvalidOutput(
            f"exec plugin is configured to use API version {api_version}, plugin returned version "
            f"{version or 'none'}",
            # No version usually means no output.
            _SET_VERSION if version else _PRINT_ONE,
        )
    return None


def _describe(invalid: Invalid) -> InvalidOutput:
    problem = invalid.problems[0]
    hint = _PRINT_ONE if invalid.type_problems else problem.hint or _PRINT_ONE
    place = f"{problem.field}: " if problem.field else ""
    return InvalidOutput(f"decoding stdout: {place}{problem.message}", hint)


def _build_credential(status: ExecCredentialStatus) -> ProviderCredential | InvalidOutput:
    certificate, key = status.client_certificate_data, status.client_key_data
    if not (status.token or certificate or key):
        return InvalidOutput("exec plugin didn't return a token or cert/key pair", _PRINT_ONE)
    if bool(certificate) != bool(key):
        return InvalidOutput(
            "exec plugin returned only certificate or key, not both", "It must print both, or neither."
        )
    return ProviderCredential(
        token=status.token or None,
        certificate=certificate.encode() if certificate else None,
        key=Secret(key.reveal().encode()) if key else None,
        expires=status.expiration_timestamp.timestamp() if status.expiration_timestamp else None,
    )
