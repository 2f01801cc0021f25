"""No error, log line or traceback holds a token, a JWT, or what was published (A92)."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from kubeauth import errors
from kubeauth.discovery import public_key_pin, sign_detached
from kubeauth.testing import Answer, Authority
from tests.discovery.clusters import SECRET, TOKEN, Cluster, Runtime, config_map, data, published
from tests.registry.servers import header
from tests.support.frames import package_locals

MARK = "marked-as-published"


def refusals(cluster: Cluster, evil: Authority, tmp_path: Path) -> dict[str, tuple[dict[str, Any], Any]]:
    """What goes wrong at each step, and where secrets are at that moment."""
    text = f"{cluster.kubeconfig}# {MARK}\n"
    good = config_map(text, sign_detached(text, TOKEN))
    seed = json.dumps(good).encode()
    broken = tmp_path / "broken.conf"
    broken.write_text(f"users: [{{name: u, user: {{token: {SECRET}, exec: 7}}}}]")
    bodiless = cluster.unpinned | {"timeout": 0}
    return {
        "token": (cluster.unpinned | {"token": f"abcdef.{SECRET}!"}, good),
        "bare secret": (cluster.unpinned | {"token": SECRET}, good),
        "tls token": (cluster.unpinned | {"tls_bootstrap_token": f"x.{SECRET}"}, good),
        "endpoint": (cluster.unpinned | {"endpoint": "nowhere"}, good),
        "status": (bodiless, Answer(500, text.encode())),
        "not JSON": (bodiless, text.encode()),
        "no signature": (bodiless, config_map(text)),
        "signature": (cluster.unpinned, config_map(text, "x")),
        "document": (cluster.unpinned, signed(f"{text}\n\t: {SECRET}")),
        "pin": (cluster.by_token | {"ca_cert_hashes": [public_key_pin(evil.pem)]}, good),
        "server": (cluster.unpinned, signed(published(f"http://{SECRET}", evil.pem))),
        "ca": (cluster.unpinned, signed(published(cluster.url, SECRET.encode()))),
        "seed": (cluster.unpinned | {"mode": "seed"}, Answer(200, seed, headers={"X-Kubernetes-JWS": "x"})),
        "seed, status": (bodiless | {"mode": "seed"}, Answer(401, seed)),
        "file": ({"file": broken}, good),
    }


def signed(text: str) -> Any:
    return config_map(text, sign_detached(text, TOKEN))


@pytest.mark.parametrize("kind", [
    "token", "bare secret", "tls token", "endpoint", "status", "not JSON", "no signature", "signature", "document",
    "pin", "server", "ca", "seed", "seed, status", "file",
])  # fmt: skip
def test_no_secret_is_ever_shown_a40_a92(
    runtime: Runtime,
    cluster: Cluster,
    evil: Authority,
    tmp_path: Path,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor is what was published: in errors, what they hold, their pickles, all variables, every log at DEBUG."""
    caplog.set_level(logging.DEBUG)
    cases = refusals(cluster, evil, tmp_path)
    arguments, answer = cases[kind]
    if isinstance(answer, bytes | dict):
        answer = Answer(200, answer)
    cluster.respond = lambda _: answer
    with pytest.raises((errors.DiscoveryError, errors.ConfigError)) as raised:
        runtime.discover(**arguments)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), vars(again)) == (str(raised.value), vars(raised.value))
    held = package_locals(raised.value)
    assert held
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    shown = [str(again), repr(again), caplog.text, *map(str, held)]
    jwts = [header(request, "Authorization").removeprefix("Bearer ") for request in cluster.requests]
    for secret in (SECRET, MARK, data(cluster.authority.pem)[:40], *filter(None, jwts)):
        assert [text for text in shown if secret in text] == []


def test_a_good_run_shows_nothing_either_a92(
    runtime: Runtime, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[Any] = []
    found = runtime.discover(**cluster.by_token, progress=told.append)
    shown = caplog.text + repr(found) + repr(told)
    assert "httpcore" in caplog.text
    assert not any(secret in shown for secret in (SECRET, data(cluster.authority.pem)[:40]))


def test_the_last_reason_of_a_hostile_server_steers_no_terminal(runtime: Runtime, cluster: Cluster) -> None:
    text = cluster.kubeconfig.replace('name: ""', 'name: "a"') + 'current-context: "\\x1b[31mred"\n'
    cluster.publish(text.replace('current-context: ""\n', ""))
    with pytest.raises(errors.ClusterNotTrusted) as raised:
        runtime.discover(**cluster.unpinned)
    assert "\x1b" not in str(raised.value)
