"""The public surface: what `import kubeauth` shows, and what it costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth.testing import Authority
from tests.support.cases import each_case
from tests.support.kubeconfigs import document

ROOT = Path(kubeauth.__file__).parent

# What httpx itself imports is exempt; the rest waits until it is needed.
NOT_BEFORE_NEEDED = (
    "pydantic", "yaml", "cryptography", "prometheus_client", "rich", "starlette",
    "uvicorn", "httpx2", "kubernetes", "kubernetes_asyncio", "aiohttp", "urllib3", "lightkube", "kr8s",
    "httpx2_k8s",
)  # fmt: skip


def in_a_fresh_process(code: str) -> Any:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def typed_names() -> set[str]:
    """The names that type checkers see: the imports below `if TYPE_CHECKING`."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_all_dir_and_the_typed_imports_agree() -> None:
    shown = in_a_fresh_process("import json, kubeauth; print(json.dumps([kubeauth.__all__, dir(kubeauth)]))")
    assert shown[0] == shown[1] == dir(kubeauth) == sorted(kubeauth.__all__)
    # httpx2 may not be installed, and testing is not for programs: both are there when they are asked for.
    assert set(kubeauth.__all__) == typed_names() - {"httpx2", "testing"} | {"__version__"}


def test_every_name_can_be_had_by_attribute_and_by_import() -> None:
    code = """
import json, kubeauth
from kubeauth import *
print(json.dumps({name: eval(name) is getattr(kubeauth, name) for name in kubeauth.__all__}))
"""
    assert all(in_a_fresh_process(code).values())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        getattr(kubeauth, "nope")  # noqa: B009 -- an unknown name


