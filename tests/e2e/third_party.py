"""Exec plugins, and tools for registries, that nobody here wrote: each at one release."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.e2e import tools

AWSCLI = "1.46.2"
AWS_IAM_AUTHENTICATOR = "v0.7.8"
AZURE_KUBELOGIN = "v0.2.21"
# The newest that the module proxy gave with a checksum that could be verified.
INT128_KUBELOGIN = "v1.28.0"
CRANE = "v0.22.1"


def aws() -> Path:
    """`aws eks get-token`"""
    return tools.pypi_program("aws", f"awscli=={AWSCLI}")


def aws_iam_authenticator() -> Path:
    """`aws-iam-authenticator token`"""
    module = "sigs.k8s.io/aws-iam-authenticator"
    return tools.go_program(
        "aws-iam-authenticator", module, AWS_IAM_AUTHENTICATOR, "cmd/aws-iam-authenticator"
    )


def azure_kubelogin() -> Path:
    """`kubelogin get-token`, for AKS"""
    return tools.go_program("azure-kubelogin", "github.com/Azure/kubelogin", AZURE_KUBELOGIN)


def int128_kubelogin() -> Path:
    """`kubectl oidc-login get-token`, for any OpenID Connect issuer"""
    # `go install` asks for the list of all its versions, which not every proxy has; a go.mod asks for this one.
    name, folder = "int128-kubelogin", tools.HERE / "plugins" / "int128-kubelogin"
    flags, package = ["-ldflags", "-s -w"], "github.com/int128/kubelogin"
    return tools.go_folder(name, folder, INT128_KUBELOGIN.removeprefix("v"), flags=flags, package=package)


def gke_gcloud_auth_plugin() -> Path:
    """Comes with Google's SDK, not by a registry: there, or not."""
    found = shutil.which("gke-gcloud-auth-plugin")
    if found is None:
        raise tools.Missing("gke-gcloud-auth-plugin: not on PATH, and cannot be fetched by itself")
    return Path(found)


def crane() -> Path:
    """`crane manifest`, which runs docker's credential helpers."""
    return tools.go_program("crane", "github.com/google/go-containerregistry", CRANE, "cmd/crane")


def docker() -> Path:
    """`docker manifest inspect`, which needs no daemon. There, or not."""
    # Not Debian's own: it goes by other names in other releases.
    found = shutil.which("docker")
    if found is None:
        raise tools.Missing("docker: not on PATH")
    return Path(found)


PROGRAMS: dict[str, Callable[[], Path]] = {
    f"awscli {AWSCLI}": aws,
    f"aws-iam-authenticator {AWS_IAM_AUTHENTICATOR}": aws_iam_authenticator,
    f"Azure/kubelogin {AZURE_KUBELOGIN}": azure_kubelogin,
    f"int128/kubelogin {INT128_KUBELOGIN}": int128_kubelogin,
    "gke-gcloud-auth-plugin": gke_gcloud_auth_plugin,
    f"crane {CRANE}": crane,
    "docker": docker,
}
