"""New tokens into a kubeconfig that others read and write too (O7).

Two locks. `only_one` is held for as long as a renewal takes, by flock on the kubeconfig itself: it ends with
the process that holds it, and kubectl, which knows nothing of it, is not held up. `<kubeconfig>.lock` is
kubectl's own, a file that exists while somebody writes; it outlives a process that is killed, so it is held
for the moment of writing and no longer.

Nothing here raises for what is in the file: a reason is returned, so that no traceback holds its text.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kubeauth._config.files import describe_os_error, read_file
from kubeauth._config.kubeconfig import KUBECONFIG_LIMIT
from kubeauth._parsing import DocumentError, Json, read_document, write_document
from kubeauth._secret import Secret

_POLL_INTERVAL = 0.02
# kubectl writes for a moment; whoever has a lock for longer is not writing any more.
_KUBECTL_WRITE_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class WriteProblem:
    """Why a kubeconfig cannot be read or written, and what to do."""

    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class AuthProviderEntry:
    """A user's auth provider in a file. `is_ours` says whether what stands there is still about us."""

    path: str
    user: str
    is_same_entry: Callable[[Mapping[str, str]], bool]

    def read(self) -> Mapping[str, str] | WriteProblem | None:
        """Its settings as they are now; None if there is no such entry any more."""
        ends = time.monotonic() + _KUBECTL_WRITE_TIMEOUT
        while True:
            document = _read_document(self.path)
            # kubectl writes in place: what was read while it did so may be half of it.
            if not os.path.lexists(f"{self.path}.lock") or time.monotonic() >= ends:
                break
            time.sleep(_POLL_INTERVAL)
        return document if isinstance(document, WriteProblem) else self._find_settings(document)

    def check_writable(self, timeout: float) -> WriteProblem | None:
        """Why new settings could not be written; None if they could. Asked before a token is spent."""
        if not os.access(self.path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return WriteProblem(f"{self.path} is not writable", "Make it so (chmod u+w).")
        return self._run_locked(timeout, lambda: None)

    def write(self, changes: Mapping[str, Secret[str]], timeout: float) -> WriteProblem | None:
        """Sets these, and leaves all else in the file as it is. Why it cannot be done, if it cannot."""

        def change() -> WriteProblem | None:
            document = _read_document(self.path)
            if isinstance(document, WriteProblem):
                return document
            settings = self._find_settings(document)
            if settings is None:
                return None  # as client-go: whoever removed the entry does not want them
            settings.update({name: value.reveal() for name, value in changes.items()})
            is_json = _is_json(self.path)
            _replace_file(os.path.realpath(self.path), write_document(document, as_json=is_json))
            return None

        return self._run_locked(timeout, change)

    def _find_settings(self, document: Json) -> dict[str, str] | None:
        """The very mapping in the document, to be changed."""
        users = document.get("users") if isinstance(document, dict) else None
        for item in users if isinstance(users, list) else ():
            if not isinstance(item, dict) or item.get("name") != self.user:
                continue
            found: Any = item
            for step in ("user", "auth-provider", "config"):
                found = found.get(step) if isinstance(found, dict) else None
            return found if isinstance(found, dict) and self.is_same_entry(found) else None
        return None

    def _run_locked(self, timeout: float, work: Callable[[], WriteProblem | None]) -> WriteProblem | None:
        try:
            with ExitStack() as stack:
                # As it is named, which is where kubectl looks; and where it is, for who came by another link.
                for path in dict.fromkeys((self.path, os.path.realpath(self.path))):
                    stack.enter_context(_lock_file(f"{path}.lock", timeout))
                return work()
        except _LockFileExists as stale:
            return WriteProblem(
                f"{stale.path} is there: somebody is writing {self.path}, or was killed while doing so",
                f"If no kubectl or other client is at work, remove {stale.path}.",
            )
        except OSError as error:
            return WriteProblem(
                f"{self.path} cannot be written: {describe_os_error(error)}",
                "Make the file and its directory writable for this user.",
            )


def _read_document(path: str) -> Json | WriteProblem:
    try:
        return read_document(read_file(path, limit=KUBECONFIG_LIMIT), limit=KUBECONFIG_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return WriteProblem(f"{path} cannot be read: {describe_os_error(error)}", "Check its permissions.")
    except DocumentError as error:
        return WriteProblem(f"{path} cannot be read: {error}", "Somebody has changed it: correct it.")


def _is_json(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


class _LockFileExists(Exception):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@contextmanager
def _lock_file(path: str, timeout: float) -> Generator[None]:
    """As client-go's lockFile, but it waits where that one fails at once."""
    ends = time.monotonic() + timeout
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
            break
        except FileExistsError:
            if time.monotonic() >= ends:
                raise _LockFileExists(path) from None
            time.sleep(_POLL_INTERVAL)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


@contextmanager
def exclusive_lock(path: str, timeout: float) -> Generator[bool]:
    """Of all processes, and of all threads in them. False if that was not to be had in time.

    Where files cannot be locked so (Windows, some network drives) everybody passes.
    """
    descriptor: int | None = None
    is_mine = True
    ends = time.monotonic() + timeout
    with suppress(OSError):  # no such file, or no such locks: nothing to be alone with
        while (descriptor := _try_flock(path)) is None:
            if time.monotonic() >= ends:
                is_mine = False
                break
            time.sleep(_POLL_INTERVAL)
    try:
        yield is_mine
    finally:
        if descriptor is not None:
            _unlock(descriptor)


if sys.platform == "win32":

    def _try_flock(path: str) -> int | None:
        raise OSError("files cannot be locked so")

    def _unlock(descriptor: int) -> None: ...

else:
    import fcntl

    def _try_flock(path: str) -> int | None:
        """A descriptor of the file, locked; None if somebody else has it."""
        try:
            # For writing, which locks on NFS need.
            descriptor = os.open(path, os.O_RDWR)
        except PermissionError:
            descriptor = os.open(path, os.O_RDONLY)
        is_mine = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have put a new file in its place, and that one is free.
            is_mine = os.path.samestat(os.fstat(descriptor), os.stat(path))
        except BlockingIOError:
            pass
        finally:
            if not is_mine:
                os.close(descriptor)
        return descriptor if is_mine else None

    def _unlock(descriptor: int) -> None:
        # Not by closing alone: a child that was forked meanwhile has it open too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


# The file cannot be replaced, but it can be written: it is a mount point of its own, as in a container, or
# its owner is somebody else.
_CANNOT_REPLACE = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES)


def _replace_file(path: str, data: bytes) -> None:
    """At once: a reader sees the old or the new, never a half. Owner, mode and other names of it stay."""
    before = os.stat(path)
    if before.st_nlink > 1:
        # It has other names, which would keep a token that is spent.
        _overwrite(path, data)
        return
    directory, prefix = os.path.dirname(path), f".{os.path.basename(path)}.kubeauth-"
    _remove_temporary_files(directory, prefix)
    descriptor, new = tempfile.mkstemp(prefix=prefix, dir=directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if hasattr(os, "fchown"):
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.fstat(descriptor).st_gid):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            os.fsync(descriptor)
        os.replace(new, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(new)
        if not isinstance(error, OSError) or error.errno not in _CANNOT_REPLACE:
            raise
        _overwrite(path, data)


def _remove_temporary_files(directory: str, prefix: str) -> None:
    """What somebody who was killed has left there: whoever writes has the lock, and that is us."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(prefix):
                os.unlink(os.path.join(directory, name))


def _overwrite(path: str, data: bytes) -> None:
    """As kubectl does."""
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
