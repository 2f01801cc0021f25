"""`kubeauth registry check`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli._ends import Status
from tests.cli.conftest import Run
from tests.cli.nodes import Node
from tests.cli.programs import environ, on_a_terminal


def levels(out: str) -> list[tuple[str, str]]:
    return [(each["id"], each["status"]) for each in json.loads(out)["checks"]]


def summaries(out: str) -> list[str]:
    return [each["summary"] for each in json.loads(out)["checks"]]


def test_all_is_well(node: Node, run: Run) -> None:
    script = node.provider("ecr", "*.dkr.ecr.*.amazonaws.com", "public.ecr.aws")
    ran = run("registry", "check", node.config, "--bin-dir", node.bin_dir)
    assert (ran.status, ran.err) == (0, "")
    text = " ".join(ran.out.split())
    assert f"ok ecr {script.path}" in text
    assert "ok ecr *.dkr.ecr.*.amazonaws.com, public.ecr.aws" in text
    assert ran.out.endswith("\nNothing is wrong: 3 ok.\n")
    assert not script.runs


def test_without_a_directory_programs_are_not_looked_for(node: Node, run: Run) -> None:
    node.provider("ecr", "public.ecr.aws")
    node.provider("gcp", "gcr.io")
    ran = run("registry", "check", node.config)
    assert ran.status == 0
    assert "skipped  ecr, gcp: not looked for: give --bin-dir" in ran.out


def test_everything_wrong_is_told_at_once(node: Node, run: Run) -> None:
    node.provider("a b", "gcr.io", fields={"apiVersion": "v1"})
    node.provider("c", fields={"defaultCacheDuration": "-1s"})
    ran = run("registry", "check", node.config, "-o", "json")
    assert ran.status == Status.FAILED
    said = "\n".join(summaries(ran.out))
    for part in (
        "cannot contain spaces",
        "Unsupported value",
        "at least 1 item in matchImages",
        "greater than",
    ):
        assert part in said
    assert {level for _, level in levels(ran.out)} == {"error"}
    assert all(each["next_step"] for each in json.loads(ran.out)["checks"])
    drawn = run("registry", "check", node.config)
    assert drawn.status == Status.FAILED
    assert "4 errors, 0 ok. Begin with config: " in drawn.out


@pytest.mark.parametrize("content", ["{", "kind: [", "\x1b[31m", None])
def test_what_is_no_configuration(content: str | None, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_text(content)
    ran = run("registry", "check", path)
    assert (ran.status, ran.err) == (Status.FAILED, "")
    assert "error" in ran.out
    assert "\x1b" not in ran.out


class TestPrograms:
    def looked(self, node: Node, run: Run) -> tuple[str, str]:
        ran = run("registry", "check", node.config, "--bin-dir", node.bin_dir, "-o", "json")
        _, program, _ = json.loads(ran.out)["checks"]
        assert ran.status == (Status.FAILED if program["status"] == "error" else Status.OK)
        return program["status"], program["summary"]

    def test_one_that_is_missing(self, node: Node, run: Run) -> None:
        path = node.provider("p", "gcr.io").path
        path.unlink()
        assert self.looked(node, run) == ("error", f"{path} is not there")

    def test_one_that_is_not_executable(self, node: Node, run: Run) -> None:
        path = node.provider("p", "gcr.io").path
        path.chmod(0o600)
        assert self.looked(node, run) == ("error", f"{path} may not be run by this user")

    def test_a_directory(self, node: Node, run: Run) -> None:
        path = node.provider("p", "gcr.io").path
        path.unlink()
        path.mkdir()
        assert self.looked(node, run) == ("error", f"{path} is a directory")

    def test_a_link(self, node: Node, run: Run) -> None:
        path = node.provider("p", "gcr.io").path
        real = path.rename(path.with_name("real"))
        path.symlink_to(real)
        assert self.looked(node, run) == ("ok", str(path))
        real.unlink()
        assert self.looked(node, run) == ("error", f"{path} is a link that leads nowhere")

    def test_no_directory_at_all(self, node: Node, run: Run) -> None:
        node.provider("p", "gcr.io")
        ran = run("registry", "check", node.config, "--bin-dir", "/nowhere")
        assert ran.status == Status.FAILED
        assert "error    bin-dir  /nowhere is no directory" in ran.out

    def test_the_directory_may_be_relative(self, node: Node, run: Run) -> None:
        path = node.provider("p", "gcr.io").path
        relative = os.path.relpath(node.bin_dir)
        out = run("registry", "check", node.config, "--bin-dir", relative).out
        assert str(path) in " ".join(out.split())  # a path with a space may be wrapped


class TestPatterns:
    def test_one_that_never_matches_and_one_that_surprises(self, node: Node, run: Run) -> None:
        node.provider("p", "https://gcr.io", "*.docker.io", "gcr.io")
        ran = run("registry", "check", node.config, "-o", "json")
        # A kubelet takes it, so that is no error.
        assert ran.status == 0
        _, _, never, surprise = json.loads(ran.out)["checks"]
        assert never["summary"] == "'https://gcr.io' can never match an image"
        assert never["next_step"] == "Images have no https:// before them: write gcr.io."
        assert never["facts"] == {"pattern": "https://gcr.io", "isUseless": True, "file": str(node.config)}
        assert surprise["summary"] == "'*.docker.io' may surprise"
        assert (never["status"], surprise["status"]) == ("warning", "warning")

    def test_a_provider_that_is_never_asked(self, node: Node, run: Run) -> None:
        node.provider("p", "gcr.io/*", "https://gcr.io")
        said = summaries(run("registry", "check", node.config, "-o", "json").out)
        assert (
            said[2]
            == "'gcr.io/*' can never match an image, nor any other of this provider: it is never asked"
        )

    def test_warnings_are_errors_if_that_is_asked_for(self, node: Node, run: Run) -> None:
        node.provider("p", "gcr.io/*")
        assert run("registry", "check", node.config).status == 0
        assert run("registry", "check", node.config, "--strict").status == Status.FAILED


def test_a_directory_of_configurations(node: Node, tmp_path: Path, run: Run) -> None:
    node.provider("one", "gcr.io")
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "1.json").write_text(node.config.read_text())
    (folder / "2.yaml").write_text(node.config.read_text().replace('"one"', '"two"'))
    ran = run("registry", "check", folder)
    assert ran.status == 0
    text = " ".join(ran.out.split())
    assert f"{folder}: 2 files, 2 providers" in text
    (folder / "2.yaml").write_text(node.config.read_text())
    assert 'duplicate provider name "one"' in " ".join(run("registry", "check", folder).out.split())


def test_the_configuration_may_be_named_elsewhere(node: Node, run: Run) -> None:
    node.provider("one", "gcr.io")
    assert run("registry", "check", "--config", node.config).status == 0
    env = environ(KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG=str(node.config))
    assert run("registry", "check", env=env).status == 0
    ran = run("registry", "check")
    assert (ran.status, ran.out) == (Status.USAGE, "")


def test_names_cannot_steer_the_terminal_nor_fill_it(node: Node) -> None:
    node.provider("odd\x1b[31m" + "x" * 100, "gcr.io\x9b", "quay.io/\u202e*")
    node.provider("clock", "quay.io/*")
    status, said = on_a_terminal(
        "registry", "check", str(node.config), *node.flags[2:], env=environ(NO_COLOR="1")
    )
    assert status == 0
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_colours_are_for_terminals(node: Node, run: Run) -> None:
    node.provider("p", "gcr.io")
    _, said = on_a_terminal("registry", "check", str(node.config), env=environ(TERM="xterm"))
    assert "\x1b[32mok" in said
    assert "\x1b" not in run("registry", "check", str(node.config)).out


def test_a_name_is_cut_in_its_column(node: Node, run: Run) -> None:
    node.provider("n" * 50, "gcr.io")
    out: Any = run("registry", "check", node.config, *node.flags[2:]).out
    assert f"  ok       {'n' * 32}  " in out
