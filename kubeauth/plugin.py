"""For authors of exec plugins: what a client asks for, and how to answer it.

    from datetime import timedelta
    from kubeauth import plugin

    def main(info: plugin.ExecInfo) -> plugin.Credential:
        return plugin.Credential(token=my_login(info.config), expires=timedelta(minutes=15))

    plugin.run(main)

kubectl, kubeauth and every other client run such a program, tell it what they want in KUBERNETES_EXEC_INFO,
and read an ExecCredential from its stdout. A plugin is started often, so little is imported here.
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
    f"{_VARIABLE} env var is unset or empty. This is an exec plugin: kubectl or kubeauth sets that and runs "
    f"it, as the kubeconfig says. To try it by hand, set {_VARIABLE} to "
    f"'{json.dumps({'apiVersion': V1, 'kind': KIND, 'spec': {'interactive': True}})}'"
)

_Text: TypeAlias = str | bytes | Secret[str] | Secret[bytes]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecInfo:
    """What the client that runs this plugin wants, and for which cluster. Printing it hides the cluster."""

    api_version: str = V1
    """The version that the answer must have."""
    interactive: bool = False
    """Whether stdin is there to ask a person; if not, it must be left alone."""
    cluster: ExecCluster | None = None
    """The cluster, if the kubeconfig's user says `provideClusterInfo: true`."""

    @property
    def config(self) -> Json:
        """Settings for this plugin: the cluster's extension `client.authentication.k8s.io/exec`, if any."""
        return self.cluster.config if self.cluster else None

    def client_config(self) -> ClientConfig:
        """How to reach the cluster, anonymously: there is no credential yet. ConfigError if unknown."""
        # Most plugins need none, and start faster without it.
        from kubeauth._config.exec_cluster import config_from_exec_cluster

        if self.cluster is None:
            raise ConfigError(
                "ExecCredential does not contain cluster information. "
                "Set provideClusterInfo: true beside the plugin's command in the kubeconfig."
            )
        return raise_if_error(config_from_exec_cluster(self.cluster))

    def __repr__(self) -> str:
        cluster = HIDDEN if self.cluster else None
        return f"ExecInfo({self.api_version!r}, interactive={self.interactive}, cluster={cluster})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credential:
    """What a plugin answers: a token, or a client certificate with its key, or both. Printing it hides them.

    Token, certificate and key are given as str, bytes or `Secret`.
    """

    token: _Text | None = None
    certificate: _Text | None = None
    """PEM: the leaf first, intermediates behind it."""
    key: _Text | None = None
    """PEM, and not encrypted."""
    expires: datetime | timedelta | None = None
    """When it is over: a datetime with a time zone, or how long from the moment it is printed. Without it,
    clients keep the credential until a server refuses it."""

    def __post_init__(self) -> None:
        for name in ("token", "certificate", "key"):
            value = getattr(self, name)
            if type(value) in (str, bytes):
                object.__setattr__(self, name, Secret(value))

    def __repr__(self) -> str:
        given = [f"{name}={HIDDEN}" for name in ("token", "certificate", "key") if getattr(self, name)]
        return f"Credential({', '.join([*given, f'expires={self.expires!r}'])})"


def read_exec_info(environ: Mapping[str, str] | None = None) -> ExecInfo:
    """What KUBERNETES_EXEC_INFO says. ConfigError if it is not set, or not what it should be."""
    text = (os.environ if environ is None else environ).get(_VARIABLE)
    found = _decoded(text) if text else ConfigError(_NOT_SET)
    # From here on nothing may raise from a frame that still holds the text.
    del environ, text
    return raise_if_error(found)


def parse_exec_info(text: str) -> ExecInfo:
    """The same from `text`: the JSON of an ExecCredential, v1 or v1beta1."""
    found = _decoded(text)
    del text
    return raise_if_error(found)


def print_credential(info: ExecInfo, credential: Credential, *, file: TextIO | None = None) -> None:
    """Writes the answer to `file`, or to stdout: one line, in the version that was asked for.

    Raises CredentialError or ClientCertificateError, and writes nothing, if a client would refuse it.
    """
    answer = raise_if_error(_answer(info, credential))
    print(answer.reveal(), file=file, flush=True)


def run(main: Callable[[ExecInfo], Credential]) -> NoReturn:
    """A plugin from start to end: asks `main` for the credential, prints it, and exits.

    If anything fails, stdout stays empty, stderr gets a line and the exit status is 1. To fail on purpose,
    raise an error of kubeauth: its message is shown. Of other exceptions only the type is, since their
    words may hold secrets; KUBEAUTH_PLUGIN_TRACEBACK=1 shows all. What `main`, or a program that it
    starts, prints to stdout goes to stderr.
    """
    run_program(read_exec_info, main, print_credential)


def _decoded(text: str) -> ExecInfo | ConfigError:
    asked = decode_exec_info(text)
    if isinstance(asked, str):
        return ConfigError(asked)
    api_version, interactive, cluster = asked
    return ExecInfo(api_version=api_version, interactive=interactive, cluster=cluster)


def _answer(info: ExecInfo, credential: object) -> Secret[str] | KubeAuthError:
    """The ExecCredential, or why a client would refuse it (X37-X42)."""
    if not isinstance(credential, Credential):
        return CredentialError(f"the plugin gave a {type(credential).__name__}, not a plugin.Credential.")
    texts = [_text(value) for value in (credential.token, credential.certificate, credential.key)]
    token, certificate, key = texts
    if token is None or certificate is None or key is None:
        name = ("token", "certificate", "key")[texts.index(None)]
        return CredentialError(f"the plugin's {name} is not text. Give a str, bytes in UTF-8, or a Secret.")
    if not (token or certificate or key):
        return CredentialError("the plugin gave neither a token nor a certificate with its key.")
    if bool(certificate) != bool(key):
        return CredentialError("the plugin gave only certificate or key, not both. Give the other as well.")
    if why := find_header_problem(token):
        return CredentialError(f"the plugin's token cannot be sent: {why}. Check where it comes from.")
    if certificate and (error := _pair_problem(certificate, key)):
        return error
    status = {"token": token, "clientCertificateData": certificate, "clientKeyData": key}
    if credential.expires is not None:
        status["expirationTimestamp"] = _timestamp(credential.expires)
        if not status["expirationTimestamp"]:
            return CredentialError(
                "the plugin's expires is of no use. Give a datetime with a time zone, such as "
                "datetime.now(UTC) + lifetime, or a timedelta; both end before the year 10000."
            )
    given = {name: value for name, value in status.items() if value}
    return Secret(json.dumps({"kind": KIND, "apiVersion": info.api_version, "status": given}))


def _text(value: object) -> str | None:
    """Empty if there is nothing, None if it is not text."""
    raw: object = value.reveal() if isinstance(value, Secret) else value
    try:
        if isinstance(raw, str):
            raw = raw.encode()
        return raw.decode() if isinstance(raw, bytes) else "" if raw is None else None
    except UnicodeError:
        return None


def _pair_problem(certificate: str, key: str) -> ClientCertificateError | None:
    from kubeauth._credentials.client_cert import check_client_cert

    try:
        check_client_cert(ClientCertificate(certificate.encode(), Secret(key.encode())))
    except ClientCertificateError as error:
        return error
    return None


def _timestamp(expires: object) -> str:
    """RFC 3339 in UTC, as Go writes it: in whole seconds, and rather too early than too late."""
    try:
        end = datetime.now(UTC) + expires if isinstance(expires, timedelta) else expires
        if isinstance(end, datetime) and end.utcoffset() is not None:
            return end.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    except OverflowError:
        pass
    return ""
