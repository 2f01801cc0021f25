"""Trust: the SSLContext that verifies an API server as client-go does (K50, K50a, K51)."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from typing import Any

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._files import read_file, reason
from kubeauth._config._pem import certificates
from kubeauth.errors import TLSError


def ssl_context(config: ClientConfig) -> ssl.SSLContext:
    """A context that trusts what `config` trusts: its CA, or the system's, or anything if it says so.

    It carries `tls_server_name` too, and never a client key. Raises TLSError for a CA that cannot be
    read or holds no certificate.
    """
    name = config.tls_server_name
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT) if name else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(context, _NamedContext):
        context.server_name = name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Go takes any certificate in the bundle as an anchor, an intermediate or a leaf too, and does not
    # ask for the extensions that OpenSSL's strict mode wants. A bare context is not strict today, but
    # ssl.create_default_context is since Python 3.13: this stays as it is whatever becomes of that.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    has_ca = bool(config.ca_data or config.ca_file)
    if config.insecure_skip_tls_verify:
        if has_ca:
            raise TLSError(
                "specifying a root certificates file with the insecure flag is not allowed. "
                "Remove one of the two."
            )
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif has_ca:
        _trust(context, config)
    else:
        _trust_the_system(context)
    return context


def _trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    where = "the kubeconfig's certificate-authority-data" if config.ca_data else config.ca_file or ""
    data = config.ca_data
    if not data:
        try:
            data = read_file(where)
        except OSError as error:
            raise TLSError(f"cannot read the CA file {where}: {reason(error)}. Check the path.") from error
    if not data:
        # An empty file is an empty pool: nothing is trusted until it is filled.
        return
    loaded = 0
    for block in certificates(data):
        # As Go: a block that cannot be parsed does not spoil the others.
        with suppress(ssl.SSLError):
            context.load_verify_locations(cadata=block)
            loaded += 1
    if not loaded:
        raise TLSError(
            f"unable to load root certificates from {where}: it holds no certificate that can be parsed. "
            "It must be PEM, starting with -----BEGIN CERTIFICATE-----"
        )


def _trust_the_system(context: ssl.SSLContext) -> None:
    context.set_default_verify_paths()
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and os.path.isdir(paths.capath) and os.listdir(paths.capath)):
        return
    import certifi

    context.load_verify_locations(cafile=certifi.where())


class _NamedContext(ssl.SSLContext):
    """Asks for, and verifies, one name whatever host it connects to.

    On the context rather than in a request extension: that one is lost behind an HTTP proxy.
    """

    server_name: str | None = None

    def wrap_socket(
        self,
        sock: Any,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        return super().wrap_socket(
            sock,
            server_side,
            do_handshake_on_connect,
            suppress_ragged_eofs,
            self.server_name or server_hostname,
            session,
        )

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name or server_hostname, session)
