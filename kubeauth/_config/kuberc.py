"""Load the plugin policy from the user's kuberc (P11-P13)."""

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
_MAX_SIZE = 2**20
_MAX_DOCUMENTS = 100
_KNOWN_FIELDS = frozenset(
    ("apiVersion", "kind", "aliases", "defaults", "credentialPluginPolicy", "credentialPluginAllowlist")
)
_FIX_HINT = "Fix the file, set KUBERC=off to ignore it, or pass plugin_policy= to load_config."


def load_kuberc_policy(environment: Environment) -> PluginPolicy:
    """Return the policy in the file that KUBERC names, else in ~/.kube/kuberc; AllowAll if there is none.

    Raises KubeConfigError for a file that cannot be read or parsed. kubectl only prints a warning for such a
    file in the default location, and then allows all plugins. kubeauth does not, because a damaged file must
    not disable a policy.
    """
    path, is_explicit = find_kuberc(environment)
    if not path:
        return PluginPolicy.allow_all()
    policy = _read_policy(path)
    if policy is None and not is_explicit:
        return PluginPolicy.allow_all()
    if policy is None:
        hint = "KUBERC names it. Correct the path, set KUBERC=off, or pass plugin_policy= to load_config."
        raise KubeConfigError.from_problems([Problem(f"kuberc: {path} does not exist", path, hint=hint)])
    if isinstance(policy, Problem):
        raise KubeConfigError.from_problems([policy])
    return policy


def find_kuberc(environment: Environment) -> tuple[str, bool]:
    """Return the path of the kuberc, empty for none, and whether KUBERC is set, so that it must exist."""
    value = environment.environ.get("KUBERC", "")
    if value == "off":
        return "", False
    if value:
        return make_absolute(value), True
    return environment.join_home(".kube", "kuberc"), False


def _read_policy(path: str) -> PluginPolicy | Problem | None:
    """Read the policy in a file, or return its problem; None if the file does not exist."""
    try:
        data = read_file(path, limit=_MAX_SIZE)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(f"kuberc: cannot read {path}: {describe_os_error(error)}", path, hint=_FIX_HINT)
    reason = ""
    # The documents are split before they are parsed, as in kubectl: the file may also contain documents of
    # versions that this client does not support.
    parts = [part for part in re.split(rb"(?m)^---[ \t]*(?:#.*)?\r?$", data) if part.strip()]
    if len(parts) > _MAX_DOCUMENTS:
        return Problem(f"kuberc: more than {_MAX_DOCUMENTS} documents in {path}", path, hint=_FIX_HINT)
    for part in parts:
        try:
            document = read_document(part.lstrip(), limit=_MAX_SIZE, whole=True)
        except DocumentError as error:
            reason = reason or str(error)
            continue
        if document is None:
            continue  # only comments
        if isinstance(document, dict) and document.get("kind") == _KIND:
            version = document.get("apiVersion")
            if version == f"{_GROUP}/v1alpha1":
                return PluginPolicy.allow_all()
            if version == f"{_GROUP}/v1beta1":
                return _parse_policy(document, path)
        reason = reason or f"it contains no {_KIND} of {_GROUP}/v1beta1"
    if not reason:
        return PluginPolicy.allow_all()
    return Problem(f"kuberc: no valid preferences found in {path}: {reason}", path, hint=_FIX_HINT)


def _parse_policy(document: dict[str, Json], path: str) -> PluginPolicy | Problem:
    if unknown := sorted(set(document) - _KNOWN_FIELDS):
        # A misspelled credentialPluginPolicy would have no effect. kubectl prints a warning too (P12).
        logger.warning("kuberc: ignoring unknown fields in %s: %.200s", path, repr(unknown)[1:-1])
    kind = document.get("credentialPluginPolicy")
    entries = document.get("credentialPluginAllowlist")
    if kind is not None and not isinstance(kind, str):
        problem = "kuberc: credentialPluginPolicy must be a string"
        return Problem(problem, path, "credentialPluginPolicy", _FIX_HINT)
    field = "credentialPluginAllowlist"
    commands: list[str] | None = None
    if entries is not None:
        if not isinstance(entries, list):
            return Problem("kuberc: credentialPluginAllowlist must be a list", path, field, _FIX_HINT)
        commands = []
        for number, entry in enumerate(entries):
            command = _parse_command(entry)
            if isinstance(command, str):
                commands.append(command)
            else:
                return Problem(f"kuberc: {command.message}", path, f"{field}[{number}]", _FIX_HINT)
    if reason := find_policy_problem(kind or "", commands):
        if "unknown plugin policy" in reason:
            field = "credentialPluginPolicy"
        return Problem(f"kuberc: invalid plugin policy: {reason}", path, field, _FIX_HINT)
    if kind == ALLOWLIST:
        return PluginPolicy.allowlist(commands or ())
    return PluginPolicy(kind) if kind else PluginPolicy.allow_all()


def _parse_command(entry: Json) -> str | Problem:
    """Return the command of an allowlist entry. Until Kubernetes 1.35 the field was called `name`."""
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
