"""A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager, with a CA of its own."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kubeauth.testing import Authority, KeyPair
from tests.e2e import tools
from tests.support.oidc_issuer import Issuer
from tests.support.ports import free_ports

ADMIN_TOKEN = "token-of-the-admin"  # in --token-auth-file
PATIENCE = 120.0

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    # What the control plane says to itself is of no interest.
    "rules": [
        {"level": "None", "users": ["system:apiserver", "system:kube-controller-manager"]},
        {"level": "Metadata"},
    ],
}
_CONTROLLERS = [
    "certificatesigningrequest-signing",
    "certificatesigningrequest-approving",
    "serviceaccount",
    "root-ca-certificate-publisher",
    "namespace",
    "clusterrole-aggregation",
    "bootstrap-signer",
    "token-cleaner",
    "garbage-collector",
]


class ControlPlane:
    """`with ControlPlane() as cluster:` gives one that is ready, and leaves nothing behind.

    Client certificates are signed by `client_ca`: the common name is the user, organizations are groups. ID
    tokens of `issuer` are taken too, as user and groups that start with "oidc:". The server looks at every
    request's certificate, but remembers for 10 s that a token was good.
    """

    def __init__(self) -> None:
        self._kube, self._etcd = tools.kube(), tools.debian("etcd", "etcd-server")
        self.directory = Path(tempfile.mkdtemp(prefix="kubeauth-e2e-"))
        self.client_ca = Authority("kubeauth e2e clients")
        server_ca = Authority("kubeauth e2e server")
        self.ca = server_ca.pem
        self.ca_file = self._write("ca.pem", server_ca.pem)
        self._serving = server_ca.server("127.0.0.1", "localhost", "kubernetes.default.svc")
        self._ports = free_ports(3)
        self.server = f"https://127.0.0.1:{self._ports[0]}"
        self.issuer = Issuer(passwords={"alice": "password-of-alice"})
        self._stack = contextlib.ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.issuer)
            self._write_files()
            self._start_etcd()
            self.start_apiserver()
            self.start_controllers()
            self._wait("a service account in the namespace default", self._has_service_account)
            self._wait("rules for the role edit", self._has_roles)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for name in reversed(list(self._running)):
            self._stop(name, kill=True)
        self._stack.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # What tests use

    def kubeconfig(
        self, user: dict[str, Any], cluster: Mapping[str, Any] | None = None, namespace: str | None = None
    ) -> dict[str, Any]:
        """A kubeconfig with one context, for `load_config` or to be written to a file."""
        authority = base64.b64encode(self.ca).decode()
        context = {"cluster": "e2e", "user": "e2e"} | ({"namespace": namespace} if namespace else {})
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "clusters": [
                {
                    "name": "e2e",
                    "cluster": {"server": self.server, "certificate-authority-data": authority}
                    | dict(cluster or {}),
                }
            ],
            "users": [{"name": "e2e", "user": user}],
            "contexts": [{"name": "e2e", "context": context}],
        }

    def admin(self) -> dict[str, Any]:
        """Somebody who may do anything."""
        return self.kubeconfig({"token": ADMIN_TOKEN})

    def certificate_user(self, pair: KeyPair) -> dict[str, str]:
        """`users[].user` with that certificate."""
        return {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }

    def kubectl(
        self,
        *arguments: str,
        kubeconfig: Mapping[str, Any] | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """kubectl of the same release, as the admin unless told otherwise. Look at its exit code."""
        with tempfile.TemporaryDirectory() as home:
            if not isinstance(kubeconfig, os.PathLike):
                path = Path(home, "config")
                path.write_text(yaml.safe_dump(dict(kubeconfig or self.admin())))
            else:
                path = Path(kubeconfig)
            variables = {"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": str(path)} | dict(env or {})
            command = [str(self._kube), "kubectl", *arguments]
            return subprocess.run(
                command,
                env=variables,
                input=stdin or "",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """What is there after this: `kubectl apply`."""
        run = self.kubectl("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in objects))
        assert run.returncode == 0, run.stderr

    def allow(
        self, role: str, *, user: str | None = None, group: str | None = None, namespace: str = ""
    ) -> None:
        """Binds `view`, `edit`, or another ClusterRole that lets ConfigMaps be listed, and waits till it counts."""
        subject = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "User" if user else "Group",
            "name": user or group,
        }
        name = f"e2e-{role}-{user or group}".replace(":", "-").lower()
        self.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
                "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [subject],
            }
        )
        me = ["--as", user] if user else ["--as", "anybody", "--as-group", str(group)]
        where = ["--namespace", namespace] if namespace else ["--all-namespaces"]
        asked = ["auth", "can-i", "list", "configmaps", *me, *where]
        self._wait(f"the role {role}", lambda: self.kubectl(*asked).returncode == 0)

    def audit(self, **wanted: object) -> list[dict[str, Any]]:
        """What the server has answered, oldest first; `user=` and `path=` choose."""
        try:
            lines = (self.directory / "audit.log").read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        events: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("\n")]
        if "user" in wanted:
            events = [each for each in events if each["user"].get("username") == wanted["user"]]
        if "path" in wanted:
            events = [each for each in events if each["requestURI"].partition("?")[0] == wanted["path"]]
        return events

    def start_apiserver(self) -> None:
        """Returns when it is ready; at once, if it is running."""
        if "apiserver" in self._running:
            return
        file = self.directory.joinpath
        self._start(
            "apiserver",
            str(self._kube), "apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._ports[1]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[0]}",
            # Nobody connects to it; the server insists on one that is not loopback.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={file('server.pem')}",
            f"--tls-private-key-file={file('server.key')}",
            f"--client-ca-file={file('client-ca.pem')}",
            f"--token-auth-file={file('tokens.csv')}",
            "--enable-bootstrap-token-auth",
            f"--oidc-issuer-url={self.issuer.url}",
            f"--oidc-ca-file={file('issuer-ca.pem')}",
            f"--oidc-client-id={self.issuer.client_id}",
            "--oidc-username-claim=sub",
            "--oidc-username-prefix=oidc:",
            "--oidc-groups-claim=groups",
            "--oidc-groups-prefix=oidc:",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={file('service-accounts.pub')}",
            f"--service-account-signing-key-file={file('service-accounts.key')}",
            f"--audit-policy-file={file('audit-policy.yaml')}",
            f"--audit-log-path={file('audit.log')}",
            "--audit-log-maxsize=0",
            # Asks etcd for what Debian's does not have.
            "--feature-gates=SizeBasedListCostEstimate=false",
            "--shutdown-delay-duration=0s",
            "--v=1",
        )  # fmt: skip
        self._wait("the API server", lambda: self._get("/readyz") == 200)

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """As `systemctl stop`, or as a power cut."""
        self._stop("apiserver", kill=kill)

    def start_controllers(self, *, without: Collection[str] = ()) -> None:
        """All that tests need, but for those named: `bootstrap-signer`, `token-cleaner`, ... Does not wait for them."""
        assert set(without) <= set(_CONTROLLERS)
        names = ",".join(f"{name}-controller" for name in _CONTROLLERS if name not in without)
        file = self.directory.joinpath
        self._start(
            "controllers",
            str(self._kube), "controller-manager",
            f"--kubeconfig={file('controllers.yaml')}",
            f"--controllers={names}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials=false",
            f"--cluster-signing-cert-file={file('client-ca.pem')}",
            f"--cluster-signing-key-file={file('client-ca.key')}",
            f"--service-account-private-key-file={file('service-accounts.key')}",
            f"--root-ca-file={self.ca_file}",
        )  # fmt: skip

    def stop_controllers(self) -> None:
        """At once: they keep nothing but what the API server has."""
        self._stop("controllers", kill=True)

    # How it is made

    def _write(self, name: str, data: bytes | str) -> Path:
        path = self.directory / name
        path.touch(0o600)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def _write_files(self) -> None:
        self._serving.write(self.directory / "server.pem", self.directory / "server.key")
        self._write("client-ca.pem", self.client_ca.pem)
        key = self.client_ca._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._write("client-ca.key", key)
        accounts = rsa.generate_private_key(65537, 2048)
        pem = serialization.Encoding.PEM
        self._write(
            "service-accounts.key",
            accounts.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        )
        self._write(
            "service-accounts.pub",
            accounts.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo),
        )
        self._write("tokens.csv", f'{ADMIN_TOKEN},e2e-admin,1,"system:masters"\n')
        self._write("issuer-ca.pem", self.issuer.ca)
        self._write("audit-policy.yaml", yaml.safe_dump(_POLICY))
        controllers = self.client_ca.client("system:kube-controller-manager", ["system:masters"])
        self._write("controllers.yaml", yaml.safe_dump(self.kubeconfig(self.certificate_user(controllers))))

    def _start_etcd(self) -> None:
        clients, peers = (f"http://127.0.0.1:{port}" for port in self._ports[1:])
        self._start(
            "etcd",
            str(self._etcd),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )

    def _start(self, name: str, *command: str) -> None:
        remove = ["--remove", str(self.directory)] if name == "etcd" else []
        log = str(self.directory / f"{name}.log")
        keeper = [sys.executable, "-IS", str(tools.HERE / "keeper.py"), log, *remove, "--", *command]
        self._running[name] = subprocess.Popen(keeper, stdin=subprocess.PIPE, process_group=0)

    def _stop(self, name: str, *, kill: bool = False) -> None:
        keeper = self._running.pop(name, None)
        if keeper is None:
            return
        if not kill:
            keeper.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(15)
        assert keeper.stdin is not None
        keeper.stdin.close()
        keeper.wait(30)

    def _get(self, path: str) -> int:
        context = ssl.create_default_context(cadata=self.ca.decode())
        try:
            with urllib.request.urlopen(self.server + path, context=context, timeout=5) as answer:  # noqa: S310 -- a server of ours, on loopback
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def _has_service_account(self) -> bool:
        return self.kubectl("get", "serviceaccount", "default").returncode == 0

    def _has_roles(self) -> bool:
        return "configmaps" in self.kubectl("get", "clusterrole", "edit", "-o", "jsonpath={.rules}").stdout

    def _wait(self, what: str, is_there: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_there():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended while waiting for {what}:\n{self.log(name)}")
            if time.monotonic() > end:
                raise RuntimeError(f"no sign of {what}:\n{self.log('apiserver')}")
            time.sleep(0.1)

    def log(self, name: str) -> str:
        """The end of what etcd, apiserver or controllers had to say."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""
