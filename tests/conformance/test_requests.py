"""Requests of every client variant: client-go's integration tests and round tripper (T27-T29, T45-T55),
cached credentials and 401 responses (C5-C23), and which requests are signed (I1-I15).

The server requests client certificates and authenticates as a Kubernetes API server does: by certificate
first, then by token.
"""

from __future__ import annotations

import base64
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth import ExecOptions, Secret
from kubeauth.errors import (
    ClientCertificateError,
    ConfigError,
    PluginFailed,
    PluginNotFound,
    PluginOutputError,
)
from kubeauth.plugin import parse_exec_info
from kubeauth.testing import Answer, APIServer, Authority, FakeClock, Received
from tests.conformance.plugins import (
    V1BETA1,
    build_config,
    exec_config,
    exec_entry,
    metrics_delta,
    plugin_config,
)
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.residue import wait_until
from tests.support.shell_plugin import ShellPlugin, credential


class Cluster:
    """A server that accepts `tokens` and the client certificates of `users`."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.tokens = {"good"}
        self.users = {"good"}
        server.on("GET", "/version", self.respond)
        server.on("POST", "/version", self.respond)

    def respond(self, request: Received) -> Answer:
        scheme, _, token = (request.header("authorization") or "").partition(" ")
        if request.common_name in self.users or (scheme == "Bearer" and token in self.tokens):
            return Answer(200, {})
        return Answer(401, {"kind": "Status", "message": "Unauthorized", "filler": "x" * 2000})

    def pop_received(self) -> list[tuple[str | None, str | None]]:
        """Return Authorization header and certificate name of each request, and clear the list of requests."""
        received = [
            (request.header("authorization"), request.common_name) for request in self.server.requests
        ]
        self.server.requests.clear()
        return received

    def connections(self) -> list[int]:
        return [request.connection for request in self.server.requests]


@pytest.fixture
def cluster(authority: Authority) -> Iterator[Cluster]:
    with APIServer(authority=authority) as server:
        yield Cluster(server)


@pytest.fixture(scope="module")
def pairs(authority: Authority) -> dict[str, Any]:
    return {name: authority.client(name) for name in ("good", "bad", "other", "static")}


TOKENS = {"good": "Bearer good", "bad": "Bearer unauthorized", None: None}
# Id, token, certificate, whether one of them is accepted, plugin runs.
CASES = [
    ("T45", "bad", None, False, 2),
    ("T46", None, "bad", False, 2),
    ("T47", "good", None, True, 1),
    ("T48", None, "good", True, 1),
    ("T49", "good", "good", True, 1),
    ("T50", "bad", "good", True, 1),
    ("T51", "good", "bad", True, 1),
    ("T52", "bad", "bad", False, 2),
]


def check_case(
    row: tuple[str, str | None, str | None, bool, int],
    client: Any,
    cluster: Cluster,
    script: ShellPlugin,
) -> None:
    _, token, pair, is_accepted, runs = row
    with metrics_delta() as metrics:
        response = client.get("/version")
    assert response.status_code == (200 if is_accepted else 401)
    # Sent once even after a 401: the second run returned the same credential, so there is no retry.
    assert cluster.pop_received() == [(TOKENS[token], pair)]
    assert len(script.exec_infos) == runs
    assert (metrics.calls, metrics.policy) == ({("no_error", "0"): runs}, {"allowed": runs})
    if not is_accepted:
        assert response.json()["message"] == "Unauthorized"


def plugin_for(
    row: tuple[str, str | None, str | None, bool, int], directory: Path, pairs: Any, version: str
) -> ShellPlugin:
    token, pair = TOKENS[row[1]], row[2]
    output = credential(
        token.removeprefix("Bearer ") if token else None, pairs[pair] if pair else None, version=version
    )
    return ShellPlugin(directory, output)


@pytest.mark.parametrize("row", CASES, ids=lambda row: row[0])
def test_token_and_certificate_are_sent_t45_t46_t47_t48_t49_t50_t51_t52_x41_i6_c9(
    variant: ClientVariant, cluster: Cluster, pairs: dict[str, Any], tmp_path: Path, row: Any
) -> None:
    script = plugin_for(row, tmp_path, pairs, "client.authentication.k8s.io/v1")
    with variant.client(plugin_config(cluster.server, script)) as client:
        check_case(row, client, cluster, script)


@pytest.mark.parametrize("row", CASES, ids=lambda row: row[0])
def test_token_and_certificate_of_v1beta1_are_sent_t45_t46_t47_t48_t49_t50_t51_t52_x2(
    cluster: Cluster, pairs: dict[str, Any], tmp_path: Path, row: Any
) -> None:
    script = plugin_for(row, tmp_path, pairs, V1BETA1)
    with kubeauth.Client(plugin_config(cluster.server, script, apiVersion=V1BETA1)) as client:
        check_case(row, client, cluster, script)


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("case", ["T53", "T54", "T55", "token file"])
def test_a_static_credential_takes_precedence_t28_t53_t54_t55_i1(
    variant: ClientVariant, cluster: Cluster, pairs: dict[str, Any], tmp_path: Path, case: str
) -> None:
    """A 401 does not fall back to the plugin."""
    (tmp_path / "token").write_text("from-file")
    static = pairs["static"]
    user: dict[str, Any]
    user, header, certificate = {
        "T53": ({"username": "unauthorized", "password": "p"}, f"Basic {encode_base64(b'unauthorized:p')}", None),
        "T54": ({"token": "static"}, "Bearer static", None),
        "T55": (
            {"client-certificate-data": encode_base64(static.certificate), "client-key-data": encode_base64(static.key)},
            None, "static",
        ),
        "token file": ({"tokenFile": str(tmp_path / "token")}, "Bearer from-file", None),
    }[case]  # fmt: skip
    script = ShellPlugin(tmp_path, credential("good"))

    with metrics_delta() as metrics:
        with variant.client(build_config(cluster.server, exec_entry(script.path), user)) as client:
            for _ in range(2):
                assert client.get("/version").status_code == 401

    assert cluster.pop_received() == [(header, certificate)] * 2
    assert (script.exec_infos, metrics.calls, metrics.policy) == ([], {}, {})


def test_a_token_file_takes_precedence_without_a_token_i1(cluster: Cluster, tmp_path: Path) -> None:
    """Loading a kubeconfig also sets `token`; a config built in code may have the file only."""
    (tmp_path / "token").write_text("from-file")
    script = ShellPlugin(tmp_path, credential("good"))
    config = cluster.server.config(exec=exec_config(script.path), token_file=str(tmp_path / "token"))

    with kubeauth.Client(config) as client:
        assert client.get("/version").status_code == 401

    assert cluster.pop_received() == [("Bearer from-file", None)]
    assert script.exec_infos == []


@pytest.mark.parametrize("incomplete", [{"password": Secret("p")}, {"client_cert_data": b"-----BEGIN"}])
def test_an_incomplete_static_credential_is_ignored_i1(
    cluster: Cluster, tmp_path: Path, incomplete: dict[str, Any]
) -> None:
    script = ShellPlugin(tmp_path, credential("good"))
    config = cluster.server.config(exec=exec_config(script.path), **incomplete)
    with kubeauth.Client(config) as client:
        assert client.get("/version").status_code == 200
    assert cluster.pop_received() == [("Bearer good", None)]


@pytest.mark.parametrize("userinfo", ["bob:pw", ":pw"])
def test_a_password_in_the_server_url_takes_precedence_i1_i5(
    variant: ClientVariant, cluster: Cluster, tmp_path: Path, userinfo: str
) -> None:
    """As in Go, where net/http sets the header first. (In client-go, the TLS handshake may still run the plugin.)"""
    script = ShellPlugin(tmp_path, credential("good"))
    config = plugin_config(cluster.server, script)
    config = dataclasses.replace(config, server=cluster.server.url.replace("//", f"//{userinfo}@"))

    with variant.client(config) as client:
        assert client.get("/version").status_code == 401

    assert cluster.pop_received() == [(f"Basic {encode_base64(userinfo.encode())}", None)]
    assert script.exec_infos == []


def test_the_token_is_refreshed_after_a_401_or_expiry_t27_c6_c10_x43_x44(
    variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
) -> None:
    """client-go returns each 401 to the caller; here the request is retried with the new token."""
    script = ShellPlugin(tmp_path, credential("token1"))
    cluster.tokens = {"token1"}

    with variant.client(plugin_config(cluster.server, script), clock=clock) as client:

        def get(*tokens: str) -> None:
            assert client.get("/version").status_code == 200
            assert cluster.pop_received() == [(f"Bearer {token}", None) for token in tokens]

        get("token1")
        script.set_output(credential("token2"))
        clock.advance(10**8)  # a token without expirationTimestamp does not expire
        get("token1")
        cluster.tokens = {"token2"}
        get("token1", "token2")
        get("token2")
        script.set_output(credential("token3", expires=clock.time() + 3600))
        cluster.tokens = {"token3"}
        get("token2", "token3")
        script.set_output(credential("token4"))
        cluster.tokens = {"token4"}
        clock.advance(7200)
        get("token4")

    assert len(script.exec_infos) == 4


def test_a_rejected_certificate_is_replaced_after_it_expired_t29(
    variant: ClientVariant, authority: Authority, pairs: dict[str, Any], tmp_path: Path, clock: FakeClock
) -> None:
    untrusted = Authority("untrusted CA").client("untrusted")
    with APIServer(authority=authority, require_certificate=True) as server:
        script = ShellPlugin(tmp_path)
        with variant.client(plugin_config(server, script), clock=clock) as client:
            for pair, is_accepted in ((pairs["good"], True), (untrusted, False), (pairs["good"], True)):
                script.set_output(credential(None, pair, expires=clock.time() + 3600))
                if is_accepted:
                    assert client.get("/version").status_code == 200
                else:
                    with pytest.raises(ClientCertificateError):
                        client.get("/version")
                clock.advance(7200)
        assert [request.user for request in server.requests] == ["good", "good"]


class TestExpiry:
    def test_a_credential_is_still_valid_at_its_expiration_time_t86_x43(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 100))
        options = ExecOptions(refresh_ahead=False)
        config = build_config(cluster.server, exec_entry(script.path), options=options)

        with variant.client(config, clock=clock) as client:
            for seconds, runs in ((0, 1), (99, 1), (1, 1), (0.001, 2)):
                clock.advance(seconds)
                assert client.get("/version").status_code == 200
                assert len(script.exec_infos) == runs
                if runs == 1:
                    script.set_output(credential("good", expires=clock.time() + 1000))

    def test_refresh_ahead_does_not_block_a_request_x43(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go does not refresh ahead: the first request after expiry waits for the plugin."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 1000))
        cluster.tokens = {"good", "next"}

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            client.get("/version")
            script.set_output(credential("next", expires=clock.time() + 2000))
            clock.advance(899)
            client.get("/version")
            assert len(script.exec_infos) == 1
            clock.advance(50)  # in the last tenth of its lifetime
            client.get("/version")
            assert cluster.pop_received() == [("Bearer good", None)] * 3
            wait_until(lambda: client.client.status().expires.timestamp() == clock.time() + 1051)
            client.get("/version")

        assert cluster.pop_received() == [("Bearer next", None)]
        assert len(script.exec_infos) == 2

    def test_the_exp_claim_of_a_token_is_ignored_x44(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        claims = base64.urlsafe_b64encode(b'{"exp":1}').decode().rstrip("=")
        token = f"e30.{claims}.sig"
        cluster.tokens = {token}
        script = ShellPlugin(tmp_path, credential(token))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            for _ in range(3):
                assert client.get("/version").status_code == 200
                clock.advance(10**7)

        assert len(script.exec_infos) == 1

    def test_an_already_expired_credential_is_used_once_t16_x45(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go runs the plugin for each request; here an expired credential is a failure with backoff."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() - 1))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            assert client.get("/version").status_code == 200
            with pytest.raises(PluginOutputError, match="returned an expired credential"):
                client.get("/version")
            assert len(script.exec_infos) == 1
            clock.advance(2)
            assert client.get("/version").status_code == 200
            assert len(script.exec_infos) == 2

        assert cluster.pop_received() == [("Bearer good", None)] * 2

    def test_already_expired_certificates_are_used_once_each_c21(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go closes the connection during its handshake."""
        script = ShellPlugin(tmp_path)

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            for name in ("first", "second", "third"):
                cluster.users = {name}
                script.set_output(credential(None, authority.client(name), expires=clock.time() - 5))
                assert client.get("/version").status_code == 200
                clock.advance(60)

        assert cluster.pop_received() == [(None, "first"), (None, "second"), (None, "third")]
        assert len(script.exec_infos) == 3

    @pytest.mark.parametrize("clock_change", ["set back", "suspended"])
    def test_a_credential_expires_by_either_clock_x46(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock, clock_change: str
    ) -> None:
        """client-go reads only the wall clock: when it is set back, credentials stay valid for longer."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 60))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            client.get("/version")
            if clock_change == "suspended":
                clock.set_date(clock.time() + 61)  # the monotonic clock does not advance
            else:
                clock.advance(61)
                clock.set_date(clock.time() - 3600)
            script.set_output(credential("good", expires=clock.time() + 60))
            client.get("/version")

        assert len(script.exec_infos) == 2

    def test_credentials_are_not_cached_on_disk_x46(self, cluster: Cluster, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with kubeauth.Client(plugin_config(cluster.server, script)) as client:
            client.get("/version")
        written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
        assert written == {"plugin", "plugin.does", "plugin.exec_infos"}


def run_concurrently(calls: list[Callable[[], Any]]) -> list[Any]:
    """Call all of them in threads that start together; return results and errors."""
    barrier = threading.Barrier(len(calls))

    def call(each: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return each()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call, calls))


class TestSingleFlight:
    def test_concurrent_requests_share_one_run_c5(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path)
        script.answer(token="good", sleep=0.2)

        with variant.client(plugin_config(cluster.server, script)) as client:
            results = run_concurrently([lambda: client.get("/version").status_code] * 8)

        assert results == [200] * 8
        assert len(script.exec_infos) == 1

    def test_different_plugins_run_concurrently_c5(self, cluster: Cluster, tmp_path: Path) -> None:
        """The first plugin exits only after the second has run."""
        slow, quick = tmp_path / "slow", tmp_path / "quick"

        for directory in (slow, quick):
            directory.mkdir()
        first, second = ShellPlugin(slow), ShellPlugin(quick, credential("good"))
        first.path.write_text(
            f"#!/bin/sh\nwhile [ ! -s \"{quick}/plugin.exec_infos\" ]; do sleep 0.01; done\nprintf '{credential('good')}'\n"
        )
        with (
            kubeauth.Client(plugin_config(cluster.server, first)) as one,
            kubeauth.Client(plugin_config(cluster.server, second)) as two,
        ):
            results = run_concurrently(
                [lambda: one.get("/version").status_code, lambda: two.get("/version").status_code]
            )

        assert results == [200, 200]

    def test_a_failure_is_shared_and_followed_by_backoff_c7(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go runs the plugin once for each request, one after the other."""
        script = ShellPlugin(tmp_path)
        script.answer(exit_code=3, sleep=0.2)

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            results = run_concurrently([lambda: client.get("/version")] * 8)
            assert [type(each) for each in results] == [PluginFailed] * 8
            assert len({id(each) for each in results}) == 8
            for _ in range(3):
                with pytest.raises(PluginFailed, match="exit code 3"):
                    client.get("/version")
            assert len(script.exec_infos) == 1
            script.answer(token="good")
            clock.advance(1.3)
            assert client.get("/version").status_code == 200

        assert len(script.exec_infos) == 2

    def test_a_failed_refresh_keeps_the_cached_credential_c6_c13(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 1000))
        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            client.get("/version")
            script.set_output("", exit_code=1)
            clock.advance(950)
            assert client.get("/version").status_code == 200  # refreshes in the background
            wait_until(lambda: client.client.status().last_error is not None)
            assert client.get("/version").status_code == 200
            clock.advance(51)
            with pytest.raises(PluginFailed):
                client.get("/version")

    @pytest.mark.parametrize("fails", [False, True], ids=["works", "fails"])
    def test_concurrent_401s_cause_one_run_t88_c13(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock, fails: bool
    ) -> None:
        """One run even if it fails; client-go may run the plugin once for each 401."""
        barrier = threading.Barrier(8)
        script = ShellPlugin(tmp_path, credential("old"))
        cluster.tokens = {"old"}

        def respond(request: Received) -> Answer:
            if request.header("authorization") == "Bearer old":
                barrier.wait()  # all eight requests have the same credential
                return Answer(401)
            return Answer(200)

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            client.get("/version")
            cluster.server.on("GET", "/version", respond)
            script.set_output(credential("new"), exit_code=5 if fails else 0)
            results = run_concurrently([lambda: client.get("/version").status_code] * 8)

        assert results == [401 if fails else 200] * 8
        assert len(script.exec_infos) == 2


