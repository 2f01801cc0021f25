"""From the selected and checked entries to a ClientConfig (K45-K52, K58-K60). Pure."""

from __future__ import annotations

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._impersonation import Impersonation
from kubeauth._config._model import Cluster, ExecStanza, User
from kubeauth._config._oidc import OidcConfig
from kubeauth._config._select import Selection
from kubeauth._config._server import uses_tls
from kubeauth._exec.config import ExecConfig, ExecOptions, PluginPolicy
from kubeauth._exec.lookup import escape_terminal
from kubeauth._secret import Secret

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_NO_CLUSTER, _NO_USER = Cluster(), User()


def build(
    selection: Selection,
    *,
    server: str,
    token: Secret[str] | None,
    namespace: str,
    options: ExecOptions,
    policy: PluginPolicy,
    oidc: OidcConfig | None,
) -> ClientConfig:
    """The config for entries in which nothing is wrong."""
    cluster, user = selection.cluster, selection.user
    # K46: over plain http nothing of the user is read, let alone sent.
    tls = uses_tls(server)
    tls_cluster, tls_user = (cluster, user) if tls else (_NO_CLUSTER, _NO_USER)
    # K38: a key without a certificate is not a credential.
    has_certificate = bool(tls_user.client_certificate or tls_user.client_certificate_data)
    certificate = tls_user if has_certificate else _NO_USER
    # One call and no dataclasses.replace: each of those would check all fields again.
    return ClientConfig(
        server=server,
        namespace=namespace,
        context=selection.context_name or None,
        proxy_url=cluster.proxy_url or None,
        disable_compression=cluster.disable_compression,
        impersonate=_impersonation(user),
        ca_data=tls_cluster.certificate_authority_data or None,
        ca_file=tls_cluster.certificate_authority or None,
        insecure_skip_tls_verify=tls_cluster.insecure_skip_tls_verify,
        tls_server_name=tls_cluster.tls_server_name or None,
        token=token if tls else None,
        token_file=tls_user.token_file or None,
        username=tls_user.username or None,
        password=tls_user.password or None,
        exec=_exec_config(tls_user.exec, cluster, options, policy) if tls_user.exec else None,
        oidc=oidc if tls else None,
        client_cert_data=certificate.client_certificate_data or None,
        client_key_data=certificate.client_key_data or None,
        client_cert_file=certificate.client_certificate or None,
        client_key_file=certificate.client_key or None,
    )


def _impersonation(user: User) -> Impersonation | None:
    if not user.impersonate:
        return None
    return Impersonation(
        user=user.impersonate,
        uid=user.impersonate_uid,
        groups=user.impersonate_groups,
        extra=user.impersonate_extra,
    )


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
        install_hint=escape_terminal(stanza.install_hint),
        # From the cluster in use: two contexts that share a user do not share this (K34).
        cluster_config=cluster.extensions.get(EXEC_EXTENSION),
        options=options,
        policy=policy,
    )
