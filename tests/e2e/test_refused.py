"""What a real API server refuses, and what comes of it: 401, 403, and being away."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kubeauth import Client, load_config
from tests.e2e.cluster import ControlPlane
from tests.e2e.minting import Mint, Status, certificates
from tests.e2e.test_logging_in import ACCOUNT, exec_config
from tests.support.clients import VARIANTS, ClientVariant

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_forbidden_is_not_unauthorized(cluster: ControlPlane, variant: ClientVariant, tmp_path: Path) -> None:
    with Mint(tmp_path, certificates(cluster.client_ca, "nobody-in-particular", 600)) as mint:
        with variant.client(load_config(cluster.kubeconfig({"exec": mint.exec_config()}))) as client:
            answers = [client.get("/api/v1/secrets") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [403] * 5
    assert answers[0].json()["reason"] == "Forbidden"
    assert mint.runs == 1


def test_revoked_tokens_are_replaced_and_the_requests_succeed(cluster: ControlPlane, tmp_path: Path) -> None:
    """All variants at once: the server remembers for ten seconds that a token was good."""
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    cluster.allow("edit", user=ACCOUNT)
    with ExitStack() as stack:
        clients = {}
        for variant in VARIANTS:
            # The token is good for ten minutes, or for as long as a Secret of this name is there.
            plugin = _kept(
                tmp_path / str(variant), exec_config("--account", "robot", "--secret", f"of-{variant}")
            )
            config = load_config(cluster.kubeconfig({"exec": plugin}))
            clients[variant] = stack.enter_context(variant.client(config))
            assert clients[variant].get(CONFIG_MAPS).status_code == 200
        secrets = [f"of-{variant}" for variant in VARIANTS]
        assert cluster.kubectl("delete", "secret", *secrets).returncode == 0
        for variant, client in clients.items():
            _wait_until_refused(cluster, _tokens(tmp_path / str(variant))[0])
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"by-{variant}"}}
            made = client.request("POST", CONFIG_MAPS, json=document | {"data": {"by": str(variant)}})
            assert made.status_code == 201, made.text
            assert client.get(f"{CONFIG_MAPS}/by-{variant}").json()["data"] == {"by": str(variant)}
    for variant in VARIANTS:
        first, second = _tokens(tmp_path / str(variant))
        assert first != second


def _kept(directory: Path, plugin: dict[str, Any]) -> dict[str, Any]:
    """The same plugin, but what it prints is kept."""
    directory.mkdir()
    script = directory / "plugin"
    script.write_text(f'#!/bin/sh\n"{sys.executable}" "$@" | tee -a "{directory / "printed"}"\n')
    script.chmod(0o700)
    return plugin | {"command": str(script)}


def _tokens(directory: Path) -> list[str]:
    lines = (directory / "printed").read_text().splitlines()
    return [json.loads(line)["status"]["token"] for line in lines]


def _wait_until_refused(cluster: ControlPlane, token: str) -> None:
    with Client(load_config(cluster.kubeconfig({"token": token}))) as client:
        while client.get(CONFIG_MAPS).status_code != 401:
            time.sleep(0.2)


def test_a_token_that_nobody_takes_is_not_asked_for_again_and_again(
    cluster: ControlPlane, variant: ClientVariant, tmp_path: Path
) -> None:
    number = 0

    def give() -> Status:
        nonlocal number
        number += 1
        return {"token": f"made-up-{number}"}

    with Mint(tmp_path, give) as mint:
        with variant.client(load_config(cluster.kubeconfig({"exec": mint.exec_config()}))) as client:
            begun = time.monotonic()
            assert [client.get(CONFIG_MAPS).status_code for _ in range(10)] == [401] * 10
            seconds = time.monotonic() - begun
    # Once, again for the first 401, and not for the others: they come within the second. If this machine takes longer,
    # once more after a second, after two more, four more: a little sooner, since not all do it at the same time.
    assert mint.runs <= 3 + sum(seconds > later for later in (2.4, 5.6, 12.0, 24.8))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_the_api_server_goes_away_and_comes_back(cluster: ControlPlane, tmp_path: Path, kill: bool) -> None:
    cluster.allow("view", user="patient")
    watching = f"{CONFIG_MAPS}?watch=1&resourceVersion=0"
    with ExitStack() as stack:
        mint = stack.enter_context(Mint(tmp_path, certificates(cluster.client_ca, "patient", 600)))
        config = load_config(cluster.kubeconfig({"exec": mint.exec_config()}))
        clients = {variant: stack.enter_context(variant.client(config)) for variant in VARIANTS}
        stack.callback(cluster.start_apiserver)
        with ExitStack() as watches:
            opened = {}
            for variant, client in clients.items():
                assert client.get(CONFIG_MAPS).status_code == 200
                opened[variant] = watches.enter_context(client.stream("GET", watching))
                assert '"ADDED"' in opened[variant].line()
            cluster.stop_apiserver(kill=kill)
            for variant, watch in opened.items():
                # Whatever was said last arrives; then it ends, or breaks.
                with contextlib.suppress(variant.library.RemoteProtocolError, variant.library.ReadError):
                    watch.rest()
        for variant, client in clients.items():
            with pytest.raises(variant.library.ConnectError):
                client.get(CONFIG_MAPS)
        cluster.start_apiserver()
        for client in clients.values():
            assert client.get(CONFIG_MAPS).status_code == 200
            with client.stream("GET", watching) as watch:
                assert '"ADDED"' in watch.line()
            assert client.client.status().last_error is None
    assert mint.runs == 1


def test_a_kept_connection_that_died_in_a_restart_is_not_the_callers_trouble(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.allow("view", user="patient")
    with ExitStack() as stack:
        mint = stack.enter_context(Mint(tmp_path, certificates(cluster.client_ca, "patient", 600)))
        config = load_config(cluster.kubeconfig({"exec": mint.exec_config()}))
        clients = [stack.enter_context(variant.client(config)) for variant in VARIANTS]
        assert [client.get(CONFIG_MAPS).status_code for client in clients] == [200] * len(VARIANTS)
        cluster.stop_apiserver(kill=True)
        cluster.start_apiserver()
        assert [client.get(CONFIG_MAPS).status_code for client in clients] == [200] * len(VARIANTS)
    assert mint.runs == 1
