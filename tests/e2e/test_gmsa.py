"""The GMSA webhook, asked by a real API server: what `kubeauth gmsa manifests` prints, applied by kubectl.

Numbers as `it-51` are lines of upstream's integration tests. There a ReplicaSet makes the pods, and what became of
them is an event; here they are made by a client, which is told.
"""

from __future__ import annotations

import base64
import copy
import json
from collections import Counter
from collections.abc import Iterator
from time import perf_counter

import anyio
import httpx
import pytest

from kubeauth import AsyncClient, load_config
from kubeauth.gmsa import effective_credential_specs
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.e2e.cluster import ControlPlane
from tests.e2e.gmsa_webhook import CRD, SPECS, SPECS_ALPHA, Manifests, Tenant, Webhook, until
from tests.gmsa.pods import Document, container, context, options_at
from tests.gmsa.test_lint import GOOD
from tests.gmsa.test_pair import der
from tests.gmsa.test_review import review
from tests.registry.servers import Server

JSON = {"content-type": "application/json"}
LEVELS = ("pod", "container", "init container")
# As Go writes it: in order, without blanks.
CONTENTS = json.dumps(GOOD, sort_keys=True, separators=(",", ":"))
OTHERWISE = json.dumps(dict(reversed(GOOD.items())), indent=2)
OTHER = {"CmsPlugins": ["ActiveDirectory"]}
OTHER_CONTENTS = '{"CmsPlugins":["ActiveDirectory"]}'
HOST = {"PluginGUID": "{x}", "PluginInput": "example.test:ccg:<password>", "PortableCcgVersion": "1"}
UNJOINED = {"ActiveDirectoryConfig": {"HostAccountConfig": HOST}}
UNJOINED_CONTENTS = (
    '{"ActiveDirectoryConfig":{"HostAccountConfig":{"PluginGUID":"{x}",'
    r'"PluginInput":"example.test:ccg:\u003cpassword\u003e","PortableCcgVersion":"1"}}}'
)

RATE, COUNT = 200, 6000
# So many may wait at once. A machine that is too slow for the rate is asked more slowly, and not refused.
MOST = 20


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with Webhook(cluster, tmp_path_factory.mktemp("gmsa")) as webhook:
        specs = {"web": GOOD, "other": OTHER, "unjoined": UNJOINED, "empty": None}
        for name, credspec in specs.items():
            webhook.add_spec(name, credspec)
        yield webhook


@pytest.fixture(scope="module")
def shop(webhook: Webhook) -> Iterator[Tenant]:
    tenant = Tenant(webhook)
    # What the API server has been told, it may hear of a moment later.
    until(lambda: not_yet(tenant), "a pod for Windows that is admitted")
    yield tenant
    tenant.close()


def restarted(webhook: Webhook, shop: Tenant, **environ: str) -> None:
    webhook.kill()
    webhook.start(**environ)
    # The API server may not have noticed yet that a connection which it kept is no more.
    until(lambda: not_yet(shop), "a pod for Windows that is admitted")


def not_yet(shop: Tenant) -> str:
    reply = shop.create(shop.pod("pod", "web"), dryRun="All")
    return "" if reply.status_code == 201 else reply.text


def refused(reply: httpx.Response, code: int, *words: str) -> None:
    """By the webhook, as whoever asked the API server is told it."""
    status = reply.json()
    assert (reply.status_code, status["code"], status["status"]) == (code, code, "Failure"), reply.text
    assert " denied the request: " in status["message"]
    for each in words:
        assert each in status["message"]


