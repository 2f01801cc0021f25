"""OidcProvider: gets id-tokens from a kubeconfig's `auth-provider: oidc` entry and from its issuer (O2-O10).

HTTP requests are sent by the `fetch` argument, which blocks; `_transport.oidc_http` builds it. With an event
loop, `OidcProvider.fetch` runs in a worker thread, as a plugin does.

A single-use refresh-token becomes invalid when the issuer receives it, and the login is lost if its successor
is not written to the kubeconfig. Therefore the issuer is contacted only if the file is writable; the file is
reloaded once its lock is held; tokens that could not be written are retained and written at the next fetch;
and neither Ctrl-C nor the exit of the program interrupts an exchange.
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
from typing import TYPE_CHECKING, Protocol, TypeAlias

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

if TYPE_CHECKING:
    from kubeauth.schemas import TokenResponse

NO_TOKEN = Secret("")
_LOG_IN = "Log in again, as you did to get it."
_RETRY = "Retry the request."
_MAX_SEEN_TOKENS = 64


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
    """Fetches id-tokens for one entry of a kubeconfig, or for tokens that did not come from a file."""

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
        # The tokens in the file. If self._tokens differ, they are newer and not written yet.
        self._file_tokens = self._tokens
        # The most recent tokens that were in the file.
        self._seen = deque([self._file_tokens], maxlen=_MAX_SEEN_TOKENS)
        self._last_returned = NO_TOKEN
        self._secret_in_header: dict[str, bool] = {}
        self._entry: AuthProviderEntry | None = None
        if config.path is not None and config.user is not None:
            self._entry = AuthProviderEntry(config.path, config.user, partial(_is_same_entry, config))
        self._can_write_back = False
        self._is_shutting_down = False
        # Held during a fetch, which may continue after its caller has been cancelled.
        self._fetch_lock = threading.Lock()
        # Held from the use of a refresh-token until its successor has been written.
        self._exchange_lock = threading.Lock()
        _providers.add(self)

    @property
    def holds_unsaved_token(self) -> bool:
        """Whether the current refresh-token is not saved in the file."""
        return self._tokens.refresh_token != self._file_tokens.refresh_token

    def has_seen(self, config: OidcConfig) -> bool:
        """Return whether the tokens in `config` are known here. If not, a user has logged in again since."""
        return _Tokens(config.id_token or NO_TOKEN, config.refresh_token or NO_TOKEN) in list(self._seen)

    def fetch(self, is_cancelled: Callable[[], bool] = lambda: False) -> ProviderCredential:
        """Return an id-token that differs from the last one. Raises OidcError."""
        call = _FetchCall(self, is_cancelled)
        call.run_uninterrupted()
        result = call.result()
        if isinstance(result, OidcProblem):
            # Raised here, because no frame of this traceback refers to a response of the issuer.
            raise self.invalid_output_error(result.reason, result.advice)
        if isinstance(result, WriteProblem):
            raise self._write_error(result)
        if result.token is not None:
            self._last_returned = result.token
        return result

    def error(self, message: str) -> OidcError:
        """Return an error with the name of the issuer."""
        return OidcError(message, issuer=self.name)

    def invalid_output_error(self, reason: str, advice: str) -> OidcError:
        """Return an error for an issuer that returned no usable token."""
        return self.error(f"{ERROR_PREFIX}{reason.rstrip('.')}. {advice} The issuer is {self.name}.")

    def _write_error(self, problem: WriteProblem) -> OidcWriteError:
        return OidcWriteError(
            f"{ERROR_PREFIX}could not persist new tokens: {problem.reason}. {problem.advice} To use new "
            "tokens only in this process, call load_config(oidc_options=OidcOptions(write_back=False)); if "
            "refresh-tokens can be used only once, other programs that use the file must then log in again.",
            issuer=self.name,
            path=self._config.path or "",
        )

    def stop(self) -> None:
        """Do nothing: an exchange takes at most its timeout, and its tokens must not be lost."""

    def after_fork(self) -> None:
        """Replace the locks in a forked child: an exchange in progress belongs to the parent."""
        self._fetch_lock = threading.Lock()
        self._exchange_lock = threading.Lock()

    def shut_down(self) -> None:
        """Start no new exchange, and wait for one in progress. Called when the program exits."""
        self._is_shutting_down = True
        if self._exchange_lock.acquire(timeout=3 * self._config.options.timeout):
            self._exchange_lock.release()

    def _fetch_credential(self, is_cancelled: Callable[[], bool]) -> _Result:
        with self._fetch_lock, ExitStack() as stack:
            usable = self._usable_token()
            if usable is not None or self._entry is None or not self._config.options.write_back:
                return usable or self._refresh(is_cancelled)
            path, timeout = self._entry.path, self._config.options.timeout
            if not stack.enter_context(exclusive_lock(path, timeout)):
                return WriteProblem(
                    f"timed out after {timeout:g} seconds waiting for another process that is refreshing the "
                    f"tokens in {path}",
                    "Retry, or check what that process is waiting for.",
                )
            # The previous holder of the lock may have refreshed the tokens.
            return self._usable_token() or self._refresh(is_cancelled)

    def _usable_token(self) -> _Result | None:
        """Return the current id-token if it is valid and was not returned by the last fetch (O3)."""
        problem = self._reload()
        if problem is not None:
            return problem
        token = self._tokens.id_token
        if not token or token == self._last_returned:
            return None
        expires_at = read_expiry(token)
        if isinstance(expires_at, float) and not is_valid(expires_at, self._now()):
            return None
        return self._write_back() or self._build_credential(token)

    def _reload(self) -> WriteProblem | None:
        """Use the tokens in the file if another process changed them: then they are newer."""
        self._can_write_back = False
        settings = self._entry.read() if self._entry is not None else None
        if isinstance(settings, WriteProblem):
            return settings if self._config.options.write_back else None
        if settings is not None:
            self._can_write_back = self._config.options.write_back
            tokens = _Tokens(_get_secret(settings, ID_TOKEN), _get_secret(settings, REFRESH_TOKEN))
            if tokens != self._file_tokens:
                self._file_tokens = self._tokens = tokens
                self._seen.append(tokens)
        return None

    def _refresh(self, is_cancelled: Callable[[], bool]) -> _Result:
        if not self._tokens.refresh_token:
            return OidcProblem("No valid id-token, and cannot refresh without refresh-token", _LOG_IN)
        if self._entry is not None and self._can_write_back:
            write_problem = self._entry.check_writable(self._config.options.timeout)
            if write_problem is not None:
                return write_problem
        response = self._fetch(build_discovery_request(self._config.issuer_url))
        url = (
            _build_unreachable_problem(response)
            if isinstance(response, NoResponse)
            else parse_discovery(response)
        )
        if isinstance(url, OidcProblem):
            return url
        with self._exchange_lock:
            if self._is_shutting_down or is_cancelled():
                return OidcProblem("the token refresh was cancelled", _RETRY)
            tokens = self._exchange(url, self._tokens.refresh_token)
            problem = tokens if isinstance(tokens, OidcProblem) else self._store(tokens)
            # Also after a problem: the issuer may have returned a new refresh-token without an id-token.
            write_problem = self._write_back()
        return problem or write_problem or self._build_credential(self._tokens.id_token)

    def _build_credential(self, token: Secret[str]) -> _Result:
        expires_at, pair = read_expiry(token), self._read_client_cert()
        if isinstance(expires_at, str):
            return OidcProblem(expires_at, _LOG_IN)
        return ProviderCredential(
            token,
            pair.certificate if pair else None,
            pair.key if pair else None,
            last_valid_time(expires_at),
        )

    def _write_back(self) -> WriteProblem | None:
        """Write new tokens to the file, if write_back is enabled (O7). Return the problem if that fails."""
        if self._entry is None or not self._can_write_back or self._tokens == self._file_tokens:
            return None
        tokens = {ID_TOKEN: self._tokens.id_token, REFRESH_TOKEN: self._tokens.refresh_token}
        changes = {name: token for name, token in tokens.items() if token}
        self._seen.append(self._tokens)
        problem = self._entry.write(changes, self._config.options.timeout)
        if problem is None:
            self._file_tokens = self._tokens
        return problem

    def _store(self, tokens: TokenResponse) -> OidcProblem | None:
        """Store the tokens that the issuer returned. Return what is wrong with the id-token (O6)."""
        problem: OidcProblem | None = None
        id_token = self._tokens.id_token
        if not tokens.id_token:
            problem = OidcProblem(ID_NOT_RETURNED, "Use an exec plugin such as kubelogin with this issuer.")
        elif isinstance(reason := read_expiry(tokens.id_token), str):
            problem = OidcProblem(reason, "The issuer returned it: report this to its administrator.")
        else:
            id_token = tokens.id_token
        self._tokens = _Tokens(id_token, tokens.refresh_token or self._tokens.refresh_token)
        return problem

    def _exchange(self, url: str, refresh_token: Secret[str]) -> TokenResponse | OidcProblem:
        """Request tokens. Try client id and secret in the header and then in the form, as x/oauth2 does."""
        config = self._config
        known = self._secret_in_header.get(url)
        result: TokenResponse | OidcProblem = OidcProblem("", "")
        for in_header in (True, False) if known is None else (known,):
            response = self._fetch(build_refresh_request(url, config, refresh_token, in_header=in_header))
            if isinstance(response, NoResponse):
                return _build_unreachable_problem(response)
            secret = config.client_secret.reveal() if config.client_secret else ""
            result = parse_token_response(response, (refresh_token.reveal(), secret))
            if not isinstance(result, OidcProblem):
                self._secret_in_header[url] = in_header
                break
            if not result.is_rejected:
                break
        return result


class _FetchCall:
    """One call of OidcProvider._fetch_credential, in this or another thread."""

    def __init__(self, provider: OidcProvider, is_cancelled: Callable[[], bool]) -> None:
        self._provider = provider
        self._is_cancelled = is_cancelled
        self._result: _Result | None = None
        self._error: BaseException | None = None

    def run_uninterrupted(self) -> None:
        """Run in another thread if this is the main one, so that Ctrl-C does not lose a refresh-token."""
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=self._run, name="kubeauth-oidc", daemon=True)
            with suppress(RuntimeError):  # too many threads: run in this one
                thread.start()
                thread.join()
                return
        self._run()

    def _run(self) -> None:
        try:
            self._result = self._provider._fetch_credential(self._is_cancelled)
        except BaseException as error:  # raised in the calling thread
            self._error = error

    def result(self) -> _Result:
        if self._error is not None:
            raise self._error
        assert self._result is not None  # noqa: S101 -- _run sets the result or the error
        return self._result


def _is_same_entry(config: OidcConfig, settings: Mapping[str, str]) -> bool:
    """Return whether an entry is still for the same issuer and client. Else its tokens must not be used."""
    return (settings.get(ISSUER), settings.get(CLIENT_ID)) == (config.issuer_url, config.client_id)


def _get_secret(settings: Mapping[str, object], name: str) -> Secret[str]:
    value = settings.get(name)
    return Secret(value) if isinstance(value, str) and value else NO_TOKEN


def _build_unreachable_problem(response: NoResponse) -> OidcProblem:
    return OidcProblem(
        f"the issuer cannot be reached: {response.reason}", "Check idp-issuer-url, and its CA and proxy."
    )


_providers: weakref.WeakSet[OidcProvider] = weakref.WeakSet()


@atexit.register
def _shut_down_all() -> None:
    for provider in list(_providers):
        provider.shut_down()
