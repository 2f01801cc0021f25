"""The doctor and every kubeconfig that kubeauth is compared with client-go by: it never falters, and agrees."""

from __future__ import annotations

from pathlib import Path

from kubeauth._config.environment import Environment
from kubeauth.cli._doctor_findings import Level
from tests.cli.doctoring import examined
from tests.differential.corpus import CASES, Case
from tests.support.cases import each_case


@each_case("case", CASES, ids=lambda case: case.id)
def test_it_finds_an_error_where_there_is_one(case: Case, tmp_path: Path) -> None:
    case.write(tmp_path)
    found = examined(
        "--offline",
        *(f"--{name}={value}" for name, value in case.choose.items()),
        kubeconfig=tmp_path / case.explicit if case.explicit else None,
        environment=Environment(environ=case.environ(tmp_path)),
    )
    errors = [found.levels.get(id) is Level.ERROR for id in ("file", "context", "entries")]
    assert any(errors) == case.broken, found.text
