"""The kubeconfig that discovery comes to: one cluster, one user, one context (A25, A59). Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

from kubeauth._parsing import Json
from kubeauth._secret import Secret
from kubeauth.discovery._kubeconfig import Found
from kubeauth.discovery._token import CLUSTER_NAME, TLS_BOOTSTRAP_USER, BootstrapToken

CONTEXT_NAME = f"{TLS_BOOTSTRAP_USER}@{CLUSTER_NAME}"
CA_FIELD = "certificate-authority-data"


def bootstrap_document(found: Found, token: BootstrapToken) -> Secret[str]:
    """To join with a token: of what was found, the address and the CA alone."""
    cluster = {"server": found.server, CA_FIELD: base64(found.ca)}
    return document_of(CLUSTER_NAME, cluster, TLS_BOOTSTRAP_USER, {"token": token.reveal()})


def document_of(
    cluster_name: str, cluster: Mapping[str, Json], user_name: str, user: Mapping[str, Json]
) -> Secret[str]:
    """As JSON text, which no traceback shows."""
    context_name = f"{user_name}@{cluster_name}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster_name, "cluster": dict(cluster)}],
        "users": [{"name": user_name, "user": dict(user)}],
        "contexts": [{"name": context_name, "context": {"cluster": cluster_name, "user": user_name}}],
        "current-context": context_name,
    }
    return Secret(json.dumps(document))


def with_authority(document: Secret[str], ca: bytes) -> Secret[str]:
    """The same, trusting this CA."""
    found = json.loads(document.reveal())
    found["clusters"][0]["cluster"][CA_FIELD] = base64(ca)
    return Secret(json.dumps(found))


def base64(data: bytes) -> str:
    return b64encode(data).decode()
