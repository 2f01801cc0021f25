"""How a cluster is discovered: one generator of steps, for both colours. Nothing here reads or connects.

By a token, as kubeadm does (A36-A52): the endpoint is asked without knowing who it is, and without
showing anything. Its answer counts if it is signed with the token. If public keys are pinned, the CA in it
is cut down to these, and the endpoint is asked again: now it must prove by that CA who it is, and say the
same. In the seed's mode (A73-A83) the question carries a JWT, and the whole answer is signed. A kubeconfig
from a file or by https (A64-A71) is tried against the server that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn, TypeAlias, TypeVar
from urllib.parse import urljoin, urlsplit

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import MAX_URL_LENGTH
from kubeauth._runtime import Clock
from kubeauth._secret import Secret
from kubeauth.discovery._arguments import STDIN, Asked, ByFile, ByToken, ByUrl, https_url
from kubeauth.discovery._cluster_info import ClusterInfo, read_cluster_info
from kubeauth.discovery._document import CONTEXT_NAME, bootstrap_document
from kubeauth.discovery._fetch import Call, NoReply, Reply
from kubeauth.discovery._given import Given, given_file, given_text
from kubeauth.discovery._jws import verify_detached
from kubeauth.discovery._jwt import request_jwt
from kubeauth.discovery._kubeconfig import NO_CA, Found, Refusal, Told, cluster_in, only_pinned, told_by
from kubeauth.discovery._progress import Progress, Stage
from kubeauth.discovery._result import Discovered, Method
from kubeauth.discovery._token import CLUSTER_INFO_PATH, JWS_HEADER, BootstrapToken
from kubeauth.errors import ClusterNotReady, ClusterNotTrusted, ConfigError, KubeConfigError, escape_control

MOST_SECONDS = 10.0
"""For one request (A26)."""
_MOST_REDIRECTS = 10
_NOT_VALIDATED = "the identity of the API server could not be validated: "
# What to do about a certificate that is not trusted, where there is no kubeconfig to correct.
_MUST_BE_PINNED = (
    "That of the cluster is of the CA that is pinned, and for this address: is somebody in between?"
)
_MUST_BE_KNOWN = "Who offers a kubeconfig must have one that this system trusts."
# What a status means to whoever asks for cluster-info: a stranger, the bearer of a JWT, a client.
_TO_STRANGERS = {
    401: "strangers may ask it nothing",
    403: "strangers may not read cluster-info there",
    404: "there is no cluster-info",
}
_TO_BEARERS = {**_TO_STRANGERS, 401: "it does not know the token, or not the seed's mode"}
_TO_CLIENTS = {401: "it does not know who the kubeconfig says that we are", 404: "there is no cluster-info"}
_T = TypeVar("_T")


@dataclass(slots=True)
class Fetch:
    """Ask a server."""

    call: Call
    reply: Reply | NoReply = field(init=False)


@dataclass(slots=True)
class Sleep:
    """Wait before the next try."""

    seconds: float


@dataclass(slots=True)
class Work:
    """Read a file, or a long document: that holds up an event loop."""

    run: Callable[[], None]


Step: TypeAlias = Fetch | Sleep | Work


@dataclass(frozen=True, slots=True)
class Pending:
    """Why it is not time to go on yet."""

    stage: Stage
    reason: str
    reply: int | None = None


Ask: TypeAlias = Callable[[float], Call]
"""The question, given the seconds there are for it."""


class Discovery:
    """One of them."""

    def __init__(self, asked: Asked, clock: Clock, progress: Callable[[Progress], None] | None) -> None:
        self._asked = asked
        self._clock = clock
        self._progress = progress
        self._ends = clock.monotonic() + asked.timeout

    def steps(self) -> Generator[Step, None, Discovered]:
        by = self._asked.by
        if isinstance(by, ByToken):
            return (yield from self._by_token(by))
        if isinstance(by, ByUrl):
            text = yield from self._downloaded(by.url)
            given = yield from self._worked(partial(given_text, text))
            if isinstance(given, Refusal):
                self._refuse(given, f"the kubeconfig at {_shown(by.url)}")
            return (yield from self._checked(given, "url"))
        return (yield from self._by_file(by))

    def _by_token(self, by: ByToken) -> Generator[Step, None, Discovered]:
        where = _shown(by.server)
        stranger = ClientConfig(server=by.server, insecure_skip_tls_verify=True)
        text = yield from self._cluster_info(by, stranger, "endpoint")
        found = yield from self._worked(partial(cluster_in, text))
        if isinstance(found, Found) and by.pins:
            found = only_pinned(found, by.pins)
        if isinstance(found, Refusal):
            self._refuse(found, f"cluster-info of {where}")
        if by.pins:
            proven = ClientConfig(server=by.server, ca_data=found.ca)
            again = yield from self._cluster_info(by, proven, "verification", _MUST_BE_PINNED)
            if again != text:
                changed = "it said something else when it was asked again, by somebody who could verify it"
                self._refuse(Refusal("changed", changed), f"cluster-info of {where}")
        return _bootstrapped(found, "token", self._asked.tls_bootstrap_token or by.token)

    def _cluster_info(
        self, by: ByToken, config: ClientConfig, stage: Stage, must_be: str = ""
    ) -> Generator[Step, None, Secret[str]]:
        """The kubeconfig in it, whose signature is good."""
        hear = _heard_signed if by.mode == "seed" else _heard

        def call(limit: float) -> Call:
            jwt = None
            if by.mode == "seed":
                # A new one for each try: it is good for a minute (A76).
                jwt = request_jwt(by.token, now=self._clock.time(), audience=by.audience)
            return Call(
                by.server + CLUSTER_INFO_PATH, config, limit, authorization=jwt, if_not_trusted=must_be
            )

        return (yield from self._polled(call, partial(hear, by), stage, _shown(by.server)))

    def _by_file(self, by: ByFile) -> Generator[Step, None, Discovered]:
        given = yield from self._worked(partial(given_file, by.path))
        if isinstance(given, Refusal):
            whose = "on stdin" if by.path == STDIN else by.path
            raise KubeConfigError(f"the kubeconfig {whose}: {given.words}.", path=by.path)
        return (yield from self._checked(given, "file"))

    def _worked(self, work: Callable[[], _T]) -> Generator[Step, None, _T]:
        results: list[_T] = []
        yield Work(lambda: results.append(work()))
        return results[0]

    def _downloaded(self, url: str) -> Generator[Step, None, Secret[bytes]]:
        """What an https server has for everybody. Asked once (A66)."""
        self._tell("document", 0)
        where = _shown(url)
        for _ in range(_MOST_REDIRECTS):
            stranger = ClientConfig(server=_origin(url))
            step = Fetch(Call(url, stranger, self._limit(), "*/*", if_not_trusted=_MUST_BE_KNOWN))
            yield step
            reply = step.reply
            if isinstance(reply, NoReply):
                raise _not_ready(where, Pending("document", reply.reason), 1)
            if reply.status == 200:
                return reply.body
            if reply.location is None or reply.status not in (301, 302, 303, 307, 308):
                raise _not_ready(where, Pending("document", f"it answered {reply.status}", reply.status), 1)
            target = _redirected(url, reply.location)
            if target is None:
                self._refuse(Refusal("redirect", "it redirects to something that is not https"), where)
            url, where = target, _shown(target)
        self._refuse(Refusal("redirect", f"it redirects more than {_MOST_REDIRECTS} times"), where)

    def _checked(self, given: Given, method: Method) -> Generator[Step, None, Discovered]:
        """What is kept of a kubeconfig, if the server that it names proves who it is (A59-A61, A68-A70)."""
        token = self._asked.tls_bootstrap_token
        if token is None and not given.has_credentials:
            raise ConfigError(
                "the kubeconfig has no credentials that can be used: pass tls_bootstrap_token=. Of a file, "
                "tokens, passwords and key pairs are taken; from stdin and from a URL nothing about a user; "
                "programs never. A kubeconfig of your own needs no discovery: use it as it is."
            )
        server, warnings = given.found.server, given.found.warnings
        told = yield from self._polled(
            lambda limit: Call(server.rstrip("/") + CLUSTER_INFO_PATH, given.config, limit),
            _heard_by_a_client,
            "verification",
            _shown(server),
        )
        if told is not None and told.server != server:
            says = escape_control(_shown(told.server)) or "something that is no https address"
            warnings += (f"the cluster says that its server is {says}; the kubeconfig's is kept",)
        if not given.found.certificates:
            authorities = NO_CA if told is None else told.authorities
            if isinstance(authorities, Refusal):
                self._refuse(authorities, f"the kubeconfig has no CA, and cluster-info of {_shown(server)}")
            given = given.with_authority(authorities)
        found = replace(given.found, warnings=warnings)
        if token is not None:
            return _bootstrapped(found, method, token)
        return Discovered(
            config=given.config, pins=found.pins, method=method, warnings=warnings, document=given.document
        )

    def _polled(
        self, ask: Ask, hear: Callable[[Reply], _T | Pending | Refusal], stage: Stage, where: str
    ) -> Generator[Step, None, _T]:
        """Asks until there is an answer, or no time (A39)."""
        self._tell(stage, 0)
        tries, last = 0, None
        while True:
            tries += 1
            step = Fetch(ask(self._limit()))
            yield step
            heard = self._taken(step.reply, hear, stage, where)
            if not isinstance(heard, Pending):
                return heard
            # A try that the end cut short says less than the one before.
            if last is None or not self._is_over() or not _is_late(step.reply):
                last = heard
            # One that could not be finished is not begun.
            if self._is_over(in_seconds=self._asked.interval):
                raise _not_ready(where, last, tries)
            self._tell(heard.stage if stage == "endpoint" else stage, tries, heard.reason)
            yield Sleep(self._asked.interval)

    def _taken(
        self,
        reply: Reply | NoReply,
        hear: Callable[[Reply], _T | Pending | Refusal],
        stage: Stage,
        where: str,
    ) -> _T | Pending:
        """What a reply comes to, if it is not to be refused."""
        if isinstance(reply, NoReply):
            if reply.is_final:
                self._refuse(Refusal("certificate", reply.reason), where)
            return Pending(stage, reply.reason)
        heard = hear(reply)
        if isinstance(heard, Refusal):
            self._refuse(heard, f"cluster-info of {where}", reply.status)
        return heard

    def _is_over(self, in_seconds: float = 0.0) -> bool:
        return self._clock.monotonic() + in_seconds >= self._ends

    def _limit(self) -> float:
        if not self._asked.timeout:
            return MOST_SECONDS  # one try, whatever it takes (A39)
        # With nothing left there is an answer all the same: that it was too slow.
        return min(MOST_SECONDS, max(self._ends - self._clock.monotonic(), 0.001))

    def _tell(self, stage: Stage, tries: int, reason: str = "") -> None:
        if self._progress is not None:
            left = max(self._ends - self._clock.monotonic(), 0.0)
            self._progress(Progress(stage, tries, left, reason))

    def _refuse(self, refusal: Refusal, what: str, status: int | None = None) -> NoReturn:
        raise ClusterNotTrusted(
            f"{_NOT_VALIDATED}{what}: {refusal.words}.",
            status_code=status,
            reason=refusal.reason,
            pins=refusal.pins,
        )


def _heard(by: ByToken, reply: Reply) -> Secret[str] | Pending | Refusal:
    """In the mode that Kubernetes has: the kubeconfig is signed (A39-A43)."""
    info = _read(reply, by.token.id, _TO_STRANGERS)
    if not isinstance(info, ClusterInfo):
        return info
    if info.signature is None:
        # Whoever signs may not have seen the token yet.
        reason = (
            f"cluster-info has no signature for the token id {by.token.id}: that token is unknown there, "
            "over or not for signing, or nobody signs. `kubeadm token list` there shows what is known"
        )
        return Pending("signature", reason, reply.status)
    if not info.kubeconfig:
        return _NOT_SET_UP
    if not info.signature:
        return Refusal("signature", f"the token id {by.token.id} is unknown there, or the token is over")
    if not verify_detached(info.kubeconfig.reveal(), info.signature, by.token):
        return Refusal("signature", f"what it says is not signed with the token {by.token}{_ANOTHERS}")
    return info.kubeconfig


def _heard_signed(by: ByToken, reply: Reply) -> Secret[str] | Pending | Refusal:
    """In the mode of the seed: the whole answer is signed, and read after that (A80-A82)."""
    if reply.status != 200:
        return _not_200(reply, _TO_BEARERS)
    if len(reply.signatures) != 1:
        return Refusal(
            "signature", f"its answer has {len(reply.signatures)} headers {JWS_HEADER}: there must be one"
        )
    if not verify_detached(reply.body.reveal(), reply.signatures[0], by.token):
        return Refusal("signature", f"its answer is not signed with the token {by.token}{_ANOTHERS}")
    info = _read(reply, by.token.id, _TO_BEARERS)
    if isinstance(info, Pending):
        return Refusal("document", info.reason)
    return info.kubeconfig or _NOT_SET_UP


def _heard_by_a_client(reply: Reply) -> Told | Pending | Refusal | None:
    """By whoever knows the server: that it may not tell is an answer too (A68, A69)."""
    if reply.status == 403:
        return None
    info = _read(reply, "", _TO_CLIENTS)
    return info if isinstance(info, Pending) else told_by(info.kubeconfig)


def _read(reply: Reply, token_id: str, meanings: Mapping[int, str]) -> ClusterInfo | Pending:
    if reply.status != 200:
        return _not_200(reply, meanings)
    info = read_cluster_info(reply.body, token_id)
    return Pending("endpoint", info, reply.status) if isinstance(info, str) else info


def _is_late(reply: Reply | NoReply) -> bool:
    return isinstance(reply, NoReply) and reply.is_late


def _not_200(reply: Reply, meanings: Mapping[int, str]) -> Pending:
    means = f": {meanings[reply.status]}" if reply.status in meanings else ""
    if 300 <= reply.status < 400:
        means = ", which is a redirect and is not followed"
    return Pending("endpoint", f"it answered {reply.status}{means}", reply.status)


_ANOTHERS = (
    ", so it cannot be trusted. Compare the token with the cluster's; if it is right, somebody is in between"
)
_NOT_SET_UP = Refusal(
    "document", "there is no kubeconfig in it: the cluster is not set up for bootstrap tokens"
)


def _bootstrapped(found: Found, method: Method, token: BootstrapToken) -> Discovered:
    """To join with a token: of what was found, the address and the CA alone (A59)."""
    document = bootstrap_document(found, token)
    config = ClientConfig(
        server=found.server, ca_data=found.ca, token=Secret(token.reveal()), context=CONTEXT_NAME
    )
    return Discovered(
        config=config, pins=found.pins, method=method, warnings=found.warnings, document=document
    )


def _not_ready(where: str, last: Pending, tries: int) -> ClusterNotReady:
    times = "once" if tries == 1 else f"{tries} times, and at last"
    end = "" if last.reason.endswith("?") else "."
    return ClusterNotReady(
        f"{_NOT_VALIDATED}{where} was asked {times}: {last.reason}{end}",
        status_code=last.reply,
        attempts=tries,
    )


def _redirected(url: str, location: str) -> str | None:
    """Where to; None if that is not https."""
    if len(location) > MAX_URL_LENGTH:
        return None  # taking it apart could take as long as a stranger likes
    try:
        return https_url(urljoin(url, location))
    except ValueError:
        return None


def _origin(url: str) -> str:
    return f"https://{urlsplit(url).netloc}"


def _shown(url: str) -> str:
    """Of an address what says whose it is."""
    return urlsplit(url).netloc.rpartition("@")[2]
