"""Read a kubeconfig once, and resolve any number of its contexts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.environment import Environment
from kubeauth._config.files import find_kubeconfig_paths, make_absolute
from kubeauth._config.kubeconfig import LoadedFiles
from kubeauth._config.kuberc import load_kuberc_policy
from kubeauth._config.loader import Loader, decode_source, is_document_text
from kubeauth._config.resolve import merge_kubeconfigs
from kubeauth._exec.config import PluginPolicy
from kubeauth.errors import KubeConfigError
from kubeauth.schemas._kubeconfig import Context, Kubeconfig

Source = str | os.PathLike[str] | bytes | Mapping[str, object] | Kubeconfig | None
"""The type of the `source` argument of load_config."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a kubeconfig, each resolved on demand. Safe to share between threads."""

    _loader: Loader = field(repr=False)
    _kubeconfig: Kubeconfig
    paths: tuple[str, ...]
    """Files of the kubeconfig; empty for a document."""

    @classmethod
    def read(cls, loader: Loader, source: Source = None) -> Self:
        """Read the kubeconfig that load_config would read. Never uses the in-cluster configuration.

        Raises KubeConfigError.
        """
        if source is None:
            kubeconfig = find_kubeconfig_paths(loader.environment)
            loaded = loader.read_files(kubeconfig.paths, from_environment=kubeconfig.from_environment)
            return cls._from_files(loader, loaded, kubeconfig.paths)
        if isinstance(source, str | os.PathLike) and not is_document_text(source):
            path = os.fsdecode(source)
            return cls._from_files(loader, loader.read_file(path), (path,))
        decoded = decode_source(source)
        # Delete the document, which may contain secrets, so that no traceback refers to it.
        del source
        if not isinstance(decoded, Kubeconfig):
            raise KubeConfigError.from_problems(decoded, prefix="error loading config: ")
        return cls(_cache_policy(loader), decoded, ())

    @classmethod
    def _from_files(cls, loader: Loader, loaded: LoadedFiles, paths: tuple[str, ...]) -> Self:
        if loaded.problems:
            raise KubeConfigError.from_problems(loaded.problems)
        absolute = tuple(make_absolute(path) for path in paths if path)
        return cls(_cache_policy(loader), merge_kubeconfigs(loaded.configs), absolute)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the contexts, in the order of the files."""
        return tuple(filter(None, self._kubeconfig.contexts))  # an empty name selects the current context

    def entry(self, name: str) -> Context:
        """Return the context entry, without validating it."""
        return self._kubeconfig.contexts[name]

    def config(self, name: str) -> ClientConfig:
        """Return what load_config returns for this context. Raises KubeConfigError with all problems."""
        loader = replace(self._loader, overrides=replace(self._loader.overrides, context=name))
        return loader.resolve(self._kubeconfig, self.paths)


def _cache_policy(loader: Loader) -> Loader:
    """Return a loader that reads the kuberc once, on demand. An invalid kuberc is read again each time."""
    cached: list[PluginPolicy] = []

    def load_policy(environment: Environment) -> PluginPolicy:
        if not cached:
            cached.append(load_kuberc_policy(environment))
        return cached[0]

    return replace(loader, load_policy=load_policy)
