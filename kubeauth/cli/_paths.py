"""What PATH of `kubeauth get` means: the path of a request, by its syntax alone. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

from kubeauth.cli._ends import Failed, Status

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
# What may stand in a part of a path as it is; a % is of what somebody has quoted already.
_PART = "%:@!$&'()*+,;=~"
_PATH = f"{_PART}/"
_QUERY = f"{_PATH}?"
# They would lead to another part of the API than the one that the words are about: client-go refuses them.
_DOTS = (".", "..")

# Kubernetes' own resources that are in no namespace, by group; a test asks a real server for them.
CLUSTER_SCOPED = {
    "": {"componentstatuses", "namespaces", "nodes", "persistentvolumes"},
    "admissionregistration.k8s.io": {
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    },
    "apiextensions.k8s.io": {"customresourcedefinitions"},
    "apiregistration.k8s.io": {"apiservices"},
    "certificates.k8s.io": {"certificatesigningrequests", "clustertrustbundles"},
    "flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
    "internal.apiserver.k8s.io": {"storageversions"},
    "networking.k8s.io": {"ingressclasses", "ipaddresses", "servicecidrs"},
    "node.k8s.io": {"runtimeclasses"},
    "rbac.authorization.k8s.io": {"clusterrolebindings", "clusterroles"},
    "resource.k8s.io": {"deviceclasses", "devicetaintrules", "resourceslices"},
    "scheduling.k8s.io": {"priorityclasses"},
    "storage.k8s.io": {
        "csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses",
    },
    "storagemigration.k8s.io": {"storageversionmigrations"},
}  # fmt: skip
# And those of the core group that are in one.
_CORE = {
    "bindings", "configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods",
    "podtemplates", "replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
}  # fmt: skip
# What people ask for most, for a shell to complete; more would hide it.
RESOURCES = (
    "configmaps", "endpoints", "events", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes",
    "pods", "secrets", "serviceaccounts", "services", "apps/v1/daemonsets", "apps/v1/deployments",
    "apps/v1/replicasets", "apps/v1/statefulsets", "batch/v1/cronjobs", "batch/v1/jobs",
    "networking.k8s.io/v1/ingresses", "networking.k8s.io/v1/networkpolicies",
    "rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1/clusterroles",
    "rbac.authorization.k8s.io/v1/rolebindings", "rbac.authorization.k8s.io/v1/roles",
    "storage.k8s.io/v1/storageclasses", "/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v3",
    "/readyz", "/version",
)  # fmt: skip


class Target(NamedTuple):
    """What is asked for."""

    path: str
    """Quoted, from its first slash."""
    query: str = ""
    collection: str = ""
    """Of one object that was named without a leading slash: the path of what it is in."""
    name: str = ""
    resource: str = ""
    """What the path was put together for, as it was written."""
    is_guessed: bool = False
    """The group was not given: it was taken to be the core group."""
    namespace: str = ""
    """The one that was put into the path."""

    @property
    def url(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def is_core(self) -> bool:
        """Whether the core group has that resource."""
        return self.resource in _CORE or self.resource in CLUSTER_SCOPED[""]

    @property
    def watches(self) -> bool:
        """Whether the query asks for a watch by itself."""
        return self.parameter("watch") in ("1", "true", "True", "TRUE", "t", "T")

    def parameter(self, name: str) -> str | None:
        """The first value of that name in the query, as it stands there."""
        for part in self.query.split("&"):
            key, _, value = part.partition("=")
            if key == name:
                return value
        return None

    def with_parameters(self, **parameters: str) -> Self:
        """The same with these in the query as well; what is there stays."""
        missing = [
            f"{name}={_quoted(value)}" for name, value in parameters.items() if self.parameter(name) is None
        ]
        return self._replace(query="&".join([*filter(None, [self.query]), *missing]))

    def in_its_collection(self) -> Self:
        """The list that has one object in it, the one that was named: what can be watched. Else itself."""
        if not self.name:
            return self
        listed = self._replace(path=self.collection, name="", collection="")
        return listed.with_parameters(fieldSelector=f"metadata.name={self.name}")


def target_of(text: str, *, namespace: str, all_namespaces: bool = False) -> Target:
    """`/api/v1/pods` as it is; `pods/web-0` and `apps/v1/deployments` in the namespace. Failed if neither."""
    path, _, query = text.partition("?")
    query = _quoted(query, _QUERY)
    if not path or "://" in path:
        raise Failed(
            f"error: {text!r} is no path. Write /api/v1/namespaces, or pods, or apps/v1/deployments.",
            Status.USAGE,
        )
    if path.startswith("/"):
        if all_namespaces:
            raise Failed("error: -A is for a PATH that does not begin with a slash.", Status.USAGE)
        return Target(_quoted(path, _PATH), query)
    parts = [_quoted(part, _PART) for part in path.rstrip("/").split("/")]
    if any(unquote(part) in _DOTS for part in parts):
        raise Failed(
            f"error: {text!r} is no path: in one that is put together, no part is . or ..", Status.USAGE
        )
    group, version, rest = _api_of(parts)
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    chosen = "" if all_namespaces or not rest or rest[0] in CLUSTER_SCOPED.get(group, ()) else namespace
    if chosen in _DOTS or "/" in chosen or "%" in chosen:
        raise Failed(
            f"error: {chosen!r} is no namespace: / and % are in none, nor is one . or ..", Status.USAGE
        )
    if chosen:
        base += f"/namespaces/{_quoted(chosen)}"
    is_one = len(rest) == 2
    return Target(
        path="/".join([base, *rest]),
        query=query,
        collection=f"{base}/{rest[0]}" if is_one else "",
        name=rest[1] if is_one else "",
        resource=rest[0] if rest else "",
        is_guessed=rest == parts,
        namespace=chosen,
    )


def not_core(resource: str) -> str:
    """What to say of a name that was taken for a resource of the core group, and is none."""
    likely = next((each for each in RESOURCES if each.endswith(f"/{resource}")), "apps/v1/deployments")
    how = (
        f"A path of the server's own begins with a slash: {likely}."
        if likely.startswith("/")
        else f"One of another group is written with group and version, as in {likely}."
    )
    return f'"{resource}" was taken for a resource of the core group, which has none of that name. {how}'


def _api_of(parts: list[str]) -> tuple[str, str, list[str]]:
    """Group, version and the rest: `apps/v1/...`, `v1/...`, or the core group's."""
    if _VERSION.fullmatch(parts[0]):
        return "", parts[0], parts[1:]
    if len(parts) > 1 and _VERSION.fullmatch(parts[1]):
        return parts[0], parts[1], parts[2:]
    return "", "v1", parts


def _quoted(text: str, safe: str = "") -> str:
    # Arguments that are not UTF-8 are sent as the bytes they are.
    return quote(text, safe=safe, errors="surrogateescape")
