"""How an API server is told of the webhook, and which pods it is asked about (B9, B10, B15). Pure."""

from __future__ import annotations

from base64 import b64encode

from kubeauth._parsing import Json
from kubeauth.gmsa._installation import NAME, Installation, cluster_wide

V1 = "admission.k8s.io/v1"
VERSIONS = (V1, "admission.k8s.io/v1beta1")
"""Versions of AdmissionReview that the webhook reads."""

_API = "admissionregistration.k8s.io/v1"
# More than it takes to read a review and to decide, each of which has its own limit in `app`.
_SECONDS = 10


def mutating(installation: Installation) -> dict[str, Json]:
    """The expander: new pods alone. Nothing can be filled in later."""
    # Another webhook may name a credential spec after us: then we are asked again. What is filled in already
    # is left alone (B29). But nobody is asked again who was not asked before, so it is not enough to look for
    # what is there by now: a pod that is for Windows may be given a name later.
    condition = f"{is_for_windows('object')} || {has_windows_options('object')}"
    webhook = _webhook(installation, "mutate", [_rule("pods", "CREATE")], condition)
    webhook["reinvocationPolicy"] = "IfNeeded"
    return _configuration(installation, "MutatingWebhookConfiguration", webhook)


def validating(installation: Installation) -> dict[str, Json]:
    """The authorizer."""
    rules = [_rule("pods", "CREATE", "UPDATE")]
    if not installation.compat:
        # Which is how a container is added to a pod that runs (B15).
        rules.append(_rule("pods/ephemeralcontainers", "UPDATE"))
    # What an update removes is only there before it (B50). Of a new pod there is nothing before.
    before = f"oldObject != null && ({has_windows_options('oldObject')})"
    condition = f"{has_windows_options('object')} || ({before})"
    return _configuration(
        installation,
        "ValidatingWebhookConfiguration",
        _webhook(installation, "validate", rules, condition),
    )


def has_windows_options(pod: str) -> str:
    """In CEL: whether there is anything for Windows in a pod, at any level.

    Without it no pod names a credential spec, and nobody has to be asked: so a webhook that is down keeps no
    pod from running that has nothing to do with it (B34, B82). It asks for `windowsOptions`, and not for what
    is in them: nothing that the webhook would change or refuse gets past it, not even an empty name.
    """
    lists = (f"{pod}.spec.{name}" for name in ("containers", "initContainers", "ephemeralContainers"))
    # A list that is null is there, and would be an error, which refuses the pod in words of its own.
    anywhere = [
        f"has({each}) && {each} != null && {each}.exists(c, {_has_own_options('c')})" for each in lists
    ]
    return " || ".join(f"({each})" for each in (_has_own_options(f"{pod}.spec"), *anywhere))


def is_for_windows(pod: str) -> str:
    """In CEL: whether a pod says so itself, in one of the two usual ways."""
    selector, label = f"{pod}.spec.nodeSelector", "'kubernetes.io/os'"
    ways = (
        f"has({pod}.spec.os) && {pod}.spec.os.name == 'windows'",
        f"has({selector}) && {label} in {selector} && {selector}[{label}] == 'windows'",
    )
    return " || ".join(f"({each})" for each in ways)


def _has_own_options(whose: str) -> str:
    # Not the shorter `?.`, which servers before 1.29 do not know.
    return f"has({whose}.securityContext) && has({whose}.securityContext.windowsOptions)"


def _rule(resource: str, *operations: str) -> dict[str, Json]:
    return {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "resources": [resource],
        "operations": list(operations),
        "scope": "Namespaced",
    }


def _webhook(
    installation: Installation, path: str, rules: list[dict[str, Json]], condition: str
) -> dict[str, Json]:
    client: dict[str, Json] = {
        "service": {"namespace": installation.namespace, "name": NAME, "path": f"/{path}", "port": 443}
    }
    if installation.ca_bundle is not None:
        client["caBundle"] = b64encode(installation.ca_bundle).decode()
    # By the label that the API server itself sets, and nobody can take away: whoever may label a namespace
    # must not be able to switch this off there (B10).
    others: dict[str, Json] = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted({installation.namespace, *installation.exempt}),
    }
    return {
        "name": f"{path}.gmsa.kubeauth",
        "clientConfig": client,
        "rules": rules,
        "namespaceSelector": {"matchExpressions": [others]},
        "matchConditions": [{"name": "windows", "expression": condition}],
        "admissionReviewVersions": [version.rpartition("/")[2] for version in VERSIONS],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
    }


def _configuration(installation: Installation, kind: str, webhook: dict[str, Json]) -> dict[str, Json]:
    metadata = cluster_wide()
    if installation.ca_bundle is None:
        # cert-manager writes the CA of that Certificate into the configuration.
        metadata["annotations"] = {"cert-manager.io/inject-ca-from": f"{installation.namespace}/{NAME}"}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "webhooks": [webhook]}
