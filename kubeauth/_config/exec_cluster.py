"""Convert a ClientConfig to the cluster info of an exec plugin (X6-X9), and back in the plugin (X47)."""

from __future__ import annotations

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import describe_os_error, read_file
from kubeauth._config.urls import InvalidURL, find_proxy_problem, parse_server_url
from kubeauth._exec.config import ExecCluster
from kubeauth.errors import ConfigError, KubeConfigError


def build_exec_cluster(config: ClientConfig) -> ExecCluster:
    """Return the cluster of `config`, with the content of its CA file. Raises ConfigError."""
    ca_data = config.ca_data or b""
    if not ca_data and config.ca_file:
        try:
            ca_data = read_file(config.ca_file)
        except OSError as error:
            message = (
                f"failed to load CA bundle for execProvider: {config.ca_file}: {describe_os_error(error)}"
            )
            raise KubeConfigError(message, path=config.ca_file) from error
    try:
        parse_server_url(config.server)
    except InvalidURL as error:
        raise ConfigError(f"failed to create proxy URL request for execProvider: {error}") from None
    if config.proxy_url and (reason := find_proxy_problem(config.proxy_url)):
        raise ConfigError(f"failed to get proxy URL for execProvider: {reason}")
    return ExecCluster(
        server=config.server,
        tls_server_name=config.tls_server_name or "",
        insecure_skip_tls_verify=config.insecure_skip_tls_verify,
        certificate_authority_data=ca_data,
        # Only from the kubeconfig: the plugin inherits the proxy variables of the environment.
        proxy_url=config.proxy_url or "",
        disable_compression=config.disable_compression,
        config=config.exec.cluster_config if config.exec else None,
    )


def config_from_exec_cluster(cluster: ExecCluster) -> ClientConfig | ConfigError:
    """Return a config for `cluster` without credentials.

    Errors are returned and not raised, so that no traceback refers to the URLs.
    """
    if cluster.proxy_url and (reason := find_proxy_problem(cluster.proxy_url)):
        return ConfigError(f"cannot create rest.Config: proxy-url: {reason}. Check it in the kubeconfig.")
    try:
        server = parse_server_url(cluster.server)
    except InvalidURL as error:
        return ConfigError(f"cannot create rest.Config: server: {error}. Check it in the kubeconfig.")
    return ClientConfig(
        server=server,
        ca_data=cluster.certificate_authority_data or None,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name or None,
        proxy_url=cluster.proxy_url or None,
        disable_compression=cluster.disable_compression,
    )
