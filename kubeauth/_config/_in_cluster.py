"""The configuration that a pod is given (K65-K68)."""

from __future__ import annotations

import logging
import os

from kubeauth._config._client_config import ClientConfig, Recipe, with_recipe
from kubeauth._config._files import read_file, reason
from kubeauth._config._model import Overrides
from kubeauth._config._pem import certificates
from kubeauth._config._server import AddressError, server_url
from kubeauth._config._surroundings import Surroundings
from kubeauth._secret import Secret
from kubeauth.errors import InClusterError

logger = logging.getLogger("kubeauth.config")


def in_cluster_config() -> ClientConfig:
    """The configuration of the pod this process runs in, from its service account.

    Raises InClusterError outside a pod, or where the service account's token is not mounted.
    """
    return load_in_cluster(Surroundings(), Overrides())


def in_cluster_possible(surroundings: Surroundings) -> bool:
    """Whether this looks like a pod (K66)."""
    token = os.path.join(surroundings.service_account, "token")
    return bool(
        surroundings.environ.get("KUBERNETES_SERVICE_HOST")
        and surroundings.environ.get("KUBERNETES_SERVICE_PORT")
        and os.path.exists(token)
        and not os.path.isdir(token)
    )


def in_cluster_namespace(surroundings: Surroundings) -> str:
    """POD_NAMESPACE, else the service account's namespace, else `default` (K68)."""
    if named := surroundings.environ.get("POD_NAMESPACE"):
        return named
    try:
        found = read_file(os.path.join(surroundings.service_account, "namespace")).decode().strip()
    except (OSError, UnicodeDecodeError):
        return "default"
    return found or "default"


def load_in_cluster(surroundings: Surroundings, overrides: Overrides) -> ClientConfig:
    """The pod's configuration with the few overrides that apply to it (K67)."""
    host = surroundings.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = surroundings.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise InClusterError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
            "must be defined. They are set in every pod; outside one, use load_config with a kubeconfig."
        )
    token_file = os.path.join(surroundings.service_account, "token")
    token: Secret[str] | None = _token(token_file)
    ca_file = _usable_ca(os.path.join(surroundings.service_account, "ca.crt"))
    address = f"[{host}]:{port}" if ":" in host or "%" in host else f"{host}:{port}"
    user, cluster = overrides.user_info, overrides.cluster_info
    if user.token or user.token_file:
        token, token_file = user.token or None, user.token_file
    try:
        server = server_url(cluster.server or f"https://{address}")
    except AddressError as error:
        raise InClusterError(
            f"unable to load in-cluster configuration: invalid server: {error}. "
            "It comes from KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT."
        ) from None
    config = ClientConfig(
        server=server,
        namespace=overrides.namespace or in_cluster_namespace(surroundings),
        ca_file=cluster.certificate_authority or ca_file,
        token=token,
        token_file=token_file or None,
    )
    return with_recipe(config, Recipe(in_cluster=True, namespace=config.namespace))


def _token(path: str) -> Secret[str]:
    """The token as it stands in the file, like client-go: whoever uses the file trims it (K61)."""
    try:
        return Secret(read_file(path).decode())
    except OSError as error:
        why = reason(error)
    except UnicodeDecodeError:
        why = "it is not text"
    raise InClusterError(
        f"unable to load in-cluster configuration: cannot read the service account's token {path}: {why}. "
        "Does the pod set automountServiceAccountToken: false?",
        path=path,
    )


def _usable_ca(path: str) -> str | None:
    """`path` if it holds certificates. client-go only logs a bad one, and trusts the system's roots."""
    import ssl  # outside a pod a kubeconfig is read without it

    why = "it holds no certificate"
    try:
        blocks = certificates(read_file(path))
        for block in blocks:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block)
        if blocks:
            return path
    except ssl.SSLError:
        why = "one of its certificates cannot be parsed"
    except OSError as error:
        why = reason(error)
    logger.warning("expected to load the root CA of the cluster from %s, but: %s", path, why)
    return None
