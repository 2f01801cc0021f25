"""`kubeauth discover`: a cluster that is not known yet, found safely, and the kubeconfig for it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth._secret import Secret
from kubeauth.cli._discover_given import STDIN, TOKEN_VARIABLE, in_flags
from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags, add_output, one_of
from kubeauth.cli._output import as_json, as_yaml, write, write_text
from kubeauth.errors import ClusterNotReady, ClusterNotTrusted, ConfigError

if TYPE_CHECKING:
    from kubeauth.discovery._arguments import Arguments, Mode
    from kubeauth.discovery._result import Discovered

_UNPINNED = (
    "the CA was not pinned: whoever has the token could have pretended to be this cluster. Compare the "
    "pin with what whoever runs the cluster tells you."
)
# What a cluster that kubeadm has not set up, or not for tokens, has in common with somebody else's server.
_NOT_PUBLISHED = (
    "If this is the API server of the cluster that you mean, it does not publish itself to strangers: "
    "`kubeadm init phase bootstrap-token` makes it do so."
)


class Output(StrEnum):
    table = "table"
    kubeconfig = "kubeconfig"
    json = "json"


class Modes(StrEnum):
    shipped = "shipped"
    seed = "seed"


class Options(Flags):
    endpoint: str | None = None
    discovery_token: Secret[str] = Secret("")
    tls_bootstrap_token: Secret[str] = Secret("")
    ca_cert_hash: list[str] | None = None
    unsafe_skip_ca_verification: bool = False
    file: str | None = None
    url: str | None = None
    mode: Mode = "shipped"
    audience: str | None = None
    timeout: float = 300.0
    interval: float = 5.0
    save: str | None = None
    force: bool = False
    output: Output = Output.table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Of the global flags there is -v: the others are about clusters that are known."
    parser.add_argument(
        "endpoint", metavar="HOST:PORT", nargs="?", help="the API server, for discovery by a token"
    )
    by_token = parser.add_argument_group("by a token")
    by_token.add_argument(
        "--token",
        metavar="TOKEN",
        type=Secret[str],
        help="the bootstrap token; - reads it from stdin, for ps shows what stands here "
        f"(default: ${TOKEN_VARIABLE})",
    )
    by_token.add_argument(
        "--discovery-token",
        metavar="TOKEN",
        type=Secret[str],
        help="another one to discover with, not to join",
    )
    by_token.add_argument(
        "--ca-cert-hash",
        "--discovery-token-ca-cert-hash",
        metavar="PIN",
        action="append",
        help="a public key of the cluster's CA: sha256: and 64 hex digits; may be given again",
    )
    by_token.add_argument(
        "--unsafe-skip-ca-verification",
        "--discovery-token-unsafe-skip-ca-verification",
        action="store_true",
        help="go without: whoever has the token can pretend to be the cluster",
    )
    by_token.add_argument(
        "--mode",
        type=one_of(Modes),
        choices=list(Modes),
        metavar="MODE",
        help="shipped (default): what Kubernetes signs; seed: the whole answer is signed, and the question",
    )
    by_token.add_argument("--audience", metavar="ID", help="which cluster is meant, with --mode seed")
    by_document = parser.add_argument_group("by a kubeconfig")
    by_document.add_argument(
        "--file",
        "--discovery-file",
        "--cluster-info-file",
        metavar="PATH",
        help="that somebody gave you; - is stdin, and an https URL is as --url",
    )
    by_document.add_argument(
        "--url",
        "--cluster-info-url",
        metavar="URL",
        help="that an https server has, which this system trusts",
    )
    result = parser.add_argument_group("what comes of it")
    result.add_argument(
        "--tls-bootstrap-token",
        metavar="TOKEN",
        type=Secret[str],
        help="sign in with this token (default: with --token, else with what the kubeconfig has)",
    )
    result.add_argument("--save", metavar="PATH", help="write the kubeconfig to a file, for its owner alone")
    result.add_argument("--force", action="store_true", help="even if there is a file")
    add_output(parser, Output, "table (default), json, or kubeconfig: the only one with its secrets")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=seconds,
        help="for all of it: 30s, 2m; 0 is for one try (default: 5m)",
    )
    parser.add_argument(
        "--interval", metavar="TIME", type=seconds, help="between one try and the next (default: 5s)"
    )


def run(options: Options) -> int:
    """Find a cluster that is not known yet, as `kubeadm join` does, and say whom to trust there.

    By a token: the API server at HOST:PORT is asked for what it publishes. That is believed if it is signed
    with the token, and if its CA has one of the pins. By a kubeconfig, from a file or by https: it is tried
    against the server that it names.

      kubeauth discover 192.0.2.10:6443 --token - --ca-cert-hash sha256:... --save bootstrap.conf

    kubeadm's names of these flags do as well. A server that is not there yet is asked again. Exits with 5 if
    it does not answer as it should in time, and with 1 if its answer must not be believed.
    """
    from kubeauth.cli._discover_given import arguments_of

    arguments = arguments_of(options)
    if options.save is not None:
        _check_place(options.save, options.force)
    found = _found(arguments, options)
    if options.save is not None:
        _save(found, options.save, options.force)
    unpinned = [_UNPINNED] if found.method == "token" and not arguments.ca_cert_hashes else []
    _print(found, [*found.warnings, *unpinned], options)
    return Status.OK


def seconds(text: str) -> float:
    """For `type=`: a duration as Go has it, or whole seconds."""
    from kubeauth._parsing.go import parse_timeout

    try:
        return parse_timeout(text) or 0.0
    except ConfigError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no time: write 30s, 2m or 1h30m")


def width_of_stdout() -> int | None:
    """Of the terminal; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _found(arguments: Arguments, options: Options) -> Discovered:
    from kubeauth.cli._discover_progress import progress
    from kubeauth.discovery._discover import discover

    status, said = Status.FAILED, ""
    try:
        with progress(options.verbosity) as told:
            return discover(
                arguments.endpoint,
                token=arguments.token,
                file=arguments.file,
                url=arguments.url,
                ca_cert_hashes=arguments.ca_cert_hashes,
                unsafe_skip_ca_verification=arguments.unsafe_skip_ca_verification,
                tls_bootstrap_token=arguments.tls_bootstrap_token,
                mode=options.mode,
                audience=arguments.audience,
                timeout=arguments.timeout,
                interval=arguments.interval,
                progress=told,
            )
    except ClusterNotReady as error:
        status, said = Status.UNREACHABLE, str(error)
        if arguments.endpoint is not None and error.status_code in (403, 404):
            said += f"\n{_NOT_PUBLISHED}"
    except ClusterNotTrusted as error:
        said = str(error)
    except ConfigError as error:
        status, said = Status.CONFIG, str(error)
    raise Failed(f"error: {in_flags(said)}", status)


