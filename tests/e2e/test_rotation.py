"""Credentials that end every few seconds, under load, with watches open, at a real API server."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from kubeauth import Client, ClientConfig, load_config
from tests.e2e.cluster import ControlPlane
from tests.e2e.minting import Mint, certificates, id_tokens
from tests.support.clients import DIRECT, VARIANTS, ClientVariant
from tests.support.residue import no_residue

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CALLERS = 4
LIFETIME = 8.0  # longer than a busy machine stands still
ROTATIONS = 4
EVERY = [*VARIANTS, *DIRECT]


class Load:
    """For each variant a client: callers that list, and one watch from a given point on, never opened twice."""

    def __init__(self, config: ClientConfig, version: str) -> None:
        self._config = config
        self._watch = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&labelSelector=run%3D{version}"
        self.stop = threading.Event()
        self.answered = 0
        self.failures: list[object] = []
        self.events: dict[str, list[dict[str, Any]]] = {}

    def run(self, variant: ClientVariant, last: str) -> None:
        """Until the watch has seen the ConfigMap called `last`, and the callers are told to stop."""
        try:
            if variant.is_async:
                anyio.run(self._async, variant, last, backend=variant.runtime)
            else:
                self._sync(variant, last)
        except Exception as error:
            self.failures.append(error)

    def _sync(self, variant: ClientVariant, last: str) -> None:
        with variant.Client(self._config, timeout=60) as client:
            threads = [threading.Thread(target=self._call, args=(client,)) for _ in range(CALLERS)]
            for thread in threads:
                thread.start()
            with client.stream("GET", self._watch) as response:
                for line in response.iter_lines():
                    if self._saw(variant, line) == last:
                        break
            for thread in threads:
                thread.join()

    def _call(self, client: Any) -> None:
        while not self.stop.is_set():
            try:
                self._look_at(client.get(CONFIG_MAPS))
            except Exception as error:
                self.failures.append(error)
            time.sleep(0.05)

    async def _async(self, variant: ClientVariant, last: str) -> None:
        async with variant.Client(self._config, timeout=60) as client, anyio.create_task_group() as group:
            for _ in range(CALLERS):
                group.start_soon(self._acall, client)
            async with client.stream("GET", self._watch) as response:
                async for line in response.aiter_lines():
                    if self._saw(variant, line) == last:
                        break

    async def _acall(self, client: Any) -> None:
        while not self.stop.is_set():
            try:
                self._look_at(await client.get(CONFIG_MAPS))
            except Exception as error:
                self.failures.append(error)
            await anyio.sleep(0.05)

    def _look_at(self, response: Any) -> None:
        self.answered += 1
        if response.status_code != 200:
            self.failures.append(response)

    def _saw(self, variant: ClientVariant, line: str) -> str:
        event = json.loads(line)
        self.events.setdefault(str(variant), []).append(event)
        return str(event["object"]["metadata"]["name"])


def credential_id(status: dict[str, Any]) -> str:
    """As the API server calls it in its audit log."""
    certificate = x509.load_pem_x509_certificate(status["clientCertificateData"].encode())
    return f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"


@pytest.mark.parametrize("kind", ["certificate", "token"])
def test_nothing_fails_and_no_event_is_lost_c15_c16_c17(
    cluster: ControlPlane, tmp_path: Path, kind: str
) -> None:
    user = f"rotating-{kind}"
    give = certificates(cluster.client_ca, user, LIFETIME)
    if kind == "token":
        user = f"oidc:{user}"
        give = id_tokens(cluster.issuer, user.removeprefix("oidc:"), LIFETIME)
    cluster.allow("view", user=user)
    if kind == "token":
        # The server gets the issuer's keys from this process when it needs them, and keeps that connection.
        with Client(load_config(cluster.kubeconfig({"token": give()["token"]})), timeout=60) as first:
            assert first.get(CONFIG_MAPS).status_code == 200
    with Client(load_config(cluster.admin()), timeout=60) as admin, Mint(tmp_path, give) as mint:
        version = admin.get(CONFIG_MAPS).json()["metadata"]["resourceVersion"]
        load = Load(load_config(cluster.kubeconfig({"exec": mint.exec_config()})), version)
        with no_residue():
            threads = [threading.Thread(target=load.run, args=(variant, "last-" + kind)) for variant in EVERY]
            for thread in threads:
                thread.start()
            made = _make_until(admin, version, kind, lambda: mint.runs > ROTATIONS)
            _make(admin, "last-" + kind, version)
            load.stop.set()
            for thread in threads:
                thread.join()
    assert load.failures == []
    assert load.answered > 100
    assert set(load.events) == {str(variant) for variant in EVERY}
    for events in load.events.values():
        assert Counter(event["type"] for event in events) == {"ADDED": len(made) + 1}
        assert [event["object"]["metadata"]["name"] for event in events] == [*made, "last-" + kind]
    seen = cluster.audit(user=user)
    assert {event["responseStatus"]["code"] for event in seen} == {200}
    if kind == "certificate":
        ids = {event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0] for event in seen}
        # Every one was used, but for the last if it came as all was over.
        issued = [credential_id(status) for status in mint.given]
        assert set(issued[:-1]) <= ids <= set(issued)
        assert len(set(issued)) == mint.runs


def _make_until(admin: Client, version: str, kind: str, enough: Callable[[], bool]) -> list[str]:
    names: list[str] = []
    while not enough():
        names.append(f"rotation-{kind}-{len(names)}")
        _make(admin, names[-1], version)
        time.sleep(0.05)
    return names


def _make(admin: Client, name: str, version: str) -> None:
    metadata = {"name": name, "labels": {"run": version}}
    answer = admin.post(CONFIG_MAPS, json={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert answer.status_code == 201, answer.text
