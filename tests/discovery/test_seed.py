"""The seed's mode: a question that is signed, and an answer that is."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
import pytest

from kubeauth import Secret, errors
from kubeauth.discovery import (
    BootstrapToken,
    BootstrapUser,
    DiscoveryFilter,
    new_token,
    public_key_pin,
    sign_detached,
)
from kubeauth.discovery._arguments import Arguments
from kubeauth.discovery._fetch import Reply
from kubeauth.discovery._filter import Message, Receive, Scope, Send
from kubeauth.discovery._flow import Discovery, Fetch
from kubeauth.discovery._jwt import PresentedJwt, jwt_problem, presented
from kubeauth.testing import Answer, Authority, FakeClock
from kubeauth.testing._http import RawRequest
from tests.discovery.clusters import BRIEF, SECRET, TOKEN, Cluster, Runtime, config_map, published, shown
from tests.discovery.vectors import J1_CLAIMS, R1, S1, S1_BODY, S2, SEED
from tests.registry.servers import header
from tests.support.cases import each_case
from tests.support.raw_server import RawServer, ServerConnection


class SeedCluster(Cluster):
    """Signs what it says, for those who show that they know a token."""

    aud: str | None = None

    def serve(self, request: RawRequest) -> Answer:
        jwt = presented(header(request, "Authorization"))
        if not isinstance(jwt, PresentedJwt) or jwt_problem(
            jwt, Secret(SECRET), now=time.time(), cluster_id=self.aud
        ):
            return Answer(401, {"kind": "Status"})
        return self.answer(json.dumps(config_map(self.kubeconfig)).encode() + b"\n")

    def answer(self, body: bytes, signature: str | None = None, **headers: str) -> Answer:
        signature = sign_detached(body, TOKEN) if signature is None else signature
        return Answer(200, body, headers={"X-Kubernetes-JWS": signature} | headers)

    @property
    def by_token(self) -> dict[str, Any]:
        return super().by_token | {"mode": "seed"}

    @property
    def unpinned(self) -> dict[str, Any]:
        return super().unpinned | {"mode": "seed"}


@pytest.fixture
def cluster(authority: Authority) -> Any:
    with SeedCluster(authority) as it:
        yield it


class FilteredCluster(Cluster):
    """As the other, by the filter that is made for it."""

    app: DiscoveryFilter

    def serve(self, request: RawRequest) -> Answer:
        return anyio.run(self._served, request)

    async def _served(self, request: RawRequest) -> Answer:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        sent: list[Message] = []
        headers = [(name.lower().encode(), value.encode()) for name, value in request.headers]
        scope = {"type": "http", "method": request.method, "path": request.path, "headers": headers}
        await self.app(scope, receive, send)
        start, *pieces = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], b"".join(each["body"] for each in pieces), headers=answered)

    async def cluster_info(self, scope: Scope, _: Receive, send: Send) -> None:
        """What the filter is in front of: for those whom it knows, and nobody else."""
        is_known = scope.get("kubeauth.bootstrap_user") == BootstrapUser(
            "system:bootstrap:123456", ("system:bootstrappers",)
        )
        body = json.dumps(config_map(self.kubeconfig), indent=1).encode() + b"\n"
        await send({"type": "http.response.start", "status": 200 if is_known else 403, "headers": []})
        await send({"type": "http.response.body", "body": body[:100], "more_body": True})
        await send({"type": "http.response.body", "body": body[100:]})


def test_the_filter_and_discovery_meet_a73_a77_a80_a82(runtime: Runtime, authority: Authority) -> None:
    stored = new_token(BootstrapToken.parse(TOKEN), now=time.time(), groups=(), even_if_weak=True).secret
    secrets = {"bootstrap-token-123456": stored}
    with FilteredCluster(authority) as cluster:
        cluster.app = DiscoveryFilter(cluster.cluster_info, secrets.get, cluster_id="this one")
        asked = cluster.by_token | {"mode": "seed", "audience": "this one"}
        found = runtime.discover(**asked)
        assert (found.config.server, found.pins, len(cluster.requests)) == (cluster.url, (cluster.pin,), 2)
        for wrong, status in (
            ({"audience": "another"}, 401),
            ({"token": f"123456.{'a' * 16}"}, 401),
            ({"token": f"654321.{SECRET}"}, 401),
            ({"mode": "shipped", "audience": None}, 403),
        ):
            with pytest.raises(errors.ClusterNotReady) as raised:
                runtime.discover(**asked | wrong, timeout=0)
            assert raised.value.status_code == status
    assert not any(SECRET in said for said in shown(cluster))


def test_it_is_found_and_the_token_is_never_sent_a73_a76_a80_a82(
    runtime: Runtime, cluster: SeedCluster
) -> None:
    found = runtime.discover(**cluster.unpinned)
    assert (found.config.server, found.pins, found.method) == (cluster.url, (cluster.pin,), "token")
    (authorization,) = shown(cluster)
    assert authorization.startswith("Bearer ey")
    assert SECRET not in authorization
    assert [header(cluster.requests[0], name) for name in ("Accept", "Accept-Encoding")] == [
        "application/json",
        "identity",
    ]


def test_with_pins_it_is_asked_again_by_somebody_who_can_verify_it_a83(
    runtime: Runtime, cluster: SeedCluster, evil: Authority
) -> None:
    assert runtime.discover(**cluster.by_token).pins == (cluster.pin,)
    assert len(cluster.requests) == 2
    with pytest.raises(errors.ClusterNotTrusted, match="pinned"):
        runtime.discover(**cluster.by_token | {"ca_cert_hashes": [public_key_pin(evil.pem)]})


def test_an_audience_is_passed_on_a75(runtime: Runtime, cluster: SeedCluster) -> None:
    cluster.aud = "cluster-1"
    assert runtime.discover(**cluster.unpinned, audience="cluster-1").pins == (cluster.pin,)
    with pytest.raises(errors.ClusterNotReady, match="it answered 401: it does not know the token, or not"):
        runtime.discover(**cluster.unpinned, audience="cluster-2", timeout=0)


def test_each_try_has_a_jwt_of_its_own_a76() -> None:
    """By a clock that moves: a JWT is good for a minute."""
    asked = Arguments(
        endpoint="h:6443", token=Secret(TOKEN), unsafe_skip_ca_verification=True, mode="seed", interval=50
    ).checked()
    clock = FakeClock(1_500_000_000.0)
    seen: list[tuple[str, str | None]] = []

    def drive() -> None:
        for step in Discovery(asked, clock, None).steps():
            if isinstance(step, Fetch):
                assert step.call.authorization is not None
                jwt = presented(f"Bearer {step.call.authorization.reveal()}")
                assert isinstance(jwt, PresentedJwt)
                seen.append((jwt.claims.decode(), jwt_problem(jwt, Secret(SECRET), now=clock.time())))
                step.reply = Reply(401)
            else:
                clock.advance(50)

    with pytest.raises(errors.ClusterNotReady):
        drive()
    assert seen[:2] == [
        ('{"exp":1500000060,"iat":1500000000,"sub":"123456"}', None),
        ('{"exp":1500000110,"iat":1500000050,"sub":"123456"}', None),
    ]
    assert len(seen) == 6


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_that_does_not_answer_yet_is_asked_again_a39(
    runtime: Runtime, cluster: SeedCluster, status: int
) -> None:
    ours = cluster.serve
    cluster.respond = lambda request: Answer(status) if len(cluster.requests) < 3 else ours(request)
    assert runtime.discover(**cluster.unpinned).pins == (cluster.pin,)


def test_an_answer_without_a_signature_is_refused_at_once_a82(runtime: Runtime, cluster: SeedCluster) -> None:
    """Also one that would do in the other mode: nothing is gone back to (a downgrade)."""
    good = config_map(cluster.kubeconfig, cluster.signature)
    cluster.respond = lambda _: Answer(200, good)
    with pytest.raises(errors.ClusterNotTrusted, match="0 headers X-Kubernetes-JWS") as raised:
        runtime.discover(**cluster.unpinned)
    assert (raised.value.reason, len(cluster.requests)) == ("signature", 1)


def test_the_other_mode_does_not_take_this_ones_answers(runtime: Runtime, cluster: SeedCluster) -> None:
    body = json.dumps(config_map(cluster.kubeconfig)).encode()
    cluster.respond = lambda _: cluster.answer(body)
    with pytest.raises(errors.ClusterNotReady, match="no signature"):
        runtime.discover(**cluster.unpinned | {"mode": "shipped"}, timeout=0)


@pytest.mark.parametrize("number", [2, 3])
def test_two_signatures_are_none_a82(runtime: Runtime, cluster: SeedCluster, number: int) -> None:
    body = json.dumps(config_map(cluster.kubeconfig)).encode()
    lines = f"X-Kubernetes-JWS: {sign_detached(body, TOKEN)}\r\n".encode() * number

    def converse(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n" % (len(body), lines) + body)

    with RawServer(converse, pair=cluster.authority.server("127.0.0.1")) as server:
        with pytest.raises(errors.ClusterNotTrusted, match=f"{number} headers"):
            runtime.discover(**cluster.unpinned | {"endpoint": f"127.0.0.1:{server.port}"})


@each_case("lie", ["\n", "", "joined", "cut", "evil", "nonsense", "none", "other token", "padding"])
def test_what_is_signed_is_the_body_to_the_letter_a81_a82_a85(
    runtime: Runtime, cluster: SeedCluster, lie: str
) -> None:
    cluster.requests.clear()
    body = json.dumps(config_map(cluster.kubeconfig)).encode()
    good = sign_detached(body, TOKEN)
    changed = {"\n": body + b"\n", "cut": body[:-1], "evil": body.replace(b"127.0.0.1", b"127.0.0.2")}
    signatures = {
        "": "",
        "joined": f"{good}, {good}",
        "nonsense": "a..b",
        "none": "eyJhbGciOiJub25lIiwia2lkIjoiMTIzNDU2In0..",
        "other token": sign_detached(body, "123456.0000000000000000"),
        "padding": good + "=",
    }
    cluster.respond = lambda _: cluster.answer(changed.get(lie, body), signatures.get(lie, good))
    with pytest.raises(errors.ClusterNotTrusted, match="not signed with the token") as raised:
        runtime.discover(**cluster.unpinned)
    assert (raised.value.reason, raised.value.status_code, len(cluster.requests)) == ("signature", 200, 1)


def test_ones_own_jwt_is_not_a_signature_a88(runtime: Runtime, cluster: SeedCluster) -> None:
    """A server that knows nothing sends back what it was sent: R1."""

    def reflect(request: RawRequest) -> Answer:
        first, _, signature = header(request, "Authorization").removeprefix("Bearer ").split(".")
        jwt = presented(header(request, "Authorization"))
        assert isinstance(jwt, PresentedJwt)
        return cluster.answer(jwt.claims, f"{first}..{signature}")

    cluster.respond = reflect
    with pytest.raises(errors.ClusterNotTrusted, match="not signed") as raised:
        runtime.discover(**cluster.unpinned)
    assert raised.value.reason == "signature"


@pytest.mark.parametrize(
    ("body", "jws", "why"),
    [
        (J1_CLAIMS.encode(), R1, "not signed"),
        (S1_BODY, S2, "not signed"),
        (S1_BODY, S1, "must be a mapping"),
    ],
    ids=["R1", "S1 with the signature of S2", "S1"],
)
def test_the_vectors_a81_a88(runtime: Runtime, cluster: SeedCluster, body: bytes, jws: str, why: str) -> None:
    cluster.respond = lambda _: cluster.answer(body, jws)
    with pytest.raises(errors.ClusterNotTrusted, match=why):
        runtime.discover(**cluster.unpinned | {"token": SEED})


@each_case(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"null", "not a JSON object"),
        (json.dumps(config_map("x", kind="Secret")).encode(), "not a ConfigMap"),
        (json.dumps(config_map("x", metadata={"name": "baz", "namespace": "kube-public"})).encode(), "another ConfigMap"),
        (json.dumps(config_map("x", metadata={"name": "cluster-info", "namespace": "default"})).encode(), "another ConfigMap"),
        (json.dumps(config_map(None)).encode(), "not set up"),
        (json.dumps(config_map("")).encode(), "not set up"),
        (json.dumps(config_map("{")).encode(), "malformed"),
        (json.dumps(config_map(published("http://127.0.0.1", b"x"))).encode(), "https://"),
    ],
)  # fmt: skip
def test_what_is_signed_and_makes_no_sense_is_refused_at_once_a82(
    runtime: Runtime, cluster: SeedCluster, body: bytes, why: str
) -> None:
    cluster.requests.clear()
    cluster.respond = lambda _: cluster.answer(body)
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(**cluster.unpinned)
    assert (raised.value.reason in ("document", "server"), len(cluster.requests)) == (True, 1)


def test_somebody_in_between_gets_a_jwt_and_nothing_for_it_a87(
    runtime: Runtime, cluster: SeedCluster, evil: Authority
) -> None:
    with SeedCluster(evil) as server:
        server.respond = cluster.serve
        with pytest.raises(errors.ClusterNotReady, match="unknown authority"):
            runtime.discover(**cluster.by_token | {"endpoint": server.host}, **BRIEF)
    assert len(server.requests) == 1
