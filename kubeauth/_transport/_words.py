"""What went wrong on the wire, in words; and what must not be said (I14)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress

from kubeauth._compat import is_suspended

_MASKED = "<masked>"
_SCHEMES = ("bearer", "basic", "negotiate")
# The last one carries a token to API servers, for browsers that cannot set a header.
_SECRET_HEADERS = ("cookie", "set-cookie", "proxy-authorization", "sec-websocket-protocol")

# X509_V_ERR_*, as in <openssl/x509_vfy.h>.
_NOT_YET_VALID, _EXPIRED = 9, 10
UNKNOWN_ISSUER = (2, 18, 19, 20, 21)
WRONG_NAME = (62, 64)


def masked(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers for a log: the scheme of an Authorization, but not what follows it."""
    return {name: _masked_value(name.lower(), value) for name, value in headers}


def _masked_value(name: str, value: str) -> str:
    if name in _SECRET_HEADERS:
        return _MASKED
    if name != "authorization" or not value:
        return value
    scheme, blank, _ = value.partition(" ")
    if scheme.lower() not in _SCHEMES:
        return _MASKED
    return f"{scheme} {_MASKED}" if blank else scheme


def hide_locals(error: BaseException, handled: BaseException | None) -> None:
    """Empties the frames that `error` came through, which hold the signed headers.

    Tools that print a traceback with the values of variables would show the token otherwise. File names
    and lines stay; frames that still run, ours and the caller's, keep their variables. `handled` is what
    the caller was dealing with before: that is not ours.
    """
    for link in chain(error, handled):
        trace = link.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if not is_suspended(frame):
                with suppress(RuntimeError):  # it still runs
                    frame.clear()


def chain(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    """The error, what caused it, what caused that, ... but not what was `handled` before all of it."""
    seen = {id(handled)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += (link.__context__, link.__cause__)
            if isinstance(link, BaseExceptionGroup):
                waiting += link.exceptions


def tls_failure(error: BaseException, handled: BaseException | None) -> ssl.SSLError | None:
    """What OpenSSL said, if that is what caused `error`."""
    return next((link for link in chain(error, handled) if isinstance(link, ssl.SSLError)), None)


def refused_server(error: ssl.SSLCertVerificationError, server: str, proxy: str | None, *, ours: bool) -> str:
    """Why a server's certificate was not accepted, and what to do; `ours`: whether it is the cluster's."""
    whose = _whose(server, proxy)
    # Both are OpenSSL's; a transport of the caller's may have made the error itself.
    said = str(getattr(error, "verify_message", error)).rstrip(".")
    code = verify_code(error)
    if code in (_EXPIRED, _NOT_YET_VALID):
        return (
            f"the certificate of {whose} is not valid now: {said}. Renew it on the server; if it should be "
            "valid, check the clock of this machine."
        )
    if not ours:
        return (
            f"the certificate of {whose} is not accepted: {said}. It is not the cluster, so it must have one "
            "that this system trusts."
        )
    if code in WRONG_NAME:
        return (
            f"the certificate of {whose} is for another name: {said}. If the address is right, set "
            "tls-server-name in the kubeconfig to a name that the certificate has."
        )
    if code in UNKNOWN_ISSUER:
        return (
            f"the certificate of {whose} is signed by an unknown authority: {said}. The cluster's CA belongs "
            "into certificate-authority-data of the kubeconfig; has it changed, or is this another server?"
        )
    return (
        f"the certificate of {whose} is not accepted: {said}. Check it, and the CA in the kubeconfig that it "
        "should be signed by."
    )


def verify_code(error: ssl.SSLCertVerificationError) -> int:
    """OpenSSL's number for what was wrong; 0 if it was not OpenSSL who said so."""
    code: int = getattr(error, "verify_code", 0)
    return code


def refused_client(
    error: ssl.SSLError, server: str, proxy: str | None, *, ours: bool, has_certificate: bool
) -> str | None:
    """What a server found wrong with our certificate, if that is why it hung up."""
    reason = getattr(error, "reason", None) or ""
    if "ALERT" not in reason or not ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return None
    alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
    whose = _whose(server, proxy)
    if not ours:
        return (
            f"{whose} asks for a client certificate ({alert}). The kubeconfig's is for its cluster, and is "
            "shown to nobody else."
        )
    if not has_certificate:
        return (
            f"{whose} asks for a client certificate ({alert}), and the kubeconfig's user has none. Use a "
            "user with client-certificate and client-key."
        )
    return f"{whose} refused the client certificate ({alert}). Is it of this cluster, and still valid?"


def _whose(server: str, proxy: str | None) -> str:
    # TLS with an https proxy fails in the same words as TLS with the server behind it.
    return f"{server} (or the proxy {proxy})" if proxy and proxy.lower().startswith("https:") else server
