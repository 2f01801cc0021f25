"""`auth-provider: oidc` with a real API server that trusts the issuer, and kubectl 1.36 on the same kubeconfig."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubeauth
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import until
from tests.support.clients import ClientVariant
from tests.support.oidc import Kubeconfig, claims, settings
from tests.support.oidc_issuer import Issuer

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture
def issuer(cluster: ControlPlane) -> Iterator[Issuer]:
    """The one that the API server trusts, for as long as this test takes."""
    before = cluster.issuer.lifetime, cluster.issuer.rotating
    cluster.allow("system:aggregate-to-view", user="oidc:alice")
    cluster.issuer.rotating = True
    yield cluster.issuer
    cluster.issuer.lifetime, cluster.issuer.rotating = before


@pytest.fixture
def kubeconfig(cluster: ControlPlane, issuer: Issuer, tmp_path: Path) -> Kubeconfig:
    config = settings(issuer, refresh_token=issuer.new_refresh_token("alice", ["team"]))
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(cluster.kubeconfig({"auth-provider": {"name": "oidc", "config": config}})))
    return Kubeconfig(path, "e2e")


def test_the_same_person_as_with_kubectl_and_one_renewal_for_both(
    cluster: ControlPlane, issuer: Issuer, kubeconfig: Kubeconfig, variant: ClientVariant
) -> None:
    seen, asked = len(cluster.audit()), issuer.refreshes
    with variant.client(kubeauth.load_config(kubeconfig.path)) as client:
        assert client.get(NAMESPACES).status_code == 200
    theirs = cluster.kubectl("get", "namespaces", kubeconfig=kubeconfig.path)
    assert theirs.returncode == 0, theirs.stderr
    assert issuer.refreshes == asked + 1
    # And the other way round.
    kubeconfig.change(id_token=issuer.id_token("alice", 5))
    theirs = cluster.kubectl("get", "namespaces", kubeconfig=kubeconfig.path)
    assert theirs.returncode == 0, theirs.stderr
    with variant.client(kubeauth.load_config(kubeconfig.path)) as client:
        assert client.get(NAMESPACES).status_code == 200
    assert issuer.refreshes == asked + 2

    def events() -> list[dict[str, Any]]:
        return [event for event in cluster.audit()[seen:] if event["requestURI"].startswith(NAMESPACES)]

    until(lambda: len(events()) >= 4)  # it is written down when it was answered
    people = [(event["user"]["username"], "oidc:team" in event["user"]["groups"]) for event in events()]
    assert people == [("oidc:alice", True)] * 4


def test_tokens_that_end_are_followed_by_others_and_nobody_sees_a_401(
    cluster: ControlPlane, issuer: Issuer, kubeconfig: Kubeconfig, variant: ClientVariant
) -> None:
    issuer.lifetime = 13  # of which ten are not used
    refused = len(issuer.errors)
    used: set[str] = set()
    statuses: set[int] = set()
    ends = time.monotonic() + 120
    with variant.client(kubeauth.load_config(kubeconfig.path)) as client:
        while len(used) < 4 and time.monotonic() < ends:
            statuses.add(client.get(NAMESPACES).status_code)
            used.add(kubeconfig.entry()["id-token"])
            time.sleep(0.05)
    assert statuses == {200}
    assert len(used) == 4
    assert {claims(token)["sub"] for token in used} == {"alice"}
    assert len(issuer.errors) == refused
