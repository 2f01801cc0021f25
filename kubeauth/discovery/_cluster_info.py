"""What the ConfigMap cluster-info says (A22, A41, A43, A82). Pure.

Whoever sends it is a stranger: it is taken apart as JSON, within limits, and the kubeconfig in it stays text
until its signature has been checked (A90).
"""

from __future__ import annotations

from dataclasses import dataclass

from kubeauth._parsing import DocumentError, read_json
from kubeauth._parsing.models import TypeMeta, validate_document
from kubeauth._secret import Secret
from kubeauth.discovery._token import (
    CLUSTER_INFO_NAME,
    CLUSTER_INFO_NAMESPACE,
    KUBECONFIG_KEY,
    signature_key,
)
from kubeauth.schemas._core import ConfigMap

_HEAD = TypeMeta(api_version="v1", kind="ConfigMap")

# A real one has a hundred or so. To take a million values apart takes seconds, in which an event loop does
# nothing else; and whoever sends them need not prove anything.
_MOST_VALUES = 50_000


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Nothing of it is true yet."""

    kubeconfig: Secret[str]
    """To the letter, as its signature needs it. Empty if there is none."""
    signature: str | None
    """By the token that was asked for. None if there is none; that it is empty is something else (A41)."""


def read_cluster_info(body: Secret[bytes], token_id: str) -> ClusterInfo | str:
    """What `body` says, or why it is no cluster-info. Raises nothing, so that no traceback holds it."""
    repeated: list[str] = []
    if sum(map(body.reveal().count, (b",", b"[", b"{"))) > _MOST_VALUES:
        return "its answer has more in it than any ConfigMap"
    try:
        document = read_json(body.reveal(), repeated=repeated)
    except DocumentError as error:
        return f"its answer is not JSON: {error}"
    if not isinstance(document, dict):
        return "its answer is not a JSON object"
    if repeated:
        # The next reader might take the other.
        return "its answer has a field twice"
    found = validate_document(ConfigMap, document)
    if not isinstance(found, ConfigMap) or validate_document(TypeMeta, document) != _HEAD:
        return "its answer is not a ConfigMap"
    if (found.metadata.namespace, found.metadata.name) != (CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_NAME):
        return f"its answer is another ConfigMap than {CLUSTER_INFO_NAMESPACE}/{CLUSTER_INFO_NAME}"
    return ClusterInfo(Secret(found.data.get(KUBECONFIG_KEY, "")), found.data.get(signature_key(token_id)))
