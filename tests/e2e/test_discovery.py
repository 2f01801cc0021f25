"""Clusters that are discovered and joined: a real API server, bootstrapsigner and tokencleaner, kubectl beside them."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeauth import Client, ClientConfig, errors, load_config
from kubeauth.discovery import (
    BootstrapToken,
    Progress,
    public_key_pin,
)
from kubeauth.testing import Answer, Authority
from tests.discovery.clusters import BRIEF, PATH, RUNTIMES, Runtime, published
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import PATIENT, RBAC, SECRETS, Joinable, until
from tests.registry.servers import Server

NODES = "system:bootstrappers:kubeadm:default-node-token"


@pytest.fixture(params=RUNTIMES, ids=str)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.param
    return found


@pytest.fixture(scope="session")
def evil() -> Authority:
    return Authority("kubeauth e2e evil")


class TestByToken:
    def test_a_token_and_a_pin_are_all_that_is_needed_a24_a38_a39_a47_a59(
        self, runtime: Runtime, joinable: Joinable
    ) -> None:
        """The token is made when discovery waits for it: the real controller signs, and the server lets it in."""
        token = BootstrapToken.generate()
        told: list[Progress] = []

        def progress(event: Progress) -> None:
            told.append(event)
            if event.stage == "signature" and event.tries == 1:
                joinable.add(token)

        before = len(joinable.cluster.audit(path=PATH))
        found = runtime.discover(token=token, progress=progress, **joinable.by_pin)
        stages = list(dict.fromkeys(event.stage for event in told))
        assert stages == ["endpoint", "signature", "verification"]
        assert (found.method, found.pins, found.warnings) == ("token", (joinable.pin,), ())
        assert found.config.server == joinable.cluster.server

        until(lambda: joinable.whoami(found.config) is not None)  # the server has a view of its own
        user = joinable.whoami(found.config)
        assert user is not None
        assert user["username"] == f"system:bootstrap:{token.id}"
        assert sorted(user["groups"]) == ["system:authenticated", "system:bootstrappers", NODES]
        # Whoever asked for cluster-info was nobody: the token was not shown before the cluster was known.
        asked = [each for each in joinable.cluster.audit(path=PATH)[before:] if each["verb"] == "get"]
        strangers = [each for each in asked if each["user"]["username"] != "e2e-admin"]
        assert len(strangers) >= 3
        assert {each["user"]["username"] for each in strangers} == {"system:anonymous"}

    def test_what_it_comes_to_is_what_kubeadm_writes_a59(self, joinable: Joinable) -> None:
        token = joinable.add_signed()
        found = Runtime("sync").discover(token=token, **joinable.by_pin)
        (cluster,) = found.kubeconfig["clusters"]
        assert cluster["name"] == "kubernetes"
        assert cluster["cluster"] == {
            "server": joinable.cluster.server,
            "certificate-authority-data": base64.b64encode(joinable.cluster.ca).decode(),
        }
        assert found.kubeconfig["users"] == [
            {"name": "tls-bootstrap-token-user", "user": {"token": token.reveal()}}
        ]
        assert found.kubeconfig["current-context"] == "tls-bootstrap-token-user@kubernetes"
        assert token.secret.reveal() not in repr(found)

    def test_kubectl_uses_what_was_saved(self, joinable: Joinable, tmp_path: Path) -> None:
        token = joinable.add_signed()
        found = Runtime("sync").discover(token=token, **joinable.by_pin)
        path = tmp_path / "bootstrap.conf"
        found.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        until(lambda: joinable.whoami(load_config(path)) is not None)
        ran = joinable.cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=path)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["status"]["userInfo"]["username"] == f"system:bootstrap:{token.id}"

    def test_without_a_pin_the_token_alone_is_believed_a45(
        self, runtime: Runtime, joinable: Joinable
    ) -> None:
        token = joinable.add_signed()
        found = runtime.discover(joinable.endpoint, token=token, unsafe_skip_ca_verification=True, **PATIENT)
        assert (found.config.server, found.pins) == (joinable.cluster.server, (joinable.pin,))

    def test_another_pin_is_refused_with_what_was_seen_a46(
        self, runtime: Runtime, joinable: Joinable, evil: Authority
    ) -> None:
        token = joinable.add_signed()
        with pytest.raises(errors.ClusterNotTrusted) as caught:
            runtime.discover(
                joinable.endpoint, token=token, ca_cert_hashes=[public_key_pin(evil.pem)], **PATIENT
            )
        assert (caught.value.reason, caught.value.pins) == ("pin", (joinable.pin,))

    def test_another_secret_is_refused_at_once_a19_a40(self, runtime: Runtime, joinable: Joinable) -> None:
        token = joinable.add_signed()
        wrong = BootstrapToken(token.id, BootstrapToken.generate().secret)
        with pytest.raises(errors.ClusterNotTrusted) as caught:
            runtime.discover(token=wrong, **joinable.by_pin)
        assert caught.value.reason == "signature"
        for secret in (token, wrong):
            assert secret.secret.reveal() not in str(caught.value)

    def test_a_token_that_the_cluster_does_not_know_a39(self, runtime: Runtime, joinable: Joinable) -> None:
        token = BootstrapToken.generate()
        with pytest.raises(
            errors.ClusterNotReady, match=f"no signature for the token id {token.id}"
        ) as caught:
            runtime.discover(token=token, **joinable.by_pin | BRIEF)
        assert (caught.value.status_code, caught.value.attempts > 1) == (200, True)

    def test_a_token_that_is_not_for_signing_is_not_found_but_let_in_a6_a29(self, joinable: Joinable) -> None:
        token = joinable.add(usages=["authentication"])
        joinable.add_signed()  # the signer has seen both
        with pytest.raises(errors.ClusterNotReady, match="no signature"):
            Runtime("sync").discover(token=token, **joinable.by_pin | BRIEF)
        until(lambda: joinable.bearer(token.reveal()) is not None)

    def test_strangers_who_may_not_read_it_are_told_so_a33_a39(
        self, runtime: Runtime, joinable: Joinable
    ) -> None:
        token = joinable.add_signed()
        with joinable.read_by_nobody(), pytest.raises(errors.ClusterNotReady) as caught:
            runtime.discover(token=token, **joinable.by_pin | BRIEF)
        assert caught.value.status_code == 403

    def test_a_cluster_that_is_not_set_up_a39(self, joinable: Joinable) -> None:
        joinable.admin.delete(PATH).raise_for_status()
        with pytest.raises(errors.ClusterNotReady) as caught:
            Runtime("sync").discover(token=BootstrapToken.generate(), **joinable.by_pin | BRIEF)
        assert caught.value.status_code == 404

    def test_a_ca_that_was_added_to_the_pinned_one_is_not_trusted_a51(
        self, runtime: Runtime, joinable: Joinable, evil: Authority
    ) -> None:
        """Whoever may write cluster-info added his own; kubeadm would trust both."""
        both = joinable.cluster.ca + evil.pem
        joinable.publish(published(joinable.cluster.server, both))
        token = joinable.add_signed()
        found = runtime.discover(token=token, **joinable.by_pin)
        assert (found.pins, found.config.ca_data) == ((joinable.pin,), joinable.cluster.ca)
        assert public_key_pin(evil.pem) in found.warnings[0]

    def test_a_ca_that_is_another_is_refused_though_it_is_signed_a46(
        self, joinable: Joinable, evil: Authority
    ) -> None:
        joinable.publish(published(joinable.cluster.server, evil.pem))
        token = joinable.add_signed()
        with pytest.raises(errors.ClusterNotTrusted) as caught:
            Runtime("sync").discover(token=token, **joinable.by_pin)
        assert caught.value.reason == "pin"

    def test_whoever_has_another_certificate_is_not_verified_a47(
        self, joinable: Joinable, evil: Authority
    ) -> None:
        """Somebody in between: he hands on what the cluster says, to the letter, and cannot prove to be it."""
        token = joinable.add_signed()

        def handed_on(_: object) -> Answer:
            return Answer(200, joinable.info())

        with Server(handed_on, evil) as between, pytest.raises(errors.ClusterNotReady) as caught:
            Runtime("sync").discover(token=token, **joinable.by_pin | BRIEF | {"endpoint": between.host})
        assert "certificate" in str(caught.value)
        assert all(
            "authorization" not in {name.lower() for name, _ in each.headers} for each in between.requests
        )

    def test_a_token_that_is_over_is_cleaned_away_and_finds_nothing_a12_a14_a30_a35(
        self, joinable: Joinable
    ) -> None:
        token = joinable.add_signed()
        found = Runtime("sync").discover(token=token, **joinable.by_pin)
        until(lambda: joinable.whoami(found.config) is not None)
        joinable.end(token)
        # The real tokencleaner, then the real bootstrapsigner.
        until(lambda: joinable.admin.get(f"{SECRETS}/bootstrap-token-{token.id}").status_code == 404)
        until(lambda: token.id not in joinable.signatures())
        with pytest.raises(errors.ClusterNotReady, match="no signature"):
            Runtime("sync").discover(token=token, **joinable.by_pin | BRIEF)
        # The server remembers for ten seconds that it was good.
        until(lambda: joinable.whoami(found.config) is None)

    def test_a_node_joins_and_needs_the_token_no_more(self, joinable: Joinable, tmp_path: Path) -> None:
        """From a token and a pin to a certificate of its own, as a kubelet does it: TLS bootstrap."""
        allow_nodes_to_join(joinable.cluster)
        token = joinable.add_signed()
        found = Runtime("sync").discover(token=token, **joinable.by_pin)
        until(lambda: joinable.whoami(found.config) is not None)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = signed_certificate(found.config, key, f"node-{token.id}")
        joinable.remove(f"bootstrap-token-{token.id}")
        user = {
            "client-certificate-data": base64.b64encode(certificate).decode(),
            "client-key-data": base64.b64encode(pem_of(key)).decode(),
        }
        document = found.kubeconfig | {"users": [{"name": "tls-bootstrap-token-user", "user": user}]}
        who = joinable.whoami(load_config(document))
        assert who is not None
        assert who["username"] == f"system:node:node-{token.id}"
        assert "system:nodes" in who["groups"]


def allow_nodes_to_join(cluster: ControlPlane) -> None:
    """The bindings of `kubeadm init` that a kubelet needs for its first certificate."""
    roles = {
        "kubeadm:kubelet-bootstrap": "system:node-bootstrapper",
        "kubeadm:node-autoapprove-bootstrap": "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
    }
    cluster.apply(
        *(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": NODES}],
            }
            for name, role in roles.items()
        )
    )


def signed_certificate(config: ClientConfig, key: ec.EllipticCurvePrivateKey, node: str) -> bytes:
    """What the cluster gives to whoever asks as that node."""
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    request = (
        x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    )
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": node},
        "spec": {
            "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    with Client(config, timeout=60) as client:
        # The bindings may be younger than what the server knows of them.
        until(lambda: client.post(path, json=body).status_code == 201)
        status: dict[str, Any] = {}

        def is_signed() -> bool:
            status.update(client.get(f"{path}/{node}").raise_for_status().json()["status"])
            return "certificate" in status

        until(is_signed)
    return base64.b64decode(status["certificate"])


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class TestByFile:
    """A kubeconfig that somebody was given: the server must prove to be the one in it (A67-A70)."""

    @pytest.fixture
    def user(self, joinable: Joinable) -> dict[str, str]:
        """Somebody of the cluster who may read nothing."""
        return joinable.cluster.certificate_user(joinable.cluster.client_ca.client("e2e-joiner", []))

    def written(self, path: Path, document: dict[str, Any]) -> Path:
        path.write_text(yaml.safe_dump(document))
        return path

    def test_its_server_proves_itself_and_a_token_is_put_in_a44_a59_a68(
        self, runtime: Runtime, joinable: Joinable, tmp_path: Path
    ) -> None:
        """What cluster-info holds, in a file: no user, no context."""
        path = tmp_path / "cluster-info.yaml"
        path.write_text(joinable.kubeconfig)
        token = joinable.add()
        found = runtime.discover(file=path, tls_bootstrap_token=token, **PATIENT)
        assert (found.method, found.pins, found.warnings) == ("file", (joinable.pin,), ())
        until(lambda: joinable.whoami(found.config) is not None)

    def test_its_own_credentials_are_kept_a60_a68(
        self, runtime: Runtime, joinable: Joinable, user: dict[str, str], tmp_path: Path
    ) -> None:
        """He may not read cluster-info: that 403 came from the right server, and that is enough."""
        path = self.written(tmp_path / "given", joinable.cluster.kubeconfig(user))
        before = len(joinable.cluster.audit(user="e2e-joiner", path=PATH))
        found = runtime.discover(file=path, **PATIENT)
        who = joinable.whoami(found.config)
        assert who is not None
        assert who["username"] == "e2e-joiner"
        # It is written down when it was answered.
        until(lambda: len(joinable.cluster.audit(user="e2e-joiner", path=PATH)) > before)
        asked = joinable.cluster.audit(user="e2e-joiner", path=PATH)[before:]
        assert [each["responseStatus"]["code"] for each in asked] == [403]

    def test_files_that_it_names_are_put_inside_a67(
        self, joinable: Joinable, user: dict[str, str], tmp_path: Path
    ) -> None:
        document = joinable.cluster.kubeconfig({"client-certificate": "user.pem", "client-key": "user.key"})
        cluster = document["clusters"][0]["cluster"]
        (tmp_path / "ca.pem").write_bytes(base64.b64decode(cluster.pop("certificate-authority-data")))
        cluster["certificate-authority"] = "ca.pem"
        for name, key in (("user.pem", "client-certificate-data"), ("user.key", "client-key-data")):
            (tmp_path / name).write_bytes(base64.b64decode(user[key]))
        found = Runtime("sync").discover(file=self.written(tmp_path / "given", document), **PATIENT)
        found.save(tmp_path / "elsewhere.conf")
        for name in ("ca.pem", "user.pem", "user.key"):
            (tmp_path / name).unlink()
        ran = joinable.cluster.kubectl("auth", "whoami", kubeconfig=tmp_path / "elsewhere.conf")
        assert "e2e-joiner" in ran.stdout, ran.stderr

    def test_another_ca_than_the_servers_a68(
        self, joinable: Joinable, evil: Authority, tmp_path: Path
    ) -> None:
        path = tmp_path / "given"
        path.write_text(published(joinable.cluster.server, evil.pem))
        with pytest.raises(errors.ClusterNotReady, match="certificate"):
            Runtime("sync").discover(file=path, tls_bootstrap_token=BootstrapToken.generate(), **BRIEF)

    def test_credentials_that_the_server_does_not_take_a68(self, joinable: Joinable, tmp_path: Path) -> None:
        path = self.written(tmp_path / "given", joinable.cluster.kubeconfig({"token": "nobody-s-token"}))
        with pytest.raises(errors.ClusterNotReady) as caught:
            Runtime("sync").discover(file=path, **BRIEF)
        assert caught.value.status_code == 401
        assert "nobody-s-token" not in str(caught.value)

    def test_a_cluster_that_says_another_address_is_only_told_of_a70(
        self, joinable: Joinable, tmp_path: Path
    ) -> None:
        (tmp_path / "given").write_text(joinable.kubeconfig)
        joinable.publish(published("https://elsewhere.example:6443", joinable.cluster.ca))
        token = joinable.add()
        found = Runtime("sync").discover(file=tmp_path / "given", tls_bootstrap_token=token, **PATIENT)
        assert found.config.server == joinable.cluster.server
        assert "elsewhere.example:6443" in found.warnings[0]

    def test_a_ca_is_taken_from_a_server_that_the_system_trusts_a70(
        self, joinable: Joinable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(joinable.cluster.ca_file))
        document = yaml.safe_load(joinable.kubeconfig)
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
        path = self.written(tmp_path / "given", document)
        found = Runtime("sync").discover(file=path, tls_bootstrap_token=joinable.add(), **PATIENT)
        assert (found.pins, found.config.ca_data) == ((joinable.pin,), joinable.cluster.ca)


class TestByUrl:
    """The same, from an https server that the system trusts (A66)."""

    def test_it_is_fetched_and_then_its_server_proves_itself_a66_a68(
        self, runtime: Runtime, joinable: Joinable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trusted = Authority("kubeauth e2e web")
        (tmp_path / "roots.pem").write_bytes(trusted.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
        token = joinable.add()
        with Server(lambda _: Answer(200, body=joinable.kubeconfig.encode()), trusted) as web:
            found = runtime.discover(url=f"{web.url}/cluster.conf", tls_bootstrap_token=token, **PATIENT)
            assert len(web.requests) == 1
        assert (found.method, found.pins) == ("url", (joinable.pin,))
        until(lambda: joinable.whoami(found.config) is not None)

    def test_a_server_that_the_system_does_not_trust(self, joinable: Joinable) -> None:
        with (
            Server(lambda _: Answer(200, body=joinable.kubeconfig.encode()), Authority("nobody")) as web,
            pytest.raises(errors.DiscoveryError, match="certificate"),
        ):
            Runtime("sync").discover(url=web.url, tls_bootstrap_token=BootstrapToken.generate(), **BRIEF)
        assert web.requests == []