@pytest.mark.parametrize(
    "code",
    ["import kubeauth", "from kubeauth import *", "import kubeauth; kubeauth.ClientConfig(server='https://h')",
     "import kubeauth; kubeauth.plugin.ExecInfo(cluster=kubeauth.plugin.ExecCluster(server='https://h')).client_config()",
     "import kubeauth; kubeauth.PluginPolicy.deny_all(); kubeauth.ExecOptions(); kubeauth.errors.TLSError",
     "import kubeauth; kubeauth.in_cluster_config", "import kubeauth.registry.plugin", "import kubeauth.schemas",
     "import kubeauth.adapters", "import kubeauth.discovery", "import kubeauth.transports", "import kubeauth.cli", "import kubeauth.metrics", "import kubeauth; kubeauth.metrics.Collector()"],
)  # fmt: skip
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    modules = in_a_fresh_process(f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    # .pth files of development tools may import things before any code of ours runs. A star imports load_config.
    needs = "import httpx, pydantic" if "*" in code else "pass"
    before = in_a_fresh_process(f"{needs}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert not (set(modules) - set(before)) & set(NOT_BEFORE_NEEDED)


def test_a_client_for_a_config_at_hand_imports_nothing_heavy() -> None:
    code = "import kubeauth; kubeauth.Client(kubeauth.ClientConfig(server='https://h', token=kubeauth.Secret('t')))"
    modules = in_a_fresh_process(f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    before = in_a_fresh_process("import json, sys, httpx; print(json.dumps(sorted(sys.modules)))")
    assert not (set(modules) - set(before)) & set(NOT_BEFORE_NEEDED)


def test_the_in_cluster_config_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(Authority().pem)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    code = f"""
import json, sys, kubeauth
from kubeauth._config.environment import Environment
from kubeauth._config.in_cluster import load_in_cluster
config = load_in_cluster(Environment(environ={environ!r}, service_account_dir={str(tmp_path)!r}))
assert config.token.reveal() == "t"
kubeauth.Client(config)
print(json.dumps(sorted(sys.modules)))
"""
    before = in_a_fresh_process("import json, sys, httpx; print(json.dumps(sorted(sys.modules)))")
    assert not (set(in_a_fresh_process(code)) - set(before)) & set(NOT_BEFORE_NEEDED)


@pytest.mark.parametrize("as_yaml", [True, False])
def test_a_kubeconfig_is_read_with_little(as_yaml: bool, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(document(user={"token": "t"})))
    if as_yaml:
        path.write_text("# not JSON\n" + path.read_text())
    code = f"import kubeauth; kubeauth.load_config({str(path)!r})"
    modules = in_a_fresh_process(f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    # pydantic itself imports much, some of it when the first model is built.
    model = "import pydantic; pydantic.create_model('Model', name=str)"
    before = in_a_fresh_process(f"{model}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    new = set(modules) - set(before)
    assert ("yaml" in new) == as_yaml
    assert not new & {*NOT_BEFORE_NEEDED, "httpx", "anyio", "ssl", "asyncio", "subprocess"} - {"yaml"}


def test_a_plugin_starts_with_little() -> None:
    modules = in_a_fresh_process("import kubeauth.plugin, json, sys; print(json.dumps(sorted(sys.modules)))")
    before = in_a_fresh_process("import json, sys; print(json.dumps(sorted(sys.modules)))")
    new = set(modules) - set(before)
    assert not new & {*NOT_BEFORE_NEEDED, "httpx", "anyio", "ssl", "asyncio", "subprocess", "logging"}
    assert len([name for name in new if name.startswith("kubeauth")]) < 24


def test_modules_that_are_asked_for_are_there() -> None:
    code = "import json, kubeauth; print(json.dumps([getattr(kubeauth, name).__name__ for name in {}]))"
    names = ["gmsa", "httpx2", "transports", "metrics", "plugin", "testing"]
    assert in_a_fresh_process(code.format(names)) == [f"kubeauth.{name}" for name in names]


@pytest.mark.parametrize("module", ["kubeauth.httpx2", "kubeauth.transports.httpx2"])
def test_without_httpx2_it_says_what_to_install(module: str) -> None:
    code = f"""
import json, sys
sys.modules["httpx2"] = None
try:
    import {module}
except ImportError as error:
    print(json.dumps(str(error)))
"""
    assert in_a_fresh_process(code) == f"{module} needs httpx2. Install it: pip install 'kubeauth[httpx2]'"


def test_transports_are_loaded_when_they_are_asked_for() -> None:
    code = """
import json, sys, kubeauth.transports
before = [name for name in sys.modules if name.startswith(("httpx", "kubeauth.transports."))]
found = [kubeauth.transports.DirectTransport.__name__, kubeauth.transports.httpx2.DirectTransport.__module__]
print(json.dumps([before, found, dir(kubeauth.transports), hasattr(kubeauth.transports, "nope")]))
"""
    assert in_a_fresh_process(code) == [
        [],
        ["DirectTransport", "kubeauth.transports.httpx2"],
        ["AsyncDirectTransport", "DirectTransport"],
        False,
    ]


ADAPTERS = {
    "kubernetes": "kubernetes",
    "kubernetes_aio": "kubernetes",
    "kubernetes_asyncio": "kubernetes_asyncio",
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_without_its_client_an_adapter_says_what_to_install(adapter: str) -> None:
    code = f"""
import json, sys
sys.modules["{ADAPTERS[adapter]}"] = None
from kubeauth import adapters
try:
    adapters.{adapter}
except ImportError as error:
    print(json.dumps(str(error)))
"""
    said = in_a_fresh_process(code)
    assert said.startswith(f"kubeauth.adapters.{adapter} needs kubernetes")
    assert said.endswith(f"Install it: pip install 'kubeauth[{ADAPTERS[adapter]}]'")


def test_adapters_are_loaded_when_they_are_asked_for() -> None:
    code = """
import json, sys, kubeauth
before = [name for name in sys.modules if name.startswith("kubeauth.adapters.")]
found = kubeauth.adapters.kubernetes.__name__
print(json.dumps([before, found, dir(kubeauth.adapters), hasattr(kubeauth.adapters, "nope")]))
"""
    before, found, names, nope = in_a_fresh_process(code)
    assert (before, found, nope) == ([], "kubeauth.adapters.kubernetes", False)
    assert set(ADAPTERS) <= set(names)


def test_testing_needs_no_test_dependency() -> None:
    code = """
import json, sys
for name in ("pytest", "trio", "trustme", "respx", "pytest_httpx", "hypothesis", "httpx2", "rich"):
    sys.modules[name] = None
import kubeauth
from kubeauth.testing import APIServer
with APIServer(tokens={"t": "alice"}) as server, kubeauth.Client(server.config(token="t")) as client:
    print(json.dumps(client.get("/version").status_code))
"""
    assert in_a_fresh_process(code) == 200


@each_case(
    "module",
    ["discovery", "fleet", "gmsa", "httpx2", "transports", "metrics", "plugin", "schemas", "testing"],
)
def test_the_names_of_a_public_module(module: str) -> None:
    found = getattr(kubeauth, module)
    assert all(hasattr(found, name) for name in found.__all__)
    public_names = {"AsyncClient", "AsyncKubeTransport", "Client", "KubeAuth", "KubeTransport", "ssl_context"}
    if module == "httpx2":
        assert set(found.__all__) == public_names


def test_importing_kubeauth_loads_one_module_of_it() -> None:
    modules = in_a_fresh_process("import kubeauth, json, sys; print(json.dumps(sorted(sys.modules)))")
    assert [name for name in modules if name.startswith("kubeauth")] == ["kubeauth"]


def test_no_other_module_of_ours_is_public() -> None:
    public = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert {name for name in public if not name.startswith("_")} == {
        "adapters",
        "cli",  # a program: nothing in it is for import
        "discovery",
        "errors",
        "fleet",
        "gmsa",
        "httpx2",
        "transports",
        "metrics",
        "plugin",
        "registry",
        "schemas",
        "testing",
    }


def test_every_public_name_is_used_by_a_typed_program() -> None:
    program = (Path(__file__).parents[1] / "typing" / "api.py").read_text()
    unused = [
        name
        for module in (
            kubeauth,
            kubeauth.discovery,
            kubeauth.errors,
            kubeauth.fleet,
            kubeauth.gmsa,
            kubeauth.transports,
            kubeauth.metrics,
            kubeauth.plugin,
            kubeauth.schemas,
            kubeauth.testing,
        )
        for name in module.__all__
        if name not in program
    ]
    assert unused == []


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "py.typed").exists()
