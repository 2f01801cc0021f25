"""What the tests of the doctor share: an examination as the command makes it, and its lines by name."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from kubeauth._config.environment import Environment
from kubeauth.cli import _doctor
from kubeauth.cli._app import parser_of
from kubeauth.cli._doctor_findings import Finding, Level
from kubeauth.cli._doctor_report import as_json, as_text
from kubeauth.cli._doctor_run import Examination

SENTINEL = "SENTINEL"
TOKEN = f"{SENTINEL}-token-of-alice"
# Nothing on loopback takes longer, also on a machine that stalls, but for what never answers.
PATIENCE = "60s"


@dataclass(frozen=True)
class Report:
    """What was found, and what is said of it in either form."""

    findings: tuple[Finding, ...]
    text: str
    json: str

    @property
    def levels(self) -> dict[str, Level]:
        """The worst of each id."""
        order = [Level.SKIPPED, Level.OK, Level.WARNING, Level.ERROR]
        found: dict[str, Level] = {}
        for finding in self.findings:
            before = found.get(finding.id, Level.SKIPPED)
            found[finding.id] = max(before, finding.level, key=order.index)
        return found

    def all(self, id: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.id == id]

    def one(self, id: str) -> Finding:
        (found,) = self.all(id)
        return found

    def bad(self, *expected: str) -> Finding:
        """The first error: it is the one expected, has a next step, and there are no others than these."""
        errors = [finding for finding in self.findings if finding.level is Level.ERROR]
        assert {finding.id for finding in errors} == set(expected), self.text
        assert all(finding.next_step for finding in errors), self.text
        return errors[0]

    def fine(self, *warned: str) -> None:
        """Nothing is an error, and nothing a warning but for these."""
        bad = {id: level for id, level in self.levels.items() if level in (Level.ERROR, Level.WARNING)}
        assert bad == dict.fromkeys(warned, Level.WARNING), self.text

    def warned(self, id: str) -> Finding:
        """A warning with a next step."""
        (found,) = [finding for finding in self.all(id) if finding.level is Level.WARNING]
        assert found.next_step
        return found


def examined(
    *arguments: str,
    kubeconfig: Path | str | None = None,
    environment: Environment | None = None,
    timeout: str = PATIENCE,
    secrets: Sequence[str] = (),
) -> Report:
    """As `kubeauth doctor` with these arguments would find it. Neither form may hold a secret."""
    given = [f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []
    options = parser_of("doctor").parse_args(
        [*given, f"--request-timeout={timeout}", *arguments], _doctor.Options()
    )
    wanted = _doctor.wanted_by(options)
    if environment is not None:
        wanted = replace(wanted, loader=replace(wanted.loader, environment=environment))
    findings = tuple(Examination(wanted).findings())
    report = Report(findings, as_text(findings, width=80, colour=False), as_json(findings))
    for secret in (SENTINEL, *secrets):
        assert secret not in report.text, report.text
        assert secret not in report.json, report.json
    assert "the check itself failed" not in report.text, report.text
    for finding in findings:
        assert bool(finding.next_step) == (finding.level in (Level.WARNING, Level.ERROR)), finding
    assert json.loads(report.json)["checks"]
    return report


def written(path: Path, document: Any, mode: int = 0o600) -> Path:
    """A kubeconfig in a file of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    os.chmod(path, mode)
    return path


def jwt(**claims: Any) -> str:
    """A token that nobody has signed."""

    def encoded(part: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    return f"{encoded({'alg': 'none'})}.{encoded({'sub': 'alice'} | claims)}.{encoded('signature')}"
