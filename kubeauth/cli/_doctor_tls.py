"""TLS: whether the server is who it should be, and for how long its certificates are good."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from kubeauth._config.client_config import ClientConfig
from kubeauth._parsing import Json
from kubeauth._transport.tls import describe_ca, read_trust
from kubeauth._transport.tls_errors import HOSTNAME_MISMATCH, UNKNOWN_ISSUER
from kubeauth.cli._doctor_certificates import Certificate, certificate_of, certificates_of, signer
from kubeauth.cli._doctor_findings import Finding, Level, error, ok, skipped, warning
from kubeauth.cli._doctor_probe import CERTIFICATE, IDENTITY, LATE, PROXY, REFUSED, TLS, Heard
from kubeauth.cli._doctor_words import counted, listed, parted, took
from kubeauth.errors import TLSError

# X509_V_ERR_CERT_HAS_EXPIRED, of any in the chain.
_EXPIRED = 10


def read_ca(config: ClientConfig) -> list[Certificate] | TLSError | None:
    """The CA's certificates, as far as they can be parsed; None if the system's are trusted."""
    try:
        trust = read_trust(config)
    except TLSError as wrong:
        return wrong
    return None if trust.ca is None else certificates_of(trust.ca)


def server_certificate(heard: Heard) -> Certificate | None:
    """The one that was shown, if there was a handshake."""
    return _parsed(heard.certificate) if heard.certificate else None


def shown_with_it(heard: Heard) -> list[Certificate]:
    """Those between it and the CA, as far as they are known and can be parsed."""
    return [found for found in map(_parsed, heard.chain[1:]) if found is not None]


def _parsed(der: bytes) -> Certificate | None:
    return certificate_of(ssl.DER_cert_to_PEM_cert(der).encode())


def tls_finding(
    config: ClientConfig,
    heard: Heard,
    shown: Certificate | None,
    now: float = 0.0,
    between: Sequence[Certificate] = (),
) -> Finding:
    """Whether there was a handshake, and whether the server was believed.

    `shown` is its certificate, `between` are those that came with it.
    """
    failure = heard.failure
    name = f" as {config.tls_server_name} (tls-server-name)" if config.tls_server_name else ""
    facts: dict[str, Json] = {
        "version": heard.tls or None,
        "verified": bool(heard.tls) and not config.insecure_skip_tls_verify,
        "server_name": config.tls_server_name,
        "seconds": round(heard.handshake, 4),
        "verify_code": failure.verify_code if failure else 0,
    }
    if heard.tls and config.insecure_skip_tls_verify:
        summary = f"{heard.tls}, but nobody checks who the server is (insecure-skip-tls-verify)"
        advice = (
            "Put the cluster's CA into certificate-authority-data, and remove insecure-skip-tls-verify: "
            "whoever is in between can read everything."
        )
        return warning("tls", summary, advice, **facts)
    if heard.tls:
        by = "the system's trust" if not (config.ca_data or config.ca_file) else describe_ca(config)
        return ok("tls", f"{heard.tls} in {took(heard.handshake)}, verified{name} by {by}", **facts)
    if failure is None or failure.kind == PROXY:
        return skipped("tls", "the proxy does not let us through")
    if failure.kind == IDENTITY:
        return ok("tls", "verified; the server talks to nobody without a client certificate", **facts)
    if failure.kind == REFUSED:
        # Whoever has a certificate to show may fare better: whoami tells.
        return warning("tls", failure.what, failure.advice, **facts)
    what = failure.what
    if failure.verify_code in HOSTNAME_MISMATCH and shown is not None:
        what += f"; it is for {listed(shown.names, 8) or 'no name at all'}"
    if failure.verify_code in UNKNOWN_ISSUER and shown is not None:
        what += f"; it is signed by {shown.issuer}"
    if failure.verify_code == _EXPIRED and shown is not None and shown.judged(now)[0] is not Level.ERROR:
        over = [each.subject for each in between if each.judged(now)[0] is Level.ERROR]
        which = f"an intermediate, {over[0]}, is over" if over else "an intermediate, or the CA, is over"
        what += f"; the server's own certificate is valid: {which}"
    return error("tls", what, failure.advice, **facts)


def server_cert_finding(shown: Certificate | None, now: float, why_not: str) -> Finding:
    """Whose it is, who signed it, and for how long."""
    if shown is None:
        return skipped("server-cert", why_not)
    level, life = shown.judged(now)
    names = f"for {listed(shown.names, 5)}" if shown.names else "for no name"
    summary = f"{life}: {shown.subject}, {names}, signed by {shown.issuer}"
    advice = ""
    if level is Level.ERROR:
        advice = "Renew it on the server; if it should be valid, check the clock of this machine."
    elif level is Level.WARNING:
        advice = "Renew it on the server; with kubeadm: kubeadm certs renew apiserver"
    return Finding("server-cert", level, summary, advice, shown.facts(now))


def ca_finding(
    config: ClientConfig,
    found: Sequence[Certificate] | TLSError | None,
    shown: Certificate | None,
    now: float,
) -> Finding:
    """Whom the kubeconfig trusts, and for how long."""
    if isinstance(found, TLSError):
        return error("ca", *parted(str(found)))
    if found is None:
        if config.insecure_skip_tls_verify:
            return skipped("ca", "insecure-skip-tls-verify: anybody is trusted")
        return ok("ca", "none in the kubeconfig: the system's are trusted", source="system")
    place = describe_ca(config)
    used = signer(found, shown)
    if used is None:
        advice = "It must be PEM, starting with -----BEGIN CERTIFICATE-----; take it from the cluster anew."
        return error("ca", f"{place} holds no certificate that can be parsed", advice, source=place)
    level, life = used.judged(now)
    facts: dict[str, Json] = {**used.facts(now), "source": place, "certificates": len(found)}
    others = f", of {counted(len(found), 'certificate')}" if len(found) > 1 else ""
    summary = f"{life}: {used.subject}{others}, in {place}"
    advice = ""
    if level is Level.ERROR:
        advice = "Get the cluster's CA anew; if this one should be valid, check the clock of this machine."
    elif level is Level.WARNING:
        advice = (
            "When the cluster's CA is replaced, every kubeconfig needs the new one: see to it before it ends."
        )
    return Finding("ca", level, summary, advice, facts)


def obstacle(heard: Heard) -> str | None:
    """Why nothing more can be asked of the server; None if it can."""
    if heard.failure is None or heard.tls or heard.failure.kind in (IDENTITY, REFUSED):
        return None
    return {
        CERTIFICATE: "the server's certificate is not accepted",
        TLS: "there is no TLS with the server",
        PROXY: "the proxy does not let us through",
        LATE: "the server does not answer",
    }.get(heard.failure.kind, "there is no connection to the server")
