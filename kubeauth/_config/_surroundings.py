"""What a process stands in: its environment, its home, its service account. Injected, never patched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    service_account: str = SERVICE_ACCOUNT
    windows: bool = os.name == "nt"

    @property
    def home(self) -> str:
        """The home directory as client-go finds it (K13); empty if there is none."""
        if not self.windows:
            return self.environ.get("HOME", "")
        homes = [
            self.environ.get("HOME", ""),
            self.environ.get("HOMEDRIVE", "") + self.environ.get("HOMEPATH", ""),
            self.environ.get("USERPROFILE", ""),
        ]
        homes = [home for home in homes if home]
        with_config = [home for home in homes if os.path.isfile(os.path.join(home, ".kube", "config"))]
        existing = [home for home in homes if os.path.isdir(home)]
        return next(iter(with_config or existing or homes), "")

    def in_home(self, *names: str) -> str:
        """A path below the home directory; empty if there is no home.

        client-go falls back to the working directory then. A file that happens to lie there is
        nobody's configuration, so kubeauth does not.
        """
        return os.path.join(self.home, *names) if self.home else ""

    @property
    def separator(self) -> str:
        return ";" if self.windows else ":"
