"""The documentation as `make docs` has built it: complete, without dead links, and on its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import kubeauth
from tests.project.test_docs import ADAPTERS, MODULES

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"

pytestmark = pytest.mark.site


class Page(HTMLParser):
    """What a page is made of, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.classes: set[str] = set()
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.classes |= set(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        elif tag != "a":
            # Scripts, styles, pictures, icons, fonts, frames, what is fetched ahead: whatever an element names.
            self.loaded += [
                given[name] for name in ("src", "srcset", "href", "data", "poster") if name in given
            ]


@cache
def pages() -> dict[str, Page]:
    if not (SITE / "index.html").exists():
        pytest.skip("there is no site here: `make docs` builds one, and runs this")
    found = sorted(SITE.rglob("*.html"))
    return {path.relative_to(SITE).as_posix(): Page(path.read_text()) for path in found}


@pytest.fixture(autouse=True)
def built() -> None:
    pages()


def is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme in ("http", "https")


def test_nothing_is_loaded_from_another_host() -> None:
    loaded = {(name, each) for name, page in pages().items() for each in page.loaded}
    assert len(loaded) > len(pages())
    assert [each for each in loaded if is_elsewhere(each[1])] == []
    for path in SITE.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"';]+", path.read_text()) == [], (
            path.name
        )


def test_nor_would_a_browser_do_so() -> None:
    """Whatever a script of the theme might want to load: mermaid, for one, comes from elsewhere."""
    for name, page in pages().items():
        assert page.policy.startswith("default-src 'self' file:;"), name
        assert "http" not in page.policy
        assert "mermaid" not in page.classes, name


def addresses() -> Iterator[tuple[str, str, str]]:
    """Page, file that it leads to, and place in it. 404.html is served at any address: its links are others."""
    for name, page in pages().items():
        for link in page.links if name != "404.html" else ():
            parts = urlsplit(link)
            if not is_elsewhere(link):
                target = (SITE / name).parent / unquote(parts.path) if parts.path else SITE / name
                yield name, target.resolve().relative_to(SITE.resolve()).as_posix(), unquote(parts.fragment)


def test_every_link_leads_somewhere() -> None:
    dead = set()
    for name, target, place in addresses():
        if not (SITE / target).is_file():
            dead.add((name, target))
        elif place and target in pages() and place not in pages()[target].ids:
            dead.add((name, f"{target}#{place}"))
    assert sorted(dead) == []


def test_the_reference_shows_every_public_name() -> None:
    modules = {*MODULES, "registry"}
    public = {f"kubeauth.{name}" for name in kubeauth.__all__ if name[0] != "_" and name not in modules}
    public |= {f"kubeauth.registry.{name}" for name in kubeauth.registry.__all__ if name != "plugin"}
    public |= {f"kubeauth.registry.plugin.{name}" for name in kubeauth.registry.plugin.__all__}
    for module in MODULES:
        public |= {f"kubeauth.{module}.{name}" for name in getattr(kubeauth, module).__all__}
    for module in ADAPTERS:
        public |= {
            f"kubeauth.adapters.{module}.{name}" for name in getattr(kubeauth.adapters, module).__all__
        }
    shown = {place for name, page in pages().items() if name.startswith("reference/") for place in page.ids}
    assert sorted(public - shown - {"kubeauth.adapters"}) == []


def test_no_private_module_is_shown_in_a_heading() -> None:
    for path in (SITE / "reference").glob("*.html"):
        headings = re.findall(r"<h[1-6][^>]*>(.*?)</h[1-6]>", path.read_text(), re.S)
        words = [re.sub("<[^>]+>", "", heading).strip() for heading in headings]
        assert [heading for heading in words if re.search(r"\._", heading)] == []


def test_what_is_linked_to_outside_docs_is_a_page() -> None:
    code = (SITE / "source/examples/token_plugin.py.html").read_text()
    assert "HS256" in code
    assert "source/examples/token_plugin.py.html" in pages()["plugins.html"].links
    assert "source/examples/observability/index.html" in pages()["observability.html"].links
    assert "kubeauth.rules.yml.html" in pages()["source/examples/observability/index.html"].links
    assert "../changelog.html" in pages()["reference/index.html"].links


def test_what_is_searched_is_the_documentation() -> None:
    entries = json.loads((SITE / "search/search_index.json").read_text())["docs"]
    found = {entry["location"].partition("#")[0] for entry in entries}
    assert {"index.html", "guides/controller.html", "reference/kubeauth.html", "security.html"} <= found
    assert [name for name in found if name.startswith("source/")] == []


def test_every_page_is_in_a_menu_and_has_code_that_is_code() -> None:
    home = {target for name, target, _ in addresses() if name == "index.html"}
    own = {name for name in pages() if not name.startswith("source/") and name != "404.html"}
    menus = {target for name, target, _ in addresses() if name in own}
    assert sorted(own - menus) == []
    assert {"client.html", "guides/service.html", "reference/index.html", "operations.html"} <= home
    # A fence that mkdocs does not understand would stand there as it was written.
    for path in SITE.rglob("*.html"):
        if "source" not in path.relative_to(SITE).parts:
            assert "<p>```" not in path.read_text(), path.name
            assert "no-run" not in path.read_text(), path.name
