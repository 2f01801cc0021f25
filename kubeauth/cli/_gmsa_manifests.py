"""`kubeauth gmsa manifests`: the webhook in a cluster, as YAML for kubectl."""

from __future__ import annotations

import argparse
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags, one_of
from kubeauth.cli._output import as_yaml, write
from kubeauth.errors import ConfigError, KubeAuthError

if TYPE_CHECKING:
    from kubeauth.gmsa._installation import Installation
    from kubeauth.gmsa._new_pair import NewPair

_LONGEST = 36500  # days
_SEPARATOR = b"---\n"
_IMAGE = """--image is needed: what the pods of the webhook run. kubeauth publishes none; this makes one:
  FROM python:3.13-slim
  RUN pip install 'kubeauth[gmsa]'"""


class Tls(StrEnum):
    generate = "generate"
    existing = "existing"
    cert_manager = "cert-manager"


class Options(Flags):
    image: str = ""
    replicas: int = 2
    exempt: list[str] | None = None
    compat: bool = False
    random_hostname: bool = False
    no_crd: bool = False
    tls: Tls = Tls.generate
    ca_bundle: str = ""
    days: int | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Of the global flags there is -v: no cluster is asked. For others: see `kubeauth --help`."
    parser.add_argument(
        "--image", metavar="IMAGE", help="what the pods run: has kubeauth[gmsa] installed (required)"
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="of the webhook, and of nobody else (default: gmsa-webhook)"
    )
    parser.add_argument("--replicas", metavar="N", type=_count, help="how many pods (default: 2)")
    parser.add_argument(
        "--exempt",
        metavar="NAMESPACE",
        action="append",
        help="do not look at the pods of this namespace; may be given again",
    )
    parser.add_argument(
        "--compat",
        action="store_true",
        help="decide as the webhook of kubernetes-sigs: init and ephemeral containers are not looked at",
    )
    parser.add_argument(
        "--random-hostname",
        action="store_true",
        help="give pods that name a credential spec, and have no hostname, a random one",
    )
    parser.add_argument(
        "--no-crd",
        action="store_true",
        help="leave out the custom resource definition: whoever deletes it deletes all credential specs",
    )
    tls = parser.add_argument_group("the certificate of the webhook")
    tls.add_argument(
        "--tls",
        metavar="HOW",
        type=one_of(Tls),
        choices=list(Tls),
        help="generate (default): a new one, printed with its key; existing: there is a Secret "
        "gmsa-webhook-tls; cert-manager: it makes one",
    )
    tls.add_argument(
        "--ca-bundle",
        metavar="PATH",
        help="PEM: the CA of the existing one; or, with a new one, older CAs to trust beside its own",
    )
    tls.add_argument("--days", metavar="N", type=_days, help="how long a new one is good (default: 3650)")


def run(options: Options) -> int:
    """Print what the GMSA webhook needs in a cluster, as YAML for `kubectl apply -f -`.

      kubeauth gmsa manifests --image registry.example/kubeauth:0.1 | kubectl apply -f -

    Custom resource, rights, certificate, two pods, and how the API server is told of them. It is asked only
    about pods that have something for Windows in them: if the webhook is down, no other pod is refused.
    Nothing that is there is deleted by it, neither the custom resource nor a credential spec.

    There is a private key in it, unless --tls says where else the certificate comes from.
    """
    if not options.image:
        raise _unusable(_IMAGE)
    if options.choose_a_cluster:
        raise _unusable("no cluster is asked here. Flags about one are for kubectl, which applies this.")
    installation = _installation(options)
    from kubeauth.gmsa._manifests import documents

    text = _SEPARATOR.join(as_yaml(each) for each in documents(installation))
    if installation.pair is not None and sys.stdout.isatty():
        tell("warning: there is a private key in this. It is meant for a pipe: ... | kubectl apply -f -")
    write(text)
    return Status.OK


def _installation(options: Options) -> Installation:
    from dataclasses import replace

    plain = _without_tls(options)
    if options.days is not None and options.tls is not Tls.generate:
        raise _unusable(f"--days is for a new certificate, and with --tls {options.tls} there is none.")
    if options.tls is Tls.cert_manager:
        if options.ca_bundle:
            raise _unusable("--ca-bundle would not count: cert-manager brings the CA of its own.")
        return plain
    bundle = _certificates(options.ca_bundle) if options.ca_bundle else b""
    if options.tls is Tls.existing:
        if not bundle:
            raise _unusable("--tls existing needs --ca-bundle: whom the API server is to trust.")
        return replace(plain, ca_bundle=bundle)
    pair = _new_pair(plain, options.days)
    # Until all pods have the new one, some show a certificate of the CA before.
    return replace(plain, pair=pair, ca_bundle=pair.ca + bundle)


def _without_tls(options: Options) -> Installation:
    from kubeauth.gmsa._installation import NAME, Installation

    try:
        return Installation(
            image=options.image,
            namespace=options.namespace or NAME,
            replicas=options.replicas,
            exempt=tuple(options.exempt or ()),
            compat=options.compat,
            random_hostname=options.random_hostname,
            with_crd=not options.no_crd,
        )
    except ConfigError as error:
        raise _unusable(str(error)) from None


def _new_pair(installation: Installation, days: int | None) -> NewPair:
    from datetime import UTC, datetime

    from kubeauth.gmsa._new_pair import DAYS, new_pair

    return new_pair(installation.server_names, now=datetime.now(UTC), days=days or DAYS)


def _certificates(path: str) -> bytes:
    """Those in a file, written anew: nothing else of it gets into the cluster."""
    from kubeauth._config.files import describe_os_error, read_file
    from kubeauth.discovery._pins import certificates

    try:
        data = read_file(path)
        found = certificates(data)
    except OSError as error:
        why = f"it cannot be read: {describe_os_error(error)}"
    except KubeAuthError as error:
        why = str(error).rstrip(".")
    else:
        if data.count(b"-----BEGIN ") == len(found):
            return b"".join(each.pem for each in found)
        why = "there is more in it than certificates, and a key does not belong there"
    raise Failed(f"error: --ca-bundle {path}: {why}.", Status.CONFIG)


def _unusable(message: str) -> Failed:
    return Failed(f"error: {message}\nSee `kubeauth gmsa manifests --help`.", Status.USAGE)


def _count(text: str) -> int:
    return _number(text, 1000)


def _days(text: str) -> int:
    return _number(text, _LONGEST)


def _number(text: str, most: int) -> int:
    # isdecimal takes digits of every script, and so does int.
    if text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {most}")
