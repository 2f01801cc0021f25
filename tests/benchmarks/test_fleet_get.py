"""`python -m benchmarks.fleet_get`: it measures what it says."""

from __future__ import annotations

import pytest

from benchmarks.fleet_get import main


@pytest.mark.slow
def test_it_prints_a_table_of_what_it_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--contexts", "6", "--concurrency", "2", "3"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (head, *rows)]
    assert cells[0][:4] == ["contexts", "", "at a time", "kubeconfig read in"]
    assert [row[:3] for row in cells[1:]] == [
        ["6", "sync", "2"], ["6", "sync", "3"], ["6", "asyncio", "2"], ["6", "asyncio", "3"],
    ]  # fmt: skip
    assert {row[-1] for row in cells[1:]} == {"1"}  # the plugin, for all contexts and both calls
