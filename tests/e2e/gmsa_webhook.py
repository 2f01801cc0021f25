"""The GMSA webhook before a real API server: installed by what `kubeauth gmsa manifests` prints, and run."""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from kubeauth import Client, load_config
from kubeauth.testing import KeyPair
from kubeauth.transports import AsyncDirectTransport
from tests.cli.programs import KUBEAUTH, kubeauth
from tests.e2e.cluster import PATIENCE, ControlPlane
from tests.gmsa.pods import LISTS, Document, container, context
from tests.gmsa.test_pair import Mounted
from tests.support.ports import free_ports

SERVE = [*KUBEAUTH, "gmsa", "serve"]
SPECS = "/apis/windows.k8s.io/v1/gmsacredentialspecs"
SPECS_ALPHA = SPECS.replace("v1/", "v1alpha1/")
CRD = "gmsacredentialspecs.windows.k8s.io"
NAME = "gmsa-webhook"
_RBAC = "rbac.authorization.k8s.io"


def until(claim: Callable[[], str], what: str) -> None:
    """For what another process does when it gets to it. `claim` says why not, and nothing when it is so."""
    end = time.monotonic() + PATIENCE
    while why := claim():
        assert time.monotonic() < end, f"{what}: {why}"
        time.sleep(0.1)


