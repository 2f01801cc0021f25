"""What the server sees, on every variant: client-go's integration tests and round tripper (T27-T29, T45-T55),
the cache and the 401 (C5-C23), and whom a credential is for (I1-I13).

The server is a real one with mutual TLS. It knows people as a Kubernetes API server does: by certificate
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
from kubeauth.testing import Answer, APIServer, Authority, FakeClock, PluginScript, Received
from tests.conformance.plugins import (
    V1BETA1,
    ShellPlugin,
    config_of,
    configured,
    counted,
    credential,
    exec_config,
    stanza_of,
)
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.residue import wait_until


class Cluster:
    """A server where `tokens` and `people` are welcome."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.tokens = {"good"}
        self.people = {"good"}
        server.on("GET", "/version", self.answer)
        server.on("POST", "/version", self.answer)

    def answer(self, request: Received) -> Answer:
        scheme, _, token = (request.header("authorization") or "").partition(" ")
        if request.common_name in self.people or (scheme == "Bearer" and token in self.tokens):
            return Answer(200, {})
        return Answer(401, {"kind": "Status", "message": "Unauthorized", "filler": "x" * 2000})

    def seen(self) -> list[tuple[str | None, str | None]]:
        """Header and certificate of each request, and forgets them."""
        seen = [(request.header("authorization"), request.common_name) for request in self.server.requests]
        self.server.requests.clear()
        return seen

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
# Case, token, certificate, whether it is welcome, runs.
ROWS = [
    ("T45", "bad", None, False, 2),
    ("T46", None, "bad", False, 2),
    ("T47", "good", None, True, 1),
    ("T48", None, "good", True, 1),
    ("T49", "good", "good", True, 1),
    ("T50", "bad", "good", True, 1),
    ("T51", "good", "bad", True, 1),
    ("T52", "bad", "bad", False, 2),
]


def check_row(
    row: tuple[str, str | None, str | None, bool, int],
    client: Any,
    cluster: Cluster,
    script: ShellPlugin,
) -> None:
    _, token, pair, is_welcome, runs = row
    with counted() as count:
        response = client.get("/version")
    assert response.status_code == (200 if is_welcome else 401)
    # Once, also when refused: the second run gave the same, which is not worth a try.
    assert cluster.seen() == [(TOKENS[token], pair)]
    assert len(script.infos) == runs
    assert (count.calls, count.policy) == ({("no_error", "0"): runs}, {"allowed": runs})
    if not is_welcome:
        assert response.json()["message"] == "Unauthorized"


def script_for(
    row: tuple[str, str | None, str | None, bool, int], directory: Path, pairs: Any, version: str
) -> ShellPlugin:
    token, pair = TOKENS[row[1]], row[2]
    said = credential(
        token.removeprefix("Bearer ") if token else None, pairs[pair] if pair else None, version=version
    )
    return ShellPlugin(directory, said)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_the_server_sees_t45_t46_t47_t48_t49_t50_t51_t52_x41_i6_c9(
    variant: ClientVariant, cluster: Cluster, pairs: dict[str, Any], tmp_path: Path, row: Any
) -> None:
    script = script_for(row, tmp_path, pairs, "client.authentication.k8s.io/v1")
    with variant.client(config_of(cluster.server, script)) as client:
        check_row(row, client, cluster, script)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_same_with_v1beta1_t45_t46_t47_t48_t49_t50_t51_t52_x2(
    cluster: Cluster, pairs: dict[str, Any], tmp_path: Path, row: Any
) -> None:
    script = script_for(row, tmp_path, pairs, V1BETA1)
    with kubeauth.Client(config_of(cluster.server, script, apiVersion=V1BETA1)) as client:
        check_row(row, client, cluster, script)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("case", ["T53", "T54", "T55", "token file"])
