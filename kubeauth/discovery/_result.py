"""`Discovered`: a cluster that may be trusted, and how it is kept in a file."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import describe_os_error
from kubeauth._parsing import Json, write_document
from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

Method: TypeAlias = Literal["token", "file", "url"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What discovery came to. Printing it shows no secret; `kubeconfig` holds them."""

    config: ClientConfig
    """For a Client."""
    pins: tuple[str, ...]
    """Of the CA that is trusted: what ca_cert_hashes would be."""
    method: Method
    warnings: tuple[str, ...] = ()
    """What somebody should know, and that stood in nobody's way."""
    document: Secret[str] = field(repr=False)
    """The kubeconfig as JSON."""

    @property
    def kubeconfig(self) -> dict[str, Json]:
        """A kubeconfig with one context, parsed. Its secrets are in it: do not print it."""
        document: dict[str, Json] = json.loads(self.document.reveal())
        return document

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the kubeconfig to a file that its owner alone can read, at no moment anybody else.

        At once: a reader sees all of it or none. A file that is there stays, unless `overwrite`; then a
        symbolic link is replaced, and what it leads to is left alone. ConfigError if it cannot be written.
        """
        target = os.fspath(path)
        data = Secret(write_document(self.kubeconfig))
        why = ""
        try:
            _write(target, data, overwrite=overwrite)
        except FileExistsError:
            why = "there is a file already. Choose another path, or say overwrite=True"
        except (OSError, ValueError) as error:
            why = describe_os_error(error) if isinstance(error, OSError) else "no path can be like that"
        if why:
            raise ConfigError(f"the kubeconfig cannot be written to {target}: {why}")


def _write(path: str, data: Secret[bytes], *, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(path):
        raise FileExistsError
    # Made by the system for its owner alone, whatever the umask says.
    descriptor, new = tempfile.mkstemp(prefix=".kubeauth-", dir=os.path.dirname(path) or os.curdir)
    try:
        with open(descriptor, "wb") as file:
            file.write(data.reveal())
            file.flush()
            os.fsync(descriptor)
        if overwrite:
            os.replace(new, path)
        else:
            _put_where_nothing_is(new, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(new)


def _put_where_nothing_is(new: str, path: str) -> None:
    try:
        os.link(new, path)  # unlike a renaming, it fails if somebody was faster
    except FileExistsError:
        raise
    except OSError:
        # A file system that knows no second names.
        os.replace(new, path)
