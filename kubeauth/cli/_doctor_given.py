"""What a plugin or an issuer gave: what kind of credential it is, and whether its end makes sense."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubeauth._credentials.provider import CredentialProvider
from kubeauth._credentials.refreshable import build_credential
from kubeauth._exec.codec import ProviderCredential
from kubeauth._oidc.protocol import read_expiry
from kubeauth._parsing import Json
from kubeauth._secret import Secret
from kubeauth.cli._doctor_certificates import certificate_of
from kubeauth.cli._doctor_findings import Finding, error, hidden, ok, warning
from kubeauth.cli._doctor_words import MINUTE, day, ends, parted, span, took
from kubeauth.errors import KubeAuthError, PluginFailed, PluginTimeout

# So near its end it is hardly worth having.
NEAR = MINUTE


@dataclass(frozen=True, slots=True)
class Life:
    """From when until when something counts, by the calendar."""

    what: str
    begins: float | None
    ends: float | None

    def is_good(self, now: float) -> bool:
        return (self.begins is None or self.begins <= now) and (self.ends is None or now <= self.ends)


@dataclass(frozen=True, slots=True)
class Given:
    """What a plugin or an issuer gave, or why it gave nothing."""

    place: str
    seconds: float
    answer: ProviderCredential | None
    error: KubeAuthError | None = None


def ask(provider: CredentialProvider) -> Given:
    """Once: runs the plugin, or asks the issuer unless the token that is there is good."""
    started = time.monotonic()
    answer: ProviderCredential | None = None
    try:
        answer = provider.fetch(lambda: False)
        build_credential(answer, provider)
    except KubeAuthError as wrong:
        return Given(provider.source, time.monotonic() - started, None, wrong)
    return Given(provider.source, time.monotonic() - started, answer)


def given_finding(given: Given, now: float, told: Iterable[str] = ()) -> Finding:
    """What kind of credential it is, and whether its end makes sense. `told` is what the plugin was told.

    It may be secret, and is often repeated by one that fails.
    """
    facts: dict[str, Json] = {"source": given.place, "seconds": round(given.seconds, 3)}
    answer = given.answer
    if answer is None:
        return _nothing_given(given, told, facts)
    kinds = [
        name for name, value in (("token", answer.token), ("client certificate", answer.certificate)) if value
    ]
    facts |= {"kind": kinds, "expires": day(answer.expires)}
    if answer.certificate is not None:
        facts |= {"key_matches": True}  # else there would be no answer
    head = f"{' and '.join(kinds)} from {given.place} in {took(given.seconds)}"
    lives = list(lives_of(given))
    over = [life for life in lives if not life.is_good(now)]
    if over:
        return error("credential", f"{head}: {_not_now(over[0], now)}", _LOG_IN, **facts)
    if answer.expires is None:
        own = [f"{life.what} {ends(life.ends, now)}" for life in lives if life.ends is not None]
        also = f" ({', '.join(own)})" if own else ""
        summary = f"{head}: it does not say when it ends{also}, so it is kept until the server answers 401"
        return warning("credential", summary, "The plugin should print expirationTimestamp.", **facts)
    for life in lives:
        if life.ends is not None and life.ends < answer.expires - 1:
            early = span(answer.expires - life.ends)
            summary = f"{head}: {life.what} ends {early} before the expirationTimestamp beside it"
            advice = "Requests in between will fail: expirationTimestamp must be the earlier of the two."
            return warning("credential", summary, advice, **facts)
    left = answer.expires - now
    if left < NEAR:
        advice = "Ask again in a minute; if it is always so short, have it issued for longer."
        return warning("credential", f"{head}: only {span(left)} left", advice, **facts)
    key = "; the key belongs to the certificate" if answer.certificate is not None else ""
    return ok("credential", f"{head}: {ends(answer.expires, now)}{key}", **facts)


_LOG_IN = (
    "Log in again, as the plugin or issuer wants it; if it should be good, check the clock of this machine."
)


def _not_now(life: Life, now: float) -> str:
    if life.ends is not None and life.ends < now:
        return f"{life.what} {ends(life.ends, now)}"
    return f"{life.what} begins only at {day(life.begins)}"


def _nothing_given(given: Given, told: Iterable[str], facts: dict[str, Json]) -> Finding:
    wrong = given.error
    if isinstance(wrong, PluginFailed):
        said = " / ".join(hidden(wrong.stderr_tail, told).splitlines()[-3:])
        facts |= {"exit_code": wrong.exit_code, "stderr": said or None}
        how = "was killed by a signal" if wrong.exit_code < 0 else f"failed with exit code {wrong.exit_code}"
        what = f"; stderr: {said}" if said else "; its output, if any, is above"
        advice = "Do what it says; or run the command of users[].user.exec by hand to see more."
        if not said:
            advice = "Run the command of users[].user.exec by hand to see why."
        return error("credential", f"{given.place} {how}{what}", advice, **facts)
    if isinstance(wrong, PluginTimeout):
        summary = f"{given.place} timed out after {wrong.timeout:g} s"
        advice = (
            "Run the command of users[].user.exec by hand: what does it wait for? If it only takes long, "
            "give it more with --plugin-timeout 5m"
        )
        return error("credential", summary, advice, **facts)
    return error("credential", *parted(hidden(str(wrong), told)), **facts)


def lives_of(given: Given) -> Iterator[Life]:
    """Of everything in it."""
    answer = given.answer
    if answer is None:
        return
    yield Life("the credential", None, answer.expires)
    if answer.token is not None and (end := token_end(answer.token)) is not None:
        yield Life("the token in it", None, end)
    if answer.certificate is not None and (leaf := certificate_of(answer.certificate)) is not None:
        yield Life("the certificate in it", leaf.not_before, leaf.not_after)


def token_end(token: Secret[str]) -> float | None:
    """The `exp` of a JWT, read without verifying anything; None if it has none, or is no JWT."""
    end = read_expiry(token)
    return end if isinstance(end, float) and end > 0 else None
