"""How an OIDC issuer is reached: with its own CA or the system's, through the environment's proxy (O5).

With httpx, which every installation has, whatever library the client is of: these are small blocking
requests, in a thread if there is an event loop, and proxies and trust are there already. Nothing of the
cluster's is used.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._oidc import CA, OidcConfig
from kubeauth._config._proxy import choose_proxy
from kubeauth._oidc._dialogue import MAX_REPLY, Call, Fetch, NoReply, Reply
from kubeauth._secret import Secret
from kubeauth._transport._client_options import user_agent
from kubeauth._transport._deadline import Deadline
from kubeauth._transport._needs import need_proxy
from kubeauth._transport._tls import proxy_context, read_trust, ssl_context
from kubeauth.errors import KubeAuthError, TLSError

if TYPE_CHECKING:
    import httpx

_MAX_REDIRECTS = 10


@dataclass(frozen=True, slots=True)
class Fetching:
    """How issuers are reached."""

    trust_env: bool = True

    def fetch_for(self, config: OidcConfig) -> Fetch:
        """TLSError if the issuer's CA is none."""
        issuer = ClientConfig(server=config.issuer_url, ca_data=config.ca_data, ca_file=config.ca_file)
        why = ""
        try:
            ssl_context(issuer)
        except TLSError as error:
            why = str(error)
        if why:
            raise TLSError(f"{CA} of the auth provider oidc: {why}")
        return lambda call: _fetched(call, issuer, config.options.timeout, trust_env=self.trust_env)


def _fetched(call: Call, issuer: ClientConfig, timeout: float, *, trust_env: bool) -> Reply | NoReply:
    """Follows redirects of a GET, as Go does; a POST holds a token, and goes nowhere else."""
    ends = time.monotonic() + timeout
    for _ in range(_MAX_REDIRECTS):
        reply = _once(call, issuer, timeout, ends, trust_env=trust_env)
        if not isinstance(reply, str):
            return reply
        call = Call(reply)
    return NoReply(f"stopped after {_MAX_REDIRECTS} redirects")


def _once(
    call: Call, issuer: ClientConfig, timeout: float, ends: float, *, trust_env: bool
) -> Reply | NoReply | str:
    """The reply; or where it is, after a redirect. The errors of httpx hold the request: none gets out."""
    import httpx

    deadline = Deadline(ends - time.monotonic())
    try:
        with (
            deadline,
            httpx.Client(transport=_transport(call.url, issuer, trust_env), timeout=timeout) as client,
            client.stream(
                "GET" if call.body is None else "POST",
                call.url,
                headers=_headers(call),
                content=call.body.reveal() if call.body else None,
                extensions={"trace": deadline.notice},
            ) as response,
        ):
            if call.body is None and response.has_redirect_location:
                return urljoin(call.url, response.headers["Location"])
            if "Content-Encoding" in response.headers:
                # Nobody asked for one, and a few kilobytes may be gigabytes.
                return NoReply("it sent a compressed answer, which it was not asked for")
            body = b""
            for part in response.iter_bytes():
                body += part
                if len(body) > MAX_REPLY:
                    return NoReply(f"it said more than {MAX_REPLY // 2**20} MiB")
            # What has come to its end is kept, however late: the token that it was asked with is spent.
            says_its_end = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
            if deadline.has_passed and not says_its_end:
                return _too_slow(timeout)
            return Reply(response.status_code, response.headers.get("Content-Type", ""), body)
    except httpx.TimeoutException:
        return _too_slow(timeout)
    except (httpx.HTTPError, httpx.InvalidURL, KubeAuthError, OSError) as error:
        if deadline.has_passed:
            return _too_slow(timeout)
        return NoReply(str(error).rstrip(".") or type(error).__name__)
    except ValueError:
        # An address that httpx takes and the layers below it do not; each says so in words of its own.
        return NoReply("it named an address that is none")


def _transport(url: str, issuer: ClientConfig, trust_env: bool) -> httpx.HTTPTransport:
    import httpx

    chosen = choose_proxy(url, proxy_url=None, environ=os.environ if trust_env else {})
    proxy = None
    if chosen is not None:
        need_proxy(Secret(chosen))
        is_https = chosen.lower().startswith("https:")
        proxy = httpx.Proxy(
            chosen, ssl_context=proxy_context(issuer, read_trust(issuer)) if is_https else None
        )
    return httpx.HTTPTransport(ssl_context(issuer), proxy=proxy)


def _headers(call: Call) -> dict[str, str]:
    import httpx

    headers = {
        "User-Agent": user_agent(f"python-httpx/{httpx.__version__}"),
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    if call.authorization is not None:
        headers["Authorization"] = call.authorization.reveal()
    if call.body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return headers


def _too_slow(timeout: float) -> NoReply:
    return NoReply(f"it did not answer within {timeout:g} seconds (OidcOptions.timeout)")
