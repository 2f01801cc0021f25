"""`python -m benchmarks.startup`: how it is called."""

from __future__ import annotations

import pytest

from benchmarks.startup import main


def test_it_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "how often each process is started (default: 25)" in capsys.readouterr().out


@pytest.mark.parametrize("rounds", ["many", "1", "2.5", ""])
def test_rounds_are_a_number_of_two_or_more(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([rounds])
    assert ended.value.code == 2
    assert f"{rounds!r}: a spread needs two rounds or more" in capsys.readouterr().err
