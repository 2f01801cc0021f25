"""What RegistryAuth keeps: tokens, and how registries want to be asked."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubeauth._credentials.single_flight import Call as SharedCall
from kubeauth._runtime import Clock, call_after_fork
from kubeauth.registry._scopes import Scopes
from kubeauth.registry._token import Endpoint, Key, NoToken, Origin, Token

# Each is a few hundred bytes, up to the size of a token. The one not used for longest goes.
MOST_KEPT = 1024

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Outcome = Token | NoToken


@dataclass(frozen=True, slots=True)
class Way:
    """How a registry wants requests of one kind to be signed."""

    endpoint: Endpoint | None
    """None: with a name and a password."""
    scopes: Scopes = ()
    accepted: str = ""
    """The digest of the credential that is tried first: the one that was welcome last, or, if that was
    refused for a body that could be sent once, the one behind it."""


Place = tuple[Origin, Scopes | None]
"""A registry, and what a request needs there; None for whatever it needs."""


class Kept:
    """Shared by all requests of a RegistryAuth, in threads and in event loops."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Guards everything below, for a few instructions; never held over a request or an `await`. A signal
        # may interrupt whoever holds it, and its handler ask a registry; or the garbage collector, and find
        # a flight that nobody flies. So nothing below may count on being alone between two instructions.
        self._mu = threading.RLock()
        self._tokens: _Recent[Key, Token] = _Recent()
        self._ways: _Recent[Place, Way] = _Recent()
        self._flights: dict[Key, SharedCall[Outcome]] = {}
        self._only: Origin | None = None
        call_after_fork(self)

    def is_only(self, origin: Origin) -> bool:
        """Whether it is the first that was asked about. Credentials given by hand go there alone."""
        with self._mu:
            self._only = self._only or origin
            return self._only == origin

    def way(self, origin: Origin, scopes: Scopes) -> Way | None:
        """How such requests were to be signed the last time, if they were."""
        with self._mu:
            # Who wants a name and a password wants it on every request (9.5).
            return self._ways.get((origin, scopes)) or self._ways.get((origin, None))

    def learn(self, origin: Origin, scopes: Scopes, way: Way) -> None:
        with self._mu:
            places: tuple[Place, Place] = (origin, scopes), (origin, None)
            place, other = places if way.endpoint else places[::-1]
            self._ways.put(place, way)
            self._ways.drop(other)

    def forget(self, origin: Origin, scopes: Scopes) -> None:
        """It did not work: the next request finds out anew."""
        with self._mu:
            self._ways.drop((origin, scopes))
            self._ways.drop((origin, None))

    def board(
        self,
        key: Key,
        refused: Token | None,
        own: SharedCall[Outcome],
        late: SharedCall[Outcome] | None = None,
    ) -> Token | SharedCall[Outcome]:
        """A token at hand, other than `refused`; or the flight to wait for. If `own`, the caller flies it.

        `late` is one that the caller has waited for in vain. Others may have more time.
        """
        with self._mu:
            token = self._tokens.get(key)
            if token is not None:
                # Compare and swap: a late 401 for an older token changes nothing.
                if token is not refused and token.is_good(self._clock.monotonic(), self._clock.time()):
                    return token
                self._tokens.drop(key)
            own.leader_thread = threading.get_ident()
            flight = self._flights.get(key)
            if flight is None or flight is late:
                self._flights[key] = flight = own
            return flight

    def land(self, key: Key, own: SharedCall[Outcome], outcome: Outcome) -> None:
        """For everybody who waits; and a token for those who come."""
        with self._mu:
            if isinstance(outcome, Token):
                self._tokens.put(key, outcome)
            self._taken_off_locked(key, own)
        own.complete(outcome)

    def abandon(self, key: Key, own: SharedCall[Outcome]) -> None:
        """If it has not landed, nobody flies it any more: who waited must see to it themselves."""
        with self._mu:
            self._taken_off_locked(key, own)
        own.complete(None)

    def drop(self, key: Key, token: Token) -> None:
        """It was refused, and there is no time to ask for another."""
        with self._mu:
            if self._tokens.get(key) is token:
                self._tokens.drop(key)

    def after_fork(self) -> None:
        """In a child: the lock may be held, and those who fly are not there."""
        self._mu = threading.RLock()
        self._flights = {}

    def _taken_off_locked(self, key: Key, own: SharedCall[Outcome]) -> None:
        if self._flights.get(key) is own:
            self._flights.pop(key, None)


class _Recent(Generic[K, V]):
    """The last ones that were asked for."""

    def __init__(self) -> None:
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._kept[key] = found
        return found

    def put(self, key: K, value: V) -> None:
        self._kept.pop(key, None)
        self._kept[key] = value
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def drop(self, key: K) -> None:
        self._kept.pop(key, None)
