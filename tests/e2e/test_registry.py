"""A real registry, images pushed with skopeo, and credentials from real providers."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import ssl
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubeauth import AsyncClient, Client, load_config
from kubeauth.errors import ChallengeError
from kubeauth.registry import ClusterServiceAccounts, CredentialProviders, Keyring, Pod, RegistryCredential
from kubeauth.testing import Authority, FakeClock, ProviderScript
from tests.e2e import tools
from tests.e2e.cluster import ControlPlane
from tests.e2e.registries import MANIFEST, Image, RealRegistry, TokenServer
from tests.registry.servers import auth_of
from tests.registry.servers import client as client_of
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.residue import no_residue, wait_until

PASSWORD = "password-of-robot"
ROBOT = RegistryCredential("robot", PASSWORD)
WRONG = RegistryCredential("robot", "another")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("kubeauth e2e registries")


@pytest.fixture(scope="module")
def tokens(authority: Authority) -> Iterator[TokenServer]:
    with TokenServer(authority, robot=PASSWORD) as server:
        yield server


@pytest.fixture(scope="module")
def with_passwords(authority: Authority) -> Iterator[RealRegistry]:
    with RealRegistry(authority, robot=PASSWORD) as registry:
        yield registry


@pytest.fixture(scope="module")
def with_tokens(authority: Authority, tokens: TokenServer) -> Iterator[RealRegistry]:
    with RealRegistry(authority, tokens) as registry:
        yield registry


@pytest.fixture(params=["Basic", "Bearer"])
def registry(
    request: pytest.FixtureRequest,
    tokens: TokenServer,
    with_passwords: RealRegistry,
    with_tokens: RealRegistry,
) -> Iterator[RealRegistry]:
    """Both kinds."""
    yield with_passwords if request.param == "Basic" else with_tokens
    with_passwords.has_seen(robot=PASSWORD)
    tokens.has_seen(robot=PASSWORD)
    tokens.lifetime = 300.0


@pytest.fixture
def image(registry: RealRegistry) -> Image:
    return registry.push("team/app:1", "robot", PASSWORD)


@pytest.fixture(params=VARIANTS, ids=str)
def variant(request: pytest.FixtureRequest) -> ClientVariant:
    found: ClientVariant = request.param
    return found


def providers_for(registry: RealRegistry, script: ProviderScript, **options: Any) -> CredentialProviders:
    directory = script.path.parent
    fields = options.pop("fields", {})
    config = directory / "config.json"
    config.write_text(json.dumps(ProviderScript.config(script.entry([registry.host], **fields))))
    return CredentialProviders(config, directory, **options)


def pulled(client: Any, registry: RealRegistry, image: Image) -> None:
    """By its manifest and its layer, as a client of registries does."""
    manifest = client.get(f"{registry.url}/v2/team/app/manifests/1", headers={"Accept": MANIFEST})
    assert manifest.status_code == 200, manifest.text
    assert manifest.headers["Docker-Content-Digest"] == image.digest
    (layer,) = manifest.json()["layers"]
    assert layer["digest"] == image.layer_digest
    assert client.get(f"{registry.url}/v2/team/app/blobs/{layer['digest']}").content == image.layer


def test_manifest_and_blob_by_a_provider_9_2_9_5_9_7(
    variant: ClientVariant, registry: RealRegistry, image: Image, authority: Authority, tmp_path: Path
) -> None:
    script = ProviderScript(tmp_path)
    script.answer({registry.host: ("robot", PASSWORD)})
    with (
        providers_for(registry, script) as providers,
        client_of(variant, authority, auth_of(variant)(providers)) as client,
    ):
        for _ in range(2):
            pulled(client, registry, image)
    assert [run.request["image"] for run in script.runs] == [f"{registry.host}/team/app"]


def test_without_credentials_it_is_a_real_refusal(
    registry: RealRegistry, image: Image, authority: Authority
) -> None:
    """The tests above and below would be content with a registry that lets everybody in."""
    with client_of(VARIANTS[0], authority, None) as client:
        answer = client.get(f"{registry.url}/v2/team/app/manifests/1")
    assert answer.status_code == 401
    assert image.layer_digest not in answer.text


def test_a_wrong_password_9_13(
    variant: ClientVariant, registry: RealRegistry, image: Image, authority: Authority
) -> None:
    assert image.digest
    with client_of(variant, authority, auth_of(variant)(WRONG)) as client:
        if registry.asks_for == "Bearer":
            with pytest.raises(ChallengeError, match=r"Check the credentials for 127\.0\.0\.1") as caught:
                client.get(f"{registry.url}/v2/team/app/manifests/1")
            assert caught.value.status_code == 401
            assert "another" not in str(caught.value)
        else:
            assert client.get(f"{registry.url}/v2/team/app/manifests/1").status_code == 401


def test_the_second_credential_is_tried_when_the_first_is_refused_5_11_9_13(
    variant: ClientVariant, registry: RealRegistry, image: Image, authority: Authority
) -> None:
    with client_of(variant, authority, auth_of(variant)([WRONG, ROBOT])) as client:
        pulled(client, registry, image)


def test_pull_secrets_before_what_the_node_has_5_10(
    registry: RealRegistry, image: Image, authority: Authority
) -> None:
    """As a pod has them: one of another registry, one with an old password, then the node's."""
    entry = {"username": "robot", "password": "another"}
    config = {"auths": {registry.host: entry, "quay.io": entry}}
    secret = {
        "metadata": {"name": "pull", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": _data(config)},
    }
    node = Keyring()
    node.add({registry.host: ROBOT})
    keyring = Keyring.joined(Keyring.from_pull_secrets([secret]), node)
    assert [each.password for each in keyring.lookup(f"{registry.host}/team/app")] == ["another", PASSWORD]
    with client_of(VARIANTS[0], authority, auth_of(VARIANTS[0])(keyring.lookup)) as client:
        pulled(client, registry, image)


def _data(document: object) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def test_a_token_that_the_registry_calls_expired_is_replaced_9_12(
    variant: ClientVariant, with_tokens: RealRegistry, tokens: TokenServer, authority: Authority
) -> None:
    """It said that it is good for five minutes; its `exp` says otherwise, and the registry goes by that."""
    image = with_tokens.push("team/app:1", "robot", PASSWORD)
    for seconds in (1.0, 5.0, 20.0):
        with client_of(variant, authority, auth_of(variant)(ROBOT)) as client:
            tokens.lifetime = seconds
            answer = client.get(f"{with_tokens.url}/v2/team/app/manifests/1", headers={"Accept": MANIFEST})
            before = len(tokens.given)
            time.sleep(seconds + 1.5)  # seconds count in full
            tokens.lifetime = 300.0
            if answer.status_code == 401:
                continue  # on a busy machine it was over before it got there
            pulled(client, with_tokens, image)
        break
    assert answer.status_code == 200
    assert len(tokens.given) == before + 1


def test_a_token_is_renewed_before_it_ends_9_10(
    variant: ClientVariant, with_tokens: RealRegistry, tokens: TokenServer, authority: Authority
) -> None:
    image = with_tokens.push("team/app:1", "robot", PASSWORD)
    clock = FakeClock()
    with client_of(variant, authority, auth_of(variant)(ROBOT, clock=clock)) as client:
        pulled(client, with_tokens, image)
        before = len(tokens.given)
        pulled(client, with_tokens, image)
        assert len(tokens.given) == before
        clock.advance(299)
        pulled(client, with_tokens, image)
        assert len(tokens.given) == before + 1


def test_a_body_is_uploaded_through_it_9_6(
    variant: ClientVariant, registry: RealRegistry, image: Image, authority: Authority
) -> None:
    """A blob of one's own, in one POST with `pull,push`, and then it is there."""
    assert image.digest
    data = f"a blob by {variant}".encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    with client_of(variant, authority, auth_of(variant)(ROBOT)) as client:
        begun = client.request("POST", f"{registry.url}/v2/team/app/blobs/uploads/")
        assert begun.status_code == 202, begun.text
        place = begun.headers["Location"]
        joined = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        put = client.request("PUT", joined, content=data)
        assert put.status_code == 201, put.text
        assert client.get(f"{registry.url}/v2/team/app/blobs/{digest}").content == data


class Load:
    """Callers in every variant, each with one RegistryAuth and its connections, until they are told to stop."""

    def __init__(
        self, registry: RealRegistry, image: Image, authority: Authority, providers: CredentialProviders
    ) -> None:
        self._urls = [
            f"{registry.url}/v2/team/app/manifests/{image.digest}",
            f"{registry.url}/v2/team/app/blobs/{image.layer_digest}",
        ]
        self._authority, self._providers = authority, providers
        self.stop = threading.Event()
        self.answered = 0
        self.failures: list[object] = []

    def run(self, variant: ClientVariant) -> None:
        context = ssl.create_default_context(cadata=self._authority.pem.decode())
        options = {"verify": context, "trust_env": False, "headers": {"Accept": MANIFEST}, "timeout": 60}

        def make() -> Any:
            return variant.PlainClient(auth=auth_of(variant)(self._providers), **options)

        try:
            if variant.is_async:
                anyio.run(self._async, make, backend=variant.runtime)
            else:
                with make() as client:
                    threads = [threading.Thread(target=self._call, args=(client,)) for _ in range(3)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
        except Exception as error:
            self.failures.append(error)

    def _call(self, client: Any) -> None:
        while not self.stop.is_set():
            for url in self._urls:
                try:
                    self._look_at(client.get(url))
                except Exception as error:
                    self.failures.append(error)
            time.sleep(0.05)

    async def _async(self, make: Callable[[], Any]) -> None:
        async with make() as client, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(self._acall, client)

    async def _acall(self, client: Any) -> None:
        while not self.stop.is_set():
            for url in self._urls:
                try:
                    self._look_at(await client.get(url))
                except Exception as error:
                    self.failures.append(error)
            await anyio.sleep(0.05)

    def _look_at(self, response: Any) -> None:
        self.answered += 1
        if response.status_code != 200:
            self.failures.append((response.status_code, response.text))


@pytest.mark.parametrize(
    ("kept", "rotations"),
    [pytest.param("1s", 5, id="kept for a second"), pytest.param("1h", 6, id="kept until it is refused")],
)
def test_a_password_that_rotates_every_five_seconds_under_load_fails_nobody(
    kept: str,
    rotations: int,
    registry: RealRegistry,
    image: Image,
    tokens: TokenServer,
    authority: Authority,
    tmp_path: Path,
) -> None:
    """Each is good for two seconds more when the next one is given: nobody asks a provider in no time."""
    script = ProviderScript(tmp_path)

    def password(number: int) -> str:
        return f"password-{number}"

    def welcome(*numbers: int) -> None:
        users = {f"robot-{number}": password(number) for number in numbers}
        registry.has_seen(**users)
        tokens.has_seen(**users)

    def give(number: int) -> None:
        script.answer({registry.host: (f"robot-{number}", password(number))}, cache_duration=kept)

    welcome(0)
    give(0)
    tokens.lifetime = 4.0  # so that passwords count there too; longer than a busy machine stands still
    with no_residue(), providers_for(registry, script) as providers:
        load = Load(registry, image, authority, providers)
        threads = [threading.Thread(target=load.run, args=(variant,)) for variant in VARIANTS]
        for thread in threads:
            thread.start()
        try:
            time.sleep(2)
            for number in range(1, rotations + 1):
                welcome(number - 1, number)
                give(number)
                time.sleep(2)
                welcome(number)
                time.sleep(3)
                wait_until(lambda number=number: len(script.runs) > number)  # type: ignore[misc]  # one has noticed
        finally:
            load.stop.set()
            for thread in threads:
                thread.join()
    assert load.failures == []
    assert load.answered > 100
    if kept == "1h":
        # Nobody asked but for the first time, and when one was refused.
        assert len(script.runs) == rotations + 1
    else:
        assert len(script.runs) > rotations


NO_HELPER = importlib.util.find_spec("kubeauth.cli._docker_credential") is None


@pytest.mark.skipif(NO_HELPER, reason="docker-credential-kubeauth is not part of this build")
class TestDockerCredentialHelper:
    """skopeo, crane and docker ask docker-credential-kubeauth, which asks the provider."""

    @pytest.fixture
    def env(self, registry: RealRegistry, tmp_path: Path) -> dict[str, str]:
        """A config with `credHelpers`, the helper on PATH, and a provider behind it."""
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir()
        script = ProviderScript(bin_dir)
        script.answer({registry.host: ("robot", PASSWORD)})
        config = tmp_path / "providers.json"
        config.write_text(json.dumps(ProviderScript.config(script.entry([registry.host]))))
        docker = tmp_path / "docker.json"
        docker.write_text(json.dumps({"credHelpers": {registry.host: "kubeauth"}}))
        scripts = sysconfig.get_path("scripts")
        return {
            "PATH": f"{scripts}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "REGISTRY_AUTH_FILE": str(docker),
            "KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG": str(config),
            "KUBEAUTH_CREDENTIAL_PROVIDER_BIN_DIR": str(bin_dir),
        }

    def test_skopeo_inspects_an_image(
        self, registry: RealRegistry, image: Image, env: dict[str, str]
    ) -> None:
        ran = registry.skopeo("inspect", f"docker://{registry.host}/team/app:1", env=env)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["Digest"] == image.digest

    def test_without_the_helper_it_may_not(
        self, registry: RealRegistry, image: Image, env: dict[str, str]
    ) -> None:
        assert image.digest
        del env["REGISTRY_AUTH_FILE"]
        ran = registry.skopeo("inspect", f"docker://{registry.host}/team/app:1", env=env)
        assert ran.returncode != 0
        assert "unauthorized" in ran.stderr.lower() or "authentication required" in ran.stderr.lower()

    @pytest.mark.parametrize(
        ("variable", "path"),
        [
            ("HOME", ".docker/config.json"),
            ("HOME", ".config/containers/auth.json"),
            ("XDG_RUNTIME_DIR", "containers/auth.json"),
        ],
    )
    def test_where_skopeo_looks_for_its_name(
        self,
        variable: str,
        path: str,
        registry: RealRegistry,
        image: Image,
        env: dict[str, str],
        tmp_path: Path,
    ) -> None:
        file = tmp_path / "home" / path
        file.parent.mkdir(parents=True)
        Path(env.pop("REGISTRY_AUTH_FILE")).rename(file)
        env[variable] = str(tmp_path / "home")
        ran = registry.skopeo("inspect", f"docker://{registry.host}/team/app:1", env=env)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["Digest"] == image.digest

    @pytest.fixture
    def docker_config(self, env: dict[str, str], tmp_path: Path) -> dict[str, str]:
        """Where docker and crane look for the name of the helper."""
        Path(env.pop("REGISTRY_AUTH_FILE")).rename(tmp_path / "config.json")
        return {"DOCKER_CONFIG": str(tmp_path)}

    def test_crane_reads_a_manifest(
        self, registry: RealRegistry, image: Image, env: dict[str, str], docker_config: dict[str, str]
    ) -> None:
        name = f"{registry.host}/team/app:1"
        with skipped_if_missing():
            refused = registry.crane("digest", name, env=env)
        assert refused.returncode != 0
        assert "unauthorized" in refused.stderr.lower()
        digest, manifest = (
            registry.crane(verb, name, env=env | docker_config) for verb in ("digest", "manifest")
        )
        assert (digest.returncode, manifest.returncode) == (0, 0), digest.stderr + manifest.stderr
        assert digest.stdout.strip() == image.digest
        assert json.loads(manifest.stdout)["layers"][0]["digest"] == image.layer_digest

    def test_docker_reads_a_manifest(
        self, registry: RealRegistry, image: Image, env: dict[str, str], docker_config: dict[str, str]
    ) -> None:
        command = "manifest", "inspect", f"{registry.host}/team/app:1"
        with skipped_if_missing():
            refused = registry.docker(*command, env=env)
        assert refused.returncode != 0
        ran = registry.docker(*command, env=env | docker_config)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["layers"][0]["digest"] == image.layer_digest


@contextmanager
def skipped_if_missing() -> Iterator[None]:
    try:
        yield
    except tools.Missing as missing:
        pytest.skip(str(missing))


class TestServiceAccounts:
    """A token of a pod's service account, by a real TokenRequest."""

    @pytest.fixture
    def pod(self, cluster: ControlPlane) -> Pod:
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {
                    "name": "puller",
                    "namespace": "default",
                    "annotations": {"example.com/role": "reader"},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "app", "namespace": "default"},
                "spec": {
                    "serviceAccountName": "puller",
                    "automountServiceAccountToken": False,
                    "containers": [{"name": "app", "image": "app"}],
                },
            },
        )
        uid = cluster.kubectl("get", "pod", "app", "-o", "jsonpath={.metadata.uid}").stdout
        return Pod("default", "app", uid, "puller")

    @pytest.mark.parametrize("runtime", ["sync", "asyncio", "trio"])
    def test_a_provider_is_given_a_token_that_the_cluster_vouches_for_4_14_4_16_4_21(
        self, runtime: str, cluster: ControlPlane, pod: Pod, with_passwords: RealRegistry, tmp_path: Path
    ) -> None:
        script = ProviderScript(tmp_path)
        script.answer({with_passwords.host: ("robot", PASSWORD)})
        attributes = {
            "serviceAccountTokenAudience": "registry.test",
            "cacheType": "ServiceAccount",
            "requireServiceAccount": True,
            "requiredServiceAccountAnnotationKeys": ["example.com/role"],
        }
        fields = {"tokenAttributes": attributes}
        name = f"{with_passwords.host}/team/app"

        async def asked() -> Any:
            async with AsyncClient(load_config(cluster.admin())) as client:
                accounts = ClusterServiceAccounts(async_client=client)
                with providers_for(
                    with_passwords, script, service_account=accounts, fields=fields
                ) as providers:
                    return [await providers.alookup(name, pod=pod) for _ in range(2)]

        if runtime == "sync":
            with Client(load_config(cluster.admin())) as client:
                accounts = ClusterServiceAccounts(client)
                with providers_for(
                    with_passwords, script, service_account=accounts, fields=fields
                ) as providers:
                    found = [providers.lookup(name, pod=pod) for _ in range(2)]
        else:
            found = anyio.run(asked, backend=runtime)

        for lookup in found:
            assert lookup.failures == ()
            assert [each.password for each in lookup.credentials] == [PASSWORD]
        account = found[1].answers[0].service_account
        assert account is not None
        assert (account.namespace, account.name) == ("default", "puller")
        (run,) = script.runs
        assert run.request["serviceAccountAnnotations"] == {"example.com/role": "reader"}
        self._vouched_for(cluster, run.request["serviceAccountToken"], pod)

    def _vouched_for(self, cluster: ControlPlane, token: str, pod: Pod) -> None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": ["registry.test"]},
        }
        with Client(load_config(cluster.admin())) as admin:
            status = admin.post("/apis/authentication.k8s.io/v1/tokenreviews", json=review).json()["status"]
        assert status["authenticated"] is True
        assert status["audiences"] == ["registry.test"]
        assert status["user"]["username"] == "system:serviceaccount:default:puller"
        assert status["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod.uid]

    def test_a_service_account_that_is_not_there_is_why_it_failed_4_15(
        self, cluster: ControlPlane, with_passwords: RealRegistry, tmp_path: Path
    ) -> None:
        script = ProviderScript(tmp_path)
        attributes = {
            "serviceAccountTokenAudience": "registry.test",
            "cacheType": "Token",
            "requireServiceAccount": True,
        }
        with Client(load_config(cluster.admin())) as client:
            accounts = ClusterServiceAccounts(client)
            fields = {"tokenAttributes": attributes}
            with providers_for(with_passwords, script, service_account=accounts, fields=fields) as providers:
                lookup = providers.lookup(
                    f"{with_passwords.host}/team/app", pod=Pod("default", "x", "y", "nobody")
                )
        (failure,) = lookup.failures
        assert 'serviceaccounts "nobody" not found' in str(failure)
        assert script.runs == []
