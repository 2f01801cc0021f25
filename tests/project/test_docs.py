"""The documentation tells the truth: its links lead somewhere, its code runs, its names and tests exist."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import dropwhile, groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import kubeauth
from kubeauth.testing import APIServer
from tests.support.blocks import PAGES, ROOT, Block, blocks, get_page_name, outputs
from tests.support.cases import each_case

DOCS = ROOT / "docs"
ARCHITECTURE = DOCS / "development" / "architecture.md"
PYTHON = [block for page in PAGES for block in blocks(page, "python")]
RUN = [
    pytest.param(block.code, id=f"{get_page_name(block.page)}-{number}")
    for number, block in enumerate(PYTHON)
    if block.is_run and block.title is None
]


@each_case("page", PAGES, ids=get_page_name)
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


def test_the_architecture_names_every_package_once() -> None:
    table = ARCHITECTURE.read_text().split("## Packages")[1].split("## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.M)
    named = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    tops = {path.relative_to(ROOT / "kubeauth").parts[0] for path in (ROOT / "kubeauth").rglob("*.py")}
    packages = {top.removesuffix(".py") for top in tops} - {"__init__", "__main__"} | {"kubeauth"}
    assert sorted(named) == sorted(packages)


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


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN)
def test_code_blocks_run(block: str, kubeconfig: str) -> None:
    environ = {**os.environ, "KUBECONFIG": kubeconfig}
    run = subprocess.run(
        [sys.executable, "-c", block], env=environ, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    for shown in (outputs(page).get(block) for page in PAGES):
        assert shown is None or alike(run.stdout) == alike(shown)


def alike(output: str) -> str:
    """Without what differs by machine and by run."""
    for varies in (
        r"127\.0\.0\.1:\d+",
        r"(?<='user-agent': )'[^']+'",
        r"(?<='accept-encoding': )'[^']+'",
        r"(?<= in )\d+\.\d s",
        r"(?<=expires )[\d-]{10}\S+",
        r"(?<=expires at )\S+(?=:)",
    ):
        output = re.sub(varies, "...", output)
    return output


def test_outputs_are_below_what_prints_them() -> None:
    """The test above would be content with none."""
    titled = [block for page in PAGES for block in blocks(page, "text") if block.title == "Output"]
    assert len(titled) == sum(len(outputs(page)) for page in PAGES) > 0


def logged() -> Iterator[tuple[str, str, str]]:
    """Logger, level and the words of everything that is ever logged."""
    for path in (ROOT / "kubeauth").rglob("*.py"):
        named = re.search(r'^logger = logging\.getLogger\("([\w.]+)"\)', path.read_text(), re.M)
        for node in ast.walk(ast.parse(path.read_text())):
            call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and re.fullmatch(
                "logger.(debug|info|warning|error|critical)", call
            ):
                assert named or path.parent.name == "_transport"  # where _state has it for all
                assert isinstance(node.args[0], ast.Constant), ast.unparse(node)
                words = re.split(r"%\S*|\n", str(node.args[0].value))
                logger = named[1] if named else "kubeauth.transport"
                yield logger, call.removeprefix("logger.").upper(), max(words, key=len).strip(" .:,")


def test_operations_tells_of_everything_that_is_logged() -> None:
    rows = [
        line for line in (DOCS / "operations.md").read_text().splitlines() if line.startswith("| `kubeauth.")
    ]
    found = list(logged())
    assert len(found) > 10
    missing = [
        each
        for each in found
        if not any(all(part in row for part in each) for row in rows)
        # A message that is nothing but the request; and one for programs with --master, which are to come.
        and each[2] not in ("", "Neither --kubeconfig nor --master was specified")
    ]
    assert missing == []


def test_blocks_that_are_not_run_say_why() -> None:
    silent = [block for block in PYTHON if not block.is_run and "<!-- not run: " not in block.before]
    assert [(block.page.name, block.code) for block in silent] == []


def test_blocks_with_a_title_are_run_by_the_tests_of_the_guides() -> None:
    titles = {(block.page.name, block.title) for block in PYTHON if block.title}
    odd = [title for page, title in titles if not str(title).endswith(".py") and page != "notebook.md"]
    assert odd == []


def typed(line: str) -> Iterator[list[str]]:
    """The commands of a line, each as its words, without the variables that are set for it."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    for is_operator, group in groupby(words, lambda word: set(word) <= set("|&;<>()")):
        command = list(dropwhile(re.compile(r"\w+=").match, group))
        if command and not is_operator:
            yield command


