"""How RegistryAuth decides: one generator of steps, for both colours and both libraries."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace

from kubeauth._credentials.single_flight import Call as SharedCall
from kubeauth._runtime import Clock
from kubeauth._secret import Secret
from kubeauth._transport.types import URLLike
from kubeauth.errors import ChallengeError
from kubeauth.registry._challenge import Challenge, chosen, parse_challenges
from kubeauth.registry._kept import Kept, Outcome, Way
from kubeauth.registry._scopes import Subject, is_modest, union
from kubeauth.registry._token import (
    Call,
    Endpoint,
    Key,
    NotAsked,
    NoToken,
    Origin,
    Reply,
    Token,
    basic,
    call_by_get,
    call_for,
    endpoint_of,
    origin_of,
    registry_token,
    token_of,
)
from kubeauth.registry._values import RegistryCredential

ANONYMOUS = RegistryCredential()

# Of both kinds, for one request of the caller's. httpx itself ends at 20, redirects included.
MOST_REQUESTS = 15
_SHOWN = 200
# One credential costs so many at a time: a token by POST, by GET, and the request itself.
_AT_A_TIME = 3
# So many tokens that others fetched may be refused, before a registry is believed; of our own, one (9.12).
_OTHERS = 2


@dataclass(slots=True)
class Send:
    """Send the caller's request, signed like this; or one in its place, to find out how to."""

    authorization: Secret[str] | None
    is_probe: bool = False
    reply: Reply = field(init=False)


@dataclass(slots=True)
class Fetch:
    """Ask a token endpoint."""

    call: Call
    reply: Reply = field(init=False)


@dataclass(slots=True)
class Ask:
    """Get the credentials for an image; those in `refused` nobody took."""

    image: str
    refused: Sequence[RegistryCredential] = ()
    credentials: Sequence[RegistryCredential] = field(init=False)


@dataclass(slots=True)
class Wait:
    """Until somebody else's request for the same token is over; but no longer than for an answer."""

    flight: SharedCall[Outcome]


@dataclass(slots=True)
class Welcome:
    """Tell whoever gave it that this one was taken, and not the one that was the last time."""

    image: str
    credential: RegistryCredential


