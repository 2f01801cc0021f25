"""One image credential provider: asked once for all who want to know, and what it gave is kept (3.x, 4.x)."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from kubeauth._credentials.single_flight import (
    Call,
    Decision,
    Lead,
    SingleFlight,
    Use,
    Wait,
    traceback_locations,
)
from kubeauth._exec.process import (
    MAX_OUTPUT,
    PluginProcess,
    ProcessResult,
    Program,
    build_program,
    run,
    start_advice,
    stderr_suffix,
    stderr_text,
)
from kubeauth._runtime import Clock, call_after_fork
from kubeauth.errors import KubeAuthError, ProviderError
from kubeauth.registry._cache import Cache, Given, base_key
from kubeauth.registry._keyring import placed
from kubeauth.registry._observer import ProviderObserver
from kubeauth.registry._service_account import Account
from kubeauth.registry._values import RegistryCredential
from kubeauth.registry._wire import BadResponse, Request, read_response, write_request
from kubeauth.schemas._credential_provider import CredentialProvider, CredentialProviderResponse

logger = logging.getLogger("kubeauth.registry")

TIMEOUT = 60.0
"""Seconds, as the kubelet has it (3.6)."""
MOST_AT_ONCE = 32
"""Runs of one provider. A program may ask about a thousand images at a time, which no node does."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error on its way to a frame that may raise it."""

    error: ProviderError
    cause: OSError | None = None


