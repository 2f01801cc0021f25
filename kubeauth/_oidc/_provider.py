"""An OIDC issuer, asked for an id-token: from the kubeconfig's entry to a token, or a typed error (O2-O10).

HTTP is not done here: `fetch` is handed in by the transports, who know proxies and trust. It blocks; whoever
has an event loop asks in a thread, as for a plugin.

A refresh-token that is good once is spent when the issuer reads it, and lost if its successor does not reach
the kubeconfig. So: nothing is asked unless the file can be written; whoever is alone with the file reads it
again first; what could not be written is kept and written at the next try; and neither Ctrl-C nor the end of
the program interrupts an exchange.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from kubeauth._config._oidc import CLIENT_ID, ID_TOKEN, ISSUER, REFRESH_TOKEN, OidcConfig
from kubeauth._config._rewrite import Entry, Trouble, only_one
from kubeauth._config._server import without_password
from kubeauth._exec.codec import ProviderCredential
from kubeauth._exec.config import ERROR_PREFIX
from kubeauth._oidc._dialogue import (
    MISSING,
    Fetch,
    Granted,
    NoReply,
    Wrong,
    discovery,
    grant,
    granted,
    token_endpoint,
)
from kubeauth._oidc._token import ends_of, is_good, last_moment
from kubeauth._secret import Secret
from kubeauth.errors import OidcError, OidcWriteError

NONE = Secret("")
_LOG_IN = "Log in again, as you did to get it."
_AGAIN = "Make the request again."
_REMEMBERED = 64


class Pair(Protocol):
    """A client certificate with its key."""

    @property
    def certificate(self) -> bytes: ...
    @property
    def key(self) -> Secret[bytes]: ...


@dataclass(frozen=True, slots=True)
class _Tokens:
    id_token: Secret[str] = NONE
    refresh_token: Secret[str] = NONE


_Answer: TypeAlias = ProviderCredential | Wrong | Trouble


class OidcProvider:
    """One entry of a kubeconfig, or tokens that stand nowhere else."""

    description = "issuer"
    is_interactive = False

    def __init__(
        self,
        config: OidcConfig,
        fetch: Fetch,
        *,
        now: Callable[[], float],
        read_client_cert: Callable[[], Pair | None] = lambda: None,
    ) -> None:
        """`now` is the wall clock; `read_client_cert` reads the user's client certificate, if any."""
        self.name = without_password(config.issuer_url)
        self.source = f"oidc {self.name}"
        self._config = config
        self._fetch = fetch
        self._now = now
        self._read_client_cert = read_client_cert
        self._tokens = _Tokens(config.id_token or NONE, config.refresh_token or NONE)
        # What the file was seen to hold. What differs from it is newer, and not written yet.
        self._seen = self._tokens
        # All that it was seen to hold, but for what was there long ago.
        self._known = deque([self._seen], maxlen=_REMEMBERED)
        self._given = NONE
        self._in_header: dict[str, bool] = {}
        self._entry: Entry | None = None
        if config.path is not None and config.user is not None:
            self._entry = Entry(config.path, config.user, partial(_is_ours, config))
        self._is_there = False
        self._is_leaving = False
        # Held while it is asked, which may go on when who asked has gone.
        self._busy = threading.Lock()
        # Held from when a refresh-token is spent until its successor is safe.
        self._spending = threading.Lock()
        _providers.add(self)

    @property
    def holds_unsaved_token(self) -> bool:
        """Whether the refresh-token here is one that stands nowhere else."""
        return self._tokens.refresh_token != self._seen.refresh_token

    def knows(self, config: OidcConfig) -> bool:
        """Whether the tokens there are those here, or came before: else somebody has logged in since."""
        return _Tokens(config.id_token or NONE, config.refresh_token or NONE) in list(self._known)

    def fetch(self, is_cancelled: Callable[[], bool] = lambda: False) -> ProviderCredential:
        """An id-token other than the one before. OidcError if there is none to be had."""
        exchange = _Exchange(self, is_cancelled)
        exchange.run_to_its_end()
        answer = exchange.outcome()
        if isinstance(answer, Wrong):
            # Raised here, where nothing of what was said was ever held.
            raise self.invalid_output_error(answer.reason, answer.advice)
        if isinstance(answer, Trouble):
            raise self._not_written(answer)
        if answer.token is not None:
            self._given = answer.token
        return answer

    def error(self, message: str) -> OidcError:
        """For what went wrong around it."""
        return OidcError(message, issuer=self.name)

    def invalid_output_error(self, reason: str, advice: str) -> OidcError:
        """For an issuer that gave nothing, or nothing that is of use."""
        return self.error(f"{ERROR_PREFIX}{reason.rstrip('.')}. {advice} The issuer is {self.name}.")

    def _not_written(self, trouble: Trouble) -> OidcWriteError:
        return OidcWriteError(
            f"{ERROR_PREFIX}could not persist new tokens: {trouble.reason}. {trouble.advice} To keep them in "
            "this process alone: load_config(oidc_options=OidcOptions(write_back=False)); if a refresh-token "
            "can be used only once, other programs that use the file must then log in again.",
            issuer=self.name,
            path=self._config.path or "",
        )

    def stop(self) -> None:
        """Nothing: it is over soon, and what it gives must be kept."""

    def after_fork(self) -> None:
        """In a child: an exchange that is under way is the parent's."""
        self._busy = threading.Lock()
        self._spending = threading.Lock()

    def leave(self) -> None:
        """At the end of the program: spends no more tokens, and waits for one that is being spent."""
        self._is_leaving = True
        if self._spending.acquire(timeout=3 * self._config.options.timeout):
            self._spending.release()

    def _answer(self, is_cancelled: Callable[[], bool]) -> _Answer:
        with self._busy, ExitStack() as stack:
            at_hand = self._at_hand()
            if at_hand is not None or self._entry is None or not self._config.options.write_back:
                return at_hand or self._renewed(is_cancelled)
            path, timeout = self._entry.path, self._config.options.timeout
            if not stack.enter_context(only_one(path, timeout)):
                return Trouble(
                    f"another process has been renewing the tokens in {path} for {timeout:g} seconds",
                    "Try again, or find out what it waits for.",
                )
            # Whoever was alone with it before may have renewed them.
            return self._at_hand() or self._renewed(is_cancelled)

    def _at_hand(self) -> _Answer | None:
        """The id-token there is, if it is good and another than the one before (O3)."""
        trouble = self._look()
        if trouble is not None:
            return trouble
        token = self._tokens.id_token
        if not token or token == self._given:
            return None
        ends = ends_of(token)
        if isinstance(ends, float) and not is_good(ends, self._now()):
            return None
        return self._saved() or self._credential(token)

    def _look(self) -> Trouble | None:
        """What the file has, if somebody else has changed it: then it is newer than what is here."""
        self._is_there = False
        found = self._entry.read() if self._entry is not None else None
        if isinstance(found, Trouble):
            return found if self._config.options.write_back else None
        if found is not None:
            self._is_there = self._config.options.write_back
            tokens = _Tokens(_secret(found, ID_TOKEN), _secret(found, REFRESH_TOKEN))
            if tokens != self._seen:
                self._seen = self._tokens = tokens
                self._known.append(tokens)
        return None

    def _renewed(self, is_cancelled: Callable[[], bool]) -> _Answer:
        if not self._tokens.refresh_token:
            return Wrong("No valid id-token, and cannot refresh without refresh-token", _LOG_IN)
        if self._entry is not None and self._is_there:
            trouble = self._entry.writable(self._config.options.timeout)
            if trouble is not None:
                return trouble
        reply = self._fetch(discovery(self._config.issuer_url))
        url = _unreachable(reply) if isinstance(reply, NoReply) else token_endpoint(reply)
        if isinstance(url, Wrong):
            return url
        with self._spending:
            if self._is_leaving or is_cancelled():
                return Wrong("it was not asked, because nobody waits for it any more", _AGAIN)
            answer = self._granted(url, self._tokens.refresh_token)
            problem = answer if isinstance(answer, Wrong) else self._keep(answer)
            # A new refresh-token is worth keeping, also if nothing else came with it.
            trouble = self._saved()
        return problem or trouble or self._credential(self._tokens.id_token)

    def _credential(self, token: Secret[str]) -> _Answer:
        ends, pair = ends_of(token), self._read_client_cert()
        if isinstance(ends, str):
            return Wrong(ends, _LOG_IN)
        expires = last_moment(ends)
        return ProviderCredential(
            token, pair.certificate if pair else None, pair.key if pair else None, expires
        )

    def _saved(self) -> Trouble | None:
        """Puts into the file what is newer here, if it is to be there (O7). Why not, if that fails."""
        if self._entry is None or not self._is_there or self._tokens == self._seen:
            return None
        tokens = {ID_TOKEN: self._tokens.id_token, REFRESH_TOKEN: self._tokens.refresh_token}
        changes = {name: token for name, token in tokens.items() if token}
        self._known.append(self._tokens)
        trouble = self._entry.write(changes, self._config.options.timeout)
        if trouble is None:
            self._seen = self._tokens
        return trouble

    def _keep(self, answer: Granted) -> Wrong | None:
        """Takes what the issuer gave; what is wrong with it, if something is (O6)."""
        problem: Wrong | None = None
        id_token = self._tokens.id_token
        if answer.id_token is None:
            problem = Wrong(MISSING, "Use an exec plugin such as kubelogin with this issuer.")
        elif isinstance(wrong := ends_of(answer.id_token), str):
            problem = Wrong(wrong, "The issuer sent it: tell whoever runs it.")
        else:
            id_token = answer.id_token
        self._tokens = _Tokens(id_token, answer.refresh_token or self._tokens.refresh_token)
        return problem

    def _granted(self, url: str, refresh_token: Secret[str]) -> Granted | Wrong:
        """In the way that worked last time; else in the header first, as x/oauth2 does."""
        config = self._config
        known = self._in_header.get(url)
        answer: Granted | Wrong = Wrong("", "")
        for in_header in (True, False) if known is None else (known,):
            reply = self._fetch(grant(url, config, refresh_token, in_header=in_header))
            if isinstance(reply, NoReply):
                return _unreachable(reply)
            secret = config.client_secret.reveal() if config.client_secret else ""
            answer = granted(reply, (refresh_token.reveal(), secret))
            if isinstance(answer, Granted):
                self._in_header[url] = in_header
                break
            if not answer.was_refused:
                break
        return answer