def commands(block: Block) -> Iterator[list[str]]:
    for line in block.code.replace("\\\n", " ").splitlines():
        if block.language == "sh" or line.startswith("$ "):
            yield from typed(line.removeprefix("$ "))


TYPED = [
    (get_page_name(page), words)
    for page in PAGES
    for block in blocks(page, "console", "sh")
    for words in commands(block)
] + [
    (get_page_name(page), words)
    for page in PAGES
    for line in re.findall(r"`((?:\.venv/bin/kubeauth|kubeauth|make) [a-z][^`]*)`", page.read_text())
    for words in typed(line)
]


@cache
def targets() -> str:
    return subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607 -- whichever make there is


@each_case(("page", "words"), [pytest.param(*each, id=" ".join(each[1])) for each in TYPED])
def test_commands_exist(page: str, words: list[str]) -> None:
    program, *arguments = words
    if program == "make":
        for target in (word for word in arguments if "=" not in word):
            assert f"make {target} " in targets() or target == "help"
    elif program in ("kubeauth", ".venv/bin/kubeauth"):
        from kubeauth.cli._app import COMMANDS, parser_of

        named = [word for word in arguments if not word.startswith("-")]
        names = [" ".join(named[:count]) for count in range(len(named), 0, -1)]
        command = next((name for name in names if name in COMMANDS), None)
        assert command is not None or not named
        known = set(parser_of(command)._option_string_actions) if command else {"--help", "--version"}
        assert {word.partition("=")[0] for word in arguments if word.startswith("-") and word != "-"} <= known
    elif program.endswith("python"):
        name = arguments[1].replace(".", "/") if arguments[0] == "-m" else arguments[0]
        assert any((ROOT / f"{name}{end}").exists() for end in ("", ".py", "/__main__.py"))


def test_the_commands_are_found() -> None:
    """The test above would be content with none."""
    programs = {words[0] for _, words in TYPED}
    assert {"make", "kubeauth", ".venv/bin/kubeauth", "python"} <= programs


@each_case("page", PAGES, ids=get_page_name)
def test_extras_exist(page: Path) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for found in re.findall(r"kubeauth\[([\w,-]+)\]", page.read_text())
        for extra in found.split(",")
    }
    assert named <= set(known)


@functools.cache
def loggers() -> set[str]:
    sources = (path.read_text() for path in (ROOT / "kubeauth").rglob("*.py"))
    return {name for text in sources for name in re.findall(r'getLogger\("([\w.]+)"\)', text)}


@each_case("page", PAGES, ids=get_page_name)
def test_names_exist(page: Path) -> None:
    """`kubeauth.a.b` in a text, and `::: kubeauth.a.b` in the reference."""
    for name in re.findall(r"(?:`|^::: )(kubeauth(?:\.\w+)+)(?![\w.-])", page.read_text(), re.M):
        if name in loggers() or (ROOT / "examples/observability" / name).exists():
            continue
        found: object = kubeauth
        for part in name.split(".")[1:]:
            found = getattr(found, part)  # AttributeError if there is none


MODULES = (
    "discovery",
    "errors",
    "fleet",
    "gmsa",
    "metrics",
    "plugin",
    "schemas",
    "testing",
    "httpx2",
    "transports",
)
ADAPTERS = ("httpx2_k8s", "kr8s", "kubernetes", "kubernetes_aio", "kubernetes_asyncio", "lightkube")


def test_the_reference_has_every_public_name() -> None:
    public = {f"kubeauth.{name}" for name in kubeauth.__all__ if name[0] != "_"}
    for module in MODULES:
        public |= {f"kubeauth.{module}.{name}" for name in getattr(kubeauth, module).__all__}
    registry = kubeauth.registry
    public |= {f"kubeauth.registry.{name}" for name in registry.__all__ if name != "plugin"}
    public |= {f"kubeauth.registry.plugin.{name}" for name in registry.plugin.__all__}
    public |= {f"kubeauth.registry.httpx2.{name}" for name in registry.httpx2.__all__}
    for module in ADAPTERS:
        public |= {
            f"kubeauth.adapters.{module}.{name}" for name in getattr(kubeauth.adapters, module).__all__
        }
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: (kubeauth\.[\w.]+)$", pages, re.M))
    assert sorted(public - shown) == []
    modules = {f"kubeauth.{module}" for module in MODULES} | {
        f"kubeauth.adapters.{module}" for module in ADAPTERS
    }
    modules |= {"kubeauth.registry", "kubeauth.registry.plugin"}
    assert sorted(shown - public - modules) == []


