"""Which clients share the credential source of a plugin (C1-C4, C22): T1, T33, T65."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from pathlib import Path
from typing import Any

import httpx
import pytest

import kubeauth
from kubeauth import ClientConfig, ExecOptions, KubeTransport, PluginPolicy, Secret
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth.testing import APIServer, Authority, FakeClock
from tests.conformance.plugins import V1BETA1, exec_config, plugin_config
from tests.support.shell_plugin import ShellPlugin, credential

BASE: dict[str, Any] = {
    "args": ("arg1", "arg2"), "env": {"foo": "1", "bar": "2"}, "install_hint": "h",
    "cluster_config": {"a": [1, "b"]}, "provide_cluster_info": True,
}  # fmt: skip


def config(**fields: Any) -> ClientConfig:
    exec_fields = {name: fields.pop(name) for name in list(fields) if name in BASE or name in ("api_version", "interactive_mode", "options", "policy", "command")}  # fmt: skip
    plugin = exec_config(**({"command": "plug"} | BASE | exec_fields))
    return ClientConfig(**({"server": "https://foo", "ca_data": None, "exec": plugin} | fields))


def source_of(config: ClientConfig, clock: FakeClock) -> Any:
    return KubeTransport(config, clock=clock)._source


CHANGED_FIELDS: dict[str, dict[str, Any]] = {
    "another command": {"command": "plug2"},
    "another argument": {"args": ("arg1", "arg3")},
    "arguments joined": {"args": ("arg1 arg2",)},
    "another value of a variable": {"env": {"foo": "1", "bar": "3"}},
    "no variables": {"env": {}},
    "another order of variables": {"env": {"bar": "2", "foo": "1"}},
    "another API version": {"api_version": V1BETA1},
    "another install hint": {"install_hint": ""},
    "another extension": {"cluster_config": {"a": [1, "c"]}},
    "an extension of another type": {"cluster_config": {"a": ["1", "b"]}},
    "no cluster info": {"provide_cluster_info": False},
    "another interactive mode": {"interactive_mode": "Never"},
    "stdin unavailable": {"options": ExecOptions(stdin_unavailable=True)},
    "stdin unavailable, with a message": {
        "options": ExecOptions(stdin_unavailable=True, stdin_unavailable_message="m")
    },
    "another timeout": {"options": ExecOptions(timeout=1.0)},
    "a policy": {"policy": PluginPolicy.allowlist(["plug"])},
    "another server": {"server": "https://bar"},
    "another TLS server name": {"tls_server_name": "bar"},
    "another proxy": {"proxy_url": "http://p:1"},
}


def test_every_option_is_part_of_the_cache_key_t1_c2_p10(clock: FakeClock) -> None:
    first = source_of(config(), clock)
    assert source_of(config(), clock) is first
    others = {name: source_of(config(**fields), clock) for name, fields in CHANGED_FIELDS.items()}
    assert len({id(each) for each in [first, *others.values()]}) == len(CHANGED_FIELDS) + 1
    for name, fields in CHANGED_FIELDS.items():
        assert source_of(config(**fields), clock) is others[name], name


def test_the_cache_key_contains_no_secret_c2(clock: FakeClock) -> None:
    """client-go has arguments and environment in its key, as text."""
    from kubeauth._credentials.cache import SOURCE_CACHE

    source_of(config(env={"PASSWORD": "sentinel"}, args=("--password=sentinel",)), clock)
    assert "sentinel" not in repr(list(SOURCE_CACHE._sources.keys()))
    assert "sentinel" not in repr(config(env={"PASSWORD": "sentinel"}))


def test_clusters_share_a_source_without_cluster_info_c3(
    authority: Authority, tmp_path: Path, clock: FakeClock
) -> None:
    script = ShellPlugin(tmp_path, credential("t"))
    with (
        APIServer(authority=authority, tokens={"t": "a"}) as one,
        APIServer(authority=authority, tokens={"t": "a"}) as two,
    ):
        for provide_cluster_info, runs in ((False, 1), (True, 3)):
            for server in (one, two):
                with kubeauth.Client(
                    plugin_config(server, script, provideClusterInfo=provide_cluster_info), clock=clock
                ) as client:
                    assert client.get("/version").status_code == 200
            assert len(script.exec_infos) == runs


def test_clients_share_the_source_but_not_connections_t33_c22(
    server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """client-go shares the connections too; here each client has its own and closes them."""
    script = ShellPlugin(tmp_path, credential("alices-token"))
    one, two = (KubeTransport(plugin_config(server, script), clock=clock) for _ in range(2))
    other = KubeTransport(plugin_config(server, script, args=["other"]), clock=clock)
    assert one._source is two._source is not other._source
    assert one._pools.current is not two._pools.current
    for transport in (one, two):
        with httpx.Client(transport=transport, base_url=server.url, timeout=60.0) as client:
            assert client.get("/version").status_code == 200

    assert [request.connection for request in server.requests] == [1, 2]
    assert len(script.exec_infos) == 1


def test_one_source_per_config_and_none_for_static_credentials_t65_c1_i1(
    clock: FakeClock, server: APIServer, tmp_path: Path
) -> None:
    """The cases T45-T62, each built twice."""
    pair = server.authority.client("static")
    static: list[dict[str, Any]] = [
        {"username": "u"},
        {"token": "t"},
        {"client_cert_data": pair.certificate, "client_key_data": Secret(pair.key)},
    ]

    for fields in static:
        assert not isinstance(
            source_of(server.config(exec=exec_config("plug"), **fields), clock), RefreshableSource
        )
    cases = [server.config(exec=exec_config("plug", args=[f"T{number}"])) for number in range(45, 63)]
    built = [[source_of(case, clock) for case in cases] for _ in range(2)]

    assert built[0] == built[1]
    assert len(set(built[0])) == len(cases)


def test_a_source_is_cached_until_it_expires_or_is_evicted_c1(
    tmp_path: Path, clock: FakeClock, server: APIServer
) -> None:
    """client-go caches all without limit. Here: until it has expired, or 64 newer ones were created."""
    script = ShellPlugin(tmp_path, credential("alices-token", expires=clock.time() + 600))
    plugin = plugin_config(server, script)

    def use_source(clock: FakeClock) -> weakref.ref[Any]:
        with kubeauth.Client(plugin, clock=clock) as client:
            client.get("/version")
        source = weakref.ref(client._kube_transport._source)
        del client
        gc.collect()
        return source

    first = use_source(clock)
    assert use_source(clock)() is first()
    assert len(script.exec_infos) == 1
    clock.advance(601)
    source_of(config(), clock)  # the next source removes those that have expired
    gc.collect()
    assert first() is None

    script.set_output(credential("alices-token"))
    second = use_source(clock)
    for number in range(64):
        assert second() is not None
        source_of(dataclasses.replace(plugin, exec=exec_config("plug", args=[str(number)])), clock)
    gc.collect()

    assert second() is None


@pytest.mark.parametrize("fields", [{"cluster_config": {"a": {1, 2}}}, {"cluster_config": float("nan")}])
def test_an_extension_that_is_not_json_is_rejected_c4(clock: FakeClock, fields: dict[str, Any]) -> None:
    with pytest.raises(kubeauth.errors.ConfigError, match="must be JSON"):
        source_of(config(**fields), clock)
