"""Clients with equal configurations share one credential source, which is evicted when unused (C1-C4, C22)."""

from __future__ import annotations

import gc
import json
import os
import weakref
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeauth import Client, ClientConfig, ExecConfig, ExecOptions, PluginPolicy, errors, load_config
from kubeauth._credentials.cache import SourceCache, plugin_source
from kubeauth.testing import APIServer, FakeClock, PluginScript
from tests.support.cases import each_case
from tests.support.observers import NullObserver

V1 = "client.authentication.k8s.io/v1"
PLAIN = ExecConfig(command="p", api_version=V1, interactive_mode="Never")


def config(plugin: ExecConfig, **fields: Any) -> ClientConfig:
    defaults: dict[str, Any] = {"server": "https://h:6443", "exec": plugin}
    return ClientConfig(**(defaults | fields))


class Sources:
    """A SourceCache that no other test uses."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._cache = SourceCache()

    def get(self, plugin: ExecConfig, clock: FakeClock | None = None, **fields: Any) -> Any:
        return plugin_source(
            config(plugin, **fields), plugin, clock or self.clock, NullObserver(), shared=self._cache
        )


EXEC_FIELDS: list[dict[str, Any]] = [
    {"command": "q"},
    {"args": ("x",)},
    {"args": ("x", "y")},
    {"args": ("xy",)},
    {"env": {"A": "1"}},
    {"env": {"A": "2"}},
    {"env": {"B": "1"}},
    {"env": {"A": "1", "B": "2"}},
    {"api_version": "client.authentication.k8s.io/v1beta1"},
    {"interactive_mode": "IfAvailable"},
    {"provide_cluster_info": True},
    {"install_hint": "get it"},
    {"cluster_config": {"a": 1}},
    {"cluster_config": {"a": True}},
    {"cluster_config": {"a": "1"}},
    {"options": ExecOptions(timeout=1)},
    {"options": ExecOptions(refresh_ahead=False)},
    {"options": ExecOptions(stdin_unavailable=True)},
    {"options": ExecOptions(stdin_unavailable=True, stdin_unavailable_message="m")},
    {"policy": PluginPolicy.deny_all()},
    {"policy": PluginPolicy.allowlist(["p"])},
]


def test_any_different_exec_field_is_another_source_c2_p10_t1() -> None:
    sources = Sources()
    created = [sources.get(replace(PLAIN, **fields)) for fields in [{}, *EXEC_FIELDS]]
    assert len(set(created)) == len(EXEC_FIELDS) + 1
    assert [sources.get(replace(PLAIN, **fields)) for fields in [{}, *EXEC_FIELDS]] == created


@each_case(
    "fields",
    [
        {"server": "https://other:6443"},
        {"ca_data": b"-----BEGIN CERTIFICATE-----"},
        {"tls_server_name": "n"},
        {"insecure_skip_tls_verify": True},
        {"proxy_url": "http://proxy:1"},
        {"disable_compression": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_cluster_fields_matter_only_with_provide_cluster_info_c3(fields: dict[str, Any]) -> None:
    sources = Sources()
    with_cluster_info = replace(PLAIN, provide_cluster_info=True)

    assert sources.get(PLAIN) is sources.get(PLAIN, **fields)
    assert sources.get(with_cluster_info) is not sources.get(with_cluster_info, **fields)


def test_another_clock_is_another_source() -> None:
    sources = Sources()
    assert sources.get(PLAIN) is not sources.get(PLAIN, clock=FakeClock())


def test_a_missing_ca_file_is_an_error_until_it_exists_c4(tmp_path: Path) -> None:
    sources = Sources()
    plugin = replace(PLAIN, provide_cluster_info=True)
    path = tmp_path / "ca.pem"

    for _ in range(2):
        with pytest.raises(errors.KubeConfigError, match="failed to load CA bundle for execProvider"):
            sources.get(plugin, ca_file=str(path))

    path.write_bytes(b"ca")
    sources.get(plugin, ca_file=str(path))


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": {1, 2}}], ids=["object", "nan", "set"])
def test_cluster_config_must_be_json(value: object) -> None:
    with pytest.raises(errors.ConfigError, match="cluster_config must be JSON"):
        Sources().get(replace(PLAIN, cluster_config=value))


class TestEviction:
    def plugin(self, script: PluginScript, *args: str) -> ExecConfig:
        return replace(PLAIN, command=str(script.path), args=args)

    def test_an_unused_source_is_evicted_when_its_credential_has_expired(self, tmp_path: Path) -> None:
        script = PluginScript(tmp_path)
        sources = Sources()
        script.answer(stdout=exec_credential("t", sources.clock.time() + 100))
        source = weakref.ref(sources.get(self.plugin(script)))
        referent = source()
        assert referent is not None
        referent.get()
        del referent
        gc.collect()
        assert source() is not None

        sources.clock.advance(101)
        sources.get(self.plugin(script, "another"))
        gc.collect()

        assert source() is None

    def test_an_unused_source_is_evicted_after_64_newer_ones(self) -> None:
        sources = Sources()
        first = weakref.ref(sources.get(PLAIN))
        for number in range(63):
            sources.get(replace(PLAIN, args=(str(number),)))
        gc.collect()
        assert first() is not None

        sources.get(replace(PLAIN, args=("63",)))
        gc.collect()
        assert first() is None

    def test_a_source_with_an_unsaved_refresh_token_is_not_evicted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The issuer rotated the refresh token, and the new one could not be written to the kubeconfig."""
        sources = Sources()
        first = weakref.ref(source := sources.get(PLAIN))

        def is_first(provider: object) -> bool:
            return (referent := first()) is not None and referent.provider is provider

        monkeypatch.setattr(type(source.provider), "holds_unsaved_token", property(is_first))
        del source

        for number in range(100):
            sources.get(replace(PLAIN, args=(str(number),)))
        gc.collect()
        assert first() is not None

    def test_a_source_that_is_requested_again_is_not_evicted(self) -> None:
        sources = Sources()
        first = weakref.ref(sources.get(PLAIN))
        for number in range(100):
            sources.get(replace(PLAIN, args=(str(number),)))
            sources.get(PLAIN)
        gc.collect()

        assert first() is not None

    def test_a_source_in_use_is_not_evicted(self) -> None:
        sources = Sources()
        first = sources.get(PLAIN)
        for number in range(100):
            sources.get(replace(PLAIN, args=(str(number),)))
        gc.collect()

        assert sources.get(PLAIN) is first

    def test_successive_clients_share_one_plugin_run_c22_t33(
        self, tmp_path: Path, server: APIServer, clock: FakeClock
    ) -> None:
        script = PluginScript(tmp_path)
        script.answer(token="alices-token")
        document = server.kubeconfig({"exec": script.exec_config()})

        for _ in range(5):
            with Client(load_config(document), clock=clock) as client:
                assert client.get("/version").status_code == 200
            gc.collect()

        assert len(script.runs) == 1


def exec_credential(token: str, expires: float) -> str:
    status = {"token": token, "expirationTimestamp": datetime.fromtimestamp(expires, UTC).isoformat()}
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_uses_the_cached_credential_and_refreshes_it_itself(
    tmp_path: Path, server: APIServer, clock: FakeClock
) -> None:
    script = PluginScript(tmp_path)
    script.answer(stdout=exec_credential("alices-token", clock.time() + 100))
    with Client(load_config(server.kubeconfig({"exec": script.exec_config()})), clock=clock) as client:
        assert client.get("/version").status_code == 200

        child = os.fork()
        if child == 0:
            status = 1
            try:
                used_cached = client.get("/version").status_code == 200 and len(script.runs) == 1
                clock.advance(101)
                script.answer(stdout=exec_credential("alices-token", clock.time() + 100))
                refreshed = client.get("/version").status_code == 200 and len(script.runs) == 2
                status = 0 if used_cached and refreshed else 2
            finally:
                os._exit(status)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.get("/version").status_code == 200
        assert len(script.runs) == 2
