"""Many who want the same token, in threads and in event loops: one request for all; and passwords that change."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from kubeauth import errors
from kubeauth.registry._auth import RegistryAuth
from kubeauth.registry._values import RegistryCredential
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.registry.servers import Registry, auth_of, client
from tests.support.clients import ClientVariant

ALICE = RegistryCredential("alice", "wonderland")
URL = "https://registry.test/v2/team/app/manifests/v1"
REALM = "https://auth.test/token"

# Where threads share a client no connection is kept: httpcore takes one that a thread has just been given for
# idle, and closes it now and then. That is the same without any auth.

THREADS = 20
# Kind, and how many tasks it has.
LOOPS = (("asyncio", 327), ("asyncio", 327), ("trio", 326))
EVERYBODY = THREADS + sum(tasks for _, tasks in LOOPS)


class Held:
    """A registry in memory. Its token endpoint answers when it is let go: with `status`, or not at all."""

    def __init__(self, status: int | None = 200) -> None:
        self.status = status
        self.go = threading.Event()
        # Guards the two below.
        self._mu = threading.Lock()
        self.looked_up = self.asked = 0

    def credentials(self, _image: str) -> Sequence[RegistryCredential]:
        """Asked by each caller, and then it needs a token."""
        self._count("looked_up")
        return [ALICE]

    async def acredentials(self, image: str) -> Sequence[RegistryCredential]:
        return self.credentials(image)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "auth.test":
            self._count("asked")
            self.go.wait()
            return self._token()
        return self._answer(request)

    async def slowly(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "auth.test":
            self._count("asked")
            while not self.go.is_set():  # noqa: ASYNC110 -- it is let go from a thread
                await anyio.sleep(0.001)
            return self._token()
        return self._answer(request)

    def _token(self) -> httpx.Response:
        if self.status is None:
            raise httpx.ConnectError("nobody there")
        return httpx.Response(self.status, json={"token": "t", "expires_in": 300})

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.headers.get("Authorization") == "Bearer t":
            return httpx.Response(200)
        return httpx.Response(401, headers={"WWW-Authenticate": f'Bearer realm="{REALM}"'})

    def _count(self, name: str) -> None:
        with self._mu:
            setattr(self, name, getattr(self, name) + 1)


def until(claim: Callable[[], bool]) -> None:
    while not claim():
        time.sleep(0.001)


class Crowd:
    def __init__(self, held: Held) -> None:
        self.held = held
        self.auth = RegistryAuth(held)
        self.outcomes: list[object] = []

    def rush(self) -> None:
        threads = [threading.Thread(target=self._thread) for _ in range(THREADS)]
        threads += [
            threading.Thread(target=partial(anyio.run, self._tasks, tasks, backend=kind))
            for kind, tasks in LOOPS
        ]
        for thread in threads:
            thread.start()
        until(lambda: self.held.looked_up == EVERYBODY)
        self.held.go.set()
        for thread in threads:
            thread.join()

    def _thread(self) -> None:
        with httpx.Client(auth=self.auth, transport=httpx.MockTransport(self.held), timeout=60) as it:
            try:
                self.outcomes.append(it.get(URL).status_code)
            except (httpx.HTTPError, errors.KubeAuthError) as error:
                self.outcomes.append(type(error))

    async def _tasks(self, count: int) -> None:
        transport = httpx.MockTransport(self.held.slowly)
        async with (
            httpx.AsyncClient(auth=self.auth, transport=transport, timeout=60) as it,
            anyio.create_task_group() as group,
        ):
            for _ in range(count):
                group.start_soon(self._task, it)

    async def _task(self, it: httpx.AsyncClient) -> None:
        try:
            self.outcomes.append((await it.get(URL)).status_code)
        except (httpx.HTTPError, errors.KubeAuthError) as error:
            self.outcomes.append(type(error))


def test_a_thousand_callers_cause_one_request_for_a_token() -> None:
    crowd = Crowd(Held())
    crowd.rush()
    assert Counter(crowd.outcomes) == {200: EVERYBODY}
    assert crowd.held.asked == 1


def test_a_thousand_refused_callers_have_been_refused_once() -> None:
    crowd = Crowd(Held(401))
    crowd.rush()
    assert Counter(crowd.outcomes) == {errors.ChallengeError: EVERYBODY}
    # Who came when it had landed asked for themselves: nothing is kept of a refusal.
    assert crowd.held.asked < EVERYBODY / 2


def test_an_endpoint_that_is_not_there_holds_nobody_up() -> None:
    """Nobody waits for a thousand others to fail, one after the other."""
    crowd = Crowd(Held(None))
    crowd.rush()
    assert Counter(crowd.outcomes) == {httpx.ConnectError: EVERYBODY}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_whoever_is_cancelled_takes_nobody_with_them(backend: str) -> None:
    held = Held()
    auth = RegistryAuth(held)
    outcomes: list[int] = []

    async def main() -> None:
        async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(held.slowly), timeout=60) as it:

            async def call() -> None:
                outcomes.append((await it.get(URL)).status_code)

            async with anyio.create_task_group() as others:
                async with anyio.create_task_group() as first:
                    first.start_soon(call)
                    while not held.asked:  # noqa: ASYNC110 -- the server does not know of it
                        await anyio.sleep(0.001)
                    for _ in range(10):
                        others.start_soon(call)
                    while held.looked_up < 11:  # noqa: ASYNC110 -- no event tells of it
                        await anyio.sleep(0.001)
                    first.cancel_scope.cancel()
                while held.asked < 2:  # noqa: ASYNC110 -- no event tells of it
                    await anyio.sleep(0.001)
                held.go.set()

    anyio.run(main, backend=backend)
    assert outcomes == [200] * 10
    assert held.asked == 2  # that of who was cancelled, and one for all the others


def test_a_hook_that_asks_while_its_thread_asks_does_not_wait_for_itself() -> None:
    held = Held()
    held.go.set()
    inner: list[int] = []

    def ask_again(request: httpx.Request) -> None:
        if request.url.host == "auth.test" and not inner:
            inner.append(0)
            inner[0] = it.get(URL).status_code

    with httpx.Client(
        auth=RegistryAuth(ALICE), transport=httpx.MockTransport(held), event_hooks={"request": [ask_again]}
    ) as it:
        assert it.get(URL).status_code == 200
    assert inner == [200]


def test_connections_are_not_held_while_others_ask(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """Ten callers, and two connections: who waits for a token holds none."""
    limits = variant.library.Limits(max_connections=2, max_keepalive_connections=0)
    with client(variant, authority, auth_of(variant)(ALICE), limits=limits, timeout=30) as driver:
        with ThreadPoolExecutor(10) as pool:
            answers = list(
                pool.map(lambda _: driver.get(f"{registry.url}/v2/team/app/manifests/v1"), range(10))
            )
    assert [answer.status_code for answer in answers] == [200] * 10


@pytest.mark.slow
def test_nobody_waits_longer_for_others_than_for_an_answer(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """Who has no time limit asks for a token, and gets no answer. Others have a limit, and the same auth."""
    url = f"{registry.url}/v2/team/app/manifests/v1"
    let_go = threading.Event()
    is_first = threading.Lock()

    def issue(request: RawRequest) -> Answer:
        if is_first.acquire(blocking=False):
            let_go.wait()
        return registry.issue(request)

    def asked(driver: Any) -> Any:
        """On a busy machine the registry itself may take longer than their limit: they ask again."""
        for _ in range(10):
            with suppress(variant.library.ReadTimeout):
                return driver.get(url)
        return driver.get(url)

    registry.tokens.respond = issue
    auth = auth_of(variant)(ALICE)
    with (
        client(variant, authority, auth, timeout=None) as patient,
        client(variant, authority, auth, timeout=variant.library.Timeout(30, read=2)) as impatient,
        ThreadPoolExecutor(11) as pool,
    ):
        waiting = pool.submit(patient.get, url)
        until(lambda: len(registry.tokens.requests) == 1)
        answers = list(pool.map(lambda _: asked(impatient), range(10)))
        assert not waiting.done()
        let_go.set()
        assert [answer.status_code for answer in (*answers, waiting.result())] == [200] * 11


class Rotating:
    """As a provider with a cache: gives what it has, and looks again when that was refused."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._held = self._current()

    def _current(self) -> RegistryCredential:
        with self._registry.lock:
            return RegistryCredential("alice", self._registry.users["alice"])

    def credentials(self, _image: str) -> Sequence[RegistryCredential]:
        return [self._held]

    async def acredentials(self, image: str) -> Sequence[RegistryCredential]:
        return self.credentials(image)

    def refused(self, _image: str, credential: RegistryCredential) -> None:
        if credential == self._held:  # compare and swap: a late word changes nothing
            self._held = self._current()


