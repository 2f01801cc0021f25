"""Explain TLS errors: what happened, and what to change (I14)."""

from __future__ import annotations

import ssl

from kubeauth._transport.redaction import iter_causes

# X509_V_ERR_*, as in <openssl/x509_vfy.h>.
_NOT_YET_VALID, _EXPIRED = 9, 10
UNKNOWN_ISSUER = (2, 18, 19, 20, 21)
HOSTNAME_MISMATCH = (62, 64)


def find_tls_error(error: BaseException, handled: BaseException | None) -> ssl.SSLError | None:
    """Return OpenSSL's error, if it caused `error`. `handled`: what was being handled before."""
    return next((cause for cause in iter_causes(error, handled) if isinstance(cause, ssl.SSLError)), None)


def get_verify_code(error: ssl.SSLCertVerificationError) -> int:
    """Return OpenSSL's number for the reason; 0 if the error is not OpenSSL's."""
    code: int = getattr(error, "verify_code", 0)
    return code


def describe_server_cert_error(
    error: ssl.SSLCertVerificationError, server: str, proxy: str | None, *, is_cluster: bool
) -> str:
    """Explain why the server's certificate was not accepted, and what to change."""
    peer = _describe_peer(server, proxy)
    # An underlying transport of the caller's may have created the error itself.
    reason = str(getattr(error, "verify_message", error)).rstrip(".")
    code = get_verify_code(error)
    if code in (_EXPIRED, _NOT_YET_VALID):
        return (
            f"the certificate of {peer} is not valid now: {reason}. Renew it on the server; if it should be "
            "valid, check the clock of this machine."
        )
    if not is_cluster:
        return (
            f"the certificate of {peer} is not accepted: {reason}. It is not the cluster, so its certificate "
            "must be one that this system trusts."
        )
    if code in HOSTNAME_MISMATCH:
        return (
            f"the certificate of {peer} is for another name: {reason}. If the address is right, set "
            "tls-server-name in the kubeconfig to a name in the certificate."
        )
    if code in UNKNOWN_ISSUER:
        return (
            f"the certificate of {peer} is signed by an unknown authority: {reason}. Set "
            "certificate-authority-data in the kubeconfig to the cluster's CA; has it changed, or is this "
            "another server?"
        )
    return (
        f"the certificate of {peer} is not accepted: {reason}. Check it, and the CA in the kubeconfig that "
        "should have signed it."
    )


def describe_client_cert_error(
    error: ssl.SSLError,
    server: str,
    proxy: str | None,
    *,
    is_cluster: bool,
    has_certificate: bool,
    plugin: str | None = None,
) -> str | None:
    """Explain why the server rejected our certificate, or that it requires one; None for other errors.

    `plugin` is the exec plugin that returned the credential.
    """
    reason = getattr(error, "reason", None) or ""
    if "ALERT" not in reason or not ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return None
    alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
    peer = _describe_peer(server, proxy)
    if not is_cluster:
        return (
            f"{peer} requires a client certificate ({alert}). The kubeconfig's client certificate is sent to "
            "its cluster only."
        )
    if has_certificate:
        source = f" of the exec plugin {plugin}" if plugin else ""
        return (
            f"{peer} rejected the client certificate{source} ({alert}). Is it for this cluster, and has it "
            "expired?"
        )
    if plugin:
        return (
            f"{peer} requires a client certificate ({alert}), and the exec plugin {plugin} returned only a "
            "token. Configure the plugin to return a client certificate, or use a user with "
            "client-certificate and client-key."
        )
    return (
        f"{peer} requires a client certificate ({alert}), and the kubeconfig's user has none. Use a user "
        "with client-certificate and client-key."
    )


def _describe_peer(server: str, proxy: str | None) -> str:
    # OpenSSL's error does not say whether TLS failed with an https proxy or with the server.
    return f"{server} (or the proxy {proxy})" if proxy and proxy.lower().startswith("https:") else server
