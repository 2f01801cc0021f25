"""`kubeauth discover` on a real cluster, from a token that it makes to one that it deletes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from kubeauth.cli._ends import Status
from kubeauth.discovery import BootstrapToken
from tests.cli.programs import KUBEAUTH, environ, kubeauth, ran
from tests.e2e.joining import Joinable, until


@pytest.fixture
def env(joinable: Joinable, tmp_path: Path) -> dict[str, str]:
    """As the admin."""
    path = tmp_path / "admin.conf"
    path.write_text(yaml.safe_dump(joinable.cluster.admin()))
    return environ(KUBECONFIG=str(path))


def test_the_line_that_one_prints_is_what_the_other_types(
    joinable: Joinable, env: dict[str, str], tmp_path: Path
) -> None:
    made = kubeauth("discover", "token", "create", "--ttl", "1h", "--print-join-command", env=env)
    assert made.status == 0, made.err
    ours, kubeadms = made.out.splitlines()
    words = shlex.split(ours)
    assert words[:2] == ["kubeauth", "discover"]
    assert shlex.split(kubeadms)[:2] == ["kubeadm", "join"]
    path = tmp_path / "bootstrap.conf"
    nobody = environ(KUBECONFIG=str(tmp_path / "none"))
    found = kubeauth(*words[1:], "--save", str(path), "--interval", "200ms", "--timeout", "60s", env=nobody)
    assert found.status == 0, found.err
    assert joinable.pin in found.out
    signed_in = environ(KUBECONFIG=str(path))
    until(lambda: kubeauth("whoami", env=signed_in).status == 0)
    assert "system:bootstrap:" in kubeauth("whoami", env=signed_in).out


def test_tokens_are_made_listed_and_deleted(joinable: Joinable, env: dict[str, str]) -> None:
    made = kubeauth("discover", "token", "create", "--description", "edge 17", env=env)
    token = BootstrapToken.parse(made.out.strip())
    listed = kubeauth("discover", "token", "list", env=env)
    assert token.id in listed.out
    assert "edge 17" in listed.out
    assert token.secret.reveal() not in listed.out
    assert kubeauth("discover", "token", "delete", token.id, env=env).status == 0
    assert joinable.secrets() == []


def test_what_must_not_be_believed_and_what_is_not_there_yet(joinable: Joinable, tmp_path: Path) -> None:
    token = joinable.add_signed()
    env = environ(KUBECONFIG=str(tmp_path / "none"))
    pin, briefly = ["--ca-cert-hash", joinable.pin], ["--timeout", "2s", "--interval", "500ms"]
    command = [*KUBEAUTH, "discover", joinable.endpoint, "--token", "-"]
    wrong = BootstrapToken(token.id, BootstrapToken.generate().secret)
    refused = ran(*command, *pin, env=env, input=wrong.reveal())
    assert (refused.status, refused.out) == (Status.FAILED, "")
    assert "signed" in refused.err
    unknown = ran(*command, *pin, *briefly, env=env, input=BootstrapToken.generate().reveal())
    assert (unknown.status, unknown.out) == (5, "")
    for secret in (token, wrong):
        assert secret.secret.reveal() not in refused.err + unknown.err


def test_the_pin_that_it_prints(joinable: Joinable) -> None:
    assert kubeauth("discover", "pin", str(joinable.cluster.ca_file)).out.split()[0] == joinable.pin
