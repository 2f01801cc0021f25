"""What the commands of `kubeauth registry` have in common: where the providers are, and which image."""

from __future__ import annotations

import argparse
import os
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags

if TYPE_CHECKING:
    from kubeauth.registry._cluster_accounts import ClusterServiceAccounts
    from kubeauth.registry._providers import CredentialProviders
    from kubeauth.registry._reference import ImageReference

CONFIG_VARIABLE = "KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG"
BIN_DIR_VARIABLE = "KUBEAUTH_CREDENTIAL_PROVIDER_BIN_DIR"
# From this -v on, it is logged how things went.
_TOLD_ALL = 4


class Output(StrEnum):
    table = "table"
    json = "json"


class ProviderFlags(Flags):
    """Where the configuration of the providers is, and their programs.

    The kubelet has no default for either, so none is guessed.
    """

    provider_config: str = ""
    provider_bin_dir: str = ""

    @property
    def has_providers(self) -> bool:
        """Whether anything was said about them."""
        return bool(self.config_path or self.bin_dir)

    @property
    def config_path(self) -> str:
        return self.provider_config or os.environ.get(CONFIG_VARIABLE, "")

    @property
    def bin_dir(self) -> str:
        return self.provider_bin_dir or os.environ.get(BIN_DIR_VARIABLE, "")

    def needed_config_path(self) -> str:
        """The same; Failed if nobody has said."""
        return self.config_path or _missing("a configuration", "--config", CONFIG_VARIABLE)

    def providers(self, accounts: ClusterServiceAccounts | None = None) -> CredentialProviders:
        """The providers, ready to be asked; with `accounts` also in the name of a pod."""
        from kubeauth.registry._providers import CredentialProviders

        path = self.needed_config_path()
        bin_dir = self.bin_dir or _missing("a directory", "--bin-dir", BIN_DIR_VARIABLE)
        return CredentialProviders(path, bin_dir, service_account=accounts)

    def log_less(self) -> None:
        """For a command that says itself what became of each provider and pattern."""
        if self.verbosity < _TOLD_ALL:
            import logging

            logging.getLogger("kubeauth.registry").setLevel("ERROR")


def add_provider_flags(parser: argparse.ArgumentParser) -> None:
    """--config and --bin-dir, also under the kubelet's names."""
    parser.add_argument(
        "--config",
        "--image-credential-provider-config",
        dest="provider_config",
        metavar="PATH",
        help=f"the kubelet's CredentialProviderConfig: a file or a directory (default: ${CONFIG_VARIABLE})",
    )
    parser.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        dest="provider_bin_dir",
        metavar="PATH",
        help=f"the directory of the providers' programs (default: ${BIN_DIR_VARIABLE})",
    )


def add_image(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", type=_image, help="as in a pod: nginx, gcr.io/team/app:1.2")


def _image(text: str) -> ImageReference:
    from kubeauth.errors import RegistryError
    from kubeauth.registry._reference import ImageReference

    try:
        return ImageReference.parse(text)
    except RegistryError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _missing(what: str, flag: str, variable: str) -> str:
    raise Failed(
        f"error: {what} of credential providers is needed: give {flag}, or set {variable}.\n"
        "The kubelet of a node is told by --image-credential-provider-config and "
        "--image-credential-provider-bin-dir: see its command line.",
        Status.USAGE,
    )
