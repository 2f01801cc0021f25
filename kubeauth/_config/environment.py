"""The environment of the process: variables, home directory, service account. Tests pass their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    service_account_dir: str = SERVICE_ACCOUNT_DIR
    is_windows: bool = os.name == "nt"
    kuberc: str = ""
    """Path of the kuberc, as by the flag --kuberc; takes precedence over the variable KUBERC."""

    @property
    def home(self) -> str:
        """The home directory, found as client-go does (K13); empty if there is none."""
        if not self.is_windows:
            return self.environ.get("HOME", "")
        home, profile = self.environ.get("HOME", ""), self.environ.get("USERPROFILE", "")
        drive, path = self.environ.get("HOMEDRIVE", ""), self.environ.get("HOMEPATH", "")
        drive_path = drive + path if drive and path else ""
        for candidate in (home, drive_path, profile):
            if candidate and os.path.isfile(os.path.join(candidate, ".kube", "config")):
                return candidate
        candidates = [candidate for candidate in (home, profile, drive_path) if candidate]
        existing = [candidate for candidate in candidates if os.path.exists(candidate)]
        writable = [candidate for candidate in existing if os.access(candidate, os.W_OK)]
        return next(iter(writable or existing or candidates), "")

    def join_home(self, *names: str) -> str:
        """Return a path in the home directory; empty if there is no home directory.

        client-go uses the working directory then. kubeauth does not, because a file there may belong to
        another user.
        """
        return os.path.join(self.home, *names) if self.home else ""

    @property
    def path_list_separator(self) -> str:
        """Separates the paths in KUBECONFIG."""
        return ";" if self.is_windows else ":"
