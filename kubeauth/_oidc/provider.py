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

from kubeauth._config.auth_provider import CLIENT_ID, ID_TOKEN, ISSUER, REFRESH_TOKEN, OidcConfig
from kubeauth._config.urls import redact_url
from kubeauth._config.writeback import AuthProviderEntry, WriteProblem, exclusive_lock
from kubeauth._exec.codec import ProviderCredential
from kubeauth._exec.config import ERROR_PREFIX
from kubeauth._oidc.protocol import (
    ID_NOT_RETURNED,
    Fetch,
    NoResponse,
    OidcProblem,
    TokenSet,
    build_discovery_request,
    build_refresh_request,
    is_valid,
    last_valid_time,
    parse_discovery,
    parse_token_response,
    read_expiry,
)
from kubeauth._secret import Secret
from kubeauth.errors import OidcError, OidcWriteError

NO_TOKEN = Secret("")
_LOG_IN = "Log in again, as you did to get it."
_RETRY = "Make the request again."
_MAX_SEEN = 64


class CertificatePair(Protocol):
    """A client certificate with its key."""

    @property
    def certificate(self) -> bytes: ...
    @property
    def key(self) -> Secret[bytes]: ...


@dataclass(frozen=True, slots=True)
class _Tokens:
    id_token: Secret[str] = NO_TOKEN
    refresh_token: Secret[str] = NO_TOKEN


_Result: TypeAlias = ProviderCredential | OidcProblem | WriteProblem


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
        read_client_cert: Callable[[], CertificatePair | None] = lambda: None,
    ) -> None:
        """`now` is the wall clock; `read_client_cert` reads the user's client certificate, if any."""
        self.name = redact_url(config.issuer_url)
        self.source = f"oidc {self.name}"
        self._config = config
        self._fetch = fetch
        self._now = now
        self._read_client_cert = read_client_cert
        self._tokens = _Tokens(config.id_token or NO_TOKEN, config.refresh_token or NO_TOKEN)
        # What the file was seen to hold. What differs from it is newer, and not written yet.
        self._saved = self._tokens
        # All that it was seen to hold, but for what was there long ago.
        self._seen = deque([self._saved], maxlen=_MAX_SEEN)
        self._last_returned = NO_TOKEN
        self._secret_in_header: dict[str, bool] = {}
        self._entry: AuthProviderEntry | None = None
        if config.path is not None and config.user is not None:
            self._entry = AuthProviderEntry(config.path, config.user, partial(_is_same_entry, config))
        self._can_write_back = False
        self._is_shutting_down = False
        # Held while it is asked, which may go on when who asked has gone.
        self._fetch_lock = threading.Lock()
        # Held from when a refresh-token is spent until its successor is safe.
        self._exchange_lock = threading.Lock()
        _providers.add(self)

    @property
    def holds_unsaved_token(self) -> bool:
        """Whether the refresh-token here is one that stands nowhere else."""
        return self._tokens.refresh_token != self._saved.refresh_token

    def has_seen(self, config: OidcConfig) -> bool:
        """Whether the tokens there are those here, or came before: else somebody has logged in since."""
        return _Tokens(config.id_token or NO_TOKEN, config.refresh_token or NO_TOKEN) in list(self._seen)

    def fetch(self, is_cancelled: Callable[[], bool] = lambda: False) -> ProviderCredential:
        """An id-token other than the one before. OidcError if there is none to be had."""
        exchange = _Exchange(self, is_cancelled)
        exchange.run_uninterrupted()
        answer = exchange.result()
        if isinstance(answer, OidcProblem):
            # Raised here, where nothing of what was said was ever held.
            raise self.invalid_output_error(answer.reason, answer.advice)
        if isinstance(answer, WriteProblem):
            raise self._write_error(answer)
        if answer.token is not None:
            self._last_returned = answer.token
        return answer

    def error(self, message: str) -> OidcError:
        """For what went wrong around it."""
        return OidcError(message, issuer=self.name)

    def invalid_output_error(self, reason: str, advice: str) -> OidcError:
        """For an issuer that gave nothing, or nothing that is of use."""
        return self.error(f"{ERROR_PREFIX}{reason.rstrip('.')}. {advice} The issuer is {self.name}.")

    def _write_error(self, trouble: WriteProblem) -> OidcWriteError:
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
        self._fetch_lock = threading.Lock()
        self._exchange_lock = threading.Lock()

    def shut_down(self) -> None:
        """At the end of the program: spends no more tokens, and waits for one that is being spent."""
        self._is_shutting_down = True
        if self._exchange_lock.acquire(timeout=3 * self._config.options.timeout):
            self._exchange_lock.release()

    def _answer(self, is_cancelled: Callable[[], bool]) -> _Result:
        with self._fetch_lock, ExitStack() as stack:
            at_hand = self._usable_token()
            if at_hand is not None or self._entry is None or not self._config.options.write_back:
                return at_hand or self._refresh(is_cancelled)
            path, timeout = self._entry.path, self._config.options.timeout
            if not stack.enter_context(exclusive_lock(path, timeout)):
                return WriteProblem(
                    f"another process has been renewing the tokens in {path} for {timeout:g} seconds",
                    "Try again, or find out what it waits for.",
                )
            # Whoever was alone with it before may have renewed them.
            return self._usable_token() or self._refresh(is_cancelled)

    def _usable_token(self) -> _Result | None:
        """The id-token there is, if it is good and another than the one before (O3)."""
        trouble = self._reload()
        if trouble is not None:
            return trouble
        token = self._tokens.id_token
        if not token or token == self._last_returned:
            return None
        ends = read_expiry(token)
        if isinstance(ends, float) and not is_valid(ends, self._now()):
            return None
        return self._write_back() or self._build_credential(token)

    def _reload(self) -> WriteProblem | None:
        """What the file has, if somebody else has changed it: then it is newer than what is here."""
        self._can_write_back = False
        found = self._entry.read() if self._entry is not None else None
        if isinstance(found, WriteProblem):
            return found if self._config.options.write_back else None
        if found is not None:
            self._can_write_back = self._config.options.write_back
            tokens = _Tokens(_get_secret(found, ID_TOKEN), _get_secret(found, REFRESH_TOKEN))
            if tokens != self._saved:
                self._saved = self._tokens = tokens
                self._seen.append(tokens)
        return None

    def _refresh(self, is_cancelled: Callable[[], bool]) -> _Result:
        if not self._tokens.refresh_token:
            return OidcProblem("No valid id-token, and cannot refresh without refresh-token", _LOG_IN)
        if self._entry is not None and self._can_write_back:
            trouble = self._entry.check_writable(self._config.options.timeout)
            if trouble is not None:
                return trouble
        reply = self._fetch(build_discovery_request(self._config.issuer_url))
        url = _unreachable_problem(reply) if isinstance(reply, NoResponse) else parse_discovery(reply)
        if isinstance(url, OidcProblem):
            return url
        with self._exchange_lock:
            if self._is_shutting_down or is_cancelled():
                return OidcProblem("it was not asked, because nobody waits for it any more", _RETRY)
            answer = self._exchange(url, self._tokens.refresh_token)
            problem = answer if isinstance(answer, OidcProblem) else self._store(answer)
            # A new refresh-token is worth keeping, also if nothing else came with it.
            trouble = self._write_back()
        return problem or trouble or self._build_credential(self._tokens.id_token)

    def _build_credential(self, token: Secret[str]) -> _Result:
        ends, pair = read_expiry(token), self._read_client_cert()
        if isinstance(ends, str):
            return OidcProblem(ends, _LOG_IN)
        expires = last_valid_time(ends)
        return ProviderCredential(
            token, pair.certificate if pair else None, pair.key if pair else None, expires
        )

    def _write_back(self) -> WriteProblem | None:
        """Puts into the file what is newer here, if it is to be there (O7). Why not, if that fails."""
        if self._entry is None or not self._can_write_back or self._tokens == self._saved:
            return None
        tokens = {ID_TOKEN: self._tokens.id_token, REFRESH_TOKEN: self._tokens.refresh_token}
        changes = {name: token for name, token in tokens.items() if token}
        self._seen.append(self._tokens)
        trouble = self._entry.write(changes, self._config.options.timeout)
        if trouble is None:
            self._saved = self._tokens
        return trouble

    def _store(self, answer: TokenSet) -> OidcProblem | None:
        """Takes what the issuer gave; what is wrong with it, if something is (O6)."""
        problem: OidcProblem | None = None
        id_token = self._tokens.id_token
        if answer.id_token is None:
            problem = OidcProblem(ID_NOT_RETURNED, "Use an exec plugin such as kubelogin with this issuer.")
        elif isinstance(wrong := read_expiry(answer.id_token), str):
            problem = OidcProblem(wrong, "The issuer sent it: tell whoever runs it.")
        else:
            id_token = answer.id_token
        self._tokens = _Tokens(id_token, answer.refresh_token or self._tokens.refresh_token)
        return problem

    def _exchange(self, url: str, refresh_token: Secret[str]) -> TokenSet | OidcProblem:
        """In the way that worked last time; else in the header first, as x/oauth2 does."""
        config = self._config
        known = self._secret_in_header.get(url)
        answer: TokenSet | OidcProblem = OidcProblem("", "")
        for in_header in (True, False) if known is None else (known,):
            reply = self._fetch(build_refresh_request(url, config, refresh_token, in_header=in_header))
            if isinstance(reply, NoResponse):
                return _unreachable_problem(reply)
            secret = config.client_secret.reveal() if config.client_secret else ""
            answer = parse_token_response(reply, (refresh_token.reveal(), secret))
            if isinstance(answer, TokenSet):
                self._secret_in_header[url] = in_header
                break
            if not answer.is_rejected:
                break
        return answer


