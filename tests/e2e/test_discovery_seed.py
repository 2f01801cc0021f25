"""The mode of the seed: signed questions and signed answers, by a filter in front of a real API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from kubeauth import AsyncClient, errors, load_config
from kubeauth.discovery import BootstrapToken, BootstrapUser, ClusterSecrets, DiscoveryFilter
from tests.discovery.clusters import BRIEF, PATH, RUNTIMES, Runtime
from tests.e2e.joining import PATIENT, RBAC, Joinable, until
from tests.support.ports import free_ports


class Front:
    """An API server's door, under uvicorn: the filter, and behind it the real server, asked in the user's name."""

    def __init__(self, joinable: Joinable) -> None:
        self._joinable = joinable
        (port,) = free_ports(1)
        self.endpoint = f"127.0.0.1:{port}"
        file = joinable.cluster.directory.joinpath
        config = uvicorn.Config(
            self,
            host="127.0.0.1",
            port=port,
            ssl_certfile=file("server.pem"),
            ssl_keyfile=file("server.key"),
            log_level="error",
        )
        self._server = uvicorn.Server(config)
        self._client: AsyncClient | None = None
        self.users: list[BootstrapUser | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        assert self._client is not None
        await DiscoveryFilter(self._api, ClusterSecrets(self._client), cluster_id="e2e")(scope, receive, send)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        async with AsyncClient(load_config(self._joinable.cluster.admin())) as self._client:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _api(self, scope: Any, receive: Any, send: Any) -> None:
        assert self._client is not None
        user: BootstrapUser | None = scope.get("kubeauth.bootstrap_user")
        self.users.append(user)
        who = [("Impersonate-User", user.name if user else "system:anonymous")]
        who += [("Impersonate-Group", group) for group in (user.groups if user else ())]
        answer = await self._client.get(scope["path"], headers=who)
        headers = [(b"content-type", answer.headers["content-type"].encode())]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        # In pieces, as servers may.
        await send({"type": "http.response.body", "body": answer.content[:100], "more_body": True})
        await send({"type": "http.response.body", "body": answer.content[100:]})

    @contextmanager
    def open(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.run)
        thread.start()
        try:
            until(lambda: self._server.started)
            yield
        finally:
            self._server.should_exit = True
            thread.join()


@pytest.fixture(params=RUNTIMES, ids=str)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.param
    return found


@pytest.fixture
def front(joinable: Joinable) -> Iterator[Front]:
    """Strangers may read nothing: cluster-info is for whoever has a token (A84)."""
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "e2e-bootstrappers", "namespace": "kube-public"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:bootstrappers"}],
    }
    joinable.cluster.apply(binding)
    it = Front(joinable)
    with joinable.read_by_nobody(), it.open():
        yield it


def test_who_has_a_token_gets_a_signed_answer_a73_a80_a83_a84(
    runtime: Runtime, joinable: Joinable, front: Front
) -> None:
    token = joinable.add()  # for signing nobody is waited for
    found = runtime.discover(
        front.endpoint, token=token, mode="seed", audience="e2e", ca_cert_hashes=[joinable.pin], **PATIENT
    )
    assert (found.config.server, found.pins) == (joinable.cluster.server, (joinable.pin,))
    assert {user and user.name for user in front.users} == {f"system:bootstrap:{token.id}"}
    until(lambda: joinable.whoami(found.config) is not None)


def test_a_token_that_the_cluster_does_not_know_a77(runtime: Runtime, front: Front) -> None:
    with pytest.raises(errors.ClusterNotReady) as caught:
        runtime.discover(
            front.endpoint,
            token=BootstrapToken.generate(),
            mode="seed",
            unsafe_skip_ca_verification=True,
            **BRIEF,
        )
    assert (caught.value.status_code, front.users) == (401, [])


def test_another_secret_and_another_cluster_a77_a78(joinable: Joinable, front: Front) -> None:
    token = joinable.add()
    unsafe: dict[str, Any] = {"mode": "seed", "unsafe_skip_ca_verification": True, **BRIEF}
    for given, audience in ((BootstrapToken(token.id, "0" * 16), None), (token, "another")):
        with pytest.raises(errors.ClusterNotReady) as caught:
            Runtime("sync").discover(front.endpoint, token=given, audience=audience, **unsafe)
        assert (caught.value.status_code, front.users) == (401, [])


def test_a_token_that_is_over_a12_a77(joinable: Joinable, front: Front) -> None:
    """Whether the cleaner was there already or not."""
    token = joinable.add()
    by_seed: dict[str, Any] = {"mode": "seed", "unsafe_skip_ca_verification": True}
    Runtime("sync").discover(front.endpoint, token=token, **by_seed, **PATIENT)
    joinable.end(token)
    time.sleep(3)
    with pytest.raises(errors.ClusterNotReady) as caught:
        Runtime("sync").discover(front.endpoint, token=token, **by_seed, **BRIEF)
    assert caught.value.status_code == 401


def test_a_server_without_the_filter_is_not_believed_a82(joinable: Joinable) -> None:
    """The real one: it knows no JWT of ours, and what it says is not signed as a whole."""
    token = joinable.add_signed()
    with pytest.raises(errors.ClusterNotReady) as caught:
        Runtime("sync").discover(token=token, mode="seed", **joinable.by_pin | BRIEF)
    assert caught.value.status_code == 401


def test_others_are_handed_on_a77(joinable: Joinable, front: Front) -> None:
    with httpx.Client(verify=False, trust_env=False) as client:  # noqa: S501 -- loopback, and nothing is believed
        nobody = client.get(f"https://{front.endpoint}{PATH}")
        other = client.get(f"https://{front.endpoint}{PATH}", headers={"Authorization": "Bearer abc"})
    assert (nobody.status_code, other.status_code) == (403, 403)
    assert front.users == [None, None]
    assert "x-kubernetes-jws" not in nobody.headers
    assert joinable.endpoint != front.endpoint
