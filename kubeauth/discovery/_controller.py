"""Keeps cluster-info signed, as the controller manager's bootstrapsigner does (A27-A30, A32)."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from types import TracebackType
from typing import NoReturn, Self

from anyio import Event, create_task_group, move_on_after, sleep
from anyio.abc import TaskGroup

from kubeauth._parsing import Json
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.discovery._secrets import StoredToken, expiry_of, stored_token
from kubeauth.discovery._signer import signed_cluster_info
from kubeauth.discovery._token import (
    CLUSTER_INFO_NAME,
    CLUSTER_INFO_NAMESPACE,
    CLUSTER_INFO_PATH,
    SECRET_NAMESPACE,
    SECRET_TYPE,
)
from kubeauth.discovery._watch import (
    TIMEOUT,
    APIClient,
    Mirror,
    document,
    passes,
    pause,
    refusal,
)
from kubeauth.errors import ConfigError

logger = logging.getLogger("kubeauth.discovery")

_SECRETS = f"/api/v1/namespaces/{SECRET_NAMESPACE}/secrets"
_CONFIG_MAPS = f"/api/v1/namespaces/{CLUSTER_INFO_NAMESPACE}/configmaps"
# Somebody else was faster, or it is gone: what there is now will come by itself (A30).
_NOT_OURS_TO_WRITE = (404, 409)
# A clock may be set: nobody sleeps for longer than this.
_LONGEST_WAIT = 600.0


class Signer:
    """Keeps a signature in cluster-info for every bootstrap token that is for signing, and no other.

        async with kubeauth.AsyncClient() as client:
            await Signer(client).run()

    For asyncio and trio. Whoever the client is needs to `list` and `watch` Secrets in kube-system; in
    kube-public to `list` and `watch` ConfigMaps and to `update` the one called cluster-info. Two of them do
    no harm, nor does the bootstrapsigner of the cluster beside it: they all write the same, and nothing
    where nothing is to be changed.

    `retry` is how many seconds it waits between two writes, and when something fails; then longer each time,
    up to half a minute.
    """

    def __init__(self, client: APIClient, *, retry: float = 1.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._retry = retry
        self._clock = clock
        self._running: list[TaskGroup] = []

    async def once(self) -> bool:
        """Signs what there is now. Whether something had to be written, and was.

        DiscoveryError if the server refuses; but not if there is no cluster-info, or somebody else wrote it
        meanwhile.
        """
        run = _Run(self._client, self._retry, self._clock)
        await run.config_maps.list()
        await run.secrets.list()
        return await run.reconcile()

    async def run(self) -> NoReturn:
        """Until it is cancelled. What goes wrong is logged, and tried again; ConfigError is raised."""
        run = _Run(self._client, self._retry, self._clock)
        # What is raised comes by itself, and not as a group of one.
        failure: Exception | None = None
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(run.config_maps.follow)
                tasks.start_soon(run.secrets.follow)
                tasks.start_soon(run.work)
        except* Exception as group:
            failure = _first_of(group)
        raise failure or AssertionError("none of these ever returns")

    async def __aenter__(self) -> Self:
        """Runs beside what is in the block, and is cancelled at its end."""
        if self._running:
            raise ConfigError("this Signer runs already")
        tasks = create_task_group()
        await tasks.__aenter__()
        self._running.append(tasks)
        tasks.start_soon(self.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks = self._running.pop()
        tasks.cancel_scope.cancel()
        # What the block raises goes on as it is, and not as a group of one.
        is_own = isinstance(error, Exception)
        is_handled: bool | None = None
        failure: Exception | None = None
        try:
            if is_own:
                await tasks.__aexit__(None, None, None)
            else:
                is_handled = await tasks.__aexit__(kind, error, trace)
        except* Exception as group:
            failure = _first_of(group)
        if failure is not None and not is_own:
            raise failure
        return is_handled


@dataclass(frozen=True, slots=True)
class _ConfigMap:
    """Not for printing: a traceback need not show a whole one (A92)."""

    document: Json = field(repr=False)


class _Run:
    """What one run knows."""

    def __init__(self, client: APIClient, retry: float, clock: Clock) -> None:
        self._client = client
        self._retry = retry
        self._clock = clock
        self._poked = Event()
        self.config_maps = Mirror[_ConfigMap](
            client,
            _CONFIG_MAPS,
            f"metadata.name={CLUSTER_INFO_NAME}",
            _ConfigMap,
            clock=clock,
            retry=retry,
            changed=self._poke,
        )
        self.secrets = Mirror[StoredToken](
            client,
            _SECRETS,
            f"type={SECRET_TYPE}",
            stored_token,
            clock=clock,
            retry=retry,
            changed=self._poke,
        )

    async def work(self) -> None:
        """Reconciles after each change, one at a time: of changes that come meanwhile there is one more."""
        failures = 0
        while True:
            with move_on_after(self._wait()):
                await self._poked.wait()
            self._poked = Event()
            if not (self.config_maps.is_synced and self.secrets.is_synced):
                continue
            try:
                has_written = await self.reconcile()
            except Exception as error:
                if not passes(error):
                    raise
                failures += 1
                logger.warning("cluster-info is not signed, trying again: %s", error)
                # Whatever changes meanwhile: who refuses is not asked for each of ten thousand Secrets.
                await sleep(pause(self._retry, failures))
                self._poke()
            else:
                failures = 0
                if has_written:
                    # Another signer, whose clock differs, may not agree: nobody must write without end then.
                    await sleep(self._retry)

    async def reconcile(self) -> bool:
        """Writes what is to be written. Whether something was."""
        wanted = self._wanted()
        if wanted is None:
            return False
        reply = await self._client.put(CLUSTER_INFO_PATH, json=wanted.document, timeout=TIMEOUT)
        if reply.status_code in _NOT_OURS_TO_WRITE:
            logger.debug("cluster-info is not what it was: %s", reply.status_code)
            return False
        if reply.status_code not in (200, 201):
            raise refusal(CLUSTER_INFO_PATH, reply.status_code, document(reply.content))
        logger.info("cluster-info is signed")
        return True

    def _wanted(self) -> _ConfigMap | None:
        found = self.config_maps.objects.get(CLUSTER_INFO_NAME)
        if found is None:
            return None
        signed = signed_cluster_info(found.document, self.secrets.objects.values(), self._clock.time())
        # Kind and version are not said by what is in a list.
        return None if signed is None else _ConfigMap({"apiVersion": "v1", "kind": "ConfigMap"} | signed)

    def _poke(self) -> None:
        self._poked.set()

    def _wait(self) -> float:
        """Until something is to be done though nobody says so: a token ends."""
        now = self._clock.time()
        ends = (expiry_of(token) for token in self.secrets.objects.values())
        left = min((end - now for end in ends if end is not None and end > now), default=math.inf)
        return min(left, _LONGEST_WAIT)


def _first_of(group: BaseExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first
