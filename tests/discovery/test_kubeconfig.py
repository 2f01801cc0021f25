"""What is taken of a kubeconfig that a cluster publishes: values in, values out."""

from __future__ import annotations

import pytest

from kubeauth import Secret
from kubeauth.discovery._kubeconfig import MOST_BYTES, Found, Refusal, cluster_in, only_pinned
from kubeauth.discovery._pins import Pins
from kubeauth.testing import Authority
from tests.discovery.clusters import published


def test_it_is_not_read_if_it_is_too_long_a90() -> None:
    found = cluster_in(Secret("x" * (MOST_BYTES + 1)))
    assert isinstance(found, Refusal)
    assert "larger than 1 MiB" in found.words


@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_what_is_around_a_certificate_does_not_count_a46(breaks: str) -> None:
    ca = Authority()
    text = f"# a comment{breaks}{ca.pem.decode()}{breaks}-----BEGIN PRIVATE KEY-----{breaks}AAAA{breaks}"
    text += f"-----END PRIVATE KEY-----{breaks}"
    found = cluster_in(Secret(published("https://h:6443", text.encode())))
    assert isinstance(found, Found)
    assert found.ca == ca.pem


def test_many_that_are_not_pinned_are_not_all_listed_a51() -> None:
    cas = [Authority(f"CA {number}") for number in range(8)]
    found = cluster_in(Secret(published("https://h:6443", b"".join(ca.pem for ca in cas))))
    assert isinstance(found, Found)
    refused = only_pinned(found, Pins.parse(["sha256:" + "0" * 64]))
    assert isinstance(refused, Refusal)
    assert (len(refused.pins), "and 3 more" in refused.words) == (8, True)
    kept = only_pinned(found, Pins.parse([found.pins[3]]))
    assert isinstance(kept, Found)
    assert kept.ca == cas[3].pem
    assert only_pinned(found, Pins.parse(found.pins)) is found
