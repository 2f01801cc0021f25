"""What client-go checks before it uses a cluster, a user or a context (K30, K35-K44).

Pure but for `try_open`, which is handed in: it says why a path cannot be opened, or None. Every
problem is found, not only the first, and has client-go's words where client-go has any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kubeauth._config.kubeconfig import Cluster, Context, ExecEntry, Kubeconfig, User
from kubeauth._config.urls import find_proxy_problem
from kubeauth._exec.config import INTERACTIVE_MODES
from kubeauth.errors import Problem

TryOpen = Callable[[str], str | None]

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Where a file's name would be: a JWT, a token of OpenShift's, or just long and with no dot.
_LOOKS_LIKE_TOKEN = re.compile(r"(^|[/\\])(eyJ[\w-]+\.[\w-]+\.[\w-]*|sha256~[\w-]+|[\w+=-]{40,})$")


def validate_cluster(name: str, cluster: Cluster, try_open: TryOpen) -> list[Problem]:
    """All that is wrong with a cluster."""

    def problem(message: str, field: str, hint: str) -> Problem:
        return Problem(message, cluster.origin or None, f'clusters["{name}"].cluster.{field}', hint)

    def found() -> Iterator[Problem]:
        if not cluster.server:
            message = (
                f'no server found for cluster "{name}"' if name else "default cluster has no server defined"
            )
            yield problem(message, "server", "Give the API server's address, such as https://host:6443.")
        if cluster.proxy_url and (wrong := find_proxy_problem(cluster.proxy_url)):
            # client-go quotes the URL, which may hold a password.
            message = f"invalid 'proxy-url' for cluster \"{name}\": {wrong}"
            yield problem(message, "proxy-url", "Write it as http://host:port, https:// or socks5://.")
        if cluster.certificate_authority and cluster.certificate_authority_data:
            message = f"certificate-authority-data and certificate-authority are both specified for {name}"
            yield problem(message, "certificate-authority", "Remove one of the two.")
        if cluster.certificate_authority and (wrong := try_open(cluster.certificate_authority)):
            path = redact_path(cluster.certificate_authority)
            message = f"unable to read certificate-authority {path} for {name} due to {wrong}"
            yield problem(message, "certificate-authority", _PATH_HINT)

    return list(found())


_PATH_HINT = "Check the path; a relative one counts from the directory of the kubeconfig it stands in."


def validate_user(name: str, user: User, try_open: TryOpen) -> list[Problem]:
    """All that is wrong with a user."""

    def problem(message: str, field: str, hint: str) -> Problem:
        return Problem(message, user.origin or None, f'users["{name}"].user.{field}', hint)

    def found() -> Iterator[Problem]:
        if user.client_certificate or user.client_certificate_data:
            # Without a certificate a key is ignored, as in client-go (K38).
            yield from _validate_certificate(name, user, try_open, problem)
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
        extra = user.impersonate_uid or user.impersonate_groups or user.impersonate_extra
        if extra and not user.impersonate:
            message = f"requesting uid, groups or user-extra for {name} without impersonating a user"
            yield problem(message, "as", "Name the user to impersonate in `as`, or remove the others.")

    return list(found())


def redact_path(path: str) -> str:
    """`path`, unless somebody put the thing itself where its path belongs: that may be a key."""
    if "\n" in path or "-----BEGIN" in path or len(path) > 300:
        return "(its value is not a path)"
    return "(not shown: it looks like a token)" if _LOOKS_LIKE_TOKEN.search(path) else path


_NewProblem = Callable[[str, str, str], Problem]


def _validate_certificate(
    name: str, user: User, try_open: TryOpen, problem: _NewProblem
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
        yield problem(message, "client-key", "A certificate is no use without its private key.")
    for label, field, path in (
        ("client-cert", "client-certificate", user.client_certificate),
        ("client-key", "client-key", user.client_key),
    ):
        if path and (wrong := try_open(path)):
            message = f"unable to read {label} {redact_path(path)} for {name} due to {wrong}"
            yield problem(message, field, _PATH_HINT)


def _validate_exec(name: str, entry: ExecEntry, problem: _NewProblem) -> Iterator[Problem]:
    use = f"must be specified for {name} to use exec authentication plugin"
    if not entry.command:
        yield problem(f"command {use}", "exec.command", "Name the plugin's program.")
    if not entry.api_version:
        hint = "Write client.authentication.k8s.io/v1 or v1beta1, whichever the plugin speaks."
        yield problem(f"apiVersion {use}", "exec.apiVersion", hint)
    for number, (variable, _) in enumerate(entry.env):
        if not variable:
            yield problem(f"env variable name {use}", f"exec.env[{number}].name", "Name the variable.")
    modes = ", ".join(INTERACTIVE_MODES)
    if not entry.interactive_mode:
        yield problem(f"interactiveMode {use}", "exec.interactiveMode", f"Write one of: {modes}.")
    elif entry.interactive_mode not in INTERACTIVE_MODES:
        message = f'invalid interactiveMode for {name}: "{entry.interactive_mode}"'
        yield problem(message, "exec.interactiveMode", f"Write one of: {modes}.")


def validate_tls_options(
    cluster_name: str, cluster: Cluster, user_name: str, user: User, tls: bool
) -> list[Problem]:
    """What client-go finds only when it builds its HTTP stack. Over http it reads none of it (K46)."""

    def found() -> Iterator[Problem]:
        if cluster.insecure_skip_tls_verify and (
            cluster.certificate_authority or cluster.certificate_authority_data
        ):
            yield Problem(
                "specifying a root certificates file with the insecure flag is not allowed",
                cluster.origin or None,
                f'clusters["{cluster_name}"].cluster.insecure-skip-tls-verify',
                "Remove insecure-skip-tls-verify: with a CA the server can be verified.",
            )
        if user.username and user.token_file:
            yield Problem(
                "username/password or bearer token may be set, but not both",
                user.origin or None,
                f'users["{user_name}"].user.tokenFile',
                "Remove tokenFile, or username and password.",
            )

    return list(found()) if tls else []


def validate_context(name: str, context: Context, config: Kubeconfig) -> list[Problem]:
    """All that is wrong with a context by itself: stricter than what using it needs (K30)."""

    def problem(message: str, field: str, hint: str) -> Problem:
        return Problem(message, context.origin or None, f'contexts["{name}"].context{field}', hint)

    def found() -> Iterator[Problem]:
        if not name:
            yield problem("empty context name is not allowed", "", "Give the context a name.")
        for kind, named, known in (
            ("user", context.user, config.users),
            ("cluster", context.cluster, config.clusters),
        ):
            if not named:
                message = f'{kind} was not specified for context "{name}"'
                yield problem(message, f".{kind}", f"Name one of the {kind}s in the kubeconfig.")
            elif named not in known:
                message = f'{kind} "{named}" was not found for context "{name}"'
                yield problem(message, f".{kind}", f"Add the {kind}, or correct the name.")
        if context.namespace and not _DNS_LABEL.fullmatch(context.namespace):
            message = (
                f'namespace "{context.namespace}" for context "{name}" '
                "does not conform to the kubernetes DNS_LABEL rules"
            )
            yield problem(message, ".namespace", "Use lower-case letters, digits and dashes, at most 63.")

    return list(found())


def validate_kubeconfig(config: Kubeconfig, try_open: TryOpen) -> list[Problem]:
    """All that is wrong anywhere in a kubeconfig, in use or not (K30)."""
    problems: list[Problem] = []
    if config.current_context and config.current_context not in config.contexts:
        message = f"context was not found for specified context: {config.current_context}"
        problems.append(Problem(message, field="current-context", hint="Name a context that exists."))
    for name, context in config.contexts.items():
        problems.extend(validate_context(name, context, config))
    for name, user in config.users.items():
        problems.extend(validate_user(name, user, try_open))
    for name, cluster in config.clusters.items():
        problems.extend(validate_cluster(name, cluster, try_open))
    return problems
