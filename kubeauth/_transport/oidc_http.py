"""HTTP requests to OIDC issuers: with the issuer's CA or the system's, and the environment's proxy (O5).

Always with httpx, which is always installed, also below an httpx2 client: these are small blocking requests,
in a thread if there is an event loop. Nothing of the cluster's configuration is used.
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
    """Builds the function with which an OidcProvider sends its requests."""

    trust_env: bool = True

    def build_fetch(self, config: OidcConfig) -> Fetch:
        """Return that function. TLSError if the issuer's CA is not valid."""
        issuer = ClientConfig(server=config.issuer_url, ca_data=config.ca_data, ca_file=config.ca_file)
        reason = ""
        try:
            ssl_context(issuer)
        except TLSError as error:
            reason = str(error)
        if reason:
            raise TLSError(f"{CA} of the auth provider oidc: {reason}")
        return lambda request: _fetch(request, issuer, config.options.timeout, trust_env=self.trust_env)


def _fetch(
    request: TokenRequest, issuer: ClientConfig, timeout: float, *, trust_env: bool
) -> TokenResponse | NoResponse:
    """Send `request`. Redirects of a GET are followed, as in Go; a POST contains a token, so they are not."""
    expires_monotonic = time.monotonic() + timeout
    for _ in range(_MAX_REDIRECTS):
        result = _fetch_once(request, issuer, timeout, expires_monotonic, trust_env=trust_env)
        if not isinstance(result, str):
            return result
        request = TokenRequest(result)
    return NoResponse(f"stopped after {_MAX_REDIRECTS} redirects")


def _fetch_once(
    request: TokenRequest, issuer: ClientConfig, timeout: float, expires_monotonic: float, *, trust_env: bool
) -> TokenResponse | NoResponse | str:
    """Return the response, or the URL of a redirect. Raises nothing: httpx's errors hold the request."""
    import httpx

    deadline = Deadline(expires_monotonic - time.monotonic())
    try:
        with (
            deadline,
            httpx.Client(
                transport=_build_transport(request.url, issuer, trust_env), timeout=timeout
            ) as client,
            client.stream(
                "GET" if request.body is None else "POST",
                request.url,
                headers=_build_headers(request),
                content=request.body.reveal() if request.body else None,
                extensions={"trace": deadline.on_trace},
            ) as response,
        ):
            if request.body is None and response.has_redirect_location:
                return urljoin(request.url, response.headers["Location"])
            if "Content-Encoding" in response.headers:
                # We requested identity, and a few kilobytes may decompress to gigabytes.
                return NoResponse("the response is compressed, which was not requested")
            body = b""
            for part in response.iter_bytes():
                body += part
                if len(body) > MAX_RESPONSE_SIZE:
                    return NoResponse(f"the response is larger than {MAX_RESPONSE_SIZE // 2**20} MiB")
            # A complete response is used, however late: the refresh token it was requested with is used up.
            has_length = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
            if deadline.has_expired and not has_length:
                return _build_timeout_response(timeout)
            return TokenResponse(response.status_code, response.headers.get("Content-Type", ""), body)
    except httpx.TimeoutException:
        return _build_timeout_response(timeout)
    except (httpx.HTTPError, httpx.InvalidURL, KubeAuthError, OSError) as error:
        if deadline.has_expired:
            return _build_timeout_response(timeout)
        return NoResponse(str(error).rstrip(".") or type(error).__name__)
    except ValueError:
        # A URL that httpx accepts, and the layers below it do not.
        return NoResponse("the issuer's URL, or a redirect from it, is not a valid URL")


def _build_transport(url: str, issuer: ClientConfig, trust_env: bool) -> httpx.HTTPTransport:
    import httpx

    proxy_url = choose_proxy(url, proxy_url=None, environ=os.environ if trust_env else {})
    proxy = None
    if proxy_url is not None:
        require_proxy(Secret(proxy_url))
        context = None
        if proxy_url.lower().startswith("https:"):
            context = build_proxy_context(issuer, read_trust(issuer))
        proxy = httpx.Proxy(proxy_url, ssl_context=context)
    return httpx.HTTPTransport(ssl_context(issuer), proxy=proxy)


def _build_headers(request: TokenRequest) -> dict[str, str]:
    import httpx

    headers = {
        "User-Agent": build_user_agent(f"python-httpx/{httpx.__version__}"),
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    if request.authorization is not None:
        headers["Authorization"] = request.authorization.reveal()
    if request.body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return headers


def _build_timeout_response(timeout: float) -> NoResponse:
    return NoResponse(f"no response within {timeout:g} seconds (OidcOptions.timeout)")
