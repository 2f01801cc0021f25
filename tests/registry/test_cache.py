"""What providers gave is kept as the kubelet keeps it (4.1-4.10, 4.18, 4.19)."""

from __future__ import annotations

import itertools

import pytest

from kubeauth import Secret
from kubeauth.registry import _cache
from kubeauth.registry._cache import GLOBAL, Cache, Given, base_key
from kubeauth.registry._service_account import Account, ServiceAccount
from kubeauth.registry._values import RegistryCredential
from kubeauth.testing import FakeClock
from tests.support.cases import each_case

IMAGE = "registry.io:5000/team/app"


def given(word: str = "p") -> Given:
    return Given((RegistryCredential("u", word),))


def account(
    namespace: str = "namespace",
    name: str = "service-account",
    uid: str = "service-account-uid",
    annotations: tuple[tuple[str, str], ...] = (),
    *,
    shown: str = "t",
    cache_type: str = "ServiceAccount",
) -> Account:
    return Account(ServiceAccount(namespace, name, uid), annotations, Secret(shown), cache_type)


@pytest.fixture
def cache(clock: FakeClock) -> Cache:
    return Cache(clock)


@each_case(
    ("kind", "image", "key"),
    [
        ("Image", IMAGE, IMAGE),
        ("Registry", IMAGE, "registry.io:5000"),
        ("Registry", "registry.io", "registry.io"),
        ("Global", IMAGE, GLOBAL),
    ],
)
def test_what_an_answer_is_kept_under(kind: str, image: str, key: str) -> None:
    """4.2."""
    assert base_key(kind, image) == key


def test_the_image_comes_before_its_registry_and_that_before_all(cache: Cache) -> None:
    """4.3."""
    expected = []
    for kind in ("Global", "Registry", "Image"):
        cache.put(base_key(kind, IMAGE), (), given(kind), 60)
        found = cache.get(IMAGE)
        assert found is not None
        expected.append(found.credentials[0].password)
        assert found.from_cache
    assert expected == ["Global", "Registry", "Image"]
    assert cache.get("registry.io:5000/other") == Given(given("Registry").credentials, from_cache=True)
    assert cache.get("elsewhere.io/x") == Given(given("Global").credentials, from_cache=True)


def test_an_answer_is_indexed_once_however_often_it_is_looked_up(cache: Cache) -> None:
    """It may be a mebibyte of keys, and whoever looks up may be an event loop."""
    once = given()
    cache.put(IMAGE, (), once, 60)
    found = [cache.get(IMAGE) for _ in range(2)]
    assert [each.index for each in found if each is not None] == [once.index] * 2


@pytest.mark.parametrize("key", [(), account().key], ids=["no SA", "SA"])
class TestGetCachedCredentials:
    """PT getCachedCredentials, and the same three with a service account."""

    def test_unexpired(self, key: tuple[object, ...], cache: Cache, clock: FakeClock) -> None:
        cache.put(IMAGE, key, given(), 60)
        clock.advance(1)
        assert cache.get(IMAGE, key) is not None

    def test_expired_is_missed_and_deleted(
        self, key: tuple[object, ...], cache: Cache, clock: FakeClock
    ) -> None:
        cache.put(IMAGE, key, given(), 60)
        clock.advance(180)
        assert cache.get(IMAGE, key) is None
        assert len(cache) == 0

    def test_purge(self, key: tuple[object, ...], cache: Cache, clock: FakeClock) -> None:
        cache.put(IMAGE, key, given(), 60)
        clock.advance(18 * 60)
        assert cache.get("elsewhere.io/x", key) is None
        assert len(cache) == 0


def test_before_fifteen_minutes_are_over_nothing_is_swept(cache: Cache, clock: FakeClock) -> None:
    """4.9: and what is still good stays when it is."""
    cache.put("a.io/x", (), given(), 60)
    cache.put("b.io/x", (), given(), 3600)
    clock.advance(15 * 60)
    cache.get("elsewhere.io/x")
    assert len(cache) == 2
    clock.advance(1)
    cache.get("elsewhere.io/x")
    assert [key for key, _ in cache] == ["b.io/x"]


