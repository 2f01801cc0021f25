"""`kubeauth gmsa manifests`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from kubeauth.cli._ends import Status
from kubeauth.testing import Authority
from tests.cli.conftest import Run
from tests.cli.programs import kubeauth, on_a_terminal
from tests.gmsa.test_manifests import one, pod_spec, webhooks

COMMAND = ("gmsa", "manifests")
IMAGE = ("--image", "registry.example/kubeauth:1")
Document = dict[str, Any]


@pytest.fixture
def bundle(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(b"# of our own\n" + authority.pem)
    return path


def printed(text: str) -> list[Document]:
    return list(yaml.safe_load_all(text))


def trusted(found: list[Document]) -> list[bytes]:
    return [base64.b64decode(each["clientConfig"]["caBundle"]) for each in webhooks(found)]


def test_yaml_on_stdout_and_nothing_on_stderr(run: Run) -> None:
    """In a pipe it is read by kubectl, and by no people."""
    done = run(*COMMAND, *IMAGE)
    assert (done.status, done.err) == (0, "")
    found = printed(done.out)
    assert [each["kind"] for each in found][:2] == ["Namespace", "CustomResourceDefinition"]
    assert found[-1]["kind"] == "ValidatingWebhookConfiguration"
    assert pod_spec(found)["containers"][0]["image"] == "registry.example/kubeauth:1"
    # What Go's YAML would take for something else stands in quotes.
    assert 'value: "8443"' in done.out
    assert 'value: "false"' in done.out


def test_needs_no_kubeconfig_and_no_extra() -> None:
    done = kubeauth(*COMMAND, *IMAGE, env={"PATH": "", "KUBECONFIG": "/nowhere", "HOME": "/nowhere"})
    assert (done.status, done.err) == (0, "")


def test_the_certificate_is_a_new_one_each_time_and_the_webhooks_know_its_ca_b81(run: Run) -> None:
    first, second = (printed(run(*COMMAND, *IMAGE, "--days", "30").out) for _ in range(2))
    assert one(first, "Secret")["data"] != one(second, "Secret")["data"]
    data = {name: base64.b64decode(value) for name, value in one(first, "Secret")["data"].items()}
    assert trusted(first) == [data["ca.crt"]] * 2
    certificate = x509.load_pem_x509_certificate(data["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(data["ca.crt"]))
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 30


def test_older_cas_are_trusted_beside_the_new_one(bundle: Path, authority: Authority, run: Run) -> None:
    """So that a pair can be replaced while some pods still show the one before."""
    found = printed(run(*COMMAND, *IMAGE, "--ca-bundle", bundle).out)
    new = base64.b64decode(one(found, "Secret")["data"]["ca.crt"])
    assert trusted(found) == [new + authority.pem] * 2


def test_an_existing_certificate(bundle: Path, authority: Authority, run: Run) -> None:
    done = run(*COMMAND, *IMAGE, "--tls", "existing", "--ca-bundle", bundle)
    assert (done.status, done.err) == (0, "")
    assert trusted(printed(done.out)) == [authority.pem] * 2  # without the words around it
    assert "kind: Secret\n" not in done.out


def test_cert_manager(run: Run) -> None:
    found = printed(run(*COMMAND, *IMAGE, "--tls", "cert-manager").out)
    assert [each["kind"] for each in found].count("Certificate") == 2
    assert "caBundle" not in str(found)


def test_what_is_chosen(run: Run) -> None:
    flags = (
        "-n",
        "ours",
        "--replicas",
        "3",
        "--exempt",
        "a",
        "--exempt",
        "b",
        "--compat",
        "--random-hostname",
    )
    found = printed(run(*COMMAND, *IMAGE, *flags, "--no-crd").out)
    assert one(found, "Namespace")["metadata"]["name"] == "ours"
    assert one(found, "Deployment")["spec"]["replicas"] == 3
    for webhook in webhooks(found):
        assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["a", "b", "ours"]
        assert "pods/ephemeralcontainers" not in str(webhook["rules"])
    (container,) = pod_spec(found)["containers"]
    assert container["command"] == ["kubeauth", "gmsa", "serve", "--compat"]
    assert {"name": "RANDOM_HOSTNAME", "value": "true"} in container["env"]
    assert not [each for each in found if each["kind"] == "CustomResourceDefinition"]


def test_the_namespace_may_stand_before_the_command(run: Run) -> None:
    found = printed(run("-n", "ours", *COMMAND, *IMAGE).out)
    assert one(found, "Deployment")["metadata"]["namespace"] == "ours"


class TestOnATerminal:
    def test_a_private_key_is_warned_of(self) -> None:
        status, said = on_a_terminal(*COMMAND, *IMAGE)
        assert status == 0
        assert said.startswith("warning: there is a private key in this.")

    def test_without_one_there_is_nothing_to_warn_of(self) -> None:
        status, said = on_a_terminal(*COMMAND, *IMAGE, "--tls", "cert-manager")
        assert (status, "warning" in said) == (0, False)


def test_without_an_image_it_says_how_to_make_one(run: Run) -> None:
    for flags in ((), ("--image", "")):
        done = run(*COMMAND, *flags)
        assert (done.status, done.out) == (Status.USAGE, "")
        assert done.err.startswith("error: --image is needed")
        assert "\n  RUN pip install 'kubeauth[gmsa]'\n" in done.err
        assert done.err.endswith("See `kubeauth gmsa manifests --help`.\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--replicas", "0"], "argument --replicas: '0' is no number from 1 to 1000"),
        (["--replicas", "two"], "argument --replicas: 'two' is no number from 1 to 1000"),
        (["--days", "-1"], "argument --days: '-1' is no number from 1 to 36500"),
        (["--days", "36501"], "argument --days: '36501' is no number from 1 to 36500"),
        (["--days", "9" * 5000], "is no number from 1 to 36500"),
        (["--tls", "magic"], "argument --tls: 'magic' is none of: generate, existing, cert-manager"),
        (["-n", "No"], 'no namespace can be named "No".'),
        (["--exempt", "a/b"], 'no namespace can be named "a/b".'),
        (["--image", "a b"], "no blank is in the name of one."),
        (["--tls", "existing"], "--tls existing needs --ca-bundle: whom the API server is to trust."),
        (["--tls", "existing", "--days", "1"], "--days is for a new certificate"),
        (["--tls", "cert-manager", "--days", "1"], "--days is for a new certificate"),
        (["--tls", "cert-manager", "--ca-bundle", "x"], "--ca-bundle would not count"),
        (["--context", "prod"], "no cluster is asked here. Flags about one are for kubectl, which applies this."),
        (["extra"], "unexpected argument: extra"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(flags: list[str], said: str, run: Run) -> None:
    done = run(*COMMAND, *IMAGE, *flags)
    assert (done.status, done.out) == (Status.USAGE, "")
    assert done.err.startswith("error: ")
    assert said in done.err
    assert done.err.endswith("See `kubeauth gmsa manifests --help`.\n")


class TestABundleThatIsNone:
    def refused(self, run: Run, path: object) -> str:
        done = run(*COMMAND, *IMAGE, "--tls", "existing", "--ca-bundle", path)
        assert (done.status, done.out) == (Status.CONFIG, "")
        assert done.err.startswith(f"error: --ca-bundle {path}: ")
        return done.err

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "there is no certificate"),
            (b"hello", "there is no certificate"),
            (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1 of 1"),
        ],
    )
    def test_no_certificate(self, content: bytes, said: str, tmp_path: Path, run: Run) -> None:
        (tmp_path / "ca.crt").write_bytes(content)
        assert said in self.refused(run, tmp_path / "ca.crt")

    def test_a_key_beside_it_is_not_sent_anywhere(
        self, authority: Authority, tmp_path: Path, run: Run
    ) -> None:
        pair = authority.server("x")
        (tmp_path / "both.pem").write_bytes(pair.certificate + pair.key)
        said = self.refused(run, tmp_path / "both.pem")
        assert "there is more in it than certificates" in said
        assert pair.key.decode().splitlines()[1] not in said

    def test_a_file_that_is_not_there(self, run: Run) -> None:
        assert "it cannot be read: No such file or directory" in self.refused(run, "/nowhere/ca.crt")
