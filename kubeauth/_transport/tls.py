"""SSL contexts that verify an API server as client-go does, and the CA they use (K50, K50a, K51, K53)."""

from __future__ import annotations

import math
import os
import socket
import ssl
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass

from kubeauth._compat import close_half_wrapped_socket, shut_down
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import describe_os_error, read_file, split_pem_certificates
from kubeauth._config.validate import redact_path
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth._credentials.files import PolledFile, PolledValue
from kubeauth._runtime import Clock
from kubeauth.errors import TLSError


def ssl_context(config: ClientConfig) -> ssl.SSLContext:
    """Return a context that verifies servers as `config` says: with its CA, the system's, or not at all.

    It uses `tls_server_name` too, and never a client certificate. Raises TLSError for a CA that cannot be
    read or contains no certificate.
    """
    return build_cluster_context(config, read_trust(config))


@dataclass(frozen=True, slots=True)
class Trust:
    """The CA certificates that a server's is verified with; None for the system's. Empty: trust no server."""

    ca: bytes | None


def read_trust(config: ClientConfig) -> Trust:
    """Read the CA. TLSError if that fails, or if there is one beside insecure-skip-tls-verify."""
    if not (config.ca_data or config.ca_file):
        return Trust(None)
    if config.insecure_skip_tls_verify:
        raise TLSError(
            "specifying a root certificates file with the insecure flag is not allowed. "
            "Remove one of the two."
        )
    if config.ca_data:
        return Trust(config.ca_data)
    where = redact_path(config.ca_file or "")
    try:
        return Trust(read_file(config.ca_file or ""))
    except OSError as error:
        raise TLSError(
            f"cannot read the CA file {where}: {describe_os_error(error)}. Check the path."
        ) from error


def build_cluster_context(
    config: ClientConfig, trust: Trust, client_certificate: ClientCertificate | None = None
) -> ssl.SSLContext:
    """Return the context for connections to the cluster: CA, server name and client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = _CountedSocket
    context.sslobject_class = _CountedObject
    _replace_methods(context, _parse_server_name(config.tls_server_name or ""))
    _configure(context, config, trust)
    if client_certificate is not None:
        load_client_cert(context, client_certificate)
    return context


def _parse_server_name(name: str) -> str:
    """Return the name to verify, empty if none is configured. TLSError if it is not a valid one."""
    if not name:
        return ""
    # As Go: a trailing dot is ignored, and an IPv6 address may be in brackets.
    server_name = name.removesuffix(".").removeprefix("[").removesuffix("]")
    try:
        if server_name:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=server_name)
            return server_name
    except (ValueError, TypeError):  # also UnicodeError, a ValueError
        pass
    raise TLSError(f"tls-server-name {name!r} is not a valid server name. Check it in the kubeconfig.")


def _replace_methods(context: ssl.SSLContext, server_name: str) -> None:
    """Send and verify `server_name`, if set, whatever host the context connects to; leave no socket open.

    A request extension could set the name too, but httpcore ignores it behind an HTTP proxy. The methods of
    this object are replaced, because anyio calls those of a subclass in a worker thread, and waits for one if
    the application uses all of them.
    """
    wrap_socket, wrap_bio = context.wrap_socket, context.wrap_bio

    def wrap_named_socket(
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        host = server_name or server_hostname
        options = server_side, do_handshake_on_connect, suppress_ragged_eofs
        try:
            return wrap_socket(sock, *options, host, session)
        except (OSError, ValueError) as error:
            close_half_wrapped_socket(error)
            raise

    def wrap_named_bio(
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return wrap_bio(incoming, outgoing, server_side, server_name or server_hostname, session)

    context.wrap_socket = wrap_named_socket  # type: ignore[method-assign]
    context.wrap_bio = wrap_named_bio  # type: ignore[method-assign]


def build_proxy_context(config: ClientConfig, trust: Trust) -> ssl.SSLContext:
    """Return the context for TLS to a proxy: the system's CAs and the cluster's, no client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _configure(context, config, trust)
    if trust.ca is not None:
        _load_system_roots(context)
    return context


def build_public_context() -> ssl.SSLContext:
    """Return the context for other origins than the cluster: the system's CAs only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_system_roots(context)
    return context


def _configure(context: ssl.SSLContext, config: ClientConfig, trust: Trust) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As Go: only subject alternative names are compared, not the common name.
    context.hostname_checks_common_name = False
    # Go accepts any certificate in the bundle as an anchor, also an intermediate or a leaf, and does not
    # require the extensions that OpenSSL's strict mode does. ssl.create_default_context is strict since
    # Python 3.13; a bare context is not today, but may become so.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca is None:
        _load_system_roots(context)
    elif trust.ca:  # an empty file is an empty pool: no server is trusted until the file is written
        load_ca(context, trust, describe_ca(config))


def describe_ca(config: ClientConfig) -> str:
    """Return where the CA comes from, for an error."""
    if config.ca_data:
        return "the kubeconfig's certificate-authority-data"
    return redact_path(config.ca_file or "")


def load_ca(context: ssl.SSLContext, trust: Trust, source: str) -> None:
    """Load each certificate of the CA. TLSError if there is no valid one."""
    loaded = 0
    for block in split_pem_certificates(trust.ca or b""):
        # As Go: a block that cannot be parsed is ignored.
        with suppress(ssl.SSLError, TypeError, ValueError):
            context.load_verify_locations(cadata=block)
            loaded += 1
    if not loaded:
        raise TLSError(
            f"unable to load root certificates from {source}: it contains no valid certificate. "
            "It must be PEM, starting with -----BEGIN CERTIFICATE-----"
        )


def _load_system_roots(context: ssl.SSLContext) -> None:
    context.set_default_verify_paths()
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and os.path.isdir(paths.capath) and os.listdir(paths.capath)):
        return
    import certifi

    context.load_verify_locations(cafile=certifi.where())


# How many handshakes this thread or task has started: if it does not change, a connection was reused.
_handshakes: ContextVar[int] = ContextVar("kubeauth_handshakes", default=0)
get_handshake_count = _handshakes.get


class _CountedSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        _handshakes.set(_handshakes.get() + 1)
        super().do_handshake(block)

    def shutdown(self, how: int) -> None:
        shut_down(self, how)


class _CountedObject(ssl.SSLObject):
    def do_handshake(self) -> None:
        _handshakes.set(_handshakes.get() + 1)
        super().do_handshake()


CA_INTERVAL = 300.0


def build_trust_source(config: ClientConfig, clock: Clock) -> PolledFile[Trust]:
    """Return the cluster's CA; a file is read again every five minutes. An invalid one is ignored."""
    from_file = bool(config.ca_file and not config.ca_data)

    def check(trust: Trust) -> None:
        load_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust, describe_ca(config))

    due = clock.monotonic() + CA_INTERVAL if from_file else math.inf
    polled = PolledValue(
        lambda: read_trust(config), read_trust(config), due=due, interval=CA_INTERVAL, check=check
    )
    return PolledFile(polled, clock)
