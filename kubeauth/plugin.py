"""SDK for exec plugins: read the client's request, and print the credential.

    from datetime import timedelta
    from kubeauth import plugin

    def main(info: plugin.ExecInfo) -> plugin.Credential:
        return plugin.Credential(token=my_login(info.config), expires=timedelta(minutes=15))

    plugin.run(main)

kubectl, kubeauth and other clients run a plugin with the request in the environment variable
KUBERNETES_EXEC_INFO, and read an ExecCredential from its stdout. A plugin is started often, so this module
imports little.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn, TextIO, TypeAlias

from kubeauth._credentials.credential import ClientCertificate, find_header_problem
from kubeauth._exec.codec import KIND, V1, decode_exec_info
from kubeauth._exec.config import ExecCluster
from kubeauth._exec.sdk import raise_if_error, run_program
from kubeauth._parsing import Json
from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import ClientCertificateError, ConfigError, CredentialError, KubeAuthError

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig

__all__ = [
    "Credential",
    "ExecCluster",
    "ExecInfo",
    "parse_exec_info",
    "print_credential",
    "read_exec_info",
    "run",
]

_VARIABLE = "KUBERNETES_EXEC_INFO"
_NOT_SET = (
    f"{_VARIABLE} env var is unset or empty. This program is an exec plugin: clients such as kubectl set the "
    f"variable and run it, as configured in the kubeconfig. To run it by hand, set {_VARIABLE} to "
    f"'{json.dumps({'apiVersion': V1, 'kind': KIND, 'spec': {'interactive': True}})}'"
)

_Text: TypeAlias = str | bytes | Secret[str] | Secret[bytes]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecInfo:
    """The client's request: which API version, and for which cluster. Its repr hides the cluster."""

    api_version: str = V1
    """The API version of the request, which the response must have, too."""
    interactive: bool = False
    """Whether the plugin may prompt the user on stdin. If not, it must not read stdin."""
    cluster: ExecCluster | None = None
    """The cluster, if the kubeconfig's user sets `provideClusterInfo: true`."""

    @property
    def config(self) -> Json:
        """Configuration for this plugin: the cluster's extension `client.authentication.k8s.io/exec`."""
        return self.cluster.config if self.cluster else None

    def client_config(self) -> ClientConfig:
        """Return a config for anonymous requests to the cluster. ConfigError if the cluster is unknown."""
        # Imported here: most plugins do not need it, and start faster without.
        from kubeauth._config.exec_cluster import config_from_exec_cluster

        if self.cluster is None:
            raise ConfigError(
                "ExecCredential does not contain cluster information. "
                "Set provideClusterInfo: true in users[].user.exec of the kubeconfig."
            )
        return raise_if_error(config_from_exec_cluster(self.cluster))

    def __repr__(self) -> str:
        cluster = HIDDEN if self.cluster else None
        return f"ExecInfo({self.api_version!r}, interactive={self.interactive}, cluster={cluster})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credential:
    """What a plugin returns: a token, a client certificate with its key, or both. Its repr hides them.

    Token, certificate and key may be str, bytes or `Secret`.
    """

    token: _Text | None = None
    certificate: _Text | None = None
    """PEM: the leaf first, then intermediates."""
    key: _Text | None = None
    """PEM, not encrypted."""
    expires: datetime | timedelta | None = None
    """When it expires: a datetime with a time zone, or a timedelta from the moment it is printed. Without it,
    clients cache the credential until a server rejects it."""

    def __post_init__(self) -> None:
        for name in ("token", "certificate", "key"):
            value = getattr(self, name)
            if type(value) in (str, bytes):
                object.__setattr__(self, name, Secret(value))

    def __repr__(self) -> str:
        hidden = [f"{name}={HIDDEN}" for name in ("token", "certificate", "key") if getattr(self, name)]
        return f"Credential({', '.join([*hidden, f'expires={self.expires!r}'])})"


def read_exec_info(environ: Mapping[str, str] | None = None) -> ExecInfo:
    """Return the request in KUBERNETES_EXEC_INFO. ConfigError if it is not set, or not valid."""
    text = (os.environ if environ is None else environ).get(_VARIABLE)
    info = _decode(text) if text else ConfigError(_NOT_SET)
    # Before anything is raised: a traceback must not contain a frame that holds the text.
    del environ, text
    return raise_if_error(info)


