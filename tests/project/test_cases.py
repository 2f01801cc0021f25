"""tests.support.cases: one test for a table, and all that fails in it is listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cases import count_cases, each_case


def test_all_cases_that_fail_are_listed_with_their_ids() -> None:
    ran = []

    @each_case("a", [1, 2, 3], ids=["one", "two", "three"])
    @each_case(("b", "c"), [("x", 0), pytest.param("y", 1, id="why")])
    def check(a: int, b: str, c: int) -> None:
        ran.append((a, b))
        if c:
            with pytest.raises(KeyError):
                assert a == 3, f"{a} is not 3"

    assert count_cases(check) == 6
    with pytest.raises(AssertionError) as caught:
        check()
    assert len(ran) == 6
    assert str(caught.value).startswith(
        "3 of 3 cases failed:\n[one] AssertionError: 1 of 2 cases failed:\n[why]"
    )
    assert "1 is not 3" in str(caught.value)
    assert "[two]" in str(caught.value)
    assert "[three] AssertionError: 1 of 2 cases failed:\n[why] Failed: DID NOT RAISE" in str(caught.value)


def test_each_case_has_directories_and_patches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @each_case("number", range(3))
    def check(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert [path.name for path in tmp_path.iterdir()] == ["home"]
        assert os.environ["HOME"] == str(tmp_path / "home")
        assert "ONE_CASE" not in os.environ
        (tmp_path / "file").write_text(str(number))
        monkeypatch.setenv("ONE_CASE", str(number))

    check(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert "ONE_CASE" not in os.environ


def test_a_table_that_would_prove_nothing_is_rejected() -> None:
    def check(a: int) -> None:
        pytest.skip("never")

    with pytest.raises(ValueError, match="without cases"):
        each_case("a", [])
    with pytest.raises(TypeError, match="takes no b"):
        each_case("b", [1])(check)
    with pytest.raises(TypeError, match="marks"):
        each_case("a", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(TypeError, match="skips all cases after it"):
        each_case("a", [1, 2])(check)()
