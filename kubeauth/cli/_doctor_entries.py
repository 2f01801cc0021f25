"""Context, cluster and user: which were chosen, by whom, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import find_open_problem, get_working_directory
from kubeauth._config.kubeconfig import LoadedFiles, Overrides
from kubeauth._config.loader import Loader
from kubeauth._config.resolve import Selection, merge_kubeconfigs, select
from kubeauth._config.urls import redact_url, uses_tls
from kubeauth._config.validate import validate_context, validate_kubeconfig
from kubeauth._parsing.models import replace_fields
from kubeauth.cli._doctor_findings import Finding, error, ok, skipped, warning
from kubeauth.cli._doctor_words import counted, of_problem, parted
from kubeauth.errors import ConfigError, KubeConfigError, Problem
from kubeauth.schemas._kubeconfig import Cluster, Kubeconfig, User

_MOST = 20


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the files and flags come to."""

    merged: Kubeconfig
    selection: Selection | Problem
    config: ClientConfig | None
    problems: tuple[Problem, ...] = ()
    """Why there is none."""
    cluster_only: ClientConfig | None = None
    """How to reach the cluster, if only the user's entry is broken."""

    @property
    def in_pod(self) -> bool:
        """Whether it is the pod's configuration, because there is no other."""
        return self.config is not None and _has_no_cluster(self.selection)

    @property
    def has_entries(self) -> bool:
        return bool(self.merged.contexts or self.merged.clusters or self.merged.users)

    @property
    def has_no_cluster(self) -> bool:
        """Whether no entry says where it is."""
        return _has_no_cluster(self.selection)

    @property
    def way(self) -> ClientConfig | None:
        """How to reach the cluster."""
        return self.config or self.cluster_only


def resolve(loader: Loader, found: LoadedFiles, paths: Sequence[str]) -> Resolved:
    """As `load_config` does, with the steps in sight. `found` must have no problems."""
    merged = merge_kubeconfigs(found.configs)
    selection = select(merged, loader.overrides, cwd=get_working_directory())
    config = _config_or_problems(loader, found, paths)
    if isinstance(config, ClientConfig):
        return Resolved(merged, selection, config)
    cluster_only = None
    if isinstance(selection, Selection) and not _has_no_cluster(selection):
        cluster_only = _without_user(loader, merged, selection)
    return Resolved(merged, selection, None, config, cluster_only)


def _config_or_problems(
    loader: Loader, found: LoadedFiles, paths: Sequence[str]
) -> ClientConfig | tuple[Problem, ...]:
    try:
        return loader.resolve_or_in_cluster(found, paths)
    except KubeConfigError as wrong:
        return wrong.problems
    except ConfigError as wrong:  # of the pod
        what, advice = parted(str(wrong))
        return (Problem(what, hint=advice),)


def _without_user(loader: Loader, merged: Kubeconfig, selection: Selection) -> ClientConfig | None:
    overrides = replace(loader.overrides, user="", user_info=User())
    bare = replace_fields(merged, {"users": {selection.user_name: User()}})
    found = _config_or_problems(replace(loader, overrides=overrides), LoadedFiles((bare,), (), ()), ())
    return found if isinstance(found, ClientConfig) else None


def _has_no_cluster(selection: Selection | Problem) -> bool:
    return isinstance(selection, Selection) and selection.cluster == Cluster()


def context_finding(resolved: Resolved, overrides: Overrides, missing: str = "") -> Finding:
    """Which context, cluster and user, and who said so. `missing` is what to do if there are no entries."""
    selection = resolved.selection
    if isinstance(selection, Problem):
        return error("context", *of_problem(selection))
    facts = _facts(selection, resolved.merged, overrides)
    if resolved.in_pod and resolved.config is not None:
        namespace = resolved.config.namespace
        summary = f"no kubeconfig names a cluster: the pod's own service account, namespace {namespace}"
        return ok("context", summary, **facts, in_cluster=True)
    if selection.problems:
        what, advice = of_problem(selection.problems[0])
        return error("context", what, advice, **facts)
    if _has_no_cluster(selection):
        # What is wrong with the user comes before it.
        problem = resolved.problems[-1]
        advice = problem.hint if resolved.has_entries else missing or problem.hint
        return error("context", problem.message, advice, **facts)
    return ok("context", _chosen(selection, facts), **facts)


