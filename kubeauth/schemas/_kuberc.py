"""Preference: kubectl's kuberc (P11-P13)."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from kubeauth._parsing.models import Model, OneOf
from kubeauth._parsing.types import FailFastItems, Strings

_GROUP = "kubectl.config.k8s.io"
VERSIONS = (f"{_GROUP}/v1beta1", f"{_GROUP}/v1", f"{_GROUP}/v1alpha1")
KIND = "Preference"


class CommandOptionDefault(Model):
    """A default value of an option (in v1alpha1, of a flag) of a kubectl command."""

    name: str = ""
    default: str = ""


class CommandDefaults(Model):
    """Default values of the options of a kubectl command."""

    command: str = ""
    options: FailFastItems[CommandOptionDefault] = ()


class CommandOverride(Model):
    """Default values of the flags of a kubectl command, in v1alpha1."""

    command: str = ""
    flags: FailFastItems[CommandOptionDefault] = ()


class AliasOverride(Model):
    """An alias of a kubectl command."""

    name: str = ""
    command: str = ""
    prepend_args: Strings = ()
    append_args: Strings = ()
    options: FailFastItems[CommandOptionDefault] = ()
    flags: FailFastItems[CommandOptionDefault] = ()
    """In v1alpha1, the `options`."""


class AllowlistEntry(Model):
    """An exec plugin that may be run."""

    command: str = ""
    """Name or path of the plugin."""
    name: str = ""
    """What `command` was called until Kubernetes 1.35."""


class Preference(Model):
    """A kuberc: preferences of the user of kubectl. kubeauth uses the policy for exec plugins."""

    api_version: Annotated[str, OneOf(*VERSIONS)] = VERSIONS[0]
    kind: Annotated[str, OneOf(KIND)] = KIND
    defaults: FailFastItems[CommandDefaults] = ()
    overrides: FailFastItems[CommandOverride] = ()
    """In v1alpha1, the `defaults`."""
    aliases: FailFastItems[AliasOverride] = ()
    credential_plugin_policy: str = Field(
        default="", json_schema_extra={"enum": ["AllowAll", "DenyAll", "Allowlist"]}
    )
    """`AllowAll`, `DenyAll` or `Allowlist`; empty means `AllowAll`. v1alpha1 does not have this field."""
    credential_plugin_allowlist: Annotated[
        tuple[AllowlistEntry, ...] | None, Field(strict=False), FailFast()
    ] = None
    """The plugins that may be run, if the policy is `Allowlist`. v1alpha1 does not have this field."""


def get_fields(api_version: str) -> frozenset[str]:
    """Return the names of the fields that a Preference of this version has."""
    names = {field.alias or name for name, field in Preference.model_fields.items()}
    if api_version == f"{_GROUP}/v1alpha1":
        return frozenset(names - {"defaults", "credentialPluginPolicy", "credentialPluginAllowlist"})
    return frozenset(names - {"overrides"})
