"""Nothing secret on a terminal, whatever is asked for and whatever goes wrong; but `token` is asking."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli._app import COMMANDS
from kubeauth.testing import Answer, APIServer, Authority, KeyPair, PluginScript
from tests.cli.programs import kubeauth
from tests.oidc import settings, written
from tests.oidc_issuer import Issuer

SENTINEL = "sentinel-of-a-secret"
COMMANDS_TO_RUN = [
    "get /version", "get /version -o raw", "get /forbidden", "get /gone", "get /nothing", "get /x --nonsense",
    "get pods -w", "whoami", "whoami -o json", "whoami -o yaml", "token --nonsense", "__complete --user ",
    "__complete get --context ", "completion bash", "get /version --request-timeout=1ns",
    "demo --seconds 1",
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
        "plugin": User({"exec": good.stanza([SENTINEL], env=environment)}, SENTINEL),
        "plugin that fails": User({"exec": bad.stanza([SENTINEL], env=environment)}, SENTINEL),
        "plugin that says nonsense": User({"exec": spoiled.stanza()}, SENTINEL),
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
    user = users[name]
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig(user.entry)))
    # Of those that do the same to a credential, one for each: a process takes its time.
    for line in COMMANDS_TO_RUN if name in ("token", "plugin that fails") else COMMANDS_TO_RUN[:1]:
        ran = kubeauth(
            *line.split(" "), *(() if "__complete" in line else ("-v", "9", "--kubeconfig", str(path)))
        )
        for secret in user.secrets:
            assert secret not in ran.out + ran.err, line


def test_every_command_was_run() -> None:
    assert {line.split()[0] for line in COMMANDS_TO_RUN} >= COMMANDS.keys() - {"doctor"}


@pytest.mark.parametrize(
    "name", ["token that cannot be sent", "password", "inline pair", "plugin that fails"]
)
def test_token_does_not_show_what_it_was_not_asked_for(
    name: str, users: dict[str, User], server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig(users[name].entry)))
    ran = kubeauth("token", "-v", "9", "--kubeconfig", str(path))
    assert ran.status != 0
    assert not any(secret in ran.out + ran.err for secret in users[name].secrets)


@pytest.mark.parametrize("name", ["token", "plugin", "inline pair"])
def test_what_token_prints_is_on_stdout_alone(
    name: str, users: dict[str, User], server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig(users[name].entry)))
    ran = kubeauth("token", "-o", "json", "-v", "9", "--kubeconfig", str(path))
    assert users[name].secrets[0] in ran.out
    assert not any(secret in ran.err for secret in users[name].secrets)


@pytest.mark.parametrize("flag", ["--token", "--password", "--tokne"])
@pytest.mark.parametrize("form", ["{flag}={value}", "{flag} {value}"])
def test_a_secret_on_the_command_line_is_not_repeated(
    flag: str, form: str, server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(server.kubeconfig({})))
    given = form.format(flag=flag, value=SENTINEL).split()
    ran = kubeauth("get", "/forbidden", *given, "--username=bob", "-v", "9", "--kubeconfig", str(path))
    assert ran.status != 0
    assert SENTINEL not in ran.out + ran.err


def test_tokens_of_an_issuer(server: APIServer, tmp_path: Path) -> None:
    with Issuer(client_secret=SENTINEL) as issuer:
        refresh = issuer.new_refresh_token()
        kubeconfig = written(server, tmp_path / "oidc", settings(issuer, refresh_token=refresh))
        ran = kubeauth("whoami", "-v", "9", "--kubeconfig", str(kubeconfig.path))
        entry = kubeconfig.entry()
    assert ran.status == 0
    assert f"token from oidc {issuer.url}" in ran.out
    for secret in (SENTINEL, refresh, entry["id-token"], entry["refresh-token"]):
        assert secret not in ran.out + ran.err
