"""What tests share: which frames are kubeauth's, and an environment that is the same everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import prometheus_client.values
import pytest

import kubeauth
from kubeauth.errors import KubeConfigError
from tests.support.environment import is_inherited
from tests.support.frames import is_package_file, package_frames, package_locals

ROOT = Path(__file__).parents[2]
PACKAGE = Path(kubeauth.__file__).parent


class TestFrames:
    def test_a_clone_named_kubeauth_is_not_the_package(self) -> None:
        assert is_package_file(str(PACKAGE / "cli" / "_app.py"))
        assert is_package_file(str(PACKAGE / "cli" / "_app.py"), "cli")
        assert not is_package_file(str(PACKAGE / "cli" / "_app.py"), "registry")
        assert not is_package_file("/home/user/kubeauth/tests/project/test_support.py")
        assert not is_package_file(str(PACKAGE.parent / "tests" / "test_support.py"))

    def test_frames_of_the_caller_are_left_out(self, tmp_path: Path) -> None:
        secret = "of the caller"
        caller = compile("load(path)", "/home/user/kubeauth/tests/caller.py", "exec")
        with pytest.raises(KubeConfigError) as caught:
            exec(caller, {"load": kubeauth.load_config, "path": tmp_path / "missing", "secret": secret})  # noqa: S102 -- a frame with that filename
        frames = package_frames(caught.value.__traceback__)
        assert frames
        assert all(Path(frame.f_code.co_filename).is_relative_to(PACKAGE) for frame in frames)
        assert secret not in str(package_locals(caught.value))


# What a shell, or a user's files, may say.
HOSTILE = {
    "KUBECONFIG": "/missing/kubeconfig", "KUBERC": "/missing/kuberc", "KUBECTL_KUBERC": "false", "DOCKER_CONFIG": "/missing", "REGISTRY_AUTH_FILE": "/missing",
    "XDG_CONFIG_HOME": "/missing", "XDG_RUNTIME_DIR": "/missing", "NETRC": "/missing", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
    "HTTP_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "ALL_PROXY": "socks5://127.0.0.1:9",
    "PYTHONWARNINGS": "default", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "FORCE_COLOR": "1",
    "TERM": "dumb", "COLUMNS": "20", "LANG": "C", "TZ": "Pacific/Chatham", "PROMETHEUS_MULTIPROC_DIR": "/missing", "PYTEST_ADDOPTS": "-p no:xdist",
}  # fmt: skip
SEES = """
import json, os, tempfile, time
umask = os.umask(0)
print(json.dumps({"temporary": tempfile.gettempdir(), "names": sorted(os.environ), "umask": umask, "zone": time.timezone}))
"""


@pytest.fixture(scope="session")
def seen_by_the_session() -> tuple[set[str], str]:
    """The environment of a fixture of the session: its variables, its home."""
    return set(os.environ), os.environ["HOME"]


class TestEnvironment:
    def test_is_the_same_everywhere(self, seen_by_the_session: tuple[set[str], str], tmp_path: Path) -> None:
        """Passes in any environment: see below."""
        ours = {"HOME", "TMPDIR", "TERM", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}
        assert {name for name in os.environ if not is_inherited(name)} == ours
        assert {name for name in seen_by_the_session[0] if not is_inherited(name)} == ours
        assert os.environ["TERM"] == "xterm"
        assert time.timezone == 0
        assert os.listdir(os.environ["HOME"]) == os.listdir(seen_by_the_session[1]) == []
        assert os.listdir(tempfile.gettempdir()) == []
        assert prometheus_client.values.ValueClass._multiprocess is False
        (tmp_path / "file").touch()
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
        child = subprocess.run([sys.executable, "-c", SEES], capture_output=True, text=True, check=True)
        seen = json.loads(child.stdout)
        assert seen["temporary"] == tempfile.gettempdir() == os.environ["TMPDIR"]
        assert (seen["umask"], seen["zone"]) == (0o022, 0)
        assert set(seen["names"]) & HOSTILE.keys() == {"TERM", "TZ"}

    def test_whatever_the_shell_says(self, tmp_path: Path) -> None:
        home, temporary = tmp_path / "hömé dir", tmp_path / "tmp dir"
        (home / ".kube").mkdir(parents=True)
        (home / ".kube" / "config").write_text("not for tests")
        temporary.mkdir()
        (temporary / "key.pem").write_text("-----BEGIN PRIVATE KEY-----")
        test = f"{Path(__file__).relative_to(ROOT)}::TestEnvironment::test_is_the_same_everywhere"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
            cwd=ROOT,
            env={**os.environ, **HOSTILE, "HOME": str(home), "TMPDIR": str(temporary)},
            umask=0o077,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