def _facts(selection: Selection, merged: Kubeconfig, overrides: Overrides) -> dict[str, str | None]:
    origin = selection.context.origin or None
    return {
        "context": selection.context_name or None,
        "context_from": "--context" if overrides.context else merged.current_context_origin or None,
        "cluster": selection.cluster_name or None,
        "cluster_from": "--cluster" if overrides.cluster else origin,
        "user": selection.user_name or None,
        "user_from": "--user" if overrides.user else origin,
        "namespace": selection.namespace or None,
        "namespace_from": "--namespace" if overrides.namespace else origin,
    }


def _chosen(selection: Selection, facts: dict[str, str | None]) -> str:
    def said(kind: str) -> str:
        by = facts[f"{kind}_from"] or ""
        return f" {facts[kind] or 'none'}{f' ({by})' if by.startswith('--') else ''}"

    if selection.context_name:
        by = facts["context_from"] or "the kubeconfig"
        by = by if by.startswith("--") else f"current-context of {by}"
        head = f"{selection.context_name} ({by}): "
    else:
        head = "no context: "
    namespace = f", namespace{said('namespace')}" if selection.namespace else ""
    return f"{head}cluster{said('cluster')}, user{said('user')}{namespace}"


def entries_findings(resolved: Resolved) -> Iterator[Finding]:
    """What is wrong with the chosen ones, each in a line; or what they come to."""
    selection, config = resolved.selection, resolved.config
    if isinstance(selection, Problem) or (config is None and _has_no_cluster(selection)):
        yield skipped("entries", "no cluster is chosen")
        return
    if config is None:
        wrong = [problem for problem in resolved.problems if problem not in selection.problems]
        for problem in wrong:
            yield error("entries", *of_problem(problem), field=problem.field, path=problem.path)
        if not wrong:
            yield skipped("entries", "the context names what is not there")
        return
    server = redact_url(config.server)
    methods = methods_of(config)
    facts = {"server": server, "methods": methods, "tls_server_name": config.tls_server_name}
    as_whom = f", acting as {config.impersonate.user}" if config.impersonate else ""
    if not uses_tls(config.server):
        summary = f"{server} is plain http: no credential is read, or sent, over it"
        yield warning("entries", summary, "Write https:// in server, if the server can do it.", **facts)
    else:
        credentials = " and ".join(methods) or "no credential"
        yield ok("entries", f"{server} with {credentials}{as_whom}; nothing wrong with them", **facts)
    for problem in _of_context(selection, resolved.merged):
        yield warning("entries", *of_problem(problem), field=problem.field, path=problem.path)


def _of_context(selection: Selection, merged: Kubeconfig) -> Iterator[Problem]:
    """What is wrong with a context that can be used all the same (K30), and no flag has mended."""
    mended = {".user": selection.user_name, ".cluster": selection.cluster_name or selection.cluster.server}
    if selection.context_name:
        for problem in validate_context(selection.context_name, selection.context, merged):
            if not any((problem.field or "").endswith(end) and by for end, by in mended.items()):
                yield problem


def methods_of(config: ClientConfig) -> list[str]:
    """What the user of a config has to show."""
    found = {
        "a token file": config.token_file,
        "a token": config.token and not config.token_file,
        "a password": config.username,
        "a client certificate": config.client_cert_data or config.client_cert_file,
        f"the plugin {config.exec.command}" if config.exec else "": config.exec,
        "an OIDC issuer": config.oidc,
    }
    return [name for name, value in found.items() if value]


def others_finding(resolved: Resolved) -> Finding:
    """What is wrong with entries that are not in use (K30), counted."""
    selection, merged = resolved.selection, resolved.merged
    if not resolved.has_entries:
        return skipped("others", "there are no entries")
    problems = validate_kubeconfig(merged, find_open_problem)
    if isinstance(selection, Selection):
        used = (
            "current-context",
            f'contexts["{selection.context_name}"]',
            f'clusters["{selection.cluster_name}"]',
            f'users["{selection.user_name}"]',
        )
        problems = [problem for problem in problems if not (problem.field or "").startswith(used)]
    if not problems:
        return ok("others", "nothing wrong with the entries that are not in use", problems=[])
    shown = [{"message": each.message, "place": each.place, "hint": each.hint} for each in problems[:_MOST]]
    what, advice = of_problem(problems[0])
    first = f"{counted(len(problems), 'problem')} with entries that are not in use; the first: {what}"
    return warning("others", first, advice, count=len(problems), problems=shown)
