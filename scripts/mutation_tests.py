"""A pytest plugin for scripts/mutations.py: runs the tests in a list, and writes which of them fails first.

python -m pytest -p scripts.mutation_tests --tests-from LIST --failure-to FILE
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tests-from", type=Path, help="run only the tests in this file, in its order")
    parser.addoption("--failure-to", type=Path, help="write the first test that fails to this file")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path: Path | None = config.getoption("--tests-from")
    if path is None:
        return
    found = {item.nodeid: item for item in items}
    listed = path.read_text().splitlines()
    selected = [found[name] for name in listed if name in found]
    kept = set(map(id, selected))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = selected


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--failure-to")
    # The workers of pytest-xdist send their reports to the main process.
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FirstFailure(path))


class FirstFailure:
    """Writes the name of the first test that fails, and whether it timed out."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._write(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._write(report)

    def _write(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self._path.exists():
            # The words of pytest-timeout.
            reason = "timeout" if "Timeout (>" in report.longreprtext else "failure"
            self._path.write_text(f"{report.nodeid}\n{reason}\n")
