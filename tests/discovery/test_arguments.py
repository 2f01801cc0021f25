"""What `discover` may be asked for: refused before anything is read, connected to or loaded."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

from kubeauth import Secret, errors
from kubeauth.discovery import BootstrapToken, adiscover, discover
from kubeauth.discovery._arguments import Arguments, ByFile, ByToken, ByUrl
from tests.discovery.clusters import TOKEN
from tests.project.test_exports import in_a_fresh_process
from tests.support.cases import each_case

GOOD: dict[str, Any] = {"endpoint": "h:6443", "token": Secret(TOKEN), "unsafe_skip_ca_verification": True}
PIN = "sha256:" + "0" * 64


@each_case(
    ("endpoint", "server"),
    [
        ("192.168.122.100:6443", "https://192.168.122.100:6443"),
        ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443"),
        ("Cluster.Example:1", "https://cluster.example:1"),
        ("a-b.c:65535", "https://a-b.c:65535"),
        ("x:06443", "https://x:06443"),
    ],
)
def test_endpoints_a36(endpoint: str, server: str) -> None:
    by = Arguments(**GOOD | {"endpoint": endpoint}).checked().by
    assert isinstance(by, ByToken)
    assert by.server == server


@each_case(
    "endpoint",
    ["", "192.168.122.100", "h", ":6443", "h:", "h:0", "h:65536", "h:x", "h:-1", "h:+1", "h:6443/", "https://h:6443", "h:6443?x", "u:p@h:6443",
     "h h:1", "2001:db8::1:6443", "[::1", "[::1]", "[127.0.0.1]:1", "[fe80::1%eth0]:1", "[]:1", "1.2.3:1", "1.2.3.4.5:1", "256.1.1.1:1",
     "h..x:1", "-h:1", "h-:1", "h_x:1", "é:1", "h:\u0661", "h:1\n", "h\n:1", "a" * 64 + ".example:1", "a." * 127 + "a:1", "h:" + "9" * 5000, "h:000443", "h:00006553500", "h\0:1", "*:1"],
)  # fmt: skip
def test_what_is_no_endpoint_a36(endpoint: str) -> None:
    with pytest.raises(errors.ConfigError, match="endpoint"):
        Arguments(**GOOD | {"endpoint": endpoint}).checked()


def test_a_token_in_the_place_of_the_endpoint_is_not_repeated_a92() -> None:
    with pytest.raises(errors.ConfigError) as raised:
        Arguments(**GOOD | {"endpoint": TOKEN}).checked()
    assert TOKEN not in str(raised.value)


@each_case(
    ("arguments", "why"),
    [
        ({}, "None of them"),
        ({"endpoint": "h:1", "token": Secret(TOKEN), "file": "f"}, "More than one"),
        ({"endpoint": "h:1", "token": Secret(TOKEN), "url": "https://h"}, "More than one"),
        ({"token": Secret(TOKEN), "file": "f"}, "More than one"),
        ({"file": "f", "url": "https://h"}, "More than one"),
        ({"endpoint": "h:1"}, "token= is missing"),
        ({"token": Secret(TOKEN)}, "endpoint= is missing"),
        ({"file": "f", "ca_cert_hashes": [PIN]}, "ca_cert_hashes= is for"),
        ({"url": "https://h", "unsafe_skip_ca_verification": True}, "unsafe_skip_ca_verification= is for"),
        ({"file": "f", "mode": "seed"}, "mode= is for"),
        ({"file": "f", "audience": "a"}, "audience= is for"),
        ({"file": "f", "tls_bootstrap_token": Secret("foo")}, "not a bootstrap token"),
        (GOOD | {"mode": "other"}, "mode= must be one of shipped, seed"),
        (GOOD | {"audience": "a"}, 'audience= is for mode="seed"'),
        (GOOD | {"unsafe_skip_ca_verification": False}, "ca_cert_hashes= is missing"),
        (GOOD | {"unsafe_skip_ca_verification": False, "mode": "seed"}, "ca_cert_hashes= is missing"),
        (GOOD | {"token": BootstrapToken("abcdef", "short")}, "not a bootstrap token"),
        (GOOD | {"ca_cert_hashes": [PIN, "foo"]}, "CA pin 2 of 2 is an invalid CA hash"),
    ],
    ids=str,
)
def test_one_way_and_all_that_it_needs_a36_a42_a63(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(errors.ConfigError, match=why):
        Arguments(**arguments).checked()


@each_case("name", ["timeout", "interval"])
@each_case("value", [-1, math.nan, math.inf, -math.inf, "5", None, True])
def test_seconds_are_seconds(name: str, value: Any) -> None:
    with pytest.raises(errors.ConfigError, match=f"{name}= must be a number of seconds"):
        Arguments(**GOOD | {name: value}).checked()


def test_an_interval_of_nothing_would_be_a_flood() -> None:
    with pytest.raises(errors.ConfigError, match="interval="):
        Arguments(**GOOD | {"interval": 0}).checked()
    assert Arguments(**GOOD | {"timeout": 0}).checked().timeout == 0


@each_case(
    ("file", "by"),
    [
        ("foo", ByFile("foo")),
        ("/etc/kubernetes/discovery.conf", ByFile("/etc/kubernetes/discovery.conf")),
        ("file:///etc/a%20b", ByFile("/etc/a b")),
        ("file://p", ByFile("p")),
        ("-", ByFile("-")),
        ("a:b", ByFile("a:b")),
        ("C:\\x", ByFile("C:\\x")),
        ("https://url/file.conf", ByUrl("https://url/file.conf")),
        ("HTTPS://url/file.conf", ByUrl("HTTPS://url/file.conf")),
    ],
)
def test_a_file_may_be_a_url_a64_a65(file: str, by: Any) -> None:
    assert Arguments(file=file).checked().by == by


@each_case(
    "file",
    ["", "http://foo", "ftp://foo", "HTTP://foo", "https://", "https://user:pass@h/x", "https://h:99999/", "https://[::1", "https://h\n/x", "file://", "file://http://h"],
)  # fmt: skip
def test_what_is_neither_a65(file: str) -> None:
    with pytest.raises(errors.ConfigError) as raised:
        Arguments(file=file).checked()
    assert "pass@" not in str(raised.value)


def test_both_colours_take_the_same() -> None:
    assert inspect.signature(discover).parameters == inspect.signature(adiscover).parameters


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = """
import json, sys
from kubeauth import errors
from kubeauth.discovery import discover, Discovered, Progress
try:
    discover("h:6443", token="x", unsafe_skip_ca_verification=True)
except errors.ConfigError:
    pass
print(json.dumps(sorted(sys.modules)))
"""
    loaded = set(in_a_fresh_process(code))
    before = set(in_a_fresh_process("import json, sys; print(json.dumps(sorted(sys.modules)))"))
    assert not (loaded - before) & {"httpx", "cryptography", "anyio", "yaml", "ssl", "asyncio"}
