"""A kubeconfig that is read once, for any number of its contexts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.environment import Environment
from kubeauth._config.files import LoadedFiles, find_kubeconfig_paths, make_absolute
from kubeauth._config.kubeconfig import Context, Kubeconfig
from kubeauth._config.kuberc import load_kuberc_policy
from kubeauth._config.loader import Loader, decode_source, is_document_text
from kubeauth._config.resolve import merge_kubeconfigs
from kubeauth._exec.config import PluginPolicy
from kubeauth.errors import KubeConfigError

Source = str | os.PathLike[str] | bytes | Mapping[str, object] | None
"""As load_config takes it."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a kubeconfig, each resolved when it is wanted. May be shared between threads."""

    _loader: Loader = field(repr=False)
    _kubeconfig: Kubeconfig
    paths: tuple[str, ...]
    """The files it came from; none for a document."""

    @classmethod
    def read(cls, loader: Loader, source: Source = None) -> Self:
        """From wherever load_config would read it, but never from the pod. KubeConfigError."""
        if source is None:
            files = find_kubeconfig_paths(loader.environment)
            found = loader.read_files(files.paths, from_environment=files.from_environment)
            return cls._merged(loader, found, files.paths)
        if isinstance(source, str | os.PathLike) and not is_document_text(source):
            path = os.fsdecode(source)
            return cls._merged(loader, loader.read_file(path), (path,))
        decoded = decode_source(source)
        # From here on nothing may raise from a frame that still holds the document.
        del source
        if not isinstance(decoded, Kubeconfig):
            raise KubeConfigError.from_problems(decoded, prefix="error loading config: ")
        return cls(_with_one_policy(loader), decoded, ())

    @classmethod
    def _merged(cls, loader: Loader, found: LoadedFiles, paths: tuple[str, ...]) -> Self:
        if found.problems:
            raise KubeConfigError.from_problems(found.problems)
        files = tuple(make_absolute(path) for path in paths if path)
        return cls(_with_one_policy(loader), merge_kubeconfigs(found.configs), files)

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they stand in the files."""
        return tuple(filter(None, self._kubeconfig.contexts))  # by an empty name, the current one is meant

    def entry(self, name: str) -> Context:
        """The context as it is written, good or not."""
        return self._kubeconfig.contexts[name]

    def config(self, name: str) -> ClientConfig:
        """The same as load_config gives for it. KubeConfigError with everything that is wrong."""
        loader = replace(self._loader, overrides=replace(self._loader.overrides, context=name))
        return loader.resolve(self._kubeconfig, self.paths)


def _with_one_policy(loader: Loader) -> Loader:
    """Reads the kuberc once, and only if a plugin is to be run. A damaged one is read again for each."""
    known: list[PluginPolicy] = []

    def policy(environment: Environment) -> PluginPolicy:
        if not known:
            known.append(load_kuberc_policy(environment))
        return known[0]

    return replace(loader, kuberc=policy)
