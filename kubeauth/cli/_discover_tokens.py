"""The bootstrap tokens of a cluster, as the commands of `kubeauth discover token` ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed
from kubeauth.cli._paths import Target

if TYPE_CHECKING:
    from kubeauth._secret import Secret
    from kubeauth.cli._asking import Asking
    from kubeauth.discovery._kubeconfig import Found
    from kubeauth.discovery._token import BootstrapToken

SECRETS = "/api/v1/namespaces/kube-system/secrets"
ALL = Target(SECRETS).with_parameters(fieldSelector="type=bootstrap.kubernetes.io/token")

_NOT_PUBLISHED = (
    "So nobody can discover this cluster by a token. `kubeadm init phase bootstrap-token` makes it publish "
    "itself."
)
# Others may: kubeadm lets strangers read it, and not whoever has a name.
_NOT_FOR_US = (
    "--print-join-command has the address and the pins from there, so no token was created. Without that "
    "flag it is not asked for."
)


def secret_of(token_id: str) -> Target:
    """Where the Secret of a token is."""
    from kubeauth.discovery._token import secret_name

    return Target(f"{SECRETS}/{secret_name(token_id)}")


def published(asking: Asking) -> Found:
    """Where the cluster says that it is, and by which CA: that is what whoever discovers it is told."""
    from kubeauth._secret import Secret
    from kubeauth.cli._refusals import Refused
    from kubeauth.discovery._cluster_info import read_cluster_info
    from kubeauth.discovery._kubeconfig import Found, cluster_in
    from kubeauth.discovery._token import CLUSTER_INFO_PATH

    try:
        with asking.answer(Target(CLUSTER_INFO_PATH), accept="application/json") as response:
            body = Secret(response.read())
        info = read_cluster_info(body, "")
        found = info if isinstance(info, str) else cluster_in(info.kubeconfig)
        if isinstance(found, Found):
            return found
        words = f"error: cluster-info of this cluster: {found if isinstance(found, str) else found.words}"
        hint = _NOT_PUBLISHED
    except Refused as refused:
        words, hint = str(refused), _NOT_PUBLISHED if refused.code == 404 else _NOT_FOR_US
    raise Failed(f"{words}\n{hint}")


def join_commands(found: Found, token: BootstrapToken) -> Secret[str]:
    """How to find this cluster with kubeauth, and how to join it with kubeadm: two lines."""
    from kubeauth._secret import Secret

    ways = (("kubeauth discover", "--ca-cert-hash"), ("kubeadm join", "--discovery-token-ca-cert-hash"))
    return Secret(
        "".join(
            " ".join(
                [
                    program,
                    endpoint_of(found),
                    "--token",
                    token.reveal(),
                    *(f"{flag} {pin}" for pin in found.pins),
                ]
            )
            + "\n"
            for program, flag in ways
        )
    )


def endpoint_of(found: Found) -> str:
    """Its host:port. Failed if it is more than that."""
    from urllib.parse import urlsplit

    parts = urlsplit(found.server)
    if parts.path not in ("", "/"):
        raise Failed(
            f"error: the cluster says that its server is {found.server}: nothing can join by an address with "
            "a path. Create the token without --print-join-command."
        )
    return parts.netloc if parts.port else f"{parts.netloc}:443"
