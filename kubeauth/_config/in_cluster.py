"""The in-cluster configuration: service account, CA and API server of a pod (K65-K68)."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from kubeauth._config.client_config import ClientConfig, ConfigOrigin, set_origin
from kubeauth._config.environment import Environment
from kubeauth._config.files import describe_os_error, read_file, split_pem_certificates
from kubeauth._config.urls import InvalidURL, parse_server_url
from kubeauth._secret import Secret
from kubeauth.errors import InClusterError

if TYPE_CHECKING:
    from kubeauth._config.kubeconfig import Overrides

logger = logging.getLogger("kubeauth.config")


def in_cluster_config() -> ClientConfig:
    """Load the configuration of the pod that this process runs in.

    It uses the pod's service account. Raises InClusterError outside a pod, or if the token of the service
    account is not mounted.
    """
    return load_in_cluster(Environment())


def is_in_cluster(environment: Environment) -> bool:
    """Return whether this process seems to run in a pod (K66)."""
    token = os.path.join(environment.service_account_dir, "token")
    return bool(
        environment.environ.get("KUBERNETES_SERVICE_HOST")
        and environment.environ.get("KUBERNETES_SERVICE_PORT")
        and os.path.exists(token)
        and not os.path.isdir(token)
    )


def read_in_cluster_namespace(environment: Environment) -> str:
    """Return POD_NAMESPACE, else the service account's namespace, else `default` (K68)."""
    if namespace := environment.environ.get("POD_NAMESPACE"):
        return namespace
    try:
        namespace = read_file(os.path.join(environment.service_account_dir, "namespace")).decode().strip()
    except (OSError, UnicodeDecodeError):
        return "default"
    return namespace or "default"


def load_in_cluster(environment: Environment, overrides: Overrides | None = None) -> ClientConfig:
    """Load the pod's configuration, with the few overrides that apply to it (K67)."""
    host = environment.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise InClusterError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
            "must be defined. They are set in every pod; outside a pod, use load_config with a kubeconfig."
        )
    token_file = os.path.join(environment.service_account_dir, "token")
    token: Secret[str] | None = _read_token(token_file)
    ca_file = _find_ca_file(os.path.join(environment.service_account_dir, "ca.crt"))
    address = f"[{host}]:{port}" if ":" in host or "%" in host else f"{host}:{port}"
    server, namespace = f"https://{address}", ""
    if overrides:
        user, cluster = overrides.user_info, overrides.cluster_info
        if user.token or user.token_file:
            token, token_file = user.token or None, user.token_file
        server, ca_file = cluster.server or server, cluster.certificate_authority or ca_file
        namespace = overrides.namespace
    try:
        server = parse_server_url(server)
    except InvalidURL as error:
        raise InClusterError(
            f"unable to load in-cluster configuration: invalid server: {error}. "
            "Check KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT."
        ) from None
    config = ClientConfig(
        server=server,
        namespace=namespace or read_in_cluster_namespace(environment),
        ca_file=ca_file,
        token=token,
        token_file=token_file or None,
    )
    return set_origin(config, ConfigOrigin(in_cluster=True, namespace=config.namespace))


def _read_token(path: str) -> Secret[str]:
    """Return the unstripped content of the token file, as client-go does (K61)."""
    try:
        return Secret(read_file(path).decode())
    except OSError as error:
        reason = describe_os_error(error)
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise InClusterError(
        f"unable to load in-cluster configuration: cannot read the service account's token {path}: {reason}. "
        "Does the pod set automountServiceAccountToken: false?",
        path=path,
    )


def _find_ca_file(path: str) -> str | None:
    """Return `path`, or None if it has no valid certificates: client-go then uses the system's roots."""
    import ssl  # here, because loading a kubeconfig does not need it

    reason = "it contains no certificate"
    try:
        blocks = split_pem_certificates(read_file(path))
        for block in blocks:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block)
        if blocks:
            return path
    except ssl.SSLError:
        reason = "it contains a certificate that cannot be parsed"
    except OSError as error:
        reason = describe_os_error(error)
    logger.warning("Expected to load root CA config from %s, but got err: %s", path, reason)
    return None
