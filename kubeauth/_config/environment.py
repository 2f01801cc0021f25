"""What a process stands in: its environment, its home, its service account. Injected, never patched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    service_account: str = SERVICE_ACCOUNT
    windows: bool = os.name == "nt"

    @property
    def home(self) -> str:
        """The home directory as client-go finds it (K13); empty if there is none."""
        if not self.windows:
            return self.environ.get("HOME", "")
        home, profile = self.environ.get("HOME", ""), self.environ.get("USERPROFILE", "")
        drive, below = self.environ.get("HOMEDRIVE", ""), self.environ.get("HOMEPATH", "")
        on_drive = drive + below if drive and below else ""
        for candidate in (home, on_drive, profile):
            if candidate and os.path.isfile(os.path.join(candidate, ".kube", "config")):
                return candidate
        named = [candidate for candidate in (home, profile, on_drive) if candidate]
        existing = [candidate for candidate in named if os.path.exists(candidate)]
        writable = [candidate for candidate in existing if os.access(candidate, os.W_OK)]
        return next(iter(writable or existing or named), "")

    def in_home(self, *names: str) -> str:
        """A path below the home directory; empty if there is no home.

        client-go falls back to the working directory then. A file that happens to lie there is
        nobody's configuration, so kubeauth does not.
        """
        return os.path.join(self.home, *names) if self.home else ""

    @property
    def separator(self) -> str:
        return ";" if self.windows else ":"