Step = Send | Fetch | Ask | Wait | Welcome


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a request decides."""

    subject: Subject
    url: URLLike
    can_repeat: bool

    @property
    def origin(self) -> Origin:
        return origin_of(self.url)


class Dialogue:
    """One request of the caller's, until there is an answer for them. ChallengeError if there can be none."""

    def __init__(self, kept: Kept, clock: Clock, url: Callable[[str], URLLike], wanted: Wanted) -> None:
        self._kept = kept
        self._clock = clock
        self._url = url
        self._wanted = wanted
        self._sent = 0
        self._fresh: set[str] = set()
        """The digests of those credentials that a token was asked for with."""
        self._last: NoToken | Reply | None = None
        """What became of the last attempt: the answer of the registry's is the caller's already."""

    def steps(self, *, is_fixed: bool) -> Generator[Step, None, None]:
        """`is_fixed`: asking for credentials again would give the same."""
        wanted = self._wanted
        way = self._kept.way(wanted.origin, wanted.subject.scopes)
        if way is None:
            # A body that can be sent once is sent when it is known how (9.18).
            reply = yield from self._send(None, is_probe=not wanted.can_repeat)
            challenge = _challenge_of(reply)
            if challenge is not None:
                way = self._learned(challenge)
            elif not wanted.can_repeat:
                reply = yield from self._send(None)
                if (challenge := _challenge_of(reply)) is not None:
                    self._learned(challenge)
        if way is not None:
            yield from self._attempts(way, is_fixed)

    def _attempts(self, way: Way, is_fixed: bool) -> Generator[Step, None, None]:
        """One credential after the other (5.11)."""
        ask = Ask(self._wanted.subject.image)
        yield ask
        tried: dict[str, RegistryCredential] = {}
        stale: list[RegistryCredential] = []
        waiting = _in_order(ask.credentials, way.accepted)
        while waiting and self._may_send():
            credential = waiting.pop(0)
            if credential.digest not in tried:
                tried[credential.digest] = credential
                way = yield from self._attempt(way, credential)
                if self._is_done():
                    yield from self._noted(way, credential, ask, is_fixed)
                    return
                if ask.credentials and self._may_be_stale(way):
                    stale.append(credential)
            if not waiting and stale and not is_fixed and not ask.refused:
                # What was given may be yesterday's: whoever gave it is told, and asked once more.
                ask = Ask(self._wanted.subject.image, tuple(stale))
                yield ask
                waiting = list(ask.credentials)
        if isinstance(self._last, NoToken):
            self._kept.forget(self._wanted.origin, self._wanted.subject.scopes)
            raise self._no_token(way, self._last, tried)
        # The last answer was the registry's, and is the caller's.

    def _may_send(self) -> bool:
        return self._sent + _AT_A_TIME <= MOST_REQUESTS

    def _may_be_stale(self, way: Way) -> bool:
        """Whether a newer password could do better. Not where the token was good, and not enough (9.13)."""
        last = self._last
        return isinstance(last, NoToken) or way.endpoint is None or (last is not None and last.status == 401)

    def _is_done(self) -> bool:
        last = self._last
        if not isinstance(last, Reply):
            return False
        return not last.is_own or last.status not in (401, 403) or not self._wanted.can_repeat

    def _noted(
        self, way: Way, credential: RegistryCredential, ask: Ask, is_fixed: bool
    ) -> Generator[Step, None, None]:
        """If it was refused and cannot be sent again: the next request begins with what may do better."""
        last = self._last
        if not isinstance(last, Reply) or not last.is_own or last.status not in (401, 403):
            return
        is_tried = credential.digest in self._fresh or self._at_hand(way, credential) is not None
        if not ask.credentials or (last.status == 401 and not is_tried):
            return  # it was the token, which was an old one
        digests = [each.digest for each in ask.credentials]
        following = digests[(digests.index(credential.digest) + 1) % len(digests)]
        way = replace(way, accepted=following)
        self._kept.learn(self._wanted.origin, self._wanted.subject.scopes, way)
        if not is_fixed and self._may_be_stale(way):
            yield Ask(ask.image, (credential,))

    def _attempt(self, way: Way, credential: RegistryCredential) -> Generator[Step, None, Way]:
        """All that can be done with one credential. How requests are to be signed may change on the way."""
        if way.endpoint is None and credential.is_anonymous:
            # Nobody has no password: the 401 there is says all, unless there is none yet.
            if self._last is None or not self._wanted.can_repeat:
                yield from self._send(None)
            return way
        causes = {"changed", "wider"}  # for trying again, each once (9.12)
        others = _OTHERS
        refused: Token | None = None
        while True:
            token: Token | None = None
            is_own = True
            header = self._at_hand(way, credential)
            if header is None:
                outcome, is_own = yield from self._token(way, credential, refused)
                if isinstance(outcome, NoToken):
                    self._refuse(way, outcome)
                    return way
                token, header = outcome, outcome.authorization
            if isinstance(header, str):
                self._last = NoToken(header, is_refusal=True)
                return way
            reply = yield from self._send(header)
            challenge = _challenge_of(reply)
            if challenge is None:
                return (yield from self._accepted(way, credential, reply))
            if token is not None and way.endpoint is not None and not self._wanted.can_repeat:
                self._kept.drop(_key(way, credential), token)
            newer = self._learned(challenge, way)
            if not self._wanted.can_repeat or not self._may_send():
                return newer
            if newer.endpoint != way.endpoint and "changed" in causes:
                causes.remove("changed")
            elif newer.scopes != way.scopes and "wider" in causes:
                causes.remove("wider")
            elif not is_own and others:
                # Somebody got it before us, who knows when: one that was just fetched may do better.
                others -= 1
                refused = token
            else:
                return newer
            way = newer

    def _at_hand(self, way: Way, credential: RegistryCredential) -> Secret[str] | str | None:
        """The header, if nobody needs to be asked for it; or why there is none. None: a token is needed."""
        if way.endpoint is None:
            return basic(credential)
        return registry_token(credential) if credential.registry_token else None

    def _accepted(self, way: Way, credential: RegistryCredential, reply: Reply) -> Generator[Step, None, Way]:
        is_welcome = reply.is_own and reply.status < 500 and reply.status not in (401, 403)
        if is_welcome and way.accepted != credential.digest:
            way = replace(way, accepted=credential.digest)
            self._kept.learn(self._wanted.origin, self._wanted.subject.scopes, way)
            yield Welcome(self._wanted.subject.image, credential)
        return way

    def _learned(self, challenge: Challenge, before: Way | None = None) -> Way:
        """How the registry wants it from now on. ChallengeError if that would not be safe."""
        wanted, endpoint = self._wanted, None
        scopes = before.scopes if before else ()
        if challenge.scheme == "bearer":
            found = endpoint_of(challenge, wanted.url, self._url)
            if isinstance(found, str):
                raise _error(
                    f"{self._registry} asks for authentication in a way that is not safe: {found}.",
                    "Tell whoever runs it; nothing was sent there.",
                    challenge.realm,
                    None,
                    found,
                )
            endpoint = found
            scopes = scopes or union(
                wanted.subject.scopes if not challenge.scopes or not wanted.can_repeat else ()
            )
            wider = union(scopes, challenge.scopes, wanted.subject.also)
            scopes = wider if is_modest(wider) else wanted.subject.scopes
        way = Way(endpoint, scopes, before.accepted if before else "")
        self._kept.learn(wanted.origin, wanted.subject.scopes, way)
        return way

    def _send(
        self, authorization: Secret[str] | None, *, is_probe: bool = False
    ) -> Generator[Step, None, Reply]:
        self._sent += 1
        step = Send(authorization, is_probe)
        yield step
        self._last = step.reply
        return step.reply

    def _token(
        self, way: Way, credential: RegistryCredential, refused: Token | None
    ) -> Generator[Step, None, tuple[Outcome, bool]]:
        """A token for `credential`, one request for all who want it; and whether that request was ours."""
        key = _key(way, credential)
        late: SharedCall[Outcome] | None = None
        # Twice with others. If both came to nothing it is the network, and no time to wait for a turn.
        for _ in range(2):
            own: SharedCall[Outcome] = SharedCall()
            try:
                boarded = self._kept.board(key, refused, own, late)
                if isinstance(boarded, Token):
                    return boarded, False
                if boarded is own:
                    outcome = yield from self._fetched(key, credential)
                    self._kept.land(key, own, outcome)
                    return outcome, True
            finally:
                # Also when the client gave up, or was cancelled: then the generator is closed at its `yield`.
                self._kept.abandon(key, own)
            yield Wait(boarded)
            if (taken := boarded.result()) is not None:
                return taken, False
            late = boarded
        outcome = yield from self._fetched(key, credential)
        self._kept.land(key, SharedCall(), outcome)
        return outcome, True

    def _fetched(self, key: Key, credential: RegistryCredential) -> Generator[Step, None, Outcome]:
        self._fresh.add(credential.digest)
        call = call_for(key.endpoint, key.scopes, credential)
        if isinstance(call, str):
            return NoToken(call, is_refusal=True)
        outcome = yield from self._called(call, credential)
        if isinstance(outcome, NotAsked):
            outcome = yield from self._called(call_by_get(key.endpoint, key.scopes, credential), credential)
        assert not isinstance(outcome, NotAsked)  # noqa: S101 -- that is for a POST alone
        return outcome

    def _called(
        self, call: Call, credential: RegistryCredential
    ) -> Generator[Step, None, Outcome | NotAsked]:
        self._sent += 1
        step = Fetch(call)
        has_answered = False
        try:
            yield step
            has_answered = True
        finally:
            if not has_answered:  # perhaps it has moved: the registry knows
                self._kept.forget(self._wanted.origin, self._wanted.subject.scopes)
        clock = self._clock
        return token_of(
            step.reply, credential, by_post=call.form is not None, now=clock.monotonic(), date=clock.time()
        )

    def _refuse(self, way: Way, outcome: NoToken) -> None:
        """The next credential may do better; but not if it is not the credential's fault (9.13)."""
        self._last = outcome
        if not outcome.is_refusal:
            self._kept.forget(self._wanted.origin, self._wanted.subject.scopes)
            raise self._no_token(way, outcome)

    def _no_token(
        self, way: Way, why: NoToken, tried: dict[str, RegistryCredential] | None = None
    ) -> ChallengeError:
        realm = way.endpoint.realm if way.endpoint else ""
        who = (
            f"the token endpoint {realm} gave no token for {self._registry}"
            if realm
            else f"{self._registry} was shown no credential"
        )
        if why.is_passing:
            advice = "No credential is to blame: try again later."
        elif not why.is_refusal:
            advice = "Is it the token endpoint of a registry? Tell whoever runs it."
        elif tried is not None and list(tried.values()) == [ANONYMOUS]:
            advice = f"There are no credentials for {self._wanted.subject.image}: give RegistryAuth some."
        else:
            count = f"{len(tried)} credentials were tried. " if tried and len(tried) > 1 else ""
            advice = f"{count}Check the credentials for {self._wanted.subject.image}."
        return _error(f"{who}: {why.reason}.", advice, realm, why.status, why.reason)

    @property
    def _registry(self) -> str:
        return f"the registry {self._wanted.subject.image.partition('/')[0]}"


def _challenge_of(reply: Reply) -> Challenge | None:
    """What the registry itself asks for: a challenge from where it redirects to is not believed (9.16)."""
    if reply.status != 401 or not reply.is_own:
        return None
    return chosen(parse_challenges(reply.challenges))


def _in_order(credentials: Sequence[RegistryCredential], accepted: str) -> list[RegistryCredential]:
    """As they were given (5.11), but first the one that was welcome last. None: as nobody, once."""
    return sorted(credentials or [ANONYMOUS], key=lambda each: each.digest != accepted)


def _key(way: Way, credential: RegistryCredential) -> Key:
    return Key(way.endpoint or Endpoint("", ""), way.scopes, credential.digest)


def _error(what: str, advice: str, realm: str, status: int | None, reason: str) -> ChallengeError:
    # A stranger's: not pages of it, and no password.
    shown = "" if "@" in realm else realm if len(realm) <= _SHOWN else f"{realm[:_SHOWN]}..."
    return ChallengeError(
        f"{what.replace(realm, shown)} {advice}", realm=shown, status_code=status, reason=reason
    )
