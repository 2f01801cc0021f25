"""7.1-7.6: what an image's name says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth.errors import RegistryError
from kubeauth.registry._reference import ImageReference
from tests.registry.texts import made_of
from tests.support.cases import each_case

SHA = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
SHA384, SHA512 = "sha384:" + "0a" * 48, "sha512:" + "0a" * 64

NAMES = [
    # parsers_test.go, TestParseImageName
    ("root", "docker.io/library/root", "latest", None),
    ("root:tag", "docker.io/library/root", "tag", None),
    (f"root@{SHA}", "docker.io/library/root", None, SHA),
    ("user/repo", "docker.io/user/repo", "latest", None),
    ("user/repo:tag", "docker.io/user/repo", "tag", None),
    (f"user/repo@{SHA}", "docker.io/user/repo", None, SHA),
    ("url:5000/repo", "url:5000/repo", "latest", None),
    ("url:5000/repo:tag", "url:5000/repo", "tag", None),
    (f"url:5000/repo@{SHA}", "url:5000/repo", None, SHA),
    (f"url:5000/repo:latest@{SHA}", "url:5000/repo", "latest", SHA),
    # 7.2, 7.3
    ("nginx", "docker.io/library/nginx", "latest", None),
    ("docker.io/nginx", "docker.io/library/nginx", "latest", None),
    ("index.docker.io/nginx", "docker.io/library/nginx", "latest", None),
    ("index.docker.io/user/nginx:1", "docker.io/user/nginx", "1", None),
    ("registry-1.docker.io/library/nginx", "registry-1.docker.io/library/nginx", "latest", None),
    ("localhost/foo", "localhost/foo", "latest", None),
    ("localhost", "docker.io/library/localhost", "latest", None),
    ("example.com:5000", "docker.io/library/example.com", "5000", None),
    ("Foo/bar", "Foo/bar", "latest", None),
    ("GCR.io/team/app:V1", "GCR.io/team/app", "V1", None),
    # 7.5
    (f"a/b@{SHA384}", "docker.io/a/b", None, SHA384),
    (f"a/b:c@{SHA512}", "docker.io/a/b", "c", SHA512),
    ("[::1]:5000/x", "[::1]:5000/x", "latest", None),
    ("[::1]/x", "[::1]/x", "latest", None),
    ("10.0.0.1/x", "10.0.0.1/x", "latest", None),
    ("a-b.c--d.io/e__f/g-h", "a-b.c--d.io/e__f/g-h", "latest", None),
    ("a_b.io/c", "a_b.io/c", "latest", None),
    ("x/y:" + "t" * 128, "docker.io/x/y", "t" * 128, None),
    ("gcr.io/" + "a" * 255, "gcr.io/" + "a" * 255, "latest", None),
    ("a_b.io/" + "a" * 248, "a_b.io/" + "a" * 248, "latest", None),
]  # fmt: skip

REFUSED = [
    ("", "it has no name"),
    ("gcr.io/", "it has no name"),
    ("ROOT", "a repository is in lower case: write root"),
    ("Root:V1", "write root:V1"),
    ("user/Repo", "write user/repo"),
    ("docker.io/Nginx", "write docker.io/nginx"),
    ("Host.io/Team/App:V1", "write Host.io/team/app:V1"),
    (f"localhost/App@{SHA}", f"write localhost/app@{SHA}"),
    ("http://root", "it has no scheme: write root"),
    ("https://u:secret@gcr.io/x", "it has no scheme: write gcr.io/x"),
    ("u:secret@gcr.io/x", "'...@gcr.io' is no registry: write host or host:port"),
    ("u:secret@gcr.io", "a digest is"),
    ("u:se/cret@gcr.io/x", "is no registry"),
    (SHA[7:], f"64 hexadecimal digits are an id: write name@{SHA}"),
    ("gcr.io//x", "a slash has nothing before or behind it"),
    ("x/y/", "a slash has nothing before or behind it"),
    ("gcr.io/a b", "' ' is in no repository's name"),
    ("gcr.io/a\n", r"'\n' is in no repository's name"),
    ("café", "'é' is in no repository's name"),
    ("x/a..b", "stand between letters or digits only"),
    ("x/-a", "stand between letters or digits only"),
    ("x/a___b", "stand between letters or digits only"),
    ("a_b:80/c", "'a_b:80' is no registry"),
    ("a_B.io/c", "'a_B.io' is no registry"),
    ("-a.io/c", "'-a.io' is no registry"),
    ("gcr.io:/c", "'gcr.io:' is no registry"),
    ("gcr.io/" + "a" * 256, "its path is longer than 255 characters"),
    ("a_b.io/" + "a" * 249, "its path is longer than 248 characters"),
    ("x/y:", "a tag has"),
    ("x/y:.z", "a tag has"),
    ("x/y:a:b", "a tag has"),
    ("x/y:" + "t" * 129, "a tag has"),
    ("x/y@", "a digest is"),
    ("x/y@sha256:abc", "a digest is"),
    ("x/y@" + SHA.upper(), "a digest is"),
    ("x/y@sha256:" + "A" * 64, "a digest is"),
    ("x/y@md5:" + "a" * 32, "a digest is"),
]


@each_case(("text", "repository", "tag", "digest"), NAMES)
def test_names_are_read_as_the_kubelet_reads_them_7_2_7_3_7_6(
    text: str, repository: str, tag: str | None, digest: str | None
) -> None:
    found = ImageReference.parse(text)
    assert (found.repository, found.tag, found.digest) == (repository, tag, digest)
    assert f"{found.domain}/{found.path}" == repository
    assert "/" not in found.domain


@each_case(("text", "words"), REFUSED)
def test_what_is_no_name_is_refused_in_words_7_1_7_4_7_5(text: str, words: str) -> None:
    with pytest.raises(RegistryError) as caught:
        ImageReference.parse(text)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("start", ["", "http://", "gcr.io/", "gcr.io/app:", "gcr.io/app@sha256:"])
@pytest.mark.parametrize("repeated", ["A", "a/", "@", "a@", "a-", "@sha256:"])
def test_an_error_does_not_grow_with_the_text_nor_does_the_time_with_its_square(
    start: str, repeated: str
) -> None:
    with pytest.raises(RegistryError) as caught:
        ImageReference.parse(start + repeated * (2**20 // len(repeated)))
    assert len(str(caught.value)) < 1000


def test_a_name_in_full_says_everything() -> None:
    assert str(ImageReference.parse("nginx")) == "docker.io/library/nginx:latest"
    assert str(ImageReference.parse(f"gcr.io/a:b@{SHA}")) == f"gcr.io/a:b@{SHA}"
    assert str(ImageReference.parse(f"gcr.io/a@{SHA}")) == f"gcr.io/a@{SHA}"
    assert ImageReference.parse("nginx") == ImageReference("docker.io", "library/nginx", "latest")


PARTS = [
    "a",
    "b",
    "A",
    "_",
    "__",
    "-",
    ".",
    ":",
    "@",
    "/",
    "docker.io",
    "localhost",
    "a.b",
    "x:80",
    "[::1]",
    SHA,
    "é",
    "\n",
]


@given(made_of(PARTS) | st.text(st.characters(), max_size=20))
def test_what_is_read_once_is_read_alike_again(text: str) -> None:
    try:
        found = ImageReference.parse(text)
    except RegistryError:
        return
    assert ImageReference.parse(str(found)) == found
    assert ImageReference.parse(found.repository).repository == found.repository
