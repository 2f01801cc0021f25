"""Where the kubelet looks for a docker config (5.15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubeauth.registry._node import NodeKeyring
from kubeauth.testing import FakeClock
from tests.support.cases import each_case

# As the kubelet looks, the first first.
PLACES = [
    "kubelet/config.json", "cwd/config.json", "home/.docker/config.json", "root/.docker/config.json",
    "kubelet/.dockercfg", "cwd/.dockercfg", "home/.dockercfg", "root/.dockercfg",
]  # fmt: skip


def node(tmp_path: Path, clock: FakeClock | None = None, **options: bool) -> NodeKeyring:
    return NodeKeyring(
        tmp_path / "kubelet",
        working_directory=tmp_path / "cwd",
        root=tmp_path / "root",
        environ={"HOME": str(tmp_path / "home")},
        clock=clock or FakeClock(),
        **options,
    )


def write(tmp_path: Path, place: str, text: str | None = None) -> None:
    """A config whose user is called like its place, unless a text is given."""
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = {"http://foo.example.com": {"auth": "Zm9vOmJhcgo=", "email": place}}
    document = entries if path.name == ".dockercfg" else {"auths": entries}
    path.write_text(json.dumps(document) if text is None else text)


def found_in(keyring: NodeKeyring) -> list[str]:
    return [credential.email for credential in keyring.lookup("foo.example.com/x")]


def test_in_the_preferred_directory_dt_readdockerconfigfile(tmp_path: Path) -> None:
    write(tmp_path, PLACES[0])
    keyring = node(tmp_path)
    (found,) = keyring.lookup("foo.example.com/x")
    assert (found.username, found.password) == ("foo", "bar\n")
    assert found.source == keyring.path == str(tmp_path / PLACES[0])
    assert keyring.skipped == ()


@each_case("first", range(len(PLACES)))
def test_the_first_file_is_used_and_no_other_5_15(first: int, tmp_path: Path) -> None:
    for place in PLACES[first:]:
        write(tmp_path, place)
    assert found_in(node(tmp_path)) == [PLACES[first]]


@pytest.mark.parametrize("text", ["{", '{"auths": {"a.io": {"auth": "pants"}}}', '{"auths": 5}'])
def test_what_cannot_be_used_is_passed_over_and_named_5_15(text: str, tmp_path: Path) -> None:
    for place in PLACES[:4]:
        write(tmp_path, place, text)
    (tmp_path / PLACES[4]).mkdir()
    write(tmp_path, PLACES[5])
    keyring = node(tmp_path)
    assert found_in(keyring) == [PLACES[5]]
    assert [path for path, _ in keyring.skipped] == [str(tmp_path / place) for place in PLACES[:5]]
    assert "pants" not in repr(keyring.skipped)
    assert "auths" in keyring.skipped[0][1] or text == "{"


def test_a_config_without_entries_ends_the_search_5_15(tmp_path: Path) -> None:
    write(tmp_path, PLACES[0], '{"credsStore": "desktop"}')
    write(tmp_path, PLACES[1])
    keyring = node(tmp_path)
    assert found_in(keyring) == []
    assert keyring.path == str(tmp_path / PLACES[0])


def test_each_file_is_what_its_name_says(tmp_path: Path) -> None:
    entries = {"foo.example.com": {"username": "u"}}
    write(tmp_path, "kubelet/config.json", json.dumps(entries))
    assert node(tmp_path).lookup("foo.example.com/x") == []
    (tmp_path / "kubelet/config.json").unlink()
    write(tmp_path, "kubelet/.dockercfg", json.dumps({"auths": entries}))
    assert node(tmp_path).lookup("foo.example.com/x") == []


def test_nothing_anywhere_is_nothing_for_any_image(tmp_path: Path) -> None:
    keyring = node(tmp_path)
    assert repr(keyring) == "<NodeKeyring: not read yet>"
    assert keyring.lookup("nginx") == []
    assert (keyring.path, keyring.skipped) == (None, ())
    assert repr(keyring) == "<NodeKeyring: None>"


def test_keys_that_are_left_out_are_named_too(tmp_path: Path) -> None:
    write(tmp_path, PLACES[0], "{")
    write(tmp_path, PLACES[1], '{"auths": {"a b": {}}}')
    assert [name for name, _ in node(tmp_path).skipped] == [str(tmp_path / PLACES[0]), "a b"]


def test_kept_for_five_minutes_5_15(tmp_path: Path, clock: FakeClock) -> None:
    keyring = node(tmp_path, clock)
    assert found_in(keyring) == []
    write(tmp_path, PLACES[3])
    clock.advance(299)
    assert found_in(keyring) == []
    clock.advance(1)
    assert found_in(keyring) == [PLACES[3]]
    write(tmp_path, PLACES[0])
    clock.advance(300)
    assert found_in(keyring) == [PLACES[0]]


def test_home_and_working_directory_are_those_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "home/.docker/config.json")
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    # DOCKER_CONFIG is docker's, not the kubelet's.
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "kubelet"))
    write(tmp_path, "kubelet/config.json")
    nowhere = tmp_path / "nowhere"
    assert found_in(NodeKeyring(nowhere, root=nowhere)) == ["home/.docker/config.json"]
    write(tmp_path, "cwd/config.json")
    assert found_in(NodeKeyring(nowhere, root=nowhere)) == ["cwd/config.json"]


def test_without_a_home_none_is_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ".docker/config.json")
    monkeypatch.chdir(tmp_path)
    nowhere = tmp_path / "nowhere"
    assert found_in(NodeKeyring(nowhere, root=nowhere, environ={})) == []


def test_tokens_only_if_they_are_asked_for_9_9(tmp_path: Path) -> None:
    write(tmp_path, PLACES[0], '{"auths": {"a.io": {"identitytoken": "i"}}}')
    assert [c.identity_token for c in node(tmp_path).lookup("a.io")] == [""]
    assert [c.identity_token for c in node(tmp_path, with_tokens=True).lookup("a.io")] == ["i"]
