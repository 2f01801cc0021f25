"""What reaches a terminal of strangers' text."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kubeauth.cli._terminal import harmless


def test_what_could_steer_it_is_spelled_out() -> None:
    assert (
        harmless("\x1b[2J\x07\x08\r\x7f\x9b\u202e\u2028")
        == "U+001B[2JU+0007U+0008U+000DU+007FU+009BU+202EU+2028"
    )


def test_everything_else_stays() -> None:
    text = "Grüße, 日本, naïve\u00a0blank, 👍\n\tindented"
    assert harmless(text) == text


@given(st.text())
def test_no_control_character_gets_through(text: str) -> None:
    found = {unicodedata.category(char) for char in harmless(text) if char not in "\n\t"}
    assert not found & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