def parse_exec_info(text: str) -> ExecInfo:
    """As `read_exec_info`, from `text`: an ExecCredential in JSON, v1 or v1beta1."""
    info = _decode(text)
    del text
    return raise_if_error(info)


def print_credential(info: ExecInfo, credential: Credential, *, file: TextIO | None = None) -> None:
    """Print an ExecCredential to `file`, or to stdout: one line, in the API version of the request.

    Raises CredentialError or ClientCertificateError, and prints nothing, if a client would reject it.
    """
    output = raise_if_error(_encode(info, credential))
    print(output.reveal(), file=file, flush=True)


def run(main: Callable[[ExecInfo], Credential]) -> NoReturn:
    """Run a plugin: read the request, call `main`, print the credential it returns, and exit.

    On an error nothing is printed to stdout, one line to stderr, and the exit status is 1. To report an
    error, raise one of `kubeauth.errors`: its message is printed. Of other exceptions only the type is
    printed, since the message may contain secrets; KUBEAUTH_PLUGIN_TRACEBACK=1 prints the traceback. What
    `main`, or a program that it starts, prints to stdout goes to stderr.
    """
    run_program(read_exec_info, main, print_credential)


def _decode(text: str) -> ExecInfo | ConfigError:
    decoded = decode_exec_info(text)
    if isinstance(decoded, str):
        return ConfigError(decoded)
    api_version, interactive, cluster = decoded
    return ExecInfo(api_version=api_version, interactive=interactive, cluster=cluster)


def _encode(info: ExecInfo, credential: object) -> Secret[str] | KubeAuthError:
    """Return the ExecCredential, or why a client would reject it (X37-X42)."""
    if not isinstance(credential, Credential):
        return CredentialError(
            f"the plugin must return a plugin.Credential, but it returned a {type(credential).__name__}."
        )
    texts = [_to_text(value) for value in (credential.token, credential.certificate, credential.key)]
    token, certificate, key = texts
    if token is None or certificate is None or key is None:
        name = ("token", "certificate", "key")[texts.index(None)]
        return CredentialError(
            f"the plugin's {name} is not text. Pass str, UTF-8 bytes, or a Secret of them."
        )
    if not (token or certificate or key):
        return CredentialError("the plugin returned neither a token nor a certificate with its key.")
    if bool(certificate) != bool(key):
        return CredentialError("the plugin returned only certificate or key, not both. Return both.")
    if why := find_header_problem(token):
        return CredentialError(
            f"the plugin's token is not a valid HTTP header value: {why}. Check where it comes from."
        )
    if certificate and (error := _find_cert_error(certificate, key)):
        return error
    status = {"token": token, "clientCertificateData": certificate, "clientKeyData": key}
    if credential.expires is not None:
        status["expirationTimestamp"] = _format_expiry(credential.expires)
        if not status["expirationTimestamp"]:
            return CredentialError(
                "the plugin's expires is not valid. Pass a datetime with a time zone, such as "
                "datetime.now(UTC) + lifetime, or a timedelta; the expiry must be before the year 10000."
            )
    present = {name: value for name, value in status.items() if value}
    return Secret(json.dumps({"kind": KIND, "apiVersion": info.api_version, "status": present}))


def _to_text(value: object) -> str | None:
    """Return `value` as str, empty for None; None if it is not text."""
    raw: object = value.reveal() if isinstance(value, Secret) else value
    try:
        if isinstance(raw, str):
            raw = raw.encode()
        return raw.decode() if isinstance(raw, bytes) else "" if raw is None else None
    except UnicodeError:
        return None


def _find_cert_error(certificate: str, key: str) -> ClientCertificateError | None:
    from kubeauth._credentials.client_cert import check_client_cert

    try:
        check_client_cert(ClientCertificate(certificate.encode(), Secret(key.encode())))
    except ClientCertificateError as error:
        return error
    return None


def _format_expiry(expires: object) -> str:
    """Return RFC 3339 in UTC, as Go writes it, rounded down to seconds; empty if `expires` is not valid."""
    try:
        moment = datetime.now(UTC) + expires if isinstance(expires, timedelta) else expires
        if isinstance(moment, datetime) and moment.utcoffset() is not None:
            return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    except OverflowError:
        pass
    return ""
