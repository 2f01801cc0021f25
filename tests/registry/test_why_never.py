"""2.9, 2.10: patterns that are accepted and match nothing, and those that match less than one would think."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeauth.errors import RegistryError
from kubeauth.registry._match import caution, image_matches, why_invalid, why_never
from kubeauth.registry._reference import ImageReference
from tests.registry.texts import ODD, PATTERNS, PLAIN, made_of
from tests.support.cases import each_case

NEVER = [
    ("", "it is empty"),
    ("gcr.io/*", "* is no wildcard in a path, which matches all that starts with it: write gcr.io"),
    ("*.registry.io/*", "write *.registry.io"),
    ("gcr.io/team/*", "write gcr.io/team/"),
    ("gcr.io/team-*/app", "write gcr.io/team-"),
    ("https://gcr.io", "images have no https:// before them: write gcr.io"),
    ("https://u:secret@gcr.io/team", "write gcr.io/team"),
    ("docker://gcr.io:443/x", "write gcr.io:443/x"),
    ("https://index.docker.io/v1/", "without it, the images of Docker Hub are asked about as docker.io/...: write docker.io"),
    ("https://gcr.io:*", "leave it out"),
    ("index.docker.io", "write docker.io"),
    ("index.docker.io/library/nginx", "write docker.io"),
    ("gcr.io.", "a dot at its start or end"),
    (".gcr.io", "a dot at its start or end"),
    ("gcr..io", "two in a row"),
    ("/team", "names no registry"),
    (":5000", "names no registry"),
    ("?x", "? is no wildcard and what follows it is left out; then it names no registry"),
    ("a?.io", "? is no wildcard"),
    ("registry", "registry/... is asked about as docker.io/registry/..."),
    ("nginx", "write docker.io/nginx, or nginx with its port"),
    ("-a.io", "starts or ends with - or _"),
    ("*-.io", "starts or ends with - or _"),
    ("my_registry:5000", "_ in such a place"),
    ("my_registry", "_ in such a place"),
    ("My_registry.io", "_ in such a place"),
    ("my___registry.io", "_ in such a place"),
    ("café.io", "'é' is in no registry's name"),
    ("a~b.io", "'~' is in no registry's name"),
    ("a]", "']' is in no registry's name"),
    ("[::1]", "only with its port"),
    ("[::1]:", "only with its port"),
    ("[fe80::1%25eth0]:5000", "with a zone"),
    ("[::ffff:1.2.3.4]:5000", "ends as an IPv4 address"),
    ("[::ffff:1.2.3.4]", "ends as an IPv4 address"),
    ("gcr.io/team:latest", "without their tag"),
    ("gcr.io/team@sha256:abc", "without their digest"),
    ("gcr.io/Team/App", "in lower case: write gcr.io/team/app"),
    ("gcr.io//team", "write one slash"),
    ("gcr.io/a..b", "no image has a path that starts with /a..b"),
    ("gcr.io/my team", "no image has a path that starts with /my team"),
    ("gcr.io/" + "a" * 256, "no path is longer than 255 characters"),
    ("gcr.io/" + "a" * 253 + "/", None),
    ("gcr.io/" + "a" * 254 + "/", "no path is longer than 255 characters"),
    ("gcr.io:*", "no port number"),
]  # fmt: skip
CAUTIONS = [
    ("*", "matches no registry with a dot in its name"),
    ("reg*", "matches no registry with a dot in its name"),
    ("registry-1.docker.io", "write docker.io"),
    ("*.docker.io", "*.docker.io does not match docker.io"),
    ("GCR.io", "only images that are written with GCR.io"),
    ("[::A]:5000", "only images that are written with [::A]:5000"),
    ("gcr.io/v2/", "/v2 is part of a registry's API, not of an image's name: write gcr.io"),
    ("gcr.io:443/v1", "write gcr.io:443"),
    ("gcr.io/team?x", "? is no wildcard and what follows it is left out: write gcr.io/team"),
    ("gcr.io#team", "# is no wildcard and what follows it is left out: write gcr.io"),
    ("user:secret@gcr.io/team", "what stands before @ is left out: write gcr.io/team"),
]
FINE = [
    "gcr.io", "gcr.io/", "gcr.io:", "*.gcr.io", "*.*.gcr.io/team/", "gcr.io/team-", "gcr.io/team_", "gcr.io/team__",
    "gcr.io/v2beta", "*.dkr.ecr.*.amazonaws.com", "*.azurecr.*", "docker.io", "docker.io/library/nginx", "localhost",
    "localhost:5000", "*:5000", "registry:5000", "10.0.0.*:5000", "[::1]:5000", "my_registry.io", "xn--caf-dma.io",
    "docker.io:443", "index.docker.io:443", "index.docker.*", "*.docker.io:443",
]  # fmt: skip


@each_case(("pattern", "words"), NEVER)
def test_a_pattern_that_never_matches_is_explained_2_10(pattern: str, words: str | None) -> None:
    why = why_never(pattern)
    assert (why is None) is (words is None)
    if why is not None and words is not None:
        assert words in why
        assert "secret" not in why
    assert caution(pattern) is None


@each_case(("pattern", "words"), CAUTIONS)
def test_a_pattern_that_surprises_is_explained_2_9(pattern: str, words: str) -> None:
    assert why_never(pattern) is None
    said = caution(pattern)
    assert said is not None
    assert words in said
    assert "secret" not in said


@each_case("pattern", FINE)
def test_there_is_nothing_to_say_about_a_good_pattern(pattern: str) -> None:
    assert why_never(pattern) is None
    assert caution(pattern) is None
    assert image_matches(pattern, witness(pattern))


@each_case(("pattern", "words"), [*NEVER, *CAUTIONS])
def test_what_is_proposed_instead_does_match_something(pattern: str, words: str | None) -> None:
    said = why_never(pattern) or caution(pattern) or ""
    for better in re.findall(r"write ((?:\S*[./]\S*)|localhost)(?=,|$)", said):
        assert why_never(better) is None


LABEL = made_of(["a", "b", "A", "1", "-", "--", "_", "__", "io", "docker", "localhost", "index"], 3)
DOMAIN = st.tuples(
    st.lists(LABEL, min_size=1, max_size=3).map(".".join), st.sampled_from(["", ":80", ":"])
).map("".join)
PATH = made_of(["a", "b", "/", "-", "_", ".", "v2", "library"], 5)
NAMES = st.one_of(
    st.tuples(DOMAIN, PATH).map("/".join),
    st.tuples(st.sampled_from(["[::1]", "[::A]", "[::1]:80", "a", "A", "1", "localhost"]), PATH).map(
        "/".join
    ),
    made_of(ODD),
)


@given(PATTERNS | made_of(PLAIN) | NAMES, NAMES)
@settings(max_examples=300)
def test_what_matches_an_image_is_never_said_not_to_2_10(pattern: str, name: str) -> None:
    for text in (name, pattern.replace("*", "a") + "/a", pattern.replace("*", "A") + "/a"):
        try:
            image = ImageReference.parse(text).repository
        except RegistryError:
            continue
        if image_matches(pattern, image):
            assert why_never(pattern) is None


def witness(pattern: str) -> str:
    """An image that it matches, as the kubelet would ask about it."""
    place, _, path = re.split(r"[?#]", pattern)[0].partition("/")
    glob = place.rpartition("@")[2].removesuffix(":")
    # A registry without a dot or a port has to have a capital.
    host = glob.replace("*", "a" if {".", ":"} & set(glob) else "A")
    if not path or path.endswith(("/", ".", "_", "-")):
        path += "a"
    if host == "docker.io" and "/" not in path:
        path += "/a"
    return f"{host}/{path}"


@given(NAMES | made_of(PLAIN))
@settings(max_examples=300)
def test_what_is_not_said_never_to_match_does_2_10(pattern: str) -> None:
    # Escapes are left out here, and brackets with capitals, for which nothing is claimed.
    if why_invalid(pattern) or why_never(pattern) or set("%[]") & set(pattern):
        return
    image = witness(pattern)
    assert ImageReference.parse(image).repository == image
    assert image_matches(pattern, image)


@given(st.text(st.characters(), max_size=30))
def test_no_text_makes_it_raise(pattern: str) -> None:
    said = why_never(pattern)
    assert said is None or said
    assert caution(pattern) is None or said is None


def test_nothing_is_claimed_of_what_could_match_an_address_without_a_port() -> None:
    assert image_matches("*]", ImageReference.parse("[::1]/x").repository)
    assert why_never("*]") is None
    assert image_matches("[::A]", ImageReference.parse("A/x").repository)
    assert why_never("[::A]") is None


def test_no_sentence_steers_a_terminal() -> None:
    said = why_never("gcr.io/%1b[2J")
    assert said is not None
    assert said.isprintable()


def test_schemes_upon_schemes_are_no_trouble() -> None:
    assert why_never("https://" * 5000)
