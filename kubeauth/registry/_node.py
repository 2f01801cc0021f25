"""`NodeKeyring`: the docker config that the kubelet of this machine would use (5.15)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kubeauth._config.environment import Environment
from kubeauth._config.files import get_working_directory
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.registry._docker_config import KUBELET_ROOT, LoadedEntries, NodePlaces, read_config
from kubeauth.registry._keyring import Keyring, Skipped
from kubeauth.registry._values import RegistryCredential

_LIFETIME = 300.0


@dataclass(frozen=True, slots=True)
class _Found:
    keyring: Keyring
    path: str | None
    skipped: tuple[Skipped, ...]
    until: float


class NodeKeyring:
    """The first docker config that can be used, of those the kubelet would look at.

    `config.json` in its root directory, the working directory, `$HOME/.docker` and `/.docker`; only if none
    of them can be used, `.dockercfg` in its root directory, the working directory, `$HOME` and `/`. Files
    that are not there are passed over, and so are those that cannot be used, which `skipped` names. If
    there is none, nothing is found for any image.

    Files are read by the first lookup, and anew by the first that comes five minutes later.
    """

    __slots__ = ("_clock", "_directory", "_environment", "_found", "_kubelet_root", "_root", "_with_tokens")

    def __init__(
        self,
        kubelet_root: str | os.PathLike[str] = KUBELET_ROOT,
        *,
        working_directory: str | os.PathLike[str] | None = None,
        root: str | os.PathLike[str] = "/",
        environ: Mapping[str, str] | None = None,
        with_tokens: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._kubelet_root, self._root = os.fsdecode(kubelet_root), os.fsdecode(root)
        self._directory = None if working_directory is None else os.fsdecode(working_directory)
        self._environment = Environment() if environ is None else Environment(environ=environ)
        self._with_tokens = with_tokens
        self._clock = clock
        self._found: _Found | None = None

    def lookup(self, image: str) -> list[RegistryCredential]:
        """What to try for `image`, in this order; empty if there is nothing."""
        return self._current().keyring.lookup(image)

    @property
    def path(self) -> str | None:
        """The file in use; None if there is none."""
        return self._current().path

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Files that cannot be used, and keys that cannot be one, each with the reason."""
        found = self._current()
        return found.skipped + found.keyring.skipped

    def _current(self) -> _Found:
        found = self._found
        if found is None or self._clock.monotonic() >= found.until:
            # Without a lock: at worst two threads read the same few small files.
            found = self._found = self._search()
        return found

    def _search(self) -> _Found:
        keyring, skipped = Keyring(), list[Skipped]()
        until = self._clock.monotonic() + _LIFETIME
        for path, decode in self._places().files():
            found = read_config(path, decode, with_tokens=self._with_tokens)
            if isinstance(found, LoadedEntries):
                keyring.add(found.entries, found.source)
                return _Found(keyring, path, tuple(skipped), until)
            if found is not None:
                skipped.append((path, f"{found.field}: {found.message}" if found.field else found.message))
        return _Found(keyring, None, tuple(skipped), until)

    def _places(self) -> NodePlaces:
        return NodePlaces(
            kubelet_root=self._kubelet_root,
            working_directory=get_working_directory() if self._directory is None else self._directory,
            home=self._environment.home,
            root=self._root,
        )

    def __repr__(self) -> str:
        return f"<NodeKeyring: {self._found.path if self._found else 'not read yet'}>"
