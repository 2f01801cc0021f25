"""T74: what a plugin is told about the cluster (rest/exec_test.go, TestConfigToExecCluster)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, ExecConfig
from kubeauth._config.exec_cluster import build_exec_cluster
from kubeauth._exec.config import ExecCluster
from kubeauth.errors import ConfigError, KubeConfigError

PROXY = "https://some-proxy-url.com/tuna/fish"
STUFF = {"stuff": [1, None]}


def config(**fields: Any) -> ClientConfig:
    plugin = ExecConfig(command="c", api_version="v", provide_cluster_info=True, cluster_config=STUFF)
    return ClientConfig(**{"server": "https://some-host", "exec": plugin, **fields})


def told(**fields: Any) -> ExecCluster:
    return ExecCluster(**{"server": "https://some-host", "config": STUFF, **fields})


def test_ca_data_from_memory_t74() -> None:
    found = build_exec_cluster(
        config(tls_server_name="name", insecure_skip_tls_verify=True, ca_data=b"ca", proxy_url=PROXY)
    )
    assert found == told(
        tls_server_name="name",
        insecure_skip_tls_verify=True,
        certificate_authority_data=b"ca",
        proxy_url=PROXY,
    )
    assert repr(found) == "ExecCluster(server='https://some-host', ...)"


def test_ca_data_from_file_t74(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"a CA bundle lives here")
    found = build_exec_cluster(config(ca_file=str(tmp_path / "ca.pem"), proxy_url=PROXY))
    assert found == told(certificate_authority_data=b"a CA bundle lives here", proxy_url=PROXY)


def test_ca_data_wins_over_a_ca_file_t74_k49() -> None:
    found = build_exec_cluster(config(ca_data=b"data", ca_file="/this-file-does-not-exist"))
    assert found.certificate_authority_data == b"data"


def test_no_ca_data_t74() -> None:
    with pytest.raises(KubeConfigError, match="failed to load CA bundle for execProvider: ") as caught:
        build_exec_cluster(config(ca_file="/this-file-does-not-exist"))
    assert caught.value.path == "/this-file-does-not-exist"


def test_nil_proxy_t74(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://not-reported:1")
    assert build_exec_cluster(config(disable_compression=True)) == told(disable_compression=True)


def test_bad_proxy_t74() -> None:
    with pytest.raises(ConfigError, match="failed to get proxy URL for execProvider"):
        build_exec_cluster(config(proxy_url="nonsense"))


def test_invalid_config_host_t74() -> None:
    with pytest.raises(ConfigError, match="failed to create proxy URL request for execProvider: "):
        build_exec_cluster(config(server="invalid-config-host\n"))


def test_without_a_plugin_there_is_no_config() -> None:
    assert build_exec_cluster(config(exec=None)).config is None
