"""Write new tokens to a kubeconfig that other processes read and write too (O7).

There are two locks. `exclusive_lock` holds a flock on the kubeconfig itself for the duration of a token
refresh. The kernel releases it when its process exits, and kubectl, which does not use it, is not blocked.
`<kubeconfig>.lock` is the lock file of kubectl, which exists while a process writes the kubeconfig. It
remains if that process is killed, so it is held only while writing.

Errors in the content of the file are returned as a WriteProblem and not raised, so that no traceback refers
to the content.
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

from kubeauth._config.files import KUBECONFIG_LIMIT, describe_os_error, read_file
from kubeauth._parsing import DocumentError, Json, read_document, write_document
from kubeauth._secret import Secret

_POLL_INTERVAL = 0.02
# kubectl writes within milliseconds; an older lock file was left behind.
_KUBECTL_WRITE_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class WriteProblem:
    """Why a kubeconfig cannot be read or written, and what to do."""

    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class AuthProviderEntry:
    """The auth provider of a user in a kubeconfig file."""

    path: str
    user: str
    is_same_entry: Callable[[Mapping[str, str]], bool]
    """Whether these settings still belong to the same issuer and client."""

    def read(self) -> Mapping[str, str] | WriteProblem | None:
        """Read the current settings; None if the entry no longer exists."""
        deadline = time.monotonic() + _KUBECTL_WRITE_TIMEOUT
        while True:
            document = _read_document(self.path)
            # kubectl overwrites the file in place: a read at the same time may return part of it.
            if not os.path.lexists(f"{self.path}.lock") or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_INTERVAL)
        return document if isinstance(document, WriteProblem) else self._find_settings(document)

    def check_writable(self, timeout: float) -> WriteProblem | None:
        """Return why settings cannot be written; None if they can. Called before a refresh-token is used."""
        if not os.access(self.path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return WriteProblem(f"{self.path} is not writable", "Make it writable (chmod u+w).")
        return self._run_locked(timeout, lambda: None)

    def write(self, changes: Mapping[str, Secret[str]], timeout: float) -> WriteProblem | None:
        """Write these settings and leave the rest of the file unchanged. Return the problem if that fails."""

        def change() -> WriteProblem | None:
            document = _read_document(self.path)
            if isinstance(document, WriteProblem):
                return document
            settings = self._find_settings(document)
            if settings is None:
                return None  # the user removed the entry; client-go ignores this too
            settings.update({name: value.reveal() for name, value in changes.items()})
            is_json = _is_json(self.path)
            _replace_file(os.path.realpath(self.path), write_document(document, as_json=is_json))
            return None

        return self._run_locked(timeout, change)

    def _find_settings(self, document: Json) -> dict[str, str] | None:
        """Return the mapping inside `document` that holds the settings, so that it can be changed."""
        users = document.get("users") if isinstance(document, dict) else None
        for item in users if isinstance(users, list) else ():
            if not isinstance(item, dict) or item.get("name") != self.user:
                continue
            settings: Any = item
            for key in ("user", "auth-provider", "config"):
                settings = settings.get(key) if isinstance(settings, dict) else None
            return settings if isinstance(settings, dict) and self.is_same_entry(settings) else None
        return None

    def _run_locked(self, timeout: float, work: Callable[[], WriteProblem | None]) -> WriteProblem | None:
        try:
            with ExitStack() as stack:
                # kubectl locks the path as configured. The real path is locked because of other links to it.
                for path in dict.fromkeys((self.path, os.path.realpath(self.path))):
                    stack.enter_context(_lock_file(f"{path}.lock", timeout))
                return work()
        except _LockFileExists as error:
            return WriteProblem(
                f"{error.path} exists: another process is writing {self.path}, or was killed while writing",
                f"If no kubectl or other client is running, remove {error.path}.",
            )
        except OSError as error:
            return WriteProblem(
                f"{self.path} cannot be written: {describe_os_error(error)}",
                "Make the file and its directory writable by this user.",
            )


def _read_document(path: str) -> Json | WriteProblem:
    try:
        return read_document(read_file(path, limit=KUBECONFIG_LIMIT), limit=KUBECONFIG_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return WriteProblem(f"{path} cannot be read: {describe_os_error(error)}", "Check its permissions.")
    except DocumentError as error:
        return WriteProblem(
            f"{path} cannot be read: {error}", "It has been changed since it was loaded: correct it."
        )


def _is_json(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


class _LockFileExists(Exception):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@contextmanager
def _lock_file(path: str, timeout: float) -> Generator[None]:
    """Create a lock file like client-go's lockFile, but wait if it exists instead of failing at once."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
            break
        except FileExistsError:
            if time.monotonic() >= deadline:
                raise _LockFileExists(path) from None
            time.sleep(_POLL_INTERVAL)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


@contextmanager
def exclusive_lock(path: str, timeout: float) -> Generator[bool]:
    """Lock a file against other processes and threads. Yield False if it stays locked for `timeout` seconds.

    Where flock is not available (Windows, some network file systems) yield True without a lock.
    """
    descriptor: int | None = None
    is_locked = True
    deadline = time.monotonic() + timeout
    with suppress(OSError):  # the file does not exist, or flock is not supported
        while (descriptor := _try_flock(path)) is None:
            if time.monotonic() >= deadline:
                is_locked = False
                break
            time.sleep(_POLL_INTERVAL)
    try:
        yield is_locked
    finally:
        if descriptor is not None:
            _unlock(descriptor)


if sys.platform == "win32":

    def _try_flock(path: str) -> int | None:
        raise OSError("flock is not supported")

    def _unlock(descriptor: int) -> None: ...

else:
    import fcntl

    def _try_flock(path: str) -> int | None:
        """Return a locked descriptor of the file; None if another process or thread holds the lock."""
        try:
            # NFS needs a writable descriptor for an exclusive lock.
            descriptor = os.open(path, os.O_RDWR)
        except PermissionError:
            descriptor = os.open(path, os.O_RDONLY)
        is_locked = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have replaced the file, which leaves the new file unlocked.
            is_locked = os.path.samestat(os.fstat(descriptor), os.stat(path))
        except BlockingIOError:
            pass
        finally:
            if not is_locked:
                os.close(descriptor)
        return descriptor if is_locked else None

    def _unlock(descriptor: int) -> None:
        # Closing is not enough: a child process forked in the meantime has the descriptor open too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


# The file may still be writable in place: it is a mount point, as in a container, or another user owns it.
_REPLACE_ERRNOS = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES)


def _replace_file(path: str, data: bytes) -> None:
    """Replace the content atomically if possible. Owner, mode and hard links do not change."""
    before = os.stat(path)
    if before.st_nlink > 1:
        # Replacing the file would leave the used refresh-token in its other hard links.
        _overwrite(path, data)
        return
    directory, prefix = os.path.dirname(path), f".{os.path.basename(path)}.kubeauth-"
    _remove_temporary_files(directory, prefix)
    descriptor, temporary = tempfile.mkstemp(prefix=prefix, dir=directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if hasattr(os, "fchown"):
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.fstat(descriptor).st_gid):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if not isinstance(error, OSError) or error.errno not in _REPLACE_ERRNOS:
            raise
        _overwrite(path, data)


def _remove_temporary_files(directory: str, prefix: str) -> None:
    """Remove files that killed processes left behind. The caller holds the lock, so none is in use."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(prefix):
                os.unlink(os.path.join(directory, name))


def _overwrite(path: str, data: bytes) -> None:
    """Write the file in place, as kubectl does."""
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
