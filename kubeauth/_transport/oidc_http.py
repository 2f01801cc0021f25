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

from kubeauth._config.auth_provider import CA, OidcConfig
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import choose_proxy
from kubeauth._oidc.protocol import MAX_RESPONSE_SIZE, Fetch, NoResponse, TokenRequest, TokenResponse
from kubeauth._secret import Secret
from kubeauth._transport.deadline import Deadline
from kubeauth._transport.options import build_user_agent, require_proxy
from kubeauth._transport.tls import build_proxy_context, read_trust, ssl_context
from kubeauth.errors import KubeAuthError, TLSError

if TYPE_CHECKING:
    import httpx

_MAX_REDIRECTS = 10


@dataclass(frozen=True, slots=True)
class HttpxFactory:
    """How issuers are reached."""

    trust_env: bool = True

    def build_fetch(self, config: OidcConfig) -> Fetch:
        """TLSError if the issuer's CA is none."""
        issuer = ClientConfig(server=config.issuer_url, ca_data=config.ca_data, ca_file=config.ca_file)
        why = ""
        try:
            ssl_context(issuer)
        except TLSError as error:
            why = str(error)
        if why:
            raise TLSError(f"{CA} of the auth provider oidc: {why}")
        return lambda call: _fetch(call, issuer, config.options.timeout, trust_env=self.trust_env)


def _fetch(
    call: TokenRequest, issuer: ClientConfig, timeout: float, *, trust_env: bool
) -> TokenResponse | NoResponse:
    """Follows redirects of a GET, as Go does; a POST holds a token, and goes nowhere else."""
    ends = time.monotonic() + timeout
    for _ in range(_MAX_REDIRECTS):
        reply = _fetch_once(call, issuer, timeout, ends, trust_env=trust_env)
        if not isinstance(reply, str):
            return reply
        call = TokenRequest(reply)
    return NoResponse(f"stopped after {_MAX_REDIRECTS} redirects")


def _fetch_once(
    call: TokenRequest, issuer: ClientConfig, timeout: float, ends: float, *, trust_env: bool
) -> TokenResponse | NoResponse | str:
    """The reply; or where it is, after a redirect. The errors of httpx hold the request: none gets out."""
    import httpx

    deadline = Deadline(ends - time.monotonic())
    try:
        with (
            deadline,
            httpx.Client(transport=_build_transport(call.url, issuer, trust_env), timeout=timeout) as client,
            client.stream(
                "GET" if call.body is None else "POST",
                call.url,
                headers=_build_headers(call),
                content=call.body.reveal() if call.body else None,
                extensions={"trace": deadline.on_trace},
            ) as response,
        ):
            if call.body is None and response.has_redirect_location:
                return urljoin(call.url, response.headers["Location"])
            if "Content-Encoding" in response.headers:
                # Nobody asked for one, and a few kilobytes may be gigabytes.
                return NoResponse("it sent a compressed answer, which it was not asked for")
            body = b""
            for part in response.iter_bytes():
                body += part
                if len(body) > MAX_RESPONSE_SIZE:
                    return NoResponse(f"it said more than {MAX_RESPONSE_SIZE // 2**20} MiB")
            # What has come to its end is kept, however late: the token that it was asked with is spent.
            says_its_end = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
            if deadline.has_expired and not says_its_end:
                return _timed_out(timeout)
            return TokenResponse(response.status_code, response.headers.get("Content-Type", ""), body)
    except httpx.TimeoutException:
        return _timed_out(timeout)
    except (httpx.HTTPError, httpx.InvalidURL, KubeAuthError, OSError) as error:
        if deadline.has_expired:
            return _timed_out(timeout)
        return NoResponse(str(error).rstrip(".") or type(error).__name__)
    except ValueError:
        # An address that httpx takes and the layers below it do not; each says so in words of its own.
        return NoResponse("it named an address that is none")


def _build_transport(url: str, issuer: ClientConfig, trust_env: bool) -> httpx.HTTPTransport:
    import httpx

    chosen = choose_proxy(url, proxy_url=None, environ=os.environ if trust_env else {})
    proxy = None
    if chosen is not None:
        require_proxy(Secret(chosen))
        is_https = chosen.lower().startswith("https:")
        proxy = httpx.Proxy(
            chosen, ssl_context=build_proxy_context(issuer, read_trust(issuer)) if is_https else None
        )
    return httpx.HTTPTransport(ssl_context(issuer), proxy=proxy)


def _build_headers(call: TokenRequest) -> dict[str, str]:
    import httpx

    headers = {
        "User-Agent": build_user_agent(f"python-httpx/{httpx.__version__}"),
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    if call.authorization is not None:
        headers["Authorization"] = call.authorization.reveal()
    if call.body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return headers


def _timed_out(timeout: float) -> NoResponse:
    return NoResponse(f"it did not answer within {timeout:g} seconds (OidcOptions.timeout)")
