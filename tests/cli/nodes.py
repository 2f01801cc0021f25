"""A node's image credential providers: real programs, and the configuration they stand in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubeauth.testing import ProviderScript
from tests.cli.programs import environ

Auth = Mapping[str, tuple[str, str]]


class Node:
    """A directory of programs with their configuration beside it."""

    def __init__(self, directory: Path) -> None:
        self.bin_dir = directory / "bin"
        self.bin_dir.mkdir(parents=True)
        self.config = directory / "config.json"
        self.entries: list[dict[str, Any]] = []

    def provider(
        self,
        name: str,
        *match: str,
        auth: Auth | None = None,
        fields: Mapping[str, Any] | None = None,
        **says: Any,
    ) -> ProviderScript:
        """One more, that says so; `fields` go to its entry in the configuration."""
        script = ProviderScript(self.bin_dir, name)
        script.answer(auth, **says)
        self.entry(script.entry(match, **(fields or {})))
        return script

    def entry(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)
        self.config.write_text(json.dumps(ProviderScript.config(*self.entries)))

    @property
    def flags(self) -> tuple[str, ...]:
        return "--config", str(self.config), "--bin-dir", str(self.bin_dir)

    def environ(self, **more: str) -> dict[str, str]:
        """For programs that take no flags."""
        return environ(
            KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG=str(self.config),
            KUBEAUTH_CREDENTIAL_PROVIDER_BIN_DIR=str(self.bin_dir),
            **more,
        )
