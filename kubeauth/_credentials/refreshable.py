"""RefreshableSource: caches, refreshes and shares the credential of one exec plugin or OIDC issuer."""

from __future__ import annotations

import logging
import math
import random
import threading
import traceback
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Self

from kubeauth._credentials.backoff import UNLIMITED, RateLimit, backoff_delay, refresh_window
from kubeauth._credentials.client_cert import Validity, find_cert_problem, read_validity
from kubeauth._credentials.credential import (
    ClientCertificate,
    Credential,
    Status,
    Unauthorized,
    credential_kind,
    find_header_problem,
)
from kubeauth._credentials.provider import CredentialProvider
from kubeauth._credentials.single_flight import (
    Call,
    Decision,
    Lead,
    SingleFlight,
    Use,
    Wait,
    copy_error,
    traceback_locations,
)
from kubeauth._exec.codec import ProviderCredential
from kubeauth._exec.config import ERROR_PREFIX
from kubeauth._observer import Observer
from kubeauth._parsing.go import expiry_suffix, to_datetime
from kubeauth._runtime import Clock, ProcessBound, call_after_fork
from kubeauth.errors import KubeAuthError

logger = logging.getLogger("kubeauth.credentials")

NO_CREDENTIAL = Credential()

# Limits memory, if a plugin is shared by that many clusters that all reject its credential.
_MAX_ORIGINS = 4096


@dataclass(frozen=True, slots=True)
class CachedCredential:
    """The credential of the last run, and until when it is valid. Immutable, replaced as a whole (C15)."""

    credential: Credential
    validity: Validity | None
    """The validity period of its client certificate."""
    expires_at: float
    """By the wall clock."""
    expires_monotonic: float
    """By the monotonic clock. It is expired when either clock says so."""
    refresh_monotonic: float
    """When to refresh it: until this, and until `refresh_at` by the wall clock, it is fresh."""
    refresh_at: float

    @classmethod
    def from_run(
        cls,
        now: float,
        date: float,
        credential: Credential,
        validity: Validity | None,
        expires_at: float | None,
        *,
        seconds: float,
        jitter: float,
    ) -> Self:
        """Return the credential of a run that took `seconds` and has just ended."""
        if expires_at is None:
            return cls(credential, validity, math.inf, math.inf, math.inf, math.inf)
        lifetime = expires_at - date
        expires = now + lifetime
        window = refresh_window(lifetime, seconds, jitter) if lifetime > 0 else 0.0
        return cls(credential, validity, expires_at, expires, expires - window, expires_at - window)

    def is_valid(self, now: float, date: float) -> bool:
        # At the moment of its expiry it is still valid (X43).
        return now <= self.expires_monotonic and date <= self.expires_at

    def is_unchanged(self, credential: Credential, expires_at: float | None, *, since: float) -> bool:
        """Return whether a run returned the cached credential, which was valid when the run began.

        Some plugins cache a token until it expires, so that it can expire during the run.
        """
        # Only with the same expiry: a plugin that returns an expired token each time must not run forever.
        return expires_at == self.expires_at and since <= self.expires_at and credential == self.credential


EMPTY_CACHE = CachedCredential(NO_CREDENTIAL, None, -math.inf, -math.inf, -math.inf, -math.inf)


