"""kubeauth.plugin: parsing KUBERNETES_EXEC_INFO, printing credentials, errors; and the example plugins."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

import kubeauth
from kubeauth import ClientConfig, Secret, plugin, schemas
from kubeauth.errors import (
    ClientCertificateError,
    ConfigError,
    CredentialError,
    KubeAuthError,
    KubeConfigError,
    Problem,
)
from kubeauth.plugin import Credential, ExecCluster, ExecInfo
from kubeauth.testing import APIServer, Authority
from kubeauth.testing._authority import _encode_key
from tests.schemas.examples import build_strategy
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, render_error

ROOT = Path(__file__).parent.parent.parent
GROUP = "client.authentication.k8s.io"
VERSIONS = ("v1", "v1beta1")
V1 = f"{GROUP}/v1"
CLUSTER: dict[str, Any] = {
    "server": "https://some-server/some/path",
    "tls-server-name": "some-server-name",
    "insecure-skip-tls-verify": True,
    "certificate-authority-data": base64.b64encode(b"some-ca-data").decode(),
    "proxy-url": "https://some-proxy-url:12345",
    "config": {"apiVersion": "group/v1", "kind": "PluginConfig", "spec": {"names": ["marshmallow", "zelda"]}},
}


def exec_info(spec: Any = None, version: str = "v1", **fields: Any) -> str:
    document = {"kind": "ExecCredential", "apiVersion": f"{GROUP}/{version}", "spec": spec, **fields}
    return json.dumps({name: value for name, value in document.items() if value is not None})


def exec_info_for(**changes: Any) -> str:
    return exec_info({"cluster": {**CLUSTER, **changes}, "interactive": False})


@pytest.mark.parametrize("version", VERSIONS)
def test_happy_path_x47_t75(version: str) -> None:
    info = plugin.parse_exec_info(exec_info({"cluster": CLUSTER, "interactive": True}, version))
    assert (info.api_version, info.interactive) == (f"{GROUP}/{version}", True)
    assert info.config == CLUSTER["config"]
    assert info.client_config() == ClientConfig(
        server="https://some-server/some/path",
        tls_server_name="some-server-name",
        insecure_skip_tls_verify=True,
        ca_data=b"some-ca-data",
        proxy_url="https://some-proxy-url:12345",
    )


@each_case("version", VERSIONS)
@each_case("cluster", [{**CLUSTER, "config": None}, {"server": "https://some-server/some/path"}])
def test_nil_config_x7_x47_t75(version: str, cluster: dict[str, Any]) -> None:
    info = plugin.parse_exec_info(exec_info({"cluster": cluster}, version))
    assert info.config is None
    assert info.client_config().server == "https://some-server/some/path"


@each_case("version", VERSIONS)
@each_case(
    ("cluster", "message"),
    [
        ({"proxy-url": "invalid- url\n"}, "proxy-url: could not parse"),
        ({**CLUSTER, "proxy-url": "ftp://proxy"}, "proxy-url: unsupported scheme"),
        ({}, "server: it must be a URL"),
        ({"server": "ftp://host"}, "server: its scheme must be https or http"),
    ],
)
def test_invalid_cluster_x47_t75(version: str, cluster: dict[str, Any], message: str) -> None:
    info = plugin.parse_exec_info(exec_info({"cluster": cluster}, version))
    with pytest.raises(ConfigError, match=f"^cannot create rest.Config: {message}"):
        info.client_config()


@each_case("version", VERSIONS)
@each_case("spec", [{"interactive": False}, {}, None, {"cluster": None}])
def test_nil_cluster_x47_t75(version: str, spec: Any) -> None:
    info = plugin.parse_exec_info(exec_info(spec, version))
    assert (info.cluster, info.config, info.interactive) == (None, None, False)
    with pytest.raises(ConfigError, match=r"^ExecCredential does not contain cluster information") as caught:
        info.client_config()
    assert "provideClusterInfo: true" in str(caught.value)


@each_case(
    ("api_version", "kind", "got"),
    [
        ("v1", "Status", "Status"),
        ("apps/v1", "ExecCredential", "ExecCredential.apps"),
        (V1, "Other", f"Other.{GROUP}"),
        ("\x1b[31m/v1", "\n", ".U\\+001B"),
    ],
)
def test_invalid_object_kind_x47_t75(api_version: str, kind: str, got: str) -> None:
    with pytest.raises(ConfigError, match=f"^invalid group/kind: wanted ExecCredential.{GROUP}, got {got}"):
        plugin.parse_exec_info(exec_info(apiVersion=api_version, kind=kind))


def test_a_long_kind_is_truncated_in_the_error() -> None:
    with pytest.raises(ConfigError) as caught:
        plugin.parse_exec_info(exec_info(kind="K" * 10_000))
    assert "got KKK" in str(caught.value)
    assert len(str(caught.value)) < 400


@each_case(
    ("text", "message"),
    [
        ("bad data", "line 1, column 1: not valid JSON"),
        ("", "line 1, column 1: not valid JSON"),
        ("{" * 5000, "not valid JSON"),
        ('{"a":' * 500 + "1" + "}" * 500, "nested more than 100 levels deep"),
        ("[]", "it is not an object"),
        ("null", "it is not an object"),
        ("{}", "apiVersion is missing"),
        (json.dumps({"apiVersion": V1}), "kind is missing"),
        (exec_info(apiVersion=1), "apiVersion must be a string"),
        (exec_info(kind=["ExecCredential"]), "kind must be a string"),
        (exec_info(version="v1alpha1"), f"apiVersion must be {V1} or {V1}beta1"),
        (exec_info([]), "spec must be an object"),
        (exec_info({"interactive": "yes"}), "spec.interactive must be true or false"),
        (exec_info({"cluster": "https://h"}), "spec.cluster must be an object"),
        (exec_info_for(server=1), "spec.cluster.server must be a string"),
        (exec_info_for(**{"insecure-skip-tls-verify": 1}), "spec.cluster.insecure-skip-tls-verify must be true"),
        (exec_info_for(**{"disable-compression": "no"}), "spec.cluster.disable-compression must be true"),
        (exec_info_for(**{"tls-server-name": {}}), "spec.cluster.tls-server-name must be a string"),
        (exec_info_for(**{"proxy-url": False}), "spec.cluster.proxy-url must be a string"),
        (exec_info_for(**{"certificate-authority-data": "%"}), "certificate-authority-data is not valid base64"),
        (exec_info_for(**{"certificate-authority-data": "é"}), "certificate-authority-data is not valid base64"),
    ],
)  # fmt: skip
def test_bad_data_x47_t75(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^decode: ") as caught:
        plugin.parse_exec_info(text)
    assert message in str(caught.value)
    assert "as kubectl and kubeauth send it" in str(caught.value)


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_EXEC_INFO": ""}])
def test_an_unset_or_empty_variable_is_an_error_x47(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^KUBERNETES_EXEC_INFO env var is unset or empty") as caught:
        plugin.read_exec_info(environ)

    # The value that the error suggests for a run by hand is valid.
    suggested = str(caught.value).split("'")[1]
    assert plugin.read_exec_info({"KUBERNETES_EXEC_INFO": suggested}) == ExecInfo(interactive=True)


def test_the_variable_is_read_from_os_environ_x3(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="unset or empty"):
        plugin.read_exec_info()

    monkeypatch.setenv("KUBERNETES_EXEC_INFO", exec_info({"interactive": True}, "v1beta1"))
    assert plugin.read_exec_info() == ExecInfo(api_version=f"{V1}beta1", interactive=True)


def test_the_variable_as_clients_set_it_x4_x5_x6() -> None:
    sent = r"""{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{
        "server":"https://h:6443","certificate-authority-data":"Y2\nE=","disable-compression":true,
        "config":{"a":"\u003c\u0026"},"unknown":1},"interactive":false,"unknown":1},"unknown":1}
