"""The documentation tells the truth: its links lead somewhere, its code runs, its tests exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubeauth.testing import APIServer

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "docs" / "architecture.md"
AS_ONE = ("_documents", "testing")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)", page.read_text()):
        path, _, section = target.partition("#")
        if not target.startswith("https://"):
            assert (page.parent / path).exists(), target
            assert not section or section in sections(page.parent / path if path else page), target


def sections(page: Path) -> set[str]:
    """The headings of a page, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_architecture_names_every_module() -> None:
    named: set[str] = set()
    for row in re.findall(r"^\| (`.+)$", ARCHITECTURE.read_text(), re.M):
        folder = ""
        for name in re.findall(r"`([^`]+)`", row):
            folder = name.rpartition("/")[0] or folder  # `adapters/kr8s`, `lightkube`
            named |= {name, f"{folder}/{name.rpartition('/')[2]}"}
    paths = [path.relative_to(ROOT / "kubeauth") for path in (ROOT / "kubeauth").rglob("*.py")]
    modules = [path.with_suffix("").as_posix() for path in paths if not path.stem.startswith("__")]
    # Two are told of as one.
    missing = [name for name in modules if name not in named and name.split("/")[0] not in AS_ONE]
    assert sorted(missing) == []


def test_no_registry_is_named() -> None:
    """Where packages come from is for whoever installs them to say."""
    hosts = ("pypi." + "org", "pythonhosted." + "org", "proxy.golang." + "org", "registry.npmjs." + "org")
    texts = {
        page: page.read_text() for page in [*PAGES, *(ROOT / "examples").rglob("*.*"), ROOT / "Makefile"]
    }
    assert [(page.name, host) for page, text in texts.items() for host in hosts if host in text] == []


@pytest.fixture
def kubeconfig(server: APIServer, tmp_path: Path) -> str:
    """A real server behind every name that the documentation uses."""
    document = server.kubeconfig({"token": "alices-token"})
    (context,) = document["contexts"]
    document["contexts"] = [{**context, "name": name} for name in ("prod", "staging")]
    document["current-context"] = "prod"
    document["clusters"].append({**document["clusters"][0], "name": "prod"})
    document["users"].append({**document["users"][0], "name": "robot"})
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block: str, kubeconfig: str) -> None:
    environ = {**os.environ, "KUBECONFIG": kubeconfig}
    run = subprocess.run(
        [sys.executable, "-c", block], env=environ, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_every_difference_names_a_test_that_exists() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    rows = [
        line for line in (ROOT / "docs" / "differences.md").read_text().splitlines() if line.startswith("| ")
    ]
    for row in rows[1:]:
        named = re.findall(r"`(test_\w+)`", row.split("|")[-2])
        assert named, row
        assert [name for name in named if f"def {name}(" not in tests] == []


def test_every_rule_that_is_built_is_explained() -> None:
    from tests.test_rules import BUILT

    text = (ROOT / "docs" / "rules.md").read_text()
    explained = set(re.findall(r"\b[CIKMOPTX]\d+a?\b", text))
    for kind, first, last in re.findall(r"\b([CIKMOPTX])(\d+)-[CIKMOPTX](\d+)\b", text):
        explained |= {f"{kind}{number}" for number in range(int(first), int(last) + 1)}
    assert sorted(set(BUILT) - explained) == []


def test_every_difference_in_the_corpus_is_documented() -> None:
    from tests.differential.corpus import CASES

    documented = (ROOT / "docs" / "differences.md").read_text()
    assert [case.id for case in CASES if case.differs and f"{case.differs}" not in documented] == []


def test_make_help_lists_what_the_readme_names() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    for target in set(re.findall(r"`?make ([a-z-]+)`?", (ROOT / "README.md").read_text())) - {"help"}:
        assert f"make {target}" in shown
