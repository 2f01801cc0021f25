"""A credential that is asked for: once for all, kept, renewed before it ends (C1-C15, X43-X46, O8, O9)."""

from __future__ import annotations

import logging
import math
import random
import threading
import traceback
import weakref
from collections.abc import Callable, Hashable
from dataclasses import replace

from kubeauth._credentials._asker import Asker, credential_of
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._credential import Credential, Refusal
from kubeauth._credentials._dates import Dates, dates_of
from kubeauth._credentials._flight import Flight, again
from kubeauth._credentials._flying import Flying, places
from kubeauth._credentials._held import NOTHING, NOTHING_HELD, Held
from kubeauth._credentials._pace import NO_LIMIT, Limit, back_off
from kubeauth._credentials._status import Status, kind_of
from kubeauth._credentials._staying import Staying
from kubeauth._exec.codec import ProviderCredential
from kubeauth._exec.config import ERROR_PREFIX
from kubeauth._fork import call_after_fork
from kubeauth._observer import Observer
from kubeauth._parsing.go import expiry_suffix, to_datetime
from kubeauth.errors import KubeAuthError

logger = logging.getLogger("kubeauth.credentials")

# A fleet whose clusters share a plugin, and all refuse it.
_MOST_ORIGINS = 4096


class AskedSource(Staying, Flying[Credential]):
    """One plugin or issuer, one credential, for all clients that are configured alike."""

    def __init__(
        self,
        asker: Asker,
        clock: Clock,
        observer: Observer,
        *,
        refresh_ahead: bool = True,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._asker = asker
        self._clock = clock
        self._observer = observer
        self._refresh_ahead = refresh_ahead
        self._chance = chance
        # Guards everything below, for a few instructions; never held over a run or an `await`.
        self._mu = threading.Lock()
        self._held = NOTHING_HELD
        self._flight: Flight[Credential] | None = None
        self._failure: KubeAuthError | None = None
        self._failures = 0
        self._retry_at = -math.inf
        self._limits: dict[Hashable, Limit] = {}
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        call_after_fork(self)

    @property
    def asker(self) -> Asker:
        """Whoever is asked."""
        return self._asker

    @property
    def latest(self) -> Credential:
        """What the last run gave, over or not; nothing before the first."""
        return self._held.credential

    def fresh(self, now: float) -> Credential | None:
        """The credential, if there is nothing to think about. This is all that most requests do."""
        held = self._held
        return held.credential if now < held.due and self._clock.time() < held.due_date else None

    def get(self, refused: Refusal | None = None) -> Credential:
        """A credential that is good now. Asks for it, or waits for who does. KubeAuthError if it fails.

        With `refused`, another one than that; the same if it is too soon to ask again.
        """
        return self._taken(lambda own: self._board(refused, own), self._fly)

    async def aget(self, refused: Refusal | None = None) -> Credential:
        """As `get`, off the event loop. Cancelling leaves the run to itself, and its result to the others."""
        return await self._ataken(lambda own: self._board(refused, own), self._fly)

    def accepted(self, origin: Hashable) -> None:
        """A request that was repeated with another credential was welcome: the next 401 is worth a run."""
        with self._mu:
            self._limits.pop(origin, None)

    def status(self, other_error: KubeAuthError | None = None) -> Status:
        """Where the credential comes from, and how it is doing."""
        with self._mu:
            held, failure = self._held, self._failure
        expires = to_datetime(held.expires) if math.isfinite(held.expires) else None
        if expires is None and held.dates is not None:
            expires = to_datetime(held.dates.not_after)
        return Status(
            source=self._asker.place,
            kind=kind_of(held.credential),
            expires=expires,
            last_error=failure or other_error,
        )

    def is_over(self) -> bool:
        """Whether there was a credential, it is over, and the next can be had without this source."""
        held = self._held
        is_good = held.is_good(self._clock.monotonic(), self._clock.time())
        return held.credential is not NOTHING and not is_good and not self._asker.is_only_copy

    def join(self, user: object) -> None:
        """`user` needs this source until it leaves, or is garbage."""
        with self._mu:
            self._users.add(user)

    def leave(self, user: object) -> bool:
        """Whether the last one left while a run is under way: then `stop` it, which takes a moment."""
        with self._mu:
            self._users.discard(user)
            if self._users or self._flight is None:
                return False
            self._flight.was_stopped = True
            return True

    def stop(self) -> None:
        """Ends the run that is under way."""
        self._asker.stop()

    def after_fork(self) -> None:
        """In a child: the lock may be held, and the run be that of threads that are not there."""
        self._mu = threading.Lock()
        if self._flight is not None:
            self._give_up_locked(self._flight)
        self._asker.after_fork()

    def _board(self, refused: Refusal | None, own: Flight[Credential]) -> Credential | Flight[Credential]:
        """A credential at hand; or the flight to wait for. If that is `own`, the caller must fly it."""
        starts_ahead = False
        with self._mu:
            now, date = self._clock.monotonic(), self._clock.time()
            held = self._held
            is_good = held.is_good(now, date)
            # Compare and swap: a late 401 for an older credential changes nothing (C8, C14).
            is_refused = is_good and refused is not None and refused.credential is held.credential
            if not is_good or is_refused:
                if self._flight is not None:
                    return self._flight
                self._raise_if_backing_off_locked(now)
                if refused is None or not is_refused:
                    return self._start_locked(own, "first" if held.credential is NOTHING else "expired")
                if not self._may_run_again_locked(refused.origin, now):
                    return held.credential
                return self._start_locked(own, "unauthorized")
            if now >= held.due or date >= held.due_date:
                starts_ahead = self._starts_ahead_locked(own, now)
        if starts_ahead:
            self._fly_in_background(own, self._fly)
        return held.credential

    def _may_run_again_locked(self, origin: Hashable, now: float) -> bool:
        """Whether a 401 from there is worth another run."""
        limit = self._limits.get(origin, NO_LIMIT)
        allows = limit.allows(now)
        # The last to be asked about goes to the end; the first is who has not answered 401 for longest.
        self._limits.pop(origin, None)
        if len(self._limits) >= _MOST_ORIGINS:
            del self._limits[next(iter(self._limits))]
        self._limits[origin] = limit.after_a_run(now, self._chance()) if allows else limit.refused(now)
        return allows

    def _raise_if_backing_off_locked(self, now: float) -> None:
        if self._failure is not None and now < self._retry_at:
            raise again(self._failure) from self._failure.__cause__

    def _start_locked(self, flight: Flight[Credential], reason: str) -> Flight[Credential]:
        flight.reason = reason
        self._flight = flight
        return flight

    def _starts_ahead_locked(self, flight: Flight[Credential], now: float) -> bool:
        """Whether to renew now, while the credential is still good. Puts off the next thought of it."""
        if self._flight is not None or now < self._retry_at:
            return False
        held = self._held
        self._held = replace(held, due=held.ends, due_date=held.expires)
        if not self._refresh_ahead or self._asker.would_interact:
            return False
        self._start_locked(flight, "ahead")
        return True

    def _abandon(self, flight: Flight[Credential]) -> None:
        with self._mu:
            if self._flight is flight:
                self._give_up_locked(flight)
        flight.land(None)

    def _give_up_locked(self, flight: Flight[Credential]) -> None:
        self._flight = None
        if flight.reason == "ahead":
            self._held = replace(self._held, due=-math.inf, due_date=-math.inf)

    @property
    def _asked(self) -> str:
        return self._asker.name

    def _error(self, message: str) -> KubeAuthError:
        return self._asker.error(f"{ERROR_PREFIX}{message}")

    def _fly(self, flight: Flight[Credential]) -> None:
        """Asks, and lands whatever comes of it."""
        try:
            flight.pilot = threading.get_ident()
            asked = self._clock.monotonic(), self._clock.time()
            # Whoever stops it now may come before there is a program to stop.
            answer = self._asker.ask(lambda: flight.was_stopped)
            credential = self._checked(answer)
            dates = dates_of(credential.identity) if credential.identity else None
        except KubeAuthError as error:
            self._land_failure(flight, error)
        except Exception as error:
            what = type(error).__name__
            logger.error("unexpected %s in:\n%s", what, places(error))  # noqa: TRY400 -- its words
            self._land_failure(flight, self._fault(error))
        except BaseException as error:  # Ctrl-C
            # Where it struck, variables may hold what was said, either way.
            traceback.clear_frames(error.__traceback__)
            raise
        else:
            self._land(flight, credential, dates, answer.expires, asked)
        finally:
            self._abandon(flight)

    def _checked(self, answer: ProviderCredential) -> Credential:
        credential, before = credential_of(answer, self._asker), self._held.credential
        if credential.identity is not None and credential.identity == before.identity:
            # The same object: connections can be kept.
            return Credential(credential.authorization, before.identity)
        return credential

    def _land(
        self,
        flight: Flight[Credential],
        credential: Credential,
        dates: Dates | None,
        expires: float | None,
        asked: tuple[float, float],
    ) -> None:
        """`asked` is when, by either clock."""
        with self._mu:
            now, date = self._clock.monotonic(), self._clock.time()
            before = self._held
            self._landed_locked(flight)
            is_over = expires is not None and expires < date
            came_again = is_over and before.came_again(credential, expires, since=asked[1])
            if is_over and not came_again:
                self._failed_locked(_over_on_arrival(self._asker), now)
            elif not is_over:
                self._failure, self._failures, self._retry_at = None, 0, -math.inf
            # Over on arrival is handed out once all the same (X45); but what is better stays. Also after a
            # 401: where that came from it may be refused, but others may be content with it.
            if is_over and before.is_good(now, date):
                self._put_off_locked(flight, now, date)
            elif not came_again:
                self._held = Held.since(
                    now, date, credential, dates, expires, seconds=now - asked[0], chance=self._chance()
                )
        what = self._asker.place, kind_of(credential), now - asked[0], expiry_suffix(expires)
        logger.info("%s gave a %s in %.1f s%s", *what)
        self._observer.renewed(reason=flight.reason, succeeded=not is_over)
        self._observe(before, self._held, date)
        # Who waited for what they had asks once more: by now the other end knows that it is over.
        flight.land(None if came_again else credential)

    def _observe(self, before: Held, after: Held, date: float) -> None:
        if before.credential is after.credential:
            return
        if before.dates is not None and before.credential.identity is not after.credential.identity:
            age, lifetime = date - before.dates.not_before, before.dates.not_after - before.dates.not_before
            self._observer.certificate_replaced(age=age, lifetime=lifetime)
        has_end = after.credential.authorization is not None and math.isfinite(after.expires)
        self._observer.installed(
            self,
            certificate_ends=after.dates.not_after if after.dates else None,
            token_ends=after.expires if has_end else None,
        )

    def _land_failure(self, flight: Flight[Credential], error: KubeAuthError) -> None:
        error.with_traceback(None)
        with self._mu:
            now, date = self._clock.monotonic(), self._clock.time()
            self._landed_locked(flight)
            if not flight.was_stopped:
                self._failed_locked(error, now)
            self._put_off_locked(flight, now, date)
            is_good = self._held.is_good(now, date)
            # Who came after the last one left did not want it stopped.
            outcome = None if flight.was_stopped and self._users else error
        if is_good and not flight.was_stopped:
            logger.warning("%s\nThe credential there is stays in use until it is over", error)
        self._observer.renewed(reason=flight.reason, succeeded=False)
        flight.land(outcome)

    def _landed_locked(self, flight: Flight[Credential]) -> None:
        if self._flight is flight:  # else it was given up, and another may have started
            self._flight = None

    def _failed_locked(self, error: KubeAuthError, now: float) -> None:
        self._failures += 1
        self._failure = error
        self._retry_at = now + back_off(self._failures, self._chance())

    def _put_off_locked(self, flight: Flight[Credential], now: float, date: float) -> None:
        """After a renewal ahead that failed: when to think of the next. Others leave it where it was."""
        if flight.reason != "ahead":
            return
        held, wait = self._held, max(self._retry_at - now, 0.0)
        self._held = replace(held, due=min(held.ends, now + wait), due_date=min(held.expires, date + wait))


def _over_on_arrival(asker: Asker) -> KubeAuthError:
    return asker.unusable(
        f"{asker.kind} returned a credential that is already over",
        "Check the clock of this machine, and how long what it gives is good for.",
    )
