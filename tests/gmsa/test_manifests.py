"""The webhook in a cluster, as documents. tests/e2e/test_gmsa.py applies them to a real one."""

from __future__ import annotations

import base64
import datetime
import ssl
from typing import Any

import pytest
from cryptography import x509

from kubeauth._credentials.client_cert import try_load
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.errors import ConfigError
from kubeauth.gmsa._installation import Installation
from kubeauth.gmsa._manifests import documents
from kubeauth.gmsa._new_pair import NewPair, new_pair
from kubeauth.gmsa._registration import has_windows_options
from tests.gmsa.pods import LISTS, Document
from tests.gmsa.test_lint import GOOD
from tests.support.cases import each_case

NOW = datetime.datetime(2026, 11, 17, 12, tzinfo=datetime.UTC)
PAIR = new_pair(Installation(image="i").server_names, now=NOW)
CA = PAIR.ca


def made(**chosen: Any) -> list[Document]:
    return documents(Installation(**{"image": "registry.example/kubeauth:1", **chosen}))


def generated(**chosen: Any) -> list[Document]:
    return made(pair=PAIR, ca_bundle=CA, **chosen)


def kinds(found: list[Document]) -> list[str]:
    return [each["kind"] for each in found]


def one(found: list[Document], kind: str, name: str | None = None) -> Document:
    (document,) = (
        each for each in found if each["kind"] == kind and name in (None, each["metadata"]["name"])
    )
    return document


def pod_spec(found: list[Document]) -> Document:
    spec: Document = one(found, "Deployment")["spec"]["template"]["spec"]
    return spec


def webhooks(found: list[Document]) -> list[Document]:
    return [one(found, f"{kind}WebhookConfiguration")["webhooks"][0] for kind in ("Mutating", "Validating")]


def test_what_others_need_comes_first_and_the_api_server_is_told_last() -> None:
    assert kinds(generated()) == [
        "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ClusterRole",
        "Secret", "Service", "Deployment", "PodDisruptionBudget",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    ]  # fmt: skip


def test_everything_is_in_the_namespace_or_in_none() -> None:
    for each in generated(namespace="ours"):
        assert each["metadata"].get("namespace", "ours") == "ours"
    assert one(generated(namespace="ours"), "Namespace")["metadata"]["name"] == "ours"


