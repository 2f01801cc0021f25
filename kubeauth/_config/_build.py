"""From the selected entries to a ClientConfig (K45-K52, K58-K60)."""

from __future__ import annotations

import copy
from dataclasses import replace

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._files import read_file, reason
from kubeauth._config._impersonation import Impersonation
from kubeauth._config._model import Cluster, ExecStanza, User
from kubeauth._config._select import Selection
from kubeauth._config._server import AddressError, server_url, uses_tls
from kubeauth._config._validate import auth_provider_problem, shown_path
from kubeauth._exec._hint import clean_hint
from kubeauth._exec._policy import PluginPolicy
from kubeauth._exec._values import ExecConfig, ExecOptions
from kubeauth._secret import Secret
from kubeauth.errors import Problem

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def build(
    selection: Selection, *, namespace: str, options: ExecOptions, policy: PluginPolicy
) -> ClientConfig | list[Problem]:
    """The config for validated entries, or why the HTTP stack could not be built from them."""
    cluster, user = selection.cluster, selection.user
    at_cluster = f'clusters["{selection.cluster_name}"].cluster'
    try:
        server = server_url(cluster.server)
    except AddressError as error:
        hint = "Write it as https://host:port."
        return [Problem(f"invalid server: {error}", cluster.origin or None, f"{at_cluster}.server", hint)]
    impersonate = None
    if user.impersonate:
        impersonate = Impersonation(
            user=user.impersonate,
            uid=user.impersonate_uid,
            groups=user.impersonate_groups,
            extra=user.impersonate_extra,
        )
    config = ClientConfig(
        server=server,
        namespace=namespace,
        context=selection.context_name or None,
        proxy_url=cluster.proxy_url or None,
        disable_compression=cluster.disable_compression,
        impersonate=impersonate,
    )
    if not uses_tls(server):
        # K46: over plain http nothing of the user's is read, let alone sent.
        return config
    problems = [*_trust_problems(at_cluster, cluster), *_method_problems(selection.user_name, user)]
    token = _initial_token(selection.user_name, user)
    if isinstance(token, Problem):
        problems.append(token)
    if problems or isinstance(token, Problem):
        return problems
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    return replace(
        config,
        ca_data=cluster.certificate_authority_data or None,
        ca_file=cluster.certificate_authority or None,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name or None,
        token=token,
        token_file=user.token_file or None,
        username=user.username or None,
        password=user.password or None,
        client_cert_data=(has_certificate and user.client_certificate_data) or None,
        client_key_data=(has_certificate and user.client_key_data) or None,
        client_cert_file=(has_certificate and user.client_certificate) or None,
        client_key_file=(has_certificate and user.client_key) or None,
        exec=_exec_config(user.exec, cluster, options, policy) if user.exec else None,
    )


def _trust_problems(at_cluster: str, cluster: Cluster) -> list[Problem]:
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        return [
            Problem(
                "specifying a root certificates file with the insecure flag is not allowed",
                cluster.origin or None,
                f"{at_cluster}.insecure-skip-tls-verify",
                "Remove insecure-skip-tls-verify: with a CA the server can be verified.",
            )
        ]
    return []


def _method_problems(name: str, user: User) -> list[Problem]:
    problems: list[Problem] = []
    if unusable := auth_provider_problem(name, user):
        problems.append(unusable)
    # validation lets this through, and client-go then fails when it builds its HTTP stack (K39).
    if user.username and user.token_file:
        message = "username/password or bearer token may be set, but not both"
        hint = "Remove tokenFile, or username and password."
        problems.append(Problem(message, user.origin or None, f'users["{name}"].user.tokenFile', hint))
    return problems


def _initial_token(name: str, user: User) -> Secret[str] | Problem | None:
    """`token`; else what the token file holds now, as it is (K58-K60)."""
    if user.token:
        return user.token
    if not user.token_file:
        return None
    field, path = f'users["{name}"].user.tokenFile', shown_path(user.token_file)
    hint = "Check the path, and that whatever writes the token has run."
    try:
        token = read_file(user.token_file).decode()
    except OSError as error:
        message = f"unable to read tokenFile {path} for {name} due to {reason(error)}"
    except UnicodeDecodeError:
        message = f"unable to read tokenFile {path} for {name}: it is not text"
    else:
        if token.strip():
            return Secret(token)
        message = f"read empty token from file {path} for {name}"
    return Problem(message, user.origin or None, field, hint)


def _exec_config(
    stanza: ExecStanza, cluster: Cluster, options: ExecOptions, policy: PluginPolicy
) -> ExecConfig:
    return ExecConfig(
        command=stanza.command,
        args=stanza.args,
        env=dict(stanza.env),
        api_version=stanza.api_version,
        interactive_mode=stanza.interactive_mode,
        provide_cluster_info=stanza.provide_cluster_info,
        install_hint=clean_hint(stanza.install_hint),
        # A copy for each config: two contexts that share a user must not share this (K34).
        cluster_config=copy.deepcopy(cluster.extensions.get(EXEC_EXTENSION)),
        options=options,
        policy=policy,
    )
