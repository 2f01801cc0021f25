"""The plugin policy in the user's kuberc (P11-P13)."""

from __future__ import annotations

import logging
import re

from kubeauth._config.environment import Environment
from kubeauth._config.files import describe_os_error, make_absolute, read_file
from kubeauth._exec.config import ALLOWLIST, PluginPolicy, find_policy_problem
from kubeauth._parsing import DocumentError, Json, read_document
from kubeauth.errors import KubeConfigError, Problem

logger = logging.getLogger("kubeauth.config")

_GROUP = "kubectl.config.k8s.io"
_KIND = "Preference"
_LIMIT = 2**20
_MAX_DOCUMENTS = 100
_KNOWN_FIELDS = frozenset(
    ("apiVersion", "kind", "aliases", "defaults", "credentialPluginPolicy", "credentialPluginAllowlist")
)
_OFF_HINT = "Mend it, or set KUBERC=off to go without, or pass plugin_policy= to load_config."


def load_kuberc_policy(environment: Environment) -> PluginPolicy:
    """The policy of the kuberc that KUBERC names, else of ~/.kube/kuberc; AllowAll if there is none.

    Raises KubeConfigError for a file that cannot be read or understood, also at the default place,
    where kubectl only warns and then lets every plugin run: a policy that does not hold when its file
    is damaged is none.
    """
    path, explicit = find_kuberc(environment)
    if not path:
        return PluginPolicy.allow_all()
    found = _read_policy(path)
    if found is None and not explicit:
        return PluginPolicy.allow_all()
    if found is None:
        problem = Problem(f"kuberc: {path} does not exist", path, hint="KUBERC names it. " + _OFF_HINT)
        raise KubeConfigError.from_problems([problem])
    if isinstance(found, Problem):
        raise KubeConfigError.from_problems([found])
    return found


def find_kuberc(environment: Environment) -> tuple[str, bool]:
    """Its path, empty if there is to be none; and whether KUBERC names it, so that it must exist."""
    named = environment.environ.get("KUBERC", "")
    if named == "off":
        return "", False
    if named:
        return make_absolute(named), True
    return environment.in_home(".kube", "kuberc"), False


def _read_policy(path: str) -> PluginPolicy | Problem | None:
    """The policy in a file; None if there is no file; else what is wrong with it."""
    try:
        data = read_file(path, limit=_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(f"kuberc: cannot read {path}: {describe_os_error(error)}", path, hint=_OFF_HINT)
    why = ""
    # Documents are told apart before they are parsed, as kubectl does: one of a later version may
    # stand beside one that is understood.
    parts = [part for part in re.split(rb"(?m)^---[ \t]*(?:#.*)?\r?$", data) if part.strip()]
    if len(parts) > _MAX_DOCUMENTS:
        return Problem(f"kuberc: more than {_MAX_DOCUMENTS} documents in {path}", path, hint=_OFF_HINT)
    for part in parts:
        try:
            document = read_document(part.lstrip(), limit=_LIMIT, whole=True)
        except DocumentError as error:
            why = why or str(error)
            continue
        if document is None:
            # A document of comments alone.
            continue
        if isinstance(document, dict) and document.get("kind") == _KIND:
            version = document.get("apiVersion")
            if version == f"{_GROUP}/v1alpha1":
                return PluginPolicy.allow_all()
            if version == f"{_GROUP}/v1beta1":
                return _parse_policy(document, path)
        why = why or f"no {_KIND} of {_GROUP}/v1beta1 in it"
    if not why:
        return PluginPolicy.allow_all()
    return Problem(f"kuberc: no valid preferences found in {path}: {why}", path, hint=_OFF_HINT)


def _parse_policy(document: dict[str, Json], path: str) -> PluginPolicy | Problem:
    if unknown := sorted(set(document) - _KNOWN_FIELDS):
        # A policy under a misspelled name is no policy: kubectl warns of it too (P12).
        logger.warning("kuberc: ignoring unknown fields in %s: %.200s", path, repr(unknown)[1:-1])
    kind = document.get("credentialPluginPolicy")
    entries = document.get("credentialPluginAllowlist")
    if kind is not None and not isinstance(kind, str):
        problem = "kuberc: credentialPluginPolicy must be a string"
        return Problem(problem, path, "credentialPluginPolicy", _OFF_HINT)
    field = "credentialPluginAllowlist"
    commands: list[str] | None = None
    if entries is not None:
        if not isinstance(entries, list):
            return Problem("kuberc: credentialPluginAllowlist must be a list", path, field, _OFF_HINT)
        commands = []
        for number, entry in enumerate(entries):
            command = _parse_command(entry)
            if isinstance(command, str):
                commands.append(command)
            else:
                return Problem(f"kuberc: {command.message}", path, f"{field}[{number}]", _OFF_HINT)
    if wrong := find_policy_problem(kind or "", commands):
        if "unknown plugin policy" in wrong:
            field = "credentialPluginPolicy"
        return Problem(f"kuberc: invalid plugin policy: {wrong}", path, field, _OFF_HINT)
    if kind == ALLOWLIST:
        return PluginPolicy.allowlist(commands or ())
    return PluginPolicy(kind) if kind else PluginPolicy.allow_all()


def _parse_command(entry: Json) -> str | Problem:
    """The command of an allowlist entry; `name` is what it was called until 1.35."""
    if entry is None:
        entry = {}
    if not isinstance(entry, dict):
        return Problem("an allowlist entry must be a mapping with `command`")
    command, name = entry.get("command") or "", entry.get("name") or ""
    if not isinstance(command, str) or not isinstance(name, str):
        return Problem("`command` of an allowlist entry must be a string")
    if command and name and command != name:
        return Problem("an allowlist entry has both `name` (deprecated) and `command`, and they differ")
    return command or name
