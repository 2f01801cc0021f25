"""The webhook in a cluster, as documents for `kubectl apply`, in the order they should come in. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from kubeauth._parsing import Json
from kubeauth.gmsa._crd import GROUP, RESOURCE, definition
from kubeauth.gmsa._deployment import deployment, disruption_budget, service
from kubeauth.gmsa._installation import CLUSTER_NAME, LABELS, NAME, SECRET, Installation, cluster_wide
from kubeauth.gmsa._new_pair import NewPair
from kubeauth.gmsa._registration import mutating, validating

_RBAC = "rbac.authorization.k8s.io"
_CERT_MANAGER = "cert-manager.io"
_CA = f"{NAME}-ca"
_CA_LIFE = "87600h"  # ten years


def documents(installation: Installation) -> list[dict[str, Json]]:
    """All that the webhook needs. Nothing in it deletes anything that is there (B5).

    The API server is told of the webhook last, so that it is not asked before there is one.
    """
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace}},
        *([definition()] if installation.with_crd else []),
        *_rights(installation),
        *_tls(installation),
        service(installation),
        deployment(installation),
        disruption_budget(installation),
        mutating(installation),
        validating(installation),
    ]


def _rights(installation: Installation) -> Iterator[dict[str, Json]]:
    """What the webhook may do, and no more (B8); and whoever can view a cluster sees credential specs."""
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": installation.named()}
    yield _role(
        cluster_wide(),
        {"apiGroups": [GROUP], "resources": [RESOURCE], "verbs": ["get"]},
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["localsubjectaccessreviews"],
            "verbs": ["create"],
        },
    )
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": cluster_wide(),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": CLUSTER_NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace}],
    }
    viewer = cluster_wide(f"{CLUSTER_NAME}-viewer")
    viewer["labels"] = {**LABELS, f"{_RBAC}/aggregate-to-view": "true"}
    yield _role(viewer, {"apiGroups": [GROUP], "resources": [RESOURCE], "verbs": ["get", "list", "watch"]})


def _role(metadata: dict[str, Json], *rules: dict[str, Json]) -> dict[str, Json]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": list(rules),
    }


def _tls(installation: Installation) -> Iterator[dict[str, Json]]:
    """Where the certificate of the webhook comes from: from here, from cert-manager, or from elsewhere."""
    if installation.pair is not None:
        yield _secret(installation, installation.pair)
    elif installation.ca_bundle is None:
        yield from _by_cert_manager(installation)


def _secret(installation: Installation, pair: NewPair) -> dict[str, Json]:
    # With the CA, so that whoever makes another pair can have both trusted for a while.
    data = {"tls.crt": pair.certificate, "tls.key": pair.key.reveal(), "ca.crt": pair.ca}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": installation.named(SECRET),
        "data": {name: b64encode(pem).decode() for name, pem in data.items()},
    }


def _by_cert_manager(installation: Installation) -> Iterator[dict[str, Json]]:
    """A CA that stays, and a certificate of it that is replaced.

    One that signs itself would be its own CA: from the moment when it is replaced until the pods have the new
    one, the API server would trust one, and be shown the other.
    """
    yield _issuer(installation, f"{NAME}-self-signed", {"selfSigned": {}})
    yield _certificate(
        installation,
        _CA,
        {"isCA": True, "commonName": _CA, "secretName": _CA, "duration": _CA_LIFE},
        issuer=f"{NAME}-self-signed",
    )
    yield _issuer(installation, _CA, {"ca": {"secretName": _CA}})
    yield _certificate(
        installation,
        NAME,
        {"secretName": SECRET, "dnsNames": list(installation.server_names), "usages": ["server auth"]},
        issuer=_CA,
    )


def _issuer(installation: Installation, name: str, spec: dict[str, Json]) -> dict[str, Json]:
    return {
        "apiVersion": f"{_CERT_MANAGER}/v1",
        "kind": "Issuer",
        "metadata": installation.named(name),
        "spec": spec,
    }


def _certificate(
    installation: Installation, name: str, spec: dict[str, Json], *, issuer: str
) -> dict[str, Json]:
    return {
        "apiVersion": f"{_CERT_MANAGER}/v1",
        "kind": "Certificate",
        "metadata": installation.named(name),
        "spec": {
            **spec,
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "issuerRef": {"group": _CERT_MANAGER, "kind": "Issuer", "name": issuer},
        },
    }
