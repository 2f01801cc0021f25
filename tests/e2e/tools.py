"""Programs that the end-to-end tests need: found here, or made once and kept outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
# Read when this is imported: tests change HOME.
_XDG = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
CACHE = Path(os.environ.get("KUBEAUTH_E2E_CACHE") or Path(_XDG, "kubeauth-e2e"))
_ENVIRONMENT = dict(os.environ)
os.environ["KUBEAUTH_E2E_CACHE"] = str(CACHE)  # for programs that tests start

KUBERNETES = "1.36.3"


class Missing(Exception):
    """Something that cannot be had on this machine: what, and why."""


def kube() -> Path:
    """kube-apiserver, kube-controller-manager and kubectl, in one program."""
    return go_folder("kube", HERE / "kube", KUBERNETES, flags=_of_the_release())


def kubeadm() -> Path:
    """kubeadm, and `kubeadm discover`, which finds a cluster as `kubeadm join` does and prints its kubeconfig."""
    return go_folder("kubeadm", HERE / "kubeadm", KUBERNETES, flags=_of_the_release())


def _of_the_release() -> list[str]:
    package = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES.split(".")
    version = (
        f"-X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
    return ["-ldflags", f"-s -w {version}"]


def kubectl() -> Path:
    """kubectl by its own name, for whoever looks for it on PATH."""
    link = kube().parent / "bin" / "kubectl"
    link.parent.mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to("../kube")
    return link


def debian(program: str, package: str, *libraries: str) -> Path:
    """A program of a Debian package: the installed one, or one unpacked for us alone.

    `libraries` are packages that it is linked with and that a machine may lack; they are unpacked beside it.
    """
    if found := shutil.which(program, path=_ENVIRONMENT.get("PATH", "") + ":/usr/sbin:/sbin"):
        return Path(found)
    root = _unpacked(program, package)
    for folder in ("usr/bin", "usr/sbin", "bin"):
        if (path := root / folder / program).exists():
            return _with_libraries(path, [_unpacked(program, each) for each in libraries])
    raise Missing(f"{program}: not in Debian's {package}")


def _unpacked(program: str, package: str) -> Path:
    root = CACHE / "debian" / package
    if not root.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise Missing(f"{program}: no apt-get here. Install {package}, or put {program} on PATH.")
        _made(root, lambda new: _unpack(package, new))
    return root


def _with_libraries(program: Path, roots: list[Path]) -> Path:
    """A script of the same name, that says where they are."""
    if not roots:
        return program
    # Some packages have folders of their own, which their libraries are told of by an absolute path.
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
    """Python has no bcrypt of its own, and the registry takes nothing else."""
    return debian("htpasswd", "apache2-utils", "libapr1", "libaprutil1", "libuuid1", "libexpat1")


def chromium() -> Path:
    """A browser: the installed one, or one unpacked with every package that it needs and this machine lacks."""
    if found := shutil.which("chromium", path=_ENVIRONMENT.get("PATH")):
        return Path(found)
    root = CACHE / "debian" / "chromium-with-dependencies"
    if not root.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise Missing("chromium: there is no apt-get on this machine. Install chromium.")
        _made(root, lambda new: _unpack("chromium", new, with_dependencies=True))
    # Debian's own script looks for the program in /usr/lib.
    return _with_libraries(root / "usr" / "lib" / "chromium" / "chromium", [root])


def _unpack(package: str, into: Path, *, with_dependencies: bool = False) -> None:
    """Lists of our own, so that neither root nor an `apt-get update` by hand is needed."""
    lists = CACHE / "debian" / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    mine = [
        "-o",
        f"Dir::State::Lists={lists}",
        "-o",
        f"Dir::Cache={CACHE / 'debian'}",
        "-o",
        "Debug::NoLocking=1",
    ]
    mine += ["-o", "APT::Sandbox::User="]
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run(["apt-get", "-qq", *mine, "update"])
            packages = [package]
            if with_dependencies:
                # One line for each package that is not installed: 'URL' NAME_VERSION_ARCHITECTURE.deb SIZE HASH
                install = ["--no-install-recommends", "--print-uris", "install", package]
                lines = _run(["apt-get", "-qq", *mine, *install]).splitlines()
                packages = [line.split()[1].partition("_")[0] for line in lines if line.startswith("'")]
            _run(["apt-get", "-qq", *mine, "download", *packages], cwd=Path(folder))
        except subprocess.CalledProcessError as error:
            raise Missing(f"Debian's {package} cannot be had: {_last_words(error)}") from error
        for archive in sorted(Path(folder).glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(into)])


def go_program(name: str, module: str, version: str, package: str = "") -> Path:
    """A released program, by way of the module proxy: `go install module/package@version`."""
    folder = CACHE / "go" / f"{name}-{version.removeprefix('v')}"
    if not folder.exists():
        what = "/".join(part for part in (module, package) if part)
        _made(folder, lambda new: _go_install(name, f"{what}@{version}", new))
    return folder / name


def _go_install(name: str, what: str, into: Path) -> None:
    _needs_go(name)
    try:
        _run(["go", "install", "-trimpath", "-ldflags", "-s -w", what], environment={"GOBIN": str(into)})
    except subprocess.CalledProcessError as error:
        raise Missing(f"{name}: go install {what}: {_last_words(error)}") from error
    (program,) = into.iterdir()
    program.rename(into / name)


def go_folder(name: str, source: Path, version: str, *, flags: list[str], package: str = ".") -> Path:
    """A program by a go.mod of ours: built again when a file there, or a flag, has changed."""
    digest = hashlib.sha256(repr(flags).encode())
    for path in sorted(source.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = CACHE / "go" / f"{name}-{version}-{digest.hexdigest()[:12]}"
    if not folder.exists():
        _made(folder, lambda new: _go_build(name, source, new / name, [*flags, package]))
    return folder / name


def _go_build(name: str, source: Path, program: Path, arguments: list[str]) -> None:
    _needs_go(name)
    try:
        _run(["go", "mod", "download"], cwd=source)
    except subprocess.CalledProcessError as error:
        raise Missing(f"{name}: its Go modules cannot be had: {_last_words(error)}") from error
    _run(["go", "build", "-trimpath", "-o", str(program), *arguments], cwd=source)


def go_source(folder: Path, module: str) -> Path:
    """The source of a module that the go.mod in `folder` names: its tests and their files are part of it."""
    _needs_go(module)
    try:
        _run(["go", "mod", "download", module], cwd=folder)
        return Path(_run(["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=folder).strip())
    except subprocess.CalledProcessError as error:
        raise Missing(f"{module}: its source cannot be had: {_last_words(error)}") from error


def _needs_go(name: str) -> None:
    if not shutil.which("go", path=_ENVIRONMENT.get("PATH")):
        raise Missing(f"{name}: no Go here to build it with")


def pypi_program(name: str, requirement: str) -> Path:
    """A program from PyPI in an environment of its own, so that what it needs gets in nobody's way."""
    folder = CACHE / "pypi" / requirement.replace("==", "-")
    if not (folder / "bin" / name).exists():
        # Scripts name their interpreter by its path, so it is made where it stays. This one comes with the last
        # package: without it, somebody was stopped half way.
        try:
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", requirement])
        except subprocess.CalledProcessError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Missing(f"{name}: {requirement} cannot be had: {_last_words(error)}") from error
    return folder / "bin" / name


def _made(folder: Path, make: Callable[[Path], None]) -> None:
    """Made beside its place and moved there when it is whole: whoever finds it can use it."""
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


def _last_words(error: subprocess.CalledProcessError) -> str:
    return str(error.stderr or error.stdout or error).strip()[-400:]
