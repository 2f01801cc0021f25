"""Validate clusters, users and contexts as client-go does (K30, K35-K44).

Reads no files, except through the argument `find_open_problem`. All problems are returned, not only the
first. Where client-go has a message for a problem, the message is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kubeauth._config.urls import find_proxy_problem
from kubeauth._exec.config import INTERACTIVE_MODES
from kubeauth.errors import Problem

if TYPE_CHECKING:
    from kubeauth.schemas._kubeconfig import Cluster, Context, ExecEntry, Kubeconfig, User

FindOpenProblem = Callable[[str], str | None]
"""Returns why a path cannot be opened, or None if it can."""

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# In place of a file name: a JWT, an OpenShift token, or 40 or more characters without a dot.
_LOOKS_LIKE_TOKEN = re.compile(r"(^|[/\\])(eyJ[\w-]+\.[\w-]+\.[\w-]*|sha256~[\w-]+|[\w+=-]{40,})$")


def validate_cluster(name: str, cluster: Cluster, find_open_problem: FindOpenProblem) -> list[Problem]:
    """Return all problems of a cluster entry."""

    def problem(message: str, field: str, hint: str) -> Problem:
        return Problem(message, cluster.origin or None, f'clusters["{name}"].cluster.{field}', hint)

    def find_problems() -> Iterator[Problem]:
        if not cluster.server:
            message = (
                f'no server found for cluster "{name}"' if name else "default cluster has no server defined"
            )
            yield problem(message, "server", "Set it to the API server's URL, such as https://host:6443.")
        if cluster.proxy_url and (reason := find_proxy_problem(cluster.proxy_url)):
            # client-go quotes the URL, which may contain a password.
            message = f"invalid 'proxy-url' for cluster \"{name}\": {reason}"
            yield problem(message, "proxy-url", "Write it as http://host:port, https:// or socks5://.")
        if cluster.certificate_authority and cluster.certificate_authority_data:
            message = f"certificate-authority-data and certificate-authority are both specified for {name}"
            yield problem(message, "certificate-authority", "Remove one of the two.")
        if cluster.certificate_authority and (reason := find_open_problem(cluster.certificate_authority)):
            path = redact_path(cluster.certificate_authority)
            message = f"unable to read certificate-authority {path} for {name} due to {reason}"
            yield problem(message, "certificate-authority", _PATH_HINT)

    return list(find_problems())


_PATH_HINT = "Check the path. A relative path is relative to the directory of its kubeconfig."


def validate_user(name: str, user: User, find_open_problem: FindOpenProblem) -> list[Problem]:
    """Return all problems of a user entry."""

    def problem(message: str, field: str, hint: str) -> Problem:
        return Problem(message, user.origin or None, f'users["{name}"].user.{field}', hint)

    def find_problems() -> Iterator[Problem]:
        if user.client_certificate or user.client_certificate_data:
            # Without a certificate a key is ignored, as in client-go (K38).
            yield from _validate_certificate(name, user, find_open_problem, problem)
        if user.exec:
            yield from _validate_exec(name, user.exec, problem)
        if user.exec and user.auth_provider:
            message = f"authProvider cannot be provided in combination with an exec plugin for {name}"
            yield problem(message, "auth-provider", "Remove one of the two.")
        if user.token and (user.username or user.password):
            message = (
                f"more than one authentication method found for {name}; "
                "found [token basicAuth], only one is allowed"
            )
            yield problem(message, "token", "Remove the token, or username and password.")
        has_details = user.impersonate_uid or user.impersonate_groups or user.impersonate_extra
        if has_details and not user.impersonate:
            message = f"requesting uid, groups or user-extra for {name} without impersonating a user"
            yield problem(message, "as", "Set `as` to a user, or remove the other as-* fields.")

    return list(find_problems())


def redact_path(path: str) -> str:
    """Return `path` for a message, or a placeholder if it may be a key or a token instead of a path."""
    if "\n" in path or "-----BEGIN" in path or len(path) > 300:
        return "(its value is not a path)"
    return "(not shown: it looks like a token)" if _LOOKS_LIKE_TOKEN.search(path) else path


_NewProblem = Callable[[str, str, str], Problem]


def _validate_certificate(
    name: str, user: User, find_open_problem: FindOpenProblem, problem: _NewProblem
) -> Iterator[Problem]:
    if user.client_certificate and user.client_certificate_data:
        message = f"client-cert-data and client-cert are both specified for {name}"
        yield problem(message, "client-certificate", "Remove one of the two.")
    if user.client_key and user.client_key_data:
        message = f"client-key-data and client-key are both specified for {name}"
        yield problem(message, "client-key", "Remove one of the two.")
    if not (user.client_key or user.client_key_data):
        message = (
            f"client-key-data or client-key must be specified for {name} "
            "to use the clientCert authentication method"
        )
        yield problem(message, "client-key", "A client certificate needs its private key.")
    for label, field, path in (
        ("client-cert", "client-certificate", user.client_certificate),
        ("client-key", "client-key", user.client_key),
    ):
        if path and (reason := find_open_problem(path)):
            message = f"unable to read {label} {redact_path(path)} for {name} due to {reason}"
            yield problem(message, field, _PATH_HINT)


def _validate_exec(name: str, entry: ExecEntry, problem: _NewProblem) -> Iterator[Problem]:
    suffix = f"must be specified for {name} to use exec authentication plugin"
    if not entry.command:
        yield problem(f"command {suffix}", "exec.command", "Set it to the plugin's command.")
    if not entry.api_version:
        hint = "Set it to client.authentication.k8s.io/v1 or v1beta1, whichever the plugin supports."
        yield problem(f"apiVersion {suffix}", "exec.apiVersion", hint)
    for number, variable in enumerate(entry.env):
        if not variable.name:
            yield problem(f"env variable name {suffix}", f"exec.env[{number}].name", "Add a name.")
    modes = ", ".join(INTERACTIVE_MODES)
    if not entry.interactive_mode:
        yield problem(f"interactiveMode {suffix}", "exec.interactiveMode", f"Set it to one of: {modes}.")
    elif entry.interactive_mode not in INTERACTIVE_MODES:
        message = f'invalid interactiveMode for {name}: "{entry.interactive_mode}"'
        yield problem(message, "exec.interactiveMode", f"Set it to one of: {modes}.")


def validate_tls_options(
    cluster_name: str, cluster: Cluster, user_name: str, user: User, is_tls: bool
) -> list[Problem]:
    """Return the problems that client-go finds when it builds its transport. None over plain http (K46)."""

    def find_problems() -> Iterator[Problem]:
        if cluster.insecure_skip_tls_verify and (
            cluster.certificate_authority or cluster.certificate_authority_data
        ):
            yield Problem(
                "specifying a root certificates file with the insecure flag is not allowed",
                cluster.origin or None,
                f'clusters["{cluster_name}"].cluster.insecure-skip-tls-verify',
                "Remove insecure-skip-tls-verify: the CA verifies the server.",
            )
        if user.username and user.token_file:
            yield Problem(
                "username/password or bearer token may be set, but not both",
                user.origin or None,
                f'users["{user_name}"].user.tokenFile',
                "Remove tokenFile, or username and password.",
            )

    return list(find_problems()) if is_tls else []


def validate_context(name: str, context: Context, config: Kubeconfig) -> list[Problem]:
    """Return all problems of a context entry. Stricter than what using the context requires (K30)."""

    def problem(message: str, field: str, hint: str) -> Problem:
        return Problem(message, context.origin or None, f'contexts["{name}"].context{field}', hint)

    def find_problems() -> Iterator[Problem]:
        if not name:
            yield problem("empty context name is not allowed", "", "Set the name of the context.")
        for kind, reference, entries in (
            ("user", context.user, config.users),
            ("cluster", context.cluster, config.clusters),
        ):
            if not reference:
                message = f'{kind} was not specified for context "{name}"'
                yield problem(message, f".{kind}", f"Set it to one of the {kind}s in the kubeconfig.")
            elif reference not in entries:
                message = f'{kind} "{reference}" was not found for context "{name}"'
                yield problem(message, f".{kind}", f"Add the {kind}, or correct the name.")
        if context.namespace and not _DNS_LABEL.fullmatch(context.namespace):
            message = (
                f'namespace "{context.namespace}" for context "{name}" '
                "does not conform to the kubernetes DNS_LABEL rules"
            )
            yield problem(message, ".namespace", "Use at most 63 lowercase letters, digits and dashes.")

    return list(find_problems())


def validate_kubeconfig(config: Kubeconfig, find_open_problem: FindOpenProblem) -> list[Problem]:
    """Return all problems of all entries in a kubeconfig, used or not (K30)."""
    problems: list[Problem] = []
    if config.current_context and config.current_context not in config.contexts:
        message = f"context was not found for specified context: {config.current_context}"
        problems.append(Problem(message, field="current-context", hint="Set it to a context that exists."))
    for name, context in config.contexts.items():
        problems.extend(validate_context(name, context, config))
    for name, user in config.users.items():
        problems.extend(validate_user(name, user, find_open_problem))
    for name, cluster in config.clusters.items():
        problems.extend(validate_cluster(name, cluster, find_open_problem))
    return problems
