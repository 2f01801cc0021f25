"""Patterns and images as nobody would write them, and as everybody does, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

ODD = [
    "a", "b", "io", "gcr", "docker", "index", "localhost", "A", "1", "_", "-", "*", "a*", "*a", "**", ".", "..",
    ":", ":80", "::", "/", "//", "/v2/", "@", "user@", "u:p@", "?", "#", "%", "%41", "%e9", "%25", "%2", "%20", "%5B",
    "%5d", "%ff", "%00", "é", "中", "\x7f", "\n", " ", "\\", "^", "|", "<", '"', "]", "[", "[::1]", "[::1", "[fe80::1%25",
    "[fe80::1%25a]", "[a-c]", "[::ffff:1.2.3.4]", "]:80", "-z", "~", "+", ",", "\ud800", "0-z]", "%5Bt]",
]  # fmt: skip
PLAIN = ["a", "b", "ab", "A", "io", "1", "localhost", ".", ".", "/", ":80", "*", "*", "-", "_"]
IN_ZONE = ["a", "b", "-", "]", "*", "%5B", "a-c", "é", "%20", "1", "."]


def made_of(tokens: list[str], most: int = 6) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(tokens), max_size=most).map("".join)


def filled_in(pattern: str, fill: str, more: str) -> str:
    """An image that the pattern has a chance to match."""
    return pattern.replace("*", fill) + more


PATTERNS = st.one_of(made_of(ODD), made_of(PLAIN), made_of(IN_ZONE).map(lambda zone: f"[fe80::1%25{zone}]"))
IMAGES = st.one_of(
    made_of(ODD), made_of(PLAIN), made_of(["a", "b", "c", "1", "é", "f", "]", ":", ".", "/x", ":80"])
)
PAIRS = st.one_of(
    st.tuples(PATTERNS, IMAGES),
    st.tuples(PATTERNS, st.sampled_from(["", "a", "ab", "A1"]), st.sampled_from(["", "/", "/x", "x"])).map(
        lambda made: (made[0], filled_in(*made))
    ),
    st.tuples(st.text("ab*", max_size=9), st.text("ab", max_size=12)),
)
