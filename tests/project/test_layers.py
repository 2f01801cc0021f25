"""Imports point down only, as the table in docs/development/architecture.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kubeauth
from tests.support.cases import each_case

ROOT = Path(kubeauth.__file__).parent

FLOOR = {
    "_compat",
    "_connections",
    "_field_types",
    "_http",
    "_observer",
    "_parsing",
    "_runtime",
    "_secret",
    "_streams",
    "errors",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_connections": set(),
    "_secret": set(),
    "_runtime": {"errors"},
    "_streams": set(),
    "_compat": set(),
    "_http": set(),
    "_field_types": {"_secret", "errors"},
    "_observer": set(),
    "_parsing": {"errors", "_secret"},
    "schemas": {"_parsing", "_secret", "errors"},
    "_exec": FLOOR | {"schemas"},
    "_config": FLOOR | {"_exec", "schemas"},
    "_oidc": FLOOR | {"schemas", "_exec", "_config"},
    "_credentials": FLOOR | {"schemas", "_exec", "_config", "_oidc"},
    "metrics": {"errors"},
    "_transport": FLOOR | {"schemas", "_exec", "_config", "_oidc", "_credentials", "metrics"},
    "_client": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport"},
    "httpx2": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport"},
    "transports": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport"},
    "plugin": FLOOR | {"schemas", "_exec", "_config", "_credentials"},
    "registry": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client", "metrics"},
    # _exec for the JSON that Go writes.
    "gmsa": FLOOR
    | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client", "transports", "metrics"},
    "discovery": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client"},
    "fleet": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client", "transports"},
    "_proxy": FLOOR
    | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client", "transports", "metrics"},
    "testing": FLOOR | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client"},
    "cli": FLOOR
    | {
        "schemas",
        "_exec",
        "_config",
        "_oidc",
        "_credentials",
        "_transport",
        "_client",
        "discovery",
        "fleet",
        "gmsa",
        "httpx2",
        "metrics",
        "plugin",
        "_proxy",
        "registry",
        "testing",
    },
    "adapters": FLOOR
    | {"schemas", "_exec", "_config", "_credentials", "_transport", "_client", "httpx2", "metrics"},
    "__main__": {"cli"},
    # It names everything, and loads it when asked.
    "__init__": FLOOR
    | {
        "adapters",
        "schemas",
        "_exec",
        "_config",
        "_credentials",
        "_transport",
        "_client",
        "discovery",
        "fleet",
        "gmsa",
        "httpx2",
        "transports",
        "metrics",
        "plugin",
        "registry",
        "testing",
    },
}
OUTSIDE: dict[str, set[str]] = {
    # Who may import what from elsewhere: HTTP from _transport up, anyio from _credentials up,
    # subprocess only in _exec, YAML only in _parsing, Prometheus in metrics and where they are shown,
    # and what the command line needs nowhere else.
    "h11": {"gmsa", "_proxy"},
    "httpx": {
        "_transport",
        "_client",
        "adapters",
        "cli",
        "discovery",
        "fleet",
        "transports",
        "_proxy",
        "registry",
    },
    "httpx2": {"_transport", "httpx2", "adapters", "transports", "registry"},
    "anyio": {
        "_credentials",
        "_runtime",
        "_transport",
        "_client",
        "adapters",
        "cli",
        "discovery",
        "fleet",
        "gmsa",
        "transports",
        "_proxy",
        "registry",
    },
    "subprocess": {"_exec"},
    "yaml": {"_parsing"},
    "prometheus_client": {"metrics", "cli", "gmsa", "_proxy"},
    "rich": {"cli"},
    "starlette": {"gmsa"},
    "uvicorn": set(),
    "kubernetes": {"adapters"},
    "kubernetes_asyncio": {"adapters"},
    "lightkube": {"adapters"},
    "kr8s": {"adapters"},
    "httpx2_k8s": {"adapters"},
    "aiohttp": {"adapters"},
    "urllib3": {"adapters"},
}
# Modules that only decide: given values, they return values.
PURE = [
    "errors.py", "_observer.py", "_credentials/backoff.py", "_credentials/credential.py", "_exec/codec.py", "_exec/config.py", "_connections.py", "_secret.py", "_parsing/json.py", "_parsing/go.py",
    "_parsing/limits.py", "_config/kubeconfig.py", "_config/resolve.py", "_config/validate.py", "_config/urls.py",
    "_config/client_config.py", "_config/auth_provider.py", "_oidc/protocol.py", "_transport/types.py", "_transport/signing.py", "transports/_http11.py",
    "registry/_reference.py", "registry/_url.py", "registry/_glob.py", "registry/_match.py",
    "registry/_pattern_index.py",
    "registry/_challenge.py", "registry/_scopes.py", "registry/_token.py", "registry/_flow.py",
    "cli/_paths.py", "cli/_refusals.py", "cli/_tables.py", "cli/_terminal.py",
    "registry/_values.py", "registry/_key_index.py", "registry/_entries.py",
    "registry/_config.py", "registry/_wire.py",
    "gmsa/_decision.py", "gmsa/_words.py", "gmsa/_annotations.py", "gmsa/_places.py", "gmsa/_credspec.py", "gmsa/_lint.py",
    "gmsa/_steps.py", "gmsa/_expand.py", "gmsa/_authorize.py", "gmsa/_effective.py", "gmsa/_api.py", "gmsa/_review.py",
    "gmsa/_environment.py", "gmsa/_explain.py", "cli/_gmsa_report.py", "cli/_gmsa_documents.py",
    "gmsa/_installation.py", "gmsa/_crd.py", "gmsa/_registration.py", "gmsa/_deployment.py",
    "gmsa/_manifests.py", "gmsa/_new_pair.py",
    "discovery/_token.py", "discovery/_jws.py", "discovery/_jwt.py", "discovery/_pins.py",
    "discovery/_cluster_info.py", "discovery/_kubeconfig.py", "discovery/_document.py",
    "discovery/_fetch.py", "discovery/_progress.py",
    "discovery/_secrets.py", "discovery/_new.py", "discovery/_signer.py",
    "fleet/_answer.py", "fleet/_choice.py", "cli/_fleet_tables.py",
    "_proxy/_target.py", "_proxy/_filter.py", "_proxy/_headers.py", "_proxy/_refusal.py",
]  # fmt: skip
IMPURE = {"os", "threading", "subprocess", "ssl", "socket", "time", "httpx", "anyio", "pathlib", "tempfile"}

MODULES = sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            yield node.module or ""
            if node.module == "kubeauth":
                yield from (f"kubeauth.{alias.name}" for alias in node.names)


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@each_case("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path: Path) -> None:
    mine = layer(path)
    wrong = []
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "kubeauth" and rest and rest != "__version__":
            theirs = rest.partition(".")[0]
            if theirs != mine and theirs not in MAY_IMPORT[mine]:
                wrong.append(name)
        if top in OUTSIDE and mine not in OUTSIDE[top]:
            wrong.append(name)
    assert wrong == [], f"{mine} imports {', '.join(wrong)}"


@each_case("name", PURE)
def test_modules_that_decide_touch_nothing(name: str) -> None:
    found = {imported for imported in imports(ROOT / name) if imported.partition(".")[0] in IMPURE}
    # os.path is arithmetic on strings.
    assert found <= {"os.path"}
    called = {
        node.func.id
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"open", "print", "input"}


def test_the_test_would_notice() -> None:
    assert "kubeauth._config.loader" in set(imports(ROOT / "__init__.py"))
    assert "_transport" not in MAY_IMPORT["_config"]


def test_files_fit_one_head() -> None:
    assert [(p.name, n) for p in MODULES if (n := len(p.read_text().splitlines())) > 500] == []
