"""GMSACredentialSpec, and the credential spec inside it, as New-CredentialSpec of PowerShell writes it."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from kubeauth._parsing.models import Model
from kubeauth._parsing.types import AllStrings, Items
from kubeauth.schemas._core import ObjectMeta


def _get_field_name(attribute: str) -> str:
    if attribute == "plugin_guid":
        return "PluginGUID"
    return "".join(part.capitalize() for part in attribute.split("_"))


class _WindowsModel(Model):
    model_config = ConfigDict(alias_generator=_get_field_name)


class GroupManagedServiceAccount(_WindowsModel):
    """A group managed service account that a container may use."""

    name: str = ""
    scope: str = ""
    """Domain of the account, by its NetBIOS or DNS name."""


class HostAccountConfig(_WindowsModel):
    """How a node that has not joined the domain gets the password of the account."""

    plugin_guid: str = ""
    plugin_input: str = Field(default="", repr=False)
    portable_ccg_version: str = ""


class ActiveDirectoryConfig(_WindowsModel):
    """The accounts, and how nodes get their passwords."""

    group_managed_service_accounts: Items[GroupManagedServiceAccount] = ()
    host_account_config: HostAccountConfig | None = None


class DomainJoinConfig(_WindowsModel):
    """The domain of the accounts."""

    dns_name: str = ""
    dns_tree_name: str = ""
    guid: str = ""
    machine_account_name: str = ""
    net_bios_name: str = ""
    sid: str = ""


class CredentialSpec(_WindowsModel):
    """`credspec` of a GMSACredentialSpec: the output of New-CredentialSpec."""

    cms_plugins: AllStrings = ()
    """Always `ActiveDirectory`."""
    domain_join_config: DomainJoinConfig = Field(default_factory=DomainJoinConfig)
    active_directory_config: ActiveDirectoryConfig = Field(default_factory=ActiveDirectoryConfig)


class GMSACredentialSpec(Model):
    """A credential spec for Windows containers, as an object of the cluster."""

    api_version: str = "windows.k8s.io/v1"
    kind: str = "GMSACredentialSpec"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    credspec: CredentialSpec = Field(default_factory=CredentialSpec)
