"""What a provider gave, kept for as long as it said, for the images that it said (4.1-4.10)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from kubeauth._credentials.backoff import UNLIMITED, RateLimit
from kubeauth._runtime import Clock
from kubeauth.registry._key_index import NOTHING, KeyIndex
from kubeauth.registry._keyring import Skipped
from kubeauth.registry._values import RegistryCredential

GLOBAL = "<global>"
_SWEPT_EVERY = 15 * 60.0
# The kubelet has no limit. A program that never ends must not keep one for every image that there ever was.
MOST_KEPT = 10_000

AccountKey = tuple[Hashable, ...]
"""Whose credentials they are; empty if they are anybody's (4.18)."""
Key = tuple[str, AccountKey]


@dataclass(frozen=True, slots=True)
class Given:
    """What a provider gave, ready to be looked up."""

    credentials: tuple[RegistryCredential, ...]
    skipped: tuple[Skipped, ...] = field(default=(), repr=False)
    """Keys that cannot be one, and why."""
    from_cache: bool = False
    index: KeyIndex = field(default=NOTHING, repr=False, compare=False)
    """Of the credentials: made once, for there may be thousands."""

    def __post_init__(self) -> None:
        if self.index is NOTHING:
            object.__setattr__(self, "index", KeyIndex(self.credentials))


def base_key(kind: str, image: str) -> str:
    """What an answer is kept under, by its cacheKeyType (4.2)."""
    if kind == "Global":
        return GLOBAL
    return image.partition("/")[0] if kind == "Registry" else image


def base_keys(image: str) -> tuple[str, ...]:
    """Where an answer for `image` is looked for, in this order (4.3)."""
    return image, image.partition("/")[0], GLOBAL


@dataclass(frozen=True, slots=True)
class _Entry:
    given: Given
    ends: float
    date: float
    """The same by the calendar: the other clock stands still while a laptop sleeps."""

    def is_over(self, now: float, date: float) -> bool:
        # At its very end it is still good (4.8).
        return now > self.ends or date > self.date


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What a registry did not take, and when that may count again."""

    digest: str
    limit: RateLimit


class Cache:
    """Of one provider (4.1). For one thread at a time: whoever has it has a lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}
        self._refusals: dict[Key, _Refusal] = {}
        self._swept = clock.monotonic()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def get(self, image: str, account: AccountKey = ()) -> Given | None:
        """The first that is still good: for the image, for its registry, for all (4.3)."""
        now, date = self._clock.monotonic(), self._clock.time()
        if now > self._swept + _SWEPT_EVERY:
            self._sweep(now, date)
        for base in base_keys(image):
            entry = self._entries.get((base, account))
            if entry is None:
                continue
            if not entry.is_over(now, date):
                return entry.given
            del self._entries[base, account]
        return None

    def put(self, base: str, account: AccountKey, given: Given, seconds: float) -> None:
        """Keeps it for so long from now; not at all if that is no time (4.5-4.7)."""
        if seconds <= 0:
            return
        now, date = self._clock.monotonic(), self._clock.time()
        # The last one goes to the end.
        self._entries.pop((base, account), None)
        if len(self._entries) >= MOST_KEPT:
            self._sweep(now, date)
        if len(self._entries) >= MOST_KEPT:
            del self._entries[next(iter(self._entries))]
        self._entries[base, account] = _Entry(replace(given, from_cache=True), now + seconds, date + seconds)

    def refused(self, digest: str, image: str, chance: float) -> None:
        """A registry did not take the credential with this digest: what gave it is kept no longer.

        Unless that was the case a moment ago already: where nobody is welcome, asking again does not help.
        """
        now = self._clock.monotonic()
        bases = base_keys(image)
        for key in [key for key in self._entries if key[0] in bases]:
            given = self._entries[key].given
            if not any(credential.digest == digest for credential in given.credentials):
                continue  # it is another by now
            before = self._refusals.pop(key, None)
            limit = before.limit if before is not None else UNLIMITED
            if limit.allows(now):
                del self._entries[key]
                limit = limit.after_run(now, chance)
            else:
                limit = limit.after_401(now)
            if len(self._refusals) >= MOST_KEPT:
                del self._refusals[next(iter(self._refusals))]
            self._refusals[key] = _Refusal(digest, limit)

    def accepted(self, digest: str, image: str, chance: float) -> None:
        """A registry took the credential with this digest: the one before it was over, and asking helped.

        If it was this one that was refused, that was for something else than its age, and nothing changes.
        """
        bases = base_keys(image)
        for key, refusal in self._refusals.items():
            entry = self._entries.get(key)
            if key[0] not in bases or entry is None or refusal.digest == digest:
                continue
            if any(credential.digest == digest for credential in entry.given.credentials):
                # Not none: where every run gives another one, and each is welcome for some images alone.
                first = UNLIMITED.after_run(self._clock.monotonic(), chance)
                self._refusals[key] = _Refusal(refusal.digest, first)

    def _sweep(self, now: float, date: float) -> None:
        self._swept = now
        self._entries = {key: entry for key, entry in self._entries.items() if not entry.is_over(now, date)}