class _Exchange:
    """One call of `_answer`, in whatever thread."""

    def __init__(self, provider: OidcProvider, is_cancelled: Callable[[], bool]) -> None:
        self._provider = provider
        self._is_cancelled = is_cancelled
        self._answer: _Result | None = None
        self._error: BaseException | None = None

    def run_uninterrupted(self) -> None:
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

    def result(self) -> _Result:
        if self._error is not None:
            raise self._error
        assert self._answer is not None  # noqa: S101 -- one of the two
        return self._answer


def _is_same_entry(config: OidcConfig, settings: Mapping[str, str]) -> bool:
    """Whether an entry is still about the same issuer and client: else its tokens are not ours to touch."""
    return (settings.get(ISSUER), settings.get(CLIENT_ID)) == (config.issuer_url, config.client_id)


def _get_secret(settings: Mapping[str, object], name: str) -> Secret[str]:
    value = settings.get(name)
    return Secret(value) if isinstance(value, str) and value else NO_TOKEN


def _unreachable_problem(reply: NoResponse) -> OidcProblem:
    return OidcProblem(
        f"the issuer cannot be reached: {reply.reason}", "Check idp-issuer-url, and its CA and proxy."
    )


_providers: weakref.WeakSet[OidcProvider] = weakref.WeakSet()


@atexit.register
def _shut_down_all() -> None:
    for provider in list(_providers):
        provider.shut_down()
