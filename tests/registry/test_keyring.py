"""Which credentials there are for an image, and in which order (5.1-5.10)."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeauth.errors import ConfigError, DockerConfigError, RegistryError
from kubeauth.registry._key_index import KeyIndex, is_hub_image, looked_up, normalised_key
from kubeauth.registry._keyring import Keyring
from kubeauth.registry._match import image_matches
from kubeauth.registry._values import RegistryCredential
from tests.support.cases import each_case

HUB = "https://index.docker.io/v1/"


def keyring(*keys: str) -> Keyring:
    """One credential under each key, whose user is called like the key."""
    made = Keyring()
    made.add({key: {"username": key, "password": "p"} for key in keys})
    return made


def users(found: list[RegistryCredential]) -> list[str]:
    return [credential.username for credential in found]


# keyring_test.go: DockerKeyringForGlob, DockerKeyringLookup, Issue3797.
@each_case(
    ("key", "image"),
    [
        pytest.param("https://hello.kubernetes.io", "hello.kubernetes.io/foo/bar", id="M19"),
        pytest.param("https://*.docker.io", "prefix.docker.io/foo/bar", id="M20"),
        pytest.param("https://prefix.*.io", "prefix.docker.io/foo/bar", id="M21"),
        pytest.param("https://prefix.docker.*", "prefix.docker.io/foo/bar", id="M22"),
        pytest.param("https://*.docker.io/path", "prefix.docker.io/path/foo/bar", id="M23"),
        pytest.param("https://prefix.*.io/path", "prefix.docker.io/path/subpath/foo/bar", id="M24"),
        pytest.param("https://prefix.docker.*/path", "prefix.docker.io/path/foo/bar", id="M25"),
        pytest.param("https://*.docker.io:8888", "prefix.docker.io:8888/foo/bar", id="M26"),
        pytest.param("https://prefix.*.io:8888", "prefix.docker.io:8888/foo/bar", id="M27"),
        pytest.param("https://prefix.docker.*:8888", "prefix.docker.io:8888/foo/bar", id="M28"),
        pytest.param("https://*.docker.io/path:1111", "prefix.docker.io/path:1111/foo/bar", id="M29"),
        pytest.param("https://*.docker.io/v1/", "prefix.docker.io/path:1111/foo/bar", id="M30"),
        pytest.param("https://*.docker.io/v2/", "prefix.docker.io/path:1111/foo/bar", id="M31"),
        pytest.param("https://prefix.docker.*/path:1111", "prefix.docker.io/path:1111/foo/bar", id="M32"),
        pytest.param("prefix.docker.io:1111", "prefix.docker.io:1111/path/foo/bar", id="M33"),
        pytest.param("*.docker.io:1111", "prefix.docker.io:1111/path/foo/bar", id="M34"),
        pytest.param("bar.example.com", "bar.example.com", id="M41"),
        pytest.param("bar.example.com/pong", "bar.example.com/pongz", id="M43"),
        pytest.param("bar.example.com/pong", "bar.example.com/pong/pang", id="M44"),
        pytest.param("https://quay.io/v1/", "quay.io/foo/bar", id="M46"),
        pytest.param("https://quay.io/v1/", "quay.io", id="Issue3797-host"),
        pytest.param("https://quay.io/v1/", "quay.io/foo", id="Issue3797-one-part"),
        pytest.param("gcr.io:", "gcr.io/foo", id="X13"),
        pytest.param("gcr.io", "gcr.io:/foo", id="X13-other-way-round"),
        pytest.param("user@gcr.io", "gcr.io/foo", id="X21"),
        pytest.param("gcr.io", "gcr.io/a@sha256:" + 64 * "0", id="digest"),
        pytest.param("gcr.io/%61", "gcr.io/abc", id="escaped-key"),
        pytest.param("gcr.io/a", "gcr.io/%61bc", id="escaped-image"),
    ],
)
def test_a_key_that_matches(key: str, image: str) -> None:
    """DockerKeyringForGlob, and more."""
    made = Keyring()
    made.add({key: {"username": "u", "password": "p", "email": "e@x"}}, source="here")
    (found,) = made.lookup(image)
    assert (found.username, found.password, found.email, found.source) == ("u", "p", "e@x", "here")


# keyring_test.go: KeyringMiss, DockerKeyringLookup, MissWithDockerHubCredentials.
@each_case(
    ("key", "image"),
    [
        pytest.param("https://hello.kubernetes.io", "world.mesos.org/foo/bar/foo/bar", id="M35"),
        pytest.param("https://*.docker.com", "prefix.docker.io/foo/bar", id="M36"),
        pytest.param("https://suffix.*.io", "prefix.docker.io/foo/bar", id="M37"),
        pytest.param("https://prefix.docker.c*", "prefix.docker.io/foo/bar", id="M38"),
        pytest.param("https://prefix.*.io/path:1111", "prefix.docker.io/path/subpath:1111/foo/bar", id="M39"),
        pytest.param("suffix.*.io", "prefix.docker.io/foo/bar", id="M40"),
        pytest.param("bar.example.com/pong", "bar.example.com/ping", id="M42"),
        pytest.param("bar.example.com", "foo.example.com", id="M45"),
        pytest.param(HUB, "world.mesos.org/foo/bar", id="MissWithDockerHubCredentials"),
        pytest.param("GCR.io", "gcr.io/foo", id="X12"),
        pytest.param("gcr.io/*", "gcr.io/foo", id="X01"),
        pytest.param("HTTPS://gcr.io", "gcr.io/foo", id="5.3-scheme-is-lower-case"),
        pytest.param("http://https://gcr.io", "gcr.io/foo", id="5.3-one-scheme"),
        pytest.param("gcr.io", "\x00", id="2.7"),
    ],
)
def test_a_key_that_does_not_match(key: str, image: str) -> None:
    """KeyringMiss, and more."""
    assert keyring(key).lookup(image) == []


@each_case(
    ("key", "normalised"),
    [
        ("https://index.docker.io/v1/", "index.docker.io"),
        ("http://index.docker.io/v2/", "index.docker.io"),
        ("gcr.io/v2", "gcr.io/v2"),
        ("gcr.io/v2/foo", "gcr.io/foo"),
        ("gcr.io/v1/v2/foo", "gcr.io/v2/foo"),
        ("gcr.io/a/", "gcr.io/a/"),
        ("gcr.io/", "gcr.io"),
        ("https://user:word@gcr.io:443/a?b#c", "gcr.io:443/a"),
        ("[::1]:5000/a", "[::1]:5000/a"),
        ("gcr.io/a%20b", "gcr.io/a b"),
        ("b%C3%BCcher.io", "b\u00fccher.io"),
        ("", ""),
    ],
)
def test_what_becomes_of_a_key_5_3(key: str, normalised: str) -> None:
    assert normalised_key(key) == normalised
    made = keyring(key)
    assert made.skipped == ()
    assert repr(made) == "<Keyring: 1 credentials under 1 keys>"


@each_case(
    ("key", "reason"),
    [
        ("%invalid%", "%"),
        ("gcr.io/%zz", "%"),
        ("gcr.io#%", "%"),
        ("gcr.io/\x7f", "control"),
        ("gcr io", "host"),
        ("gcr.io\\a", "host"),
        ("%41.io", "host"),
        ("gcr.io:*", "port"),
        ("a:1:2", "port"),
        ("[::1]5000", "port"),
        ("[::1", "["),
        ("a[::1]", "["),
        ("us er@gcr.io", "user"),
        ("gcr.io/%ff", "UTF-8"),
        ("gcr.io/\ud800", "UTF-8"),
    ],
)
def test_a_key_that_cannot_be_one_is_left_out_and_told_5_3(key: str, reason: str) -> None:
    made = keyring("b.io", key, "a.io")
    ((told, why),) = made.skipped
    assert told.isprintable()
    assert reason in why
    assert users(made.lookup("a.io/x")) == ["a.io"]
    assert users(made.lookup("b.io/x")) == ["b.io"]


def test_what_is_told_of_a_key_has_no_password_and_cannot_steer_a_terminal() -> None:
    made = keyring("https://me:s3cret/more@gcr.io:x/\x1b[2J?s3cret#s3cret", "a b?s3cret", "\x01" + 9999 * "x")
    assert [key for key, _ in made.skipped][:2] == ["...@gcr.io:x/U+001B[2J", "a b"]
    assert "s3cret" not in repr(made.skipped) + repr(made)
    assert len(made.skipped[2][0]) < 300


def test_credentials_in_reverse_order_of_their_keys_5_5() -> None:
    """DockerKeyringLookup."""
    made = Keyring()
    made.add({"bar.example.com": {"username": "ada", "password": "smash"}})
    made.add({"bar.example.com/pong": {"username": "grace", "password": "squash"}})
    for image in ("bar.example.com/pong", "bar.example.com/pongz", "bar.example.com/pong/pang"):
        assert users(made.lookup(image)) == ["grace", "ada"]
    for image in ("bar.example.com", "bar.example.com/ping"):
        assert users(made.lookup(image)) == ["ada"]
    for image in ("example.com", "foo.example.com"):
        assert made.lookup(image) == []
    assert [len(credential.digest) for credential in made.lookup("bar.example.com/pong")] == [64, 64]


def test_the_order_is_lexical_and_nothing_else_5_6() -> None:
    assert users(keyring("*.b.io/path", "a.b.io", "a.*.io", "*.*.io").lookup("a.b.io/path/x")) == [
        "a.b.io", "a.*.io", "*.b.io/path", "*.*.io",
    ]  # fmt: skip
    assert users(keyring("b.io/\U0001f600", "b.io/\uffee", "b.io/").lookup("b.io/\uffee")) == [
        "b.io/\uffee",
        "b.io/",
    ]


def test_several_under_one_key_are_all_kept_the_earlier_first_5_2_5_4() -> None:
    made = Keyring()
    made.add(
        {"https://gcr.io": {"username": "1"}, "gcr.io/a": {"username": "2"}, "gcr.io": {"username": "3"}}
    )
    made.add({"gcr.io": RegistryCredential("4", "p", source="its own")}, source="")
    made.add({"gcr.io": RegistryCredential("5", "p", source="its own")}, source="given")
    found = made.lookup("gcr.io/abc")
    assert users(found) == ["2", "1", "3", "4", "5"]
    assert [credential.key for credential in found] == ["gcr.io/a"] + 4 * ["gcr.io"]
    assert [credential.source for credential in found[-2:]] == ["its own", "given"]


def test_the_later_of_two_sources_goes_first_if_its_key_says_more_5_1_5_5() -> None:
    made = keyring("*.gcr.io")
    made.add({"us.gcr.io": {"username": "late"}})
    assert users(made.lookup("us.gcr.io/x")) == ["late", "*.gcr.io"]


@each_case(
    "image",
    [
        pytest.param("google/docker-registry", id="HitWithUnqualifiedDockerHub"),
        pytest.param("jenkins", id="HitWithUnqualifiedLibraryDockerHub"),
        pytest.param("index.docker.io/v1//google/docker-registry", id="HitWithQualifiedDockerHub"),
        "docker.io/library/nginx",
        "nginx:latest",
        "localhost/x",
    ],
)
def test_the_hub_has_its_own_key_5_7(image: str) -> None:
    assert users(keyring(HUB).lookup(image)) == [HUB]


@each_case(
    ("image", "expected"),
    [("foo/bar", True), ("docker.io/foo/bar", True), ("index.docker.io/foo/bar", True), ("foo", True), ("localhost/x", True),
     ("", False), ("/foo", False), ("registry.tld/foo/bar", False), ("registry:5000/foo/bar", False), ("myhostdocker.io/foo/bar", False)],
)  # fmt: skip
def test_images_of_the_hub_by_their_look_isdefaultregistrymatch(image: str, expected: bool) -> None:
    assert is_hub_image(image) is expected


def test_only_if_nothing_else_matched_5_7_5_8() -> None:
    made = keyring(HUB, "docker.io")
    assert users(made.lookup("docker.io/library/nginx")) == ["docker.io"]
    assert users(made.lookup("nginx")) == [HUB]
    assert keyring(HUB + "library").lookup("nginx") == []


def test_nothing_found_is_an_empty_list_of_the_callers_own_5_9() -> None:
    made = Keyring()
    assert made.lookup("gcr.io/x") == []
    made = keyring("gcr.io", "container.cloud.google.com", "*.pkg.dev")
    made.lookup("gcr.io/x").clear()
    assert users(made.lookup("gcr.io/x")) == ["gcr.io"]


def test_joined_keyrings_one_after_the_other_with_duplicates_5_10() -> None:
    first, second = keyring("gcr.io", "a b"), keyring("gcr.io/x", "gcr.io", HUB)
    joined = Keyring.joined(first, second)
    assert users(joined.lookup("gcr.io/x")) == ["gcr.io", "gcr.io/x", "gcr.io"]
    # Each falls back to the Hub for itself.
    assert users(Keyring.joined(keyring("docker.io"), second).lookup("docker.io/x")) == ["docker.io", HUB]
    assert joined.skipped == first.skipped != ()
    assert "2 credentials" not in repr(Keyring.joined())
    assert "3 credentials" in repr(joined)


def test_entries_may_have_whatever_a_docker_config_has() -> None:
    made = Keyring()
    made.add({"a.io": {"auth": "dTpw", "identitytoken": "i", "registrytoken": "r", "other": [1]}, "b.io": {}})
    (found,) = made.lookup("a.io/x")
    assert (found.username, found.password, found.identity_token, found.registry_token) == (
        "u",
        "p",
        "i",
        "r",
    )
    (nobody,) = made.lookup("b.io/x")
    assert nobody.is_anonymous


@each_case(
    ("entries", "field"),
    [
        ({"a.io": {"username": "u"}, "b.io": {"password": 5}}, '["b.io"].password'),
        ({"a.io": {"username": "u"}, "b.io": {"auth": "pants"}}, '["b.io"].auth'),
        ({"a.io": {"username": "u"}, "me:word@b.io": "text"}, '["...@b.io"]'),
        ({"a.io": {"username": "u"}, 1: {}}, None),
        ([("a.io", {})], None),
    ],
)
def test_an_entry_that_cannot_be_used_adds_nothing(
    entries: Mapping[str, Mapping[str, object]], field: str | None
) -> None:
    made = Keyring()
    with pytest.raises(DockerConfigError) as caught:
        made.add(entries)
    assert isinstance(caught.value, RegistryError)
    assert isinstance(caught.value, ConfigError)
    assert (caught.value.path, caught.value.field) == (None, field)
    assert "word" not in str(caught.value).replace("password", "")
    assert made.lookup("a.io/x") == []


def test_what_is_added_after_a_lookup_is_found_too() -> None:
    made = keyring("a.io")
    assert users(made.lookup("a.io/x")) == ["a.io"]
    made.add({"a.io/x": {"username": "later"}})
    assert users(made.lookup("a.io/x")) == ["later", "a.io"]


@pytest.mark.slow
def test_lookups_while_somebody_adds_see_each_addition_whole() -> None:
    made, seen, stop = Keyring(), list[list[str]](), threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(users(made.lookup("a.io/x")))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50):
        before = len(seen)
        made.add({"a.io": {"username": f"{number}"}, "a.io/x": {"username": f"{number}x"}})
        while len(seen) == before:
            time.sleep(0)
    stop.set()
    for thread in threads:
        thread.join()
    names = [f"{number}" for number in range(50)]
    for found in [*seen, users(made.lookup("a.io/x"))]:
        half = len(found) // 2
        assert found == [f"{name}x" for name in names[:half]] + names[:half]
    assert len({len(found) for found in seen}) > 10
    assert len(made.lookup("a.io/x")) == 100


LABEL = st.sampled_from(["a", "b", "ab", "io", "*", "a*", "*b"])
PATH = st.sampled_from(["", "/", "/a", "/a/", "/ab", "/a/b", "/v1/", "/v2/a"])
PORT = st.sampled_from(["", "", ":5000", ":1"])
SCHEME = st.sampled_from(["", "", "https://", "http://"])
HOST = st.lists(LABEL, min_size=1, max_size=3).map(".".join)
KEY = st.tuples(SCHEME, HOST, PORT, PATH).map("".join)
IMAGE = st.tuples(
    HOST.map(lambda host: host.replace("*", "a")), PORT, PATH, st.sampled_from(["", "b", "/c"])
).map("".join)


def naively_matched(key: str, image: str) -> bool:
    """2.4 for what the strategies make, by other means than those of the code."""
    (host, slash, path), (their_host, their_slash, their_path) = key.partition("/"), image.partition("/")
    (name, _, port), (their_name, _, their_port) = host.partition(":"), their_host.partition(":")
    parts, their_parts = name.split("."), their_name.split(".")
    return (
        port == their_port
        and len(parts) == len(their_parts)
        and (their_slash + their_path).startswith(slash + path)
        and all(naively_globbed(part, theirs) for part, theirs in zip(parts, their_parts, strict=True))
    )


def naively_globbed(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(naively_globbed(pattern[1:], text[n:]) for n in range(len(text) + 1))
    return text[:1] == pattern[0] and naively_globbed(pattern[1:], text[1:])


def naively_normalised(key: str) -> str:
    host, slash, path = key.removeprefix("https://").removeprefix("http://").partition("/")
    path = (slash + path).removeprefix("/v1").removeprefix("/v2")
    return host if path in ("", "/") else host + path


@given(st.lists(KEY, max_size=12), IMAGE)
def test_found_and_ordered_as_by_a_naive_keyring_2_4_5_5(keys: list[str], image: str) -> None:
    made = Keyring()
    for number, key in enumerate(keys):
        made.add({key: {"username": f"{number}"}})
    expected: list[tuple[str, str]] = []
    for key in sorted({naively_normalised(key) for key in keys}, key=lambda key: key.encode(), reverse=True):
        if naively_matched(key, image):
            expected += [(key, f"{n}") for n, other in enumerate(keys) if naively_normalised(other) == key]
    if not expected and is_hub_image(image):
        expected = [
            ("index.docker.io", f"{n}")
            for n, key in enumerate(keys)
            if naively_normalised(key) == "index.docker.io"
        ]
    assert [(credential.key, credential.username) for credential in made.lookup(image)] == expected


ODD = st.text(alphabet="ab.:/*@%[]?#41v2 \u00fc\\", max_size=10)


@given(st.lists(ODD | KEY, max_size=8), ODD | IMAGE)
@example(["a.io:", "a.io", "x@a.io"], "a.io:/x")
@example(["[::1]:5000", "[::1]"], "[::1]:5000/x")
@example(["a/%3fb", "a/?b"], "a/%3fb")
@example(["a/%3fb"], "a/xyz")
@example(["a.io"], "x@a.io/x")
def test_the_shortcut_finds_what_a_walk_over_all_keys_finds_5_5(keys: list[str], image: str) -> None:
    made = keyring(*dict.fromkeys(keys))
    good = [key for given in dict.fromkeys(keys) if isinstance(key := normalised_key(given), str)]
    matched = [key for key in set(good) if image_matches(key, image)]
    if not matched and is_hub_image(image):
        matched = ["index.docker.io"]
    found = [credential.key for credential in made.lookup(image)]
    assert list(dict.fromkeys(found)) == sorted(set(found) & set(matched), reverse=True)
    assert len(found) == sum(key in matched for key in good)


@given(st.lists(st.lists(KEY | st.just("index.docker.io"), max_size=4), max_size=4), IMAGE)
def test_several_answers_are_looked_up_as_if_they_were_one_5_1_5_2_5_5(
    answers: list[list[str]], image: str
) -> None:
    number = itertools.count()
    placed = [
        [RegistryCredential(f"{next(number)}", key=naively_normalised(key)) for key in keys]
        for keys in answers
    ]
    together = KeyIndex([credential for each in placed for credential in each])
    assert looked_up(image, [KeyIndex(each) for each in placed]) == looked_up(image, [together])
