"""What the command line of `kubeauth discover` comes to: the arguments of `kubeauth.discovery.discover`."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from kubeauth._secret import Secret
from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from kubeauth.cli._discover import Options
    from kubeauth.discovery._arguments import Arguments

TOKEN_VARIABLE = "KUBEAUTH_BOOTSTRAP_TOKEN"  # noqa: S105 -- a name
STDIN = "-"
# As much of a line as could be a token, and more.
_LONGEST = 1024

# Global flags about a cluster that is known already. Somebody could think that they are obeyed.
_NOT_HERE = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "cluster": "--cluster",
    "user": "--user",
    "namespace": "--namespace",
    "server": "--server",
    "username": "--username",
    "password": "--password",
    "certificate_authority": "--certificate-authority",
    "client_certificate": "--client-certificate",
    "client_key": "--client-key",
    "tls_server_name": "--tls-server-name",
    "insecure_skip_tls_verify": "--insecure-skip-tls-verify",
    "disable_compression": "--disable-compression",
    "as_user": "--as",
    "as_uid": "--as-uid",
    "as_group": "--as-group",
    "as_user_extra": "--as-user-extra",
    "request_timeout": "--request-timeout",
}
# What errors call by the names of the library's arguments.
_FLAGS = {
    "endpoint": "HOST:PORT",
    "token": "--token",
    "file": "--file",
    "url": "--url",
    "ca_cert_hashes": "--ca-cert-hash",
    "unsafe_skip_ca_verification": "--unsafe-skip-ca-verification",
    "tls_bootstrap_token": "--tls-bootstrap-token",
    "mode": "--mode",
    "audience": "--audience",
    "timeout": "--timeout",
    "interval": "--interval",
    "overwrite": "--force",
}
_ARGUMENT = re.compile(rf'\b({"|".join(_FLAGS)})=(?:True|"(\w+)")?|\b(ca_cert_hashes)\b')


def arguments_of(options: Options) -> Arguments:
    """They are checked: Failed, in the words of the command line, for what makes no sense."""
    from kubeauth.discovery._arguments import Arguments

    for name, flag in _NOT_HERE.items():
        if name in vars(options):
            hint = " --file is for a kubeconfig to find one by, and --save for where to write it."
            raise unusable(
                f"{flag} is about a cluster that is known already, and discover finds one."
                f"{hint if name == 'kubeconfig' else ''}"
            )
    if options.endpoint and ":" not in options.endpoint:
        _check_word(options.endpoint)
    if options.force and options.save is None:
        raise unusable("--force is for --save, and that is not given")
    by_document = options.file is not None or options.url is not None
    given = _tokens(options)
    arguments = Arguments(
        endpoint=options.endpoint,
        # As kubeadm: --token is for both, where nothing else was said.
        token=given["discovery_token"] or (None if by_document else given["token"]),
        tls_bootstrap_token=given["tls_bootstrap_token"] or given["token"],
        file=options.file,
        url=options.url,
        ca_cert_hashes=tuple(pin for each in options.ca_cert_hash or () for pin in each.split(",")),
        unsafe_skip_ca_verification=options.unsafe_skip_ca_verification,
        mode=options.mode,
        audience=options.audience,
        timeout=options.timeout,
        interval=options.interval,
    )
    try:
        arguments.checked()
    except ConfigError as error:
        wrong = in_flags(str(error))
    else:
        return arguments
    raise unusable(wrong)


def _check_word(word: str) -> None:
    """It is no endpoint: perhaps it should be a command, or is a token."""
    from kubeauth.cli._app import meant_by
    from kubeauth.discovery._token import BootstrapToken

    if meant := meant_by(word, "discover"):
        raise unusable(f"this is no HOST:PORT. Did you mean `kubeauth discover {meant}`?")
    try:
        token = BootstrapToken.parse(word)
    except ConfigError:
        return
    raise unusable(f"{token} is no HOST:PORT. A token is given with --token; --token - reads it from stdin")


def unusable(what: str) -> Failed:
    """The command line makes no sense."""
    return Failed(
        f"error: {what}{'' if what.endswith(('.', '?')) else '.'}\nSee `kubeauth discover --help`.",
        Status.USAGE,
    )


def in_flags(message: str) -> str:
    """An error of the library, for whoever gave flags."""

    def flag(found: re.Match[str]) -> str:
        name, value, alone = found.groups()
        return f"{_FLAGS[alone or name]} {value or ''}".rstrip()

    return _ARGUMENT.sub(flag, message)


def _tokens(options: Options) -> dict[str, Secret[str] | None]:
    """Each by the flag that it is for. None: not given."""
    given = {
        "token": options.token or Secret(os.environ.get(TOKEN_VARIABLE, "")),
        "discovery_token": options.discovery_token,
        "tls_bootstrap_token": options.tls_bootstrap_token,
    }
    from_stdin = [name for name, token in given.items() if token.reveal() == STDIN]
    if len(from_stdin) + (options.file == STDIN) > 1:
        raise unusable("stdin (-) can be read once: for one token, or for --file")
    return {
        name: (token_from_stdin() if name in from_stdin else token) or None for name, token in given.items()
    }


def token_from_stdin() -> Secret[str]:
    """A line of it. A person is asked, and does not see what is typed."""
    token = Secret("")
    if sys.stdin is not None and sys.stdin.isatty():
        from getpass import getpass

        try:
            token = Secret(getpass("Bootstrap token: ").strip())
        except EOFError:
            pass
        except KeyboardInterrupt:
            tell("")  # what comes next does not begin behind the question
            raise
    elif sys.stdin is not None:
        token = Secret(sys.stdin.buffer.readline(_LONGEST).decode(errors="replace").strip())
    if not token:
        raise Failed("error: there is no token on stdin.", Status.USAGE)
    return token
