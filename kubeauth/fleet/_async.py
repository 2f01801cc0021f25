"""Send a request to one context after the other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from contextlib import suppress

import httpx

from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._credentials.single_flight import copy_error
from kubeauth.errors import CredentialError, KubeAuthError
from kubeauth.fleet._answer import Answer
from kubeauth.fleet._loops import Limits, client_for, new_lock, run_blocking
from kubeauth.fleet._plan import FAILURES, MOST_REDIRECTS, Plan, Prepared, Reply, as_failures, now, origin_of

logger = logging.getLogger("kubeauth.fleet")


class Login:
    """Whoever gives the credential of some contexts, while a call lasts. Asked once, if it fails."""

    def __init__(self, source: RefreshableSource) -> None:
        self.source = source
        self._before = source.current
        self._failure: KubeAuthError | None = None
        self._is_renewed = False
        # Held while somebody is asked: who comes later finds what came of it, whatever that is.
        self._gate = new_lock()

    async def aget(self) -> Credential:
        """A credential that is good now. The same KubeAuthError for all, if there is none."""
        found = self.source.cached_if_fresh(now())
        if found is not None:
            return found
        async with self._gate:
            if self._failure is not None:
                raise copy_error(self._failure) from self._failure.__cause__
            try:
                return await self.source.aget()
            except KubeAuthError as error:
                self._failure = error
                raise

    async def renewed(self, refused: Credential, origin: Hashable) -> Credential | None:
        """Another one than was refused. None if that was given for this very call: it is as good as any."""
        if refused is not self._before:
            return None
        async with self._gate:
            if self._is_renewed and self.source.current is refused:
                return None
            self._is_renewed = True
            try:
                newer = await self.source.aget(Unauthorized(refused, origin))
            except KubeAuthError as error:
                logger.warning("401 from an API server, and the credential could not be refreshed: %s", error)
                return None
        return newer if newer != refused else None


class Logins:
    """Those of one call. They are kept until it is over: however many there are, each is asked once."""

    def __init__(self) -> None:
        # Guards both, for a few instructions.
        self._mu = threading.Lock()
        self._known: dict[RefreshableSource, Login] = {}
        self._is_over = False

    def of(self, source: RefreshableSource) -> Login:
        """The same for all contexts that have it configured alike. CredentialError once it is closed."""
        with self._mu:
            if self._is_over:
                raise CredentialError("nobody is asked any more: the call is over")
            if source not in self._known:
                self._known[source] = Login(source)
                source.acquire(self)
            return self._known[source]

    async def aclose(self) -> None:
        """Ends whatever still runs for nobody else. May be called again."""
        with self._mu:
            self._is_over = True
            left = [source for source in self._known if source.release(self)]
        for source in left:
            await run_blocking(source.stop)


class Asking:
    """Asks one context after the other. One instance may be shared."""

    def __init__(self, plan: Plan, logins: Logins, limits: Limits) -> None:
        self._plan = plan
        self._logins = logins
        self._limits = limits

    async def answer(self, name: str) -> Answer:
        """What came of it, good or bad."""
        began = now()
        prepared: Prepared | None = None
        try:
            prepared = await run_blocking(self._plan.prepared, name)
            reply = await self._asked(prepared, began)
        except FAILURES as error:
            return self._plan.failed(name, prepared, error, began)
        return self._plan.answered(name, prepared, reply, began)

    async def _asked(self, prepared: Prepared, began: float) -> Reply:
        if prepared.source is None:
            return await self._sent(prepared, None, began)
        login = self._logins.of(prepared.source)
        credential = await login.aget()
        reply = await self._sent(prepared, credential, began)
        if reply.status_code == 401:
            newer = await login.renewed(credential, origin_of(prepared))
            if newer is not None:
                reply = await self._sent(prepared, newer, began)
        return reply

    async def _sent(self, prepared: Prepared, credential: Credential | None, began: float) -> Reply:
        left = self._plan.left(began)
        with self._limits.of(left) as extensions, as_failures():
            signed = prepared.signed(credential)
            client = await run_blocking(client_for, signed, left, MOST_REDIRECTS)
            async with client:
                sent = client.stream(
                    "GET", prepared.url, headers=self._plan.headers_for(signed), extensions=extensions
                )
                async with sent as response:
                    body = await self._read(response)
            encoding = response.headers.get("Content-Encoding", "")
            if encoding:
                body = await run_blocking(self._plan.decoded, body, encoding)
        return Reply(response.status_code, response.headers.get("Content-Type", ""), body)

    async def _read(self, response: httpx.Response) -> bytes:
        body, parts = bytearray(), response.aiter_raw()
        async for part in parts:
            body += part
            if len(body) > self._plan.most_bytes:
                await response.aclose()
                # There is no more: but trio warns of a generator that is left in the middle.
                with suppress(httpx.HTTPError):
                    [_ async for _ in parts]
                raise self._plan.too_large()
        return bytes(body)
