"""`Keyring`: which credentials there are for an image, in the order they are tried (5.1-5.10)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Protocol, Self

from kubeauth.errors import DockerConfigError, Problem
from kubeauth.registry._docker_config import LoadedEntries, given_config
from kubeauth.registry._entries import Entries, PullSecret, decode_entry, pull_secret, shown_key
from kubeauth.registry._key_index import NOTHING, KeyIndex, looked_up, normalised_key
from kubeauth.registry._values import RegistryCredential

Skipped = tuple[str, str]
"""What was left out (a key, a file, a Secret), and why."""


class Keyring:
    """Credentials for registries, each under a key such as `gcr.io`, `*.azurecr.io` or `quay.io/team`.

    What the kubelet would try for an image, in its order. Any number of threads may look up, also
    while somebody adds.
    """

    __slots__ = ("_credentials", "_index", "_skipped")

    def __init__(self) -> None:
        # Both only ever grow, by one call that other threads see at once or not yet.
        self._credentials: list[RegistryCredential] = []
        self._skipped: list[Skipped] = []
        self._index = NOTHING

    @classmethod
    def from_docker_config(
        cls,
        source: str | os.PathLike[str] | bytes | Mapping[str, object] | None = None,
        *,
        with_tokens: bool = False,
    ) -> Self:
        """From a docker config: a path, the text of one as bytes, or one that is parsed already.

        `config.json` with its `auths` and the older `.dockercfg` both do. Without a source: the file that
        `docker login` writes, `$DOCKER_CONFIG/config.json` or else `~/.docker/config.json`. (The kubelet
        does not know DOCKER_CONFIG; where it looks is what `NodeKeyring` is for.)

        As the kubelet does, it takes user names and passwords and nothing else: `with_tokens` takes
        `identitytoken` and `registrytoken` as well. Credential helpers are not run.

        Raises DockerConfigError, with file and field, if one entry cannot be used.
        """
        found = given_config(source, with_tokens=with_tokens)
        # It may be the document. What raises has not seen it.
        del source
        return cls._of([found])

    @classmethod
    def from_pull_secrets(cls, secrets: Iterable[Mapping[str, object]], *, with_tokens: bool = False) -> Self:
        """From Secrets, each as the API gives it: those a pod names in `imagePullSecrets`.

        Only `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg` count, and only with the data
        that their type wants; `skipped` names the others. Raises DockerConfigError if one cannot be read.
        """
        found = [pull_secret(secret, with_tokens=with_tokens) for secret in secrets]
        del secrets
        return cls._of(found)

    @classmethod
    def _of(cls, found: Iterable[LoadedEntries | PullSecret | Problem]) -> Self:
        keyring = cls()
        for item in found:
            if isinstance(item, Problem):
                raise DockerConfigError.from_problem(item)
            if isinstance(item, PullSecret) and item.ignored:
                keyring._skipped.append((item.source, item.ignored))
            keyring.add(item.entries, item.source)
        return keyring

    @staticmethod
    def joined(*keyrings: Looked) -> JoinedKeyring:
        """One after the other: what the first has for an image is tried first (5.10)."""
        return JoinedKeyring(keyrings)

    def add(self, entries: Mapping[str, RegistryCredential | Mapping[str, object]], source: str = "") -> None:
        """Adds to what there is: `{"gcr.io": {"username": "_token", "password": "..."}}`.

        An entry may have whatever a docker config has: `auth`, `email`, `identitytoken`, `registrytoken`.
        Of several under one key the first is tried first; nothing is overwritten. A key that cannot be
        one is left out, and told by `skipped`. DockerConfigError, and nothing added, if an entry cannot
        be used.
        """
        found = _credentials(entries)
        # What raises has not seen them.
        del entries
        if isinstance(found, Problem):
            raise DockerConfigError.from_problem(found)
        good, skipped = placed(found, source)
        self._skipped.extend(skipped)
        self._credentials.extend(good)

    def lookup(self, image: str) -> list[RegistryCredential]:
        """What to try for `image`, in this order; empty if there is nothing.

        An image is compared as it is written. To find what the kubelet would for `nginx:1.29`, look up what
        it makes of that first: `ImageReference.parse("nginx:1.29").repository`.
        """
        index = self._index
        if index.size != len(self._credentials):
            # Two threads may both come by here. Each has an index of all that was there when it came.
            index = self._index = KeyIndex(tuple(self._credentials))
        return looked_up(image, [index])

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was left out, and why: keys that cannot be one, Secrets that are not for registries."""
        return tuple(self._skipped)

    def __repr__(self) -> str:
        keys = {credential.key for credential in self._credentials}
        return f"<Keyring: {len(self._credentials)} credentials under {len(keys)} keys>"


class Looked(Protocol):
    """What credentials for an image can be looked up in."""

    def lookup(self, image: str, /) -> list[RegistryCredential]: ...

    @property
    def skipped(self) -> tuple[Skipped, ...]: ...


class JoinedKeyring:
    """Several keyrings, one after the other. Duplicates are kept, as the kubelet keeps them."""

    __slots__ = ("keyrings",)

    def __init__(self, keyrings: Iterable[Looked]) -> None:
        self.keyrings = tuple(keyrings)

    def lookup(self, image: str) -> list[RegistryCredential]:
        """What to try for `image`: all that the first has, then the second, and so on."""
        return [credential for keyring in self.keyrings for credential in keyring.lookup(image)]

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What each of them left out, and why."""
        return tuple(item for keyring in self.keyrings for item in keyring.skipped)

    def __repr__(self) -> str:
        return f"JoinedKeyring({list(self.keyrings)!r})"


def placed(entries: Entries, source: str) -> tuple[list[RegistryCredential], list[Skipped]]:
    """Each under what its key means; and the keys that cannot be one."""
    good: list[RegistryCredential] = []
    skipped: list[Skipped] = []
    for key, credential in entries.items():
        stands_under = normalised_key(key)
        if isinstance(stands_under, Problem):
            skipped.append((shown_key(key), stands_under.message))
        else:
            good.append(credential.placed(stands_under, source or credential.source))
    return good, skipped


def _credentials(entries: object) -> Entries | Problem:
    if not isinstance(entries, Mapping):
        return Problem(f"entries for a keyring are a mapping by key, not {type(entries).__name__}")
    found: Entries = {}
    for key, entry in entries.items():
        if not isinstance(key, str):
            return Problem(f"a key must be a string, not {type(key).__name__}")
        credential = entry if isinstance(entry, RegistryCredential) else decode_entry(key, entry)
        if isinstance(credential, Problem):
            return credential
        found[key] = credential
    return found