class TestTheCustomResource:
    def crd(self) -> Document:
        return one(generated(), "CustomResourceDefinition")

    def test_has_both_versions_and_one_schema_b1_b4(self) -> None:
        spec = self.crd()["spec"]
        assert (spec["group"], spec["scope"], spec["conversion"]) == (
            "windows.k8s.io",
            "Cluster",
            {"strategy": "None"},
        )
        first, second = spec["versions"]
        assert (first["name"], first["served"], first["storage"]) == ("v1", True, True)
        assert (second["name"], second["served"], second["storage"]) == ("v1alpha1", True, False)
        assert second["deprecated"]
        assert first["schema"] == second["schema"]
        assert self.crd()["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"

    def test_requires_nothing_and_keeps_nothing_unknown_b2_b3(self) -> None:
        schema = self.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert "credspec" in schema["properties"]
        assert "required" not in str(schema)
        assert "preserve-unknown" not in str(schema)

    def test_has_every_member_that_a_credential_spec_has_b3_b71(self) -> None:
        """What `lint_credspec` finds nothing wrong with would otherwise be pruned."""
        schema = self.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["credspec"]

        def covers(schema: Document, value: Any) -> bool:
            if isinstance(value, dict):
                known = schema["properties"]
                return all(key in known and covers(known[key], each) for key, each in value.items())
            if isinstance(value, list):
                return all(covers(schema["items"], each) for each in value)
            return bool(schema == {"type": "string"})

        host = dict.fromkeys(("PluginGUID", "PluginInput", "PortableCcgVersion"), "x")
        config = {**GOOD["ActiveDirectoryConfig"], "HostAccountConfig": host}
        assert covers(schema, {**GOOD, "ActiveDirectoryConfig": config})

    def test_is_approved_or_no_api_server_takes_a_group_of_kubernetes(self) -> None:
        assert self.crd()["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("https://")

    def test_can_be_left_out_for_whoever_deletes_the_rest_b5(self) -> None:
        assert "CustomResourceDefinition" not in kinds(generated(with_crd=False))


def test_the_webhook_may_do_two_things_and_no_more_b8() -> None:
    found = generated(namespace="ours")
    assert one(found, "ClusterRole", "kubeauth-gmsa-webhook")["rules"] == [
        {"apiGroups": ["windows.k8s.io"], "resources": ["gmsacredentialspecs"], "verbs": ["get"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"], "verbs": ["create"]},
    ]  # fmt: skip
    binding = one(found, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "kubeauth-gmsa-webhook"
    # A service account is of a namespace, and of no API group (B7).
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gmsa-webhook", "namespace": "ours"}]
    assert pod_spec(found)["serviceAccountName"] == one(found, "ServiceAccount")["metadata"]["name"]


def test_who_may_view_a_cluster_sees_credential_specs_b8() -> None:
    viewer = one(generated(), "ClusterRole", "kubeauth-gmsa-webhook-viewer")
    assert viewer["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert [rule["verbs"] for rule in viewer["rules"]] == [["get", "list", "watch"]]


class TestTheRegistration:
    def test_a_webhook_that_cannot_be_asked_refuses_b9(self) -> None:
        for path, webhook in zip(
            ("/mutate", "/validate"), webhooks(generated(namespace="ours")), strict=True
        ):
            assert webhook["failurePolicy"] == "Fail"
            assert webhook["sideEffects"] == "None"
            assert webhook["admissionReviewVersions"] == ["v1", "v1beta1"]
            assert webhook["timeoutSeconds"] == 10
            assert webhook["clientConfig"]["service"] == {
                "namespace": "ours", "name": "gmsa-webhook", "path": path, "port": 443,
            }  # fmt: skip

    def rules(self, **chosen: Any) -> list[list[tuple[str, str]]]:
        return [
            [(operation, resource) for rule in each["rules"] for operation in rule["operations"] for resource in rule["resources"]]
            for each in webhooks(generated(**chosen))
        ]  # fmt: skip

    def test_pods_and_ephemeral_containers_b9_b15(self) -> None:
        assert self.rules() == [
            [("CREATE", "pods")],
            [("CREATE", "pods"), ("UPDATE", "pods"), ("UPDATE", "pods/ephemeralcontainers")],
        ]

    def test_compat_registers_what_is_shipped_b9_b15(self) -> None:
        assert self.rules(compat=True) == [[("CREATE", "pods")], [("CREATE", "pods"), ("UPDATE", "pods")]]

    def test_the_expander_is_asked_again_b9(self) -> None:
        mutating, validating = webhooks(generated())
        assert mutating["reinvocationPolicy"] == "IfNeeded"
        assert "reinvocationPolicy" not in validating

    def test_nobody_can_label_a_namespace_exempt_b10_b82(self) -> None:
        """The label is one that the API server sets, by the name of the namespace."""
        for webhook in webhooks(generated(namespace="ours", exempt=("theirs", "ours", "a"))):
            assert webhook["namespaceSelector"] == {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": ["a", "ours", "theirs"],
                    }
                ]
            }
            assert "objectSelector" not in webhook  # whoever makes a pod labels it

    def test_all_levels_are_looked_at_before_nobody_is_asked_b15_b34_b82(self) -> None:
        (mutating,), (validating,) = (each["matchConditions"] for each in webhooks(generated()))
        for member in LISTS.values():
            assert f"object.spec.{member}.exists(" in mutating["expression"]
            assert f"oldObject.spec.{member}.exists(" in validating["expression"]
        assert has_windows_options("object") in mutating["expression"]
        assert has_windows_options("object") in validating["expression"]
        assert "oldObject" not in mutating["expression"]
        # compat looks at less, and so asks about no more.
        assert [each["matchConditions"] for each in webhooks(generated(compat=True))] == [
            [mutating],
            [validating],
        ]

    def test_the_ca_is_the_one_that_was_given_b81(self) -> None:
        for webhook in webhooks(generated()):
            assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == CA


class TestThePods:
    def test_are_two_and_one_of_them_stays_b81(self) -> None:
        found = generated()
        assert one(found, "Deployment")["spec"]["replicas"] == 2
        assert one(found, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1

    def test_one_alone_does_not_keep_a_node_from_being_drained(self) -> None:
        """Nor does the budget of two, which it is applied over."""
        spec = one(generated(replicas=1), "PodDisruptionBudget")["spec"]
        assert (spec["maxUnavailable"], "minAvailable" in spec) == (1, False)

    def test_are_found_by_service_and_budget(self) -> None:
        found = generated()
        labels = one(found, "Deployment")["spec"]["template"]["metadata"]["labels"]
        assert one(found, "Service")["spec"]["selector"] == labels
        assert one(found, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
        assert one(found, "Deployment")["spec"]["selector"]["matchLabels"] == labels
        (spread,) = pod_spec(found)["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == labels

    def test_serve_https_behind_443_b76_b81(self) -> None:
        found = generated(image="somewhere/kubeauth:2")
        (container,) = pod_spec(found)["containers"]
        (port,) = container["ports"]
        (outside,) = one(found, "Service")["spec"]["ports"]
        assert container["image"] == "somewhere/kubeauth:2"
        assert container["command"] == ["kubeauth", "gmsa", "serve"]
        assert {each["name"]: each["value"] for each in container["env"]} == {
            "TLS_CRT": "/tls/tls.crt", "TLS_KEY": "/tls/tls.key", "HTTPS_PORT": "8443", "RANDOM_HOSTNAME": "false",
        }  # fmt: skip
        assert (outside["port"], outside["targetPort"]) == (443, port["name"])
        assert port["containerPort"] == 8443
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"] == {"path": "/health", "port": port["name"], "scheme": "HTTPS"}

    def test_what_is_chosen_gets_there_b15_b33(self) -> None:
        (container,) = pod_spec(generated(compat=True, random_hostname=True))["containers"]
        assert container["command"][-1] == "--compat"
        assert {"name": "RANDOM_HOSTNAME", "value": "true"} in container["env"]

    def test_mount_the_secret_that_is_made(self) -> None:
        found = generated()
        (volume,) = pod_spec(found)["volumes"]
        (mount,) = pod_spec(found)["containers"][0]["volumeMounts"]
        assert volume["secret"]["secretName"] == one(found, "Secret")["metadata"]["name"]
        assert (mount["name"], mount["mountPath"], mount["readOnly"]) == (volume["name"], "/tls", True)
        # Its group alone can read the key, and the webhook is in it.
        assert volume["secret"]["defaultMode"] == 0o440
        assert (
            pod_spec(found)["securityContext"]["fsGroup"] == pod_spec(found)["securityContext"]["runAsGroup"]
        )

    def test_may_do_as_little_as_they_can(self) -> None:
        """As the Pod Security Standard `restricted` wants it, and no file can be written."""
        spec = pod_spec(generated())
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
        # GKE makes no pods of such a class outside of kube-system, unless a quota lets it.
        assert "priorityClassName" not in spec
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}

    def test_have_time_to_end_b80(self) -> None:
        from kubeauth.gmsa._serve import GRACE

        spec = pod_spec(generated())
        command = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert command == ["python", "-c", "import time; time.sleep(5)"]
        assert spec["terminationGracePeriodSeconds"] > 5 + GRACE


class TestTheCertificate:
    def test_a_new_one_is_in_a_secret_b81(self) -> None:
        secret = one(generated(), "Secret")
        data = {name: base64.b64decode(value) for name, value in secret["data"].items()}
        assert secret["type"] == "kubernetes.io/tls"
        assert data == {"tls.crt": PAIR.certificate, "tls.key": PAIR.key.reveal(), "ca.crt": CA}

    def test_an_existing_one_is_left_alone(self) -> None:
        found = made(ca_bundle=CA)
        assert not {"Secret", "Issuer", "Certificate"} & set(kinds(found))
        assert pod_spec(found)["volumes"][0]["secret"]["secretName"] == "gmsa-webhook-tls"

    def test_cert_manager_keeps_the_ca_and_replaces_the_certificate_b78_b81(self) -> None:
        found = made(namespace="ours")
        certificate, ca = (
            one(found, "Certificate", "gmsa-webhook"),
            one(found, "Certificate", "gmsa-webhook-ca"),
        )
        names = ["gmsa-webhook", "gmsa-webhook.ours", "gmsa-webhook.ours.svc"]
        assert certificate["spec"]["dnsNames"] == names
        assert certificate["spec"]["secretName"] == pod_spec(found)["volumes"][0]["secret"]["secretName"]
        issuer = one(found, "Issuer", certificate["spec"]["issuerRef"]["name"])
        assert issuer["spec"] == {"ca": {"secretName": ca["spec"]["secretName"]}}
        assert ca["spec"]["isCA"]
        assert one(found, "Issuer", ca["spec"]["issuerRef"]["name"])["spec"] == {"selfSigned": {}}
        for kind in ("Mutating", "Validating"):
            configuration = one(found, f"{kind}WebhookConfiguration")
            annotations = configuration["metadata"]["annotations"]
            assert annotations == {"cert-manager.io/inject-ca-from": "ours/gmsa-webhook"}
            assert "caBundle" not in configuration["webhooks"][0]["clientConfig"]
        assert "Secret" not in kinds(found)

    def test_is_of_its_ca_and_has_the_names_of_the_service_b81(self) -> None:
        certificate = x509.load_pem_x509_certificate(PAIR.certificate)
        ca = x509.load_pem_x509_certificate(CA)
        certificate.verify_directly_issued_by(ca)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [
            "gmsa-webhook", "gmsa-webhook.gmsa-webhook", "gmsa-webhook.gmsa-webhook.svc",
        ]  # fmt: skip
        constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert (constraints.ca, constraints.path_length) == (True, 0)
        assert (
            certificate.not_valid_after_utc == ca.not_valid_after_utc == NOW + datetime.timedelta(days=3650)
        )
        assert certificate.not_valid_before_utc < NOW

    def test_is_trusted_in_a_handshake_beside_an_older_one_b78_b81(self) -> None:
        """CAs of the same name: what is made today, and what was made before."""
        now = datetime.datetime.now(datetime.UTC)
        old, new = (new_pair(["gmsa-webhook", "gmsa-webhook.x.svc"], now=now, days=1) for _ in range(2))
        bundle = (new.ca + old.ca).decode()
        assert shakes_hands(old, bundle)
        assert shakes_hands(new, bundle)
        assert not shakes_hands(old, new.ca.decode())

    def test_no_namespace_is_too_long_for_it(self) -> None:
        longest = Installation(image="i", namespace="n" * 63)
        assert new_pair(longest.server_names, now=NOW).certificate

    def test_its_key_is_not_printed(self) -> None:
        installation = Installation(image="i", pair=PAIR, ca_bundle=CA)
        assert "PRIVATE" not in repr(installation) + repr(PAIR)


def shakes_hands(pair: NewPair, trusted: str) -> bool:
    client = ssl.create_default_context(cadata=trusted)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT  # as newer Pythons do by themselves
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert try_load(server, ClientCertificate(pair.certificate, pair.key)) is None
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(back, there, server_hostname="gmsa-webhook.x.svc"),
        server.wrap_bio(there, back, server_side=True),
    )
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return sides[0].getpeercert() is not None


@each_case(
    ("chosen", "said"),
    [
        ({"image": ""}, "needs an image"),
        ({"image": "a b"}, "no blank"),
        ({"image": " a"}, "no blank"),
        ({"replicas": 0}, "one replica, or more"),
        ({"namespace": "Ours"}, 'no namespace can be named "Ours"'),
        ({"namespace": ""}, 'no namespace can be named ""'),
        ({"exempt": ("fine", "a.b")}, 'no namespace can be named "a.b"'),
    ],
)
def test_what_no_cluster_could_have_is_told(chosen: Document, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**chosen)