"""
    info = plugin.parse_exec_info(sent)
    assert info.cluster == ExecCluster(
        server="https://h:6443",
        certificate_authority_data=b"ca",
        disable_compression=True,
        config={"a": "<&"},
    )
    assert info.client_config() == ClientConfig(
        server="https://h:6443", ca_data=b"ca", disable_compression=True
    )


def test_a_plugin_can_send_requests_to_its_cluster_x47(server: APIServer) -> None:
    ca = base64.b64encode(server.authority.pem).decode()
    info = plugin.parse_exec_info(
        exec_info({"cluster": {"server": server.url, "certificate-authority-data": ca}})
    )
    with kubeauth.Client(info.client_config()) as client:
        assert client.get("/version").status_code == 401
    assert server.requests[0].header("authorization") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)
clusters = st.fixed_dictionaries(
    {}, optional={name: json_values | st.just(CLUSTER[name]) for name in CLUSTER}
)
specs = st.fixed_dictionaries({}, optional={"cluster": clusters | json_values, "interactive": json_values})


def parse_or_reject(text: str) -> None:
    try:
        info = plugin.read_exec_info({"KUBERNETES_EXEC_INFO": text})
        info.client_config()
    except KubeAuthError as error:
        assert str(error)


@given(st.text(st.characters()) | json_values.map(json.dumps))
def test_random_text_is_parsed_or_rejected_x47(text: str) -> None:
    parse_or_reject(text)


@given(specs | json_values, st.sampled_from(VERSIONS))
def test_random_fields_are_parsed_or_rejected_x47(spec: Any, version: str) -> None:
    parse_or_reject(exec_info(spec, version))


@each_case(
    "text",
    [
        f"{{{SENTINEL}",
        exec_info({"cluster": SENTINEL}),
        exec_info({"cluster": {**CLUSTER, "certificate-authority-data": f"%{SENTINEL}"}}),
        exec_info({"cluster": {**CLUSTER, "proxy-url": f"http://u:{SENTINEL}\n@h"}, "config": SENTINEL}),
        exec_info({"cluster": {**CLUSTER, "server": f"ftp://u:{SENTINEL}@h"}}),
        exec_info({"cluster": {**CLUSTER, "config": SENTINEL}}, "v2"),
    ],
)
def test_errors_do_not_leak_the_exec_info(text: str) -> None:
    for read in (plugin.parse_exec_info, lambda text: plugin.read_exec_info({"KUBERNETES_EXEC_INFO": text})):
        with pytest.raises(ConfigError) as caught:
            read(text).client_config()
        assert SENTINEL not in render_error(caught.value)


def test_repr_has_no_secrets() -> None:
    info = plugin.parse_exec_info(exec_info_for(server=f"https://u:{SENTINEL}@h", config=SENTINEL))
    assert repr(info) == f"ExecInfo('{V1}', interactive=False, cluster=<hidden>)"
    assert repr(ExecInfo()) == f"ExecInfo('{V1}', interactive=False, cluster=None)"

    credential = Credential(token=SENTINEL, key=Secret(SENTINEL.encode()))
    assert repr(credential) == "Credential(token=<hidden>, key=<hidden>, expires=None)"


def print_and_parse(credential: Credential, version: str = "v1") -> dict[str, Any]:
    file = io.StringIO()
    plugin.print_credential(ExecInfo(api_version=f"{GROUP}/{version}"), credential, file=file)
    assert file.getvalue().endswith("}\n")
    assert file.getvalue().count("\n") == 1
    document: dict[str, Any] = json.loads(file.getvalue())
    assert document.pop("kind") == "ExecCredential"
    assert document.pop("apiVersion") == f"{GROUP}/{version}"
    status: dict[str, Any] = document.pop("status")
    assert document == {}
    return status


@each_case("version", VERSIONS)
def test_the_model_reads_what_is_printed_x33_x39_x40(authority: Authority, version: str) -> None:
    pair = authority.client("alice")
    expires = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)
    credential = Credential(token="a.b-c", certificate=pair.certificate, key=pair.key, expires=expires)
    file = io.StringIO()

    plugin.print_credential(ExecInfo(api_version=f"{GROUP}/{version}"), credential, file=file)
    read = schemas.ExecCredential.model_validate_json(file.getvalue())

    assert read == schemas.ExecCredential(
        api_version=f"{GROUP}/{version}",
        status=schemas.ExecCredentialStatus(
            token=Secret("a.b-c"),
            client_certificate_data=pair.certificate.decode(),
            client_key_data=Secret(pair.key.decode()),
            expiration_timestamp=expires,
        ),
    )


@given(data=st.data())
def test_the_exec_info_that_a_model_writes_is_parsed_x47(data: st.DataObject) -> None:
    model: Any = data.draw(build_strategy(schemas.ExecCredential))

    info = plugin.parse_exec_info(json.dumps(model.to_document(reveal_secrets=True)))

    assert (info.api_version, info.interactive) == (model.api_version, model.spec.interactive)
    cluster = model.spec.cluster
    assert (info.cluster is None) == (cluster is None)
    if info.cluster is not None:
        for name in type(cluster).model_fields:
            assert getattr(info.cluster, name) == getattr(cluster, name)


@each_case("version", VERSIONS)
@each_case("token", ["a.b-c", b"a.b-c", Secret("a.b-c"), Secret(b"a.b-c")], ids=type)
def test_a_token_is_printed_in_the_requested_version_x33(version: str, token: Any) -> None:
    assert print_and_parse(Credential(token=token), version) == {"token": "a.b-c"}


@pytest.mark.parametrize("form", [bytes, bytes.decode, Secret])
def test_a_certificate_and_a_token_are_printed_x40_x41(
    authority: Authority, form: Callable[[bytes], Any]
) -> None:
    pair = authority.intermediate().client("alice")
    credential = Credential(token="t", certificate=form(pair.certificate), key=form(pair.key))
    assert print_and_parse(credential) == {
        "token": "t",
        "clientCertificateData": pair.certificate.decode(),
        "clientKeyData": pair.key.decode(),
    }


@each_case(
    ("expires", "expected"),
    [
        (datetime.datetime(2030, 1, 2, 3, 4, 5, 999999, datetime.UTC), "2030-01-02T03:04:05Z"),
        (datetime.datetime(2030, 1, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30))), "2030-01-01T21:30:00Z"),
        (datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), "0001-01-01T00:00:00Z"),
        (datetime.datetime.max.replace(tzinfo=datetime.UTC), "9999-12-31T23:59:59Z"),
    ],
)  # fmt: skip
def test_an_expiry_is_formatted_as_in_go_x39(expires: datetime.datetime, expected: str) -> None:
    assert print_and_parse(Credential(token="t", expires=expires)) == {
        "token": "t",
        "expirationTimestamp": expected,
    }


def test_an_expiry_relative_to_now_x39() -> None:
    lifetime = datetime.timedelta(minutes=15)
    before = datetime.datetime.now(datetime.UTC)

    text = print_and_parse(Credential(token="t", expires=lifetime))["expirationTimestamp"]

    after = datetime.datetime.now(datetime.UTC)
    expires = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    assert before - datetime.timedelta(seconds=1) < expires - lifetime <= after


PAIR = Authority().client("alice")
OTHER = Authority().client("alice")


@each_case(
    ("fields", "message"),
    [
        ({}, "neither a token nor a certificate"),
        ({"token": "", "certificate": b"", "key": Secret("")}, "neither a token nor a certificate"),
        ({"token": "t", "certificate": PAIR.certificate}, "only certificate or key, not both"),
        ({"key": PAIR.key}, "only certificate or key, not both"),
        ({"token": f"{SENTINEL}\n"}, "line break"),
        ({"token": f"{SENTINEL}é"}, "not ASCII"),
        ({"token": f"{SENTINEL} "}, "starts or ends with white space"),
        ({"token": SENTINEL.encode() + b"\xff"}, "token is not text"),
        ({"token": f"{SENTINEL}\ud800"}, "token is not text"),
        ({"token": [SENTINEL]}, "token is not text"),
        ({"token": "t", "key": 1}, "key is not text"),
        ({"token": "t", "expires": datetime.datetime(2030, 1, 1)}, "a datetime with a time zone"),
        ({"token": "t", "expires": 900}, "a datetime with a time zone"),
        ({"token": "t", "expires": datetime.timedelta.max}, "before the year 10000"),
        ({"token": "t", "expires": datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=1)))}, "before the year 10000"),
        ({"certificate": SENTINEL, "key": PAIR.key}, "it contains no certificate"),
        ({"certificate": PAIR.certificate, "key": SENTINEL}, "its key is not a private key"),
        ({"certificate": PAIR.certificate, "key": OTHER.key}, "does not match the certificate"),
        ({"certificate": PAIR.certificate, "key": f"-----BEGIN PRIVATE KEY-----\n{SENTINEL}\n-----END PRIVATE KEY-----\n"}, "cannot be parsed"),
    ],
)  # fmt: skip
def test_a_credential_that_clients_would_reject_is_not_printed_x37_x38_x40_x42(
    fields: dict[str, Any], message: str
) -> None:
    file = io.StringIO()
    credential = Credential(**fields)
    with pytest.raises((CredentialError, ClientCertificateError)) as caught:
        plugin.print_credential(ExecInfo(), credential, file=file)
    assert message in str(caught.value)
    assert file.getvalue() == ""

    seen = render_error(caught.value)
    for secret in (SENTINEL, PAIR.key.decode().splitlines()[1], OTHER.key.decode().splitlines()[1]):
        assert secret not in seen


def run_main(
    main: Callable[[ExecInfo], Any], monkeypatch: pytest.MonkeyPatch, *, info: str = exec_info({})
) -> int:
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", info)
    monkeypatch.setattr(sys, "argv", ["/bin/my-plugin"])
    with pytest.raises(SystemExit) as caught:
        plugin.run(main)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_run_prints_what_main_returns(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def main(info: ExecInfo) -> Credential:
        return Credential(token=f"for {info.api_version}")

    assert run_main(main, monkeypatch, info=exec_info({}, "v1beta1")) == 0

    out, err = capfd.readouterr()
    assert json.loads(out)["status"] == {"token": f"for {GROUP}/v1beta1"}
    assert err == ""


def failing(error: BaseException) -> Callable[[ExecInfo], Credential]:
    def main(_info: ExecInfo) -> Credential:
        print("some output")
        raise error

    return main


@pytest.mark.parametrize(
    ("main", "status", "stderr"),
    [
        (failing(CredentialError("not logged in: run my-login")), 1, "my-plugin: not logged in: run my-login\n"),
        (failing(KubeConfigError.from_problems([Problem("a", "/p", hint="do b")])), 1, "my-plugin: a in /p do b\n"),
        (failing(ValueError(SENTINEL)), 1, "my-plugin: unexpected ValueError. Set KUBEAUTH_PLUGIN_TRACEBACK=1 "
                                           "to see where; that may show secrets.\n"),
        (failing(KeyboardInterrupt()), 130, ""),
        (failing(SystemExit(3)), 3, ""),
        (lambda _info: SENTINEL, 1, "my-plugin: the plugin must return a plugin.Credential, but it returned a str.\n"),
        (lambda _info: Credential(token=f"{SENTINEL}\n"), 1, "my-plugin: the plugin's token is not a valid HTTP header "
                                           "value: it contains a line break or another control character. Check where it comes from.\n"),
    ],
)  # fmt: skip
def test_run_reports_errors_with_one_line_and_an_exit_status(
    main: Callable[[ExecInfo], Any],
    status: int,
    stderr: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_main(main, monkeypatch) == status

    out, err = capfd.readouterr()
    assert out == ""
    assert err.removeprefix("some output\n") == stderr
    assert SENTINEL not in err


def test_run_prints_a_traceback_if_the_variable_is_set(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEAUTH_PLUGIN_TRACEBACK", "1")
    assert run_main(failing(ValueError("why")), monkeypatch) == 1

    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" in err
    assert "ValueError: why" in err
    assert err.endswith("that may show secrets.\n")


def test_run_rejects_an_invalid_exec_info_x47(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_main(lambda _info: Credential(token="t"), monkeypatch, info="bad data") == 1
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("my-plugin: decode: ")


PRINTING_PLUGIN = """
import subprocess, sys
from kubeauth import plugin

