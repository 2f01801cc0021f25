"""Programs that the end-to-end tests run: found on PATH, or downloaded or built once and cached outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
# Read when this is imported: tests change HOME.
_XDG = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
CACHE = Path(os.environ.get("KUBEAUTH_E2E_CACHE") or Path(_XDG, "kubeauth-e2e"))
_ENVIRONMENT = dict(os.environ)
os.environ["KUBEAUTH_E2E_CACHE"] = str(CACHE)  # for programs that tests start

_PACKAGE_LISTS = CACHE / "debian" / "lists"

KUBERNETES = "1.36.3"


class Missing(Exception):
    """A program is not available on this machine: which one, and why."""


def kube() -> Path:
    """kube-apiserver, kube-controller-manager and kubectl, in one program."""
    return go_folder("kube", HERE / "kube", KUBERNETES, flags=_release_flags()).build()


def kubeadm() -> Path:
    """kubeadm, and `kubeadm discover`, which discovers a cluster as `kubeadm join` does and prints its kubeconfig."""
    return go_folder("kubeadm", HERE / "kubeadm", KUBERNETES, flags=_release_flags()).build()


def _release_flags() -> list[str]:
    package = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES.split(".")
    version = (
        f"-X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
    return ["-ldflags", f"-s -w {version}"]


def kubectl() -> Path:
    """kubectl by its own name, for programs that look for it on PATH."""
    link = kube().parent / "bin" / "kubectl"
    link.parent.mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to("../kube")
    return link


def debian(program: str, package: str, *libraries: str) -> Path:
    """A program of a Debian package: the installed one, or the package unpacked in the cache.

    `libraries` are packages that it is linked with and that a machine may lack; they are unpacked too.
    """
    if found := shutil.which(program, path=_ENVIRONMENT.get("PATH", "") + ":/usr/sbin:/sbin"):
        return Path(found)
    root = _unpack_once(program, package)
    for folder in ("usr/bin", "usr/sbin", "bin"):
        if (path := root / folder / program).exists():
            return _wrap_with_libraries(path, [_unpack_once(program, each) for each in libraries])
    raise Missing(f"{program}: not in the Debian package {package}")


def _unpack_once(program: str, package: str) -> Path:
    root = CACHE / "debian" / package
    if not root.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise Missing(
                f"{program}: there is no apt-get on this machine. Install {package}, or put {program} on PATH."
            )
        _create(root, lambda new: _unpack(package, new))
    return root


def _wrap_with_libraries(program: Path, roots: list[Path]) -> Path:
    """A script of the same name that sets LD_LIBRARY_PATH to the libraries in `roots`."""
    if not roots:
        return program
    # Some packages have directories of their own, which their libraries find by an absolute path.
    patterns = [f"{start}lib/*-linux-*{end}" for start in ("usr/", "") for end in ("", "/nss", "/pulseaudio")]
    folders = ":".join(str(path) for root in roots for each in patterns for path in sorted(root.glob(each)))
    script = program.parents[2] / "run" / program.name
    script.parent.mkdir(exist_ok=True)
    new = script.with_name(f".{script.name}.{os.getpid()}")
    new.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{folders}" exec "{program}" "$@"\n')
    new.chmod(0o755)
    new.replace(script)
    return script


def docker_registry() -> Path:
    return debian("docker-registry", "docker-registry")


def skopeo() -> Path:
    return debian("skopeo", "skopeo", "libgpgme11", "libassuan0", "libgpg-error0")


def htpasswd() -> Path:
    """The registry accepts only bcrypt, which Python does not have."""
    return debian("htpasswd", "apache2-utils", "libapr1", "libaprutil1", "libuuid1", "libexpat1")


def chromium() -> Path:
    """The installed browser, or one unpacked with every package that it needs and this machine lacks."""
    if found := shutil.which("chromium", path=_ENVIRONMENT.get("PATH")):
        return Path(found)
    root = CACHE / "debian" / "chromium-with-dependencies"
    if not root.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise Missing("chromium: there is no apt-get on this machine. Install chromium.")
        _create(root, lambda new: _unpack("chromium", new, with_dependencies=True))
    # Debian's own script looks for the program in /usr/lib.
    return _wrap_with_libraries(root / "usr" / "lib" / "chromium" / "chromium", [root])


def _unpack(package: str, into: Path, *, with_dependencies: bool = False) -> None:
    packages = [package]
    with tempfile.TemporaryDirectory() as folder:
        try:
            _update_package_lists()
            if with_dependencies:
                # One line for each package that is not installed: 'URL' NAME_VERSION_ARCHITECTURE.deb SIZE HASH
                install = _apt_get("--no-install-recommends", "--print-uris", "install", package)
                packages = [
                    line.split()[1].partition("_")[0] for line in install.splitlines() if line.startswith("'")
                ]
            _apt_get("download", *packages, cwd=Path(folder))
        except subprocess.CalledProcessError as error:
            raise Missing(f"{package}: cannot download the Debian package: {_error_output(error)}") from error
        for archive in sorted(Path(folder).glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(into)])


@cache
def _update_package_lists() -> None:
    (_PACKAGE_LISTS / "partial").mkdir(parents=True, exist_ok=True)
    _apt_get("update")


def _apt_get(*arguments: str, cwd: Path | None = None) -> str:
    """With package lists of its own, so that neither root nor an `apt-get update` by hand is needed."""
    settings = (
        f"Dir::State::Lists={_PACKAGE_LISTS}",
        f"Dir::Cache={CACHE / 'debian'}",
        "Debug::NoLocking=1",
        "APT::Sandbox::User=",
    )
    options = [part for setting in settings for part in ("-o", setting)]
    return _run(["apt-get", "-qq", *options, *arguments], cwd=cwd)


@dataclass(frozen=True)
class GoProgram:
    """A program that is built once and cached."""

    path: Path
    build_in: Callable[[Path], None]
    """Builds it in a new directory, which is then renamed to the directory of `path`."""

    def build(self) -> Path:
        """Its path. It is built first unless it is cached."""
        if not self.path.exists():
            _create(self.path.parent, self.build_in)
        return self.path

    def find(self) -> Path:
        """Its path if it is cached: for programs that take minutes to build."""
        if not self.path.exists():
            raise Missing(f"{self.path.name}: not built; `make e2e-full` builds it")
        return self.path


def go_program(name: str, module: str, version: str, package: str = "") -> GoProgram:
    """A release from the module proxy: `go install module/package@version`."""
    folder = CACHE / "go" / f"{name}-{version.removeprefix('v')}"
    what = "/".join(part for part in (module, package) if part)
    return GoProgram(folder / name, lambda new: _go_install(name, f"{what}@{version}", new))


def go_folder(name: str, source: Path, version: str, *, flags: list[str], package: str = ".") -> GoProgram:
    """A program with a go.mod in `source`: built again when a file there, or a flag, changes."""
    digest = hashlib.sha256(repr(flags).encode())
    for path in sorted(source.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = CACHE / "go" / f"{name}-{version}-{digest.hexdigest()[:12]}"
    return GoProgram(folder / name, lambda new: _go_build(name, source, new / name, [*flags, package]))


def _go_install(name: str, what: str, into: Path) -> None:
    _require_go(name)
    try:
        _run(["go", "install", "-trimpath", "-ldflags", "-s -w", what], environment={"GOBIN": str(into)})
    except subprocess.CalledProcessError as error:
        raise Missing(f"{name}: go install {what}: {_error_output(error)}") from error
    (program,) = into.iterdir()
    program.rename(into / name)


def _go_build(name: str, source: Path, program: Path, arguments: list[str]) -> None:
    _require_go(name)
    try:
        _run(["go", "mod", "download"], cwd=source)
    except subprocess.CalledProcessError as error:
        raise Missing(f"{name}: cannot download its Go modules: {_error_output(error)}") from error
    _run(["go", "build", "-trimpath", "-o", str(program), *arguments], cwd=source)


def go_source(folder: Path, module: str) -> Path:
    """The source directory of a module that the go.mod in `folder` requires, with its tests and their files."""
    _require_go(module)
    try:
        _run(["go", "mod", "download", module], cwd=folder)
        return Path(_run(["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=folder).strip())
    except subprocess.CalledProcessError as error:
        raise Missing(f"{module}: cannot download its source: {_error_output(error)}") from error


def _require_go(name: str) -> None:
    if not shutil.which("go", path=_ENVIRONMENT.get("PATH")):
        raise Missing(f"{name}: there is no Go on this machine to build it")


def pypi_program(name: str, requirement: str) -> Path:
    """A program from PyPI, in a virtual environment of its own: its dependencies differ from ours."""
    folder = CACHE / "pypi" / requirement.replace("==", "-")
    if not (folder / "bin" / name).exists():
        # Scripts contain the path of their interpreter, so the environment cannot be moved. pip installs the script
        # with the last package: without it, an earlier installation was interrupted.
        try:
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", requirement])
        except subprocess.CalledProcessError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Missing(f"{name}: cannot install {requirement}: {_error_output(error)}") from error
    return folder / "bin" / name


def _create(folder: Path, make: Callable[[Path], None]) -> None:
    """Fill a temporary directory and rename it to `folder`: a directory of that name is always complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        make(new)
        new.chmod(0o755)
        if not folder.exists():
            new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _run(command: list[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    settings = _ENVIRONMENT | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"} | dict(environment or {})
    return subprocess.run(
        command, cwd=cwd, env=settings, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout


def _error_output(error: subprocess.CalledProcessError) -> str:
    return str(error.stderr or error.stdout or error).strip()[-400:]