class TestNewPods:
    @pytest.mark.parametrize("level", LEVELS, ids=["it-51-pod", "it-64-container", "init"])
    def test_what_is_named_is_filled_in_b6_b7_b27_b28_b60(self, shop: Tenant, level: str) -> None:
        """By a RoleBinding of the namespace, to a role that is of none."""
        made = shop.created(shop.pod(level, "web"))
        assert options_at(made, level) == {"gmsaCredentialSpecName": "web", "gmsaCredentialSpec": CONTENTS}
        assert made == shop.get(made["metadata"]["name"])

    def test_each_gets_its_own_it_77(self, shop: Tenant) -> None:
        containers = [container("a", "other"), container("b", "unjoined"), container("c")]
        made = shop.created(shop.pod("pod", "web", containers=containers))
        assert effective_credential_specs(made) == {
            "a": OTHER_CONTENTS,
            "b": UNJOINED_CONTENTS,
            "c": CONTENTS,
        }

    @pytest.mark.parametrize("level", LEVELS)
    def test_what_is_there_already_stays_as_it_is_it_92_b29_b41(self, shop: Tenant, level: str) -> None:
        made = shop.created(shop.pod(level, "web", OTHERWISE))
        assert options_at(made, level)["gmsaCredentialSpec"] == OTHERWISE

    @pytest.mark.parametrize("level", LEVELS)
    def test_without_a_binding_it_is_refused_it_115_b36(self, shop: Tenant, level: str) -> None:
        reply = shop.create(shop.pod(level, "web", account="stranger"))
        account = f'service account "stranger" of namespace "{shop.namespace}"'
        refused(reply, 403, f"{account} is not allowed to `use`", 'GMSACredentialSpec "web"', level)

    def test_whoever_has_no_service_account_has_the_default_one_b46(self, shop: Tenant) -> None:
        pod = shop.pod("pod", "web")
        del pod["spec"]["serviceAccountName"]
        until(lambda: not_default(shop, pod), "the default service account")
        refused(shop.create(pod), 403, 'service account "default"')

    @pytest.mark.parametrize("level", LEVELS)
    def test_what_does_not_exist_it_135_b54(self, shop: Tenant, level: str) -> None:
        refused(shop.create(shop.pod(level, "nope")), 404, 'GMSACredentialSpec "nope" does not exist')

    def test_a_credential_spec_with_nothing_in_it_b56(self, shop: Tenant) -> None:
        refused(shop.create(shop.pod("pod", "empty")), 417, 'GMSACredentialSpec "empty" has no credspec')

    @pytest.mark.parametrize("level", LEVELS, ids=["it-153-pod", "it-172-container", "init"])
    def test_contents_without_a_name_b15_b39(self, shop: Tenant, level: str) -> None:
        """Nobody but the webhook would refuse that: so it is asked, at every level."""
        refused(shop.create(shop.pod(level, None, CONTENTS)), 422, f"{level} ", "without its name")

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("contents", [OTHER_CONTENTS, "no JSON"])
    def test_contents_of_another_it_191_b38(self, shop: Tenant, level: str, contents: str) -> None:
        reply = shop.create(shop.pod(level, "web", contents))
        refused(reply, 422, f"{level} ", "do not match", 'GMSACredentialSpec "web"')
        assert "ActiveDirectory" not in reply.text

    def test_what_go_escapes_is_escaped_it_271_b32(self, shop: Tenant) -> None:
        made = shop.created(shop.pod("pod", "unjoined"))
        assert options_at(made, "pod")["gmsaCredentialSpec"] == UNJOINED_CONTENTS

    def test_what_the_api_server_refuses_itself_b13_b30_b47(self, shop: Tenant) -> None:
        """Empty contents are filled in first. The rest is refused, by whom does not matter."""
        made = shop.created(shop.pod("pod", "web", ""))
        assert options_at(made, "pod")["gmsaCredentialSpec"] == CONTENTS
        for options in (["", None], ["No_Name", None], ["", CONTENTS], ["web", " " * 65537], [None, ""]):
            assert shop.create(shop.pod("pod", *options)).status_code == 422
        assert shop.create(shop.pod("pod", "web", os={"name": "linux"})).status_code == 422

    def test_options_for_windows_without_a_credential_spec_b40(self, shop: Tenant) -> None:
        pod = shop.pod("container", securityContext={"windowsOptions": {"runAsUserName": "robot"}})
        made = shop.created(pod)
        assert made["spec"]["securityContext"] == {"windowsOptions": {"runAsUserName": "robot"}}

    def test_kubectl_says_why(self, shop: Tenant, cluster: ControlPlane) -> None:
        pod = shop.pod("pod", "web", account="stranger")
        ran = cluster.kubectl("create", "-n", shop.namespace, "-f", "-", stdin=json.dumps(pod))
        assert ran.returncode == 1
        # No reason stands before it: the webhook that is shipped gives none, and neither do we (B22).
        assert ran.stderr.startswith('Error from server: error when creating "STDIN": admission webhook ')
        assert 'service account "stranger"' in ran.stderr


