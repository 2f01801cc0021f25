"""`RegistryCredential`: told apart, never shown."""

from __future__ import annotations

import copy
import hashlib
import pickle
from dataclasses import FrozenInstanceError

import pytest

from kubeauth.registry._values import RegistryCredential
from tests.support.cases import each_case

SENTINEL = "s3ntinel"


def test_the_digest_is_the_kubelets_hash_5_12() -> None:
    digest = RegistryCredential("user", "password", key="gcr.io", source="here").digest
    assert digest.startswith("a55436fc")
    assert digest.endswith("691d")
    assert RegistryCredential("user", "password").digest == digest
    assert RegistryCredential().digest == hashlib.sha256(b"{}").hexdigest()


def test_the_digest_is_of_json_as_go_writes_it_5_12() -> None:
    credential = RegistryCredential(
        '<a&b>"', "\u2028\x00\x7f\b\u00fc\U0001f600/", email="e", identity_token="i", registry_token="r"
    )
    written = (
        '{"username":"\\u003ca\\u0026b\\u003e\\"","password":"\\u2028\\u0000\x7f\\b\u00fc\U0001f600/"'
        ',"email":"e","identitytoken":"i","registrytoken":"r"}'
    )
    assert credential.digest == hashlib.sha256(written.encode()).hexdigest()
    assert len(RegistryCredential("\ud800").digest) == 64


def test_printing_shows_no_secret() -> None:
    credential = RegistryCredential(
        "me", SENTINEL, identity_token=SENTINEL, registry_token=SENTINEL, key="gcr.io", source="here"
    )
    for shown in (repr(credential), str(credential), f"{credential}", repr([credential])):
        assert SENTINEL not in shown
    assert repr(credential) == (
        "RegistryCredential(username='me', password=<hidden>, identity_token=<hidden>, registry_token=<hidden>, "
        "key='gcr.io', source='here')"
    )
    assert repr(RegistryCredential("me")) == "RegistryCredential(username='me')"
    assert (credential.password, credential.identity_token, credential.registry_token) == 3 * (SENTINEL,)


@each_case("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="cannot be pickled") as caught:
        pickle.dumps(RegistryCredential("me", SENTINEL), protocol)
    assert SENTINEL not in str(caught.value)


def test_it_never_changes_and_copies_are_itself() -> None:
    credential = RegistryCredential("me", "p")
    with pytest.raises(FrozenInstanceError):
        credential.username = "you"  # type: ignore[misc]
    assert copy.copy(credential) is copy.deepcopy(credential) is credential


def test_equal_by_what_it_is_and_where_it_stands() -> None:
    here = RegistryCredential("u", "p", identity_token="i", registry_token="r", email="e").placed(
        "gcr.io", "here"
    )
    same = RegistryCredential(
        "u", "p", identity_token="i", registry_token="r", email="e", key="gcr.io", source="here"
    )
    assert here == same
    assert hash(here) == hash(same)
    assert here != here.placed("gcr.io", "there")
    assert RegistryCredential("u", "p") != RegistryCredential("u", "q")
    other: object = "u"
    assert RegistryCredential("u") != other


def test_nobody_is_who_shows_nothing() -> None:
    assert RegistryCredential(email="e", key="k", source="s").is_anonymous
    for shown in ("username", "password", "identity_token", "registry_token"):
        assert not RegistryCredential(**{shown: "x"}).is_anonymous
