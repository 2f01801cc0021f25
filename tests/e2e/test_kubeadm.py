"""kubeadm of the same release beside us, on the same cluster: its tokens, its discovery, and what each makes of the other's."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from kubeauth import AsyncClient, errors, load_config
from kubeauth.discovery import (
    BootstrapToken,
    Signer,
    discover,
    public_key_pin,
    sign_detached,
    tokens_of,
    verify_detached,
)
from kubeauth.testing import Answer, Authority
from tests.discovery.clusters import BRIEF, Runtime, published
from tests.e2e import tools
from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import PATIENT, Joinable, until
from tests.registry.servers import Server

# For what must fail. kubeadm asks every five seconds, or once in as many as it has.
SECONDS = 4.0
OURS: dict[str, Any] = {"timeout": SECONDS, "interval": 0.2}


@pytest.fixture
def kubeadm(joinable: Joinable, tmp_path: Path) -> Kubeadm:
    try:
        return Kubeadm(joinable, tmp_path)
    except tools.Missing as missing:
        pytest.skip(str(missing))


# Said, so that it need not look around on the machine, or ask for the newest release.
_INIT = """
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: 192.0.2.1, bindPort: 6443}}
nodeRegistration: {{name: node-1, criSocket: "unix:///nowhere.sock"}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v{version}
"""


class Kubeadm:
    def __init__(self, joinable: Joinable, directory: Path) -> None:
        self.joinable = joinable
        self._program = tools.kubeadm()
        self._admin = directory / "admin.conf"
        self._admin.write_text(yaml.safe_dump(joinable.cluster.admin()))

    def token(self, *arguments: str) -> str:
        """`kubeadm token ...` as the admin."""
        ran = self._run("token", *arguments, "--kubeconfig", str(self._admin))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def init(self) -> str:
        """`kubeadm init phase bootstrap-token`: all that makes a cluster one that can be joined. What it says."""
        config = self._admin.with_name("kubeadm.yaml")
        config.write_text(_INIT.format(version=tools.KUBERNETES))
        ran = self._run(
            "init", "phase", "bootstrap-token", "--config", str(config), "--kubeconfig", str(self._admin)
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def discover(self, **asked: Any) -> dict[str, Any]:
        """The kubeconfig that it comes to. RuntimeError with its words if it comes to none."""
        ran = self._run("discover", stdin=json.dumps({"seconds": 60.0} | asked))
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        found: dict[str, Any] = yaml.safe_load(ran.stdout)
        return found

    def _run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._program), *arguments],
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._admin.parent)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )


def same(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """But for what is empty, which kubeadm writes and we do not."""
    return {key: value for key, value in theirs.items() if value} == ours


def test_a_cluster_that_it_has_set_up_is_found_a31_a33_a34(kubeadm: Kubeadm) -> None:
    """Its own cluster-info, its own rights for strangers, its own token; who signs is the real controller."""
    joinable = kubeadm.joinable
    joinable.withdraw()
    found = re.search(r"Using token: (\S+)", kubeadm.init())
    assert found is not None
    result = discover(token=found[1], **joinable.by_pin)
    assert (result.pins, result.warnings) == ((joinable.pin,), ())
    until(lambda: joinable.whoami(result.config) is not None)
    # What the other tests publish is what it publishes.
    theirs, ours = joinable.info()["data"]["kubeconfig"], joinable.kubeconfig
    assert yaml.safe_load(theirs) == {
        key: value for key, value in yaml.safe_load(ours).items() if key != "preferences"
    }


class TestItsTokens:
    def test_the_join_command_that_it_prints_is_all_that_we_need_a10_a36_a55(self, kubeadm: Kubeadm) -> None:
        printed = kubeadm.token("create", "--print-join-command")
        found = re.fullmatch(
            r"kubeadm join (\S+) --token (\S+) --discovery-token-ca-cert-hash (\S+)\s*", printed
        )
        assert found is not None, printed
        endpoint, token, pin = found.groups()
        assert pin == kubeadm.joinable.pin == public_key_pin(kubeadm.joinable.cluster.ca)
        result = discover(endpoint, token=token, ca_cert_hashes=[pin], **PATIENT)
        until(lambda: kubeadm.joinable.whoami(result.config) is not None)

    def test_it_lists_ours_as_its_own_a5_a6_a10(self, kubeadm: Kubeadm) -> None:
        """The same fields, whoever made it: by what both wrote, and by what it makes of that."""
        theirs = BootstrapToken.parse(
            kubeadm.token("create", "--description", "a node", "--ttl", "1h").strip()
        )
        ours = kubeadm.joinable.add(description="a node", ttl=3600.0)
        secrets = {each["metadata"]["name"]: each for each in kubeadm.joinable.secrets()}
        written = [secrets[f"bootstrap-token-{token.id}"] for token in (theirs, ours)]
        assert written[0]["type"] == written[1]["type"]
        assert set(written[0]["data"]) == set(written[1]["data"])
        for key in (
            "description",
            "auth-extra-groups",
            "usage-bootstrap-signing",
            "usage-bootstrap-authentication",
        ):
            assert written[0]["data"][key] == written[1]["data"][key]
        listed = kubeadm.token("list", "-o", "json")
        shown = {each["token"]: each for each in parsed_all(listed)}
        for token in (theirs, ours):
            each = shown[token.reveal()]
            assert each["description"] == "a node"
            assert sorted(each["usages"]) == ["authentication", "signing"]
            assert each["groups"] == ["system:bootstrappers:kubeadm:default-node-token"]

    def test_we_list_its_as_ours_and_it_deletes_ours(self, kubeadm: Kubeadm) -> None:
        usages = ["--usages", "authentication"]
        theirs = BootstrapToken.parse(kubeadm.token("create", "--ttl", "0", *usages).strip())
        ours = kubeadm.joinable.add()
        found = {each.id: each for each in tokens_of(kubeadm.joinable.secrets(), now=time.time())}
        assert (found[theirs.id].expires, found[theirs.id].usages, found[theirs.id].problem) == (
            None,
            ("authentication",),
            None,
        )
        kubeadm.token("delete", ours.id)
        assert ours.id not in {each.id for each in tokens_of(kubeadm.joinable.secrets(), now=time.time())}

    def test_it_generates_what_we_take_a9(self, kubeadm: Kubeadm) -> None:
        text = kubeadm.token("generate").strip()
        assert BootstrapToken.parse(text).reveal() == text


def parsed_all(text: str) -> list[dict[str, Any]]:
    """JSON documents, one after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


class TestItsDiscovery:
    """Both are asked for the same; where they differ, we are the stricter, and docs/discovery.md says so."""

    def test_both_come_to_the_same_kubeconfig_a25_a59(self, kubeadm: Kubeadm) -> None:
        joinable = kubeadm.joinable
        token = joinable.add_signed()
        ours = discover(joinable.endpoint, token=token, ca_cert_hashes=[joinable.pin], **PATIENT).kubeconfig
        theirs = kubeadm.discover(endpoint=joinable.endpoint, token=token.reveal(), pins=[joinable.pin])
        assert same(theirs, ours)
        unpinned = discover(
            joinable.endpoint, token=token, unsafe_skip_ca_verification=True, **PATIENT
        ).kubeconfig
        assert unpinned == ours
        assert same(kubeadm.discover(endpoint=joinable.endpoint, token=token.reveal()), ours)

    def test_both_come_to_the_same_by_a_file_a67_a70(self, kubeadm: Kubeadm, tmp_path: Path) -> None:
        path = tmp_path / "cluster-info.yaml"
        path.write_text(kubeadm.joinable.kubeconfig)
        token = kubeadm.joinable.add()
        ours = discover(file=path, tls_bootstrap_token=token, **PATIENT).kubeconfig
        assert same(kubeadm.discover(file=str(path), token=token.reveal()), ours)

    @pytest.mark.parametrize("what", ["pin", "secret", "id", "ca", "empty", "yaml"])
    def test_both_refuse_a19_a41_a43_a46_a47(self, kubeadm: Kubeadm, what: str) -> None:
        joinable = kubeadm.joinable
        evil = Authority("kubeauth e2e evil")
        pin = joinable.pin
        if what == "ca":
            joinable.publish(published(joinable.cluster.server, evil.pem))
        elif what == "empty":
            joinable.publish("")
        elif what == "yaml":
            joinable.publish("{")
        token = joinable.add_signed()
        if what == "pin":
            pin = public_key_pin(evil.pem)
        elif what == "secret":
            token = BootstrapToken(token.id, BootstrapToken.generate().secret)
        elif what == "id":
            token = BootstrapToken.generate()
        endpoint = joinable.endpoint
        with pytest.raises(RuntimeError) as theirs:
            kubeadm.discover(endpoint=endpoint, token=token.reveal(), pins=[pin], seconds=SECONDS)
        with pytest.raises(errors.DiscoveryError) as ours:
            discover(endpoint, token=token, ca_cert_hashes=[pin], **OURS)
        assert str(theirs.value)
        assert token.secret.reveal() not in str(ours.value)

    def test_one_pinned_ca_opens_the_door_to_another_there_and_not_here_a51(self, kubeadm: Kubeadm) -> None:
        """Who may write cluster-info, or has the token, adds a CA of his own; and then stands in between.

        kubeadm holds the whole bundle for pinned. Here only what is pinned is trusted.
        """
        joinable, evil = kubeadm.joinable, Authority("kubeauth e2e evil")
        joinable.publish(published(joinable.cluster.server, joinable.cluster.ca + evil.pem))
        token = joinable.add_signed()
        with Server(lambda _: Answer(200, joinable.info()), evil) as between:
            theirs = kubeadm.discover(endpoint=between.host, token=token.reveal(), pins=[joinable.pin])
            kept = theirs["clusters"][0]["cluster"]["certificate-authority-data"]
            assert base64.b64decode(kept) == joinable.cluster.ca + evil.pem
            with pytest.raises(errors.ClusterNotReady, match="certificate"):
                Runtime("sync").discover(between.host, token=token, ca_cert_hashes=[joinable.pin], **BRIEF)
            found = discover(joinable.endpoint, token=token, ca_cert_hashes=[joinable.pin], **PATIENT)
        assert found.config.ca_data == joinable.cluster.ca

    def test_what_a_cluster_says_without_tls_is_taken_there_and_not_here_a91(self, kubeadm: Kubeadm) -> None:
        joinable = kubeadm.joinable
        joinable.publish(published("http://192.0.2.1:8080", joinable.cluster.ca))
        token = joinable.add_signed()
        theirs = kubeadm.discover(endpoint=joinable.endpoint, token=token.reveal(), pins=[joinable.pin])
        assert theirs["clusters"][0]["cluster"]["server"] == "http://192.0.2.1:8080"
        with pytest.raises(errors.ClusterNotTrusted) as caught:
            discover(joinable.endpoint, token=token, ca_cert_hashes=[joinable.pin], **PATIENT)
        assert caught.value.reason == "server"

    def test_a_file_that_verifies_nobody_is_taken_there_and_not_here_a71(
        self, kubeadm: Kubeadm, tmp_path: Path
    ) -> None:
        """Its CA would come from whoever answers."""
        joinable = kubeadm.joinable
        document = yaml.safe_load(joinable.kubeconfig)
        document["clusters"][0]["cluster"] = {
            "server": joinable.cluster.server,
            "insecure-skip-tls-verify": True,
        }
        path = tmp_path / "given"
        path.write_text(yaml.safe_dump(document))
        token = joinable.add()
        theirs = kubeadm.discover(file=str(path), token=token.reveal())
        assert theirs["clusters"][0]["cluster"]["certificate-authority-data"]
        with pytest.raises(errors.KubeConfigError, match="insecure-skip-tls-verify"):
            discover(file=path, tls_bootstrap_token=token, **OURS)


@pytest.fixture
def without_signer(cluster: ControlPlane) -> Iterator[None]:
    cluster.stop_controllers()
    cluster.start_controllers(without=["bootstrap-signer"])
    yield
    cluster.stop_controllers()
    cluster.start_controllers()


@pytest.mark.usefixtures("without_signer")
def test_it_discovers_a_cluster_that_our_signer_signs_a28(kubeadm: Kubeadm) -> None:
    joinable = kubeadm.joinable
    config = load_config(joinable.cluster.kubeconfig(joinable.signer()))

    def story() -> None:
        token = joinable.add_signed()
        theirs = kubeadm.discover(endpoint=joinable.endpoint, token=token.reveal(), pins=[joinable.pin])
        assert theirs["clusters"][0]["cluster"]["server"] == joinable.cluster.server

    async def main() -> None:
        async with AsyncClient(config) as client, Signer(client):
            await anyio.to_thread.run_sync(story)

    anyio.run(main)


class TestItsOwnTests:
    """What kubeadm's own tests have in files: they come with its source, and are not copied."""

    @pytest.fixture
    def source(self) -> Path:
        try:
            return tools.go_source(tools.HERE / "kubeadm", "k8s.io/kubernetes") / "cmd/kubeadm/app"
        except tools.Missing as missing:
            pytest.skip(str(missing))

    @pytest.mark.parametrize(
        ("path", "pin"),
        [
            (
                "discovery/token/testdata/ca-cert.pem",
                "98be2e6d4d8a89aa308fb15de0c07e2531ce549c68dec1687cdd5c06f0826658",
            ),
            (
                "util/pubkeypin/testdata/test-cert.pem",
                "345959acb2c3b2feb87d281961c893f62a314207ef02599f1cc4a5fb255480b3",
            ),
            (
                "util/pubkeypin/testdata/test-cert2.pem",
                "d1ef16989563fe7775f81a7dc55ce16a467ca9baedae2d081cb0a068b6a81971",
            ),
            ("discovery/testdata/ca.crt", "3dc658bba539d538d4e4a32b23733a9e081e5160be908143f3f83cd563542cb1"),
        ],
    )
    def test_the_pins_of_its_certificates_a55_a56(self, source: Path, path: str, pin: str) -> None:
        assert public_key_pin((source / path).read_bytes()) == f"sha256:{pin}"

    def test_vector_8_a15_a16(self, source: Path) -> None:
        content = (source / "discovery/token/testdata/expected-kubeconfig.yaml").read_bytes()
        assert len(content) == 1686
        jws = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEyMzQ1NiJ9..RcGonG20HgUP8IUZeOghKkrvsqfybvbZGSBs2LDLRCs"
        assert sign_detached(content, "123456.abcdef1234567890") == jws
        assert verify_detached(content, jws, "123456.abcdef1234567890")
