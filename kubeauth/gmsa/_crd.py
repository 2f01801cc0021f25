"""The custom resource of credential specs, as kubernetes-sigs has it (B1-B3). Pure."""

from __future__ import annotations

from kubeauth._parsing import Json

GROUP = "windows.k8s.io"
VERSION = "v1"
RESOURCE = "gmsacredentialspecs"
# Without it the API server takes no definition for a group that ends in k8s.io.
_APPROVAL = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-windows/689-windows-gmsa"
_TEXT: dict[str, Json] = {"type": "string"}


def definition() -> dict[str, Json]:
    """Over one that is there it deletes nothing: both versions are served, and have the same schema (B5)."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{RESOURCE}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": _APPROVAL},
        },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "GMSACredentialSpec",
                "listKind": "GMSACredentialSpecList",
                "plural": RESOURCE,
                "singular": "gmsacredentialspec",
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {"name": VERSION, "served": True, "storage": True, "schema": _schema()},
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": False,
                    "deprecated": True,
                    "schema": _schema(),
                },
            ],
        },
    }


def _schema() -> dict[str, Json]:
    """Nothing is required. What is not named here, the API server throws away."""
    account = _texts("Name", "Scope")
    return {
        "openAPIV3Schema": {
            "description": "An account of Active Directory that pods can run as.",
            "type": "object",
            "properties": {
                "apiVersion": _TEXT,
                "kind": _TEXT,
                "metadata": {"type": "object"},
                "credspec": {
                    "description": "The GMSA credential spec, as New-CredentialSpec writes it.",
                    "type": "object",
                    "properties": {
                        "ActiveDirectoryConfig": {
                            "type": "object",
                            "properties": {
                                "GroupManagedServiceAccounts": {"type": "array", "items": account},
                                "HostAccountConfig": {
                                    "description": "For nodes that are not joined to the domain.",
                                    **_texts("PluginGUID", "PluginInput", "PortableCcgVersion"),
                                },
                            },
                        },
                        "CmsPlugins": {"type": "array", "items": _TEXT},
                        "DomainJoinConfig": _texts(
                            "DnsName", "DnsTreeName", "Guid", "MachineAccountName", "NetBiosName", "Sid"
                        ),
                    },
                },
            },
        }
    }


def _texts(*members: str) -> dict[str, Json]:
    return {"type": "object", "properties": dict.fromkeys(members, _TEXT)}
