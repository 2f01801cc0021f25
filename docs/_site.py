"""What mkdocs does for this site beyond what it does by itself; mkdocs.yml names it.

Pages are written for people who read them in the repository too, so they link to files outside docs/. On the
site those files are pages of their own, below source/, and the links lead there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent

_LINK = re.compile(r"(?<=\]\()([^)#\s]+)")
_LANGUAGES = {".go": "go", ".json": "json", ".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> None:
    from mkdocs.structure.files import File

    pages = [file.src_uri for file in files.documentation_pages()]
    linked = {
        target for page in pages for target in outside(page, files.get_file_from_path(page).content_string)
    }
    for path in sorted(set(bundled(linked)) | {"CHANGELOG.md"}):
        files.append(File.generated(config, page_of(path), content=rendered(path)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if not re.search("^(## |::: )", markdown, re.M):
        page.meta["hide"] = ["toc"]  # there is none: its place is for the text
    return for_the_site(page.file.src_uri, markdown)


def outside(page: str, markdown: str) -> Iterator[str]:
    """What a page links to outside docs/, by its path in the repository."""
    for target in _LINK.findall(markdown):
        if (path := _path_outside(page, target)) is not None:
            yield path


def bundled(linked: set[str]) -> Iterator[str]:
    """All of that, and what is in the directories among it."""
    for path in linked:
        yield path
        if (ROOT / path).is_dir():
            yield from bundled({f"{path}/{child.name}" for child in _children(ROOT / path)})


def page_of(path: str) -> str:
    """The page of the site that shows a file or a directory."""
    if path == "CHANGELOG.md":
        return "changelog.md"
    return f"source/{path}/index.md" if (ROOT / path).is_dir() else f"source/{path}.md"


def for_the_site(page: str, markdown: str) -> str:
    """The text of a page as mkdocs takes it: with links that stay on the site."""

    def moved(match: re.Match[str]) -> str:
        path = _path_outside(page, match[0])
        return match[0] if path is None else posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")

    # To mkdocs a fence with a second word is none.
    return _LINK.sub(moved, re.sub(r"^```python no-run$", "```python", markdown, flags=re.M))


def rendered(path: str) -> str:
    """The page of a file or a directory outside docs/."""
    file = ROOT / path
    if path == "CHANGELOG.md":
        return file.read_text()
    head = f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n"
    if file.is_dir():
        rows = [f"| [{child.name}]({_entry(child)}) | {_first_line(child)} |" for child in _children(file)]
        return head + "\n".join(["| | |", "|---|---|", *rows])
    text = file.read_text()
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", text)), 3)
    return f"{head}{fence}{_LANGUAGES.get(file.suffix, 'text')}\n{text}\n{fence}\n"


def _path_outside(page: str, target: str) -> str | None:
    if re.match("[a-z]+:", target):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    # What is not there is left as it is: mkdocs has a word for that.
    return None if path.startswith(("docs/", "..")) or not (ROOT / path).exists() else path


def _children(directory: Path) -> list[Path]:
    """What somebody wrote that is in it."""
    found = (
        path for path in directory.iterdir() if path.is_dir() or path.suffix in {*_LANGUAGES, ".md", ".mod"}
    )
    return sorted(path for path in found if not path.name.startswith((".", "_")))


def _entry(child: Path) -> str:
    return f"{child.name}/index.md" if child.is_dir() else f"{child.name}.md"


def _first_line(file: Path) -> str:
    """What a Python file says it is."""
    found = re.match(r'"""(.+?)("""|\n)', file.read_text()) if file.suffix == ".py" else None
    return found[1].replace("|", r"\|") if found else ""