def not_default(shop: Tenant, pod: Document) -> str:
    reply = shop.create(pod, dryRun="All")
    return reply.text if "was not found" in reply.text else ""  # it is made by a controller


class TestWhoIsAskedAbout:
    def test_nobody_is_asked_about_a_pod_that_is_not_for_windows_b34_b82(
        self, shop: Tenant, webhook: Webhook
    ) -> None:
        def asked() -> list[int]:
            return [
                webhook.asked("/mutate"),
                webhook.asked("/validate"),
                webhook.asked("/validate", "UPDATE"),
            ]

        before = asked()
        name = shop.created(shop.pod(securityContext={"runAsUser": 1}))["metadata"]["name"]
        pod = shop.get(name)
        pod["spec"]["containers"][0]["image"] = "another"
        assert shop.put(pod).status_code == 200
        # A mistake in the condition would be told in place of the API server's own words.
        assert "spec.containers: Required value" in shop.create(shop.pod(containers=[])).text
        assert "spec.containers: Required value" in shop.create(shop.pod(containers=None)).text
        assert asked() == before

    @pytest.mark.parametrize("level", LEVELS)
    def test_empty_options_are_enough_to_be_asked_about_b15_b34(
        self, shop: Tenant, webhook: Webhook, level: str
    ) -> None:
        before = [webhook.asked(path) for path in ("/mutate", "/validate")]
        shop.created(shop.pod(level, None))
        assert [webhook.asked(path) for path in ("/mutate", "/validate")] == [n + 1 for n in before]

    @pytest.mark.parametrize(
        "spec",
        [{"os": {"name": "windows"}}, {"nodeSelector": {"kubernetes.io/os": "windows"}}],
        ids=["os", "node"],
    )
    def test_what_another_webhook_names_later_is_filled_in_b9(
        self, shop: Tenant, cluster: ControlPlane, authority: Authority, spec: Document
    ) -> None:
        with Naming(cluster, authority, shop.namespace):
            pod = shop.pod(**spec)
            pod["metadata"]["labels"] = {"wants": "web"}
            until(
                lambda: "" if "windowsOptions" in tried(shop, pod) else "it has not changed", "the other one"
            )
            made = shop.created(pod)
        assert options_at(made, "pod") == {"gmsaCredentialSpecName": "web", "gmsaCredentialSpec": CONTENTS}

    def test_the_namespace_of_the_webhook_is_left_alone_b10_b82(self, shop: Tenant, webhook: Webhook) -> None:
        """Else it could not be started anew. Nobody can make another one so by a label."""
        pod = shop.pod("pod", None, CONTENTS, account="gmsa-webhook")
        reply = webhook.admin.post(
            f"/api/v1/namespaces/{webhook.namespace}/pods", json=pod, params={"dryRun": "All"}
        )
        assert reply.status_code == 201, reply.text
        label = f"kubernetes.io/metadata.name={webhook.namespace}"
        webhook.cluster.kubectl("label", "--overwrite", "namespace", shop.namespace, label)
        refused(shop.create(shop.pod("pod", None, CONTENTS)), 422, "without its name")


def tried(shop: Tenant, pod: Document) -> str:
    return shop.create(pod, dryRun="All").text


