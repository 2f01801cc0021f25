"""Documents that are at hand already: bytes, or a dict somebody parsed."""

from __future__ import annotations

from collections.abc import Mapping

from kubeauth._config._decode import decode
from kubeauth._config._files import KUBECONFIG_LIMIT
from kubeauth._config._model import Kubeconfig
from kubeauth._parsing import DocumentError, copy_plain, read_document
from kubeauth.errors import Problem

_NOT_A_DOCUMENT = "A kubeconfig is YAML or JSON text; compare with the output of: kubectl config view"


def decode_bytes(data: bytes, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """A kubeconfig in YAML or JSON; empty text is an empty config (K8)."""
    try:
        document = read_document(data, limit=KUBECONFIG_LIMIT)
    except DocumentError as error:
        return [Problem(str(error), origin or None, hint=_NOT_A_DOCUMENT)]
    return decode(document, origin=origin)


def decode_mapping(document: Mapping[str, object]) -> Kubeconfig | list[Problem]:
    """A kubeconfig that was parsed elsewhere, copied so that later changes to it do not matter."""
    try:
        copied = copy_plain(document)
    except DocumentError as error:
        return [Problem(str(error), hint="Pass what yaml.safe_load or json.load made of a kubeconfig.")]
    return decode(copied)