class Manifests:
    """What the command has printed."""

    def __init__(self, *flags: str) -> None:
        ran = kubeauth("gmsa", "manifests", "--image", "registry.example/kubeauth:1", *flags)
        assert (ran.status, ran.err) == (0, "")
        self.text = ran.out
        self.documents: list[Document] = list(yaml.safe_load_all(ran.out))

    def of(self, kind: str) -> Document:
        return next(each for each in self.documents if each["kind"] == kind)

    @property
    def pair(self) -> KeyPair:
        data = self._secret()
        return KeyPair(data["tls.crt"], data["tls.key"])

    @property
    def ca(self) -> bytes:
        return self._secret()["ca.crt"]

    def _secret(self) -> dict[str, bytes]:
        return {name: base64.b64decode(value) for name, value in self.of("Secret")["data"].items()}

    def on_loopback(self, port: int) -> list[Document]:
        """As they are, but that the Service leads to this machine. Names and certificates stay what they were."""
        documents: list[Document] = json.loads(json.dumps(self.documents))
        for each in documents:
            for webhook in each.get("webhooks", ()):
                webhook["clientConfig"]["service"]["port"] = port
            if each["kind"] == "Service":
                each["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        return documents


class Webhook:
    """`with Webhook(cluster, directory) as webhook:` is one that the API server asks; in the end all of it is gone.

    The certificate it shows is of the last of three that were installed one after the other, each with the CAs of
    those before. So all three are trusted.
    """

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.namespace = f"{NAME}-{secrets.token_hex(3)}"
        self.server_name = f"{NAME}.{self.namespace}.svc"
        (self.port,) = free_ports(1)
        self.admin = Client(load_config(cluster.admin()), timeout=60)
        self.log = directory / "log"
        (directory / "tls").mkdir()
        self.mounted = Mounted(directory / "tls")
        self.installed: list[Manifests] = []
        self.from_before: Document = {}

    def __enter__(self) -> Self:
        try:
            self._install()
            self._write_kubeconfig()
            self.mounted.swap(self.installed[-1].pair)
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.kill()
        self.admin.close()
        for manifests in self.installed[-1:]:
            # Whatever is left of it would be asked about the pods of all tests that come after.
            self.cluster.kubectl(
                "delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=manifests.text
            )
            self.cluster.kubectl("delete", "--ignore-not-found", "crd", CRD)

    # What is installed

    def _install(self) -> None:
        self._have_an_older_definition()
        bundle = self._directory / "older.crt"
        bundle.write_bytes(b"")
        for number in range(3):
            older = ["--ca-bundle", str(bundle)] if number else []
            manifests = Manifests("-n", self.namespace, *older)
            self.installed.append(manifests)
            if number < 2:
                ran = self.cluster.kubectl("apply", "-f", "-", stdin=manifests.text)
                assert ran.returncode == 0, ran.stderr
            bundle.write_bytes(bundle.read_bytes() + manifests.ca)
        self.cluster.apply(*self.installed[-1].on_loopback(self.port))
        until(lambda: self._get(SPECS), "the custom resource")
        self.trust = ssl.create_default_context(cadata=bundle.read_text())

    def _have_an_older_definition(self) -> None:
        """As the first releases of kubernetes-sigs had it: one version, which is the one that is stored."""
        crd = Manifests("-n", self.namespace).of("CustomResourceDefinition")
        older: Document = json.loads(json.dumps(crd))
        (version,) = (each for each in older["spec"]["versions"] if each["name"] == "v1alpha1")
        older["spec"]["versions"] = [{**version, "storage": True, "deprecated": False}]
        self.cluster.apply(older)
        until(lambda: self._get(SPECS_ALPHA), "the older custom resource")
        self.from_before = self.add_spec("from-before", {"CmsPlugins": ["ActiveDirectory"]}, path=SPECS_ALPHA)

    def _get(self, path: str) -> str:
        reply = self.admin.get(path)
        return "" if reply.status_code == 200 else reply.text

    def add_spec(self, name: str, credspec: Mapping[str, Any] | None, *, path: str = SPECS) -> Document:
        body: Document = {
            "apiVersion": path.removeprefix("/apis/").rpartition("/")[0],
            "kind": "GMSACredentialSpec",
            "metadata": {"name": name},
        }
        if credspec is not None:
            body["credspec"] = credspec
        reply = self.admin.post(path, json=body)
        assert reply.status_code == 201, reply.text
        made: Document = reply.json()
        return made

    # What it was asked

    def asked(self, path: str, operation: str = "CREATE", code: int = 200) -> int:
        """How many reviews it has answered so, by its own count."""
        with httpx.Client(verify=self.trust, timeout=60) as client:
            url = f"https://127.0.0.1:{self.port}/metrics"
            reply = client.get(url, extensions={"sni_hostname": self.server_name})
        labels = f'{{code="{code}",operation="{operation}",path="{path}"}}'
        counts = [
            line.rpartition(" ")[2]
            for line in reply.text.splitlines()
            if line.startswith(f"kubeauth_gmsa_reviews_total{labels}")
        ]
        return sum(int(float(each)) for each in counts)

    # The process

    def _write_kubeconfig(self) -> None:
        """With a token of its own service account, as a pod has one: so it may do what the manifests let it do."""
        ran = self.cluster.kubectl("create", "token", NAME, "-n", self.namespace, "--duration", "1h")
        assert ran.returncode == 0, ran.stderr
        document = self.cluster.kubeconfig({"token": ran.stdout.strip()})
        (self._directory / "kubeconfig").write_text(json.dumps(document))

    def start(self, **environ: str) -> None:
        """Returns when it answers."""
        certificate, key = map(str, self.mounted.files)
        given = {
            "KUBECONFIG": str(self._directory / "kubeconfig"),
            "TLS_CRT": certificate,
            "TLS_KEY": key,
            "HTTPS_PORT": str(self.port),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                SERVE,
                env={**os.environ, **given, **environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(lambda: "" if self.shown() else self._last_words(), "the webhook")

    def kill(self) -> None:
        """As a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        return self.log.read_text()[-2000:] or "it says nothing"

    def shown(self) -> bytes | None:
        """The certificate that it shows to somebody new; None if nobody is there."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as raw:
                with self.trust.wrap_socket(raw, server_hostname=self.server_name) as wrapped:
                    return wrapped.getpeercert(binary_form=True)
        except ConnectionError:
            return None

    def straight(self, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
        """A client that asks the webhook as the API server does, by the same name. By default it keeps connections."""

        async def named(request: httpx.Request) -> None:
            request.extensions["sni_hostname"] = self.server_name

        return httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{self.port}",
            # The cheapest there is: what sends has to share a machine with what is asked.
            transport=transport or AsyncDirectTransport(self.trust),
            timeout=60,
            event_hooks={"request": [named]},
        )


class Tenant:
    """A namespace with pods in it. The service account `robot` may use credential specs there, and `stranger` may not."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.namespace = f"shop-{secrets.token_hex(3)}"
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self._role = f"{self.namespace}-users"
        metadata = {"namespace": self.namespace}
        webhook.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            *(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata | {"name": name}}
                for name in ("robot", "stranger")
            ),
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": self._role},
                "rules": [
                    {"apiGroups": ["windows.k8s.io"], "resources": ["gmsacredentialspecs"], "verbs": ["use"]}
                ],
            },
        )
        self.bind()

    def close(self) -> None:
        self.webhook.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")
        self.webhook.cluster.kubectl("delete", "clusterrole", self._role)

    # Who may

    def bind(self) -> None:
        """A RoleBinding of this namespace (B6, B7), and waits till it counts."""
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": self.namespace}
        self.webhook.cluster.apply(
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "robot", "namespace": self.namespace},
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": self._role},
                "subjects": [subject],
            }
        )
        until(lambda: "" if self.may_use() else "the authorizer says no", "the role binding")

    def unbind(self) -> None:
        """Returns when the API server's own authorizer has heard of it: it watches, as all do."""
        path = f"/apis/{_RBAC}/v1/namespaces/{self.namespace}/rolebindings/robot"
        self.webhook.admin.delete(path).raise_for_status()
        until(lambda: "the authorizer says yes" if self.may_use() else "", "the role binding to be gone")

    def may_use(self, spec: str = "web") -> bool:
        account = f"system:serviceaccount:{self.namespace}:robot"
        what = ["auth", "can-i", "use", f"gmsacredentialspecs.windows.k8s.io/{spec}"]
        return self.webhook.cluster.kubectl(*what, "--as", account, "-n", self.namespace).stdout == "yes\n"

    # Pods

    def pod(self, level: str = "", *options: str | None, account: str = "robot", **spec: Any) -> Document:
        """With options at one level; without a level it is for nobody in particular."""
        made: Document = {"serviceAccountName": account, "containers": [container("c")], **spec}
        if level == "pod":
            made["securityContext"] = context(*options)
        elif level:
            made[LISTS[level]] = [*made.get(LISTS[level], ()), container("here", *options)]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}, "spec": made}

    def create(self, pod: Document, **query: str) -> httpx.Response:
        return self.webhook.admin.post(self._pods, json=pod, params=query)

    def created(self, pod: Document) -> Document:
        reply = self.create(pod)
        assert reply.status_code == 201, reply.text
        made: Document = reply.json()
        return made

    def put(self, pod: Document, subresource: str = "") -> httpx.Response:
        return self.webhook.admin.put(f"{self._pods}/{pod['metadata']['name']}{subresource}", json=pod)

    def get(self, name: str) -> Document:
        found: Document = self.webhook.admin.get(f"{self._pods}/{name}").raise_for_status().json()
        return found