class Naming:
    """A webhook that comes after ours, and names a credential spec in pods with the label `wants`."""

    def __init__(self, cluster: ControlPlane, authority: Authority, namespace: str) -> None:
        self._cluster = cluster
        self._server = Server(self._answer, authority)
        self._name = "zz-names-credential-specs"
        client = {"url": self._server.url, "caBundle": base64.b64encode(authority.pem).decode()}
        pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        names = {"kubernetes.io/metadata.name": namespace}
        self._document = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [
                {
                    "name": "names.credential.specs",
                    "clientConfig": client,
                    "rules": [pods],
                    "namespaceSelector": {"matchLabels": names},
                    "objectSelector": {"matchExpressions": [{"key": "wants", "operator": "Exists"}]},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "timeoutSeconds": 30,
                }
            ],
        }

    def _answer(self, request: RawRequest) -> Answer:
        asked = json.loads(request.body)["request"]
        name = asked["object"]["metadata"]["labels"]["wants"]
        patch = [{"op": "add", "path": "/spec/securityContext", "value": context(name)}]
        response: Document = {"uid": asked["uid"], "allowed": True}
        if "windowsOptions" not in asked["object"]["spec"].get("securityContext", {}):
            response |= {
                "patchType": "JSONPatch",
                "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
            }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return Answer(200, body)

    def __enter__(self) -> None:
        self._cluster.apply(self._document)

    def __exit__(self, *_: object) -> None:
        self._cluster.kubectl("delete", "mutatingwebhookconfiguration", self._name)
        self._server.__exit__()


class TestUpdates:
    def test_another_image_is_allowed_it_284_b52(self, shop: Tenant, webhook: Webhook) -> None:
        pod = shop.created(shop.pod("pod", "web"))
        before = webhook.asked("/validate", "UPDATE")
        pod["spec"]["containers"][0]["image"] = "another"
        assert shop.put(pod).status_code == 200
        assert webhook.asked("/validate", "UPDATE") == before + 1

    @pytest.mark.parametrize("level", LEVELS, ids=["it-211-pod", "it-241-container", "init"])
    def test_another_credential_spec_is_not_b49_b50(self, shop: Tenant, level: str) -> None:
        """The API server has a word to say about it first: then the webhook is not asked any more."""
        pod = shop.created(shop.pod(level, "web"))
        for change in ({"gmsaCredentialSpec": OTHER_CONTENTS}, {"gmsaCredentialSpecName": "other"}):
            changed = copy.deepcopy(pod)
            options_at(changed, level).update(change)
            assert shop.put(changed).status_code in (403, 422)
        removed = copy.deepcopy(pod)
        options_at(removed, level).clear()
        assert shop.put(removed).status_code in (403, 422)
        assert options_at(shop.get(pod["metadata"]["name"]), level) == options_at(pod, level)

    @pytest.mark.parametrize(
        "options", [["web"], ["web", CONTENTS], [None, CONTENTS]], ids=["name", "both", "contents"]
    )
    @pytest.mark.parametrize("level", ["", "pod"], ids=["not for windows", "for windows"])
    def test_an_ephemeral_container_gets_none_b15_b49(
        self, shop: Tenant, level: str, options: list[str | None]
    ) -> None:
        """Here the webhook is the only one who looks."""
        pod = shop.created(shop.pod(level, *(["web"] if level else [])))
        pod["spec"]["ephemeralContainers"] = [container("debug", *options)]
        reply = shop.put(pod, "/ephemeralcontainers")
        refused(reply, 403, 'ephemeral container "debug" cannot be changed, added or removed')

    @pytest.mark.parametrize("level", ["", "pod"], ids=["not for windows", "for windows"])
    def test_one_without_is_no_concern_of_ours_b15(self, shop: Tenant, level: str) -> None:
        pod = shop.created(shop.pod(level, *(["web"] if level else [])))
        pod["spec"]["ephemeralContainers"] = [container("debug")]
        assert shop.put(pod, "/ephemeralcontainers").status_code == 200

    def test_who_has_lost_a_right_can_still_be_updated_b51(self, shop: Tenant) -> None:
        pod = shop.created(shop.pod("pod", "web"))
        shop.unbind()
        try:
            pod["spec"]["containers"][0]["image"] = "another"
            assert shop.put(pod).status_code == 200
        finally:
            shop.bind()


def test_who_loses_a_right_loses_it_at_once_b57_b60(shop: Tenant) -> None:
    """From when the API server's own authorizer knows: not one pod more is admitted. And back, the same."""
    for _ in range(2):
        shop.created(shop.pod("pod", "web"))
        shop.unbind()
        for _ in range(5):
            refused(shop.create(shop.pod("pod", "web")), 403, 'service account "robot"')
        shop.bind()
        shop.created(shop.pod("pod", "web"))


