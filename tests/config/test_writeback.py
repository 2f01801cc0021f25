"""New tokens in a kubeconfig that others read and write as well (O7)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth._config.writeback import AuthProviderEntry, WriteProblem, exclusive_lock
from kubeauth._parsing import read_document, write_document

OURS = {"idp-issuer-url": "https://i", "client-id": "c", "id-token": "old", "unknown": "kept"}
DOCUMENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "y",
    "preferences": {"colors": True},
    "clusters": [
        {"name": "on", "cluster": {"server": "https://h", "future": [1, 1.5, None, "0x1F", "1_000"]}}
    ],
    "users": [
        {"name": "other", "user": {"token": "t"}},
        {"name": "me", "user": {"auth-provider": {"name": "oidc", "config": OURS}}},
    ],
}


def entry(path: Path, user: str = "me") -> AuthProviderEntry:
    return AuthProviderEntry(str(path), user, lambda settings: settings.get("client-id") == "c")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "kube").mkdir()
    path = tmp_path / "kube" / "config"
    path.write_bytes(write_document(DOCUMENT))
    path.chmod(0o640)
    return path


def changed(**settings: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(DOCUMENT))
    document["users"][1]["user"]["auth-provider"]["config"].update(settings)
    return document


def read(path: Path) -> Any:
    return read_document(path.read_bytes(), limit=2**20)


NEW = {"id-token": Secret("new"), "refresh-token": Secret("on")}


def test_everything_else_stays_as_it_is_o7(path: Path) -> None:
    assert entry(path).write(NEW, 1.0) is None
    assert read(path) == changed(**{"id-token": "new", "refresh-token": "on"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == ["config"]
    assert entry(path).read() == {**OURS, "id-token": "new", "refresh-token": "on"}


def test_what_somebody_who_was_killed_has_left_is_cleared_away_o7(path: Path) -> None:
    (path.parent / ".config.kubeauth-abc").write_text("half of it")
    (path.parent / ".config.mine").write_text("not ours")
    assert entry(path).write(NEW, 1.0) is None
    assert sorted(os.listdir(path.parent)) == [".config.mine", "config"]


@pytest.mark.parametrize("before", ["", " \r\n", "\ufeff"])
def test_json_stays_json_o7(path: Path, before: str) -> None:
    path.write_text(before + json.dumps(DOCUMENT))
    assert entry(path).write(NEW, 1.0) is None
    assert json.loads(path.read_text()) == changed(**{"id-token": "new", "refresh-token": "on"})


def test_a_link_stays_a_link_o7(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    assert entry(link).write(NEW, 1.0) is None
    assert link.is_symlink()
    assert read(path)["users"][1]["user"]["auth-provider"]["config"]["id-token"] == "new"
    assert sorted(os.listdir(tmp_path)) == ["home", "kube", "link"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays_o7(path: Path, nobody: int) -> None:
    os.chown(path, nobody, nobody)
    assert entry(path).write(NEW, 1.0) is None
    assert (path.stat().st_uid, path.stat().st_gid) == (nobody, nobody)


@pytest.mark.parametrize(
    "document",
    [{}, {"users": None}, {"users": [3, {"name": "me"}]}, {"users": [{"name": "me", "user": {"exec": {}}}]},
     {"users": [{"name": "me", "user": {"auth-provider": {"config": {"client-id": "another"}}}}]}],
)  # fmt: skip
def test_an_entry_that_is_gone_or_about_another_is_left_alone_o7(document: Any, path: Path) -> None:
    path.write_text(json.dumps(document))
    assert entry(path).read() is None
    assert entry(path).write(NEW, 1.0) is None
    assert json.loads(path.read_text()) == document


def test_a_file_that_is_gone_stays_gone_o7(path: Path) -> None:
    path.unlink()
    assert entry(path).read() is None
    assert entry(path).write(NEW, 1.0) is None
    with exclusive_lock(str(path), 60.0) as mine:
        assert mine
    assert os.listdir(path.parent) == []


def test_a_file_that_cannot_be_parsed_is_not_touched_o7(path: Path) -> None:
    path.write_text("users: [s3ntinel")
    for found in (entry(path).read(), entry(path).write(NEW, 1.0)):
        assert isinstance(found, WriteProblem)
        assert "cannot be read" in found.reason
        assert "s3ntinel" not in repr(found)
    assert path.read_text() == "users: [s3ntinel"


def test_a_lock_that_nobody_removes_is_named_o7(path: Path) -> None:
    lock = path.with_name("config.lock")
    lock.touch()
    for found in (entry(path).write(NEW, 0.05), entry(path).check_writable(0.05)):
        assert isinstance(found, WriteProblem)
        assert f"remove {lock}" in found.advice
    assert lock.exists()
    assert read(path) == DOCUMENT


def test_behind_a_link_both_names_are_locked_o7(path: Path, tmp_path: Path) -> None:
    """kubectl locks the name that it was given, whichever that is."""
    link = tmp_path / "link"
    link.symlink_to(path)
    for lock in (Path(f"{link}.lock"), Path(f"{path}.lock")):
        lock.touch()
        found = entry(link).write({"id-token": Secret("new")}, 0.0)
        assert isinstance(found, WriteProblem)
        assert f"remove {lock}" in found.advice
        lock.unlink()
    assert entry(link).write({"id-token": Secret("new")}, 0.0) is None


def test_it_waits_for_whoever_writes_o7(path: Path) -> None:
    lock = path.with_name("config.lock")
    lock.touch()
    threading.Timer(0.1, lock.unlink).start()
    assert entry(path).write(NEW, 60.0) is None
    assert read(path) != DOCUMENT


def test_what_is_half_written_is_not_believed_o7(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl writes in place, while there is a lock."""
    monkeypatch.setattr("kubeauth._config.writeback._KUBECTL_WRITE_TIMEOUT", 60.0)  # it may be slow
    whole = path.read_bytes()
    lock = path.with_name("config.lock")
    lock.touch()
    path.write_bytes(whole[: len(whole) // 3])

    def finish() -> None:
        path.write_bytes(whole)
        lock.unlink()

    threading.Timer(0.1, finish).start()
    assert entry(path).read() == OURS


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_may_not_be_written_is_known_beforehand_o7(
    what: str, path: Path, nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)  # nobody could not get there
    os.chown(path, nobody, nobody)
    os.chown(path.parent, nobody, nobody)
    path.chmod(0o444 if what == "file" else 0o600)
    path.parent.chmod(0o755 if what == "file" else 0o555)
    before = os.geteuid()
    os.seteuid(nobody)
    try:
        found = entry(Path(path.name)).check_writable(1.0)
    finally:
        os.seteuid(before)
    assert isinstance(found, WriteProblem)
    assert ("not writable" if what == "file" else "Permission denied") in found.reason
    assert "chmod" in found.advice or "writable" in found.advice
    assert os.listdir(path.parent) == ["config"]


def test_a_file_that_cannot_be_replaced_is_written_in_place_o7(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is mounted into a container."""

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    number = path.stat().st_ino
    assert entry(path).write(NEW, 1.0) is None
    assert path.stat().st_ino == number
    assert read(path) == changed(**{"id-token": "new", "refresh-token": "on"})
    assert os.listdir(path.parent) == ["config"]


HOLDS = """
import sys, time
from kubeauth._config.writeback import exclusive_lock
with exclusive_lock(sys.argv[1], 60.0) as mine:
    print(mine, flush=True)
    time.sleep(600)
"""


def test_one_process_at_a_time_and_none_for_ever_o7(path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE, text=True)
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with exclusive_lock(str(path), 0.05) as mine:
            assert not mine
        # It dies with the lock in its hand, and nobody has to clean up.
        other.kill()
        with exclusive_lock(str(path), 60.0) as mine:
            assert mine


def test_whoever_waits_gets_the_file_that_took_its_place_o7(path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with exclusive_lock(str(path), 60.0) as mine:
            assert mine
            order.append("second")

    with exclusive_lock(str(path), 60.0):
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
        assert entry(path).write(NEW, 1.0) is None
        with exclusive_lock(
            str(path), 0.0
        ) as mine:  # the new file is free, but no other process gets the lock
            order.append(f"first {mine}")
    thread.join()
    assert "second" in order


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text() | st.sampled_from(
    ["y", "n", "on", "NO", "~", "null", "0x1f", "0o7", "1_0", "1e3", ".inf", ".NaN", "2001-01-01", "12:30:45", "<<", "=", "- a", "a: b", "#", "a #", "", " ", "\t", "line\nline\n", "\n", "|", "'", '"', "\u2028"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_is_written_is_read_again_o7(document: dict[str, Any]) -> None:
    """By us, who read as Go does: a user called y stays one."""
    known = read_document(json.dumps(document).encode(), limit=2**20)  # as it would have been read
    for as_json in (False, True):
        assert read_document(write_document(known, as_json=as_json), limit=2**20) == known