class RefreshableSource(ProcessBound, SingleFlight[Credential]):
    """A plugin or issuer and its credential, shared by all clients with the same configuration."""

    def __init__(
        self,
        provider: CredentialProvider,
        clock: Clock,
        observer: Observer,
        *,
        refresh_ahead: bool = True,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._observer = observer
        self._refresh_ahead = refresh_ahead
        self._jitter = jitter
        # Guards everything below, for a few instructions; never held during a run or an `await`.
        self._lock = threading.Lock()
        self._cached = EMPTY_CACHE
        self._call: Call[Credential] | None = None
        self._failure: KubeAuthError | None = None
        self._failures = 0
        self._retry_at = -math.inf
        self._rate_limits: dict[Hashable, RateLimit] = {}
        self._clients: weakref.WeakSet[object] = weakref.WeakSet()
        call_after_fork(self)

    @property
    def provider(self) -> CredentialProvider:
        return self._provider

    @property
    def current(self) -> Credential:
        """The credential of the last run, expired or not; an empty credential before the first run."""
        return self._cached.credential

    def cached_if_fresh(self, now: float) -> Credential | None:
        """Return the credential if it need not be refreshed. Most requests call nothing else."""
        cached = self._cached
        is_fresh = now < cached.refresh_monotonic and self._clock.time() < cached.refresh_at
        return cached.credential if is_fresh else None

    def get(self, unauthorized: Unauthorized | None = None) -> Credential:
        """Return a valid credential: the cached one, or that of a run it starts or waits for. KubeAuthError.

        With `unauthorized`, return a different one, or the same if it is too soon to run the provider again.
        """
        return self.run(lambda own: self._decide(unauthorized, own), self._fetch)

    async def aget(self, unauthorized: Unauthorized | None = None) -> Credential:
        """As `get`, without blocking the event loop. A cancelled caller does not stop the run."""
        return await self.arun(lambda own: self._decide(unauthorized, own), self._fetch)

    def reset_rate_limit(self, origin: Hashable) -> None:
        """Allow the next 401 from `origin` to run the provider at once: it accepted a replayed request."""
        with self._lock:
            self._rate_limits.pop(origin, None)

    def status(self, other_error: KubeAuthError | None = None) -> Status:
        """Return source, kind, expiry and last error."""
        with self._lock:
            cached, failure = self._cached, self._failure
        expires = to_datetime(cached.expires_at) if math.isfinite(cached.expires_at) else None
        if expires is None and cached.validity is not None:
            expires = to_datetime(cached.validity.not_after)
        return Status(
            source=self._provider.source,
            kind=credential_kind(cached.credential),
            expires=expires,
            last_error=failure or other_error,
        )

    def is_expired(self) -> bool:
        """Return whether the credential has expired, and this source is not needed to get the next one."""
        cached = self._cached
        is_valid = cached.is_valid(self._clock.monotonic(), self._clock.time())
        return (
            cached.credential is not NO_CREDENTIAL and not is_valid and not self._provider.holds_unsaved_token
        )

    def acquire(self, client: object) -> None:
        """Register `client` as a user of this source, until `release` or until it is garbage-collected."""
        with self._lock:
            self._clients.add(client)

    def release(self, client: object) -> bool:
        """Unregister `client`. Return whether to call `stop`: it was the last, and the provider runs."""
        with self._lock:
            self._clients.discard(client)
            if self._clients or self._call is None:
                return False
            self._call.cancelled = True
            return True

    def stop(self) -> None:
        """Stop the run in progress."""
        self._provider.stop()

    def after_fork(self) -> None:
        """In a forked child the lock may be held, and the thread that runs the provider does not exist."""
        self._lock = threading.Lock()
        if self._call is not None:
            self._drop_locked(self._call)
        self._provider.after_fork()

    def _decide(self, unauthorized: Unauthorized | None, own: Call[Credential]) -> Decision[Credential]:
        is_refreshing_ahead = False
        with self._lock:
            now, date = self._clock.monotonic(), self._clock.time()
            cached = self._cached
            is_valid = cached.is_valid(now, date)
            # Compare and swap: a late 401 for an older credential changes nothing (C8, C14).
            is_rejected = (
                is_valid and unauthorized is not None and unauthorized.credential is cached.credential
            )
            if not is_valid or is_rejected:
                if self._call is not None:
                    return Wait(self._call)
                self._raise_if_backing_off_locked(now)
                if unauthorized is None or not is_rejected:
                    return self._lead_locked(
                        own, "first" if cached.credential is NO_CREDENTIAL else "expired"
                    )
                if not self._can_run_again_locked(unauthorized.origin, now):
                    return Use(cached.credential)
                return self._lead_locked(own, "unauthorized")
            if now >= cached.refresh_monotonic or date >= cached.refresh_at:
                is_refreshing_ahead = self._start_refresh_ahead_locked(own, now)
        if is_refreshing_ahead:
            self._work_in_background(own, self._fetch)
        return Use(cached.credential)

    def _can_run_again_locked(self, origin: Hashable, now: float) -> bool:
        """Return whether a 401 from `origin` may run the provider, and count it."""
        limit = self._rate_limits.get(origin, UNLIMITED)
        is_allowed = limit.allows(now)
        # Ordered by the last 401: the first is the origin whose last 401 is oldest.
        self._rate_limits.pop(origin, None)
        if len(self._rate_limits) >= _MAX_ORIGINS:
            del self._rate_limits[next(iter(self._rate_limits))]
        self._rate_limits[origin] = (
            limit.after_run(now, self._jitter()) if is_allowed else limit.after_401(now)
        )
        return is_allowed

    def _raise_if_backing_off_locked(self, now: float) -> None:
        if self._failure is not None and now < self._retry_at:
            raise copy_error(self._failure) from self._failure.__cause__

    def _lead_locked(self, call: Call[Credential], reason: str) -> Lead[Credential]:
        call.reason = reason
        self._call = call
        return Lead(call)

    def _start_refresh_ahead_locked(self, call: Call[Credential], now: float) -> bool:
        """Return whether to refresh ahead now. Later requests do not start another refresh."""
        if self._call is not None or now < self._retry_at:
            return False
        cached = self._cached
        self._cached = replace(
            cached, refresh_monotonic=cached.expires_monotonic, refresh_at=cached.expires_at
        )
        if not self._refresh_ahead or self._provider.is_interactive:
            return False
        self._lead_locked(call, "refresh_ahead")
        return True

    def _cancel(self, call: Call[Credential]) -> None:
        with self._lock:
            if self._call is call:
                self._drop_locked(call)
        call.complete(None)

    def _drop_locked(self, call: Call[Credential]) -> None:
        self._call = None
        if call.reason == "refresh_ahead":
            self._cached = replace(self._cached, refresh_monotonic=-math.inf, refresh_at=-math.inf)

    @property
    def _name(self) -> str:
        return self._provider.name

    def _error(self, message: str) -> KubeAuthError:
        return self._provider.error(f"{ERROR_PREFIX}{message}")

    def _fetch(self, call: Call[Credential]) -> None:
        """Run the provider and complete the call, whatever happens."""
        try:
            call.leader_thread = threading.get_ident()
            started = self._clock.monotonic(), self._clock.time()
            # `release` may cancel the call before there is a process to stop.
            response = self._provider.fetch(lambda: call.cancelled)
            credential = self._build_credential(response)
            certificate = credential.client_certificate
            validity = read_validity(certificate) if certificate else None
        except KubeAuthError as error:
            self._fail(call, error)
        except Exception as error:
            kind = type(error).__name__
            logger.error("unexpected %s in:\n%s", kind, traceback_locations(error))  # noqa: TRY400 -- secrets
            self._fail(call, self._internal_error(error))
        except BaseException as error:  # Ctrl-C
            # Local variables of its frames may hold a secret.
            traceback.clear_frames(error.__traceback__)
            raise
        else:
            self._store(call, credential, validity, response.expires, started)
        finally:
            self._cancel(call)

    def _build_credential(self, response: ProviderCredential) -> Credential:
        credential, before = build_credential(response, self._provider), self._cached.credential
        certificate = credential.client_certificate
        if certificate is not None and certificate == before.client_certificate:
            # The same object, so that its connections stay in use.
            return Credential(credential.authorization, before.client_certificate)
        return credential

    def _store(
        self,
        call: Call[Credential],
        credential: Credential,
        validity: Validity | None,
        expires_at: float | None,
        started: tuple[float, float],
    ) -> None:
        """Cache the credential of a run. `started` is when it began, by the monotonic and the wall clock."""
        with self._lock:
            now, date = self._clock.monotonic(), self._clock.time()
            before = self._cached
            self._end_call_locked(call)
            is_expired = expires_at is not None and expires_at < date
            is_unchanged = is_expired and before.is_unchanged(credential, expires_at, since=started[1])
            if is_expired and not is_unchanged:
                self._back_off_locked(_build_expired_error(self._provider), now)
            elif not is_expired:
                self._failure, self._failures, self._retry_at = None, 0, -math.inf
            # An expired credential is still returned once (X45), but does not replace a valid one, even after
            # a 401: other servers may accept the credential that one has rejected.
            if is_expired and before.is_valid(now, date):
                self._postpone_refresh_locked(call, now, date)
            elif not is_unchanged:
                self._cached = CachedCredential.from_run(
                    now,
                    date,
                    credential,
                    validity,
                    expires_at,
                    seconds=now - started[0],
                    jitter=self._jitter(),
                )
        logger.info(
            "%s returned a %s in %.1f s%s",
            self._provider.source,
            credential_kind(credential),
            now - started[0],
            expiry_suffix(expires_at),
        )
        self._observer.on_refresh(reason=call.reason, succeeded=not is_expired)
        self._observe(before, self._cached, date)
        # If it is unchanged, it has expired during the run: waiters decide again, and one starts another run.
        call.complete(None if is_unchanged else credential)

    def _observe(self, before: CachedCredential, after: CachedCredential, date: float) -> None:
        old, new = before.credential, after.credential
        if old is new:
            return
        if before.validity is not None and old.client_certificate is not new.client_certificate:
            age = date - before.validity.not_before
            lifetime = before.validity.not_after - before.validity.not_before
            self._observer.on_certificate_rotated(age=age, lifetime=lifetime)
        token_expires = new.authorization is not None and math.isfinite(after.expires_at)
        self._observer.on_credential(
            self,
            certificate_expires=after.validity.not_after if after.validity else None,
            token_expires=after.expires_at if token_expires else None,
        )

    def _fail(self, call: Call[Credential], error: KubeAuthError) -> None:
        error.with_traceback(None)
        with self._lock:
            now, date = self._clock.monotonic(), self._clock.time()
            self._end_call_locked(call)
            if not call.cancelled:
                self._back_off_locked(error, now)
            self._postpone_refresh_locked(call, now, date)
            cached = self._cached
            # A client that was created after the last one was closed needs a credential: it decides again.
            result = None if call.cancelled and self._clients else error
        if cached.is_valid(now, date) and not call.cancelled:
            logger.warning(
                "credential refresh failed; using the cached credential%s: %s", _format_until(cached), error
            )
        self._observer.on_refresh(reason=call.reason, succeeded=False)
        call.complete(result)

    def _end_call_locked(self, call: Call[Credential]) -> None:
        if self._call is call:  # otherwise it was cancelled, and another may have started
            self._call = None

    def _back_off_locked(self, error: KubeAuthError, now: float) -> None:
        self._failures += 1
        self._failure = error
        self._retry_at = now + backoff_delay(self._failures, self._jitter())

    def _postpone_refresh_locked(self, call: Call[Credential], now: float, date: float) -> None:
        """After a failed refresh ahead, set when to try the next one."""
        if call.reason != "refresh_ahead":
            return
        cached, wait = self._cached, max(self._retry_at - now, 0.0)
        self._cached = replace(
            cached,
            refresh_monotonic=min(cached.expires_monotonic, now + wait),
            refresh_at=min(cached.expires_at, date + wait),
        )


def _format_until(cached: CachedCredential) -> str:
    expires = to_datetime(cached.expires_at) if math.isfinite(cached.expires_at) else None
    return f" until it expires at {expires:%Y-%m-%dT%H:%M:%SZ}" if expires else ""


def _build_expired_error(provider: CredentialProvider) -> KubeAuthError:
    return provider.invalid_output_error(
        f"{provider.description} returned an expired credential",
        "Check the clock of this machine, and the lifetime of the credential.",
    )


def build_credential(response: ProviderCredential, provider: CredentialProvider) -> Credential:
    """Check the response of a provider, and build the credential. Raises the provider's error (X40)."""
    if response.token is not None and (why := find_header_problem(response.token.reveal())):
        advice = f"The {provider.description} must return the token alone."
        raise provider.invalid_output_error(f"its token is not a valid HTTP header value: {why}", advice)
    authorization = f"Bearer {response.token.reveal()}" if response.token is not None else None
    client_certificate = None
    if response.certificate is not None and response.key is not None:
        client_certificate = ClientCertificate(response.certificate, response.key)
        if why := find_cert_problem(client_certificate):
            reason = f"failed parsing client key/certificate: {why.rstrip('.')}"
            raise provider.invalid_output_error(reason, "Both must be PEM, and match each other.")
    return Credential(authorization, client_certificate)
