"""No secret in a repr, an error, a traceback with its locals, a log line or a pickle."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth.errors import KubeAuthError
from tests.support.cases import each_case
from tests.support.kubeconfigs import EXTENSION, V1, document
from tests.support.leaks import ENCODED, SENTINEL, assert_no_leak

SECRETS: dict[str, Any] = {
    "token": SENTINEL,
    "client-certificate-data": ENCODED,
    "client-key-data": ENCODED,
    "exec": {
        "apiVersion": V1,
        "command": "plug",
        "interactiveMode": "Never",
        "args": [SENTINEL],
        "env": [{"name": "A", "value": SENTINEL}],
        "installHint": SENTINEL,
    },
}
CLUSTER: dict[str, Any] = {
    "proxy-url": f"http://u:{SENTINEL}@proxy:1",
    "certificate-authority-data": ENCODED,
    "extensions": [{"name": EXTENSION, "extension": {"a": SENTINEL}}],
}
BROKEN: dict[str, dict[str, Any]] = {
    "two methods": document(CLUSTER, {**SECRETS, "username": "n", "password": SENTINEL}),
    "wrong type": document(CLUSTER, {**SECRETS, "username": [SENTINEL]}),
    "bad base64": document(CLUSTER, {**SECRETS, "client-key-data": f"%{SENTINEL}"}),
    "bad proxy": document({**CLUSTER, "proxy-url": f"socks5h://u:{SENTINEL}@proxy"}, SECRETS),
    "unparsable proxy": document({**CLUSTER, "proxy-url": f"http://u:{SENTINEL}\n@proxy"}, SECRETS),
    "bad server": document({**CLUSTER, "server": f"ftp://u:{SENTINEL}@h"}, SECRETS),
    "duplicate": document(CLUSTER, SECRETS, users=[{"name": "u", "user": SECRETS}] * 2),
    "missing file": document(
        CLUSTER, {**SECRETS, "client-certificate-data": None, "client-certificate": "/nope"}
    ),
    "missing context": {**document(CLUSTER, SECRETS), "current-context": "gone"},
    "missing user": document(CLUSTER, SECRETS, users=[{"name": "other", "user": SECRETS}]),
    "wrong kind": document(CLUSTER, SECRETS, kind="Secret"),
    "auth provider": document(
        CLUSTER, {"auth-provider": {"name": "gcp", "config": {"access-token": SENTINEL}}}
    ),
    "bytes": {
        **document(CLUSTER, SECRETS),
        "extensions": [{"name": "e", "extension": SENTINEL.encode()}],
    },
    "key as path": document(
        user={"client-certificate-data": "YQ==", "client-key": f"-----BEGIN PRIVATE KEY-----\n{SENTINEL}\n"}
    ),
    "token as path": document(user={"tokenFile": f"-----BEGIN {SENTINEL}"}),
    "insecure": document({**CLUSTER, "insecure-skip-tls-verify": True}, SECRETS),
}
TEXTS = {
    "unclosed": f"users: [{{name: u, user: {{token: {SENTINEL}",
    "alias": f"users: *{SENTINEL}",
    "not yaml": f"a: {SENTINEL}: {SENTINEL}",
    "not json": f'{{"token": "{SENTINEL}", }}x',
    "surrogate": f'{{"token": "{SENTINEL}\\ud800" "x"}}',
    "invalid utf-8": f"token: {SENTINEL}".encode() + b"\xff",
    "scalar": SENTINEL,
}


@each_case(
    ("broken", "form"),
    [
        pytest.param(broken, form, id=f"{name}-{form}")
        for name, broken in BROKEN.items()
        for form in ("dict", "bytes", "str", "file")
        if form == "dict" or name != "bytes"  # bytes are not valid JSON
    ],
)
def test_broken_kubeconfigs_do_not_leak(
    broken: dict[str, Any], form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source: Any = broken
    if form != "dict":
        source = json.dumps(broken).encode()
    if form == "file":
        (tmp_path / "config").write_bytes(source)
        source = tmp_path / "config"
    if form == "str":
        source = source.decode()

    with pytest.raises(KubeAuthError) as caught:
        kubeauth.load_config(source)

    assert_no_leak(caught.value, caplog)


@each_case(
    "source", [f"token: {SENTINEL}", f"{{a: {SENTINEL}}}", f"users:\n- {SENTINEL}", f"a{SENTINEL}: " * 999]
)
def test_a_kubeconfig_passed_in_place_of_a_path_does_not_leak(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KubeAuthError, match="encode it") as caught:
        kubeauth.load_config(source)

    assert_no_leak(caught.value, caplog)


@each_case("form", ["bytes", "file"])
@each_case("text", TEXTS.values(), ids=TEXTS.keys())
def test_unreadable_kubeconfigs_do_not_leak(
    text: str | bytes, form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source: Any = text.encode() if isinstance(text, str) else text
    if form == "file":
        (tmp_path / "config").write_bytes(source)
        source = tmp_path / "config"

    with pytest.raises(KubeAuthError) as caught:
        kubeauth.load_config(source)

    assert_no_leak(caught.value, caplog)


def test_assert_no_leak_fails_for_a_leak(caplog: pytest.LogCaptureFixture) -> None:
    def leaky() -> None:
        raise KubeAuthError(f"token {SENTINEL}")

    with pytest.raises(KubeAuthError) as caught:
        leaky()
    with pytest.raises(AssertionError):
        assert_no_leak(caught.value, caplog)


def test_valid_configs_neither_print_nor_log_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "config"
    path.write_text(json.dumps(document({**CLUSTER, "certificate-authority-data": None}, SECRETS)))

    config = kubeauth.load_config(path)

    assert config.token is not None
    assert config.token.reveal() == SENTINEL

    rendered = [
        repr(config),
        str(config),
        f"{config}",
        repr(config.exec),
        repr([config]),
        repr(pickle.dumps(config)),
    ]
    assert SENTINEL not in "".join([*rendered, caplog.text])
