"""What is wrong with a credential spec, as far as one can see without the domain (B70-B74). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import get_args

from kubeauth._parsing import MAX_PROBLEMS, DocumentError, Json, copy_plain
from kubeauth._parsing.models import Invalid, Model, validate_document, validate_leniently
from kubeauth.errors import Problem
from kubeauth.gmsa._credspec import MAX_CONTENTS, canonical, is_too_long
from kubeauth.schemas import CredentialSpec, HostAccountConfig

_ACCOUNTS = "ActiveDirectoryConfig.GroupManagedServiceAccounts"
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
    if is_too_long(canonical(document)):
        problem = Problem(f"it is longer than {MAX_CONTENTS} bytes", hint="No pod can have it.")
        return CredSpecReport((problem,))
    spec = validate_document(CredentialSpec, document, by_index=True)
    unknown = list(islice(_find_unknown(CredentialSpec, document), MAX_PROBLEMS))
    type_problems: list[Problem] = []
    if isinstance(spec, Invalid):
        type_problems = spec.problems
        if spec.type_problem_count >= MAX_PROBLEMS:
            return CredSpecReport(tuple(type_problems), tuple(unknown))
        spec = validate_leniently(CredentialSpec, document)
    # A field of the wrong type is not reported as missing, too.
    reported = {problem.field for problem in type_problems}
    value_problems = (problem for problem in _errors(spec) if problem.field not in reported)
    errors = chain(type_problems, value_problems)
    # With a wrong type, the others are often its consequences.
    warnings = unknown if type_problems else chain(unknown, _warnings(spec))
    return CredSpecReport(tuple(islice(errors, MAX_PROBLEMS)), tuple(islice(warnings, MAX_PROBLEMS)))


def _find_unknown(model: type[Model], value: Json, place: str = "") -> Iterator[Problem]:
    """Find the members that the API server discards, because the definition does not have them (B3)."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_unknown(model, item, f"{place}[{index}]")
    if not isinstance(value, dict):
        return
    known = {field.alias or "": field.annotation for field in model.model_fields.values()}
    by_lower_case = {name.lower(): name for name in known}
    for name, item in value.items():
        field = f"{place}.{name}" if place else name
        if name in known:
            for nested in (known[name], *get_args(known[name])):
                if isinstance(nested, type) and issubclass(nested, Model):
                    yield from _find_unknown(nested, item, field)
        else:
            meant = by_lower_case.get(name.lower())
            hint = f"Write {meant}: case counts." if meant else "The API server throws it away."
            yield Problem("unknown member", field=field, hint=hint)


def _errors(spec: CredentialSpec) -> Iterator[Problem]:
    if "ActiveDirectory" not in spec.cms_plugins:
        yield Problem(
            "must have ActiveDirectory in it", field="CmsPlugins", hint='Write ["ActiveDirectory"].'
        )
    if "" in spec.cms_plugins:  # or null
        yield Problem("has an entry that names nothing", field="CmsPlugins", hint="Leave it out.")
    accounts = spec.active_directory_config.group_managed_service_accounts
    if not accounts:
        yield Problem("must name an account", field=_ACCOUNTS, hint="Give its Name and a Scope.")
    for index, account in enumerate(accounts):
        yield from _find_missing(account, f"{_ACCOUNTS}[{index}]", "Both must be there.")
    yield from _find_missing(spec.domain_join_config, "DomainJoinConfig", "All six must be there.")


def _find_missing(model: Model, place: str, hint: str) -> Iterator[Problem]:
    for name, field in type(model).model_fields.items():
        if not getattr(model, name):
            yield Problem("is missing", field=f"{place}.{field.alias}", hint=hint)


def _warnings(spec: CredentialSpec) -> Iterator[Problem]:
    join = spec.domain_join_config
    if join.sid and not _SID.fullmatch(join.sid):
        yield Problem("is not the SID of a domain", field="DomainJoinConfig.Sid", hint="S-1-5-21-1-2-3")
    if join.guid and not _GUID.fullmatch(join.guid):
        yield Problem("is not a GUID", field="DomainJoinConfig.Guid", hint="Write it without braces.")
    if len(join.net_bios_name) > _MAX_NETBIOS:
        hint = f"It has {_MAX_NETBIOS} characters at most."
        yield Problem("is longer than such a name can be", field="DomainJoinConfig.NetBiosName", hint=hint)
    yield from _account_warnings(spec)
    if host := spec.active_directory_config.host_account_config:
        yield from _host_warnings(host)


def _account_warnings(spec: CredentialSpec) -> Iterator[Problem]:
    join, accounts = spec.domain_join_config, spec.active_directory_config.group_managed_service_accounts
    machine = join.machine_account_name
    named = [("DomainJoinConfig.MachineAccountName", machine)]
    named += [(f"{_ACCOUNTS}[{index}].Name", account.name) for index, account in enumerate(accounts)]
    for place, name in named:
        if name.endswith("$"):
            yield Problem("ends in $", field=place, hint="Write the name of the account without it.")
    if not accounts or not machine:
        return  # which is an error
    if all(account.name != machine for account in accounts):
        yield Problem(
            "none has the Name that is MachineAccountName", field=_ACCOUNTS, hint="They are the same."
        )
    scopes = {account.scope.lower() for account in accounts}
    for name, scope in (("NetBiosName", join.net_bios_name), ("DnsName", join.dns_name)):
        if scope and scope.lower() not in scopes:
            hint = "List the account twice: once with each Scope."
            yield Problem(f"none has the Scope that is {name}", field=_ACCOUNTS, hint=hint)


def _host_warnings(host: HostAccountConfig) -> Iterator[Problem]:
    place = "ActiveDirectoryConfig.HostAccountConfig"
    yield from _find_missing(host, place, "A node needs all three.")
    # Not that it is hexadecimal: upstream's own sample is not (B73).
    guid = host.plugin_guid
    if guid and not (guid.startswith("{") and guid.endswith("}")):
        yield Problem("has no braces around it", field=f"{place}.PluginGUID", hint="Write {...}.")
