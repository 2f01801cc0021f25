"""The host in a server URL is the one that other parsers find, or there is none."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeauth.errors import RegistryError
from kubeauth.registry import ImageReference, Keyring
from kubeauth.registry._reference import registry_host
from tests.support.cases import each_case

PIECES = ["evil.example", "gcr.io", "[::1]", "https://", "http://", "@", "/", "\\", "?", "#", ":", "443", "%2e",
          "%40", "\t", "\n", " ", "\x00", ".", "\u3002", "\uff0e", "\u0441", "*", ";", "&", "~", "//"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
@example("https://evil.example#@gcr.io")
@example("evil.example?@gcr.io")
def test_every_parser_finds_the_same_host(url: str) -> None:
    host = registry_host(url)
    if host is None:
        return
    absolute = url if url.lower().startswith(("http://", "https://")) else f"https://{url}"
    expected = host.lower()
    assert urlsplit(absolute).netloc.lower() == expected
    assert httpx.URL(absolute).netloc.decode() in (
        expected,
        expected.removesuffix(":443"),
        expected.removesuffix(":80"),
    )
    assert ImageReference.parse(f"{host}/image").domain in (host, "docker.io")


@each_case(
    "image",
    [
        "evil.example?@gcr.io/team/app",
        "evil.example#@gcr.io/team/app",
        "evil.example/@gcr.io/team/app",
        "evil.example\\@gcr.io/team/app",
        "evil.example%2f@gcr.io/team/app",
        "evil.example\t@gcr.io/team/app",
        "gcr\u3002io/team/app",
    ],
)
def test_a_keyring_gives_no_credential_of_another_host(image: str) -> None:
    """Read as the kubelet reads it (2.1, 2.2): what follows `?` and `#` is not part of the host."""
    keyring = Keyring()
    keyring.add({"gcr.io": {"username": "me", "password": "p"}})
    # `%2f` stands in the user name, by the rules of URLs: there the host is gcr.io, for Go too.
    expected = ["me"] if "%2f@" in image else []
    assert [credential.username for credential in keyring.lookup(image)] == expected
    with pytest.raises(RegistryError):
        ImageReference.parse(image)