class TestTheCustomResource:
    def test_what_was_there_before_survives_b4_b5(self, webhook: Webhook) -> None:
        """It was made when there was an older definition. Three times the manifests were applied since then."""
        was = webhook.from_before
        for path in (SPECS, SPECS_ALPHA):
            found = webhook.admin.get(f"{path}/from-before").raise_for_status().json()
            assert found["metadata"]["uid"] == was["metadata"]["uid"]
            assert found["credspec"] == was["credspec"]
        stored = webhook.cluster.kubectl("get", "crd", CRD, "-o", "jsonpath={.status.storedVersions}").stdout
        assert json.loads(stored) == ["v1alpha1", "v1"]

    @pytest.mark.parametrize(
        ("written", "read"), [(SPECS_ALPHA, SPECS), (SPECS, SPECS_ALPHA)], ids=["it-308", "it-339"]
    )
    def test_both_versions_are_the_same_b1_b4(self, webhook: Webhook, written: str, read: str) -> None:
        name = f"from-{written.split('/')[3]}"
        webhook.add_spec(name, GOOD, path=written)
        assert webhook.admin.get(f"{read}/{name}").raise_for_status().json()["credspec"] == GOOD

    def test_an_older_one_can_be_used_b4(self, shop: Tenant) -> None:
        made = shop.created(shop.pod("pod", "from-before"))
        assert options_at(made, "pod")["gmsaCredentialSpec"] == OTHER_CONTENTS

    def test_what_is_unknown_is_pruned_b3(self, webhook: Webhook) -> None:
        odd = {**GOOD, "Unknown": 1, "CmsPlugins": [], "DomainJoinConfig": {"Sid": "S", "sid": "s"}}
        made = webhook.add_spec("pruned", odd)
        assert made["credspec"] == {**GOOD, "CmsPlugins": [], "DomainJoinConfig": {"Sid": "S"}}
        reply = webhook.admin.post(
            SPECS, json={**made, "metadata": {"name": "typed"}, "credspec": {"CmsPlugins": [1]}}
        )
        assert reply.status_code == 422


class TestWhatIsInstalled:
    def test_the_webhook_may_do_no_more_than_it_must_b8(self, webhook: Webhook) -> None:
        account = f"system:serviceaccount:{webhook.namespace}:gmsa-webhook"

        def may(verb: str, what: str) -> bool:
            asked = ("auth", "can-i", verb, what, "--as", account, "-n", "default")
            return webhook.cluster.kubectl(*asked).stdout == "yes\n"

        assert may("get", CRD)
        assert may("create", "localsubjectaccessreviews.authorization.k8s.io")
        more = [("list", CRD), ("use", CRD), ("get", "secrets"), ("get", "pods"), ("create", "pods"),
                ("create", "subjectaccessreviews.authorization.k8s.io"), ("create", "tokenreviews.authentication.k8s.io")]  # fmt: skip
        assert [each for each in more if may(*each)] == []

    def test_who_may_view_sees_credential_specs_b8(self, webhook: Webhook) -> None:
        def rules() -> str:
            return webhook.cluster.kubectl("get", "clusterrole", "view", "-o", "jsonpath={.rules}").stdout

        until(lambda: "" if "gmsacredentialspecs" in rules() else "not in the role", "the role view")

    def test_its_pods_are_as_restricted_as_they_can_be(self, webhook: Webhook) -> None:
        label = "pod-security.kubernetes.io/enforce=restricted"
        ran = webhook.cluster.kubectl("label", "--overwrite", "namespace", webhook.namespace, label)
        assert ran.returncode == 0, ran.stderr
        template = webhook.installed[0].of("Deployment")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"generateName": "x-"}}
        path = f"/api/v1/namespaces/{webhook.namespace}/pods"

        def violation() -> str:
            worse = copy.deepcopy(pod)
            worse["spec"]["hostNetwork"] = True
            return (
                ""
                if webhook.admin.post(path, json=worse, params={"dryRun": "All"}).status_code == 403
                else "not yet"
            )

        until(violation, "the label to count")
        reply = webhook.admin.post(path, json=pod, params={"dryRun": "All"})
        webhook.cluster.kubectl("label", "namespace", webhook.namespace, f"{label.partition('=')[0]}-")
        assert reply.status_code == 201, reply.text

    @pytest.mark.parametrize(
        "flags", [("--compat", "--random-hostname", "--exempt", "a"), ("--replicas", "1")]
    )
    def test_kubectl_takes_whatever_is_chosen(self, webhook: Webhook, flags: tuple[str, ...]) -> None:
        text = Manifests(*flags, "-n", webhook.namespace).text
        ran = webhook.cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
        assert (ran.returncode, ran.stderr) == (0, "")


