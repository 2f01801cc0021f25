"""Service accounts and their tokens from an API server, as the kubelet gets them (4.14).

A token is used until 80 % of its life are over, or 24 hours, as the kubelet's own token manager does; so a
provider that keeps what it gave for each token is not run for each lookup. Service accounts are not kept:
their annotations count as they are now.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.models import validate_leniently
from kubeauth._runtime import SYSTEM_CLOCK, Clock, call_after_fork
from kubeauth._secret import Secret
from kubeauth.errors import ConfigError, RegistryError
from kubeauth.registry._service_account import Pod, ServiceAccount
from kubeauth.schemas._core import (
    BoundObjectReference,
    ObjectMeta,
    PartialObjectMetadata,
    Status,
    TokenRequest,
    TokenRequestSpec,
    TokenRequestStatus,
)

T = TypeVar("T")

_SHARE = 0.8
_LONGEST = 24 * 3600.0
_MOST_KEPT = 1024
_MOST_READ = 2**20
# A DNS name, and in it no part that could be taken for a step in a path.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")

_AUDIENCE = (
    "It may be that whoever asks has no right to this audience: the node's role then needs the verb "
    "request-serviceaccounts-token-audience on it."
)


class Reply(Protocol):
    """What is looked at of a response, whichever library it is of."""

    @property
    def status_code(self) -> int: ...
    @property
    def content(self) -> bytes: ...


class APIClient(Protocol):
    """A `Client` of kubeauth, or of `kubeauth.httpx2`."""

    def get(self, url: str, /) -> Reply: ...
    def post(self, url: str, /, *, json: Mapping[str, object]) -> Reply: ...


class AsyncAPIClient(Protocol):
    """An `AsyncClient` of kubeauth, or of `kubeauth.httpx2`."""

    async def get(self, url: str, /) -> Reply: ...
    async def post(self, url: str, /, *, json: Mapping[str, object]) -> Reply: ...


@dataclass(frozen=True, slots=True)
class _Token:
    token: Secret[str]
    due: float
    date: float
    """When to ask for another, by either clock."""


_Key = tuple[Pod, str, str]


class ClusterServiceAccounts:
    """Asks the API server for a pod's service account, and for its token.

        CredentialProviders(config, bin_dir, service_account=ClusterServiceAccounts(client))

    `client` is for threads, `async_client` for the event loop that it belongs to. With the first alone,
    event loops use it in a thread. Whoever the client is needs to `get` service accounts, and to `create`
    their `token`. Closing the clients is up to you.
    """

    def __init__(
        self,
        client: APIClient | None = None,
        *,
        async_client: AsyncAPIClient | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if client is None and async_client is None:
            raise ConfigError("ClusterServiceAccounts needs a client, an async_client, or both")
        self._client = client
        self._async_client = async_client
        self._clock = clock
        # Guards the tokens, for a few instructions.
        self._mu = threading.Lock()
        self._tokens: dict[_Key, _Token] = {}
        call_after_fork(self)

    def service_account(self, pod: Pod) -> ServiceAccount:
        """That of the pod. RegistryError if there is none, or it may not be read."""
        return _or_raise(_read_account(pod, self._sync().get(_path(pod))))

    async def aservice_account(self, pod: Pod) -> ServiceAccount:
        if self._async_client is None:
            from kubeauth._runtime import run_in_thread  # for those alone who have an event loop

            return await run_in_thread(lambda: self.service_account(pod))
        return _or_raise(_read_account(pod, await self._async_client.get(_path(pod))))

    def token(self, pod: Pod, account: ServiceAccount, audience: str) -> str:
        """A token for that audience, bound to the pod: kept, or a new one. RegistryError if there is none."""
        key = pod, account.uid, audience
        if (kept := self._kept(key)) is not None:
            return kept.reveal()
        reply = self._sync().post(f"{_path(pod)}/token", json=_build_request(pod, account, audience))
        return self._keep(key, _or_raise(_read_token(pod, reply))).reveal()

    async def atoken(self, pod: Pod, account: ServiceAccount, audience: str) -> str:
        if self._async_client is None:
            from kubeauth._runtime import run_in_thread  # for those alone who have an event loop

            return await run_in_thread(lambda: self.token(pod, account, audience))
        key = pod, account.uid, audience
        if (kept := self._kept(key)) is not None:
            return kept.reveal()
        reply = await self._async_client.post(
            f"{_path(pod)}/token", json=_build_request(pod, account, audience)
        )
        return self._keep(key, _or_raise(_read_token(pod, reply))).reveal()

    def after_fork(self) -> None:
        """In a child the lock may be held by a thread that is not there."""
        self._mu = threading.Lock()

    def _sync(self) -> APIClient:
        if self._client is None:
            raise ConfigError(
                "ClusterServiceAccounts has an async_client alone. Give it a client too, or use alookup or "
                "acredentials."
            )
        return self._client

    def _kept(self, key: _Key) -> Secret[str] | None:
        with self._mu:
            kept = self._tokens.get(key)
            if kept is None:
                return None
            if self._clock.monotonic() < kept.due and self._clock.time() < kept.date:
                return kept.token
            del self._tokens[key]
            return None

    def _keep(self, key: _Key, issued: TokenRequestStatus) -> Secret[str]:
        now, date = self._clock.monotonic(), self._clock.time()
        expires = issued.expiration_timestamp
        life = 0.0 if expires is None else min((expires.timestamp() - date) * _SHARE, _LONGEST)
        with self._mu:
            # Of those who asked at the same time, all take the first: a provider is then asked once.
            first = self._tokens.get(key)
            if first is not None and now < first.due and date < first.date:
                return first.token
            if life > 0:
                self._tokens[key] = _Token(issued.token, now + life, date + life)
                if len(self._tokens) > _MOST_KEPT:
                    del self._tokens[next(iter(self._tokens))]
        return issued.token


def _path(pod: Pod) -> str:
    # Who is called .. would have us ask for something else, with rights of ours. A pod that an admission
    # webhook is shown was not validated yet.
    for name in (pod.namespace, pod.service_account):
        if not _NAME.fullmatch(name):
            raise RegistryError(f"no service account can be called {pod.namespace}/{pod.service_account}")
    return f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/{pod.service_account}"


def _build_request(pod: Pod, account: ServiceAccount, audience: str) -> dict[str, Json]:
    return TokenRequest(
        # With its uid: an account that was deleted and created again is another one.
        metadata=ObjectMeta(namespace=account.namespace, name=account.name, uid=account.uid),
        spec=TokenRequestSpec(
            audiences=(audience,),
            bound_object_ref=BoundObjectReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid),
        ),
    ).to_document()


def _read_account(pod: Pod, reply: Reply) -> ServiceAccount | RegistryError:
    document = _read_document(reply)
    which = f"service account {pod.namespace}/{pod.service_account}"
    if reply.status_code != 200:
        return RegistryError(f"{which} cannot be read: {_describe_failure(reply, document)}")
    metadata = validate_leniently(PartialObjectMetadata, document).metadata
    if not metadata.uid:
        return RegistryError(f"{which} cannot be read: the server's response is not a service account")
    return ServiceAccount(pod.namespace, pod.service_account, metadata.uid, metadata.annotations)


def _read_token(pod: Pod, reply: Reply) -> TokenRequestStatus | RegistryError:
    """Errors are returned and not raised, because the response contains the token."""
    document = _read_document(reply)
    which = f"a token for service account {pod.namespace}/{pod.service_account}"
    if reply.status_code not in (200, 201):
        advice = f". {_AUDIENCE}" if reply.status_code == 403 else ""
        return RegistryError(f"{which} cannot be obtained: {_describe_failure(reply, document)}{advice}")
    status = validate_leniently(TokenRequest, document).status
    if not status.token:
        return RegistryError(f"{which} cannot be obtained: the response contains no token")
    return status


def _read_document(reply: Reply) -> Json:
    if len(reply.content) > _MOST_READ:
        return None
    try:
        return read_json(reply.content)
    except DocumentError:
        return None


def _describe_failure(reply: Reply, document: Json) -> str:
    """Return the status code, and the message of the server."""
    message = validate_leniently(Status, document).message
    return f"the server returned {reply.status_code}{f': {message[:300]}' if message else ''}".rstrip(".")


def _or_raise(found: T | RegistryError) -> T:
    if isinstance(found, RegistryError):
        raise found
    return found
