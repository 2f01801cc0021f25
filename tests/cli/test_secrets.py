"""Nothing secret on a terminal, whatever is asked for and whatever goes wrong; but `token` is asking."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli._app import COMMANDS
from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer, Authority, KeyPair, PluginScript
from tests.cli.bootstrap import PATH, TYPE
from tests.cli.in_process import run_in_process
from tests.cli.nodes import Node
from tests.cli.programs import environ
from tests.cli.test_proxy import proxy
from tests.discovery.clusters import TOKEN as BOOTSTRAP
from tests.discovery.clusters import Cluster
from tests.support.oidc import settings, write_kubeconfig
from tests.support.oidc_issuer import Issuer

SENTINEL = "sentinel-of-a-secret"
COMMANDS_TO_RUN = [
    "get /version", "get /version -o raw", "get /forbidden", "get /gone", "get /nothing", "get /x --nonsense",
    "get pods -w", "whoami", "whoami -o json", "whoami -o yaml", "token --nonsense", "__complete --user ",
    "__complete get --context ", "completion bash", "get /version --request-timeout=1ns",
    "fleet get /version --all-contexts -o wide", "fleet get /forbidden --all-contexts -o json",
    "fleet get /gone --contexts te*", "fleet get pods --all-contexts -o jsonl", "fleet contexts",
]  # fmt: skip
DEMO_COMMANDS = ["demo --seconds 1"]
REGISTRY_COMMANDS = [
    "registry match gcr.io/x", "registry credentials gcr.io/x", "registry credentials gcr.io/x -o json", "registry check",
    "registry check -o json",
]  # fmt: skip
GMSA_COMMANDS = ("gmsa check {pod}", "gmsa serve --tls-crt {pod} --tls-key {pod}")
DISCOVER_COMMANDS = [
    "discover {host} --ca-cert-hash {pin}", "discover {host} --ca-cert-hash {pin} -o json", "discover {host}",
    "discover {host} --ca-cert-hash {pin} --mode seed --timeout 0", "discover {host} --ca-cert-hash sha256:00",
    "discover {host} --ca-cert-hash {pin} --save {path}", "discover {host} --ca-cert-hash {pin} --save {path}",
    "discover 127.0.0.1:1 --ca-cert-hash {pin} --timeout 0", "discover --nonsense", "discover", "discover pin",
    "discover token list", "discover token list -o json", "discover token delete 123456 {token}",
    "discover token delete {token}x", "discover token create {token}", "discover token create {token} --ttl -1h",
    "discover {host} {token}", "discover {token}", "discover token {token}",
]  # fmt: skip


def pem_body(pem: bytes) -> str:
    """A line out of the middle of it."""
    return pem.decode().splitlines()[3]


class User:
    """A user of a kubeconfig, and what of it must never be seen."""

    def __init__(self, entry: dict[str, Any], *secrets: str) -> None:
        self.entry = entry
        self.secrets = [*secrets, *(base64.b64encode(secret.encode()).decode() for secret in secrets)]


@pytest.fixture(scope="module")
def key_pair() -> KeyPair:
    return Authority().client("carol")


@pytest.fixture
def users(key_pair: KeyPair, tmp_path: Path) -> dict[str, User]:
    files = {"token-file": SENTINEL.encode(), "key": key_pair.key, "cert": key_pair.certificate}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    good, bad, spoiled = (PluginScript(tmp_path, name) for name in ("good", "bad", "spoiled"))
    good.answer(token=SENTINEL, expires_in=900)
    bad.answer(exit_code=1, stdout=f'{{"token": "{SENTINEL}"}}')
    spoiled.answer(stdout=f'{{"kind": "ExecCredential", "status": {{"token": "{SENTINEL}"')
    environment = [{"name": "PLUGIN_SECRET", "value": SENTINEL}]
    encoded = base64.b64encode(key_pair.key).decode()
    return {
        "token": User({"token": SENTINEL}, SENTINEL),
        "token that cannot be sent": User({"token": f"{SENTINEL}\n"}, SENTINEL),
        "token file": User({"tokenFile": str(tmp_path / "token-file")}, SENTINEL),
        "password": User({"username": "bob", "password": SENTINEL}, SENTINEL, f"bob:{SENTINEL}"),
        "inline pair": User(
            {"client-certificate-data": base64.b64encode(key_pair.certificate).decode(), "client-key-data": encoded},
            pem_body(key_pair.key),
        ),
        "pair that does not match": User(
            {"client-certificate-data": base64.b64encode(Authority().pem).decode(), "client-key-data": encoded},
            pem_body(key_pair.key),
        ),
        "plugin": User({"exec": good.exec_config([SENTINEL], env=environment)}, SENTINEL),
        "plugin that fails": User({"exec": bad.exec_config([SENTINEL], env=environment)}, SENTINEL),
        "plugin that says nonsense": User({"exec": spoiled.exec_config()}, SENTINEL),
    }  # fmt: skip


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as server:
        refusal = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no"}
        server.on("GET", "/forbidden", Answer(403, refusal))
        server.on("GET", "/gone", Answer(hang_up=True))
        listed = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}
        server.on("GET", "/api/v1/namespaces/default/pods", Answer(body=listed))
        yield server


@pytest.mark.parametrize("name", ["token", "token that cannot be sent", "token file", "password", "inline pair",
                                  "pair that does not match", "plugin", "plugin that fails", "plugin that says nonsense"])  # fmt: skip
def test_no_command_shows_one(name: str, users: dict[str, User], server: APIServer, tmp_path: Path) -> None:
    run_and_look(COMMANDS_TO_RUN, users[name], server, tmp_path / "config")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["token", "plugin that fails"])
def test_the_demo_shows_none(name: str, users: dict[str, User], server: APIServer, tmp_path: Path) -> None:
    run_and_look(DEMO_COMMANDS, users[name], server, tmp_path / "config")


def run_and_look(lines: Sequence[str], user: User, server: APIServer, path: Path) -> None:
    path.write_text(json.dumps(server.kubeconfig(user.entry)))
    for line in lines:
        ran = run_in_process(
            *line.split(" "), *(() if "__complete" in line else ("-v", "9", "--kubeconfig", str(path)))
        )
        for secret in user.secrets:
            assert secret not in ran.text, line


@pytest.mark.parametrize(
    "says",
    [
        {"auth": {"gcr.io": ("me", SENTINEL)}},
        {"exit_code": 1, "stdout": SENTINEL},
        {"stdout": f'{{"auth": "{SENTINEL}"'},
    ],
)
def test_no_command_shows_what_a_provider_gives(says: dict[str, Any], node: Node) -> None:
    fields = {"args": [SENTINEL], "env": [{"name": "PROVIDER_SECRET", "value": SENTINEL}]}
    node.provider("p", "gcr.io", fields=fields, **says)
    for line in REGISTRY_COMMANDS:
        ran = run_in_process(*line.split(), *node.flags, "-v", "9")
        assert SENTINEL not in ran.text, line


def test_no_command_shows_a_bootstrap_token(api: APIServer, ca: Authority, tmp_path: Path) -> None:
    """Wherever it is given: what `create` prints is asked for, and it may not here."""
    api.on("POST", PATH, Answer(403, {"kind": "Status", "status": "Failure", "reason": "Forbidden"}))
    api.on("GET", PATH, Answer(body={"items": [secret_of(BOOTSTRAP)]}))
    with Cluster(ca) as cluster:
        facts = {"host": cluster.host, "pin": cluster.pin, "token": BOOTSTRAP, "path": tmp_path / "saved"}
        for line in DISCOVER_COMMANDS:
            words = [word.format(**facts) for word in line.split()]
            ran = run_in_process(*words, "-v", "9", env=environ(KUBEAUTH_BOOTSTRAP_TOKEN=BOOTSTRAP))
            said = ran.text
            for secret in (BOOTSTRAP[7:], base64.b64encode(BOOTSTRAP[7:].encode()).decode()):
                assert secret not in said, line
            assert "Traceback" not in said, line
    assert BOOTSTRAP in (tmp_path / "saved").read_text()


@pytest.mark.parametrize("name", ["token", "plugin", "plugin that fails"])
def test_no_command_of_gmsa_shows_one(
    name: str, users: dict[str, User], server: APIServer, tmp_path: Path
) -> None:
    user, path, pod = users[name], tmp_path / "config", tmp_path / "pod.json"
    path.write_text(json.dumps(server.kubeconfig(user.entry)))
    options = {"gmsaCredentialSpecName": "web-spec", "gmsaCredentialSpec": SENTINEL}
    spec = {"securityContext": {"windowsOptions": options}}
    pod.write_text(json.dumps({"kind": "Pod", "metadata": {"name": "web"}, "spec": spec}))
    for line in GMSA_COMMANDS:
        ran = run_in_process(*line.format(pod=pod).split(), "-v", "9", "--kubeconfig", str(path))
        assert ran.status not in (0, Status.FAULT), line
        for secret in user.secrets:
            assert secret not in ran.text, line


@pytest.mark.slow
@pytest.mark.parametrize("name", ["token", "password", "inline pair", "plugin", "plugin that fails"])
def test_the_proxy_shows_none(name: str, users: dict[str, User], server: APIServer, tmp_path: Path) -> None:
    """Neither where it was started, nor to whoever asks it."""
    user, path = users[name], tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig(user.entry)))
    with proxy("--port", "0", "-v", "9", "--kubeconfig", str(path)) as it:
        answers = [it.client.get(asked) for asked in ("/version", "/forbidden", "/gone", "/a%2fb")]
        it.process.terminate()
        status, out, err = it.ended()
    assert status == Status.OK
    # The pair is of nobody whom the server knows.
    assert server.requests or name in ("inline pair", "plugin that fails")
    for secret in user.secrets:
        assert secret not in out + err + "".join(f"{each.headers}{each.text}" for each in answers)


def secret_of(token: str) -> dict[str, Any]:
    values = {"token-id": token[:6], "token-secret": token[7:], "usage-bootstrap-signing": "true"}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"name": f"bootstrap-token-{token[:6]}"}, "type": TYPE, "data": data}


def test_every_command_was_run() -> None:
    alone = {line.split()[0] for line in (*COMMANDS_TO_RUN, *DEMO_COMMANDS)}
    alone |= {" ".join(line.split()[:2]) for line in COMMANDS_TO_RUN}
    in_groups = {" ".join(line.split()[:2]) for line in REGISTRY_COMMANDS}
    in_groups |= {" ".join(line.split()[:2]) for line in GMSA_COMMANDS}
    in_groups |= {re.sub(r" *[{-].*", "", line).replace(" 123456", "") for line in DISCOVER_COMMANDS}
    # Three have a test of their own; `manifests` and `schema` read no kubeconfig.
    apart = {"doctor", "proxy", "registry manifest", "gmsa manifests", "schema"}
    assert alone | in_groups >= COMMANDS.keys() - apart


@pytest.mark.parametrize(
    "name", ["token that cannot be sent", "password", "inline pair", "plugin that fails"]
)
def test_token_does_not_show_what_it_was_not_asked_for(
    name: str, users: dict[str, User], server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig(users[name].entry)))
    ran = run_in_process("token", "-v", "9", "--kubeconfig", str(path))
    assert ran.status != 0
    assert not any(secret in ran.text for secret in users[name].secrets)


@pytest.mark.parametrize("name", ["token", "plugin", "inline pair"])
def test_what_token_prints_is_on_stdout_alone(
    name: str, users: dict[str, User], server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig(users[name].entry)))
    ran = run_in_process("token", "-o", "json", "-v", "9", "--kubeconfig", str(path))
    assert users[name].secrets[0] in ran.out
    assert not any(secret in ran.err + ran.logs for secret in users[name].secrets)


@pytest.mark.parametrize("flag", ["--token", "--password", "--tokne"])
@pytest.mark.parametrize("form", ["{flag}={value}", "{flag} {value}"])
def test_a_secret_on_the_command_line_is_not_repeated(
    flag: str, form: str, server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig({})))
    given = form.format(flag=flag, value=SENTINEL).split()
    ran = run_in_process("get", "/forbidden", *given, "--username=bob", "-v", "9", "--kubeconfig", str(path))
    assert ran.status != 0
    assert SENTINEL not in ran.text


def test_tokens_of_an_issuer(server: APIServer, tmp_path: Path) -> None:
    with Issuer(client_secret=SENTINEL) as issuer:
        refresh = issuer.new_refresh_token()
        kubeconfig = write_kubeconfig(server, tmp_path / "oidc", settings(issuer, refresh_token=refresh))
        ran = run_in_process("whoami", "-v", "9", "--kubeconfig", str(kubeconfig.path))
        entry = kubeconfig.entry()
    assert ran.status == 0
    assert f"token from oidc {issuer.url}" in ran.out
    for secret in (SENTINEL, refresh, entry["id-token"], entry["refresh-token"]):
        assert secret not in ran.text