class TestTheProcess:
    """It is killed, and started anew."""

    def test_a_random_hostname_for_those_who_need_one_it_466_b33(
        self, shop: Tenant, webhook: Webhook
    ) -> None:
        assert "hostname" not in shop.created(shop.pod("pod", "web"))["spec"]
        restarted(webhook, shop, RANDOM_HOSTNAME="true")
        try:
            hostname = shop.created(shop.pod("container", "web"))["spec"]["hostname"]
            assert (len(hostname), hostname[-1]) == (15, "4")
            assert shop.created(shop.pod("pod", "web", hostname="mine"))["spec"]["hostname"] == "mine"
            assert "hostname" not in shop.created(shop.pod())["spec"]
            assert "hostname" not in shop.created(shop.pod("pod", None))["spec"]
        finally:
            restarted(webhook, shop)

    def test_while_it_is_down_no_pod_is_refused_that_is_not_for_windows_b82(
        self, shop: Tenant, webhook: Webhook
    ) -> None:
        running = shop.created(shop.pod("pod", "web"))
        ordinary = shop.created(shop.pod())
        webhook.kill()
        try:
            for pod in (
                shop.pod("pod", "web"),
                shop.pod("init container", None),
                shop.pod(os={"name": "windows"}),
            ):
                reply = shop.create(pod)
                assert (reply.status_code, reply.json()["reason"]) == (500, "InternalError")
                assert 'failed calling webhook "mutate.gmsa.kubeauth"' in reply.json()["message"]
            running["spec"]["containers"][0]["image"] = "another"
            reply = shop.put(running)
            assert reply.status_code == 500
            assert 'failed calling webhook "validate.gmsa.kubeauth"' in reply.json()["message"]
            shop.created(shop.pod())
            ordinary["spec"]["containers"][0]["image"] = "another"
            assert shop.put(ordinary).status_code == 200
        finally:
            restarted(webhook, shop)
        shop.created(shop.pod("pod", "web"))

    @pytest.mark.timeout(600)  # however busy this machine is
    def test_a_certificate_is_swapped_twice_under_load_it_370_b78_b79(
        self, shop: Tenant, webhook: Webhook
    ) -> None:
        """As whoever replaces it does: another pair, by another CA, with those before still trusted."""
        counted: Counter[tuple[str, int]] = Counter()
        *pairs, now = (each.pair for each in webhook.installed)
        assert webhook.shown() == der(now)

        async def pods(client: AsyncClient, enough: anyio.Event) -> None:
            path = f"/api/v1/namespaces/{shop.namespace}/pods?dryRun=All"
            while not enough.is_set():
                reply = await client.post(path, json=shop.pod("pod", "web"), timeout=60)
                assert reply.status_code == 201, reply.text
                counted["pods", reply.status_code] += 1

        async def reviews(client: httpx.AsyncClient, enough: anyio.Event) -> None:
            body = review(object=shop.pod("pod", "web", CONTENTS), namespace=shop.namespace)
            while not enough.is_set():
                reply = await client.post("/validate", content=body, headers=JSON)
                if reply.status_code == 408:
                    continue  # a busy machine has not sent it in two seconds
                assert reply.json()["response"]["allowed"], reply.text
                counted["reviews", reply.status_code] += 1

        async def more() -> None:
            before = counted.copy()
            with anyio.fail_after(120):
                for kind in ("pods", "reviews"):
                    while sum(n for key, n in (counted - before).items() if key[0] == kind) < 20:  # noqa: ASYNC110 -- others do it
                        await anyio.sleep(0.02)

        async def work() -> None:
            enough = anyio.Event()
            limits = httpx.Limits(max_keepalive_connections=0)
            never_kept = httpx.AsyncHTTPTransport(verify=webhook.trust, limits=limits)
            async with (
                AsyncClient(load_config(webhook.cluster.admin())) as api,
                webhook.straight(never_kept) as fresh,
                webhook.straight() as kept,
                anyio.create_task_group() as tasks,
            ):
                for _ in range(2):
                    tasks.start_soon(pods, api, enough)
                    tasks.start_soon(reviews, fresh, enough)
                tasks.start_soon(reviews, kept, enough)
                for pair in pairs:
                    await more()
                    webhook.mounted.swap(pair)
                    with anyio.fail_after(120):
                        while (shown := await anyio.to_thread.run_sync(webhook.shown)) != der(pair):
                            assert shown is not None  # a handshake in the middle of a swap succeeds as well
                            await anyio.sleep(0.05)
                    await more()
                enough.set()

        anyio.run(work)
        assert webhook.shown() == der(pairs[-1])
        assert set(counted) == {("pods", 201), ("reviews", 200)}

    @pytest.mark.timeout(600)
    def test_six_thousand_reviews_and_none_goes_wrong(
        self, shop: Tenant, webhook: Webhook, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """200 a second for 30 seconds, when they are due, on connections that are kept. How long it takes is printed."""
        paths = ("/mutate", "/validate")
        before = [webhook.asked(path) for path in paths]
        account = f"system:serviceaccount:{webhook.namespace}:gmsa-webhook"
        questions = [
            f"{SPECS}/web",
            f"/apis/authorization.k8s.io/v1/namespaces/{shop.namespace}/localsubjectaccessreviews",
        ]

        def asked() -> list[int]:
            return [len(webhook.cluster.audit(user=account, path=path)) for path in questions]

        asked_before = asked()
        loaded = anyio.run(load, webhook, shop)
        with capsys.disabled():
            print(f"\n{loaded.told()}")
        assert loaded.answers == {(200, True): COUNT}
        assert [webhook.asked(path) for path in paths] == [n + COUNT // 2 for n in before]
        # Each was asked about anew: two credential specs and one review for every two. (Told after it is answered.)
        wanted = [n + more for n, more in zip(asked_before, (COUNT, COUNT // 2), strict=True)]
        until(lambda: "" if asked() == wanted else f"{asked()}, not {wanted}", "the audit log")


class Loaded:
    """What came of a load."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[int, bool]] = Counter()
        self.seconds: list[float] = []
        self.took = 0.0
        self.held_back = 0

    def told(self) -> str:
        at = sorted(1000 * each for each in self.seconds)
        p50, p99, most = at[len(at) // 2], at[len(at) * 99 // 100], at[-1]
        return (
            f"{len(at)} reviews in {self.took:.1f} s ({len(at) / self.took:.0f}/s): p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
            f"max {most:.0f} ms from when they were due; {self.held_back} held back"
        )


async def load(webhook: Webhook, shop: Tenant) -> Loaded:
    loaded = Loaded()
    room = anyio.Semaphore(MOST)
    bodies = [
        ("/mutate", review(object=shop.pod("pod", "web"), namespace=shop.namespace)),
        ("/validate", review(object=shop.pod("pod", "web", CONTENTS), namespace=shop.namespace)),
    ]

    async def one(client: httpx.AsyncClient, path: str, body: bytes, due: float) -> None:
        try:
            reply = await client.post(path, content=body, headers=JSON)
            loaded.answers[reply.status_code, reply.json()["response"]["allowed"]] += 1
            loaded.seconds.append(perf_counter() - due)
        finally:
            room.release()

    async with webhook.straight() as client:
        begun = perf_counter()
        async with anyio.create_task_group() as tasks:
            for number in range(COUNT):
                due = begun + number / RATE
                await anyio.sleep(max(0.0, due - perf_counter()))
                loaded.held_back += room.value == 0
                await room.acquire()
                tasks.start_soon(one, client, *bodies[number % 2], due)
        loaded.took = perf_counter() - begun
    return loaded
