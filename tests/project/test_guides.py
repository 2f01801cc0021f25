"""The programs in the guides do what the guides say: each is run as it stands there."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import math
import os
import queue
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import kubeauth
from kubeauth._transport.httpx import ServerCertificateError
from kubeauth.testing import Answer, APIServer, PluginScript, Received
from tests.support.blocks import ROOT, blocks, find_block
from tests.support.gunicorn import WORKERS, BarrierEndpoint, Gunicorn, gunicorn

PODS = "/api/v1/pods"
V1 = "client.authentication.k8s.io/v1"
MAPS = "/api/v1/namespaces/web/configmaps"


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    return PluginScript(tmp_path)


@pytest.fixture
def kubeconfig(server: APIServer, plugin: PluginScript, tmp_path: Path) -> str:
    """For a user whose token comes from the plugin."""
    server.tokens |= {"first-token": "alice", "second-token": "alice"}
    plugin.answer(token="first-token")
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(server.kubeconfig({"exec": plugin.exec_config()})))
    return str(path)


@contextmanager
def running(
    program: str, directory: Path, *arguments: str, **environ: str
) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str]]]:
    """A program of a guide as a process, and the lines it says as they come."""
    path = directory / "program.py"
    path.write_text(program)
    with subprocess.Popen(
        [sys.executable, str(path), *arguments],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line.rstrip("\n"))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield process, lines
        finally:
            process.kill()
            reader.join()


def until(lines: queue.Queue[str], wanted: str) -> list[str]:
    """What was said up to a line with `wanted` in it."""
    said: list[str] = []
    while not said or wanted not in said[-1]:
        try:
            said.append(lines.get(timeout=60))
        except queue.Empty:
            pytest.fail(f"no {wanted!r} in {said}")
    return said


def imported(program: str, directory: Path, name: str) -> ModuleType:
    path = directory / f"{name}.py"
    path.write_text(program)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_program_of_a_guide_is_run_here() -> None:
    text = Path(__file__).read_text()
    programs = {
        block.title
        for page in (ROOT / "docs").rglob("*.md")
        for block in blocks(page, "python")
        if block.title and block.title.endswith(".py")
    }
    assert [name for name in sorted(programs) if f'"{name}")' not in text] == []


def test_programs_are_in_order(tmp_path: Path) -> None:
    """As the code of this repository is, and narrow enough for a page."""
    for page in (ROOT / "docs").rglob("*.md"):
        for block in blocks(page, "python"):
            if block.title and block.title.endswith(".py"):
                (tmp_path / block.title).write_text(block.code)
    settings = ["pyproject.toml", "line-length=100", 'lint.isort.known-first-party=["kubeauth"]']
    # Tests assert, and their tokens are not secrets.
    settings.append('lint.extend-per-file-ignores={"test_*.py"=["S101", "S106"], "conftest.py"=["S106"]}')
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", str(tmp_path)]
        + [word for each in settings for word in ("--config", each)]
        # A traceback for each error is not wanted, and chance is not for secrets.
        + ["--ignore", "TRY400,S311"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


class TestService:
    @pytest.fixture
    def program(self, server: APIServer) -> str:
        server.on("GET", PODS, Answer(body={"items": [{}, {}, {}]}))
        return find_block("guides/service.md", "service.py")

    @pytest.mark.slow
    def test_it_goes_on_through_another_token_and_a_plugin_that_fails(
        self, program: str, server: APIServer, plugin: PluginScript, kubeconfig: str, tmp_path: Path
    ) -> None:
        with running(program, tmp_path, KUBECONFIG=kubeconfig, EVERY="0.05") as (process, lines):
            until(lines, "INFO service: 3 pods are not running")
            plugin.answer(token="second-token")
            del server.tokens["first-token"]
            while server.requests[-1].header("Authorization") != "Bearer second-token":
                assert until(lines, "pods are")[-1] == "INFO service: 3 pods are not running"
            plugin.answer(exit_code=1, stderr="log in first")
            del server.tokens["second-token"]
            said = until(lines, "ERROR service: not this time: ")
            assert "401 Unauthorized" in said[-1]
            # By itself, when the plugin works again and its back-off is over.
            plugin.answer(token="third-token")
            server.tokens["third-token"] = "alice"
            until(lines, "INFO service: 3 pods are not running")
            process.send_signal(signal.SIGTERM)
            until(lines, "INFO service: stopped")
            assert process.wait() == 0
        assert len(plugin.runs) >= 4

    def test_a_plugin_that_may_not_run_ends_it(self, program: str, kubeconfig: str, tmp_path: Path) -> None:
        kuberc = tmp_path / "kuberc"
        kuberc.write_text(
            "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"
        )
        with running(program, tmp_path, KUBECONFIG=kubeconfig, KUBERC=str(kuberc)) as (process, lines):
            until(lines, "PluginNotAllowed")
            assert process.wait() == 1


class Objects:
    """The ConfigMaps of a server: lists, and watches that do as they are told."""

    def __init__(self) -> None:
        self.version = "10"
        self.items = {"a": "1", "b": "2"}
        self.asked: queue.Queue[dict[str, list[str]]] = queue.Queue()
        self.watches: list[queue.Queue[bytes | None]] = []

    def __call__(self, request: Received) -> Answer:
        query = parse_qs(urlsplit(request.path).query)
        if "watch" in query:
            lines: queue.Queue[bytes | None] = queue.Queue()
            self.watches.append(lines)
            self.asked.put(query)
            return Answer(chunks=iter(lines.get, None))
        self.asked.put(query)
        # Two to a page, so that there are pages.
        names, first = sorted(self.items), int(query.get("continue", ["0"])[0])
        metadata = {"resourceVersion": self.version}
        if first + 2 < len(names):
            metadata["continue"] = str(first + 2)
        return Answer(
            body={"metadata": metadata, "items": [self.item(name) for name in names[first : first + 2]]}
        )

    def item(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "web", "resourceVersion": self.items.get(name, "0")}}

    def send(self, kind: str, item: dict[str, Any]) -> None:
        self.watches[-1].put(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def change(self, name: str, version: str, kind: str = "MODIFIED") -> None:
        self.items[name] = version
        self.send(kind, self.item(name))

    def begun(self) -> str:
        """Waits for the next watch, past lists, and says from where it goes on."""
        while True:
            query = self.asked.get(timeout=60)
            if "watch" in query:
                assert query["allowWatchBookmarks"] == ["true"]
                return query["resourceVersion"][0]

    def end(self) -> None:
        for watch in self.watches:
            watch.put(None)


@pytest.fixture
def objects(server: APIServer) -> Iterator[Objects]:
    found = Objects()
    server.on("GET", MAPS, found)
    yield found
    found.end()


class TestController:
    @pytest.fixture
    def program(self) -> str:
        return find_block("guides/controller.md", "controller.py")

    def test_it_lists_watches_and_goes_on(
        self, program: str, server: APIServer, objects: Objects, kubeconfig: str, tmp_path: Path
    ) -> None:
        with running(program, tmp_path, "web", KUBECONFIG=kubeconfig) as (_process, lines):
            assert objects.begun() == "10"
            assert until(lines, "web/b") == ["web/a is at 1", "web/b is at 2"]
            objects.change("a", "11")
            assert until(lines, "web/a") == ["web/a is at 11"]
            objects.send("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
            objects.end()  # a watch that ends, in good order
            assert objects.begun() == "20"
            objects.change("c", "21", "ADDED")
            assert until(lines, "web/c") == ["web/c is at 21"]
            server.hang_up()  # and one whose connection breaks
            assert until(lines, "going on in a moment")[-1].startswith("WARNING controller: ")
            assert objects.begun() == "21"
            objects.change("c", "22", "DELETED")
            assert until(lines, "web/c") == ["web/c is gone"]

    @pytest.mark.parametrize("where", ["in the stream", "as a status"])
    def test_a_version_that_is_forgotten_makes_it_list_again(
        self, where: str, program: str, server: APIServer, objects: Objects, kubeconfig: str, tmp_path: Path
    ) -> None:
        with running(program, tmp_path, "web", KUBECONFIG=kubeconfig) as (_process, lines):
            objects.begun()
            until(lines, "web/b")
            del objects.items["b"]
            objects.items |= {"c": "40", "d": "41", "e": "42"}
            objects.version = "50"
            if where == "in the stream":
                objects.send("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
            else:
                asked = iter([Answer(410, {"kind": "Status", "code": 410})])
                server.on("GET", MAPS, lambda request: next(asked, None) or objects(request))
                objects.end()
            assert objects.begun() == "50"
            # What is new on both pages, and what is gone; `a` is as it was.
            assert until(lines, "web/e") == [
                "web/b is gone",
                "web/c is at 40",
                "web/d is at 41",
                "web/e is at 42",
            ]

    def test_a_watch_lives_through_a_rotation(
        self,
        program: str,
        server: APIServer,
        objects: Objects,
        plugin: PluginScript,
        kubeconfig: str,
        tmp_path: Path,
    ) -> None:
        controller = imported(program, tmp_path, "controller")
        pairs = {name: server.authority.client(name) for name in ("alice", "bob")}
        seen: queue.Queue[str] = queue.Queue()

        async def check() -> None:
            plugin.answer(certificate=pairs["alice"].certificate, key=pairs["alice"].key)
            async with kubeauth.AsyncClient(kubeauth.load_config(kubeconfig)) as client:
                mirror = controller.Mirror(client, MAPS, lambda name, _item: seen.put(name))
                follows = asyncio.create_task(mirror.run())
                assert await asyncio.to_thread(objects.begun) == "10"
                plugin.answer(certificate=pairs["bob"].certificate, key=pairs["bob"].key)
                refused = iter([Answer(401, {})])
                server.on("GET", "/version", lambda _: next(refused, None) or Answer(body={}))
                assert (await client.get("/version")).status_code == 200
                objects.change("a", "11")
                for name in ("web/a", "web/b", "web/a"):
                    assert await asyncio.to_thread(seen.get, timeout=60) == name
                follows.cancel()

        asyncio.run(check())
        watch = next(request for request in server.requests if "watch" in request.path)
        last = server.requests[-1]
        assert (watch.user, last.user) == ("alice", "bob")
        assert watch.connection != last.connection
        assert len(objects.watches) == 1


class TestJobs:
    @pytest.mark.slow
    def test_a_run_for_each_process_and_no_secret_on_the_way(
        self, server: APIServer, plugin: PluginScript, kubeconfig: str, tmp_path: Path
    ) -> None:
        names = [f"team-{number}" for number in range(40)]
        server.on(
            "GET",
            "/api/v1/namespaces",
            Answer(body={"items": [{"metadata": {"name": name}} for name in names]}),
        )
        for name in names:
            server.on("GET", f"/api/v1/namespaces/{name}/pods", Answer(body={"items": [{}, {}]}))
        program = find_block("guides/jobs.md", "jobs.py")
        with running(program, tmp_path, KUBECONFIG=kubeconfig) as (process, lines):
            assert until(lines, "team-39") == [f"{name}: 2" for name in names]
            assert process.wait() == 0
        assert {request.user for request in server.requests} == {"alice"}
        assert 2 <= len(plugin.runs) <= 5

    def test_one_client_for_each_configuration_with_a_plugin_too(self, kubeconfig: str) -> None:
        # The page's own block has a token: what is cached by must be hashable whatever the user is.
        assert hash(kubeauth.load_config(kubeconfig)) == hash(kubeauth.load_config(kubeconfig))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
class TestProcesses:
    """Under a real gunicorn, as the page has it: four workers, one of them killed, and one is scraped."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        """Where gunicorn runs; what processes share is below."""
        (tmp_path / "wsgi.py").write_text(find_block("guides/processes.md", "wsgi.py"))
        (tmp_path / "gunicorn_conf.py").write_text(find_block("guides/processes.md", "gunicorn_conf.py"))
        (tmp_path / "shared").mkdir()
        return tmp_path

    @pytest.fixture
    def app(self, files: Path, server: APIServer, kubeconfig: str) -> Iterator[Gunicorn]:
        BarrierEndpoint(server, "/api/v1/namespaces")
        with gunicorn(
            "wsgi:app",
            "--config",
            "gunicorn_conf.py",
            directory=files,
            KUBECONFIG=kubeconfig,
            PROMETHEUS_MULTIPROC_DIR=str(files / "shared"),
        ) as started:
            yield started

    def together(self, app: Gunicorn) -> set[int]:
        with ThreadPoolExecutor(WORKERS) as pool:
            return {answer["worker"] for answer in pool.map(app.json, ["/"] * WORKERS)}

    def scraped(self, app: Gunicorn) -> dict[str, float]:
        """What a scrape shows, from whichever worker, by series."""
        text = app.client.get("/metrics").raise_for_status().text
        return {
            sample.name
            + "".join(f",{name}={value}" for name, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def test_a_scrape_shows_what_all_workers_have_counted(self, app: Gunicorn, plugin: PluginScript) -> None:
        calls = "rest_client_exec_plugin_call_total,call_status=no_error,code=0"
        before = self.scraped(app)
        assert (before[calls], before["kubeauth_token_ttl_seconds"]) == (0, math.inf)
        plugin.answer(token="first-token", expires_in=7200)
        workers = self.together(app)
        assert len(workers) == WORKERS
        plugin.answer(token="first-token", expires_in=3600)
        for _ in range(3):  # whoever answers
            shown = self.scraped(app)
            assert shown[calls] == shown["kubeauth_plugin_run_seconds_count"] == WORKERS
            assert shown["kubeauth_credential_refreshes_total,reason=first,result=success"] == WORKERS
            assert 3600 < shown["kubeauth_token_ttl_seconds"] <= 7200
            assert shown["rest_client_exec_plugin_ttl_seconds"] == math.inf
        # What a dead one has counted still counts. Its successor's token is the first to end.
        os.kill(min(workers), signal.SIGKILL)
        (successor,) = self.together(app) - workers
        shown = self.scraped(app)
        assert shown[calls] == len(plugin.runs) == WORKERS + 1
        assert 0 < shown["kubeauth_token_ttl_seconds"] <= 3600
        # And when that one is gone, its token is nobody's.
        plugin.answer(token="first-token", expires_in=7200)
        os.kill(successor, signal.SIGKILL)
        self.together(app)
        shown = self.scraped(app)
        assert shown[calls] == WORKERS + 2
        assert 3600 < shown["kubeauth_token_ttl_seconds"] <= 7200


class TestFastAPI:
    @pytest.fixture
    def app(self, server: APIServer, kubeconfig: str, tmp_path: Path) -> Iterator[httpx.Client]:
        """The application under uvicorn, as its first line says, and somebody who asks it."""
        body = {"metadata": {"name": "web"}, "status": {"phase": "Active"}}
        server.on("GET", "/api/v1/namespaces/web", Answer(body=body))
        (tmp_path / "app.py").write_text(find_block("guides/fastapi.md", "app.py"))
        launcher = "import sys, uvicorn; sys.path.insert(0, sys.argv[1]); uvicorn.run('app:app', port=0)"
        with running(launcher, tmp_path, str(tmp_path), KUBECONFIG=kubeconfig) as (process, lines):
            address = until(lines, "Uvicorn running on ")[-1].partition("running on ")[2].split()[0]
            with httpx.Client(base_url=address, trust_env=False, timeout=60.0) as client:
                yield client
            process.send_signal(signal.SIGINT)
            until(lines, "Application shutdown complete")

    def test_it_asks_the_cluster_and_shows_its_metrics(self, app: httpx.Client) -> None:
        assert app.get("/namespaces/web").json() == {"name": "web", "phase": "Active"}
        assert app.get("/livez").status_code == 200
        ready = app.get("/readyz")
        assert (ready.status_code, ready.json()["credential"]) == (200, "token")
        metrics = app.get("/metrics", follow_redirects=True).text
        assert 'rest_client_exec_plugin_call_total{call_status="no_error",code="0"} 1.0' in metrics

    def test_what_the_cluster_says_becomes_a_status_that_fits(
        self, app: httpx.Client, server: APIServer, plugin: PluginScript
    ) -> None:
        assert app.get("/namespaces/none").status_code == 404
        for status, told in ((403, 502), (429, 503), (503, 503), (500, 502)):
            server.on("GET", "/api/v1/namespaces/web", Answer(status, {}))
            assert app.get("/namespaces/web").status_code == told
        server.on("GET", "/api/v1/namespaces/web", Answer(hang_up=True))
        assert app.get("/namespaces/web").json() == {"detail": "no answer"}
        server.tokens.clear()
        assert app.get("/namespaces/web").json() == {"detail": "the cluster answered 401"}

    def test_without_a_credential_it_is_not_ready_and_says_little(
        self, app: httpx.Client, plugin: PluginScript
    ) -> None:
        assert app.get("/readyz").status_code == 200  # nobody has asked yet
        plugin.answer(exit_code=1, stderr="the vault is closed")
        refused = app.get("/namespaces/web")
        assert (refused.status_code, refused.json()) == (503, {"detail": "no credential now"})
        assert refused.headers["Retry-After"] == "5"
        assert app.get("/readyz").status_code == 503
        assert app.get("/livez").status_code == 200

    def test_a_certificate_that_is_not_accepted_is_for_the_first_handler(self) -> None:
        # Starlette takes the first class of an error, in the order of its bases, that has a handler.
        bases = ServerCertificateError.__mro__
        assert bases.index(kubeauth.errors.KubeAuthError) < bases.index(httpx.TransportError)


class TestNotebook:
    def test_its_cells_run_one_after_the_other_in_a_loop_that_is_running(
        self, server: APIServer, plugin: PluginScript, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        document = yaml.safe_load(Path(kubeconfig).read_text())
        document["contexts"][0]["name"] = "prod"
        Path(kubeconfig).write_text(yaml.safe_dump(document))
        monkeypatch.setenv("KUBECONFIG", kubeconfig)
        cells = [block for block in blocks(ROOT / "docs/guides/notebook.md", "python") if block.title]
        assert [cell.title for cell in cells] == [f"Cell {number + 1}" for number in range(6)]
        namespace: dict[str, Any] = {}

        async def kernel() -> None:
            for cell in cells:
                code = compile(cell.code, cell.title or "", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, namespace)  # noqa: S307 -- as a kernel does
                if asyncio.iscoroutine(result):
                    await result

        asyncio.run(kernel())
        assert namespace["names"] == ["default", "kube-public", "kube-system"]
        assert namespace["status"].kind == "token"
        assert "first-token" not in repr(namespace["config"])
        assert len(plugin.runs) == 1


class TestInCluster:
    def test_its_manifests_belong_together(self) -> None:
        (block,) = blocks(ROOT / "docs/guides/in-cluster.md", "yaml")
        account, role, binding, deployment = yaml.safe_load_all(block.code)
        name = account["metadata"]["name"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
        assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == name
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
        ]


class TestPlugin:
    def test_it_caches_the_token_in_a_file_that_only_its_owner_can_read(
        self, server: APIServer, tmp_path: Path
    ) -> None:
        program, cache = tmp_path / "my_plugin.py", tmp_path / "cache" / "token.json"
        program.write_text(find_block("plugins.md", "my_plugin.py"))
        environ = {"MY_PLUGIN_CACHE": str(cache)}
        server.tokens["token-of-alice"] = "alice"

        def ask(**more: str) -> httpx.Response:
            variables = [{"name": name, "value": value} for name, value in {**environ, **more}.items()]
            stanza = {"command": sys.executable, "args": [str(program)], "env": variables}
            document = server.kubeconfig({"exec": {"apiVersion": V1, "interactiveMode": "Never"} | stanza})
            with kubeauth.Client(kubeauth.load_config(document)) as client:
                return client.get("/version")

        with pytest.raises(kubeauth.errors.PluginFailed, match=r"not logged in\. Run: my-login") as failed:
            ask()
        assert failed.value.exit_code == 1
        assert ask(MY_SESSION="alice").status_code == 200
        assert stat.S_IMODE(cache.stat().st_mode) == 0o600
        assert os.listdir(cache.parent) == ["token.json"]
        # Another session would get another token: this one is cached.
        assert ask(MY_SESSION="bob").status_code == 200
        cached = json.loads(cache.read_text())
        cache.write_text(json.dumps({**cached, "expires": datetime.now(UTC).isoformat()}))
        assert ask(MY_SESSION="carol").status_code == 401
        assert json.loads(cache.read_text())["token"] == "token-of-carol"


class TestTesting:
    @pytest.mark.slow
    def test_its_tests_pass_with_respx_and_pytest_httpx(self, tmp_path: Path) -> None:
        (tmp_path / "pods.py").write_text(find_block("testing.md", "pods.py"))
        (tmp_path / "conftest.py").write_text(find_block("testing.md", "conftest.py"))
        (tmp_path / "test_with_respx.py").write_text(find_block("testing.md", "test_with_respx.py"))
        (tmp_path / "test_with_pytest_httpx.py").write_text(
            find_block("testing.md", "test_with_pytest_httpx.py")
        )
        command = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "--color=no"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        # Four tests in each file, one of which runs on asyncio and on trio.
        assert "= 10 passed in" in ran.stdout, ran.stdout + ran.stderr
