"""The environment of tests, which is the same on every machine and in every shell."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The paths of programs, and variables of the tools that run the tests. All others are removed: a shell may have set
# a proxy, a kubeconfig, a locale, colors, a width, buffering, warnings, or a variable of a future library.
_INHERITED = frozenset({
    "PATH", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH",
    "PYTHONHOME", "PYENV_ROOT", "KUBECTL", "KUBEAUTH_E2E_CACHE", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT",
})  # fmt: skip
_INHERITED_PREFIXES = ("PYTEST_", "COV_", "COVERAGE_", "GO", "UV_", "PIP_")
_NOT_INHERITED = frozenset({"PYTEST_ADDOPTS"})  # some tests run pytest
# By its C library, which pytest may have imported: os.environ does not have them, and child processes would.
_SET_BY_READLINE = ("COLUMNS", "LINES")
_SET = {"TZ": "UTC", "TERM": "xterm"}


def is_inherited(name: str) -> bool:
    """Whether tests see this variable of the shell that started them."""
    return name not in _NOT_INHERITED and (name in _INHERITED or name.startswith(_INHERITED_PREFIXES))


@contextmanager
def isolate(directory: Path) -> Iterator[None]:
    """Set variables, umask, time zone, home and temporary directory of this process and of those that it starts.

    Both directories are created in `directory`.
    """
    before, umask = dict(os.environ), os.umask(0o022)
    for name in [name for name in os.environ if not is_inherited(name)]:
        del os.environ[name]
    for name in _SET_BY_READLINE:
        os.unsetenv(name)
    os.environ.update(_SET)
    time.tzset()
    home, temporary = directory / "home", directory / "tmp"
    home.mkdir()
    temporary.mkdir()
    os.environ["HOME"] = str(home)
    try:
        with use_temporary_directory(temporary):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.umask(umask)
        time.tzset()


@contextmanager
def use_temporary_directory(directory: Path) -> Iterator[None]:
    """For this process, in which `tempfile` has cached another one, and for those that it starts."""
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before
        if variable is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = variable
