"""T74: the cluster in the ExecCredential that a plugin receives (rest/exec_test.go, TestConfigToExecCluster)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, ExecConfig
from kubeauth._config.exec_cluster import build_exec_cluster
from kubeauth._exec.config import ExecCluster
from kubeauth.errors import ConfigError, KubeConfigError

PROXY = "https://some-proxy-url.com/tuna/fish"
CLUSTER_CONFIG = {"audience": [1, None]}


def client_config(**fields: Any) -> ClientConfig:
    plugin = ExecConfig(
        command="c", api_version="v", provide_cluster_info=True, cluster_config=CLUSTER_CONFIG
    )
    return ClientConfig(**{"server": "https://some-host", "exec": plugin, **fields})


def exec_cluster(**fields: Any) -> ExecCluster:
    return ExecCluster(**{"server": "https://some-host", "config": CLUSTER_CONFIG, **fields})


def test_ca_data_is_passed_on_t74() -> None:
    cluster = build_exec_cluster(
        client_config(tls_server_name="name", insecure_skip_tls_verify=True, ca_data=b"ca", proxy_url=PROXY)
    )
    assert cluster == exec_cluster(
        tls_server_name="name",
        insecure_skip_tls_verify=True,
        certificate_authority_data=b"ca",
        proxy_url=PROXY,
    )
    assert repr(cluster) == "ExecCluster(server='https://some-host', ...)"


def test_the_ca_file_is_read_t74(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"a CA bundle lives here")
    cluster = build_exec_cluster(client_config(ca_file=str(tmp_path / "ca.pem"), proxy_url=PROXY))
    assert cluster == exec_cluster(certificate_authority_data=b"a CA bundle lives here", proxy_url=PROXY)


def test_ca_data_wins_over_a_ca_file_t74_k49() -> None:
    cluster = build_exec_cluster(client_config(ca_data=b"data", ca_file="/this-file-does-not-exist"))
    assert cluster.certificate_authority_data == b"data"


def test_a_missing_ca_file_raises_t74() -> None:
    with pytest.raises(KubeConfigError, match="failed to load CA bundle for execProvider: ") as caught:
        build_exec_cluster(client_config(ca_file="/this-file-does-not-exist"))
    assert caught.value.path == "/this-file-does-not-exist"


def test_a_proxy_of_the_environment_is_not_reported_t74(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://not-reported:1")
    assert build_exec_cluster(client_config(disable_compression=True)) == exec_cluster(
        disable_compression=True
    )


def test_an_invalid_proxy_url_raises_t74() -> None:
    with pytest.raises(ConfigError, match="failed to get proxy URL for execProvider"):
        build_exec_cluster(client_config(proxy_url="nonsense"))


def test_an_invalid_server_raises_t74() -> None:
    with pytest.raises(ConfigError, match="failed to create proxy URL request for execProvider: "):
        build_exec_cluster(client_config(server="invalid-config-host\n"))


def test_config_is_none_without_a_plugin() -> None:
    assert build_exec_cluster(client_config(exec=None)).config is None
