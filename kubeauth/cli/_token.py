"""`kubeauth token`: what a request would be signed with now, for a script or for another client."""

from __future__ import annotations

import argparse
import os
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags, add_output

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig
    from kubeauth._credentials.credential import Credential
    from kubeauth._credentials.credential import Status as CredentialStatus
    from kubeauth._exec.config import ExecOptions
    from kubeauth._secret import Secret
    from kubeauth.plugin import ExecInfo

_INFO = "KUBERNETES_EXEC_INFO"
# A kubeconfig whose plugin is this command, for that very kubeconfig, would start one after the other.
_DEPTH = "KUBEAUTH_TOKEN_DEPTH"
_MOST = 3

_BEARER = "Bearer "


class Output(StrEnum):
    json = "json"
    yaml = "yaml"


class Options(Flags):
    output: Output | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_output(
        parser,
        Output,
        "json or yaml: an ExecCredential, with the client certificate and its key if there is one",
    )


def run(options: Options) -> int:
    """Print the token that a request would be signed with now.

    It is had as for a request: from the kubeconfig, from a file, from the plugin, which is run, or from the
    OIDC issuer. No request is sent to the cluster.

    With -o json it is an ExecCredential, in the version that KUBERNETES_EXEC_INFO asks for: so this command
    can be the exec plugin of any other client.

      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: kubeauth
        args: [token, -o, json, --context, prod]
        interactiveMode: IfAvailable
    """
    from kubeauth.cli._output import write

    asked = _asked()
    config = options.config(_exec_options(asked))
    credential, status = _obtained(config)
    if options.output is None:
        write(_token(credential, status).encode() + b"\n")
    else:
        write(_exec_credential(asked, credential, status, options.output).reveal())
    if status.last_error:  # it is the best there is, and no good: over already, for one
        tell(f"warning: {status.last_error}")
    return Status.OK


def _asked() -> ExecInfo | None:
    """What the client wants that runs this as its plugin; None if none does."""
    if not os.environ.get(_INFO):
        return None
    from kubeauth.plugin import read_exec_info

    depth = os.environ.get(_DEPTH, "")
    before = int(depth) if depth.isdecimal() else 0
    if before >= _MOST:
        raise Failed(
            f"error: kubeauth token was run by itself {before} times over: it is the plugin of the very user "
            "whose token it is to print. Say in its args whose it should be, with --kubeconfig, --context or "
            "--user.",
            Status.CONFIG,
        )
    os.environ[_DEPTH] = str(before + 1)
    return read_exec_info()


def _exec_options(asked: ExecInfo | None) -> ExecOptions | None:
    """A plugin of ours may ask a person if we may."""
    if asked is None or asked.interactive:
        return None
    from kubeauth._exec.config import ExecOptions

    message = f"{_INFO} says that this is not interactive"
    return ExecOptions(stdin_unavailable=True, stdin_unavailable_message=message)


def _obtained(config: ClientConfig) -> tuple[Credential, CredentialStatus]:
    from kubeauth._transport.base import get_source
    from kubeauth._transport.redaction import redact_library_logs

    redact_library_logs()
    source = get_source(config)
    return source.get(), source.status()


def _token(credential: Credential, status: CredentialStatus) -> str:
    header = credential.authorization or ""
    if header.startswith(_BEARER):
        return header.removeprefix(_BEARER)
    raise _none(credential, status)


def _exec_credential(
    asked: ExecInfo | None, credential: Credential, status: CredentialStatus, output: Output
) -> Secret[bytes]:
    from io import StringIO

    from kubeauth import plugin
    from kubeauth._secret import Secret

    header, identity = credential.authorization or "", credential.client_certificate
    if identity is None and not header.startswith(_BEARER):
        raise _none(credential, status)
    given = plugin.Credential(
        token=header.removeprefix(_BEARER) if header.startswith(_BEARER) else None,
        certificate=identity.certificate if identity else None,
        key=identity.key if identity else None,
        expires=status.expires,
    )
    text = StringIO()
    plugin.print_credential(asked or plugin.ExecInfo(), given, file=text)
    if output is Output.json:
        return Secret(text.getvalue().encode())
    import json

    from kubeauth.cli._output import as_yaml

    return Secret(as_yaml(json.loads(text.getvalue())))


def _none(credential: Credential, status: CredentialStatus) -> Failed:
    """Why there is nothing to print, and what to do."""
    if credential.client_certificate is not None:
        what = f"the credential is a client certificate ({status.source}), and has no token"
        todo = "`kubeauth token -o json` prints the certificate, with its key."
    elif credential.authorization:
        what = f"the credential is a name and a password ({status.source}), and has no token"
        todo = "No other client takes that from a plugin. Choose another user with --user or --context."
    else:
        what = "the user of this kubeconfig has no credential: requests are sent without one"
        todo = "Choose another with --user or --context."
    return Failed(f"error: {what}. {todo}", Status.CREDENTIAL)