def wait_for_three_more(done: list[int], calls: list[Future[None]]) -> None:
    """Of each caller; or until one has failed."""
    before = list(done)
    until(
        lambda: (
            all(now >= then + 3 for now, then in zip(done, before, strict=True))
            or any(each.done() for each in calls)
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("asks_for_basic", [True, False])
def test_a_password_that_rotates_under_load_fails_nobody(
    variant: ClientVariant, authority: Authority, asks_for_basic: bool
) -> None:
    """Each time all tokens end with the password. No request meets two rotations: the next waits for all callers."""
    with Registry(authority, asks_for_basic=asks_for_basic, alice="p0") as registry:
        done = [0] * 4
        outcomes: Counter[Any] = Counter()
        is_over = threading.Event()
        limits = variant.library.Limits(max_keepalive_connections=0)
        with client(
            variant, authority, auth_of(variant)(Rotating(registry)), timeout=30, limits=limits
        ) as driver:

            def call(number: int) -> None:
                while not is_over.is_set():
                    path = f"/v2/team/app-{done[number] % 3}/manifests/v1"
                    outcomes[driver.get(registry.url + path).status_code] += 1
                    done[number] += 1

            with ThreadPoolExecutor(len(done)) as pool:
                calls = [pool.submit(call, number) for number in range(len(done))]
                try:
                    for rotation in range(1, 8):
                        wait_for_three_more(done, calls)
                        with registry.lock:
                            registry.users["alice"] = f"p{rotation}"
                            registry.issued.clear()
                finally:
                    is_over.set()
                for each in calls:
                    each.result()
        assert set(outcomes) == {200}
