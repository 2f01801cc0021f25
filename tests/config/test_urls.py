from __future__ import annotations

import pytest

from kubeauth._config.urls import InvalidURL, find_proxy_problem, has_userinfo, parse_server_url, redact_url
from tests.support.cases import each_case


@each_case(
    ("server", "url"),
    [
        ("https://h:6443", "https://h:6443"),
        ("https://h/prefix", "https://h/prefix"),
        ("https://h/prefix/?q=1#f", "https://h/prefix/"),
        ("https://h?q=1", "https://h"),
        ("HTTPS://h", "https://h"),
        ("https://[::1]:6443", "https://[::1]:6443"),
        ("http://h:8080", "http://h:8080"),
    ],
)
def test_query_and_fragment_of_the_server_are_dropped_k45(server: str, url: str) -> None:
    assert parse_server_url(server) == url


@each_case(
    ("server", "url"),
    [("h", "https://h"), ("h:6443", "https://h:6443"), ("10.0.0.1:6443", "https://10.0.0.1:6443"),
     ("h/", "https://h/"), ("[::1]:6443", "https://[::1]:6443")],
)  # fmt: skip
def test_a_server_without_a_scheme_uses_https_k47(server: str, url: str) -> None:
    assert parse_server_url(server) == url


@each_case(
    "server",
    ["ftp://h", "https://", "h/path", "https://h:port", "https://h:99999", "https://h\n", "https://a b", "://h",
     "https://[::1", "unix:///var/run/x", "https:///path", "https://h\\x", 'https://a"b', "https://h<x>",
     "https://h/%zz", "https:h", "https://a" + "\u0301\u0316" * 500_000],
)  # fmt: skip
def test_invalid_server_urls_are_rejected(server: str) -> None:
    with pytest.raises(InvalidURL) as caught:
        parse_server_url(server)
    assert server not in str(caught.value)


@each_case(
    ("url", "problem"),
    [
        ("http://proxy:3128", None),
        ("https://user:pass@proxy", None),
        ("socks5://proxy:1080", None),
        ("socks5h://proxy", "unsupported scheme"),
        ("proxy:3128", "unsupported scheme"),
        ("ftp://proxy", "unsupported scheme"),
        ("http://proxy:port", "could not parse"),
        ("http://pro xy", "could not parse"),
        ("http://", "could not parse"),
        ("http://%", "could not parse"),
        ("http://p/%zz", "could not parse"),
        ("s3cret:x@proxy", "unsupported scheme, must be"),
    ],
)
def test_proxy_urls_k36(url: str, problem: str | None) -> None:
    found = find_proxy_problem(url)

    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert problem in found


def test_userinfo_is_redacted() -> None:
    assert redact_url("http://u:s3ntinel@proxy:1/p?q") == "http://***@proxy:1/p?q"
    assert redact_url("http://proxy:1") == "http://proxy:1"
    assert redact_url("http://u:s3ntinel @proxy") == "<unprintable>"

    assert has_userinfo("http://u@p")
    assert not has_userinfo("http://p/@x")
    assert has_userinfo("http://u:s3ntinel @proxy"), "an unprintable URL counts as one with a password"
