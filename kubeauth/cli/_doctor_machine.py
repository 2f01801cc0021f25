"""This machine: keys that other tools left behind, and the versions of what is installed."""

from __future__ import annotations

import os
import platform
import re
import shlex
import ssl
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from kubeauth import __version__
from kubeauth._exec.lookup import escape_terminal
from kubeauth._parsing import Json
from kubeauth.cli._doctor_findings import Finding, Level, ok
from kubeauth.cli._doctor_words import counted, listed

# What is larger is no key; and of a directory with more in it, the rest is not looked at.
_MOST_BYTES = 64 * 1024
_MOST_ENTRIES = 10_000
_MOST_SHOWN = 10
_PYKUBE = re.compile(r"pykube-ng\.[0-9a-f]{32}\.crt")
_EXTRAS = {"httpx2": "httpx2", "cli": "rich", "http2": "h2", "socks": "socksio", "gmsa": "starlette"}


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Names of files with private keys in them, and whether all of the directory was looked at."""

    directory: str
    names: tuple[str, ...]
    is_complete: bool


def find_leftovers(directory: str) -> Leftovers:
    """Files of this user's, right in `directory`, that hold a private key. Follows no links."""
    found: list[str] = []
    looked = 0
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            looked += 1
            if looked > _MOST_ENTRIES:
                break
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False) and _holds_a_key(entry.path):
                    found.append(entry.name)
    return Leftovers(directory, tuple(sorted(found)), looked <= _MOST_ENTRIES)


def _holds_a_key(path: str) -> bool:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        about = os.fstat(descriptor)
        is_ours = not hasattr(os, "geteuid") or about.st_uid == os.geteuid()
        if not (stat.S_ISREG(about.st_mode) and is_ours and about.st_size <= _MOST_BYTES):
            return False
        return b"PRIVATE KEY-----" in os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def leftovers_finding(leftovers: Leftovers) -> Finding:
    """Whose they may be, and how to be rid of them."""
    names, directory = leftovers.names, leftovers.directory
    facts: dict[str, Json] = {"directory": directory, "files": list(names[:100]), "count": len(names)}
    if not names:
        rest = "" if leftovers.is_complete else f" among the first {_MOST_ENTRIES:,} files"
        return ok("leftovers", f"no private keys of yours lie about in {directory}{rest}", **facts)
    summary = f"{counted(len(names), 'file')} with a private key in {directory}: {listed(names, 4)}"
    whose = "pykube-ng leaves" if any(map(_PYKUBE.fullmatch, names)) else "other Kubernetes clients leave"
    summary += f"; {whose} such files"
    removal, command = _removal(leftovers)
    next_step = f"If no program that still runs needs them, remove them{removal}{command}"
    return Finding("leftovers", Level.WARNING, summary, next_step, facts, command)


def _removal(leftovers: Leftovers) -> tuple[str, str]:
    """Of which files, and the command, which is copied and run: no name that a line would change is in it."""
    paths = [os.path.join(leftovers.directory, name) for name in leftovers.names]
    plain = [path for path in paths if escape_terminal(path) == path and not re.search(r"\s", path)][
        :_MOST_SHOWN
    ]
    if not plain:
        return f" from {leftovers.directory} by hand.", ""
    which = "" if len(plain) == len(paths) else f"; {len(plain)} of {len(paths)}"
    return f"{which}: ", f"rm -- {' '.join(map(shlex.quote, plain))}"


def versions_finding() -> Finding:
    """What to write into a bug report."""
    found = {"kubeauth": __version__, "python": platform.python_version(), "openssl": ssl.OPENSSL_VERSION}
    found |= {"httpx": _version("httpx") or "", "platform": f"{sys.platform} {platform.machine()}"}
    installed = [name for name, package in _EXTRAS.items() if _version(package)]
    openssl = " ".join(ssl.OPENSSL_VERSION.split()[:2])
    summary = (
        f"kubeauth {found['kubeauth']}, Python {found['python']}, {openssl}, "
        f"httpx {found['httpx']}, {found['platform']}; extras: {', '.join(installed) or 'none'}"
    )
    return ok("versions", summary, **found, extras=installed)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
