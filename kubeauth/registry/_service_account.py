"""For whom a provider is asked: a pod's service account, its annotations and its token (4.14-4.21)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kubeauth._secret import Secret
from kubeauth.errors import ConfigError
from kubeauth.schemas._credential_provider import TokenAttributes


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod that an image is pulled for."""

    namespace: str
    name: str
    uid: str
    service_account: str = ""
    """The name of its service account; empty if it has none."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account, as the API server has it."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)


@runtime_checkable
class ServiceAccountSource(Protocol):
    """Who knows service accounts, and gets tokens for them. Whatever it raises is why a provider failed."""

    def service_account(self, pod: Pod, /) -> ServiceAccount:
        """That of the pod, as it is now."""
        ...

    def token(self, pod: Pod, account: ServiceAccount, audience: str, /) -> str:
        """A token of the account for that audience, bound to the pod."""
        ...


@runtime_checkable
class AsyncServiceAccountSource(Protocol):
    """The same for event loops."""

    async def aservice_account(self, pod: Pod, /) -> ServiceAccount: ...
    async def atoken(self, pod: Pod, account: ServiceAccount, audience: str, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Account:
    """A service account, as a provider is told of it."""

    service_account: ServiceAccount
    annotations: tuple[tuple[str, str], ...]
    """Those that the configuration names, in order."""
    token: Secret[str]
    cache_type: str

    @property
    def token_hash(self) -> str:
        """Tells tokens apart without showing them (4.19)."""
        if not self.token:
            return ""
        return f"sha256:{hashlib.sha256(self.token.reveal().encode('utf-8', 'surrogatepass')).hexdigest()}"

    @property
    def key(self) -> tuple[object, ...]:
        """Whose credentials are the same. Pod and audience have no part in it (4.18)."""
        account = self.service_account
        whose = account.namespace, account.name, account.uid, self.annotations
        return (*whose, "token", self.token_hash) if self.cache_type == "Token" else whose


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Why a provider has nothing to say about a pod, and that is no failure."""

    reason: str


def accounts_of(source: object) -> Accounts:
    """Service accounts from whoever knows them, in either colour. ConfigError if it is something else."""
    if source is not None and not isinstance(source, ServiceAccountSource | AsyncServiceAccountSource):
        raise ConfigError(
            "service_account= needs the methods service_account(pod) and token(pod, account, audience), or "
            "for event loops aservice_account and atoken. ClusterServiceAccounts(client) has them all."
        )
    return Accounts(source)


class Accounts:
    """Gets what a provider is to be told of a pod (4.14)."""

    def __init__(self, source: ServiceAccountSource | AsyncServiceAccountSource | None) -> None:
        self._source = source

    def get(self, wanted: TokenAttributes | None, pod: Pod | None) -> Account | NotAsked | None:
        """None: it is asked for nobody in particular."""
        if wanted is None or pod is None or not pod.service_account:
            return _without(wanted)
        source = self._sync()
        account = source.service_account(pod)
        annotations = _chosen(wanted, account)
        if isinstance(annotations, NotAsked):
            return annotations
        return _account(wanted, account, annotations, source.token(pod, account, wanted.audience))

    async def aget(self, wanted: TokenAttributes | None, pod: Pod | None) -> Account | NotAsked | None:
        """As `get`. If there is nobody for event loops, in a thread."""
        if wanted is None or pod is None or not pod.service_account:
            return _without(wanted)
        source = self._source
        if not isinstance(source, AsyncServiceAccountSource):
            from kubeauth._runtime import run_in_thread  # for those alone who have an event loop

            return await run_in_thread(lambda: self.get(wanted, pod))
        account = await source.aservice_account(pod)
        annotations = _chosen(wanted, account)
        if isinstance(annotations, NotAsked):
            return annotations
        return _account(wanted, account, annotations, await source.atoken(pod, account, wanted.audience))

    def _sync(self) -> ServiceAccountSource:
        if self._source is None:
            raise ConfigError(
                "nobody knows service accounts. Give service_account=ClusterServiceAccounts(client) to "
                "CredentialProviders, or a source of your own."
            )
        if not isinstance(self._source, ServiceAccountSource):
            raise ConfigError(
                "the service_account= of CredentialProviders is for event loops alone. Use alookup or "
                "acredentials, or give it the methods service_account and token too."
            )
        return self._source


def _without(wanted: TokenAttributes | None) -> NotAsked | None:
    if wanted is not None and wanted.require_service_account:
        return NotAsked("it needs a service account, and there is none: pass pod= with its service_account")
    return None


def _chosen(wanted: TokenAttributes, account: ServiceAccount) -> tuple[tuple[str, str], ...] | NotAsked:
    """The annotations that the configuration names; or which must be there and is not (4.15, 4.16)."""
    has = account.annotations
    if missing := [key for key in wanted.required_annotations if key not in has]:
        listed = ", ".join(missing)
        return NotAsked(f"service account {account.namespace}/{account.name} has no annotation {listed}")
    named = wanted.required_annotations + wanted.optional_annotations
    return tuple(sorted((key, has[key]) for key in set(named) if key in has))


def _account(
    wanted: TokenAttributes, account: ServiceAccount, annotations: tuple[tuple[str, str], ...], token: object
) -> Account:
    """Of what a caller's own source gave, which no type checker may have seen."""
    given = (account.namespace, account.name, account.uid, *(value for _, value in annotations))
    if isinstance(token, str) and all(isinstance(value, str) for value in given):
        return Account(account, annotations, Secret(token), wanted.cache_type)
    del token  # what raises does not hold it
    raise ConfigError(
        "what service_account= gives is no text: names, the uid, annotations and the token must be str."
    )
