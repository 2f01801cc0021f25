"""How each plugin is set up: the exec stanza its vendor writes, what it talks to, and what its token says."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import clouds, third_party
from tests.support.oidc_issuer import Issuer

V1, V1BETA1 = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
NOBODY_THERE = "http://127.0.0.1:9"
AWS_KEY = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-of-the-key"}
# Nothing that this machine, or the cloud it may be in, knows of keys.
AWS_ALONE = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT": NOBODY_THERE,
}


@dataclass(frozen=True, kw_only=True)
class Setup:
    program: Path
    command: str
    """What the kubeconfig calls it."""
    exec_config: dict[str, Any]
    """`exec`, without the command."""
    reads: Callable[[str], Mapping[str, Any]]
    """What a token says, without what no two tokens have in common. Raises if it is not genuine."""
    wrong: dict[str, Any]
    """Replaces parts of the stanza; the plugin then fails."""
    words: str
    """What it says when it does."""
    caches: bool = False
    """Whether a second run gives the token of the first."""
    differs: bool = False
    """Whether a second run gives another token, however soon."""
    reads_any_config: bool = True
    """Whether it copes with a `config` in KUBERNETES_EXEC_INFO. Some read that into a type that takes none."""


def env(variables: Mapping[str, str]) -> list[dict[str, str]]:
    """As `exec.env` has it."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def _reads_aws(token: str) -> Mapping[str, Any]:
    return clouds.signed_by_aws(token, cluster="e2e", secret=AWS_KEY["AWS_SECRET_ACCESS_KEY"])


@contextmanager
def aws(_directory: Path) -> Iterator[Setup]:
    """As `aws eks update-kubeconfig` writes it, with the keys in the environment."""
    yield Setup(
        program=third_party.aws(),
        command="aws",
        exec_config={
            "apiVersion": V1BETA1,
            "args": [
                "--region",
                "eu-central-1",
                "eks",
                "get-token",
                "--cluster-name",
                "e2e",
                "--output",
                "json",
            ],
            "env": env(AWS_ALONE | AWS_KEY),
        },
        reads=_reads_aws,
        wrong={"env": env(AWS_ALONE)},
        words="Unable to locate credentials",
    )


@contextmanager
def aws_iam_authenticator(_directory: Path) -> Iterator[Setup]:
    region = {"AWS_REGION": "eu-central-1"}
    yield Setup(
        program=third_party.aws_iam_authenticator(),
        command="aws-iam-authenticator",
        exec_config={
            "apiVersion": V1,
            "args": ["token", "-i", "e2e"],
            "env": env(AWS_ALONE | AWS_KEY | region),
            "interactiveMode": "Never",
        },
        reads=_reads_aws,
        wrong={"args": ["token"]},
        words="cluster ID not specified",
        # Falls back to v1beta1, which is not what was asked for.
        reads_any_config=False,
    )


@contextmanager
def azure_kubelogin(directory: Path) -> Iterator[Setup]:
    """A service principal with a secret."""
    with clouds.Azure() as azure:
        ca = clouds.trusted(azure.authority, directory / "login-ca.pem")
        arguments = ["get-token", "--login", "spn", "--tenant-id", clouds.TENANT, "--client-id", "the-client"]
        arguments += ["--server-id", "the-server", "--authority-host", f"{azure.url}/"]
        arguments += ["--disable-instance-discovery"]
        variables = {"SSL_CERT_FILE": str(ca), "AZURE_CLIENT_SECRET": azure.SECRET}
        yield Setup(
            program=third_party.azure_kubelogin(),
            command="kubelogin",
            exec_config={
                "apiVersion": V1BETA1,
                "args": arguments,
                "env": env(variables),
                "provideClusterInfo": False,
            },
            reads=azure.asked,
            wrong={"env": env(variables | {"AZURE_CLIENT_SECRET": "another"})},
            words="AADSTS7000215",
            # Caches where the kernel keeps keys for it.
            reads_any_config=False,
        )


def oidc_arguments(issuer: Issuer, *more: str) -> list[str]:
    """For int128/kubelogin, whoever logs in."""
    ca = base64.b64encode(issuer.ca).decode()
    return [
        "get-token", f"--oidc-issuer-url={issuer.url}", f"--oidc-client-id={issuer.client_id}",
        f"--certificate-authority-data={ca}", "--grant-type=password", *more,
    ]  # fmt: skip


@contextmanager
def int128_kubelogin(_directory: Path) -> Iterator[Setup]:
    """Somebody with a password; it keeps the token in a file."""
    with Issuer(passwords={"alice": "alices-password"}) as issuer:
        issuer.groups["alice"] = ("admins",)

        def reads(token: str) -> Mapping[str, Any]:
            claims = clouds.claims_of(token)
            return {name: claims[name] for name in ("iss", "sub", "aud", "groups")}

        alice = "--username=alice"
        yield Setup(
            program=third_party.int128_kubelogin(),
            command="kubectl-oidc_login",
            exec_config={
                # It knows no other.
                "apiVersion": V1BETA1,
                "args": oidc_arguments(issuer, alice, "--password=alices-password"),
                "interactiveMode": "IfAvailable",
            },
            reads=reads,
            wrong={"args": oidc_arguments(issuer, alice, "--password=another")},
            words="invalid_grant",
            caches=True,
        )


@contextmanager
def gke(directory: Path) -> Iterator[Setup]:
    """A service account's file, as a pipeline has it; `provideClusterInfo` is what gcloud writes."""
    with clouds.Google() as google:
        google.service_account(directory / "account.json")
        variables = {"GOOGLE_APPLICATION_CREDENTIALS": str(directory / "account.json")}
        yield Setup(
            program=third_party.gke_gcloud_auth_plugin(),
            command="gke-gcloud-auth-plugin",
            exec_config={
                "apiVersion": V1BETA1,
                "args": ["--use_application_default_credentials"],
                "env": env(variables),
                "installHint": "Install gke-gcloud-auth-plugin for use with kubectl",
                "provideClusterInfo": True,
            },
            reads=google.asked,
            wrong={"env": env({"GOOGLE_APPLICATION_CREDENTIALS": str(directory / "no-such.json")})},
            words="no such file or directory",
            differs=True,
        )


SETUPS: dict[str, Callable[[Path], AbstractContextManager[Setup]]] = {
    "aws": aws,
    "aws-iam-authenticator": aws_iam_authenticator,
    "azure-kubelogin": azure_kubelogin,
    "int128-kubelogin": int128_kubelogin,
    "gke-gcloud-auth-plugin": gke,
}