def test_a_static_credential_wins_t28_t53_t54_t55_i1(
    variant: ClientVariant, cluster: Cluster, pairs: dict[str, Any], tmp_path: Path, case: str
) -> None:
    """And a 401 does not fall back to the plugin."""
    (tmp_path / "token").write_text("from-file")
    static = pairs["static"]
    user: dict[str, Any]
    user, header, shown = {
        "T53": ({"username": "unauthorized", "password": "p"}, f"Basic {encoded(b'unauthorized:p')}", None),
        "T54": ({"token": "static"}, "Bearer static", None),
        "T55": (
            {"client-certificate-data": encoded(static.certificate), "client-key-data": encoded(static.key)},
            None, "static",
        ),
        "token file": ({"tokenFile": str(tmp_path / "token")}, "Bearer from-file", None),
    }[case]  # fmt: skip
    script = ShellPlugin(tmp_path, credential("good"))
    with counted() as count:
        with variant.client(configured(cluster.server, stanza_of(script.path), user)) as client:
            for _ in range(2):
                assert client.get("/version").status_code == 401
    assert cluster.seen() == [(header, shown)] * 2
    assert (script.infos, count.calls, count.policy) == ([], {}, {})


def test_a_token_file_is_enough_i1(cluster: Cluster, tmp_path: Path) -> None:
    """A kubeconfig's is read into `token` as well; by hand it need not be."""
    (tmp_path / "token").write_text("from-file")
    script = ShellPlugin(tmp_path, credential("good"))
    config = cluster.server.config(exec=exec_config(script.path), token_file=str(tmp_path / "token"))
    with kubeauth.Client(config) as client:
        assert client.get("/version").status_code == 401
    assert cluster.seen() == [("Bearer from-file", None)]
    assert script.infos == []


@pytest.mark.parametrize("half", [{"password": Secret("p")}, {"client_cert_data": b"-----BEGIN"}])
def test_half_a_static_credential_does_not_count_i1(
    cluster: Cluster, tmp_path: Path, half: dict[str, Any]
) -> None:
    script = ShellPlugin(tmp_path, credential("good"))
    config = cluster.server.config(exec=exec_config(script.path), **half)
    with kubeauth.Client(config) as client:
        assert client.get("/version").status_code == 200
    assert cluster.seen() == [("Bearer good", None)]


@pytest.mark.parametrize("who", ["bob:pw", ":pw"])
def test_a_password_in_the_address_is_static_i1_i5(
    variant: ClientVariant, cluster: Cluster, tmp_path: Path, who: str
) -> None:
    """As in Go: net/http has set the header before the plugin's layer looks. (There, TLS may still run it.)"""
    script = ShellPlugin(tmp_path, credential("good"))
    config = config_of(cluster.server, script)
    config = dataclasses.replace(config, server=cluster.server.url.replace("//", f"//{who}@"))
    with variant.client(config) as client:
        assert client.get("/version").status_code == 401
    assert cluster.seen() == [(f"Basic {encoded(who.encode())}", None)]
    assert script.infos == []


def test_the_round_tripper_t27_c6_c10_x43_x44(
    variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
) -> None:
    """client-go hands each 401 to the caller; here the request is repeated with the new token."""
    script = ShellPlugin(tmp_path, credential("token1"))
    cluster.tokens = {"token1"}
    with variant.client(config_of(cluster.server, script), clock=clock) as client:

        def get(*tokens: str) -> None:
            assert client.get("/version").status_code == 200
            assert cluster.seen() == [(f"Bearer {token}", None) for token in tokens]

        get("token1")
        script.says(credential("token2"))
        clock.advance(10**8)  # without an end it is kept, for years
        get("token1")
        cluster.tokens = {"token2"}
        get("token1", "token2")
        get("token2")
        script.says(credential("token3", expires=clock.time() + 3600))
        cluster.tokens = {"token3"}
        get("token2", "token3")
        script.says(credential("token4"))
        cluster.tokens = {"token4"}
        clock.advance(7200)
        get("token4")
    assert len(script.infos) == 4


def test_tls_credentials_t29(
    variant: ClientVariant, authority: Authority, pairs: dict[str, Any], tmp_path: Path, clock: FakeClock
) -> None:
    stranger = Authority("nobody's CA").client("stranger")
    with APIServer(authority=authority, require_certificate=True) as server:
        script = ShellPlugin(tmp_path)
        with variant.client(config_of(server, script), clock=clock) as client:
            for pair, is_welcome in ((pairs["good"], True), (stranger, False), (pairs["good"], True)):
                script.says(credential(None, pair, expires=clock.time() + 3600))
                if is_welcome:
                    assert client.get("/version").status_code == 200
                else:
                    with pytest.raises(ClientCertificateError):
                        client.get("/version")
                clock.advance(7200)
        assert [request.user for request in server.requests] == ["good", "good"]


