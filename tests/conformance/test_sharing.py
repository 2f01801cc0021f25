"""Which clients share a plugin's credential (C1-C4, C22): T1, T33, T65."""

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
from tests.conformance.plugins import V1BETA1, ShellPlugin, config_of, credential, exec_config

BASE: dict[str, Any] = {
    "args": ("arg1", "arg2"), "env": {"foo": "1", "bar": "2"}, "install_hint": "h",
    "cluster_config": {"a": [1, "b"]}, "provide_cluster_info": True,
}  # fmt: skip


def config(**fields: Any) -> ClientConfig:
    of_exec = {name: fields.pop(name) for name in list(fields) if name in BASE or name in ("api_version", "interactive_mode", "options", "policy", "command")}  # fmt: skip
    plugin = exec_config(**({"command": "plug"} | BASE | of_exec))
    return ClientConfig(**({"server": "https://foo", "ca_data": None, "exec": plugin} | fields))


def source(given: ClientConfig, clock: FakeClock) -> Any:
    return KubeTransport(given, clock=clock)._source


DIFFERENT: dict[str, dict[str, Any]] = {
    "another command": {"command": "plug2"},
    "another argument": {"args": ("arg1", "arg3")},
    "arguments joined": {"args": ("arg1 arg2",)},
    "another variable": {"env": {"foo": "1", "bar": "3"}},
    "no variables": {"env": {}},
    "another order of variables": {"env": {"bar": "2", "foo": "1"}},
    "another version": {"api_version": V1BETA1},
    "another hint": {"install_hint": ""},
    "another extension": {"cluster_config": {"a": [1, "c"]}},
    "an extension of another type": {"cluster_config": {"a": ["1", "b"]}},
    "no cluster": {"provide_cluster_info": False},
    "another mode": {"interactive_mode": "Never"},
    "no stdin": {"options": ExecOptions(stdin_unavailable=True)},
    "no stdin, and why": {"options": ExecOptions(stdin_unavailable=True, stdin_unavailable_message="m")},
    "another timeout": {"options": ExecOptions(timeout=1.0)},
    "a policy": {"policy": PluginPolicy.allowlist(["plug"])},
    "another server": {"server": "https://bar"},
    "another name": {"tls_server_name": "bar"},
    "another proxy": {"proxy_url": "http://p:1"},
}


def test_the_key_t1_c2_p10(clock: FakeClock) -> None:
    first = source(config(), clock)
    assert source(config(), clock) is first
    others = {name: source(config(**fields), clock) for name, fields in DIFFERENT.items()}
    assert len({id(each) for each in [first, *others.values()]}) == len(DIFFERENT) + 1
    for name, fields in DIFFERENT.items():
        assert source(config(**fields), clock) is others[name], name


def test_the_key_holds_no_secret_c2(clock: FakeClock) -> None:
    """client-go keeps arguments and environment in it, as text."""
    from kubeauth._credentials.cache import SOURCE_CACHE

    source(config(env={"PASSWORD": "sentinel"}, args=("--password=sentinel",)), clock)
    assert "sentinel" not in repr(list(SOURCE_CACHE._sources.keys()))
    assert "sentinel" not in repr(config(env={"PASSWORD": "sentinel"}))


def test_clusters_share_what_is_not_told_about_them_c3(
    authority: Authority, tmp_path: Path, clock: FakeClock
) -> None:
    script = ShellPlugin(tmp_path, credential("t"))
    with (
        APIServer(authority=authority, tokens={"t": "a"}) as one,
        APIServer(authority=authority, tokens={"t": "a"}) as two,
    ):
        for told, runs in ((False, 1), (True, 3)):
            for server in (one, two):
                with kubeauth.Client(
                    config_of(server, script, provideClusterInfo=told), clock=clock
                ) as client:
                    assert client.get("/version").status_code == 200
            assert len(script.infos) == runs


def test_tls_and_connections_t33_c22(server: APIServer, tmp_path: Path, clock: FakeClock) -> None:
    """client-go shares the connections too; here each client has its own, and closes them when it is closed."""
    script = ShellPlugin(tmp_path, credential("alices-token"))
    one, two = (KubeTransport(config_of(server, script), clock=clock) for _ in range(2))
    other = KubeTransport(config_of(server, script, args=["other"]), clock=clock)
    assert one._source is two._source is not other._source
    assert one._pools.current is not two._pools.current
    for transport in (one, two):
        with httpx.Client(transport=transport, base_url=server.url, timeout=60.0) as client:
            assert client.get("/version").status_code == 200
    assert [request.connection for request in server.requests] == [1, 2]
    assert len(script.infos) == 1


def test_of_all_cases_t65_c1_i1(clock: FakeClock, server: APIServer, tmp_path: Path) -> None:
    """Built twice each: one source for each case, all of them different, and none for a static credential."""
    pair = server.authority.client("static")
    static: list[dict[str, Any]] = [
        {"username": "u"},
        {"token": "t"},
        {"client_cert_data": pair.certificate, "client_key_data": Secret(pair.key)},
    ]
    for fields in static:
        assert not isinstance(
            source(server.config(exec=exec_config("plug"), **fields), clock), RefreshableSource
        )
    cases = [server.config(exec=exec_config("plug", args=[f"T{number}"])) for number in range(45, 63)]
    built = [[source(case, clock) for case in cases] for _ in range(2)]
    assert built[0] == built[1]
    assert len(set(built[0])) == len(cases)


def test_kept_for_the_next_client_and_not_for_ever_c1(
    tmp_path: Path, clock: FakeClock, server: APIServer
) -> None:
    """client-go keeps all for ever. Here: until it is over, or 64 newer ones came; and while it is in use."""
    script = ShellPlugin(tmp_path, credential("alices-token", expires=clock.time() + 600))
    given = config_of(server, script)

    def used(clock: FakeClock) -> weakref.ref[Any]:
        with kubeauth.Client(given, clock=clock) as client:
            client.get("/version")
        found = weakref.ref(client._kube_transport._source)
        del client
        gc.collect()
        return found

    first = used(clock)
    assert used(clock)() is first()
    assert len(script.infos) == 1
    clock.advance(601)
    source(config(), clock)  # whoever comes next tidies up
    gc.collect()
    assert first() is None

    script.says(credential("alices-token"))
    second = used(clock)
    for number in range(64):
        assert second() is not None
        source(dataclasses.replace(given, exec=exec_config("plug", args=[str(number)])), clock)
    gc.collect()
    assert second() is None


@pytest.mark.parametrize("fields", [{"cluster_config": {"a": {1, 2}}}, {"cluster_config": float("nan")}])
def test_what_is_no_json_is_refused_at_once_c4(clock: FakeClock, fields: dict[str, Any]) -> None:
    with pytest.raises(kubeauth.errors.ConfigError, match="must be JSON"):
        source(config(**fields), clock)