print("before")

def main(info):
    print("from main")
    print("to sys.__stdout__", file=sys.__stdout__)
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return plugin.Credential(token="t")

plugin.run(main)
"""


def run(
    *command: str, info: str | None = None, code: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    arguments = ["-c", code, *command] if code else [*command]
    environment = {**os.environ, **environ}
    environment.pop("PYTHONUNBUFFERED", None)
    if info is not None:
        environment["KUBERNETES_EXEC_INFO"] = info
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("main", "status", "is_printed"),
    [
        ("print('a', end=''); return plugin.Credential(token='t')", 0, True),
        ("raise KubeAuthError('a')", 1, False),
        ("raise ValueError", 1, False),
        ("raise KeyboardInterrupt", 130, False),
    ],
)
@pytest.mark.parametrize("traceback", ["", "1"])
def test_a_full_stderr_does_not_affect_the_output_or_the_exit_status(
    main: str, status: int, is_printed: bool, traceback: str
) -> None:
    """CPython exits with 120 if it cannot flush stderr, which client-go takes for a failed plugin."""
    info = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}})
    code = (
        "from kubeauth import plugin; from kubeauth.errors import KubeAuthError\n"
        f"def main(info): {main}\nplugin.run(main)"
    )
    completed = subprocess.run(
        ["/bin/sh", "-c", '"$@" 2>/dev/full', "sh", sys.executable, "-c", code],
        env=os.environ | {"KUBEAUTH_PLUGIN_TRACEBACK": traceback, "KUBERNETES_EXEC_INFO": info},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert (completed.returncode, bool(completed.stdout)) == (status, is_printed)


def test_other_output_goes_to_stderr() -> None:
    completed = run(code=PRINTING_PLUGIN, info=exec_info({}))
    assert completed.returncode == 0, completed.stderr
    assert json.loads(completed.stdout)["status"] == {"token": "t"}
    for line in ("before", "from main", "to sys.__stdout__", "from a child"):
        assert line in completed.stderr


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    return path


def verify_jwt(token: str, key: bytes) -> dict[str, Any]:
    """Check the signature of a JWT and return its claims."""
    head, _, signature = token.rpartition(".")
    expected = hmac.new(key, head.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == expected
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in head.split("."))
    assert header == {"alg": "HS256", "typ": "JWT"}
    result: dict[str, Any] = claims
    return result


def expiry_of(status: dict[str, str]) -> float:
    return datetime.datetime.fromisoformat(status["expirationTimestamp"]).timestamp()


@pytest.mark.parametrize(
    ("spec", "audience"),
    [
        ({}, "kubernetes"),
        ({"cluster": CLUSTER}, "https://some-server/some/path"),
        ({"cluster": {**CLUSTER, "config": {"audience": "prod"}}}, "prod"),
    ],
)
def test_the_token_plugin_prints_a_signed_jwt(key_file: Path, spec: Any, audience: str) -> None:
    arguments = ["--key-file", str(key_file), "--user", "alice", "--minutes", "10"]
    completed = run("examples/token_plugin.py", *arguments, info=exec_info(spec, "v1beta1"))
    assert (completed.returncode, completed.stderr) == (0, "")

    document = json.loads(completed.stdout)
    assert (document["kind"], document["apiVersion"]) == ("ExecCredential", f"{GROUP}/v1beta1")

    claims = verify_jwt(document["status"]["token"], key_file.read_bytes())
    assert (claims["sub"], claims["aud"]) == ("alice", audience)
    assert time.time() < expiry_of(document["status"]) < claims["exp"] <= time.time() + 600


@pytest.mark.parametrize(
    ("key", "info", "status", "message"),
    [
        (None, exec_info({}), 1, "token_plugin.py: cannot read the key "),
        (b"short", exec_info({}), 1, "is shorter than 32 bytes"),
        (bytes(32), None, 1, "KUBERNETES_EXEC_INFO env var is unset or empty"),
        (bytes(32), exec_info({}, kind="Status"), 1, "invalid group/kind"),
        (bytes(32), "no", 1, "decode: "),
    ],
)
def test_the_token_plugin_reports_errors_with_one_line(
    tmp_path: Path, key: bytes | None, info: str | None, status: int, message: str
) -> None:
    path = tmp_path / "key"
    if key is not None:
        path.write_bytes(key)

    completed = run("examples/token_plugin.py", "--key-file", str(path), "--user", "alice", info=info)

    assert (completed.returncode, completed.stdout) == (status, "")
    assert message in completed.stderr
    assert completed.stderr.count("\n") == 1


@pytest.fixture
def ca_files(authority: Authority, tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "ca.key").write_bytes(_encode_key(authority._key))
    return "--ca", str(tmp_path / "ca.pem"), "--ca-key", str(tmp_path / "ca.key")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_certificate_plugin_prints_a_client_certificate(
    server: APIServer, ca_files: tuple[str, ...], version: str
) -> None:
    arguments = ["--user", "alice", "--group", "dev", "--group", "ops", "--minutes", "10"]
    completed = run("examples/certificate_plugin.py", *ca_files, *arguments, info=exec_info({}, version))
    assert (completed.returncode, completed.stderr) == (0, "")

    document = json.loads(completed.stdout)
    assert document["apiVersion"] == f"{GROUP}/{version}"

    status = document["status"]
    certificate = x509.load_pem_x509_certificate(status["clientCertificateData"].encode())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(server.authority.pem))

    key = serialization.load_pem_private_key(status["clientKeyData"].encode(), password=None)
    assert key.public_key() == certificate.public_key()

    names = [(part.oid, part.value) for part in certificate.subject]
    assert names == [
        (NameOID.ORGANIZATION_NAME, "dev"),
        (NameOID.ORGANIZATION_NAME, "ops"),
        (NameOID.COMMON_NAME, "alice"),
    ]

    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]

    not_after = certificate.not_valid_after_utc.timestamp()
    assert time.time() < expiry_of(status) < not_after <= time.time() + 600

    config = server.config(
        client_cert_data=status["clientCertificateData"].encode(),
        client_key_data=Secret(status["clientKeyData"].encode()),
    )
    with kubeauth.Client(config) as client:
        assert client.get("/version").status_code == 200
    assert server.requests[0].user == "alice"


@pytest.mark.parametrize(
    ("changed", "data", "message"),
    [
        ("ca.pem", None, "cannot read "),
        ("ca.pem", b"nonsense", "must be a certificate and "),
        ("ca.key", b"nonsense", "must be a certificate and "),
        ("ca.key", OTHER.key, "is not the key of "),
    ],
)
def test_the_certificate_plugin_reports_errors_with_one_line(
    tmp_path: Path, ca_files: tuple[str, ...], changed: str, data: bytes | None, message: str
) -> None:
    if data is None:
        (tmp_path / changed).unlink()
    else:
        (tmp_path / changed).write_bytes(data)
    completed = run("examples/certificate_plugin.py", *ca_files, "--user", "alice", info=exec_info({}))

    assert (completed.returncode, completed.stdout) == (1, "")
    assert message in completed.stderr
    assert completed.stderr.count("\n") == 1
