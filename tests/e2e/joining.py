"""A real cluster that can be joined: cluster-info as kubeadm publishes it, and bootstrap tokens."""

from __future__ import annotations

import base64
import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from kubeauth import Client, ClientConfig, load_config
from kubeauth.discovery import BootstrapToken, new_token, public_key_pin
from tests.discovery.clusters import PATH, published
from tests.e2e.cluster import ControlPlane

SECRETS = "/api/v1/namespaces/kube-system/secrets"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public/rolebindings"
ROLES = BINDINGS.replace("rolebindings", "roles")
NAME = "kubeadm:bootstrap-signer-clusterinfo"
RBAC = "rbac.authorization.k8s.io"
PATIENCE = 90.0
# For a server that may be busy: asked often, given up late.
PATIENT: dict[str, Any] = {"timeout": PATIENCE, "interval": 0.1}


def until(claim: Callable[[], bool]) -> None:
    """For what another process does when it gets to it."""
    end = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.1)


class Joinable:
    """`with Joinable(cluster) as joinable:` publishes cluster-info; in the end no token and no cluster-info is left."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self.admin = Client(load_config(cluster.admin()), timeout=60)  # it may be busy
        self.endpoint = cluster.server.removeprefix("https://")
        self.pin = public_key_pin(cluster.ca)
        self.kubeconfig = published(cluster.server, cluster.ca)

    def __enter__(self) -> Self:
        self.publish()
        self.let_anybody_read()
        return self

    def __exit__(self, *_: object) -> None:
        for secret in self.secrets():
            self.remove(secret["metadata"]["name"])
        self.withdraw()
        self.admin.close()

    def withdraw(self) -> None:
        """Nothing is published any more."""
        for path in (f"{BINDINGS}/{NAME}", f"{ROLES}/{NAME}", PATH):
            self.admin.delete(path)

    @property
    def by_pin(self) -> dict[str, Any]:
        """What to pass to `discover`, but for the token."""
        return {"endpoint": self.endpoint, "ca_cert_hashes": [self.pin], **PATIENT}

    # cluster-info

    def publish(self, kubeconfig: str | None = None, **others: str) -> dict[str, Any]:
        """As `kubeadm init` does: the ConfigMap, new, without any signature (A34). Returns it as it was then."""
        self.admin.delete(PATH)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "cluster-info", "namespace": "kube-public"},
            "data": {"kubeconfig": self.kubeconfig if kubeconfig is None else kubeconfig} | others,
        }
        return self._post("/api/v1/namespaces/kube-public/configmaps", body)

    def let_anybody_read(self) -> None:
        """The Role and the RoleBinding of kubeadm (A33)."""
        metadata = {"name": NAME, "namespace": "kube-public"}
        rule = {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["cluster-info"],
            "verbs": ["get"],
        }
        self._post(ROLES, {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]})
        self._post(
            BINDINGS,
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": NAME},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "system:anonymous"}],
            },
        )
        until(lambda: self._anonymous() == 200)

    @contextmanager
    def read_by_nobody(self) -> Iterator[None]:
        """While this is open, strangers get a 403."""
        self.admin.delete(f"{BINDINGS}/{NAME}").raise_for_status()
        self.admin.delete(f"{ROLES}/{NAME}").raise_for_status()
        until(lambda: self._anonymous() == 403)
        try:
            yield
        finally:
            self.let_anybody_read()

    def _anonymous(self) -> int:
        with Client(ClientConfig(server=self.cluster.server, ca_data=self.cluster.ca), timeout=60) as client:
            return client.get(PATH).status_code

    def info(self) -> dict[str, Any]:
        """cluster-info as it is now."""
        found: dict[str, Any] = self.admin.get(PATH).raise_for_status().json()
        return found

    def version(self) -> int:
        """Of cluster-info: greater after each change."""
        return int(self.info()["metadata"]["resourceVersion"])

    def signatures(self) -> dict[str, str]:
        """Those in it, by the id of their token."""
        prefix = "jws-kubeconfig-"
        found = self.info()["data"]
        return {key.removeprefix(prefix): found[key] for key in found if key.startswith(prefix)}

    # Tokens

    def add(self, token: BootstrapToken | None = None, **options: Any) -> BootstrapToken:
        """A new token, as `kubeadm token create`."""
        new = new_token(token, now=time.time(), **options)
        self._post(SECRETS, new.secret)
        return new.token

    def add_signed(self, **options: Any) -> BootstrapToken:
        """A new token, and when this returns cluster-info is signed with it."""
        token = self.add(**options)
        until(lambda: token.id in self.signatures())
        return token

    def end(self, token: BootstrapToken, seconds: float = 2.0) -> None:
        """One that there is shall be over soon. Of one that is made so, nobody knows how far a busy machine gets."""
        ends = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.UTC)
        expiration = base64.b64encode(ends.strftime("%Y-%m-%dT%H:%M:%SZ").encode()).decode()
        path = f"{SECRETS}/bootstrap-token-{token.id}"
        headers = {"Content-Type": "application/merge-patch+json"}
        self.admin.patch(path, json={"data": {"expiration": expiration}}, headers=headers).raise_for_status()

    def add_secret(self, name: str, data: Mapping[str, str | bytes], **changes: Any) -> dict[str, Any]:
        """A Secret that may be anything."""
        values = {
            key: base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
            for key, value in data.items()
        }
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "data": values,
        } | changes
        return self._post(SECRETS, body)

    def remove(self, name: str) -> None:
        """Whatever somebody wants done before."""
        self.admin.delete(f"{SECRETS}/{name}")
        if self.admin.get(f"{SECRETS}/{name}").status_code == 200:
            headers = {"Content-Type": "application/merge-patch+json"}
            self.admin.patch(
                f"{SECRETS}/{name}", content='{"metadata": {"finalizers": null}}', headers=headers
            )

    def secrets(self) -> list[dict[str, Any]]:
        """All in kube-system, as the API has them."""
        found: list[dict[str, Any]] = self.admin.get(SECRETS).raise_for_status().json()["items"]
        return found

    def signer(self) -> dict[str, str]:
        """Somebody with the rights of bootstrapsigner, and no others: `users[].user` (A32)."""
        subject = {"apiGroup": RBAC, "kind": "User", "name": "e2e-signer"}
        for namespace, rules in {
            "kube-system": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}],
            "kube-public": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": ["cluster-info"],
                    "verbs": ["update"],
                },
            ],
        }.items():
            metadata = {"name": "e2e-signer", "namespace": namespace}
            ref = {"apiGroup": RBAC, "kind": "Role", "name": "e2e-signer"}
            version = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
            self.cluster.apply(
                version | {"kind": "Role", "rules": rules},
                version | {"kind": "RoleBinding", "roleRef": ref, "subjects": [subject]},
            )
        return self.cluster.certificate_user(self.cluster.client_ca.client("e2e-signer", []))

    def whoami(self, config: ClientConfig) -> dict[str, Any] | None:
        """As the API server sees whoever uses it; None: as nobody that it lets in."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        with Client(config, timeout=60) as client:
            answer = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review)
        if answer.status_code == 401:
            return None
        found: dict[str, Any] = answer.raise_for_status().json()["status"]["userInfo"]
        return found

    def bearer(self, token: str) -> dict[str, Any] | None:
        """The same, of a token."""
        return self.whoami(load_config(self.cluster.kubeconfig({"token": token})))

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.admin.post(path, json=dict(body))
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found
