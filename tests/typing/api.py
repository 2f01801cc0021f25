"""Every public name used as a typed program would. Checked by mypy and pyright, never run."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, assert_type

import httpx
import httpx2
import kubernetes.client
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

import kubeauth
from kubeauth import (
    AsyncClient,
    AsyncKubeTransport,
    Client,
    ClientConfig,
    ExecConfig,
    ExecOptions,
    Impersonation,
    KubeAuth,
    KubeTransport,
    OidcConfig,
    OidcOptions,
    PluginPolicy,
    Secret,
    Status,
    adapters,
    discovery,
    errors,
    fleet,
    gmsa,
    in_cluster_config,
    load_config,
    metrics,
    plugin,
    schemas,
    ssl_context,
    testing,
    transports,
)
from kubeauth.registry import plugin as registry_plugin

assert_type(kubeauth.__version__, str)

config = load_config()
assert_type(config, ClientConfig)
assert_type(load_config("path"), ClientConfig)
assert_type(load_config(Path("path"), context="prod", cluster=None, user=None, namespace="n"), ClientConfig)
assert_type(load_config(b"clusters: []"), ClientConfig)
assert_type(load_config({"clusters": []}), ClientConfig)
assert_type(
    load_config(plugin_policy=PluginPolicy.allowlist(["aws"]), exec_options=ExecOptions(timeout=None)),
    ClientConfig,
)
assert_type(in_cluster_config(), ClientConfig)

assert_type(config.server, str)
assert_type(config.ca_data, bytes | None)
assert_type(config.token, Secret[str] | None)
assert_type(config.client_key_data, Secret[bytes] | None)
if config.token:
    assert_type(config.token.reveal(), str)
assert_type(config.exec, ExecConfig | None)
if config.exec:
    assert_type(config.exec.args, tuple[str, ...])
    assert_type(config.exec.env, Mapping[str, str])
    assert_type(config.exec.policy, PluginPolicy)
assert_type(load_config(oidc_options=OidcOptions(write_back=False, timeout=5.0)), ClientConfig)
assert_type(config.oidc, OidcConfig | None)
if config.oidc:
    assert_type(config.oidc.issuer_url, str)
    assert_type(config.oidc.refresh_token, Secret[str] | None)
    assert_type(config.oidc.options, OidcOptions)
assert_type(config.impersonate, Impersonation | None)
assert_type(Impersonation(user="u", groups=["g"], extra={"k": ["v"]}), Impersonation)
assert_type(ssl_context(config), ssl.SSLContext)

assert_type(config.describe(), dict[str, str])

with Client(config) as client:
    assert_type(client, Client)
    assert_type(client.get("/api/v1/namespaces"), httpx.Response)
    assert_type(client.status(), Status)
    assert_type(client.status().expires, datetime | None)
    assert_type(client.status().last_error, errors.KubeAuthError | None)
Client()
Client(context="prod", headers={"a": "b"}, follow_redirects=True, timeout=5.0, limits=httpx.Limits())
Client(
    config,
    transport_factory=lambda context, proxy: httpx.HTTPTransport(verify=context, proxy=proxy),
    drain_timeout=60.0,
)
Client(config, transport_factory=transports.DirectTransport)
AsyncClient(config, transport_factory=transports.AsyncDirectTransport)
Client(
    config,
    transport_factory=partial(transports.DirectTransport, limits=httpx.Limits(max_keepalive_connections=5)),
)
httpx.Client(transport=transports.DirectTransport(ssl_context(config)))
httpx.Client(transport=KubeTransport(config, http2=True), base_url=config.server)
httpx.AsyncClient(transport=AsyncKubeTransport(config), base_url=config.server)
httpx.Client(auth=KubeAuth(config), verify=ssl_context(config), base_url=config.server)


async def asynchronous() -> None:
    async with AsyncClient(config) as client:
        assert_type(await client.get("/api/v1/namespaces"), httpx.Response)
        assert_type(client.status(), Status)
    async with kubeauth.httpx2.AsyncClient(config) as client2:
        assert_type(await client2.get("/api/v1/namespaces"), httpx2.Response)


with kubeauth.httpx2.Client(config) as client2:
    assert_type(client2.get("/api/v1/namespaces"), httpx2.Response)
kubeauth.httpx2.Client(config, transport_factory=transports.httpx2.DirectTransport)
kubeauth.httpx2.AsyncClient(config, transport_factory=transports.httpx2.AsyncDirectTransport)
httpx2.Client(transport=kubeauth.httpx2.KubeTransport(config), base_url=config.server)
httpx2.AsyncClient(transport=kubeauth.httpx2.AsyncKubeTransport(config), base_url=config.server)
httpx2.Client(auth=kubeauth.httpx2.KubeAuth(config), verify=kubeauth.httpx2.ssl_context(config))

with adapters.kubernetes.api_client(config) as api:
    assert_type(api.status(), Status)
    kubernetes.client.CoreV1Api(api)
assert_type(adapters.kubernetes.configuration(config), kubernetes.client.Configuration)


async def adapted() -> None:
    async with adapters.kubernetes_asyncio.api_client(context="prod") as api:
        assert_type(api.status(), Status)
    async with adapters.kubernetes_aio.ws_api_client(config, heartbeat=30.0) as api:
        assert_type(api.status(), Status)


registry = CollectorRegistry()
assert_type(metrics.register(), metrics.Collector)
assert_type(metrics.register(registry), metrics.Collector)
registry.register(metrics.Collector(now=lambda: 0.0))

with testing.APIServer(tokens={"t": "alice"}, authority=testing.Authority()) as server:
    assert_type(server.config(token="t"), ClientConfig)
    assert_type(server.requests, list[testing.Received])
    assert_type(server.watch("/api/v1/pods"), testing.Watch)
    assert_type(server.authority.client("carol", ["dev"]), testing.KeyPair)
    server.on("GET", "/x", testing.Answer(200, {"a": 1}))
    server.on("GET", "/y", lambda request: testing.Answer(200, request.body))
    Client(server.config(token="t"), clock=testing.FakeClock())
script = testing.PluginScript(".")
assert_type(script.runs, list[testing.PluginRun])
pod: dict[str, object] = {"spec": {}}


def reviewed(review: gmsa.Review) -> gmsa.Verdict | bool:
    assert_type((review.user, review.namespace, review.name), tuple[gmsa.User, str, str])
    return gmsa.Verdict(review.name == "web", reason="because") if review.user.groups else False


def looked_up(name: str) -> dict[str, object] | gmsa.Unavailable | None:
    return {"credspec": {}} if name == "web" else gmsa.Unavailable("away") if name else None


assert_type(gmsa.expand(pod, looked_up), list[gmsa.PatchOperation])
gmsa.expand(
    pod, {"web": {"credspec": {}}}.get, policy=gmsa.Policy(random_hostname=True), hostname=lambda: "h"
)
decision = gmsa.authorize(
    pod,
    namespace="n",
    lookup=looked_up,
    review=reviewed,
    user=gmsa.User("u", ("g",)),
    policy=gmsa.Policy(codes="seed"),
)
assert_type(decision, gmsa.Decision)
assert_type((decision.allowed, decision.code, decision.message), tuple[bool, int, str])
assert_type(decision.patch, tuple[gmsa.PatchOperation, ...])
assert_type(gmsa.authorize(pod, old_pod=pod, policy=gmsa.Policy(compat=True)), gmsa.Decision)
assert_type(gmsa.effective_credential_specs(pod, mode="alpha"), dict[str, str | None])
assert_type(gmsa.app(AsyncClient(), policy=gmsa.Policy(), qps=30, burst=50), Starlette)
gmsa.app(kubeauth.httpx2.AsyncClient(), body_timeout=1.0, decision_timeout=2.0, registry=CollectorRegistry())
assert_type(gmsa.lint_credspec({}), gmsa.CredSpecReport)
assert_type(gmsa.lint_credspec({}).errors, tuple[errors.Problem, ...])
report = fleet.get("/version", contexts="prod-*", concurrency=8, timeout=None, max_bytes=2**20)
assert_type(report, fleet.Report)
assert_type(report[0], fleet.Answer)
assert_type(report[1:], tuple[fleet.Answer, ...])
assert_type(report.failures, Mapping[fleet.Failure, int])
assert_type(report[0].failure, fleet.Failure | None)
assert_type(fleet.contexts("prod-*", "test-?", kubeconfig=Path("config")), tuple[str, ...])
with fleet.stream(lambda config: f"/api/v1/namespaces/{config.namespace}/pods", contexts=["a", "b"]) as came:
    for answer in came:
        assert_type(answer, fleet.Answer)


async def ask_a_fleet() -> None:
    assert_type(await fleet.aget("/version", kubeconfig={}, headers={"Accept": "text/plain"}), fleet.Report)
    options = ExecOptions(timeout=5.0)
    async with fleet.astream("/version", exec_options=options, plugin_policy=None) as answers:
        async for each in answers:
            assert_type(each, fleet.Answer)


token = discovery.BootstrapToken.generate()
assert_type(discovery.BootstrapToken.parse(Secret(token.reveal())), discovery.BootstrapToken)
assert_type(token.secret, Secret[str])
assert_type(discovery.sign_detached(b"content", token), str)
assert_type(discovery.verify_detached("content", "header..signature", "abcdef.0123456789abcdef"), bool)
made = discovery.new_token(now=0.0, ttl=3600, usages=["signing"], groups=None, description="d")
assert_type(made, discovery.NewToken)
assert_type(discovery.tokens_of([made.secret], now=0.0), list[discovery.TokenInfo])
discovery.sign_cluster_info({"data": {"kubeconfig": ""}}, [made.secret], now=0.0)
assert_type(
    discovery.TokenAuthenticator({"name": made.secret}.get).authenticate("t"), discovery.BootstrapUser | None
)


async def serve(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    async with AsyncClient() as client, discovery.Signer(client, retry=5.0) as signer:
        assert_type(await signer.once(), bool)
        lookup = discovery.ClusterSecrets(client)
        assert_type(
            await discovery.TokenAuthenticator(lookup).aauthenticate(Secret("t")),
            discovery.BootstrapUser | None,
        )
        await discovery.DiscoveryFilter(serve, lookup, cluster_id="c", skew=5)(scope, receive, send)


def progress(each: discovery.Progress) -> None:
    assert_type((each.tries, each.seconds_left, each.reason), tuple[int, float, str])


async def find() -> None:
    assert_type(await discovery.adiscover(file="-", progress=progress), discovery.Discovered)


found = discovery.discover("h:6443", token=token, ca_cert_hashes=["sha256:"], progress=progress)
assert_type(found, discovery.Discovered)
assert_type(found.config, ClientConfig)
found.save("/dev/null", overwrite=True)
assert_type(discovery.Pins.parse([discovery.public_key_pin(b"")]).values, frozenset[str])

registry_script = testing.ProviderScript(".", "ecr")
registry_script.answer({"registry.test": ("user", "password")}, cache_key_type="Image", cache_duration="0s")
assert_type(registry_script.runs, list[testing.ProviderRun])


def login(info: plugin.ExecInfo) -> plugin.Credential:
    assert_type(info.interactive, bool)
    assert_type(info.cluster, plugin.ExecCluster | None)
    assert_type(info.client_config(), ClientConfig)
    plugin.Credential(certificate=b"", key=Secret(b""), expires=datetime.now(UTC))
    return plugin.Credential(token=Secret("t"), expires=timedelta(minutes=15))


assert_type(plugin.read_exec_info(), plugin.ExecInfo)
assert_type(plugin.parse_exec_info("{}"), plugin.ExecInfo)
plugin.print_credential(plugin.ExecInfo(), login(plugin.read_exec_info({})), file=sys.stderr)
if kubeauth.__version__ == "":
    plugin.run(login)


def robot(request: registry_plugin.Request) -> registry_plugin.Response:
    assert_type((request.image, request.registry, request.api_version), tuple[str, str, str])
    assert_type(request.token, Secret[str] | None)
    assert_type(request.annotations, Mapping[str, str])
    registry_plugin.Response({"a.io": ("u", Secret("p"))}, "Global")
    return registry_plugin.Response(
        {request.registry: ("u", "p")}, cache_key_type="Registry", cache_duration=timedelta(minutes=5)
    )


assert_type(registry_plugin.read_request(), registry_plugin.Request)
assert_type(registry_plugin.parse_request(b"{}"), registry_plugin.Request)
registry_plugin.print_response(
    registry_plugin.parse_request("{}"), registry_plugin.Response(), file=sys.stderr
)
if kubeauth.__version__ == "":
    registry_plugin.run(robot)

assert_type(PluginPolicy.allow_all(), PluginPolicy)
assert_type(PluginPolicy.deny_all(), PluginPolicy)
assert_type(Secret("token"), Secret[str])
assert_type(Secret(b"key"), Secret[bytes])

try:
    load_config()
except errors.KubeConfigError as error:
    assert_type(error.path, str | None)
    assert_type(error.field, str | None)
    assert_type(error.problems, tuple[errors.Problem, ...])
except errors.OidcWriteError as error:
    assert_type(error.path, str)
except errors.OidcError as error:
    assert_type(error.issuer, str)
except (errors.InClusterError, errors.TokenFileError) as error:
    assert_type(error.path, str | None)
except errors.PluginNotAllowed as error:
    assert_type(error.policy, str)
except (errors.PluginNotFound, errors.PluginNotStarted, errors.PluginNeedsTerminal) as error:
    assert_type(error.command, str)
except errors.ServerCertificateError as error:
    assert_type(error.verify_code, int)
except errors.PluginFailed as error:
    assert_type(error.exit_code, int)
except errors.PluginTimeout as error:
    assert_type(error.timeout, float)
except errors.PluginOutputError as error:
    assert_type(error.reason, str)
except errors.ProviderConfigError as error:
    assert_type(error.problems, tuple[errors.Problem, ...])
except errors.DockerConfigError as error:
    assert_type(error.path, str | None)
    assert_type(error.field, str | None)
except errors.ProviderError as error:
    assert_type(error.provider, str)
    assert_type(error.reason, str)
    assert_type(error.exit_code, int | None)
    assert_type(error.stderr_tail, str)
except errors.ClusterNotReady as error:
    assert_type(error.attempts, int)
except errors.ClusterNotTrusted as error:
    assert_type((error.reason, error.pins), tuple[str, tuple[str, ...]])
except errors.DiscoveryError as error:
    assert_type(error.status_code, int | None)
except errors.AdmissionError as error:
    assert_type(error.uid, str)
    assert_type(error.status_code, int)
except (errors.PluginError, errors.CredentialError, errors.ConfigError, errors.ChallengeError):
    pass
except (errors.ClientCertificateError, errors.TLSError, errors.RegistryError, errors.KubeAuthError):
    pass

kubeconfig = schemas.Kubeconfig(
    clusters={"prod": schemas.Cluster(server="https://prod", certificate_authority_data=b"pem")},
    users={
        "alice": schemas.User(
            token=Secret("t"),
            auth_provider=schemas.AuthProvider(name="oidc", config={"client-id": "c"}),
            exec=schemas.ExecEntry(
                command="aws", args=("eks",), env=(schemas.ExecEnvVar(name="A", value=Secret("b")),)
            ),
        )
    },
    contexts={"prod": schemas.Context(cluster="prod", user="alice")},
    current_context="prod",
    preferences=schemas.Preferences(colors=True),
)
assert_type(kubeconfig.contexts["prod"].namespace, str)
assert_type(kubeconfig.users["alice"].token, Secret[str])
assert_type(schemas.Kubeconfig.model_validate({}), schemas.Kubeconfig)
model: schemas.Model = kubeconfig
assert_type(load_config(kubeconfig), ClientConfig)

printed = schemas.ExecCredential(
    spec=schemas.ExecCredentialSpec(cluster=schemas.ExecCluster(server="https://prod"), interactive=False),
    status=schemas.ExecCredentialStatus(token=Secret("t"), expiration_timestamp=datetime.now(UTC)),
)
assert_type(printed.status, schemas.ExecCredentialStatus | None)

provider = schemas.CredentialProvider(
    name="ecr",
    match_images=("*.example.com",),
    default_cache_duration=60.0,
    api_version="credentialprovider.kubelet.k8s.io/v1",
    env=(schemas.ProviderEnvVar(name="A", value=Secret("b")),),
    token_attributes=schemas.TokenAttributes(
        audience="a", cache_type="Token", require_service_account=True, required_annotations=("x",)
    ),
)
provider_config = schemas.CredentialProviderConfig(providers=(provider,))
assert_type(kubeauth.registry.load_provider_config("p"), schemas.CredentialProviderConfig)
assert_type(provider_config.providers, tuple[kubeauth.registry.Provider, ...])
assert_type(provider_config.warnings, tuple[kubeauth.registry.PatternWarning, ...])
assert_type((provider.path, provider_config.paths, provider_config.hash), tuple[str, tuple[str, ...], str])
assert_type(provider.env[0].value, Secret[str])
own_config: kubeauth.registry.ProviderConfig = provider_config
attributes: kubeauth.registry.TokenAttributes | None = provider.token_attributes
schemas.CredentialProviderRequest(image="a.io/x", service_account_token=Secret("t"))
response = schemas.CredentialProviderResponse(
    cache_key_type="Image", auth={"a.io": schemas.AuthConfig(username="u", password=Secret("p"))}
)
assert_type(response.auth["a.io"].password, Secret[str])
docker_config = schemas.DockerConfig(auths={"a.io": schemas.DockerAuth(auth=Secret("dTpw"))})
assert_type(docker_config.auths["a.io"].identity_token, Secret[str])

token_request = schemas.TokenRequest(
    metadata=schemas.ObjectMeta(namespace="n", name="robot"),
    spec=schemas.TokenRequestSpec(
        audiences=("a",), bound_object_ref=schemas.BoundObjectReference(kind="Pod", name="p")
    ),
    status=schemas.TokenRequestStatus(token=Secret("t")),
)
assert_type(token_request.status.expiration_timestamp, datetime | None)
assert_type(schemas.PartialObjectMetadata().metadata, schemas.ObjectMeta)
assert_type(schemas.SecretObject().data["x"], Secret[bytes])
assert_type(schemas.Status(details=schemas.StatusDetails(name="p")).message, str)

option = schemas.CommandOptionDefault(name="output", default="json")
preference = schemas.Preference(
    defaults=(schemas.CommandDefaults(command="get", options=(option,)),),
    overrides=(schemas.CommandOverride(command="get", flags=(option,)),),
    aliases=(schemas.AliasOverride(name="getn", command="get", prepend_args=("nodes",)),),
    credential_plugin_policy="Allowlist",
    credential_plugin_allowlist=(schemas.AllowlistEntry(command="aws"),),
)
assert_type(preference.credential_plugin_allowlist, tuple[schemas.AllowlistEntry, ...] | None)

credential_spec = schemas.GMSACredentialSpec(
    metadata=schemas.ObjectMeta(name="web"),
    credspec=schemas.CredentialSpec(
        cms_plugins=("ActiveDirectory",),
        domain_join_config=schemas.DomainJoinConfig(dns_name="d.example", sid="S-1-5-21-1-2-3"),
        active_directory_config=schemas.ActiveDirectoryConfig(
            group_managed_service_accounts=(schemas.GroupManagedServiceAccount(name="web", scope="D"),),
            host_account_config=schemas.HostAccountConfig(plugin_guid="{x}"),
        ),
    ),
)
assert_type(credential_spec.credspec.domain_join_config.net_bios_name, str)

review = schemas.AdmissionReview(
    request=schemas.AdmissionRequest(
        uid="u",
        kind=schemas.GroupVersionKind(kind="Pod", version="v1"),
        user_info=schemas.UserInfo(username="alice", extra={"k": ("v",)}),
        object={"kind": "Pod"},
    )
)
assert_type(review.request.user_info.groups, tuple[str, ...])

options = schemas.WindowsSecurityContextOptions(gmsa_credential_spec_name="web")
pod_model = schemas.Pod(
    spec=schemas.PodSpec(
        os=schemas.PodOS(name="windows"),
        security_context=schemas.SecurityContext(windows_options=options),
        containers=(schemas.Container(name="c"),),
    )
)
assert_type(pod_model.spec.containers, tuple[schemas.Container, ...])
assert_type(schemas.ConfigMap(data={"k": "v"}).data["k"], str)

access_review = schemas.SubjectAccessReview(
    spec=schemas.SubjectAccessReviewSpec(
        user="alice", resource_attributes=schemas.ResourceAttributes(verb="get", resource="pods")
    )
)
assert_type(access_review.status, schemas.SubjectAccessReviewStatus | None)
assert_type(schemas.OIDCProviderMetadata(token_endpoint="https://i/token").token_endpoint, str)
assert_type(schemas.TokenResponse(id_token=Secret("t")).id_token, Secret[str])
