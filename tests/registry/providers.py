"""Providers that are real programs, and the configuration they stand in."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubeauth.registry._observer import ProviderObserver
from kubeauth.registry._providers import CredentialProviders
from kubeauth.testing import FakeClock, ProviderScript
from kubeauth.testing._programs import build_shebang

IMAGE = "test.registry.io/foo/bar"
TOKENS: dict[str, Any] = {
    "serviceAccountTokenAudience": "audience",
    "cacheType": "ServiceAccount",
    "requireServiceAccount": True,
}

# Says that it runs, and waits until it is let go.
_HELD = """{shebang}
import json, os, sys, time
here = os.path.abspath(__file__)
asked = json.load(sys.stdin)
runs = os.open(here + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, b"%d\\n" % os.getpid())
os.close(runs)
for _ in range(6000):
    if os.path.exists(here + ".go"):
        break
    time.sleep(0.005)
with open(here + ".says") as file:
    says = json.load(file)
if says is None:
    sys.exit("held, and then failed")
json.dump({{"kind": "CredentialProviderResponse", "apiVersion": asked["apiVersion"], **says}}, sys.stdout)
"""


class HeldProvider:
    """A provider that answers when it is let go."""

    def __init__(self, directory: Path, name: str = "provider") -> None:
        self.path = directory / name
        self.path.write_text(_HELD.format(shebang=build_shebang(sys.executable)))
        self.path.chmod(0o700)
        self.says("password")

    def says(self, password: str | None, *, kind: str = "Registry", duration: str | None = None) -> None:
        """Nothing but exit status 1, without a password."""
        auth = {"test.registry.io": {"username": "user", "password": password}}
        says = {"cacheKeyType": kind, "auth": auth} | ({"cacheDuration": duration} if duration else {})
        new = Path(f"{self.path}.new")
        new.write_text(json.dumps(says if password is not None else None))
        new.replace(f"{self.path}.says")

    def let_go(self) -> None:
        Path(f"{self.path}.go").touch()

    def hold(self) -> None:
        Path(f"{self.path}.go").unlink(missing_ok=True)

    @property
    def processes(self) -> list[int]:
        try:
            return [int(line) for line in Path(f"{self.path}.runs").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def entry(self, match_images: Sequence[str], **fields: Any) -> dict[str, Any]:
        return entry_of(self.path.name, match_images, **fields)


def entry_of(name: str, match_images: Sequence[str] = ("test.registry.io",), **fields: Any) -> dict[str, Any]:
    version = "credentialprovider.kubelet.k8s.io/v1"
    entry = {"name": name, "matchImages": list(match_images), "apiVersion": version}
    return {**entry, "defaultCacheDuration": "1m"} | fields


def config_of(directory: Path, *entries: dict[str, Any]) -> Path:
    path = directory / "config.json"
    path.write_text(json.dumps(ProviderScript.config(*entries)))
    return path


def providers_of(
    *scripts: ProviderScript | HeldProvider,
    match: Sequence[str] = ("test.registry.io",),
    clock: FakeClock | None = None,
    observer: ProviderObserver | None = None,
    service_account: Any = None,
    environ: dict[str, str] | None = None,
    **fields: Any,
) -> CredentialProviders:
    """All in one directory, and configured alike."""
    directory = scripts[0].path.parent
    config = config_of(directory, *(script.entry(match, **fields) for script in scripts))
    options: dict[str, Any] = {"clock": clock} if clock is not None else {}
    if observer is not None:
        options["observer"] = observer
    return CredentialProviders(config, directory, service_account=service_account, environ=environ, **options)


class Watching:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.configs: list[tuple[str, list[str]]] = []
        self.ran: list[tuple[str, bool]] = []

    def on_config_loaded(self, *, hash: str, providers: Sequence[str]) -> None:
        self.configs.append((hash, list(providers)))

    def on_provider_run(self, *, provider: str, seconds: float, failed: bool) -> None:
        assert seconds >= 0
        self.ran.append((provider, failed))


def script_of(path: Path, body: str) -> Path:
    """A provider in Python, for what ProviderScript would never do."""
    path.write_text(f"{build_shebang(sys.executable)}\nimport json, os, subprocess, sys, time\n{body}\n")
    path.chmod(0o700)
    return path


def says(auth: dict[str, Any] | None = None, **fields: Any) -> str:
    """A good answer, as JSON; `fields` are added, or replace what is there."""
    document: dict[str, Any] = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": auth if auth is not None else {"test.registry.io": {"username": "u", "password": "p"}},
    }
    return json.dumps(document | fields)
