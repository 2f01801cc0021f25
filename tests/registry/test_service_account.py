"""Providers that are given the token of a pod's service account (4.14-4.21)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth.errors import ConfigError, RegistryError
from kubeauth.registry._cluster_accounts import ClusterServiceAccounts
from kubeauth.registry._providers import CredentialProviders, Lookup
from kubeauth.registry._service_account import Pod, ServiceAccount
from kubeauth.testing import Answer, APIServer, FakeClock, ProviderScript, Received
from tests.registry.providers import IMAGE, TOKENS, Watching, providers_of, says
from tests.support.leaks import assert_no_leak

POD = Pod("ns", "pod", "pod-uid", "robot")
NOBODY = Pod("ns", "pod", "pod-uid")
HOST = {"test.registry.io": ("user", "password")}


class Known:
    """Knows one service account, and gives its tokens in turn."""

    def __init__(self, *tokens: str, uid: str = "uid-1", **annotations: str) -> None:
        self.tokens = list(tokens)
        self.account = ServiceAccount("ns", "robot", uid, annotations)
        self.asked: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    def service_account(self, pod: Pod) -> ServiceAccount:
        self.asked.append(("account", pod))
        return self.account

    def token(self, pod: Pod, account: ServiceAccount, audience: str) -> str:
        self.asked.append(("token", pod, account, audience))
        if self.error is not None:
            raise self.error
        return self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]


class KnownAsync:
    """The same for event loops alone."""

    def __init__(self, known: Known) -> None:
        self._known = known

    async def aservice_account(self, pod: Pod) -> ServiceAccount:
        await asyncio.sleep(0)
        return self._known.service_account(pod)

    async def atoken(self, pod: Pod, account: ServiceAccount, audience: str) -> str:
        await asyncio.sleep(0)
        return self._known.token(pod, account, audience)


Look = Callable[[CredentialProviders, Pod | None], Lookup]


def look(providers: CredentialProviders, pod: Pod | None) -> Lookup:
    return providers.lookup(IMAGE, pod=pod)


def alook(providers: CredentialProviders, pod: Pod | None) -> Lookup:
    return asyncio.run(providers.alookup(IMAGE, pod=pod))


RUNTIMES: dict[str, tuple[Look, Callable[[Known], Any]]] = {
    "sync": (look, lambda known: known),
    "async": (alook, KnownAsync),
    "async, in a thread": (alook, lambda known: known),
}


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> tuple[Look, Callable[[Known], Any]]:
    return RUNTIMES[request.param]


@pytest.fixture
def script(tmp_path: Path) -> ProviderScript:
    script = ProviderScript(tmp_path)
    script.answer(HOST)
    return script


def sa_providers(script: ProviderScript, source: Any, clock: FakeClock | None = None, **tokens: Any) -> CredentialProviders:  # fmt: skip
    return providers_of(script, service_account=source, clock=clock, tokenAttributes=TOKENS | tokens)


class TestProvide:
    """PT Provide SA."""

    @pytest.mark.parametrize("pod", [None, NOBODY])
    def test_name_required_empty(
        self, pod: Pod | None, runtime: tuple[Look, Any], script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:  # fmt: skip
        """4.14 a."""
        caplog.set_level(logging.DEBUG)
        look, of = runtime
        known = Known("token")
        (answer,) = look(sa_providers(script, of(known)), pod).answers
        assert (answer.matched, answer.failure, answer.service_account) == (True, None, None)
        assert "needs a service account" in answer.not_asked
        assert [record.levelname for record in caplog.records if record.name == "kubeauth.registry"] == [
            "DEBUG"
        ]
        assert (script.runs, known.asked) == ([], [])

    @pytest.mark.parametrize("pod", [None, NOBODY])
    def test_name_not_required_empty(
        self, pod: Pod | None, runtime: tuple[Look, Any], script: ProviderScript
    ) -> None:
        """4.14 a: as without tokenAttributes."""
        look, of = runtime
        providers = sa_providers(script, of(Known("token")), requireServiceAccount=False)
        found = look(providers, pod)
        assert (len(found.credentials), found.answers[0].service_account) == (1, None)
        assert set(script.runs[0].request) == {"kind", "apiVersion", "image"}

    def test_required_annotation_missing(
        self, runtime: tuple[Look, Any], script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:
        """4.15, RequiredAnnotationNotFound: no failure, and no token is asked for."""
        look, of = runtime
        known = Known("token", other="x")
        providers = sa_providers(
            script, of(known), requiredServiceAccountAnnotationKeys=["a.io/role", "other"]
        )
        (answer,) = look(providers, POD).answers
        assert (answer.failure, answer.credentials) == (None, ())
        assert answer.not_asked == "service account ns/robot has no annotation a.io/role"
        assert (script.runs, [what for what, *_ in known.asked]) == ([], ["account"])
        assert caplog.text == ""

    @pytest.mark.parametrize(
        ("error", "words"),
        [(RegistryError("no right to it"), "no right to it"), (RuntimeError("s3ntinel"), "RuntimeError")],
    )
    def test_token_request_fails(
        self, error: Exception, words: str, runtime: tuple[Look, Any], script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:  # fmt: skip
        """4.15: also if there is something that is kept, since the token comes first."""
        look, of = runtime
        known = Known("token")
        providers = sa_providers(script, of(known))
        assert len(look(providers, POD).credentials) == 1
        known.error = error
        found = look(providers, POD)
        (failure,) = found.failures
        assert found.credentials == ()
        assert (failure.reason, failure.provider) == ("service-account", "provider")
        assert failure.__cause__ is error
        assert words in str(failure)
        assert "s3ntinel" not in str(failure) + caplog.text
        assert "The lookup goes on without it" in caplog.text

    def test_password_equals_token(
        self, runtime: tuple[Look, Any], script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:
        """4.17: whatever is to be kept. 3.16: before the key type is looked at."""
        look, of = runtime
        auth = {
            "a.io": {"username": "u", "password": "p"},
            "b.io": {"username": "s3ntinel", "password": "s3ntinel"},
        }
        script.answer(stdout=says(auth, cacheKeyType="none", cacheDuration="0s"))
        watching = Watching()
        providers = providers_of(
            script, service_account=of(Known("s3ntinel")), observer=watching, tokenAttributes=TOKENS
        )
        (failure,) = look(providers, POD).failures
        assert (failure.reason, failure.exit_code) == ("token", 0)
        assert "s3ntinel" not in str(failure) + caplog.text
        assert watching.ran == [("provider", False)]

    def test_the_user_name_may_be_the_token(self, script: ProviderScript) -> None:
        script.answer({"test.registry.io": ("token", "p")})
        assert len(look(sa_providers(script, Known("token")), POD).credentials) == 1

    def test_who_keeps_by_token_may_give_it_back(self, script: ProviderScript) -> None:
        script.answer({"test.registry.io": ("u", "token")})
        providers = sa_providers(script, Known("token"), cacheType="Token")
        assert len(look(providers, POD).credentials) == 1

    def test_success(self, runtime: tuple[Look, Any], script: ProviderScript) -> None:
        """4.16, 4.21: fresh and kept alike are told for whom they are."""
        look, of = runtime
        known = Known("token", required="", optional="o", unlisted="x")
        providers = sa_providers(
            script,
            of(known),
            requiredServiceAccountAnnotationKeys=["required"],
            optionalServiceAccountAnnotationKeys=["optional", "absent"],
        )
        for from_cache in (False, True):
            found = look(providers, POD)
            (answer,) = found.answers
            assert (len(found.credentials), answer.from_cache) == (1, from_cache)
            assert answer.service_account == ServiceAccount("ns", "robot", "uid-1")
        (run,) = script.runs
        assert run.request["serviceAccountToken"] == "token"
        assert run.request["serviceAccountAnnotations"] == {"required": "", "optional": "o"}
        assert known.asked[:2] == [("account", POD), ("token", POD, known.account, "audience")]


class TestKeys:
    """PT CacheKeyGeneration: nine cases; and whose answers are whose (4.18)."""

    @pytest.mark.parametrize("mode", ["no-sa", "ServiceAccount", "Token"])
    @pytest.mark.parametrize("kind", ["Image", "Registry", "Global"])
    def test_exactly_one_and_it_is_enough(self, kind: str, mode: str, script: ProviderScript) -> None:
        script.answer(HOST, cache_key_type=kind)
        known = Known("token")
        providers = providers_of(script) if mode == "no-sa" else sa_providers(script, known, cacheType=mode)
        pod = None if mode == "no-sa" else POD
        assert len(look(providers, pod).credentials) == 1
        script.path.unlink()
        assert len(look(providers, pod).credentials) == 1
        ((base, account),) = providers._providers[0]._cache
        assert base == {"Image": IMAGE, "Registry": "test.registry.io", "Global": "<global>"}[kind]
        assert len(account) == {"no-sa": 0, "ServiceAccount": 4, "Token": 6}[mode]

    def test_another_token_of_the_same_account_by_cache_type(self, tmp_path: Path) -> None:
        for cache_type, runs in (("ServiceAccount", 1), ("Token", 2)):
            script = ProviderScript(tmp_path, cache_type)
            script.answer(HOST)
            providers = sa_providers(script, Known("one", "two"), cacheType=cache_type)
            look(providers, POD)
            # Another pod makes no difference, its token may.
            look(providers, Pod("ns", "other", "other-uid", "robot"))
            assert len(script.runs) == runs

    def test_accounts_do_not_share(self, script: ProviderScript) -> None:
        known = Known("token")
        providers = sa_providers(script, known, requireServiceAccount=False, optionalServiceAccountAnnotationKeys=["role"])  # fmt: skip
        for account in (
            ServiceAccount("ns", "robot", "uid-1"),
            ServiceAccount("ns", "robot", "uid-2"),
            ServiceAccount("ns", "robot", "uid-2", {"role": "r"}),
        ):
            known.account = account
            assert not look(providers, POD).answers[0].from_cache
        assert not look(providers, None).answers[0].from_cache
        assert len(script.runs) == 4


class TestSources:
    def test_without_one_the_failure_says_what_to_do(self, script: ProviderScript) -> None:
        for look_ in (look, alook):
            (failure,) = look_(sa_providers(script, None), POD).failures
            assert failure.reason == "service-account"
            assert "service_account=ClusterServiceAccounts(client)" in str(failure)

    def test_one_for_event_loops_alone_cannot_be_used_without(self, script: ProviderScript) -> None:
        (failure,) = look(sa_providers(script, KnownAsync(Known("token"))), POD).failures
        assert "for event loops alone" in str(failure)

    @pytest.mark.parametrize(
        ("token", "uid", "annotation"),
        [(None, "uid-1", "said"), (b"s3ntinel", "uid-1", "said"), (5, "uid-1", "said"),
         ("s3ntinel", ["uid-1"], "said"), ("s3ntinel", "uid-1", 5), ("s3ntinel", "uid-1", ["said"])],
    )  # fmt: skip
    def test_what_is_no_text_fails_this_provider_alone_3_17(
        self, token: Any, uid: Any, annotation: Any, runtime: tuple[Look, Any], script: ProviderScript, caplog: pytest.LogCaptureFixture
    ) -> None:  # fmt: skip
        look, of = runtime
        known = Known(token, uid=uid, said=annotation)
        found = look(sa_providers(script, of(known), optionalServiceAccountAnnotationKeys=["said"]), POD)
        (failure,) = found.failures
        assert "must be str" in str(failure)
        assert_no_leak(failure, caplog)
        assert script.runs == []

    def test_something_else_is_an_error_at_once(self, script: ProviderScript) -> None:
        with pytest.raises(ConfigError, match="needs the methods"):
            sa_providers(script, object())


SA_PATH = "/api/v1/namespaces/ns/serviceaccounts/robot"


class Cluster:
    """An API server that has the account and counts the tokens it issues."""

    def __init__(self, server: APIServer, clock: FakeClock) -> None:
        self.server = server
        self.clock = clock
        self.life = 3600.0
        self.issued = 0
        self.requests: list[Any] = []
        metadata = {"namespace": "ns", "name": "robot", "uid": "u", "annotations": {"role": "r", "odd": 7}}
        server.on("GET", SA_PATH, Answer(body={"kind": "ServiceAccount", "metadata": metadata}))
        server.on("POST", f"{SA_PATH}/token", self.issue)

    def issue(self, request: Received) -> Answer:
        self.issued += 1
        self.requests.append(json.loads(request.body))
        end = datetime.fromtimestamp(self.clock.time() + self.life, UTC)
        status = {"token": f"token-{self.issued}", "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return Answer(201, {"kind": "TokenRequest", "status": status})


@pytest.fixture
def cluster(server: APIServer, clock: FakeClock) -> Cluster:
    return Cluster(server, clock)


class TestCluster:
    """ClusterServiceAccounts: 4.14 b and c."""

    def test_what_the_api_server_is_asked(
        self, cluster: Cluster, script: ProviderScript, clock: FakeClock
    ) -> None:
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client, clock=clock)
            providers = sa_providers(script, source, optionalServiceAccountAnnotationKeys=["role", "odd"])
            assert len(look(providers, POD).credentials) == 1
            assert len(alook(providers, POD).credentials) == 1
        assert cluster.requests == [
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "metadata": {"namespace": "ns", "name": "robot", "uid": "u"},
                "spec": {
                    "audiences": ["audience"],
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod-uid"},
                },
            }
        ]
        assert script.runs[0].request["serviceAccountToken"] == "token-1"
        assert script.runs[0].request["serviceAccountAnnotations"] == {"role": "r"}

    def test_in_an_event_loop_with_a_client_of_its_own(
        self, cluster: Cluster, script: ProviderScript, clock: FakeClock
    ) -> None:
        async def main() -> None:
            async with kubeauth.AsyncClient(cluster.server.config(token="alices-token")) as client:
                source = ClusterServiceAccounts(async_client=client, clock=clock)
                providers = sa_providers(script, source)
                for _ in range(2):
                    assert len((await providers.alookup(IMAGE, pod=POD)).credentials) == 1
                (failure,) = (await asyncio.to_thread(look, providers, POD)).failures
                assert "Give it a client too" in str(failure)

        asyncio.run(main())
        assert cluster.issued == 1

    @pytest.mark.parametrize(
        ("life", "kept"), [(3600.0, 2880.0), (100 * 24 * 3600.0, 24 * 3600.0)], ids=["80 %", "a day"]
    )
    def test_a_token_is_used_until_it_is_due(
        self, life: float, kept: float, cluster: Cluster, clock: FakeClock
    ) -> None:
        cluster.life = life
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client, clock=clock)
            account = source.service_account(POD)
            tokens = [source.token(POD, account, "audience")]
            for seconds in (kept - 2, 4):
                clock.advance(seconds)
                tokens.append(source.token(POD, account, "audience"))
        assert tokens == ["token-1", "token-1", "token-2"]

    def test_tokens_are_for_one_pod_one_account_and_one_audience(
        self, cluster: Cluster, clock: FakeClock
    ) -> None:
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client, clock=clock)
            account = source.service_account(POD)
            other = ServiceAccount("ns", "robot", "another uid")
            pod = Pod("ns", "pod-2", "uid-2", "robot")
            asked = [(POD, account, "a"), (POD, account, "b"), (POD, other, "a"), (pod, account, "a")]
            assert len({source.token(*each) for each in asked}) == 4
            assert len({source.token(*each) for each in asked}) == 4
        assert cluster.issued == 4

    def test_of_those_that_came_at_once_all_take_the_first(self, cluster: Cluster, clock: FakeClock) -> None:
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client, clock=clock)
            account = source.service_account(POD)
            inner = source.token

            def meanwhile(request: Received) -> Answer:
                cluster.server.on("POST", f"{SA_PATH}/token", cluster.issue)
                assert inner(POD, account, "audience") == "token-1"
                return cluster.issue(request)

            cluster.server.on("POST", f"{SA_PATH}/token", meanwhile)
            assert source.token(POD, account, "audience") == "token-1"
        assert cluster.issued == 2

    def test_a_token_without_an_end_is_not_kept(self, cluster: Cluster, clock: FakeClock) -> None:
        for status in ({}, {"expirationTimestamp": "soon"}, {"expirationTimestamp": 7}):
            answer = Answer(200, {"status": {"token": "t", **status}})
            cluster.server.on("POST", f"{SA_PATH}/token", answer)
            with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
                source = ClusterServiceAccounts(client, clock=clock)
                assert source.token(POD, source.service_account(POD), "a") == "t"
                assert len(source._tokens) == 0

    def test_there_is_an_end_to_what_is_kept(self, cluster: Cluster, clock: FakeClock) -> None:
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client, clock=clock)
            account = source.service_account(POD)
            source.token(POD, account, "first")
            kept = source._tokens[POD, "u", "first"]
            source._tokens |= {(POD, "u", str(number)): kept for number in range(1023)}
            source.token(POD, account, "last")
            assert len(source._tokens) == 1024
            assert (POD, "u", "first") not in source._tokens

    @pytest.mark.parametrize(
        ("method", "path", "answer", "words"),
        [
            ("GET", SA_PATH, Answer(404, {"message": 'serviceaccounts "robot" not found'}), 'cannot be read: the server returned 404: serviceaccounts "robot" not found'),
            ("GET", SA_PATH, Answer(200, {"metadata": {"uid": 7}}), "response is not a service account"),
            ("GET", SA_PATH, Answer(200, b"x" * (2**20 + 1)), "response is not a service account"),
            ("POST", f"{SA_PATH}/token", Answer(403, {"message": "audience not allowed."}), "returned 403: audience not allowed. It may be that"),
            ("POST", f"{SA_PATH}/token", Answer(403, {}), "request-serviceaccounts-token-audience"),
            ("POST", f"{SA_PATH}/token", Answer(500, b"s3ntinel <html>"), "the server returned 500"),
            ("POST", f"{SA_PATH}/token", Answer(201, {"status": {"token": ""}, "x": "s3ntinel"}), "the response contains no token"),
        ],
    )  # fmt: skip
    def test_a_refusal_is_why_the_provider_failed_10_6(
        self, method: str, path: str, answer: Answer, words: str, cluster: Cluster, script: ProviderScript
    ) -> None:
        cluster.server.on(method, path, answer)
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            (failure,) = look(sa_providers(script, ClusterServiceAccounts(client)), POD).failures
        assert failure.reason == "service-account"
        assert words in str(failure)
        assert "s3ntinel" not in str(failure)
        assert script.runs == []

    @pytest.mark.parametrize(
        ("namespace", "name"),
        [("ns", ".."), ("ns", "."), ("..", "robot"), ("", "robot"), ("ns", "../../pods/x?y"), ("ns", "%2e%2e"),
         ("ns/secrets", "robot"), ("ns", "robot\n"), ("ns", "Robot"), ("ns", "\ud800")],
    )  # fmt: skip
    def test_names_cannot_lead_elsewhere(self, namespace: str, name: str, cluster: Cluster) -> None:
        """As a stranger may have them: an admission webhook sees pods that nobody has looked at yet."""
        pod, account = Pod(namespace, "p", "u", name), ServiceAccount(namespace, name, "uid-1")
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client)
            with pytest.raises(RegistryError, match="no service account can be called"):
                source.service_account(pod)
            with pytest.raises(RegistryError, match="no service account can be called"):
                source.token(pod, account, "audience")
        assert cluster.server.requests == []

    def test_it_needs_a_client(self) -> None:
        with pytest.raises(ConfigError, match="needs a client"):
            ClusterServiceAccounts()

    def test_a_child_has_a_lock_of_its_own(self, cluster: Cluster) -> None:
        with kubeauth.Client(cluster.server.config(token="alices-token")) as client:
            source = ClusterServiceAccounts(client)
            with source._mu:
                source.after_fork()
                assert source.token(POD, source.service_account(POD), "a") == "token-1"
