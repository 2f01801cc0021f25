"""K52: the choice of the proxy follows Go's rules. tests/differential runs Go with the same table."""

from __future__ import annotations

from kubeauth._config.urls import choose_proxy
from tests.support.cases import each_case
from tests.support.proxy_cases import TABLE


@each_case(("url", "environ", "proxy"), TABLE)
def test_the_proxy_is_chosen_from_the_environment_k52(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    assert choose_proxy(url, proxy_url=None, environ=environ) == proxy


def test_proxy_url_is_used_for_every_url_k52() -> None:
    environ = {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "*"}
    for url in ("https://h", "http://h", "https://127.0.0.1"):
        assert choose_proxy(url, proxy_url="socks5://own:1", environ=environ) == "socks5://own:1"


def test_there_is_no_proxy_in_an_empty_environment_k52() -> None:
    assert choose_proxy("https://h", proxy_url=None, environ={}) is None
