"""The pod of `kubeauth registry credentials --pod`, as the API server has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kubeauth.cli._ends import Failed
from kubeauth.cli._output import read_json
from kubeauth.cli._paths import Target
from kubeauth.registry._service_account import Pod

if TYPE_CHECKING:
    from kubeauth.cli._asking import Asking


def pod_of(asking: Asking, name: str) -> Pod:
    """The pod of that name in the namespace of -n or of the context. Refused, in the server's words."""
    namespace = asking.config.namespace
    target = Target(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}")
    with asking.answer(target, accept="application/json") as response:
        document: Any = read_json(response.read())
    try:
        uid, account = document["metadata"]["uid"], document["spec"].get("serviceAccountName", "")
    except (KeyError, TypeError, AttributeError):
        uid = account = None
    if not isinstance(uid, str) or not isinstance(account, str):
        raise Failed("error: the server's answer is no pod")
    return Pod(namespace, name, uid, account)