class TestUnauthorized:
    @pytest.mark.parametrize("status", [400, 403, 407, 500])
    def test_other_statuses_do_not_cause_a_refresh_c8(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, status: int
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        cluster.server.on("GET", "/version", Answer(status))
        with variant.client(plugin_config(cluster.server, script)) as client:
            assert client.get("/version").status_code == status
        assert len(script.exec_infos) == len(cluster.pop_received()) == 1

    def test_a_401_refreshes_an_unexpired_credential_c9(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("revoked", expires=clock.time() + 3600))
        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            cluster.tokens = {"revoked"}
            client.get("/version")
            cluster.tokens = {"good"}
            script.set_output(credential("good", expires=clock.time() + 3600))
            assert client.get("/version").status_code == 200

    def test_a_401_rotates_the_certificate_and_retries_on_a_new_connection_c9_c19(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential(None, authority.client("revoked")))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            cluster.users = {"revoked"}
            client.get("/version")
            cluster.users = {"good"}
            script.set_output(credential(None, authority.client("good")))
            assert client.get("/version").status_code == 200
            assert cluster.connections() == [1, 1, 2]
            # If the new certificate is rejected too, the 401 has its body; client-go closes it unread.
            script.set_output(credential(None, authority.client("bad")))
            cluster.users = set()
            response = client.get("/version")

        assert (response.status_code, len(response.json()["filler"])) == (401, 2000)
        assert cluster.pop_received()[-2:] == [(None, "good"), (None, "bad")]

    def test_a_401_that_is_returned_has_its_body_c19(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path
    ) -> None:
        """Even if it rotated the certificate, and the request cannot be replayed."""
        script = ShellPlugin(tmp_path, credential(None, authority.client("bad")))

        def one_shot_body() -> Iterator[bytes]:
            script.set_output(credential(None, authority.client("good")))
            yield b"body"

        async def async_one_shot_body() -> Any:
            for each in one_shot_body():
                yield each

        with variant.client(plugin_config(cluster.server, script)) as client:
            body = async_one_shot_body() if variant.is_async else one_shot_body()
            response = client.request("POST", "/version", content=body)
            assert (response.status_code, len(response.json()["filler"])) == (401, 2000)
            assert len(script.exec_infos) == 2
            assert client.get("/version").status_code == 200

        assert cluster.pop_received() == [(None, "bad"), (None, "good")]

    def test_a_replayable_body_is_sent_again_c10(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        """client-go returns the 401 for every request."""
        script = ShellPlugin(tmp_path)
        script.set_outputs(credential("bad"), then=credential("good"))

        with variant.client(plugin_config(cluster.server, script)) as client:
            assert client.request("POST", "/version", content=b"a body").status_code == 200

        assert [request.body for request in cluster.server.requests] == [b"a body"] * 2
        assert cluster.pop_received() == [("Bearer bad", None), ("Bearer good", None)]

    def test_a_second_401_is_returned_c10(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path)
        script.set_outputs(credential("rejected"), then=credential("rejected-too"))
        with variant.client(plugin_config(cluster.server, script)) as client:
            assert client.get("/version").status_code == 401
        assert len({header for header, _ in cluster.pop_received()}) == len(script.exec_infos) == 2

    def test_a_failed_refresh_is_logged_and_the_401_returned_c11(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        tmp_path: Path,
        clock: FakeClock,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        script = ShellPlugin(tmp_path, credential("revoked"))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            cluster.tokens = {"revoked"}
            client.get("/version")
            cluster.tokens = {"good"}
            script.set_output("", exit_code=4)
            with caplog.at_level(logging.WARNING, logger="kubeauth"):
                assert client.get("/version").status_code == 401
            assert "exit code 4" in caplog.text
            # The next request uses the old credential, and its 401 runs the plugin again.
            script.set_output(credential("good"))
            clock.advance(60)
            assert client.get("/version").status_code == 200

        assert cluster.pop_received() == [("Bearer revoked", None)] * 3 + [("Bearer good", None)]
        assert len(script.exec_infos) == 3

    def test_refreshes_after_repeated_401s_are_rate_limited_c12(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go runs the plugin for every request."""
        script = ShellPlugin(tmp_path, credential("bad"))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            for _ in range(5):
                assert client.get("/version").status_code == 401
            assert len(script.exec_infos) == 2
            runs = []
            for _ in range(64):
                clock.advance(1.0)
                client.get("/version")
                runs.append(len(script.exec_infos))

        # The first run, one after the first 401, then after 1, 2, 4, 8, 16 and 32 s, with a jitter of a fifth.
        assert 7 <= runs[-1] <= 8
        assert len(cluster.pop_received()) == 69

    def test_an_accepted_credential_resets_the_rate_limit_c12(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("t0"))
        cluster.tokens = {"t0"}

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            for number in range(5):
                script.set_output(credential(f"t{number}"))
                cluster.tokens = {f"t{number}"}
                assert client.get("/version").status_code == 200  # the clock does not advance

        assert len(script.exec_infos) == 5

    def test_a_late_401_does_not_replace_a_newer_credential_c14(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("old"))
        arrived, refreshed = threading.Event(), threading.Event()

        def respond_late(request: Received) -> Answer:
            if request.header("authorization") == "Bearer old":
                arrived.set()
                assert refreshed.wait(60)
                return Answer(401)
            return Answer(200)

        cluster.server.on("GET", "/slow", respond_late)
        cluster.tokens = {"new"}

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            with ThreadPoolExecutor(1) as thread:
                late = thread.submit(lambda: client.get("/slow").status_code)
                assert arrived.wait(60)
                script.set_output(credential("new"))
                assert client.get("/version").status_code == 200
                script.set_output(credential("unwanted"))
                refreshed.set()
                assert late.result() == 200
            assert client.get("/version").status_code == 200

        assert len(script.exec_infos) == 2


class TestAuthorizationHeader:
    @pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
    @pytest.mark.parametrize("kind", ["token", "certificate"])
    def test_a_request_with_authorization_does_not_run_the_plugin_t89_i5_c20(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        pairs: dict[str, Any],
        tmp_path: Path,
        name: str,
        kind: str,
    ) -> None:
        """Not even for a certificate; client-go fetches it during the handshake."""
        output = credential("good") if kind == "token" else credential(None, pairs["good"])
        script = ShellPlugin(tmp_path, output)

        with variant.client(plugin_config(cluster.server, script)) as client:
            response = client.get("/version", headers={name: "Bearer mine"})

        assert response.status_code == 401
        assert cluster.pop_received() == [("Bearer mine", None)]
        assert script.exec_infos == []

    def test_a_request_with_authorization_uses_the_cached_certificate_i5(
        self, variant: ClientVariant, cluster: Cluster, pairs: dict[str, Any], tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good", pairs["good"]))

        with variant.client(plugin_config(cluster.server, script)) as client:
            client.get("/version")
            client.get("/version", headers={"Authorization": "Bearer mine"})

        assert cluster.pop_received() == [("Bearer good", "good"), ("Bearer mine", "good")]
        assert len(script.exec_infos) == 1

    def test_an_empty_authorization_is_replaced_i5_i8(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with variant.client(plugin_config(cluster.server, script)) as client:
            assert client.get("/version", headers={"Authorization": ""}).status_code == 200
        assert cluster.pop_received() == [("Bearer good", None)]

    def test_signing_does_not_modify_the_request_object_i7(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go adds the header to it: sent again, it could have an expired token."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 10))
        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            response = client.get("/version")
            assert "authorization" not in response.request.headers

    def test_the_underlying_transport_receives_the_header_i4(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        received: list[str] = []

        def respond(request: Any) -> Any:
            received.append(request.headers["authorization"])
            return variant.library.Response(200)

        with variant.client(
            plugin_config(cluster.server, script), transport_factory=variant.in_memory(respond)
        ) as client:
            client.get("/version")

        assert received == ["Bearer good"]

    def test_a_plugin_error_is_raised_before_anything_is_sent_i6(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        with variant.client(build_config(cluster.server, exec_entry("missing-plugin"))) as client:
            with pytest.raises(
                PluginNotFound, match=r"\Agetting credentials: exec: executable missing-plugin not found"
            ):
                client.get("/version")
        assert cluster.pop_received() == []

    def test_the_token_is_sent_over_plain_http_if_configured_in_code_i13(
        self, variant: ClientVariant, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with APIServer(tls=False, tokens={"good": "alice"}) as server:
            with variant.client(server.config(exec=exec_config(script.path))) as client:
                assert client.get("/version").status_code == 200
            assert server.requests[0].user == "alice"

    def test_the_plugin_of_a_plain_http_kubeconfig_is_not_run_i13_t93(
        self, variant: ClientVariant, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))

        with APIServer(tls=False) as server:
            with variant.client(plugin_config(server, script)) as client:
                assert client.get("/version").status_code == 200
            assert server.requests[0].header("authorization") is None

        assert script.exec_infos == []

    def test_the_header_is_masked_in_logs_i14(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good-sentinel"))
        with caplog.at_level(logging.DEBUG), variant.client(plugin_config(cluster.server, script)) as client:
            client.get("/version")
        assert "Bearer <masked>" in caplog.text
        assert "sentinel" not in caplog.text


class TestRedirects:
    @pytest.mark.parametrize("kind", ["token", "certificate"])
    def test_a_redirect_to_another_origin_is_not_signed_t95_i11_i12(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        public: Authority,
        pairs: dict[str, Any],
        tmp_path: Path,
        kind: str,
    ) -> None:
        """client-go signs redirected requests for every host."""
        output = credential("good") if kind == "token" else credential(None, pairs["good"])
        script = ShellPlugin(tmp_path, output)

        with APIServer(authority=public, client_authority=cluster.server.authority) as other:
            other.on("GET", "/there", Answer(401))
            cluster.server.on("GET", "/from", Answer(302, headers={"Location": f"{other.url}/there"}))
            with variant.client(plugin_config(cluster.server, script), follow_redirects=True) as client:
                assert client.get("/from").status_code == 401
                # An absolute URL of another origin is not signed either, and its 401 does not run the plugin.
                assert client.get(f"{other.url}/there").status_code == 401
            assert [(each.header("authorization"), each.certificate) for each in other.requests] == [
                (None, None)
            ] * 2

        assert len(script.exec_infos) == 1

    def test_a_redirect_within_the_cluster_is_signed_i11(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        cluster.server.on("GET", "/from", Answer(302, headers={"Location": "/version"}))
        with variant.client(plugin_config(cluster.server, script), follow_redirects=True) as client:
            assert client.get("/from").status_code == 200
        assert cluster.pop_received() == [("Bearer good", None)] * 2


class TestRotation:
    def test_a_new_certificate_opens_a_new_connection_and_a_new_token_does_not_t87_c16(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        one, two = authority.client("good"), authority.client("good")
        script = ShellPlugin(tmp_path)
        cluster.tokens = {"t1", "t2"}

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            for token, pair in (
                ("t1", None),
                ("t2", None),
                ("t2", one),
                ("t1", one),
                ("t1", two),
                ("t1", None),
            ):
                script.set_output(credential(token, pair, expires=clock.time() + 60))
                assert client.get("/version").status_code == 200
                clock.advance(1000)
            # The certificate is added, retained, replaced and removed; idle connections of the old one are closed.
            assert cluster.connections() == [1, 1, 2, 2, 3, 4]
            wait_until(lambda: cluster.server.open_connections == 1)

        assert len(script.exec_infos) == 6

    def test_every_client_of_a_plugin_rotates_its_connections_c17(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential(None, authority.client("good"), expires=clock.time() + 60))
        config = plugin_config(cluster.server, script)

        with variant.client(config, clock=clock) as one, variant.client(config, clock=clock) as two:
            for client in (one, two):
                client.get("/version")
            clock.advance(1000)
            cluster.users = {"newer"}
            script.set_output(credential(None, authority.client("newer"), expires=clock.time() + 60))
            for client in (one, two):
                assert client.get("/version").status_code == 200
            assert cluster.connections() == [1, 2, 3, 4]
            wait_until(lambda: cluster.server.open_connections == 2)

        assert len(script.exec_infos) == 2

    def test_a_rotation_does_not_interrupt_open_streams_c16_c18_c23(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go closes the connection, and may then retry a GET. Expiry alone closes no connection in either."""
        watch = cluster.server.watch("/watch")
        script = ShellPlugin(tmp_path, credential(None, authority.client("good"), expires=clock.time() + 60))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            with client.stream("GET", "/watch") as stream:
                watch.wait_for_watchers()
                watch.send({"n": 1})
                assert stream.line() == '{"n": 1}'
                clock.advance(1000)
                script.set_output(credential(None, authority.client("good"), expires=clock.time() + 60))
                assert client.get("/version").status_code == 200
                watch.send({"n": 2})
                watch.end()
                assert stream.rest() == ['{"n": 2}']
            assert cluster.connections() == [1, 2]
            wait_until(lambda: cluster.server.open_connections == 1)

    def test_a_connection_is_reused_after_the_token_expired_c23(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path)
        cluster.tokens = {"t1", "t2"}

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            for token in ("t1", "t2"):
                script.set_output(credential(token, expires=clock.time() + 10))
                client.get("/version")
                clock.advance(1000)
            assert cluster.connections() == [1, 1]

    def test_an_unusable_certificate_does_not_replace_the_cached_one_t96_c15_x40(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go keeps the old credential but takes the new expiry, here none at all."""
        pair, other = authority.client("good"), authority.client("good")
        mismatched = dataclasses.replace(pair, key=other.key)
        script = ShellPlugin(tmp_path, credential(None, pair, expires=clock.time() + 1000))

        with variant.client(plugin_config(cluster.server, script), clock=clock) as client:
            client.get("/version")
            expires = client.client.status().expires
            script.set_output(credential(None, mismatched))
            clock.advance(950)
            assert client.get("/version").status_code == 200
            wait_until(lambda: client.client.status().last_error is not None)
            assert "failed parsing client key/certificate" in str(client.client.status().last_error)
            assert client.client.status().expires == expires
            assert client.get("/version").status_code == 200
            clock.advance(51)  # the cached certificate has expired
            with pytest.raises(PluginOutputError, match="does not match"):
                client.get("/version")

        assert cluster.connections() == [1, 1, 1]


class TestKubeAuth:
    """KubeAuth with an httpx client that the caller has configured."""

    def client(self, variant: ClientVariant, cluster: Cluster, script: ShellPlugin, clock: FakeClock) -> Any:
        config = plugin_config(cluster.server, script)

        def make() -> Any:
            auth = variant.kubeauth.KubeAuth(config, clock=clock)
            return variant.PlainClient(auth=auth, verify=kubeauth.ssl_context(config), base_url=config.server)

        return variant.drive(make)

    def test_a_request_is_retried_after_a_401_c10_c12_i6(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))

        with self.client(variant, cluster, script, clock) as client:
            assert client.get("/version").status_code == 200
            cluster.tokens = {"next"}
            script.set_output(credential("next"))
            assert client.request("POST", "/version", content=b"body").status_code == 200
            assert [request.body for request in cluster.server.requests] == [b"", b"body", b"body"]
            assert cluster.pop_received() == [("Bearer good", None)] * 2 + [("Bearer next", None)]
            cluster.tokens = set()
            for _ in range(3):
                assert client.get("/version").status_code == 401

        assert len(script.exec_infos) == 3
        assert len(cluster.pop_received()) == 3

    def test_a_request_with_authorization_is_not_changed_i5_t89(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with self.client(variant, cluster, script, clock) as client:
            client.get("/version", headers={"Authorization": "Bearer mine"})
        assert cluster.pop_received() == [("Bearer mine", None)]
        assert script.exec_infos == []

    def test_a_credential_without_a_token_is_a_config_error_i6(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        pairs: dict[str, Any],
        tmp_path: Path,
        clock: FakeClock,
    ) -> None:
        script = ShellPlugin(tmp_path, credential(None, pairs["good"]))
        with self.client(variant, cluster, script, clock) as client:
            with pytest.raises(ConfigError, match="KubeTransport"):
                client.get("/version")
        assert cluster.pop_received() == []


def test_clients_created_concurrently_share_one_run_t30_c1(cluster: Cluster, tmp_path: Path) -> None:
    """In threads, two clients of each variant."""
    script = ShellPlugin(tmp_path)
    script.answer(token="good", sleep=0.1)
    config = plugin_config(cluster.server, script)

    def use(variant: ClientVariant) -> int:
        with variant.client(config) as client:
            status: int = client.get("/version").status_code
        return status

    results = run_concurrently([partial(use, variant) for variant in VARIANTS * 2])

    assert results == [200] * 12
    assert len(script.exec_infos) == 1
    assert {header for header, _ in cluster.pop_received()} == {"Bearer good"}


def test_client_config_from_exec_info_is_anonymous_i15(cluster: Cluster, tmp_path: Path) -> None:
    """It has no credential and no plugin: the plugin would run itself."""
    script = ShellPlugin(tmp_path, credential("good"))
    config = plugin_config(cluster.server, script, provideClusterInfo=True)

    with kubeauth.Client(config) as client:
        client.get("/version")
    received = parse_exec_info(script.exec_infos[0]).client_config()

    assert (received.server, received.ca_data) == (config.server, config.ca_data)
    assert (received.exec, received.token, received.impersonate, received.client_cert_data) == (
        None,
        None,
        None,
        None,
    )
