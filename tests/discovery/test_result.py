"""What discovery came to: kept in a file, and shown to nobody."""

from __future__ import annotations

import copy
import os
import stat
import sys
from pathlib import Path

import pytest

from kubeauth import errors, load_config
from kubeauth.discovery import Discovered, discover
from tests.discovery.clusters import SECRET, TOKEN, Cluster

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")


@pytest.fixture
def found(cluster: Cluster) -> Discovered:
    return discover(**cluster.by_token)


def test_what_is_saved_is_what_was_found(found: Discovered, tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.conf"
    found.save(path)
    saved = load_config(path)
    assert (saved.server, saved.ca_data, saved.token) == (
        found.config.server,
        found.config.ca_data,
        found.config.token,
    )
    found.save(str(tmp_path / "other"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bootstrap.conf", "home", "other"]


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("overwrite", [True, False])
def test_its_owner_alone_can_read_it_whatever_the_umask(
    found: Discovered, tmp_path: Path, umask: int, overwrite: bool
) -> None:
    path = tmp_path / "conf"
    if overwrite:
        path.write_text("before")
        path.chmod(0o666)
    before = os.umask(umask)
    try:
        found.save(path, overwrite=overwrite)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@POSIX
def test_nobody_else_can_read_it_at_any_moment(
    found: Discovered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at when it is all written, and still has another name."""
    seen: list[int] = []
    replace = os.replace

    def looked(source: str, target: str) -> None:
        seen.extend(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir() if each.is_file())
        replace(source, target)

    monkeypatch.setattr(os, "replace", looked)
    before = os.umask(0)
    try:
        found.save(tmp_path / "conf", overwrite=True)
    finally:
        os.umask(before)
    assert seen == [0o600]


def test_a_file_that_is_there_stays(found: Discovered, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("precious")
    with pytest.raises(errors.ConfigError, match=r"there is a file already.*overwrite=True"):
        found.save(path)
    assert path.read_text() == "precious"
    found.save(path, overwrite=True)
    assert load_config(path).server == found.config.server
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config", "home"]


@POSIX
@pytest.mark.parametrize("dangles", [True, False])
def test_a_link_leads_nowhere(found: Discovered, tmp_path: Path, dangles: bool) -> None:
    target, path = tmp_path / "target", tmp_path / "config"
    if not dangles:
        target.write_text("somebody else's")
    path.symlink_to(target)
    with pytest.raises(errors.ConfigError, match="there is a file already"):
        found.save(path)
    found.save(path, overwrite=True)
    assert not path.is_symlink()
    assert target.exists() != dangles
    if not dangles:
        assert target.read_text() == "somebody else's"


def test_somebody_who_is_faster_wins(
    found: Discovered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the writing."""
    path = tmp_path / "config"
    path.write_text("precious")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(errors.ConfigError, match="there is a file already"):
        found.save(path)
    assert path.read_text() == "precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config", "home"]


def test_a_file_system_without_second_names(
    found: Discovered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    found.save(tmp_path / "config")
    assert load_config(tmp_path / "config").server == found.config.server


@pytest.mark.parametrize("path", ["/nonexistent/directory/config", "a\0b", ""])
def test_what_cannot_be_written_is_said(found: Discovered, path: str) -> None:
    with pytest.raises(errors.ConfigError, match="cannot be written"):
        found.save(path)


def test_it_is_written_where_one_is(
    found: Discovered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found.save("config")
    assert load_config(tmp_path / "config").server == found.config.server


def test_it_shows_no_secret_a92(found: Discovered) -> None:
    shown = f"{found!r} {found} {found.config!r} {found.document!r}"
    assert TOKEN not in shown
    assert SECRET not in shown
    assert "tls-bootstrap-token-user@kubernetes" in shown
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(found.document).__reduce_ex__(2)


def test_whoever_changes_the_document_changes_a_copy(found: Discovered) -> None:
    found.kubeconfig["users"].clear()
    assert found.kubeconfig["users"][0]["user"] == {"token": TOKEN}
    with pytest.raises(AttributeError):
        found.method = "file"  # type: ignore[misc]
