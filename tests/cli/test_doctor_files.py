"""The doctor and the files: missing, broken, open to others, and hidden by one another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubeauth.cli._doctor_files import exposure
from kubeauth.cli._doctor_findings import Level
from kubeauth.testing import APIServer
from tests.cli.doctoring import SENTINEL, TOKEN, Report, examined, written


def offline(*arguments: str, **more: Path) -> Report:
    return examined("--offline", *arguments, **more)  # type: ignore[arg-type]  # a path is all there is


def test_a_file_that_is_named_and_does_not_exist(tmp_path: Path) -> None:
    found = examined(kubeconfig=tmp_path / "nope")
    assert found.bad("file").summary == f"{tmp_path}/nope does not exist"
    assert found.levels["context"] is found.levels["whoami"] is Level.SKIPPED
    assert found.levels["versions"] is Level.OK


def test_a_tilde_that_no_shell_has_expanded() -> None:
    assert "$HOME" in examined(kubeconfig="~/no/config").bad("file").next_step


def test_a_kubeconfig_that_does_not_exist_at_the_usual_place(tmp_path: Path) -> None:
    found = examined()
    missing = found.warned("file")
    assert missing.facts["path"] == f"{os.environ['HOME']}/.kube/config"
    assert "KUBECONFIG" in missing.next_step
    assert "no configuration has been provided" in found.bad("context").summary


def test_a_flag_that_names_nothing() -> None:
    found = examined(kubeconfig="")
    assert found.bad("file").summary == "--kubeconfig names no file"


def test_a_variable_that_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", ":")
    assert examined().warned("file").next_step == "Name one, or leave out KUBECONFIG."


def test_no_place_to_look_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    found = examined()
    assert "HOME" in found.warned("file").next_step
    found.bad("context")


def test_files_of_the_environment_that_do_not_exist_are_skipped(
    server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = written(tmp_path / "there", server.kubeconfig({"token": "alices-token"}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nope:{there}")
    found = examined()
    assert found.warned("file").next_step == "Create it, or take it out of KUBECONFIG."
    assert found.levels["whoami"] is Level.OK


def test_who_wins_is_said(server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(tmp_path / "first", {"users": [{"name": "tester", "user": {"token": "alices-token"}}]})
    second = written(tmp_path / "second", server.kubeconfig({"token": "somebody-elses"}))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    found = examined()
    assert [finding.level for finding in found.all("file")] == [Level.OK, Level.OK]
    assert f"1 hidden by {first}, which comes first: user tester" in found.all("file")[1].summary
    assert found.all("file")[1].facts["hidden"] == [["user", "tester"]]
    assert found.one("context").facts["context_from"] == str(second)
    assert found.one("whoami").summary == "alice"


def test_a_directory_in_the_place_of_a_file(tmp_path: Path) -> None:
    assert "Is a directory" in examined(kubeconfig=tmp_path).bad("file").summary


def test_a_pipe_that_nobody_writes_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = examined(kubeconfig=tmp_path / "pipe")
    assert found.one("file").level is Level.OK
    assert found.bad("context").next_step


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"users:\n- name: u\n  user: {{token: {SENTINEL}\n", "line 4"),
        (f'{{"users": [{{"name": "u", "user": {{"token": "{SENTINEL}"}}}}', "line 2"),
        (f"users: [{{name: u, user: {{token: {{a: {SENTINEL}}}}}}}]", 'users["u"].user.token'),
        ("clusters: 5", "clusters"),
    ],
)
def test_what_is_no_kubeconfig_is_said_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    found = examined(kubeconfig=written(tmp_path / "config", text))
    assert place in found.bad("file").summary
    assert str(tmp_path / "config") in found.bad("file").summary


def test_every_problem_of_a_file_has_its_line(tmp_path: Path) -> None:
    text = "users: [{name: u, user: {token: [], password: []}}]"
    assert len(examined(kubeconfig=written(tmp_path / "config", text)).all("file")) == 2


def test_one_broken_file_is_enough(
    server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in kubectl: what is in the others is not used."""
    good = written(tmp_path / "good", server.kubeconfig({"token": TOKEN}))
    broken = written(tmp_path / "broken", "users: [")
    monkeypatch.setenv("KUBECONFIG", f"{good}:{broken}")
    found = examined()
    assert found.bad("file").facts["path"] == str(broken)
    assert found.levels["whoami"] is Level.SKIPPED


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o644, "everybody can read it (mode 0644)"), (0o640, "its group can read it (mode 0640)"),
     (0o622, "everybody can write it (mode 0622)")],
)  # fmt: skip
def test_a_kubeconfig_with_secrets_that_others_can_read(
    server: APIServer, tmp_path: Path, mode: int, who: str
) -> None:
    path = written(tmp_path / "a config", server.kubeconfig({"token": TOKEN}), mode)
    found = offline(kubeconfig=path).warned("file")
    assert f"{who}, and it holds secrets" in found.summary
    assert found.next_step == f"Run: chmod 600 '{path}'"


def test_without_secrets_others_may_read_but_not_write(server: APIServer, tmp_path: Path) -> None:
    document = server.kubeconfig({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "p"}})
    readable = offline(kubeconfig=written(tmp_path / "config", document, 0o644))
    assert readable.all("file")[0].level is Level.OK
    writable = offline(kubeconfig=written(tmp_path / "config", document, 0o664))
    assert "choose the plugin that is run" in writable.warned("file").summary


def test_where_there_are_no_modes_nothing_is_said_of_them() -> None:
    assert exposure(None, holds_secrets=True) is None