@pytest.mark.parametrize(("seconds", "is_kept"), [(0, False), (-60, False), (0.001, True)])
def test_how_long_it_must_be_good_for_to_be_kept(seconds: float, is_kept: bool, cache: Cache) -> None:
    """4.5, 4.7. PT NoCacheResponse: no keys."""
    cache.put(IMAGE, (), given(), seconds)
    assert (len(cache) == 1) is is_kept


def test_at_its_very_end_it_is_still_good(cache: Cache, clock: FakeClock) -> None:
    """4.8."""
    cache.put(IMAGE, (), given(), 60)
    clock.advance(60)
    assert cache.get(IMAGE) is not None
    clock.advance(0.1)
    assert cache.get(IMAGE) is None


@pytest.mark.parametrize("clocks", ["calendar", "other"])
def test_it_is_over_when_either_clock_says_so(clocks: str, cache: Cache, clock: FakeClock) -> None:
    cache.put(IMAGE, (), given(), 60)
    start = clock.time()
    if clocks == "other":
        clock.advance(61)
        clock.set_date(start - 3600)
    else:
        clock.set_date(start + 61)
    assert cache.get(IMAGE) is None


def test_nothing_can_be_kept_as_well(cache: Cache) -> None:
    """4.10."""
    cache.put("registry.io:5000", (), Given(()), 60)
    assert cache.get(IMAGE) == Given((), from_cache=True)


def test_there_is_an_end_to_what_is_kept(
    cache: Cache, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cache, "MOST_KEPT", 3)
    cache.put("short.io/x", (), given(), 1)
    for name in "abc":
        cache.put(f"{name}.io/x", (), given(), 60)
        clock.advance(2)
    # First what is over, then what is oldest.
    assert [key for key, _ in cache] == ["a.io/x", "b.io/x", "c.io/x"]
    cache.put("a.io/x", (), given(), 60)
    cache.put("d.io/x", (), given(), 60)
    assert [key for key, _ in cache] == ["c.io/x", "a.io/x", "d.io/x"]


