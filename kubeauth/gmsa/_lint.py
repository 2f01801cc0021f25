"""What is wrong with a credential spec, as far as one can see without the domain (B70-B74). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from kubeauth._parsing import MAX_PROBLEMS, DocumentError, Fields, Findings, copy_plain
from kubeauth.errors import Problem
from kubeauth.gmsa._credspec import MAX_CONTENTS, canonical, is_too_long

_JOIN = ("DnsName", "DnsTreeName", "Guid", "MachineAccountName", "NetBiosName", "Sid")
_HOST = ("PluginGUID", "PluginInput", "PortableCcgVersion")
_ACCOUNT = ("Name", "Scope")
# By what they are in. What else is there the API server throws away (B3).
_MEMBERS = ("ActiveDirectoryConfig", "CmsPlugins", "DomainJoinConfig")
_AD_MEMBERS = ("GroupManagedServiceAccounts", "HostAccountConfig")

_SID = re.compile(r"S-1-5-21-[0-9]+-[0-9]+-[0-9]+")
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAX_NETBIOS = 15


@dataclass(frozen=True, slots=True)
class CredSpecReport:
    """What is wrong with a credential spec. Names its members, and never repeats their values."""

    errors: tuple[Problem, ...] = ()
    """With these no container gets the identity."""
    warnings: tuple[Problem, ...] = ()
    """These are unusual, and may be meant."""


def lint_credspec(credspec: object) -> CredSpecReport:
    """Looks at what a GMSACredentialSpec has in its member `credspec`.

    It denies nobody anything: neither `expand` nor `authorize` uses it.
    """
    try:
        document = copy_plain(credspec)
    except DocumentError as error:
        return CredSpecReport((Problem(f"it is no JSON: {error}", hint="Give it as plain values."),))
    if not isinstance(document, dict):
        return CredSpecReport((Problem("it must be an object", hint="It begins with a brace."),))
    findings = Findings(strict=True)
    spec = _read(findings.root(document))
    errors = [*findings.schema_problems, *_errors(spec)]
    if is_too_long(canonical(document)):
        errors.insert(0, Problem(f"it is longer than {MAX_CONTENTS} bytes", hint="No pod can have it."))
    return CredSpecReport(tuple(errors[:MAX_PROBLEMS]), tuple(islice(_warnings(spec), MAX_PROBLEMS)))


@dataclass(frozen=True, slots=True)
class _Account:
    place: str
    name: str
    scope: str


@dataclass(frozen=True, slots=True)
class _Spec:
    plugins: tuple[str, ...]
    accounts: tuple[_Account, ...]
    join: dict[str, str]
    host: dict[str, str] | None
    unknown: tuple[Problem, ...]


def _read(fields: Fields) -> _Spec:
    """What is there, each member with its type; and what nobody knows."""
    directory = fields.within("ActiveDirectoryConfig")
    join, host = fields.within("DomainJoinConfig"), directory.within("HostAccountConfig")
    unknown = [*_unknown(fields, _MEMBERS), *_unknown(directory, _AD_MEMBERS)]
    unknown += [*_unknown(join, _JOIN), *_unknown(host, _HOST)]
    accounts: list[_Account] = []
    for entry in directory.each("GroupManagedServiceAccounts"):
        unknown += _unknown(entry, _ACCOUNT)
        accounts.append(_Account(entry.place(), entry.string("Name"), entry.string("Scope")))
    return _Spec(
        fields.strings("CmsPlugins"),
        tuple(accounts),
        {name: join.string(name) for name in _JOIN},
        {name: host.string(name) for name in _HOST} if host.is_present else None,
        tuple(unknown),
    )


def _unknown(fields: Fields, known: tuple[str, ...]) -> Iterator[Problem]:
    spelled = {name.lower(): name for name in known}
    for name in fields.names():
        if name not in known:
            meant = spelled.get(name.lower())
            hint = f"Write {meant}: case counts." if meant else "The API server throws it away."
            yield Problem("unknown member", field=fields.place(name), hint=hint)


def _errors(spec: _Spec) -> Iterator[Problem]:
    if "ActiveDirectory" not in spec.plugins:
        yield Problem(
            "must have ActiveDirectory in it", field="CmsPlugins", hint='Write ["ActiveDirectory"].'
        )
    if "" in spec.plugins:  # or null
        yield Problem("has an entry that names nothing", field="CmsPlugins", hint="Leave it out.")
    accounts = "ActiveDirectoryConfig.GroupManagedServiceAccounts"
    if not spec.accounts:
        yield Problem("must name an account", field=accounts, hint="Give its Name and a Scope.")
    for account in spec.accounts:
        for name, value in (("Name", account.name), ("Scope", account.scope)):
            if not value:
                yield Problem("is missing", field=f"{account.place}.{name}", hint="Both must be there.")
    for name, value in spec.join.items():
        if not value:
            yield Problem("is missing", field=f"DomainJoinConfig.{name}", hint="All six must be there.")


def _warnings(spec: _Spec) -> Iterator[Problem]:
    yield from spec.unknown
    join = spec.join
    if join["Sid"] and not _SID.fullmatch(join["Sid"]):
        yield Problem("is not the SID of a domain", field="DomainJoinConfig.Sid", hint="S-1-5-21-1-2-3")
    if join["Guid"] and not _GUID.fullmatch(join["Guid"]):
        yield Problem("is not a GUID", field="DomainJoinConfig.Guid", hint="Write it without braces.")
    if len(join["NetBiosName"]) > _MAX_NETBIOS:
        hint = f"It has {_MAX_NETBIOS} characters at most."
        yield Problem("is longer than such a name can be", field="DomainJoinConfig.NetBiosName", hint=hint)
    yield from _account_warnings(spec)
    if spec.host is not None:
        yield from _host_warnings(spec.host)


def _account_warnings(spec: _Spec) -> Iterator[Problem]:
    machine = spec.join["MachineAccountName"]
    named = [("DomainJoinConfig.MachineAccountName", machine)]
    named += [(f"{account.place}.Name", account.name) for account in spec.accounts]
    for place, name in named:
        if name.endswith("$"):
            yield Problem("ends in $", field=place, hint="Write the name of the account without it.")
    if not spec.accounts or not machine:
        return  # which is an error
    field = "ActiveDirectoryConfig.GroupManagedServiceAccounts"
    if all(account.name != machine for account in spec.accounts):
        yield Problem("none has the Name that is MachineAccountName", field=field, hint="They are the same.")
    scopes = {account.scope.lower() for account in spec.accounts}
    for name in ("NetBiosName", "DnsName"):
        if (scope := spec.join[name]) and scope.lower() not in scopes:
            hint = "List the account twice: once with each Scope."
            yield Problem(f"none has the Scope that is {name}", field=field, hint=hint)


def _host_warnings(host: dict[str, str]) -> Iterator[Problem]:
    place = "ActiveDirectoryConfig.HostAccountConfig"
    for name, value in host.items():
        if not value:
            yield Problem("is missing", field=f"{place}.{name}", hint="A node needs all three.")
    # Not that it is hexadecimal: upstream's own sample is not (B73).
    guid = host["PluginGUID"]
    if guid and not (guid.startswith("{") and guid.endswith("}")):
        yield Problem("has no braces around it", field=f"{place}.PluginGUID", hint="Write {...}.")
