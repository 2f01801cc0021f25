"""The doctor and this machine: keys that lie about, and what is installed."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

import kubeauth
from kubeauth.cli import _doctor_machine
from kubeauth.cli._doctor_findings import Level
from kubeauth.cli._doctor_machine import Leftovers, find_leftovers, leftovers_finding, versions_finding
from kubeauth.cli._doctor_report import as_text
from kubeauth.testing import Authority
from tests.cli.doctoring import examined

KEY = Authority().client("alice").key


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that has no space in its name, wherever temporary files are."""
    monkeypatch.chdir(tmp_path)
    path = Path("keys")
    path.mkdir()
    return path


def names(directory: Path) -> tuple[str, ...]:
    return find_leftovers(str(directory)).names


def test_keys_are_found_by_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "tmpabcd1234").write_bytes(KEY)
    (tmp_path / "both.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n" + KEY)
    (tmp_path / "cert.pem").write_bytes(Authority().pem)
    (tmp_path / "notes").write_text("nothing here")
    (tmp_path / "directory").mkdir()
    assert names(tmp_path) == ("both.pem", "tmpabcd1234")


def test_they_are_named_with_the_command_that_removes_them(directory: Path) -> None:
    (directory / "tmpabcd1234").write_bytes(KEY)
    (directory / "a$key").write_bytes(KEY)
    found = leftovers_finding(find_leftovers(str(directory)))
    assert found.level is Level.WARNING
    assert found.summary == (
        f"2 files with a private key in {directory}: a$key, tmpabcd1234; other Kubernetes clients leave such files"
    )
    assert found.next_step.endswith(
        shlex.join(["rm", "--", *(str(directory / name) for name in ("a$key", "tmpabcd1234"))])
    )
    assert KEY.decode().splitlines()[1] not in str(found)


def test_pykube_s_are_known_by_their_name(tmp_path: Path) -> None:
    (tmp_path / f"pykube-ng.{'0' * 32}.crt").write_bytes(KEY)
    assert "pykube-ng leaves such files" in leftovers_finding(find_leftovers(str(tmp_path))).summary


def test_no_link_is_followed(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (there / "key").write_bytes(KEY)
    (here / "link").symlink_to(there / "key")
    assert names(here) == ()


def test_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path) == ()


def test_what_is_large_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(KEY + bytes(2**17))
    assert names(tmp_path) == ()


def test_what_is_another_s_is_theirs(tmp_path: Path, unprivileged_user: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    (tmp_path / "theirs").write_bytes(KEY)
    os.chown(tmp_path / "theirs", unprivileged_user, unprivileged_user)
    assert names(tmp_path) == ()


def test_what_changes_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that becomes a pipe between looking and opening, or goes away."""
    os.mkfifo(tmp_path / "pipe")
    assert not _doctor_machine._holds_a_key(str(tmp_path / "pipe"))
    assert find_leftovers(str(tmp_path / "gone")).names == ()


def test_a_crowded_directory_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doctor_machine, "_MOST_ENTRIES", 3)
    for number in range(5):
        (tmp_path / f"{number}").write_text("")
    found = find_leftovers(str(tmp_path))
    assert not found.is_complete
    assert "among the first 3 files" in leftovers_finding(found).summary


def test_no_directory_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", none)
    found = examined("--offline")
    assert found.one("leftovers").level is Level.SKIPPED
    assert found.one("versions").level is Level.OK


def test_of_many_some_are_shown(directory: Path) -> None:
    for number in range(30):
        (directory / f"tmp{number:08}").write_bytes(KEY)
    found = leftovers_finding(find_leftovers(str(directory)))
    assert "and 26 more" in found.summary
    removal = "If no program that still runs needs them, remove them; 10 of 30: rm -- "
    assert found.next_step.startswith(removal)
    assert found.next_step.removeprefix(removal).split() == [
        str(directory / f"tmp{number:08}") for number in range(10)
    ]
    assert found.facts["count"] == 30


def test_no_other_file_is_removed_than_those(directory: Path) -> None:
    """What a name would be changed into, on its way to a terminal and in a wrapped line."""
    for name in (b"two  blanks", b"one blank", b"a\nline", b"no\xfftext", b"\x1b[2J", b"it's"):
        Path(os.fsdecode(os.path.join(os.fsencode(directory), name))).write_bytes(KEY)
    found = leftovers_finding(find_leftovers(str(directory)))
    command = found.next_step.partition("1 of 6: rm -- ")[2]
    assert shlex.split(command) == [str(directory / "it's")]


def test_files_that_no_command_can_name(directory: Path) -> None:
    (directory / "one blank").write_bytes(KEY)
    found = leftovers_finding(find_leftovers(str(directory)))
    assert found.next_step.endswith(f"remove them from {directory} by hand.")


def test_a_directory_with_a_space_in_its_name(directory: Path) -> None:
    """A wrapped line would change it, too."""
    there = directory / "one blank"
    there.mkdir()
    (there / "key.pem").write_bytes(KEY)
    found = leftovers_finding(find_leftovers(str(there)))
    assert found.next_step.endswith(f"remove them from {there} by hand.")


def test_versions() -> None:
    found = versions_finding()
    assert found.summary.startswith(
        f"kubeauth {kubeauth.__version__}, Python {platform.python_version()}, OpenSSL "
    )
    assert found.facts["httpx"] == version("httpx")
    assert "socks" in found.facts["extras"]


def test_what_is_not_installed_has_no_version() -> None:
    assert _doctor_machine._version("no-such-package-anywhere") is None


def test_the_command_stands_on_one_line_to_be_copied(directory: Path) -> None:
    """However long it is, and however narrow the table."""
    names = tuple(f"tmp-key-{number:032}" for number in range(10))
    found = leftovers_finding(Leftovers(str(directory), names, True))
    assert found.next_step == f"If no program that still runs needs them, remove them: {found.command}"
    text = as_text([found.without(["a-secret-of-somebody"])], width=80, colour=False)
    lines = [line.strip() for line in text.splitlines() if "rm -- " in line]
    assert lines == [f"rm -- {' '.join(str(directory / name) for name in names)}"]
    assert " ".join(text.split()).endswith(
        "Begin with leftovers: If no program that still runs needs them, remove them, as above."
    )
