"""What is wrong with a credential spec, as far as one can see."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubeauth.gmsa import CredSpecReport, lint_credspec
from tests.gmsa.pods import cluster, pod
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL

GOOD: dict[str, Any] = {
    "ActiveDirectoryConfig": {
        "GroupManagedServiceAccounts": [
            {"Name": "WebApp01", "Scope": "EXAMPLE"},
            {"Name": "WebApp01", "Scope": "example.test"},
        ]
    },
    "CmsPlugins": ["ActiveDirectory"],
    "DomainJoinConfig": {
        "DnsName": "example.test",
        "DnsTreeName": "example.test",
        "Guid": "244818ae-87ac-4fcd-92ec-e79e5252348a",
        "MachineAccountName": "WebApp01",
        "NetBiosName": "EXAMPLE",
        "Sid": "S-1-5-21-2126449477-2524075714-3094792973",
    },
}
HOST = {"PluginGUID": "{GDMA0342-NOT-HEX}", "PluginInput": "contoso:user:password", "PortableCcgVersion": "1"}


def without(*path: Any) -> dict[str, Any]:
    return changed(*path, value=None, is_removed=True)


def changed(*path: Any, value: Any, is_removed: bool = False) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    target: Any = document
    for part in path[:-1]:
        target = target[part]
    if is_removed:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return document


def told(problems: tuple[Any, ...]) -> list[str]:
    return [
        f"{problem.field}: {problem.message}" if problem.field else problem.message for problem in problems
    ]


AD = "ActiveDirectoryConfig"
ACCOUNTS = f"{AD}.GroupManagedServiceAccounts"
JOIN = "DomainJoinConfig"


@pytest.mark.parametrize("plugins", [["ActiveDirectory", None], ["ActiveDirectory", ""]])
def test_a_plugin_has_a_name_b71(plugins: list[object]) -> None:
    (problem,) = lint_credspec({**GOOD, "CmsPlugins": plugins}).errors
    assert problem.field == "CmsPlugins"


def test_the_usual_shape_is_good_b74() -> None:
    """The same account twice: once with each scope."""
    assert lint_credspec(GOOD) == CredSpecReport()
    assert lint_credspec(changed(AD, "HostAccountConfig", value=HOST)) == CredSpecReport()


ERRORS: list[tuple[object, str]] = [
    (None, "it must be an object"),
    ([], "it must be an object"),
    ("{}", "it must be an object"),
    (5, "it must be an object"),
    ({1, 2}, "it is no JSON: a value of type set, which JSON does not have"),
    ({"a": float("nan")}, "it is no JSON: a value of type float, which JSON does not have"),
    (without("CmsPlugins"), "CmsPlugins: must have ActiveDirectory in it"),
    (changed("CmsPlugins", value=[]), "CmsPlugins: must have ActiveDirectory in it"),
    (changed("CmsPlugins", value=["activedirectory"]), "CmsPlugins: must have ActiveDirectory in it"),
    (changed("CmsPlugins", value="ActiveDirectory"), "CmsPlugins: must be a list, not a string"),
    (changed("CmsPlugins", value=["ActiveDirectory", 5]), "CmsPlugins[1]: must be a string, not a number"),
    (without(AD), f"{ACCOUNTS}: must name an account"),
    (changed(AD, value=[]), f"{AD}: must be a mapping, not a list"),
    (without(AD, "GroupManagedServiceAccounts"), f"{ACCOUNTS}: must name an account"),
    (changed(AD, "GroupManagedServiceAccounts", value=[]), f"{ACCOUNTS}: must name an account"),
    (changed(AD, "GroupManagedServiceAccounts", value=["x"]), f"{ACCOUNTS}[0]: must be a mapping, not a string"),
    (without(AD, "GroupManagedServiceAccounts", 1, "Name"), f"{ACCOUNTS}[1].Name: is missing"),
    (changed(AD, "GroupManagedServiceAccounts", 0, "Scope", value=""), f"{ACCOUNTS}[0].Scope: is missing"),
    (changed(AD, "GroupManagedServiceAccounts", 0, "Scope", value=5), f"{ACCOUNTS}[0].Scope: must be a string, not a number"),
    (without(JOIN), f"{JOIN}.Sid: is missing"),
    *[(without(JOIN, name), f"{JOIN}.{name}: is missing") for name in GOOD[JOIN]],
    *[(changed(JOIN, name, value=None), f"{JOIN}.{name}: is missing") for name in GOOD[JOIN]],
    *[(changed(JOIN, name, value=[]), f"{JOIN}.{name}: must be a string, not a list") for name in GOOD[JOIN]],
    (changed(AD, "HostAccountConfig", value={**HOST, "PortableCcgVersion": 1}), f"{AD}.HostAccountConfig.PortableCcgVersion: must be a string, not a number"),
    (changed(JOIN, "DnsTreeName", value="x" * 65536), "it is longer than 65536 bytes"),
]  # fmt: skip


@each_case(("credspec", "error"), ERRORS)
def test_errors_b71(credspec: object, error: str) -> None:
    found = lint_credspec(credspec)
    assert error in told(found.errors)
    assert all(problem.hint for problem in found.errors)


WARNINGS = [
    (changed(JOIN, "Sid", value="S-1-5-32-544"), f"{JOIN}.Sid: is not the SID of a domain"),
    (changed(JOIN, "Sid", value=GOOD[JOIN]["Sid"] + "-500"), f"{JOIN}.Sid: is not the SID of a domain"),
    (changed(JOIN, "Guid", value="{244818ae-87ac-4fcd-92ec-e79e5252348a}"), f"{JOIN}.Guid: is not a GUID"),
    (changed(JOIN, "Guid", value="nope"), f"{JOIN}.Guid: is not a GUID"),
    (changed(JOIN, "NetBiosName", value="X" * 16), f"{JOIN}.NetBiosName: is longer than such a name can be"),
    (changed(JOIN, "NetBiosName", value="OTHER"), f"{ACCOUNTS}: none has the Scope that is NetBiosName"),
    (without(AD, "GroupManagedServiceAccounts", 1), f"{ACCOUNTS}: none has the Scope that is DnsName"),
    (changed(JOIN, "MachineAccountName", value="Other"), f"{ACCOUNTS}: none has the Name that is MachineAccountName"),
    (changed(JOIN, "MachineAccountName", value="WebApp01$"), f"{JOIN}.MachineAccountName: ends in $"),
    (changed(AD, "GroupManagedServiceAccounts", 0, "Name", value="WebApp01$"), f"{ACCOUNTS}[0].Name: ends in $"),
    (changed("Extra", value=1), "Extra: unknown member"),
    (changed(AD, "Extra", value=1), f"{AD}.Extra: unknown member"),
    (changed(JOIN, "Extra", value=1), f"{JOIN}.Extra: unknown member"),
    (changed(AD, "GroupManagedServiceAccounts", 0, "Extra", value=1), f"{ACCOUNTS}[0].Extra: unknown member"),
    (changed(AD, "HostAccountConfig", value={**HOST, "Extra": ""}), f"{AD}.HostAccountConfig.Extra: unknown member"),
    (changed(AD, "HostAccountConfig", value={}), f"{AD}.HostAccountConfig.PluginGUID: is missing"),
    (changed(AD, "HostAccountConfig", value={**HOST, "PluginGUID": "a-b"}), f"{AD}.HostAccountConfig.PluginGUID: has no braces around it"),
]  # fmt: skip


@each_case(("credspec", "warning"), WARNINGS)
def test_warnings_b72_b73(credspec: dict[str, Any], warning: str) -> None:
    found = lint_credspec(credspec)
    assert warning in told(found.warnings)
    assert found.errors == ()
    assert all(problem.hint for problem in found.warnings)


def test_a_member_in_another_case_is_told_of_as_such_b72() -> None:
    document = without("CmsPlugins")
    document["cmsPlugins"] = ["ActiveDirectory"]
    found = lint_credspec(document)
    assert told(found.errors) == ["CmsPlugins: must have ActiveDirectory in it"]
    assert [(problem.field, problem.hint) for problem in found.warnings] == [
        ("cmsPlugins", "Write CmsPlugins: case counts.")
    ]


def test_plugins_need_not_have_a_hexadecimal_guid_b73() -> None:
    assert lint_credspec(changed(AD, "HostAccountConfig", value=HOST)).warnings == ()


def test_scopes_are_compared_as_names_of_hosts_are() -> None:
    assert lint_credspec(changed(JOIN, "DnsName", value="EXAMPLE.test")) == CredSpecReport()


def test_it_denies_nobody_anything_b70() -> None:
    known = cluster(bad={"nothing": "right"})
    assert lint_credspec({"nothing": "right"}).errors
    assert known.expand(pod("bad"))
    assert known.create(pod("bad", '{"nothing":"right"}')).allowed


@each_case("path", [
    ("CmsPlugins", 0), (JOIN, "Sid"), (JOIN, "Guid"), (JOIN, "NetBiosName"), (JOIN, "MachineAccountName"), (JOIN, "DnsName"),
    (AD, "GroupManagedServiceAccounts", 0, "Name"), (AD, "GroupManagedServiceAccounts", 0, "Scope"), ("Unknown",),
])  # fmt: skip
def test_no_value_is_repeated_b75(path: tuple[Any, ...]) -> None:
    for value in (SENTINEL, SENTINEL + "$", [SENTINEL], {SENTINEL: 1}):
        assert SENTINEL not in repr(lint_credspec(changed(*path, value=value)))


def test_an_account_is_called_by_its_index_whatever_is_in_it_b75() -> None:
    accounts = [{"name": SENTINEL, "Name": 5, "Scope": "x"}]
    found = lint_credspec(changed(AD, "GroupManagedServiceAccounts", value=accounts))
    assert told(found.errors) == [f"{ACCOUNTS}[0].Name: must be a string, not a number"]
    assert told(found.warnings) == [f"{ACCOUNTS}[0].name: unknown member"]


def test_wrong_types_and_missing_members_are_reported_together_b70_b71() -> None:
    found = lint_credspec({"CmsPlugins": ["ActiveDirectory"], "DomainJoinConfig": {"Sid": 5}, AD: None})
    assert told(found.errors)[0] == "DomainJoinConfig.Sid: must be a string, not a number"
    assert f"{ACCOUNTS}: must name an account" in told(found.errors)
    assert "DomainJoinConfig.Guid: is missing" in told(found.errors)
    assert "DomainJoinConfig.Sid: is missing" not in told(found.errors)


def test_of_what_is_too_long_nothing_else_is_said() -> None:
    (problem,) = lint_credspec({"CmsPlugins": [1] * 500_000}).errors
    assert problem.message == "it is longer than 65536 bytes"


def test_a_cycle_and_a_crowd_are_bounded() -> None:
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle
    assert "nested" in told(lint_credspec(cycle).errors)[0]
    crowd = changed(AD, "GroupManagedServiceAccounts", value=[{"Name": 5, "x": 1}] * 1000)
    found = lint_credspec(crowd)
    assert (len(found.errors), len(found.warnings)) == (100, 100)
