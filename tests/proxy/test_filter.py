"""Who may ask for what: kubectl's filters, and two more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from kubeauth._proxy._filter import Filter
from kubeauth._proxy._refusal import Refused
from kubeauth.errors import ConfigError
from tests.support.cases import each_case


class Asked(NamedTuple):
    """What a filter looks at."""

    method: str
    path: str
    hosts: Sequence[str]
    origins: Sequence[str] = ()
    sites: Sequence[str] = ()


def code_of(asked: Asked, filter: Filter | None = None, *, hosts: bool = True) -> int:
    rules = (filter or Filter()).compiled(hosts=hosts)
    try:
        rules.check_caller(asked.hosts, asked.origins, asked.sites)
        rules.check_request(asked.method, asked.path)
    except Refused as refused:
        return refused.code
    return 200


@pytest.mark.attack(
    "proxy",
    "DNS rebinding and pages of other sites: `Host`, `Origin`, `Sec-Fetch-Site`",
    "403 before the API server is contacted",
)
@each_case(
    ("host", "code"),
    [
        ("localhost", 200), ("localhost:8001", 200), ("localhost:", 200), ("127.0.0.1", 200), ("127.0.0.1:8001", 200),
        ("[::1]", 200), ("[::1]:8001", 200),
        ("evil.example", 403), ("localhost.evil.example", 403), ("evil.example:8001", 403), ("127.0.0.1.evil", 403),
        ("LOCALHOST", 403), ("localhost.", 403), ("127.0.0.2", 403), ("0.0.0.1", 403), ("127.1", 403), ("2130706433", 403),
        ("[::ffff:127.0.0.1]", 403), ("", 403), (":8001", 403), ("xlocalhost", 403), ("localhostx", 403),
        ("localhost:8001:1", 400), ("evil@localhost", 400), ("localhost/x", 400), ("localhost:x", 400), ("::1", 400),
        ("local host", 400), ("[::1", 400), ("[localhost]", 400), ("localhost,evil", 400), ("localhost\n", 400),
        ("http://localhost", 400), ("localhost:123456", 400), ("\xe9", 400),
    ],
)  # fmt: skip
def test_hosts(host: str, code: int) -> None:
    assert code_of(Asked("GET", "/api", [host])) == code
    assert code_of(Asked("GET", "/api", [host]), hosts=False) == 200


def test_one_host() -> None:
    assert code_of(Asked("GET", "/", ["localhost", "localhost"])) == 400
    assert code_of(Asked("GET", "/", ["localhost", "evil"])) == 400
    assert code_of(Asked("GET", "/", [])) == 403
    assert code_of(Asked("GET", "/", []), hosts=False) == 200


@pytest.mark.attack(
    "proxy",
    "DNS rebinding and pages of other sites: `Host`, `Origin`, `Sec-Fetch-Site`",
    "403 before the API server is contacted",
)
@each_case(
    ("origin", "code"),
    [
        ("http://localhost:3000", 200), ("http://127.0.0.1", 200), ("https://[::1]:8443", 200),
        ("app://localhost", 403), ("evil://localhost", 403), ("ws://localhost", 403), ("httpx://localhost", 403),
        ("http:localhost", 403), ("chrome-extension://localhost", 403), ("http+unix://localhost", 403),
        ("http://evil.example", 403), ("https://localhost.evil.example", 403), ("null", 403), ("", 403), ("localhost", 403),
        ("http://", 403), ("http://localhost/", 403), ("http://a@localhost", 403), ("http://localhost http://evil", 403),
        ("http://localhost, http://evil", 403), ("file://", 403),
    ],
)  # fmt: skip
def test_origins(origin: str, code: int) -> None:
    assert code_of(Asked("GET", "/api", ["localhost"], [origin])) == code
    assert code_of(Asked("GET", "/api", ["localhost"], ["http://localhost", origin])) == code
    assert code_of(Asked("GET", "/api", ["localhost"], [origin]), hosts=False) == 200


@pytest.mark.attack(
    "proxy",
    "DNS rebinding and pages of other sites: `Host`, `Origin`, `Sec-Fetch-Site`",
    "403 before the API server is contacted",
)
@each_case(
    ("site", "code"),
    [
        ("same-origin", 200), ("none", 200),
        ("same-site", 403), ("cross-site", 403), (" Cross-Site ", 403), ("Same-Origin", 403), ("", 403), ("x", 403),
        ("same-origin, cross-site", 403), ("same-origin;x", 403), ("null", 403),
    ],
)  # fmt: skip
def test_sites(site: str, code: int) -> None:
    assert code_of(Asked("GET", "/api", ["localhost"], [], [site])) == code
    assert code_of(Asked("GET", "/api", ["localhost"], [], ["same-origin", site])) == code
    assert code_of(Asked("GET", "/api", ["localhost"], [], [site]), hosts=False) == 200


@each_case(
    ("host", "origin", "code"),
    [
        ("localhost:8001", "http://localhost:8001", 200), ("127.0.0.1:8001", "http://127.0.0.1:8001", 200),
        ("[::1]:8001", "https://[::1]:8001", 200), ("localhost", "http://localhost", 200),
        ("localhost:8001", "http://localhost:3000", 403), ("localhost:8001", "http://127.0.0.1:8001", 403),
        ("localhost:8001", "http://localhost", 403), ("localhost:8001", "http://evil.example:8001", 403),
        ("evil.example:8001", "http://evil.example:8001", 403), ("localhost:8001", "null", 403),
    ],
)  # fmt: skip
def test_an_upgrade_is_for_a_page_of_this_proxy_alone(host: str, origin: str, code: int) -> None:
    """Chromium sends no Sec-Fetch-Site with it, and a page of any origin can read what comes through it."""
    rules = Filter().compiled()
    if code == 200:
        rules.check_caller([host], [origin], is_upgrade=True)
    else:
        with pytest.raises(Refused) as refused:
            rules.check_caller([host], [origin], is_upgrade=True)
        assert refused.value.code == code
    rules.check_caller(["localhost:8001"], is_upgrade=True)  # not from a browser


POD = "/api/v1/namespaces/default/pods/web"


@each_case(
    ("path", "code"),
    [
        ("/", 200), ("/api/v1/namespaces", 200), (POD, 200), (f"{POD}/log", 200), (f"{POD}/portforward", 200),
        (f"{POD}/exec", 403), (f"{POD}/attach", 403), (f"{POD}/exec/", 403), (f"{POD}/execx", 403),
        ("/apis/x/v1/pods/exec", 200),
    ],
)  # fmt: skip
def test_paths(path: str, code: int) -> None:
    assert code_of(Asked("GET", path, ["localhost"])) == code


def test_what_is_said_about_paths_and_methods() -> None:
    filter = Filter(accept_paths="^/api/,^/version$", reject_paths="secrets", reject_methods="POST,^PUT$")
    for method, path, code in [
        ("GET", "/version", 200), ("GET", "/versions", 403), ("GET", "/api/v1/pods", 200), ("GET", "/apis", 403),
        ("GET", "/api/v1/secrets", 403), ("POST", "/version", 403), ("PUT", "/version", 403), ("PATCH", "/version", 200),
    ]:  # fmt: skip
        assert code_of(Asked(method, path, ["localhost"]), filter) == code, (method, path)


def test_nothing_accepts_everything() -> None:
    """As in kubectl: an empty expression matches whatever there is."""
    assert code_of(Asked("GET", "/", ["evil"]), Filter(accept_hosts="")) == 200


def test_hosts_of_ones_own() -> None:
    filter = Filter(accept_hosts="^kube$,^fd00::1$")
    assert code_of(Asked("GET", "/", ["kube:8001"], ["https://kube"]), filter) == 200
    assert (
        code_of(Asked("GET", "/", ["[fd00::1]:8001"]), filter) == 200
    )  # as kubectl, which takes the brackets away
    assert code_of(Asked("GET", "/", ["localhost"]), filter) == 403


@each_case("flag", ["accept_hosts", "accept_paths", "reject_paths", "reject_methods"])
def test_an_expression_that_is_none(flag: str) -> None:
    with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')}.*no regular expression"):
        Filter(**{flag: "^ok$,("}).compiled()
