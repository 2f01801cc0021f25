"""The exec plugin: whether it may and can be run; and the policy that says so."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from kubeauth._config.environment import Environment
from kubeauth._config.kuberc import find_kuberc, load_kuberc_policy
from kubeauth._credentials.cache import check_exec
from kubeauth._exec.config import ALLOW_ALL, ALLOWLIST, ExecConfig, PluginPolicy, clean_path
from kubeauth._exec.lookup import NotFound, PolicyCheck, find_command, has_separator
from kubeauth._exec.plugin import decide_interactive
from kubeauth._parsing import Json
from kubeauth.cli._doctor_findings import Finding, error, ok, skipped, warning
from kubeauth.cli._doctor_words import listed, of_problem, parted
from kubeauth.errors import ConfigError, KubeConfigError, Problem

_NEEDS_TERMINAL = "Run this on a terminal, or log in first and set interactiveMode to IfAvailable."


@dataclass(frozen=True, slots=True)
class Kuberc:
    """The user's kuberc, as far as plugins go."""

    path: str
    """Empty if it is disabled, or if there is no home directory."""
    exists: bool
    policy: PluginPolicy
    disabled_by: str = ""
    """The environment variable that disables it."""
    problem: Problem | None = None
    """Why nothing may be run: what cannot be read allows nothing."""


def read_kuberc(environment: Environment) -> Kuberc:
    """Read it as load_config does, but return its problem."""
    location = find_kuberc(environment)
    path, disabled_by = location.path, location.disabled_by
    exists = bool(path) and os.path.exists(path)
    try:
        return Kuberc(path, exists, load_kuberc_policy(environment), disabled_by)
    except KubeConfigError as wrong:
        return Kuberc(path, exists, PluginPolicy.deny_all(), disabled_by, wrong.problems[0])


@dataclass(frozen=True, slots=True)
class Seen:
    """A plugin as it would be run now."""

    command: str
    found: str | NotFound
    refusal: str | None
    """Why its policy does not let it run."""
    interacts: bool | str
    """Whether it would ask a person; or why it must and cannot."""
    wrong_version: str = ""

    @property
    def arguments(self) -> list[str]:
        """What is in the command and is no part of its name, so that it cannot be found. May be secrets."""
        if not isinstance(self.found, NotFound) or os.path.exists(self.command):
            return []
        directory = os.path.dirname(self.command)
        while directory and not os.path.isdir(directory):
            directory = os.path.dirname(directory)
        rest = self.command[len(directory) :]  # the name of a directory may have a space in it
        return [rest.partition(" ")[2], *rest.split()[1:]]

    @property
    def obstacle(self) -> str | None:
        """Why it is not worth running; None if it is."""
        if isinstance(self.found, NotFound):
            return "the plugin cannot be found"
        if self.refusal is not None:
            return "the policy does not allow the plugin"
        if self.wrong_version or isinstance(self.interacts, str):
            return "the plugin cannot be run"
        return None


def look_at_plugin(plugin: ExecConfig, *, path: str, is_terminal: bool) -> Seen:
    """In the steps of a run, without one. `path` is where commands are looked for."""
    command = clean_path(plugin.command)
    found = find_command(command, path)
    wrong_version = ""
    try:
        check_exec(plugin)
    except ConfigError as wrong:
        wrong_version = str(wrong)
    return Seen(
        command,
        found,
        PolicyCheck(plugin.policy).denial_reason(command, found, path),
        decide_interactive(plugin.interactive_mode, plugin.options, is_terminal=is_terminal),
        wrong_version,
    )


def policy_finding(kuberc: Kuberc, seen: Seen | None) -> Finding:
    """What the kuberc says about plugins, and what that means for the one in use."""
    policy = kuberc.policy
    facts: dict[str, Json] = {
        "path": kuberc.path or None,
        "policy": policy.kind,
        "commands": list(policy.commands),
    }
    if kuberc.problem is not None:
        what, advice = of_problem(kuberc.problem)
        if seen is None:
            return warning("policy", f"{what}; no plugin is in use here", advice, **facts)
        return error("policy", f"{what}; so no plugin is run", advice, **facts)
    if not kuberc.path:
        reason = f" ({kuberc.disabled_by})" if kuberc.disabled_by else ", as there is no home directory"
        where = f"no kuberc{reason}"
    else:
        where = kuberc.path if kuberc.exists else f"no kuberc at {kuberc.path}"
    said = policy.kind
    if policy.kind == ALLOWLIST:
        said += f" ({listed(policy.commands)})"
    if seen is None:
        return ok("policy", f"{said}: {where}; no plugin is in use here", **facts)
    if seen.refusal is not None and policy.kind == ALLOWLIST and isinstance(seen.found, NotFound):
        return skipped("policy", f"{said}: {where}; a plugin that is not found cannot be compared", **facts)
    if seen.refusal is not None:
        advice = (
            f"If it should run, add `command: {seen.command}` to credentialPluginAllowlist in {kuberc.path}."
            if policy.kind == ALLOWLIST
            else f"If it should run, change credentialPluginPolicy in {kuberc.path}."
        )
        return error("policy", f"{said}: {where}; {seen.refusal}", advice, **facts)
    allows = "every plugin may run" if policy.kind == ALLOW_ALL else f"{seen.command} may run"
    return ok("policy", f"{said}: {where}; {allows}", **facts)


def plugin_finding(plugin: ExecConfig, seen: Seen, *, is_terminal: bool) -> Finding:
    """Where it is, what it is asked for, and whether it can be run as it wants to."""
    facts: dict[str, Json] = {
        "command": seen.command,
        "found": seen.found if isinstance(seen.found, str) else None,
        "api_version": plugin.api_version,
        "interactive_mode": plugin.interactive_mode,
        "is_terminal": is_terminal,
        "provide_cluster_info": plugin.provide_cluster_info,
        "timeout": plugin.options.timeout,
        "install_hint": plugin.install_hint or None,
    }
    if isinstance(seen.found, NotFound):
        return error("plugin", f"{seen.command}: {seen.found.reason}", _install(plugin, seen), **facts)
    if seen.wrong_version:
        return error("plugin", *parted(seen.wrong_version), **facts)
    if isinstance(seen.interacts, str):
        summary = f"{seen.found} must ask a person (interactiveMode Always): {seen.interacts}"
        return error("plugin", summary, _NEEDS_TERMINAL, **facts)
    terminal = "a terminal" if is_terminal else "no terminal"
    cluster = ", is told about the cluster" if plugin.provide_cluster_info else ""
    version = plugin.api_version.rpartition("/")[2]
    summary = f"{seen.found}: {version}, interactiveMode {plugin.interactive_mode} with {terminal}{cluster}"
    return ok("plugin", summary, **facts)


def _install(plugin: ExecConfig, seen: Seen) -> str:
    if isinstance(seen.found, NotFound) and seen.found.reason == "permission denied":
        return f"Run: chmod +x {shlex.quote(seen.command)}"
    if seen.arguments[1:]:
        return "command is the program alone: put what comes behind its name into args, a word to a line."
    if plugin.install_hint:
        return plugin.install_hint
    if has_separator(seen.command):
        return "Check command in users[].user.exec: a relative path counts from the kubeconfig's directory."
    return "Install it, or put its directory on PATH."
