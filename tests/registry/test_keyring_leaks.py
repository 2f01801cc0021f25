"""No secret of a docker config in a repr, an error, a traceback with its locals, a log line or a pickle."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubeauth.errors import DockerConfigError
from kubeauth.registry._keyring import Keyring
from kubeauth.registry._node import NodeKeyring
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, assert_no_leak, render_error, render_locals

PAIR = base64.b64encode(f"u:{SENTINEL}".encode()).decode()
GOOD: dict[str, Any] = {
    f"https://me:{SENTINEL}@gcr.io": {"username": "u", "password": SENTINEL, "auth": PAIR},
    "quay.io": {"identitytoken": SENTINEL, "registrytoken": SENTINEL},
}
BROKEN: dict[str, Any] = {
    "bad base64": {"auth": f"%{SENTINEL}"},
    "no colon": {"auth": base64.b64encode(SENTINEL.encode()).decode()},
    "not utf-8": {"auth": base64.b64encode(f"u:{SENTINEL}".encode() + b"\xff").decode()},
    "wrong type": {"password": [SENTINEL]},
    "not an object": SENTINEL,
}


def secret(text: str) -> dict[str, Any]:
    return {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": text}}


def in_a_file(document: Any, path: Path) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


WAYS: dict[str, Callable[[dict[str, Any], Path], object]] = {
    "add": lambda auths, _: Keyring().add(auths),
    "mapping": lambda auths, _: Keyring.from_docker_config({"auths": auths}, with_tokens=True),
    "flat": lambda auths, _: Keyring.from_docker_config(auths),
    "bytes": lambda auths, _: Keyring.from_docker_config(json.dumps({"auths": auths}).encode()),
    "file": lambda auths, path: Keyring.from_docker_config(in_a_file({"auths": auths}, path)),
    "secrets": lambda auths, _: Keyring.from_pull_secrets(
        [secret(json.dumps({"auths": GOOD})), secret(json.dumps({"auths": auths}))]
    ),
}


@each_case("way", WAYS)
@each_case("entry", BROKEN.values(), ids=BROKEN.keys())
def test_broken_entries_do_not_leak(
    entry: object, way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DockerConfigError) as caught:
        WAYS[way]({**GOOD, f"https://me:{SENTINEL}@b.io/": entry}, tmp_path / "config.json")
    assert_no_leak(caught.value, caplog)
    assert PAIR not in render_error(caught.value)
    assert "b.io" in (caught.value.field or "")


@pytest.mark.parametrize(
    "text", [f'{{"auths": {{"a.io": {{"auth": "{SENTINEL}"', f'"{SENTINEL}"', f"{SENTINEL}\x00"]
)
def test_broken_documents_do_not_leak(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ways: list[Callable[[], object]] = [
        lambda: Keyring.from_docker_config(text.encode()),
        lambda: Keyring.from_docker_config(in_a_file(text, tmp_path / "config.json")),
        lambda: Keyring.from_pull_secrets([secret(json.dumps({"auths": GOOD})), secret(text)]),
    ]
    for call in ways:
        with pytest.raises(DockerConfigError) as caught:
            call()
        assert_no_leak(caught.value, caplog)


def test_text_where_a_path_belongs_does_not_leak(caplog: pytest.LogCaptureFixture) -> None:
    text = json.dumps({"auths": GOOD})
    for source in (text, f"\n{text}", base64.b64encode(text.encode()).decode()):
        with pytest.raises(DockerConfigError) as caught:
            Keyring.from_docker_config(source)
        assert_no_leak(caught.value, caplog)
        assert base64.b64encode(text.encode()).decode() not in render_error(caught.value)


def test_what_is_not_even_a_mapping_does_not_leak(caplog: pytest.LogCaptureFixture) -> None:
    wrong: Any
    for wrong in ([("a.io", {"password": SENTINEL})], {1: {"password": SENTINEL}}, SENTINEL):
        with pytest.raises(DockerConfigError) as caught:
            Keyring().add(wrong)
        assert_no_leak(caught.value, caplog)
    for wrong in ([SENTINEL], {SENTINEL: 1}):
        with pytest.raises(DockerConfigError) as caught:
            Keyring.from_pull_secrets(wrong)
        assert_no_leak(caught.value, caplog)


def test_keyrings_and_what_they_find_show_no_secret(tmp_path: Path) -> None:
    keyring = Keyring.from_docker_config({"auths": {**GOOD, f"me:{SENTINEL}@b b": {}}}, with_tokens=True)
    in_a_file({"auths": GOOD}, tmp_path / "config.json")
    node = NodeKeyring(tmp_path, working_directory=tmp_path, root=tmp_path, environ={})
    joined = Keyring.joined(keyring, node)
    found = joined.lookup("gcr.io/x") + joined.lookup("quay.io/x")
    assert [credential.password for credential in found] == [SENTINEL, SENTINEL, "", ""]
    for shown in (keyring, node, joined, found, joined.skipped):
        assert SENTINEL not in repr(shown) + str(shown) + f"{shown}"


def test_nothing_of_it_is_pickled() -> None:
    keyring = Keyring.from_docker_config({"auths": GOOD})
    for held in (keyring, Keyring.joined(keyring), keyring.lookup("gcr.io/x")):
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            pickle.dumps(held)
        assert SENTINEL not in str(caught.value)


def test_the_walk_over_locals_would_notice() -> None:
    class Careless(Exception):
        pass

    def careless(_image: str) -> Any:
        raise Careless

    keyring = Keyring.from_docker_config({"auths": GOOD})
    keyring.lookup("gcr.io/x")
    with pytest.raises(Careless) as caught:
        Keyring.joined(keyring, type("K", (), {"lookup": staticmethod(careless)})()).lookup(SENTINEL)
    assert SENTINEL in "".join(render_locals(caught.value.__traceback__))
