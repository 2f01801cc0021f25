"""One request to many contexts: what is sent, what comes back, and how often a plugin is run."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import kubeauth
from kubeauth import fleet
from kubeauth.errors import ConfigError, KubeConfigError, PluginFailed
from kubeauth.fleet import Failure
from kubeauth.testing import Answer, APIServer, Authority, PluginScript, Received
from tests.fleet.fleets import RUNTIMES, Fleet, NotedPlugin, ask, first
from tests.support import oidc
from tests.support.oidc_issuer import Issuer
from tests.support.proxy_servers import Proxy
from tests.support.residue import no_residue, wait_until
from tests.support.shell_plugin import ShellPlugin

pytestmark = pytest.mark.parametrize("runtime", RUNTIMES)


def equal_contexts(server: APIServer, count: int, user: dict[str, Any] | None = None) -> Fleet:
    made = Fleet()
    for number in range(count):
        made.add(f"c{number}", server, user)
    return made


def test_every_context_answers_in_the_order_of_the_file(runtime: str, server: APIServer) -> None:
    document = equal_contexts(server, 20).document
    with no_residue():
        report = ask(runtime, "/version", kubeconfig=document, concurrency=5)
    assert [answer.context for answer in report] == [f"c{number}" for number in range(20)]
    assert report.ok
    assert report[3].cluster == "c3-cluster"
    assert report[3].user == "c3-user"
    assert report[3].server == server.url
    assert report[3].status_code == 200
    assert report[3].content_type == "application/json"
    assert report[3].json()["gitVersion"] == "v1.36.0"
    assert 0 < report[3].seconds <= report.seconds
    assert {request.user for request in server.requests} == {"alice"}
    wait_until(lambda: server.open_connections == 0)


def test_contexts_headers_and_kubeconfig_are_chosen(
    runtime: str, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", equal_contexts(server, 3).write(tmp_path / "config"))
    report = ask(runtime, "/version?x=1", contexts=["c2", "c0"], headers={"Accept": "text/plain"})
    assert [answer.context for answer in report] == ["c0", "c2"]
    assert {request.header("accept") for request in server.requests} == {"text/plain"}
    assert {request.path for request in server.requests} == {"/version?x=1"}
    assert len(ask(runtime, "/version", contexts="c1", kubeconfig=tmp_path / "config")) == 1


def test_a_path_may_depend_on_the_context(runtime: str, server: APIServer) -> None:
    made = Fleet()
    made.add("a", server, namespace="shop")
    made.add("b", server)
    report = ask(runtime, lambda config: f"/namespaces/{config.namespace}", kubeconfig=made.document)
    assert {request.path for request in server.requests} == {"/namespaces/shop", "/namespaces/default"}
    assert report.failures == {Failure.REFUSED: 2}


def test_a_path_of_two_slashes_is_no_other_host(runtime: str, server: APIServer) -> None:
    ask(runtime, "//example.invalid/x", kubeconfig=equal_contexts(server, 1).document)
    assert [request.path for request in server.requests] == ["/example.invalid/x"]  # as this server reads it


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "version"},
        {"path": "/\x00"},
        {"concurrency": 0},
        {"timeout": 0},
        {"timeout": -1.0},
        {"contexts": []},
    ],
)
def test_what_makes_no_sense_is_an_error_before_anybody_is_asked(
    runtime: str, server: APIServer, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        ask(runtime, **({"path": "/version", "kubeconfig": equal_contexts(server, 1).document} | wrong))
    assert server.requests == []


def test_an_unknown_argument_is_a_type_error(runtime: str, server: APIServer) -> None:
    with pytest.raises(TypeError, match="unexpected keyword arguments: kontext"):
        ask(runtime, "/version", kontext="x")


def test_a_kubeconfig_that_cannot_be_read_is_an_error_for_all(runtime: str, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("{")
    for source in (tmp_path / "none", tmp_path / "damaged", b"[]", "clusters: []\n"):
        with pytest.raises(KubeConfigError):
            ask(runtime, "/version", kubeconfig=source)


def test_what_a_function_of_the_callers_raises_is_the_callers(runtime: str, server: APIServer) -> None:
    def path(config: kubeauth.ClientConfig) -> str:
        if config.context == "c2":
            raise LookupError("of my own")
        return "/version"

    document = equal_contexts(server, 5).document
    with no_residue(), pytest.raises(LookupError, match="of my own"):
        ask(runtime, path, kubeconfig=document, concurrency=2)


@pytest.mark.parametrize("kind", [ConnectionError, StopIteration, StopAsyncIteration])
def test_whatever_it_is(runtime: str, server: APIServer, kind: type[Exception]) -> None:
    """It is not taken for a failure of a context, nor for the end of the answers."""

    def path(_config: kubeauth.ClientConfig) -> str:
        raise kind("mine")

    made = Fleet()
    made.add("c", server)
    with pytest.raises(RuntimeError if "Stop" in kind.__name__ else kind):
        ask(runtime, path, kubeconfig=made.document)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_the_end_of_a_program_is_not_wrapped_either(
    runtime: str, server: APIServer, kind: type[BaseException]
) -> None:
    made = Fleet()
    for number in range(3):
        made.add(f"c{number}", server)

    def leave() -> None:
        with fleet.stream("/version", kubeconfig=made.document) as answers:
            next(answers)
            raise kind

    async def aleave() -> None:
        async with fleet.astream("/version", kubeconfig=made.document) as answers:
            await anext(answers)
            raise kind

    run = leave if runtime == "sync" else partial(anyio.run, aleave, backend=runtime)
    with no_residue(), pytest.raises(kind):
        run()


def test_nor_is_ctrl_c_that_strikes_one_of_many(runtime: str, server: APIServer) -> None:
    def path(_config: kubeauth.ClientConfig) -> str:
        raise KeyboardInterrupt

    made = equal_contexts(server, 1)
    if runtime == "asyncio":
        pytest.skip("there it strikes the loop, whatever is under way")
    with no_residue(), pytest.raises(KeyboardInterrupt):
        ask(runtime, path, kubeconfig=made.document)


def test_what_is_wrong_with_a_context_may_be_said_by_the_function_for_its_path(
    runtime: str, server: APIServer
) -> None:
    def path(config: kubeauth.ClientConfig) -> str:
        if config.context == "c1":
            raise ConfigError("not this one")
        return "/version"

    report = ask(runtime, path, kubeconfig=equal_contexts(server, 3).document)
    assert report.failures == {Failure.CONFIG: 1}


def test_what_is_raised_while_answers_are_taken_is_not_wrapped(runtime: str, server: APIServer) -> None:
    document = equal_contexts(server, 5).document
    with no_residue(), pytest.raises((StopIteration, StopAsyncIteration, RuntimeError)) as raised:
        first(runtime, "/version", 6, kubeconfig=document)
    assert not isinstance(raised.value, BaseExceptionGroup)


def test_a_plugin_is_run_once_for_all_that_have_it_configured_alike(
    runtime: str, server: APIServer, tmp_path: Path
) -> None:
    plugin = NotedPlugin(tmp_path)
    document = equal_contexts(server, 12, plugin.user()).document
    with no_residue():
        report = ask(runtime, "/version", kubeconfig=document, concurrency=8)
    assert report.ok
    assert len(plugin.runs) == 1
    # And it stays good for the next call.
    assert ask(runtime, "/version", kubeconfig=document, concurrency=8).ok
    assert len(plugin.runs) == 1


@pytest.mark.slow
def test_many_more_plugins_than_are_kept_are_run_once_each(
    runtime: str, server: APIServer, tmp_path: Path
) -> None:
    plugin, made = NotedPlugin(tmp_path), Fleet()
    for turn in range(3):
        for number in range(80):  # 64 are kept; interleaved, each would be gone by its next turn
            made.add(f"c{number}-{turn}", server, plugin.user(str(number)))
    report = ask(runtime, "/version", kubeconfig=made.document, concurrency=8)
    assert report.ok, report.failed[0].reason
    assert sorted(plugin.runs) == sorted(map(str, range(80)))


def test_one_that_is_told_of_the_cluster_is_run_for_each(
    runtime: str, server: APIServer, tmp_path: Path
) -> None:
    plugin, made = PluginScript(tmp_path), Fleet()
    plugin.answer(token="alices-token")
    with APIServer(authority=server.authority, tokens=server.tokens) as other:
        for number, each in enumerate([server, other, server, other]):
            made.add(f"c{number}", each, {"exec": plugin.exec_config(provideClusterInfo=True)})
        assert ask(runtime, "/version", kubeconfig=made.document).ok
        told = [run.info["spec"]["cluster"]["server"] for run in plugin.runs]
        assert sorted(told) == sorted([server.url, other.url])


def test_a_certificate_of_a_plugin_is_shown(runtime: str, authority: Authority, tmp_path: Path) -> None:
    plugin, pair = ShellPlugin(tmp_path), authority.client("carol")
    plugin.answer(certificate=pair.certificate, key=pair.key)
    with APIServer(authority=authority, require_certificate=True) as server:
        document = equal_contexts(server, 5, {"exec": plugin.exec_config()}).document
        assert ask(runtime, "/version", kubeconfig=document).ok
        assert {request.user for request in server.requests} == {"carol"}
    assert len(plugin.runs) == 1


def test_a_plugin_that_fails_is_run_once_and_all_its_contexts_say_why(
    runtime: str, server: APIServer, tmp_path: Path
) -> None:
    plugin, made = ShellPlugin(tmp_path), Fleet()
    plugin.answer(exit_code=3, stderr="no such session")
    for number in range(20):
        made.add(f"c{number}", server, {"exec": plugin.exec_config()} if number % 2 else None)
    report = ask(runtime, "/version", kubeconfig=made.document, concurrency=4)
    assert report.failures == {Failure.CREDENTIAL: 10}
    assert len(plugin.runs) == 1
    errors = [answer.error for answer in report.failed]
    assert all(isinstance(error, PluginFailed) and error.exit_code == 3 for error in errors)
    assert "no such session" in report.failed[-1].reason
    assert report.failed[0].server == server.url
    assert report.failed[0].status_code is None


@pytest.mark.slow
def test_who_hangs_is_ended_and_all_its_contexts_say_so(
    runtime: str, server: APIServer, tmp_path: Path
) -> None:
    plugin = PluginScript(tmp_path)
    plugin.answer(sleep=600)
    document = equal_contexts(server, 20, {"exec": plugin.exec_config()}).document
    with no_residue():
        report = ask(runtime, "/version", kubeconfig=document, concurrency=3, timeout=0.5)
    assert report.failures == {Failure.CREDENTIAL: 20}
    assert len(plugin.runs) <= 1  # it may be ended before it has noted anything
    assert server.requests == []


@pytest.mark.parametrize("mode", ["Always", "IfAvailable"])
def test_no_plugin_asks_a_person(runtime: str, server: APIServer, tmp_path: Path, mode: str) -> None:
    plugin = PluginScript(tmp_path)
    plugin.answer(token="alices-token")
    document = equal_contexts(server, 2, {"exec": plugin.exec_config(interactiveMode=mode)}).document
    report = ask(runtime, "/version", kubeconfig=document)
    if mode == "IfAvailable":
        assert report.ok
        assert not plugin.runs[0].stdin_is_terminal
    else:
        assert report.failures == {Failure.CREDENTIAL: 2}
        assert "cannot support interactive mode" in report[0].reason


def test_a_policy_keeps_a_plugin_from_running(runtime: str, server: APIServer, tmp_path: Path) -> None:
    plugin = ShellPlugin(tmp_path)
    document = equal_contexts(server, 2, {"exec": plugin.exec_config()}).document
    report = ask(
        runtime, "/version", kubeconfig=document, plugin_policy=kubeauth.PluginPolicy.deny_all()
    )  # fmt: skip
    assert report.failures == {Failure.CONFIG: 2}
    assert plugin.runs == []


def test_an_issuer_is_asked_once_for_a_user(runtime: str, authority: Authority, tmp_path: Path) -> None:
    with (
        Issuer() as issuer,
        APIServer(authority=authority, authenticate=oidc.authenticate) as server,
    ):
        config = oidc.settings(
            issuer, id_token=issuer.id_token("alice", -60), refresh_token=issuer.new_refresh_token("alice")
        )
        made = Fleet()
        for number in range(12):
            made.add(
                f"c{number}", server, {"auth-provider": {"name": "oidc", "config": config}}, user_name="u"
            )
        report = ask(runtime, "/version", kubeconfig=made.write(tmp_path / "config"), concurrency=3)
        assert report.ok, report.failed[0].reason
        assert {request.user for request in server.requests} == {"alice"}
        assert issuer.refreshes == 1


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_a_proxy_is_gone_through(runtime: str, server: APIServer, kind: str) -> None:
    with Proxy(kind) as proxy:
        made = Fleet()
        made.add("c", server)
        made.clusters["c-cluster"]["proxy-url"] = proxy.url
        assert ask(runtime, "/version", kubeconfig=made.document).ok
        assert proxy.targets


class TestA401:
    def test_of_a_credential_from_before_the_call_is_worth_one_run(
        self, runtime: str, server: APIServer, tmp_path: Path
    ) -> None:
        plugin = ShellPlugin(tmp_path)
        plugin.answer(token="alices-token")
        document = equal_contexts(server, 12, {"exec": plugin.exec_config()}).document
        assert ask(runtime, "/version", kubeconfig=document).ok
        server.tokens = {"newer": "alice"}
        plugin.answer(token="newer")
        report = ask(runtime, "/version", kubeconfig=document, concurrency=4)
        assert report.ok, report
        assert len(plugin.runs) == 2

    def test_of_one_that_is_as_new_as_the_call_is_worth_none(
        self, runtime: str, server: APIServer, tmp_path: Path
    ) -> None:
        plugin = ShellPlugin(tmp_path)
        plugin.answer(token="unknown")
        report = ask(
            runtime,
            "/version",
            kubeconfig=equal_contexts(server, 12, {"exec": plugin.exec_config()}).document,
        )
        assert report.failures == {Failure.UNAUTHORIZED: 12}
        assert report[0].status_code == 401
        assert report[0].json()["reason"] == "Unauthorized"
        assert len(plugin.runs) == 1
        assert len(server.requests) == 12

    def test_with_a_plugin_that_fails_now_is_the_answer(
        self, runtime: str, server: APIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        plugin = ShellPlugin(tmp_path)
        plugin.answer(token="alices-token")
        document = equal_contexts(server, 6, {"exec": plugin.exec_config()}).document
        assert ask(runtime, "/version", kubeconfig=document).ok
        server.tokens = {}
        plugin.answer(exit_code=1)
        report = ask(runtime, "/version", kubeconfig=document, concurrency=2)
        assert report.failures == {Failure.UNAUTHORIZED: 6}
        assert len(plugin.runs) == 2
        assert [record.name for record in caplog.records].count("kubeauth.fleet") == 1


def test_no_more_are_asked_at_a_time_than_allowed(runtime: str, authority: Authority) -> None:
    mu, first_of_them = threading.Lock(), threading.Barrier(3)
    inside, counted = 0, list[int]()

    def count(_request: Received) -> Answer:
        nonlocal inside
        with mu:
            inside += 1
            counted.append(inside)
            is_early = len(counted) <= 3
        if is_early:
            first_of_them.wait(60)
        with mu:
            inside -= 1
        return Answer(body={})

    with APIServer(authority=authority) as server:
        server.on("GET", "/count", count)
        assert ask(runtime, "/count", kubeconfig=equal_contexts(server, 30).document, concurrency=3).ok
    assert max(counted) == 3
    assert len(counted) == 30


def test_who_takes_no_answers_is_not_swamped_with_them(runtime: str, server: APIServer) -> None:
    document = equal_contexts(server, 40).document
    with no_residue():
        first(runtime, "/version", 1, kubeconfig=document, concurrency=2)
    # Two are under way, four have room, and one was taken.
    assert len(server.requests) <= 8


def test_the_policy_of_a_kuberc_counts(
    runtime: str, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = ShellPlugin(tmp_path)
    (tmp_path / "kuberc").write_text(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"
    )
    monkeypatch.setenv("KUBERC", str(tmp_path / "kuberc"))
    document = equal_contexts(server, 3, {"exec": plugin.exec_config()}).document
    assert ask(runtime, "/version", kubeconfig=document).failures == {Failure.CONFIG: 3}
    assert plugin.runs == []