class TestRefused:
    def digest(self, word: str = "p") -> str:
        return RegistryCredential("u", word).digest

    def test_what_gave_it_is_kept_no_longer(self, cache: Cache) -> None:
        cache.put(base_key("Registry", IMAGE), account().key, given(), 60)
        cache.refused(self.digest(), IMAGE, 0.5)
        assert cache.get(IMAGE, account().key) is None

    def test_a_late_refusal_of_an_older_one_changes_nothing(self, cache: Cache) -> None:
        cache.put(IMAGE, (), given("new"), 60)
        cache.refused(self.digest("old"), IMAGE, 0.5)
        assert cache.get(IMAGE) is not None

    def test_other_images_are_not_asked_about_again(self, cache: Cache) -> None:
        cache.put("registry.io:5000/other", (), given(), 60)
        cache.refused(self.digest(), IMAGE, 0.5)
        assert cache.get("registry.io:5000/other") is not None

    def test_a_wrong_password_is_not_asked_for_over_and_over(self, cache: Cache, clock: FakeClock) -> None:
        runs = []
        for second in range(0, 40):
            if cache.get(IMAGE) is None:
                runs.append(second)
                cache.put(IMAGE, (), given(), 3600)
            cache.refused(self.digest(), IMAGE, 0.5)
            clock.advance(1)
        assert runs == [0, 1, 2, 4, 8, 16, 32]

    def test_a_password_that_rotates_is_asked_for_each_time(self, cache: Cache, clock: FakeClock) -> None:
        """Each is welcome until the next one is: for so many runs there was a reason."""
        cache.put(IMAGE, (), given("0"), 3600)
        for number in range(1, 20):
            clock.advance(5)
            cache.refused(self.digest(str(number - 1)), IMAGE, 0.5)
            assert cache.get(IMAGE) is None
            cache.put(IMAGE, (), given(str(number)), 3600)
            cache.accepted(self.digest(str(number)), IMAGE, 0.5)

    def test_the_same_one_that_is_welcome_elsewhere_is_not_asked_for_over_and_over(
        self, cache: Cache, clock: FakeClock
    ) -> None:
        runs = []
        for second in range(0, 40):
            if cache.get(IMAGE) is None:
                runs.append(second)
                cache.put("registry.io:5000", (), given(), 3600)
            cache.refused(self.digest(), IMAGE, 0.5)
            cache.accepted(self.digest(), "registry.io:5000/other", 0.5)
            clock.advance(1)
        assert runs == [0, 1, 2, 4, 8, 16, 32]

    def test_what_was_welcome_elsewhere_changes_nothing(self, cache: Cache, clock: FakeClock) -> None:
        cache.put(IMAGE, (), given("old"), 3600)
        for _ in range(3):
            cache.refused(self.digest("old"), IMAGE, 0.5)
            cache.put(IMAGE, (), given("old"), 3600)
            clock.advance(2)
        cache.put(IMAGE, (), given("new"), 3600)
        cache.accepted(self.digest("new"), "registry.io:5000/other", 0.5)
        cache.accepted(self.digest("newest"), IMAGE, 0.5)
        cache.refused(self.digest("new"), IMAGE, 0.5)
        assert cache.get(IMAGE) is not None  # not yet
        cache.accepted(self.digest("new"), IMAGE, 0.5)

    def test_runs_that_give_another_one_each_time_are_a_second_apart(
        self, cache: Cache, clock: FakeClock
    ) -> None:
        """Each is welcome for one image and not for another: the limit begins anew, and is never gone."""
        runs = 0
        for _ in range(100):
            if cache.get(IMAGE) is None:
                runs += 1
                cache.put("registry.io:5000", (), given(str(runs)), 3600)
            cache.accepted(self.digest(str(runs)), "registry.io:5000/other", 0.5)
            cache.refused(self.digest(str(runs)), IMAGE, 0.5)
            clock.advance(0.1)
        assert runs < 15

    def test_how_often_is_not_remembered_for_ever(
        self, cache: Cache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_cache, "MOST_KEPT", 3)
        for name in "abcd":
            cache.put(f"{name}.io/x", (), given(), 60)
            cache.refused(self.digest(), f"{name}.io/x", 0.5)
        assert len(cache._refusals) == 3


class TestServiceAccountKeys:
    """PT SAKey and CacheKey; keys are tuples here, which tell apart what bytes with lengths do."""

    def test_deterministic(self) -> None:
        """4.18, 16 by 16: equal exactly if namespace, name, uid and annotations are."""
        texts = ("a", "b")
        annotations = ((("k", "v"),), ())
        made = [
            account(*names, given)
            for names in itertools.product(texts, texts, texts)
            for given in annotations
        ]
        assert len(made) == 16
        for one, other in itertools.product(made, repeat=2):
            assert (one.key == other.key) is (one is other)

    def test_lengths_count_4_4(self) -> None:
        assert account("ab", "c").key != account("a", "bc").key
        assert account(annotations=(("a", "bc"),)).key != account(annotations=(("ab", "c"),)).key

    def test_token_type(self) -> None:
        one, other = (account(shown=token, cache_type="Token") for token in ("one", "other"))
        assert one.key != other.key
        assert one.key[-2:] == ("token", one.token_hash)
        assert account(shown="one").key == account(shown="other").key

    def test_combined_with_an_image(self, cache: Cache) -> None:
        """PT CacheKey: empty SA, combined."""
        cache.put(IMAGE, (), given("anybody"), 60)
        cache.put(IMAGE, account().key, given("mine"), 60)
        for key, password in (((), "anybody"), (account().key, "mine")):
            found = cache.get(IMAGE, key)
            assert found is not None
            assert found.credentials[0].password == password
        assert cache.get(IMAGE, account("other").key) is None

    def test_hash_of_a_token(self) -> None:
        """4.19."""
        known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        assert account(shown="abc").token_hash == known
        assert account(shown="").token_hash == ""
