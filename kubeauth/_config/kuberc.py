"""Load the plugin policy from the user's kuberc (P11-P13)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kubeauth._config.environment import Environment
from kubeauth._config.files import describe_os_error, make_absolute, read_file
from kubeauth._exec.config import PluginPolicy, find_policy_problem
from kubeauth._parsing import DocumentError, Json, read_document
from kubeauth.errors import KubeConfigError, Problem

if TYPE_CHECKING:
    from kubeauth.schemas._kuberc import Preference

logger = logging.getLogger("kubeauth.config")

_MAX_SIZE = 2**20
_MAX_DOCUMENTS = 100
_MAX_VALUES = 50_000
_FLAG = "--kuberc"
_ALLOWLIST_FIELD = "credentialPluginAllowlist"


@dataclass(frozen=True, slots=True)
class KubercLocation:
    """Where the kuberc is, and what decided that."""

    path: str
    """Empty if there is none."""
    named_by: str = ""
    """`--kuberc` or `KUBERC`, so that the file must exist; empty for the default location."""
    disabled_by: str = ""
    """The environment variable that disables the kuberc."""


def find_kuberc(environment: Environment) -> KubercLocation:
    """Return the location that --kuberc names, else KUBERC, else ~/.kube/kuberc."""
    value = environment.environ.get("KUBERC", "")
    if environment.environ.get("KUBECTL_KUBERC", "").lower() == "false":
        return KubercLocation("", disabled_by="KUBECTL_KUBERC=false")
    if value == "off":
        return KubercLocation("", disabled_by="KUBERC=off")
    if environment.kuberc:
        return KubercLocation(make_absolute(environment.kuberc), _FLAG)
    if value:
        return KubercLocation(make_absolute(value), "KUBERC")
    return KubercLocation(environment.join_home(".kube", "kuberc"))


def load_kuberc_policy(environment: Environment) -> PluginPolicy:
    """Return the policy in the kuberc; AllowAll if there is none.

    Raises KubeConfigError for a file that cannot be read or parsed. kubectl only prints a warning for such a
    file in the default location, and then allows all plugins. kubeauth does not, because a damaged file must
    not disable a policy.
    """
    location = find_kuberc(environment)
    path = location.path
    if location.disabled_by and environment.kuberc:
        # As in kubectl. A policy that is explicitly requested must not be ignored.
        message = f"kuberc: {_FLAG} and {location.disabled_by} are mutually exclusive"
        hint = f"Remove {_FLAG}, or unset {location.disabled_by.partition('=')[0]}."
        raise KubeConfigError.from_problems([Problem(message, hint=hint)])
    policy = _read_policy(path) if path else None
    if policy is None and location.named_by:
        policy = Problem(f"{path} does not exist", hint=f"{location.named_by} names it. Correct the path")
    if isinstance(policy, Problem):
        hint = policy.hint or "Fix the file"
        hint += (
            "."
            if location.named_by == _FLAG
            else ", set KUBERC=off to ignore it, or pass plugin_policy= to load_config."
        )
        problem = replace(policy, message=f"kuberc: {policy.message}", path=path, hint=hint)
        raise KubeConfigError.from_problems([problem])
    return policy or PluginPolicy.allow_all()


def _read_policy(path: str) -> PluginPolicy | Problem | None:
    """Read the policy in a file, or return its problem; None if the file does not exist."""
    try:
        data = read_file(path, limit=_MAX_SIZE)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(f"cannot read {path}: {describe_os_error(error)}")
    reason = ""
    # The documents are split before they are parsed, as in kubectl: the file may also contain documents of
    # versions that this client does not support.
    parts = [part for part in re.split(rb"(?m)^---[ \t]*(?:#.*)?\r?$", data) if part.strip()]
    if len(parts) > _MAX_DOCUMENTS:
        return Problem(f"more than {_MAX_DOCUMENTS} documents in {path}")
    for part in parts:
        try:
            document = read_document(part.lstrip(), limit=_MAX_SIZE, whole=True)
        except DocumentError as error:
            reason = reason or str(error)
            continue
        if document is None:
            continue  # only comments
        if _count_values(document) > _MAX_VALUES:
            return Problem(f"more than {_MAX_VALUES:,} values in {path}")
        preference = _decode(document, path)
        if isinstance(preference, Problem):
            return preference
        if preference is not None:
            return _build_policy(preference)
        reason = reason or "it contains no Preference of kubectl.config.k8s.io/v1, v1beta1 or v1alpha1"
    if not reason:
        return PluginPolicy.allow_all()
    return Problem(f"no valid preferences found in {path}: {reason}")


def _count_values(value: Json) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, items))


def _decode(document: Json, path: str) -> Preference | Problem | None:
    """Validate a document; None if it is another kind of document. Unknown fields are only logged (P12)."""
    # Here, because most users have no kuberc.
    from kubeauth._parsing.models import Invalid, TypeMeta, validate_document
    from kubeauth.schemas._kuberc import KIND, VERSIONS, Preference, get_fields

    head = validate_document(TypeMeta, document)
    if isinstance(head, Invalid) or head.kind != KIND or head.api_version not in VERSIONS:
        return None
    known = get_fields(head.api_version)
    if unknown := sorted(document.keys() - known):
        # A misspelled credentialPluginPolicy would have no effect. kubectl prints a warning too.
        logger.warning("kuberc: ignoring unknown fields in %s: %.200s", path, repr(unknown)[1:-1])
    found = validate_document(Preference, {name: value for name, value in document.items() if name in known})
    if isinstance(found, Invalid):
        problem = found.problems[0]
        return Problem(f"{problem.field}: {problem.message}", field=problem.field)
    return found


def _build_policy(preference: Preference) -> PluginPolicy | Problem:
    kind, entries = preference.credential_plugin_policy, preference.credential_plugin_allowlist
    for index, entry in enumerate(entries or ()):
        if entry.command and entry.name and entry.command != entry.name:
            message = "an allowlist entry has both `name` (deprecated) and `command`, and they differ"
            return Problem(message, field=f"{_ALLOWLIST_FIELD}[{index}]")
    # No list is not the same as an empty one.
    commands = None if entries is None else tuple(entry.command or entry.name for entry in entries)
    if reason := find_policy_problem(kind, commands):
        field = "credentialPluginPolicy" if "unknown plugin policy" in reason else _ALLOWLIST_FIELD
        return Problem(f"invalid plugin policy: {reason}", field=field)
    return PluginPolicy(kind, commands or ())
