"""New tokens in a kubeconfig that other processes read and write too (O7)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth._config.writeback import AuthProviderEntry, WriteProblem, exclusive_lock
from kubeauth._parsing import read_document, write_document

SETTINGS = {"idp-issuer-url": "https://i", "client-id": "c", "id-token": "old", "unknown": "kept"}
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
        {"name": "me", "user": {"auth-provider": {"name": "oidc", "config": SETTINGS}}},
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


def document_with(**settings: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(DOCUMENT))
    document["users"][1]["user"]["auth-provider"]["config"].update(settings)
    return document


def read(path: Path) -> Any:
    return read_document(path.read_bytes(), limit=2**20)


NEW = {"id-token": Secret("new"), "refresh-token": Secret("on")}


def test_the_rest_of_the_file_is_unchanged_o7(path: Path) -> None:
    assert entry(path).write(NEW, 1.0) is None
    assert read(path) == document_with(**{"id-token": "new", "refresh-token": "on"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == ["config"]
    assert entry(path).read() == {**SETTINGS, "id-token": "new", "refresh-token": "on"}


def test_temporary_files_of_a_killed_process_are_removed_o7(path: Path) -> None:
    (path.parent / ".config.kubeauth-abc").write_text("partial")
    (path.parent / ".config.mine").write_text("unrelated")
    assert entry(path).write(NEW, 1.0) is None
    assert sorted(os.listdir(path.parent)) == [".config.mine", "config"]


@pytest.mark.parametrize("before", ["", " \r\n", "\ufeff"])
def test_a_json_file_stays_json_o7(path: Path, before: str) -> None:
    path.write_text(before + json.dumps(DOCUMENT))
    assert entry(path).write(NEW, 1.0) is None
    assert json.loads(path.read_text()) == document_with(**{"id-token": "new", "refresh-token": "on"})


def test_a_symlink_is_kept_and_its_target_written_o7(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)

    assert entry(link).write(NEW, 1.0) is None
    assert link.is_symlink()
    assert read(path)["users"][1]["user"]["auth-provider"]["config"]["id-token"] == "new"
    assert sorted(os.listdir(tmp_path)) == ["home", "kube", "link"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for chown")
def test_the_owner_of_the_file_is_kept_o7(path: Path, unprivileged_user: int) -> None:
    os.chown(path, unprivileged_user, unprivileged_user)
    assert entry(path).write(NEW, 1.0) is None
    assert (path.stat().st_uid, path.stat().st_gid) == (unprivileged_user, unprivileged_user)


@pytest.mark.parametrize(
    "document",
    [{}, {"users": None}, {"users": [3, {"name": "me"}]}, {"users": [{"name": "me", "user": {"exec": {}}}]},
     {"users": [{"name": "me", "user": {"auth-provider": {"config": {"client-id": "another"}}}}]}],
)  # fmt: skip
def test_a_missing_or_different_entry_is_not_written_o7(document: Any, path: Path) -> None:
    path.write_text(json.dumps(document))
    assert entry(path).read() is None
    assert entry(path).write(NEW, 1.0) is None
    assert json.loads(path.read_text()) == document


def test_a_missing_file_is_not_created_o7(path: Path) -> None:
    path.unlink()
    assert entry(path).read() is None
    assert entry(path).write(NEW, 1.0) is None

    with exclusive_lock(str(path), 60.0) as is_locked:
        assert is_locked
    assert os.listdir(path.parent) == []


def test_an_invalid_file_is_not_written_o7(path: Path) -> None:
    path.write_text("users: [s3ntinel")
    for problem in (entry(path).read(), entry(path).write(NEW, 1.0)):
        assert isinstance(problem, WriteProblem)
        assert "cannot be read" in problem.reason
        assert "s3ntinel" not in repr(problem)
    assert path.read_text() == "users: [s3ntinel"


def test_a_stale_lock_file_is_reported_o7(path: Path) -> None:
    lock = path.with_name("config.lock")
    lock.touch()

    for problem in (entry(path).write(NEW, 0.05), entry(path).check_writable(0.05)):
        assert isinstance(problem, WriteProblem)
        assert f"remove {lock}" in problem.advice
    assert lock.exists()
    assert read(path) == DOCUMENT


def test_a_symlink_and_its_target_are_both_locked_o7(path: Path, tmp_path: Path) -> None:
    """kubectl locks the path it was called with, which may be either."""
    link = tmp_path / "link"
    link.symlink_to(path)

    for lock in (Path(f"{link}.lock"), Path(f"{path}.lock")):
        lock.touch()
        problem = entry(link).write({"id-token": Secret("new")}, 0.0)
        assert isinstance(problem, WriteProblem)
        assert f"remove {lock}" in problem.advice
        lock.unlink()

    assert entry(link).write({"id-token": Secret("new")}, 0.0) is None


def test_write_waits_for_the_lock_file_o7(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = path.with_name("config.lock")
    lock.touch()
    monkeypatch.setattr(time, "sleep", lambda _: lock.unlink(missing_ok=True))

    assert entry(path).write(NEW, 60.0) is None
    assert read(path) != DOCUMENT


def test_read_waits_for_a_partially_written_file_o7(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl overwrites the file in place while the lock file exists."""
    monkeypatch.setattr("kubeauth._config.writeback._KUBECTL_WRITE_TIMEOUT", 60.0)
    whole = path.read_bytes()
    lock = path.with_name("config.lock")
    lock.touch()
    path.write_bytes(whole[: len(whole) // 3])

    def finish_write(_: float) -> None:
        path.write_bytes(whole)
        lock.unlink(missing_ok=True)

    monkeypatch.setattr(time, "sleep", finish_write)

    assert entry(path).read() == SETTINGS


@pytest.mark.parametrize("readonly", ["file", "directory"])
def test_check_writable_reports_missing_permissions_o7(
    readonly: str, path: Path, unprivileged_user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)  # its parents are not accessible to that user
    os.chown(path, unprivileged_user, unprivileged_user)
    os.chown(path.parent, unprivileged_user, unprivileged_user)
    path.chmod(0o444 if readonly == "file" else 0o600)
    path.parent.chmod(0o755 if readonly == "file" else 0o555)

    euid = os.geteuid()
    os.seteuid(unprivileged_user)
    try:
        problem = entry(Path(path.name)).check_writable(1.0)
    finally:
        os.seteuid(euid)

    assert isinstance(problem, WriteProblem)
    assert ("not writable" if readonly == "file" else "Permission denied") in problem.reason
    assert "chmod" in problem.advice or "writable" in problem.advice
    assert os.listdir(path.parent) == ["config"]


def test_a_file_that_cannot_be_replaced_is_overwritten_in_place_o7(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a file that is mounted into a container."""

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    inode = path.stat().st_ino

    assert entry(path).write(NEW, 1.0) is None
    assert path.stat().st_ino == inode
    assert read(path) == document_with(**{"id-token": "new", "refresh-token": "on"})
    assert os.listdir(path.parent) == ["config"]


HOLD_LOCK = """
import sys, time
from kubeauth._config.writeback import exclusive_lock
with exclusive_lock(sys.argv[1], 60.0) as is_locked:
    print(is_locked, flush=True)
    time.sleep(600)
"""


def test_the_lock_excludes_other_processes_and_is_released_by_a_killed_one_o7(path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(path)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"

        with exclusive_lock(str(path), 0.05) as is_locked:
            assert not is_locked

        # The kernel releases the lock of a killed process.
        holder.kill()
        with exclusive_lock(str(path), 60.0) as is_locked:
            assert is_locked


def test_a_waiter_locks_the_file_that_replaced_the_locked_one_o7(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_waiting = threading.Event()
    results: list[bool] = []
    sleep = time.sleep

    def sleep_between_polls(seconds: float) -> None:
        if threading.current_thread() is waiter:
            is_waiting.set()
        sleep(seconds)

    def lock_file() -> None:
        with exclusive_lock(str(path), 60.0) as is_locked:
            results.append(is_locked)

    waiter = threading.Thread(target=lock_file)
    monkeypatch.setattr(time, "sleep", sleep_between_polls)

    with exclusive_lock(str(path), 60.0):
        waiter.start()
        assert is_waiting.wait(60)
        assert entry(path).write(NEW, 1.0) is None
        with exclusive_lock(str(path), 0.0):  # the waiter may or may not have locked the new file
            pass
    waiter.join()

    assert results == [True]


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
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXT, children, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_written_document_is_read_back_unchanged_o7(document: dict[str, Any]) -> None:
    """In the dialect of Go's YAML: a user called `y` is written with quotes."""
    normalized = read_document(json.dumps(document).encode(), limit=2**20)
    for as_json in (False, True):
        assert read_document(write_document(normalized, as_json=as_json), limit=2**20) == normalized
