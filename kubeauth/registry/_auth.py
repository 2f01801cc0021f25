"""RegistryAuth for httpx."""

from __future__ import annotations

import httpx

from kubeauth._compat import copy_request
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._secret import Secret
from kubeauth._transport.httpx import clear_authorization_headers
from kubeauth.registry._driver import SIGNED, OnceBody, RegistryFlow, called_extensions, headers_of
from kubeauth.registry._source import AsyncLookup, Credentials
from kubeauth.registry._token import Call

__all__ = ["RegistryAuth"]


class _OnceBody(OnceBody, httpx.SyncByteStream, httpx.AsyncByteStream):
    pass


class RegistryAuth(RegistryFlow[httpx.Request, httpx.Response], httpx.Auth):
    """Signs in to container registries, as their protocol has it, for an httpx client of your own.

        httpx.Client(auth=RegistryAuth(providers), follow_redirects=True)
        httpx.Client(auth=RegistryAuth(credential, registry="https://registry.example.com"))

    - `credentials`: a RegistryCredential, or several, tried in order; or what looks them up: an object with
      `credentials(image)` and `acredentials(image)`, as CredentialProviders, or a function from an image to
      a list. It is asked when a registry wants to know who asks, with `host[:port]/repository`, or
      `host[:port]/` if the request names none; a host without a dot always comes with its port. What it
      keeps, and for how long, is its own business. If it has a method `refused(image, credential)`, or the
      object whose method it is does, that is called for each credential that was not welcome, and then it
      is asked once more; it may be told of one that it has replaced already. In the same way
      `accepted(image, credential)` is called when one is welcome that was not the last time. Neither may
      block: async clients call them in their event loop.
      None: as nobody, for what is public.
    - `acredentials`: the same for async clients. Without it, they call `credentials` in a thread.
    - `registry`: the one that is signed in to; requests to any other are left alone. Without it,
      credentials given by hand are for the registry of the first request; and what looks them up is asked
      for each.
    - `clock` is for tests: kubeauth.testing.FakeClock.

    A request that has an Authorization header is left alone. One whose body cannot be sent again is sent
    when it is known how to sign it; if it is refused all the same, the answer is yours, and the next try has
    a new token, or the next credential. Raises ChallengeError if the registry asks for something unsafe, or
    there is no token to be had; errors of kubeauth pass through httpx unchanged. May be shared between
    threads, event loops and clients.
    """

    _byte_stream = httpx.ByteStream
    _request_error = httpx.RequestError

    def __init__(
        self,
        credentials: Credentials | None = None,
        *,
        acredentials: AsyncLookup | None = None,
        registry: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(credentials, httpx.URL, acredentials=acredentials, registry=registry, clock=clock)

    def _signed(self, request: httpx.Request, authorization: Secret[str]) -> httpx.Request:
        headers = httpx.Headers(request.headers)
        headers["Authorization"] = authorization.reveal()
        signed = copy_request(request, headers)
        signed.extensions = {**request.extensions, SIGNED: True}
        return signed

    def _called(self, call: Call, request: httpx.Request) -> httpx.Request:
        url = httpx.URL(call.url)
        return httpx.Request(
            "GET" if call.form is None else "POST",
            url,
            headers=[
                ("Host", url.netloc.decode("ascii")),
                *headers_of(call, request.headers.multi_items()),
            ],
            stream=None if call.form is None else _OnceBody(call.form, call.url),
            extensions=called_extensions(request.extensions),
        )

    def _forget(self, sent: httpx.Request, outcome: httpx.Response | BaseException | None) -> None:
        clear_authorization_headers(SIGNED, sent, outcome)