def in_navigation(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from in_navigation(below)


def test_every_page_is_in_the_navigation() -> None:
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    named = list(in_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert len(named) == len(set(named))
    assert set(named) - pages == {"changelog.md"}  # which is made a page of
    assert pages <= set(named)


def test_the_home_page_says_what_the_readme_says() -> None:
    readme, home = (ROOT / "README.md").read_text(), (DOCS / "index.md").read_text()
    shared = [block.code for block in blocks(DOCS / "index.md", "console", "python", "text")]
    assert len(shared) >= 3
    assert [code for code in shared if code not in readme] == []
    first = re.search(r"^`kubeauth\.Client\(\)` is .+?(?=\n\n)", readme, re.M | re.S)
    assert first is not None
    assert first[0] in home


@pytest.mark.parametrize(
    "page", ["differences.md", "security.md", "registry.md", "discovery.md", "gmsa.md", "proxy.md"]
)
def test_every_row_names_a_test_that_exists(page: str) -> None:
    """A difference, or a threat, in the last column of whose row stands the test that shows it."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    rows = [
        line for line in (DOCS / page).read_text().splitlines() if line.startswith("| ") and "`test_" in line
    ]
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.split("|")[-2])
        assert named, row
        assert [name for name in named if f"def {name}(" not in tests] == []
    tables = re.findall(r"(?:^\|.*\n)+", (DOCS / page).read_text(), re.M)
    pinned = [table for table in tables if "`test_" in table]
    assert sum(table.count("\n") - 2 for table in pinned) == len(rows) > 0


def test_every_rule_that_is_built_is_explained() -> None:
    from tests.project.test_rules import BUILT, DISCOVERY, REGISTRY

    text = (ROOT / "docs" / "rules.md").read_text()
    explained = set(re.findall(r"\b[ACIKMOPTX]\d+a?\b", text)) | set(re.findall(r"\b\d+\.\d+\b", text))
    for kind, first, last in re.findall(r"\b([ACIKMOPTX])(\d+)-[ACIKMOPTX](\d+)\b", text):
        explained |= {f"{kind}{number}" for number in range(int(first), int(last) + 1)}
    for section, first, last in re.findall(r"\b(\d+)\.(\d+)-\1\.(\d+)\b", text):
        explained |= {f"{section}.{number}" for number in range(int(first), int(last) + 1)}
    assert sorted({*BUILT, *REGISTRY, *DISCOVERY} - explained) == []


def test_every_difference_in_the_corpus_is_documented() -> None:
    from tests.differential.corpus import CASES

    documented = (ROOT / "docs" / "differences.md").read_text()
    assert [case.id for case in CASES if case.differs and f"{case.differs}" not in documented] == []


def site() -> ModuleType:
    """What mkdocs.yml calls a hook."""
    spec = importlib.util.spec_from_file_location("docs_site", DOCS / "_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestLinksOutOfTheDocumentation:
    """They work in the repository as they are; on the site, what they lead to is a page."""

    def test_a_file_a_directory_and_the_changelog(self) -> None:
        text = "[a](../examples/watch.py) [b](../tests/e2e) [c](../CHANGELOG.md#added) [d](exec.md) [e](https://x.example/../y)"
        assert site().for_the_site("client.md", text) == (
            "[a](source/examples/watch.py.md) [b](source/tests/e2e/index.md) [c](changelog.md#added) [d](exec.md) "
            "[e](https://x.example/../y)"
        )

    def test_what_is_not_there_is_left_for_mkdocs_to_complain_of(self) -> None:
        assert site().for_the_site("client.md", "[a](../examples/nope.py)") == "[a](../examples/nope.py)"

    def test_from_a_page_further_down(self) -> None:
        text = "[a](../../examples/watch.py) [b](../exec.md#when-it-is-run)"
        moved = "[a](../source/examples/watch.py.md) [b](../exec.md#when-it-is-run)"
        assert site().for_the_site("guides/jobs.md", text) == moved

    def test_what_is_in_a_directory_comes_along(self) -> None:
        found = set(site().bundled({"examples/observability"}))
        assert {"examples/observability", "examples/observability/kubeauth.rules.yml"} < found
        listed = site().rendered("examples")
        assert "[watch.py](watch.py.md) | Watch pods until the server ends the watch." in listed
        assert "[observability](observability/index.md)" in listed

    def test_code_that_has_fences_in_it_stays_code(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = site()
        (tmp_path / "a.py").write_text('"""Text.\n\n```python\npass\n```\n"""\n')
        monkeypatch.setattr(module, "ROOT", tmp_path)
        assert module.rendered("a.py").count("````") == 2
        assert "````python\n" in module.rendered("a.py")
