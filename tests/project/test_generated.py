"""Generated copies are up to date, and sync and async code that shares a module does the same."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.generate import COPIES, SYNC, replace_words
from tests.support.cases import each_case

ROOT = Path(__file__).parents[2]


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "generate.py"), "--check"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The package and the script in another place."""
    for name in ("scripts", "kubeauth"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_copies_are_what_their_sources_generate() -> None:
    ran = check(ROOT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["source", "target"])
def test_a_changed_source_or_copy_is_reported_and_generated_again(project: Path, part: str) -> None:
    copy = COPIES[0]
    changed = project / "kubeauth" / getattr(copy, part)
    changed.write_text(changed.read_text() + "\n\nEXTRA = 1\n")
    ran = check(project)
    assert ran.returncode == 1
    assert f"{copy.target} is not what {copy.source} generates. Run `make generate`." in ran.stdout
    assert "EXTRA = 1" in ran.stdout
    subprocess.run([sys.executable, str(project / "scripts" / "generate.py")], cwd=project, check=True)
    assert check(project).returncode == 0
    assert ("EXTRA" in (project / "kubeauth" / copy.target).read_text()) is (part == "source")


def test_a_truncated_or_missing_copy_is_reported(project: Path) -> None:
    truncated, missing = (project / "kubeauth" / copy.target for copy in COPIES[:2])
    truncated.write_text(truncated.read_text()[:500])
    missing.unlink()
    ran = check(project)
    assert ran.returncode == 1
    assert ran.stdout.count("Run `make generate`.") == 2


def test_a_text_that_left_its_source_is_reported(project: Path) -> None:
    source = project / "kubeauth" / "_client.py"
    source.write_text(source.read_text().replace("Callable[[bytes], str]", "Callable[[bytes], object]"))
    ran = check(project)
    assert ran.returncode == 1
    assert "_client.py does not contain 'Callable[[bytes], str]'" in ran.stderr


def test_other_line_endings_are_reported(project: Path) -> None:
    copy = project / "kubeauth" / COPIES[0].target
    copy.write_bytes(copy.read_bytes().replace(b"\n", b"\r\n"))
    ran = check(project)
    assert ran.returncode == 1
    assert f"{COPIES[0].target} is not what" in ran.stdout


def test_a_new_async_module_without_a_copy_is_reported(project: Path) -> None:
    shutil.copy(project / "kubeauth/fleet/_async.py", project / "kubeauth/registry/_async.py")
    ran = check(project)
    assert ran.returncode == 1
    assert "no copy is generated of registry/_async.py" in ran.stderr


def test_an_async_name_without_a_sync_counterpart_is_reported(project: Path) -> None:
    source = project / "kubeauth/fleet/_async.py"
    source.write_text(source.read_text() + "\n\nclass AsyncThing:\n    pass\n")
    ran = check(project)
    assert ran.returncode == 1
    assert "'AsyncThing' of fleet/_async.py has no sync counterpart" in ran.stderr


def test_a_copy_says_where_to_edit() -> None:
    for copy in COPIES:
        first = (ROOT / "kubeauth" / copy.target).read_text().partition("\n")[0]
        assert first.startswith(f"# Generated from {copy.source} ")


# Words in modules that hold the sync and the async code side by side.
SAME_MODULE = SYNC | {
    "AsyncClient": "Client",
    "AsyncClientOptions": "ClientOptions",
    "AsyncDirectTransport": "DirectTransport",
    "AsyncFactory": "SyncFactory",
    "AsyncGenerator": "Generator",
    "AsyncHTTPTransport": "HTTPTransport",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncKubeTransport": "KubeTransport",
    "AsyncLookup": "Lookup",
    "AsyncReviewer": "Reviewer",
    "_AsyncBody": "_Body",
    "_AsyncLeasedStream": "_LeasedStream",
    "_aask": "_ask",
    "_aread": "_read",
    "_await": "_wait",
    "alookup": "lookup",
    "aread": "read",
    "asettled": "settled",
    "async_auth_flow": "sync_auth_flow",
}


def definition(path: str, name: str) -> str:
    """The code of a class, function or method, without its docstrings."""
    node: ast.AST = ast.parse((ROOT / "kubeauth" / path).read_text())
    for part in name.split("."):
        node = next(each for each in ast.walk(node) if getattr(each, "name", None) == part)
    for each in ast.walk(node):
        match each:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if ast.get_docstring(each):
                each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(node)


@each_case(
    ("path", "asynchronous", "synchronous"),
    [
        ("_client.py", "AsyncClient", "Client"),
        ("_transport/httpx.py", "AsyncKubeTransport", "KubeTransport"),
        ("_transport/auth.py", "AuthFlow.async_auth_flow", "AuthFlow.sync_auth_flow"),
        ("transports/_httpx.py", "AsyncDirectTransport", "DirectTransport"),
        ("registry/_driver.py", "RegistryFlow.async_auth_flow", "RegistryFlow.sync_auth_flow"),
        ("registry/_driver.py", "_aread", "_read"),
        ("registry/_providers.py", "CredentialProviders.alookup", "CredentialProviders.lookup"),
        ("registry/_providers.py", "CredentialProviders._aask", "CredentialProviders._ask"),
        ("gmsa/_driver.py", "asettled", "settled"),
    ],
)
def test_sync_and_async_code_in_one_module_is_the_same(
    path: str, asynchronous: str, synchronous: str
) -> None:
    as_sync = definition(path, asynchronous).replace("async ", "").replace("await ", "")
    as_sync = replace_words(as_sync, SAME_MODULE)
    # A generator that is async has two type arguments, and a sync one three.
    as_sync = as_sync.replace("Generator[Request, Response]", "Generator[Request, Response, None]")
    assert ast.unparse(ast.parse(as_sync)) == definition(path, synchronous)
