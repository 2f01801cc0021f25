"""A real API server accepts what models write, and models read what it returns."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kubeauth import Client, Secret, load_config
from kubeauth.gmsa._crd import definition
from kubeauth.schemas import (
    ActiveDirectoryConfig,
    ConfigMap,
    CredentialSpec,
    DomainJoinConfig,
    GMSACredentialSpec,
    GroupManagedServiceAccount,
    HostAccountConfig,
    Kubeconfig,
    Model,
    ObjectMeta,
    Pod,
    ResourceAttributes,
    SecretObject,
    Status,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenRequest,
    TokenRequestSpec,
)
from tests.e2e.cluster import ControlPlane
from tests.e2e.gmsa_webhook import CRD

META = ObjectMeta(name="of-a-model", namespace="default", labels={"l": "1"}, annotations={"a": "\u00e9"})
SPEC = CredentialSpec(
    cms_plugins=("ActiveDirectory",),
    domain_join_config=DomainJoinConfig(
        dns_name="d.example",
        dns_tree_name="d.example",
        guid="244818ae-87ac-4fcd-92ec-e79e5252348a",
        machine_account_name="web",
        net_bios_name="D",
        sid="S-1-5-21-1-2-3",
    ),
    active_directory_config=ActiveDirectoryConfig(
        group_managed_service_accounts=(GroupManagedServiceAccount(name="web", scope="D"),),
        host_account_config=HostAccountConfig(plugin_guid="{x}", plugin_input="i", portable_ccg_version="1"),
    ),
)


@pytest.fixture
def crd(cluster: ControlPlane) -> Iterator[None]:
    cluster.apply(definition())
    established = cluster.kubectl("wait", "--for=condition=established", "crd", CRD, "--timeout=60s")
    assert established.returncode == 0, established.stderr
    yield
    # Other tests install an older version of it.
    cluster.kubectl("delete", "crd", CRD)


@pytest.mark.usefixtures("crd")
@pytest.mark.parametrize(
    ("resource", "model", "fields"),
    [
        (
            "secrets",
            SecretObject(metadata=META, type="Opaque", data={"k": Secret(b"\x00v"), "empty": Secret(b"")}),
            {"data", "type"},
        ),
        ("configmaps", ConfigMap(metadata=META, data={"k": "v: 1\n", "empty": ""}), {"data"}),
        (
            "gmsacredentialspecs",
            GMSACredentialSpec(metadata=ObjectMeta(name="s"), credspec=SPEC),
            {"credspec"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kubectl_applies_it_and_the_server_returns_the_same(
    cluster: ControlPlane, resource: str, model: SecretObject, fields: set[str]
) -> None:
    cluster.apply(model.to_document(reveal_secrets=True))

    shown = cluster.kubectl("get", resource, model.metadata.name, "-o", "json")
    cluster.kubectl("delete", resource, model.metadata.name)
    found = type(model).model_validate_json(shown.stdout)

    assert found.metadata.uid
    assert found.metadata.labels == model.metadata.labels
    assert {name: getattr(found, name) for name in fields} == {name: getattr(model, name) for name in fields}


def test_kubectl_reads_a_pod(cluster: ControlPlane) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"a": "1"}},
        "spec": {
            "os": {"name": "windows"},
            "serviceAccountName": "web",
            "securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "s"}},
            "containers": [
                {"name": "c", "securityContext": {"windowsOptions": {"gmsaCredentialSpec": "{}"}}}
            ],
        },
    }
    pod = Pod.model_validate(document)
    assert pod.to_document() == document  # all of it is read

    shown = cluster.kubectl(
        "create", "--dry-run=client", "--validate=ignore", "-o", "json", "-f", "-",
        stdin=json.dumps(pod.to_document()),
    )  # fmt: skip

    assert shown.returncode == 0, shown.stderr
    assert Pod.model_validate_json(shown.stdout).spec == pod.spec


def test_requests_and_responses_of_the_api(cluster: ControlPlane) -> None:
    def post(path: str, model: Model) -> bytes:
        response = client.post(path, json=model.to_document())
        assert response.status_code == 201, response.text
        return response.content

    attributes = ResourceAttributes(verb="get", resource="pods", namespace="default")
    with Client(load_config(Kubeconfig.model_validate(cluster.admin()))) as client:
        request = TokenRequest(spec=TokenRequestSpec(audiences=("a",), expiration_seconds=600))
        issued = TokenRequest.model_validate_json(
            post("/api/v1/namespaces/default/serviceaccounts/default/token", request)
        )
        verdicts = [
            SubjectAccessReview.model_validate_json(
                post(
                    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                    SubjectAccessReview(
                        spec=SubjectAccessReviewSpec(
                            user="u", groups=groups, extra={"k": ("v",)}, resource_attributes=attributes
                        )
                    ),
                )
            ).status
            for groups in (("g",), ("system:masters",))
        ]
        missing = Status.model_validate_json(client.get("/api/v1/namespaces/missing").content)

    assert issued.spec.audiences == ("a",)
    assert issued.status.token.reveal().count(".") == 2
    assert issued.status.expiration_timestamp is not None
    assert [verdict is not None and verdict.allowed for verdict in verdicts] == [False, True]
    assert (missing.reason, missing.code, missing.details.name) == ("NotFound", 404, "missing")
