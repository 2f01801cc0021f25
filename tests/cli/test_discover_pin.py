"""`kubeauth discover pin`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kubeauth.cli._ends import Status
from kubeauth.discovery import public_key_pin
from kubeauth.testing import APIServer, Authority
from tests.cli.conftest import Run
from tests.cli.programs import KUBEAUTH, environ, on_a_terminal, ran
from tests.discovery.certificates import certificate
from tests.discovery.test_pins import signed


@pytest.fixture(scope="module")
def other() -> Authority:
    return Authority("other CA")


@pytest.fixture
def one(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "one.crt"
    path.write_bytes(authority.pem)
    return path


@pytest.fixture
def bundle(authority: Authority, other: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "bundle.crt"
    path.write_bytes(b"# two of them\n" + authority.pem + other.pem)
    return path


def test_of_one_certificate_the_pin_alone(one: Path, authority: Authority, run: Run) -> None:
    """So that it can stand behind --ca-cert-hash in a script."""
    assert run("discover", "pin", one) == (0, f"{public_key_pin(authority.pem)}\n", "")


def test_of_several_each_with_whose_it_is(
    bundle: Path, authority: Authority, other: Authority, run: Run
) -> None:
    assert run("discover", "pin", bundle).out == (
        f"{public_key_pin(authority.pem)}   CN=kubeauth test CA\n{public_key_pin(other.pem)}   CN=other CA\n"
    )


def test_of_several_files(one: Path, bundle: Path, run: Run) -> None:
    assert len(run("discover", "pin", one, bundle).out.splitlines()) == 3


def test_der(authority: Authority, tmp_path: Path, run: Run) -> None:
    import ssl

    path = tmp_path / "ca.der"
    path.write_bytes(ssl.PEM_cert_to_DER_cert(authority.pem.decode()))
    assert run("discover", "pin", path).out == f"{public_key_pin(authority.pem)}\n"


def test_stdin(one: Path, authority: Authority, run: Run) -> None:
    done = run("discover", "pin", "-", input=one.read_text())
    assert done == (0, f"{public_key_pin(authority.pem)}\n", "")


def test_without_one_the_ca_of_the_kubeconfig(
    api: APIServer, ca: Authority, tmp_path: Path, run: Run
) -> None:
    expected = f"{public_key_pin(ca.pem)}\n"
    assert run("discover", "pin").out == expected
    (tmp_path / "ca.pem").write_bytes(ca.pem)
    document = api.kubeconfig({}, {"certificate-authority": str(tmp_path / "ca.pem")})
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    (tmp_path / "with-file").write_text(json.dumps(document))
    assert run("discover", "pin", "--kubeconfig", tmp_path / "with-file").out == expected


def test_a_kubeconfig_without_a_ca(tmp_path: Path, run: Run) -> None:
    done = run("discover", "pin", "-s", "https://127.0.0.1:1", "--kubeconfig", os.devnull)
    assert (done.status, done.out) == (Status.CONFIG, "")
    assert "names no CA" in done.err


def test_as_json(bundle: Path, authority: Authority, run: Run) -> None:
    first, second = json.loads(run("discover", "pin", bundle, "-o", "json").out)
    assert first["pin"] == public_key_pin(authority.pem)
    assert second["subject"] == "CN=other CA"
    assert 29 < first["daysLeft"] <= 30


def test_a_table_on_a_terminal(bundle: Path, other: Authority, run: Run) -> None:
    status, said = on_a_terminal("discover", "pin", str(bundle), env=environ(COLUMNS="120"))
    header, _, last = said.splitlines()
    assert status == 0
    assert header.split() == ["PIN", "ENDS", "WHOSE"]
    assert last.split(None, 1)[0] == public_key_pin(other.pem)
    assert last.endswith("CN=other CA")
    assert run("discover", "pin", bundle, "-o", "table").out == said.replace("\r\n", "\n")


def test_a_narrow_terminal_has_one_below_the_other(bundle: Path, other: Authority) -> None:
    _, said = on_a_terminal("discover", "pin", str(bundle), env=environ(COLUMNS="80"))
    assert all(len(line) <= 80 for line in said.splitlines())
    blocks = said.replace("\r\n", "\n").split("\n\n")
    assert len(blocks) == 2
    assert blocks[1].splitlines()[0] == f"PIN     {public_key_pin(other.pem)}"
    assert blocks[1].splitlines()[2] == "WHOSE   CN=other CA"


@pytest.mark.filterwarnings("ignore")  # of making it
def test_a_ca_with_the_serial_number_0_is_worth_no_warning(tmp_path: Path, run: Run) -> None:
    """As kubeadm has made them: cryptography has something to say about it."""
    path = tmp_path / "zero.crt"
    path.write_bytes(signed(generate_private_key(SECP256R1()), "kubernetes", serial=0))
    done = run("discover", "pin", str(path), "-o", "table")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("CN=kubernetes\n")


def test_what_nobody_can_read_has_a_pin_all_the_same(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "odd.der"
    path.write_bytes(certificate())
    assert run("discover", "pin", path).out == f"{public_key_pin(certificate())}\n"
    assert run("discover", "pin", path, "-o", "table").out.split()[-2:] == ["<unreadable>", "<unreadable>"]
    assert json.loads(run("discover", "pin", path, "-o", "json").out)[0]["subject"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a certificate"),
        (b"hello", "is not a certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1 of 1"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "there is no certificate"),
    ],
)
def test_what_is_no_certificate(content: bytes, said: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    done = run("discover", "pin", path)
    assert (done.status, done.out) == (Status.FAILED, "")
    assert done.err.startswith(f"error: {path}: ")
    assert said in done.err


def test_a_kubeconfig_in_place_of_a_certificate(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: []\ncontexts: []\n")
    done = run("discover", "pin", path)
    assert (done.status, done.out) == (Status.FAILED, "")
    assert "For the CA of a kubeconfig: `kubeauth discover pin --kubeconfig PATH`." in done.err


def test_a_file_that_is_not_there(run: Run) -> None:
    assert run("discover", "pin", "/nowhere/ca.crt") == (
        Status.CONFIG, "", "error: /nowhere/ca.crt cannot be read: No such file or directory\n"
    )  # fmt: skip


def test_more_than_anybody_would_give(one: Path, run: Run) -> None:
    """A bundle that is cut would lack certificates, and nobody would know."""
    text = one.read_text() + "#" * 2**20
    assert run("discover", "pin", "-", input=text) == (
        Status.CONFIG, "", "error: stdin cannot be read: it is larger than 1 MiB\n"
    )  # fmt: skip


def test_an_stdin_that_is_none() -> None:
    done = ran("sh", "-c", '"$@" <&-; echo $?', "sh", *KUBEAUTH, "discover", "pin", "-")
    assert done.out == "1\n"
    assert done.err.startswith("error: stdin: ")
