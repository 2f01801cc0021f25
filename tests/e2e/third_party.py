"""Exec plugins and registry tools of other projects, each at one release.

`QUICK` are downloaded or built when a test needs them. `SLOW` take minutes to build: only `make e2e-full` builds
them, and the tests of one that is not built are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.e2e import tools

AWSCLI = "1.46.2"
AWS_IAM_AUTHENTICATOR = "v0.7.8"
AZURE_KUBELOGIN = "v0.2.21"
# The newest release that the module proxy returned with a checksum that could be verified.
INT128_KUBELOGIN = "v1.28.0"
CRANE = "v0.22.1"


def aws() -> Path:
    """`aws eks get-token`"""
    return tools.pypi_program("aws", f"awscli=={AWSCLI}")


def aws_iam_authenticator() -> Path:
    """`aws-iam-authenticator token`"""
    return _AWS_IAM_AUTHENTICATOR.find()


def azure_kubelogin() -> Path:
    """`kubelogin get-token`, for AKS"""
    return _AZURE_KUBELOGIN.find()


def int128_kubelogin() -> Path:
    """`kubectl oidc-login get-token`, for any OpenID Connect issuer"""
    # `go install` requests the list of all versions, which not every proxy has; a go.mod requests only this one.
    return tools.go_folder(
        "int128-kubelogin",
        tools.HERE / "plugins" / "int128-kubelogin",
        INT128_KUBELOGIN.removeprefix("v"),
        flags=["-ldflags", "-s -w"],
        package="github.com/int128/kubelogin",
    ).build()


def gke_gcloud_auth_plugin() -> Path:
    """Part of the Google Cloud SDK, which no registry has: used if it is installed."""
    found = shutil.which("gke-gcloud-auth-plugin")
    if found is None:
        raise tools.Missing("gke-gcloud-auth-plugin: not on PATH, and cannot be downloaded separately")
    return Path(found)


def crane() -> Path:
    """`crane manifest`, which runs Docker credential helpers."""
    return tools.go_program("crane", "github.com/google/go-containerregistry", CRANE, "cmd/crane").build()


def docker() -> Path:
    """`docker manifest inspect`, which needs no daemon: used if it is installed."""
    # Not the Debian package: its name differs between releases.
    found = shutil.which("docker")
    if found is None:
        raise tools.Missing("docker: not on PATH")
    return Path(found)


_AWS_IAM_AUTHENTICATOR = tools.go_program(
    "aws-iam-authenticator",
    "sigs.k8s.io/aws-iam-authenticator",
    AWS_IAM_AUTHENTICATOR,
    "cmd/aws-iam-authenticator",
)
_AZURE_KUBELOGIN = tools.go_program("azure-kubelogin", "github.com/Azure/kubelogin", AZURE_KUBELOGIN)

QUICK: dict[str, Callable[[], Path]] = {
    f"awscli {AWSCLI}": aws,
    f"int128/kubelogin {INT128_KUBELOGIN}": int128_kubelogin,
    f"crane {CRANE}": crane,
    "gke-gcloud-auth-plugin": gke_gcloud_auth_plugin,
    "docker": docker,
}
SLOW: dict[str, tools.GoProgram] = {
    f"aws-iam-authenticator {AWS_IAM_AUTHENTICATOR}": _AWS_IAM_AUTHENTICATOR,
    f"Azure/kubelogin {AZURE_KUBELOGIN}": _AZURE_KUBELOGIN,
}
