"""Image credential providers for tests: real programs that say what they are told to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeauth.testing._script import Script

V1 = "credentialprovider.kubelet.k8s.io/v1"

_PARTICULARS = r"""
asked = sys.stdin.read()
def run():
    return {"request": asked, "arguments": sys.argv[1:], "environment": dict(os.environ)}
def document(answer):
    version = answer["api_version"] or json.loads(asked)["apiVersion"]
    return {"apiVersion": version, "kind": "CredentialProviderResponse", **answer["says"]}
"""


@dataclass(frozen=True, slots=True)
class ProviderRun:
    """One run of a provider: what it was given."""

    request: Any
    """The CredentialProviderRequest, parsed."""
    arguments: list[str]
    environment: Mapping[str, str]


class ProviderScript(Script):
    """An image credential provider in a directory of yours, under its name.

        provider = ProviderScript(tmp_path)
        provider.answer({"registry.test": ("user", "password")}, cache_duration="10m")
        config = ProviderScript.config(provider.entry(["registry.test"]))
        (tmp_path / "config.json").write_text(json.dumps(config))
        CredentialProviders(tmp_path / "config.json", tmp_path).credentials("registry.test/app")

    A real program, for this Python without site-packages, so that it starts quickly.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = "provider") -> None:
        super().__init__(directory, name, _PARTICULARS)
        self.answer({})

    def answer(
        self,
        auth: Mapping[str, tuple[str, str]] | None = None,
        *,
        cache_key_type: str = "Registry",
        cache_duration: str | None = None,
        api_version: str | None = None,
        stdout: str | None = None,
        stderr: str = "",
        exit_code: int = 0,
        sleep: float = 0.0,
    ) -> None:
        """What it says from the next run on: user name and password by key.

        `stdout` takes the place of the CredentialProviderResponse.
        """
        says: dict[str, object] = {"cacheKeyType": cache_key_type}
        if auth is not None:
            says["auth"] = {key: {"username": name, "password": word} for key, (name, word) in auth.items()}
        if cache_duration is not None:
            says["cacheDuration"] = cache_duration
        answer = {"says": says, "api_version": api_version}
        self._say(answer, stdout=stdout, stderr=stderr, exit_code=exit_code, sleep=sleep)

    def entry(self, match_images: Sequence[str], **fields: Any) -> dict[str, Any]:
        """Its entry in a configuration; `fields` are added, or replace what is there."""
        entry = {"name": self.path.name, "matchImages": list(match_images), "apiVersion": V1}
        return {**entry, "defaultCacheDuration": "10m"} | fields

    @staticmethod
    def config(*entries: Mapping[str, Any]) -> dict[str, Any]:
        """A CredentialProviderConfig of such entries. As JSON it is one for CredentialProviders."""
        version, kind = "kubelet.config.k8s.io/v1", "CredentialProviderConfig"
        return {"apiVersion": version, "kind": kind, "providers": list(entries)}

    @property
    def runs(self) -> list[ProviderRun]:
        """Every run so far, in the order they started."""
        return [
            ProviderRun(json.loads(each["request"]), each["arguments"], each["environment"])
            for each in self._remembered()
        ]