class TestExpiry:
    def test_at_the_very_moment_it_is_still_good_t86_x43(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 100))
        options = ExecOptions(refresh_ahead=False)
        config = configured(cluster.server, stanza_of(script.path), options=options)
        with variant.client(config, clock=clock) as client:
            for seconds, runs in ((0, 1), (99, 1), (1, 1), (0.001, 2)):
                clock.advance(seconds)
                assert client.get("/version").status_code == 200
                assert len(script.infos) == runs
                if runs == 1:
                    script.says(credential("good", expires=clock.time() + 1000))

    def test_renewed_before_its_end_while_nobody_waits_x43(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go has no leeway: there, the first request after the end waits for the plugin."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 1000))
        cluster.tokens = {"good", "next"}
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            client.get("/version")
            script.says(credential("next", expires=clock.time() + 2000))
            clock.advance(899)
            client.get("/version")
            assert len(script.infos) == 1
            clock.advance(50)  # in its last tenth, and before its end
            client.get("/version")
            assert cluster.seen() == [("Bearer good", None)] * 3
            wait_until(lambda: client.client.status().expires.timestamp() == clock.time() + 1051)
            client.get("/version")
        assert cluster.seen() == [("Bearer next", None)]
        assert len(script.infos) == 2

    def test_a_token_that_tells_its_own_end_is_not_looked_into_x44(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        claims = base64.urlsafe_b64encode(b'{"exp":1}').decode().rstrip("=")
        token = f"e30.{claims}.sig"
        cluster.tokens = {token}
        script = ShellPlugin(tmp_path, credential(token))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            for _ in range(3):
                assert client.get("/version").status_code == 200
                clock.advance(10**7)
        assert len(script.infos) == 1

    def test_over_on_arrival_is_used_once_t16_x45(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go would run the plugin for each request; here that is a failure, with its back-off."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() - 1))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            assert client.get("/version").status_code == 200
            with pytest.raises(PluginOutputError, match="returned an expired credential"):
                client.get("/version")
            assert len(script.infos) == 1
            clock.advance(2)
            assert client.get("/version").status_code == 200
            assert len(script.infos) == 2
        assert cluster.seen() == [("Bearer good", None)] * 2

    def test_over_on_arrival_with_another_certificate_each_time_c21(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go closes the connection that it is setting up."""
        script = ShellPlugin(tmp_path)
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            for name in ("first", "second", "third"):
                cluster.people = {name}
                script.says(credential(None, authority.client(name), expires=clock.time() - 5))
                assert client.get("/version").status_code == 200
                clock.advance(60)
        assert cluster.seen() == [(None, "first"), (None, "second"), (None, "third")]
        assert len(script.infos) == 3

    @pytest.mark.parametrize("moved", ["set back", "slept"])
    def test_over_when_either_clock_says_so_x46(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock, moved: str
    ) -> None:
        """client-go asks the wall clock alone: set back, it stretches a credential's life."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 60))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            client.get("/version")
            if moved == "slept":
                clock.set_date(clock.time() + 61)  # the monotonic clock stood still
            else:
                clock.advance(61)
                clock.set_date(clock.time() - 3600)
            script.says(credential("good", expires=clock.time() + 60))
            client.get("/version")
        assert len(script.infos) == 2

    def test_nothing_is_kept_for_another_process_x46(self, cluster: Cluster, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with kubeauth.Client(config_of(cluster.server, script)) as client:
            client.get("/version")
        written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
        assert written == {"plugin", "plugin.output", "plugin.code", "plugin.infos"}


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    """All at once, from threads; errors are returned."""
    barrier = threading.Barrier(len(calls))

    def call(each: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return each()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call, calls))


class TestOneRun:
    def test_for_all_who_wait_c5(self, variant: ClientVariant, cluster: Cluster, tmp_path: Path) -> None:
        script = PluginScript(tmp_path)
        script.answer(token="good", sleep=0.2)
        with variant.client(config_of(cluster.server, script)) as client:
            answers = together([lambda: client.get("/version").status_code] * 8)
        assert answers == [200] * 8
        assert len(script.runs) == 1

    def test_another_plugin_does_not_wait_c5(self, cluster: Cluster, tmp_path: Path) -> None:
        """The first one ends only when the second has been run."""
        slow, quick = tmp_path / "slow", tmp_path / "quick"
        for directory in (slow, quick):
            directory.mkdir()
        first, second = ShellPlugin(slow), ShellPlugin(quick, credential("good"))
        first.path.write_text(
            f"#!/bin/sh\nwhile [ ! -s \"{quick}/plugin.infos\" ]; do sleep 0.01; done\nprintf '{credential('good')}'\n"
        )
        with (
            kubeauth.Client(config_of(cluster.server, first)) as one,
            kubeauth.Client(config_of(cluster.server, second)) as two,
        ):
            answers = together(
                [lambda: one.get("/version").status_code, lambda: two.get("/version").status_code]
            )
        assert answers == [200, 200]

    def test_a_failure_is_everybodys_too_and_then_it_is_left_alone_c7(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go would run it once for each of them, one after the other."""
        script = PluginScript(tmp_path)
        script.answer(exit_code=3, sleep=0.2)
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            answers = together([lambda: client.get("/version")] * 8)
            assert [type(each) for each in answers] == [PluginFailed] * 8
            assert len({id(each) for each in answers}) == 8
            for _ in range(3):
                with pytest.raises(PluginFailed, match="exit code 3"):
                    client.get("/version")
            assert len(script.runs) == 1
            script.answer(token="good")
            clock.advance(1.3)
            assert client.get("/version").status_code == 200
        assert len(script.runs) == 2

    def test_a_failure_leaves_what_there_was_c6_c13(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 1000))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            client.get("/version")
            script.says("", exit_code=1)
            clock.advance(950)
            assert client.get("/version").status_code == 200  # tries in the background
            wait_until(lambda: client.client.status().last_error is not None)
            assert client.get("/version").status_code == 200
            clock.advance(51)
            with pytest.raises(PluginFailed):
                client.get("/version")

    @pytest.mark.parametrize("fails", [False, True], ids=["works", "fails"])
    def test_many_401s_at_once_t88_c13(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock, fails: bool
    ) -> None:
        """N 401s for one credential: one run, also if it fails, where client-go could take N."""
        barrier = threading.Barrier(8)
        script = ShellPlugin(tmp_path, credential("old"))
        cluster.tokens = {"old"}

        def answer(request: Received) -> Answer:
            if request.header("authorization") == "Bearer old":
                barrier.wait()  # all of them were refused with the same one
                return Answer(401)
            return Answer(200)

        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            client.get("/version")
            cluster.server.on("GET", "/version", answer)
            script.says(credential("new"), exit_code=5 if fails else 0)
            answers = together([lambda: client.get("/version").status_code] * 8)
        assert answers == [401 if fails else 200] * 8
        assert len(script.infos) == 2


class TestUnauthorized:
    @pytest.mark.parametrize("status", [400, 403, 407, 500])
    def test_no_other_status_c8(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, status: int
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        cluster.server.on("GET", "/version", Answer(status))
        with variant.client(config_of(cluster.server, script)) as client:
            assert client.get("/version").status_code == status
        assert len(script.infos) == len(cluster.seen()) == 1

    def test_though_it_has_not_ended_yet_c9(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("revoked", expires=clock.time() + 3600))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            cluster.tokens = {"revoked"}
            client.get("/version")
            cluster.tokens = {"good"}
            script.says(credential("good", expires=clock.time() + 3600))
            assert client.get("/version").status_code == 200

    def test_a_certificate_too_and_the_request_goes_on_a_new_connection_c9_c19(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential(None, authority.client("revoked")))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            cluster.people = {"revoked"}
            client.get("/version")
            cluster.people = {"good"}
            script.says(credential(None, authority.client("good")))
            assert client.get("/version").status_code == 200
            assert cluster.connections() == [1, 1, 2]
            # And where the new one is refused as well, its 401 is whole: client-go closes it unread.
            script.says(credential(None, authority.client("bad")))
            cluster.people = set()
            response = client.get("/version")
        assert (response.status_code, len(response.json()["filler"])) == (401, 2000)
        assert cluster.seen()[-2:] == [(None, "good"), (None, "bad")]

    def test_a_401_that_is_handed_back_has_its_body_c19(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path
    ) -> None:
        """Also if it made the certificate rotate, and cannot be repeated."""
        script = ShellPlugin(tmp_path, credential(None, authority.client("bad")))

        def once() -> Iterator[bytes]:
            script.says(credential(None, authority.client("good")))
            yield b"gone"

        async def aonce() -> Any:
            for each in once():
                yield each

        with variant.client(config_of(cluster.server, script)) as client:
            response = client.request("POST", "/version", content=aonce() if variant.is_async else once())
            assert (response.status_code, len(response.json()["filler"])) == (401, 2000)
            assert len(script.infos) == 2
            assert client.get("/version").status_code == 200
        assert cluster.seen() == [(None, "bad"), (None, "good")]

    def test_a_body_that_can_be_sent_again_is_c10(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        """client-go hands the 401 back, whatever the request was."""
        script = ShellPlugin(tmp_path, credential("bad"))
        with variant.client(config_of(cluster.server, script)) as client:
            # The first run gives what is refused, the second what is welcome.
            script.path.write_text(
                script.path.read_text().replace(
                    "exit", f"printf '%s' '{credential('good')}' >\"{script._output}\"\nexit"
                )
            )
            assert client.request("POST", "/version", content=b"a body").status_code == 200
        assert [request.body for request in cluster.server.requests] == [b"a body"] * 2
        assert cluster.seen() == [("Bearer bad", None), ("Bearer good", None)]

    def test_a_second_401_is_the_callers_c10(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = PluginScript(tmp_path)
        script.path.write_text(
            script.path.read_text().replace('dict(answer["status"])', '{"token": str(time.time())}')
        )
        with variant.client(config_of(cluster.server, script)) as client:
            assert client.get("/version").status_code == 401
        assert len({header for header, _ in cluster.seen()}) == len(script.runs) == 2

    def test_a_renewal_that_fails_is_logged_and_the_401_handed_back_c11(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        tmp_path: Path,
        clock: FakeClock,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        script = ShellPlugin(tmp_path, credential("revoked"))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            cluster.tokens = {"revoked"}
            client.get("/version")
            cluster.tokens = {"good"}
            script.says("", exit_code=4)
            with caplog.at_level(logging.WARNING, logger="kubeauth"):
                assert client.get("/version").status_code == 401
            assert "exit code 4" in caplog.text
            # The old one stays, is used for the next request, and its 401 runs the plugin once more.
            script.says(credential("good"))
            clock.advance(60)
            assert client.get("/version").status_code == 200
        assert cluster.seen() == [("Bearer revoked", None)] * 3 + [("Bearer good", None)]
        assert len(script.infos) == 3

    def test_where_nobody_is_welcome_it_is_not_asked_each_time_c12(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go would run it for every request."""
        script = ShellPlugin(tmp_path, credential("bad"))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            for _ in range(5):
                assert client.get("/version").status_code == 401
            assert len(script.infos) == 2
            runs = []
            for _ in range(64):
                clock.advance(1.0)
                client.get("/version")
                runs.append(len(script.infos))
        # Once before; then at once, and after about 1, 2, 4, 8, 16 and 32 seconds, give or take a fifth.
        assert 7 <= runs[-1] <= 8
        assert len(cluster.seen()) == 69

    def test_being_welcome_again_lifts_the_limit_c12(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("t0"))
        cluster.tokens = {"t0"}
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            for number in range(5):
                script.says(credential(f"t{number}"))
                cluster.tokens = {f"t{number}"}
                assert client.get("/version").status_code == 200  # no time goes by
        assert len(script.infos) == 5

    def test_a_late_one_for_an_older_credential_changes_nothing_c14(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("old"))
        arrived, renewed = threading.Event(), threading.Event()

        def slow(request: Received) -> Answer:
            if request.header("authorization") == "Bearer old":
                arrived.set()
                assert renewed.wait(60)
                return Answer(401)
            return Answer(200)

        cluster.server.on("GET", "/slow", slow)
        cluster.tokens = {"new"}
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            with ThreadPoolExecutor(1) as thread:
                late = thread.submit(lambda: client.get("/slow").status_code)
                assert arrived.wait(60)
                script.says(credential("new"))
                assert client.get("/version").status_code == 200
                script.says(credential("unwanted"))
                renewed.set()
                assert late.result() == 200
            assert client.get("/version").status_code == 200
        assert len(script.infos) == 2


class TestTheCallersOwn:
    @pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
    @pytest.mark.parametrize("kind", ["token", "certificate"])
    def test_authorization_runs_nothing_t89_i5_c20(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        pairs: dict[str, Any],
        tmp_path: Path,
        name: str,
        kind: str,
    ) -> None:
        """Not even for a certificate, which client-go fetches in the handshake."""
        said = credential("good") if kind == "token" else credential(None, pairs["good"])
        script = ShellPlugin(tmp_path, said)
        with variant.client(config_of(cluster.server, script)) as client:
            response = client.get("/version", headers={name: "Bearer mine"})
        assert response.status_code == 401
        assert cluster.seen() == [("Bearer mine", None)]
        assert script.infos == []

    def test_beside_a_certificate_that_is_there_already_i5(
        self, variant: ClientVariant, cluster: Cluster, pairs: dict[str, Any], tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good", pairs["good"]))
        with variant.client(config_of(cluster.server, script)) as client:
            client.get("/version")
            client.get("/version", headers={"Authorization": "Bearer mine"})
        assert cluster.seen() == [("Bearer good", "good"), ("Bearer mine", "good")]
        assert len(script.infos) == 1

    def test_an_empty_one_is_none_i5_i8(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with variant.client(config_of(cluster.server, script)) as client:
            assert client.get("/version", headers={"Authorization": ""}).status_code == 200
        assert cluster.seen() == [("Bearer good", None)]

    def test_the_request_object_is_not_touched_i7(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go writes into it: sent again, it could carry a token that is over."""
        script = ShellPlugin(tmp_path, credential("good", expires=clock.time() + 10))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            response = client.get("/version")
            assert "authorization" not in response.request.headers

    def test_a_transport_below_sees_the_header_i4(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        below: list[str] = []

        def answer(request: Any) -> Any:
            below.append(request.headers["authorization"])
            return variant.library.Response(200)

        with variant.client(
            config_of(cluster.server, script), transport_factory=variant.in_memory(answer)
        ) as client:
            client.get("/version")
        assert below == ["Bearer good"]

    def test_a_failure_is_raised_before_anything_is_sent_i6(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        with variant.client(configured(cluster.server, stanza_of("missing-plugin"))) as client:
            with pytest.raises(
                PluginNotFound, match=r"\Agetting credentials: exec: executable missing-plugin not found"
            ):
                client.get("/version")
        assert cluster.seen() == []

    def test_plain_http_if_somebody_says_so_by_hand_i13(self, variant: ClientVariant, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with APIServer(tls=False, tokens={"good": "alice"}) as server:
            with variant.client(server.config(exec=exec_config(script.path))) as client:
                assert client.get("/version").status_code == 200
            assert server.requests[0].user == "alice"

    def test_not_from_a_kubeconfig_i13_t93(self, variant: ClientVariant, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with APIServer(tls=False) as server:
            with variant.client(config_of(server, script)) as client:
                assert client.get("/version").status_code == 200
            assert server.requests[0].header("authorization") is None
        assert script.infos == []

    def test_the_header_is_masked_in_logs_i14(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good-sentinel"))
        with caplog.at_level(logging.DEBUG), variant.client(config_of(cluster.server, script)) as client:
            client.get("/version")
        assert "Bearer <masked>" in caplog.text
        assert "sentinel" not in caplog.text


class TestElsewhere:
    @pytest.mark.parametrize("kind", ["token", "certificate"])
    def test_a_redirect_takes_nothing_along_t95_i11_i12(
        self,
        variant: ClientVariant,
        cluster: Cluster,
        public: Authority,
        pairs: dict[str, Any],
        tmp_path: Path,
        kind: str,
    ) -> None:
        """client-go would sign every hop, whoever it leads to."""
        said = credential("good") if kind == "token" else credential(None, pairs["good"])
        script = ShellPlugin(tmp_path, said)
        with APIServer(authority=public, client_authority=cluster.server.authority) as other:
            other.on("GET", "/there", Answer(401))
            cluster.server.on("GET", "/from", Answer(302, headers={"Location": f"{other.url}/there"}))
            with variant.client(config_of(cluster.server, script), follow_redirects=True) as client:
                assert client.get("/from").status_code == 401
                # Nor for an address that names another host, and its 401 is no reason to ask the plugin.
                assert client.get(f"{other.url}/there").status_code == 401
            assert [(each.header("authorization"), each.certificate) for each in other.requests] == [
                (None, None)
            ] * 2
        assert len(script.infos) == 1

    def test_a_redirect_within_the_cluster_is_signed_i11(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        cluster.server.on("GET", "/from", Answer(302, headers={"Location": "/version"}))
        with variant.client(config_of(cluster.server, script), follow_redirects=True) as client:
            assert client.get("/from").status_code == 200
        assert cluster.seen() == [("Bearer good", None)] * 2


class TestRotation:
    def test_a_new_certificate_is_a_new_connection_and_a_new_token_is_not_t87_c16(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        one, two = authority.client("good"), authority.client("good")
        script = ShellPlugin(tmp_path)
        cluster.tokens = {"t1", "t2"}
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            for token, pair in (
                ("t1", None),
                ("t2", None),
                ("t2", one),
                ("t1", one),
                ("t1", two),
                ("t1", None),
            ):
                script.says(credential(token, pair, expires=clock.time() + 60))
                assert client.get("/version").status_code == 200
                clock.advance(1000)
            # A certificate appears, stays, changes, and disappears; idle connections of the old one are closed.
            assert cluster.connections() == [1, 1, 2, 2, 3, 4]
            wait_until(lambda: cluster.server.open_connections == 1)
        assert len(script.infos) == 6

    def test_it_reaches_every_client_of_the_plugin_c17(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential(None, authority.client("good"), expires=clock.time() + 60))
        config = config_of(cluster.server, script)
        with variant.client(config, clock=clock) as one, variant.client(config, clock=clock) as two:
            for client in (one, two):
                client.get("/version")
            clock.advance(1000)
            cluster.people = {"newer"}
            script.says(credential(None, authority.client("newer"), expires=clock.time() + 60))
            for client in (one, two):
                assert client.get("/version").status_code == 200
            assert cluster.connections() == [1, 2, 3, 4]
            wait_until(lambda: cluster.server.open_connections == 2)
        assert len(script.infos) == 2

    def test_what_is_under_way_is_not_cut_c16_c18_c23(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go cuts it, and may then repeat a GET. An end by the calendar cuts nothing anywhere."""
        watch = cluster.server.watch("/watch")
        script = ShellPlugin(tmp_path, credential(None, authority.client("good"), expires=clock.time() + 60))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            with client.stream("GET", "/watch") as stream:
                watch.wait_for_watchers()
                watch.send({"n": 1})
                assert stream.line() == '{"n": 1}'
                clock.advance(1000)
                script.says(credential(None, authority.client("good"), expires=clock.time() + 60))
                assert client.get("/version").status_code == 200
                watch.send({"n": 2})
                watch.end()
                assert stream.rest() == ['{"n": 2}']
            assert cluster.connections() == [1, 2]
            wait_until(lambda: cluster.server.open_connections == 1)

    def test_a_connection_outlives_the_token_c23(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path)
        cluster.tokens = {"t1", "t2"}
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            for token in ("t1", "t2"):
                script.says(credential(token, expires=clock.time() + 10))
                client.get("/version")
                clock.advance(1000)
            assert cluster.connections() == [1, 1]

    def test_a_certificate_that_cannot_be_used_changes_nothing_t96_c15_x40(
        self, variant: ClientVariant, cluster: Cluster, authority: Authority, tmp_path: Path, clock: FakeClock
    ) -> None:
        """client-go keeps the old credential with the new one's end: none at all, in this case."""
        pair, other = authority.client("good"), authority.client("good")
        broken = dataclasses.replace(pair, key=other.key)
        script = ShellPlugin(tmp_path, credential(None, pair, expires=clock.time() + 1000))
        with variant.client(config_of(cluster.server, script), clock=clock) as client:
            client.get("/version")
            expires = client.client.status().expires
            script.says(credential(None, broken))
            clock.advance(950)
            assert client.get("/version").status_code == 200
            wait_until(lambda: client.client.status().last_error is not None)
            assert "failed parsing client key/certificate" in str(client.client.status().last_error)
            assert client.client.status().expires == expires
            assert client.get("/version").status_code == 200
            clock.advance(51)  # and its own end is the end
            with pytest.raises(PluginOutputError, match="does not match"):
                client.get("/version")
        assert cluster.connections() == [1, 1, 1]


class TestKubeAuth:
    """The variant for header credentials, on a client that the caller has configured."""

    def client(self, variant: ClientVariant, cluster: Cluster, script: ShellPlugin, clock: FakeClock) -> Any:
        config = config_of(cluster.server, script)

        def make() -> Any:
            auth = variant.kubeauth.KubeAuth(config, clock=clock)
            return variant.PlainClient(auth=auth, verify=kubeauth.ssl_context(config), base_url=config.server)

        return variant.drive(make)

    def test_a_401_is_repeated_with_the_next_token_c10_c12_i6(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with self.client(variant, cluster, script, clock) as client:
            assert client.get("/version").status_code == 200
            cluster.tokens = {"next"}
            script.says(credential("next"))
            assert client.request("POST", "/version", content=b"body").status_code == 200
            assert [request.body for request in cluster.server.requests] == [b"", b"body", b"body"]
            assert cluster.seen() == [("Bearer good", None)] * 2 + [("Bearer next", None)]
            cluster.tokens = set()
            for _ in range(3):
                assert client.get("/version").status_code == 401
        assert len(script.infos) == 3
        assert len(cluster.seen()) == 3

    def test_whose_authorization_i5_t89(
        self, variant: ClientVariant, cluster: Cluster, tmp_path: Path, clock: FakeClock
    ) -> None:
        script = ShellPlugin(tmp_path, credential("good"))
        with self.client(variant, cluster, script, clock) as client:
            client.get("/version", headers={"Authorization": "Bearer mine"})
        assert cluster.seen() == [("Bearer mine", None)]
        assert script.infos == []

    def test_a_certificate_alone_is_not_for_it_i6(
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
        assert cluster.seen() == []


def test_many_clients_made_at_once_t30_c1(cluster: Cluster, tmp_path: Path) -> None:
    """Of all variants, in threads: one plugin run."""
    script = PluginScript(tmp_path)
    script.answer(token="good", sleep=0.1)
    config = config_of(cluster.server, script)

    def use(variant: ClientVariant) -> int:
        with variant.client(config) as client:
            status: int = client.get("/version").status_code
        return status

    answers = together([partial(use, variant) for variant in VARIANTS * 2])
    assert answers == [200] * 12
    assert len(script.runs) == 1
    assert {header for header, _ in cluster.seen()} == {"Bearer good"}


def test_a_config_is_anonymous_for_the_plugin_itself_i15(cluster: Cluster, tmp_path: Path) -> None:
    """What a plugin gets about its cluster holds nobody's credential, and no plugin: it would run itself."""
    script = ShellPlugin(tmp_path, credential("good"))
    config = config_of(cluster.server, script, provideClusterInfo=True)
    with kubeauth.Client(config) as client:
        client.get("/version")
    told = parse_exec_info(script.infos[0]).client_config()
    assert (told.server, told.ca_data) == (config.server, config.ca_data)
    assert (told.exec, told.token, told.impersonate, told.client_cert_data) == (None, None, None, None)