class AskedProvider(SingleFlight[Given]):
    """A provider of the configuration, and its program."""

    def __init__(
        self,
        config: CredentialProvider,
        path: str,
        *,
        environ: Mapping[str, str] | None,
        clock: Clock,
        observer: ProviderObserver,
        timeout: float = TIMEOUT,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`environ` is what it inherits; None: the variables of this process, as they are when it is run."""
        self.config = config
        self.path = path
        self._environ = environ
        self._observer = observer
        self._timeout = timeout
        self._chance = chance
        self._children: set[PluginProcess] = set()
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        # Guards everything below, for a few instructions; never held over a run or an `await`.
        self._mu = threading.Lock()
        self._cache = Cache(clock)
        self._calls: dict[Hashable, Call[Given]] = {}
        self._is_closed = False
        call_after_fork(self)

    def get(self, image: str, account: Account | None) -> Given:
        """What it gives for `image`: kept, or asked for. ProviderError if it gives nothing that is of use."""
        return self.run(
            lambda own: self._decide(image, account, own), lambda own: self._fetch(image, account, own)
        )

    async def aget(self, image: str, account: Account | None) -> Given:
        """As `get`, off the event loop. Cancelling leaves the run to itself, and its result to the others."""
        return await self.arun(
            lambda own: self._decide(image, account, own), lambda own: self._fetch(image, account, own)
        )

    def refused(self, image: str, credential: RegistryCredential) -> None:
        """A registry did not take it: if it is what is kept, that is not handed out again, within limits."""
        digest = credential.digest
        with self._mu:
            self._cache.refused(digest, image, self._chance())

    def accepted(self, image: str, credential: RegistryCredential) -> None:
        """A registry took it: if it is what is kept, and another was refused before, that was worth a run."""
        digest = credential.digest
        with self._mu:
            self._cache.accepted(digest, image, self._chance())

    def close(self) -> None:
        """Ends what runs. Who waits for it is told, and so is who comes later."""
        with self._mu:
            self._is_closed = True
            for call in self._calls.values():
                call.cancelled = True
        for child in list(self._children):
            child.stop()

    def after_fork(self) -> None:
        """In a child: the lock may be held, and what runs is the parent's."""
        self._mu = threading.Lock()
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._calls = {}
        self._children = set()

    def _decide(self, image: str, account: Account | None, own: Call[Given]) -> Decision[Given]:
        key = account.key if account is not None else ()
        # By image, not by what the answer will be kept under, which nobody knows yet (4.11). Tokens never
        # share a run, though their answers may share a place (4.20).
        own.key = image, key, account.token_hash if account is not None else ""
        with self._mu:
            if self._is_closed:
                raise self._failed(image, "it is closed", "closed")
            # Under the lock that a run lands under: who comes a moment too late finds what it gave (4.12).
            if (given := self._cache.get(image, key)) is not None:
                return Use(given)
            call = self._calls.setdefault(own.key, own)
            return Lead(call) if call is own else Wait(call)

    def _fetch(self, image: str, account: Account | None, call: Call[Given]) -> None:
        """Runs it, and lands whatever comes of it."""
        try:
            call.leader_thread = threading.get_ident()
            started = time.monotonic()
            # Whoever stops it now may come before there is a program to stop.
            with self._room:
                response = self._asked_for(image, account, lambda: call.cancelled)
            given = self._given(response)
        except KubeAuthError as error:
            # Once for all who wait for it; others are asked all the same (3.17).
            logger.warning("%s\nThe lookup goes on without it", error)
            self._fail(call, error)
        except Exception as error:
            what = type(error).__name__
            logger.error("unexpected %s in:\n%s", what, traceback_locations(error))  # noqa: TRY400 -- its words
            self._fail(call, self._internal_error(error))
        except BaseException as error:  # Ctrl-C
            # Where it struck, variables may hold what was said, either way.
            traceback.clear_frames(error.__traceback__)
            raise
        else:
            with self._mu:
                self._keep_locked(image, account, response, given)
                self._end_call_locked(call)
            seconds = time.monotonic() - started
            told = self.config.name, len(given.credentials), image, seconds
            logger.info("provider %s gave %d credentials for %s in %.1f s", *told)
            for key, why in given.skipped:
                logger.warning("provider %s: left out the key %s: %s", self.config.name, key, why)
            call.complete(given)
        finally:
            self._cancel(call)

    def _keep_locked(
        self, image: str, account: Account | None, response: CredentialProviderResponse, given: Given
    ) -> None:
        seconds = response.cache_duration
        if seconds is None:
            seconds = self.config.default_cache_duration or 0.0
        key = account.key if account is not None else ()
        self._cache.put(base_key(response.cache_key_type, image), key, given, seconds)

    def _given(self, response: CredentialProviderResponse) -> Given:
        entries = {
            key: RegistryCredential(entry.username, entry.password.reveal())
            for key, entry in response.auth.items()
        }
        good, skipped = placed(entries, f"provider {self.config.name}")
        return Given(tuple(good), tuple(skipped))

    def _fail(self, call: Call[Given], error: KubeAuthError) -> None:
        error.with_traceback(None)
        with self._mu:
            self._end_call_locked(call)
        call.complete(error)

    def _cancel(self, call: Call[Given]) -> None:
        with self._mu:
            self._end_call_locked(call)
        call.complete(None)

    def _end_call_locked(self, call: Call[Given]) -> None:
        if self._calls.get(call.key) is call:
            del self._calls[call.key]

    @property
    def _name(self) -> str:
        return f"provider {self.config.name}"

    def _error(self, message: str) -> ProviderError:
        return ProviderError(message, provider=self.config.name)

    def _failed(
        self, image: str, what: str, reason: str, *, exit_code: int | None = None, stderr_tail: str = ""
    ) -> ProviderError:
        return ProviderError(
            f"provider {self.config.name} gave no credentials for {image}: {what}",
            provider=self.config.name,
            reason=reason,
            exit_code=exit_code,
            stderr_tail=stderr_tail,
        )

    def _asked_for(
        self, image: str, account: Account | None, is_cancelled: Callable[[], bool]
    ) -> CredentialProviderResponse:
        answer = self._answer(image, account, is_cancelled)
        if not isinstance(answer, _Failure):
            return answer
        # Raised here, where nothing of the output was ever held.
        raise answer.error from answer.cause

    def _answer(
        self, image: str, account: Account | None, is_cancelled: Callable[[], bool]
    ) -> CredentialProviderResponse | _Failure:
        started = time.monotonic()
        ended = self._run(image, account, is_cancelled)
        failed = isinstance(ended, _Failure) or bool(ended.killed or ended.exit_code)
        if (
            isinstance(ended, _Failure) or ended.killed != "stopped"
        ):  # that was us, or it was not even started
            seconds = time.monotonic() - started
            self._observer.on_provider_run(provider=self.config.name, seconds=seconds, failed=failed)
        if isinstance(ended, _Failure):
            return ended
        if failed:
            return _Failure(self._ended_badly(image, ended))
        # Who keeps its answers by token may give the token itself; nobody else (4.17).
        forbidden = account.token if account is not None and account.cache_type != "Token" else None
        response = read_response(ended.stdout, self.config.api_version, forbidden=forbidden)
        if isinstance(response, BadResponse):
            what = f"its answer cannot be used: {response.reason}. {response.advice}"
            return _Failure(self._failed(image, what, "token" if response.is_echo else "output", exit_code=0))
        return response

    def _run(
        self, image: str, account: Account | None, is_cancelled: Callable[[], bool]
    ) -> ProcessResult | _Failure:
        try:
            return run(
                self._program(image, account),
                interactive=False,
                timeout=self._timeout,
                children=self._children,
                is_cancelled=is_cancelled,
                copy_stderr=False,
            )
        except OSError as error:
            words = (error.strerror or "unknown error").lower()
            what = f"{self.path} cannot be started: {words}. {start_advice(error)}".rstrip()
            return _Failure(self._failed(image, what, "start"), error.with_traceback(None))
        except ValueError:
            # Without its message, and not as the cause: it may quote an argument.
            what = (
                "an argument or environment variable for it is invalid: it contains a NUL byte or a lone "
                "surrogate, or the variable's name an equals sign. Check args and env of the provider."
            )
            return _Failure(self._failed(image, what, "start"))

    def _program(self, image: str, account: Account | None) -> Program[str] | Program[bytes]:
        """Apart from `_run`, whose variables are part of the traceback when somebody presses Ctrl-C."""
        request = Request(image, self.config.api_version)
        if account is not None:
            annotations = dict(account.annotations)
            request = Request(image, self.config.api_version, account.token, annotations)
        # Of several variables of one name the last counts (3.5).
        return build_program(
            self.path,
            [self.path, *self.config.args],
            self._environ,
            {variable.name: variable.value.reveal() for variable in self.config.env},
            write_request(request),
        )

    def _ended_badly(self, image: str, ended: ProcessResult) -> ProviderError:
        said = stderr_suffix(ended.stderr_tail)
        tail = stderr_text(ended.stderr_tail)
        if ended.killed == "timeout":
            seconds = f"{self._timeout:g} seconds"
            what = f"it timed out after {seconds}. Find out what it waits for.{said}"
            return self._failed(image, what, "timeout", stderr_tail=tail)
        if ended.killed == "output":
            what = f"it printed more than {MAX_OUTPUT // 2**20} MiB. Is it a credential provider?"
            return self._failed(image, what, "output")
        if ended.killed:
            return self._failed(image, "it was killed because its providers were closed", "closed")
        signal = " (killed by a signal)" if ended.exit_code < 0 else ""
        silent = f". It printed nothing to stderr; run {self.path} by hand to see why."
        what = f"it failed with exit code {ended.exit_code}{signal}{said or silent}"
        return self._failed(image, what, "exit", exit_code=ended.exit_code, stderr_tail=tail)


def program_path(bin_dir: str, name: str) -> str | None:
    """Where the program of a provider is; None if there is none that may be run (1.41). PATH has no say."""
    path = os.path.join(bin_dir, name)
    for found in (path, f"{path}.exe") if os.name == "nt" else (path,):
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None
