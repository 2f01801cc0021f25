"""`kubeauth discover pin`: what `--ca-cert-hash` of `discover`, or of kubeadm, would be."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._discover import width_of_stdout
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, add_output
from kubeauth.cli._output import as_json, write, write_text
from kubeauth.cli._reading import STDIN, read_given
from kubeauth.cli._tables import Columns, fitted

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig
    from kubeauth.cli._discover_certificates import Described
    from kubeauth.discovery._pins import Certificate


class Output(StrEnum):
    pin = "pin"
    table = "table"
    json = "json"


class Options(Flags):
    paths: list[str] | None = None
    output: Output | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="CERT",
        nargs="*",
        help="certificates, PEM or DER; - is stdin (default: the CA of the kubeconfig's cluster)",
    )
    add_output(parser, Output, "table (default on a terminal), pin (default else) or json")


def run(options: Options) -> int:
    """Print the pin of each certificate: sha256: and 64 digits, the hash of its public key.

    `kubeauth discover --ca-cert-hash` and `kubeadm join --discovery-token-ca-cert-hash` take it. It is the
    same for every certificate of the same key. Of several, each pin is followed by whose it is.

      kubeauth discover pin /etc/kubernetes/pki/ca.crt
    """
    from kubeauth.cli._discover_certificates import described

    if options.paths:
        found = [each for path in options.paths for each in _certificates(read_given(path), path)]
    else:
        found = _certificates(*_authority(options.config()))
    write_described(described(found, time.time()), options.output)
    return Status.OK


def write_described(certificates: Sequence[Described], output: Output | None) -> None:
    width = width_of_stdout()
    if output is Output.json:
        write(as_json([each.facts for each in certificates]))
    elif output is Output.table or (output is None and width is not None):
        write_text(fitted(_rows(certificates), width))
    elif len(certificates) == 1:
        write_text(f"{certificates[0].pin}\n")
    else:
        write_text(Columns().text((each.pin, each.subject) for each in certificates))


def _rows(certificates: Sequence[Described]) -> Iterator[tuple[str, ...]]:
    # Of names so short that a pin fits beside them in 80 columns, where each is on a line of its own.
    yield "PIN", "ENDS", "WHOSE"
    for each in certificates:
        yield each.pin, each.ends, each.subject


def _authority(config: ClientConfig) -> tuple[bytes, str]:
    """The CA that the kubeconfig trusts, and where it stands."""
    if config.ca_data:
        return config.ca_data, "the CA in the kubeconfig"
    if config.ca_file:
        return read_given(config.ca_file), config.ca_file
    raise Failed(
        "error: the kubeconfig names no CA for this cluster, so there is nothing to pin. Give a certificate: "
        "`kubeauth discover pin ca.crt`.",
        Status.CONFIG,
    )


def _certificates(data: bytes, path: str) -> list[Certificate]:
    from kubeauth.discovery._pins import certificates
    from kubeauth.errors import KubeAuthError

    try:
        return certificates(data if b"-----BEGIN" in data else _pem(data))
    except KubeAuthError as error:
        why = str(error).rstrip(".")
    hint = (
        " For the CA of a kubeconfig: `kubeauth discover pin --kubeconfig PATH`." if _is_config(data) else ""
    )
    raise Failed(f"error: {'stdin' if path == STDIN else path}: {why}.{hint}")


def _is_config(data: bytes) -> bool:
    """Whether it looks like a kubeconfig, in YAML or JSON."""
    return b"clusters" in data and b"contexts" in data


def _pem(der: bytes) -> bytes:
    """For whoever reads PEM alone. Whether it is a certificate is seen there."""
    from kubeauth.discovery._pins import public_key_pin

    public_key_pin(der)
    from ssl import DER_cert_to_PEM_cert

    return DER_cert_to_PEM_cert(der).encode()
