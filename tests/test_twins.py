"""What exists twice is the same twice: colours differ by async and await, libraries by their name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import kubeauth

ROOT = Path(kubeauth.__file__).parent

# Words that say the colour, and nothing else.
COLOURS = [
    ("async with", "with"), ("async for", "for"), ("async def", "def"), ("await ", ""), ("__aiter__", "__iter__"),
    ("aclose", "close"), ("aget", "get"), ("handle_async_request", "handle_request"), ("async_auth_flow", "sync_auth_flow"),
    ("__anext__", "__next__"), ("StopAsyncIteration", "StopIteration"), ("AsyncDirect[", "SyncDirect["), ("AsyncDirect(", "SyncDirect("),
    ("AsyncTransport", "SyncTransport"), ("AsyncFactory", "SyncFactory"), ("AsyncInner", "SyncInner"),
    ("AsyncStream", "SyncStream"), ("AsyncGenerator[Request, Response]", "Generator[Request, Response, None]"),
    ("aiter_raw", "iter_raw"), ("asettled", "settled"), ("aread(", "read("), ("_await(", "_wait("), ("_loops", "_threads"), ("AsyncHTTPTransport", "HTTPTransport"), ("AsyncByteStream", "SyncByteStream"), ("Async", ""),
]  # fmt: skip


def stripped(text: str) -> str:
    for coloured, plain in COLOURS:
        text = text.replace(coloured, plain)
    return text


def without_docstrings(node: ast.AST) -> ast.AST:
    for each in ast.walk(node):
        if isinstance(
            each, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(each):
            each.body = each.body[1:] or [ast.Pass()]
    return node


def code(text: str) -> str:
    """As code alone: no docstrings, no comments, imports in any order."""
    tree = without_docstrings(ast.parse(text))
    assert isinstance(tree, ast.Module)
    parts = [ast.unparse(each) for each in tree.body]
    imports = sorted(part for part in parts if part.startswith(("from ", "import ")))
    names = [
        ", ".join(sorted(part.partition(" import ")[2].split(", "))) + part.partition(" import ")[0]
        for part in imports
    ]
    return "\n".join(sorted(names) + [part for part in parts if part not in imports])


@pytest.mark.parametrize("folder", ["_transport", "fleet", "inner"])
def test_the_cores_differ_by_colour_alone(folder: str) -> None:
    core = (ROOT / folder / "_async.py").read_text()
    assert code(stripped(core)) == code((ROOT / folder / "_sync.py").read_text())


def definition(path: str, name: str, within: str | None = None) -> str:
    tree: ast.AST = ast.parse((ROOT / path).read_text())
    for wanted in (within, name):
        if wanted is not None:
            tree = next(each for each in ast.walk(tree) if getattr(each, "name", None) == wanted)
    return ast.unparse(without_docstrings(tree))


@pytest.mark.parametrize(
    ("path", "within", "asynchronous", "synchronous"),
    [
        ("_transport/_httpx.py", None, "AsyncKubeTransport", "KubeTransport"),
        ("_client.py", None, "AsyncClient", "Client"),
        ("inner/_httpx.py", None, "AsyncDirectTransport", "DirectTransport"),
        ("_transport/_auth.py", "AuthFlow", "async_auth_flow", "sync_auth_flow"),
        ("registry/_driver.py", "RegistryFlow", "async_auth_flow", "sync_auth_flow"),
        ("registry/_driver.py", None, "_aread", "_read"),
        ("gmsa/_driver.py", None, "asettled", "settled"),
    ],
)
def test_the_faces_differ_by_colour_alone(
    path: str, within: str | None, asynchronous: str, synchronous: str
) -> None:
    assert stripped(definition(path, asynchronous, within)) == stripped(definition(path, synchronous, within))


@pytest.mark.parametrize("name", ["lookup", "_ask"])
def test_lookups_of_providers_differ_by_colour_alone(name: str) -> None:
    path, within = "registry/_providers.py", "CredentialProviders"
    asynchronous = name.replace("lookup", "alookup").replace("_ask", "_aask")
    coloured = definition(path, asynchronous, within).replace(asynchronous, name).replace("_aask", "_ask")
    assert stripped(coloured) == definition(path, name, within)


@pytest.mark.parametrize(
    ("httpx", "httpx2"),
    [
        ("_transport/_httpx.py", "_transport/_httpx2.py"),
        ("_client.py", "httpx2.py"),
        ("inner/_httpx.py", "inner/httpx2.py"),
        ("registry/_auth.py", "registry/httpx2.py"),
    ],
)
def test_the_libraries_differ_by_name_alone(httpx: str, httpx2: str) -> None:
    text = (ROOT / httpx2).read_text()
    # One needs an extra, and says so; and its authors allow a decoder to find nothing.
    text = re.sub(r"try:\n    import httpx2\nexcept .*?\n\n", "import httpx2\n\n", text, flags=re.S)
    text = text.replace("Callable[[bytes], str | None]", "Callable[[bytes], str]")
    assert code(text.replace("httpx2", "httpx")) == code((ROOT / httpx).read_text())


def test_the_adapters_for_asyncio_differ_by_name_alone() -> None:
    text = (ROOT / "adapters/kubernetes_aio.py").read_text()
    for theirs, ours in (
        ("kubernetes 36 or newer, and aiohttp", "kubernetes_asyncio"),
        ("kubeauth[kubernetes]", "kubeauth[kubernetes_asyncio]"),
        ("kubernetes.aio", "kubernetes_asyncio"),
        ("kubernetes_aio", "kubernetes_asyncio"),
        ("import kubernetes\n", "import kubernetes_asyncio\n"),
        ("kubernetes.__version__", "kubernetes_asyncio.__version__"),
    ):
        text = text.replace(theirs, ours)
    assert code(text) == code((ROOT / "adapters/kubernetes_asyncio.py").read_text())


def test_the_test_would_notice() -> None:
    core = (ROOT / "_transport/_async.py").read_text()
    changed = core.replace("        self._check(request)\n", "")
    assert changed != core
    assert code(stripped(changed)) != code((ROOT / "_transport/_sync.py").read_text())