def _check_place(path: str, force: bool) -> None:
    """At once, and not after minutes of waiting."""
    why = ""
    if path == STDIN:
        why = "-o kubeconfig prints it. Name a file."
    elif os.path.lexists(path) and not force:
        why = "there is a file already. Choose another path, or say --force."
    elif not os.path.isdir(os.path.dirname(path) or os.curdir):
        why = "there is no such directory. Make it, or choose another path."
    elif os.path.isdir(path):
        why = "it is a directory. Name a file in it."
    if why:
        raise Failed(f"error: the kubeconfig cannot be written to {path}: {why}", Status.CONFIG)


def _save(found: Discovered, path: str, force: bool) -> None:
    try:
        found.save(path, overwrite=force)
    except ConfigError as error:
        raise Failed(f"error: {in_flags(str(error))}", Status.CONFIG) from None


def _print(found: Discovered, warnings: list[str], options: Options) -> None:
    if options.output is Output.kubeconfig:
        for warning in warnings:
            tell(f"Warning: {warning}")
        write(as_yaml(found.kubeconfig))
        return
    from kubeauth.cli._discover_certificates import described
    from kubeauth.cli._discover_report import as_document, as_table
    from kubeauth.discovery._pins import certificates

    authorities = described(certificates(found.config.ca_data or b""), time.time())
    if options.output is Output.json:
        write(as_json(as_document(found, authorities, warnings, options.save)))
        return
    method = _method(found, options)
    write_text(
        as_table(found, authorities, warnings, method=method, saved=options.save, width=width_of_stdout())
    )


def _method(found: Discovered, options: Options) -> str:
    from urllib.parse import urlsplit

    if found.method == "file":
        return "file, from stdin" if options.file == STDIN else f"file {options.file}"
    if found.method == "url":
        # Not all of it: what lets one have a document may be in its query.
        return f"url, from {urlsplit(options.url or options.file or '').netloc}"
    pinned = "token, and a CA that is pinned" if options.ca_cert_hash else "token alone"
    return pinned if options.mode == "shipped" else f"{pinned}, in the seed's mode"
