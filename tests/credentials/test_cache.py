"""Clients that are configured alike share one credential, and nothing is kept for ever (C1-C4, C22)."""

from __future__ import annotations

import gc
import json
import os
import weakref
from dataclasses import replace
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
    given: dict[str, Any] = {"server": "https://h:6443", "exec": plugin}
    return ClientConfig(**(given | fields))


class Sources:
    """A registry of one's own, with all that it needs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._shared = SourceCache()

    def of(self, plugin: ExecConfig, clock: FakeClock | None = None, **fields: Any) -> Any:
        given = config(plugin, **fields), plugin, clock or self.clock, NullObserver()
        return plugin_source(*given, shared=self._shared)


DIFFERENT: list[dict[str, Any]] = [
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


def test_whatever_differs_makes_another_source_c2_p10_t1() -> None:
    sources = Sources()
    made = [sources.of(replace(PLAIN, **fields)) for fields in [{}, *DIFFERENT]]
    assert len(set(made)) == len(DIFFERENT) + 1
    assert [sources.of(replace(PLAIN, **fields)) for fields in [{}, *DIFFERENT]] == made


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
def test_the_cluster_counts_only_if_the_plugin_is_told_of_it_c3(fields: dict[str, Any]) -> None:
    sources = Sources()
    assert sources.of(PLAIN) is sources.of(PLAIN, **fields)
    told = replace(PLAIN, provide_cluster_info=True)
    assert sources.of(told) is not sources.of(told, **fields)


def test_another_clock_is_another_source() -> None:
    sources = Sources()
    assert sources.of(PLAIN) is not sources.of(PLAIN, clock=FakeClock())


def test_what_cannot_be_told_is_an_error_each_time_c4(tmp_path: Path) -> None:
    sources = Sources()
    told = replace(PLAIN, provide_cluster_info=True)
    path = tmp_path / "ca.pem"
    for _ in range(2):
        with pytest.raises(errors.KubeConfigError, match="failed to load CA bundle for execProvider"):
            sources.of(told, ca_file=str(path))
    path.write_bytes(b"ca")
    sources.of(told, ca_file=str(path))


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": {1, 2}}], ids=["object", "nan", "set"])
def test_a_cluster_config_that_is_no_json(value: object) -> None:
    with pytest.raises(errors.ConfigError, match="cluster_config must be JSON"):
        Sources().of(replace(PLAIN, cluster_config=value))


class TestHowLongItIsKept:
    def plugin(self, script: PluginScript, *args: str) -> ExecConfig:
        return replace(PLAIN, command=str(script.path), args=args)

    def test_until_its_credential_is_over(self, tmp_path: Path) -> None:
        script = PluginScript(tmp_path)
        sources = Sources()
        end = sources.clock.time() + 100
        script.answer(stdout=answer("t", end))
        source = weakref.ref(sources.of(self.plugin(script)))
        kept = source()
        assert kept is not None
        kept.get()
        del kept
        gc.collect()
        assert source() is not None
        sources.clock.advance(101)
        sources.of(self.plugin(script, "another"))
        gc.collect()
        assert source() is None

    def test_or_until_64_newer_ones_came(self) -> None:
        sources = Sources()
        first = weakref.ref(sources.of(PLAIN))
        for number in range(63):
            sources.of(replace(PLAIN, args=(str(number),)))
        gc.collect()
        assert first() is not None
        sources.of(replace(PLAIN, args=("63",)))
        gc.collect()
        assert first() is None

    def test_but_not_if_it_knows_what_stands_nowhere_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A refresh-token that was replaced, and could not be written anywhere."""
        sources = Sources()
        first = weakref.ref(kept := sources.of(PLAIN))

        def is_first(provider: object) -> bool:
            return (source := first()) is not None and source.provider is provider

        monkeypatch.setattr(type(kept.provider), "holds_unsaved_token", property(is_first))
        del kept
        for number in range(100):
            sources.of(replace(PLAIN, args=(str(number),)))
        gc.collect()
        assert first() is not None

    def test_what_is_asked_for_again_is_as_good_as_new(self) -> None:
        sources = Sources()
        first = weakref.ref(sources.of(PLAIN))
        for number in range(100):
            sources.of(replace(PLAIN, args=(str(number),)))
            sources.of(PLAIN)
        gc.collect()
        assert first() is not None

    def test_and_then_for_as_long_as_somebody_uses_it(self) -> None:
        sources = Sources()
        first = sources.of(PLAIN)
        for number in range(100):
            sources.of(replace(PLAIN, args=(str(number),)))
        gc.collect()
        assert sources.of(PLAIN) is first

    def test_a_client_for_each_task_is_not_a_run_for_each_task_c22_t33(
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


def answer(token: str, expires: float) -> str:
    from datetime import UTC, datetime

    status = {"token": token, "expirationTimestamp": datetime.fromtimestamp(expires, UTC).isoformat()}
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_has_the_credential_and_runs_its_own_plugin(
    tmp_path: Path, server: APIServer, clock: FakeClock
) -> None:
    """Made before a fork, used after it: what was cached is still there, and what is over is renewed."""
    script = PluginScript(tmp_path)
    script.answer(stdout=answer("alices-token", clock.time() + 100))
    with Client(load_config(server.kubeconfig({"exec": script.exec_config()})), clock=clock) as client:
        assert client.get("/version").status_code == 200
        child = os.fork()
        if child == 0:
            status = 1
            try:
                first = client.get("/version").status_code == 200 and len(script.runs) == 1
                clock.advance(101)
                script.answer(stdout=answer("alices-token", clock.time() + 100))
                second = client.get("/version").status_code == 200 and len(script.runs) == 2
                status = 0 if first and second else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.get("/version").status_code == 200
        assert len(script.runs) == 2