class _Exchange:
    """One call of `_answer`, in whatever thread."""

    def __init__(self, provider: OidcProvider, is_cancelled: Callable[[], bool]) -> None:
        self._provider = provider
        self._is_cancelled = is_cancelled
        self._answer: _Answer | None = None
        self._error: BaseException | None = None

    def run_to_its_end(self) -> None:
        """Where signals strike, in another thread: a token that was spent must not be lost to Ctrl-C."""
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=self._run, name="kubeauth-oidc", daemon=True)
            with suppress(RuntimeError):  # too many: then here
                thread.start()
                thread.join()
                return
        self._run()

    def _run(self) -> None:
        try:
            self._answer = self._provider._answer(self._is_cancelled)
        except BaseException as error:  # for whoever asked, who is in another thread
            self._error = error

    def outcome(self) -> _Answer:
        if self._error is not None:
            raise self._error
        assert self._answer is not None  # noqa: S101 -- one of the two
        return self._answer


def _is_ours(config: OidcConfig, settings: Mapping[str, str]) -> bool:
    """Whether an entry is still about the same issuer and client: else its tokens are not ours to touch."""
    return (settings.get(ISSUER), settings.get(CLIENT_ID)) == (config.issuer_url, config.client_id)


def _secret(settings: Mapping[str, object], name: str) -> Secret[str]:
    value = settings.get(name)
    return Secret(value) if isinstance(value, str) and value else NONE


def _unreachable(reply: NoReply) -> Wrong:
    return Wrong(
        f"the issuer cannot be reached: {reply.reason}", "Check idp-issuer-url, and its CA and proxy."
    )


_providers: weakref.WeakSet[OidcProvider] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    for provider in list(_providers):
        provider.leave()
