"""Signer: which requests are signed, and with which headers (I4-I9). Pure."""

from __future__ import annotations

from kubeauth._config.client_config import Impersonation, build_impersonation_headers
from kubeauth._credentials.credential import Credential
from kubeauth._transport.types import Headers, HeadersLike, URLLike
from kubeauth.errors import ConfigError

# An extension of requests that KubeAuth signed: KubeTransport rejects them.
SIGNED_BY_AUTH = "kubeauth.signed"

_SCHEMES = {"https": ("https", "wss"), "http": ("http", "ws")}


class Signer:
    """Adds Authorization and impersonation headers to requests to the cluster's origin."""

    __slots__ = ("_host", "_impersonation", "_port", "_schemes", "origin")

    def __init__(self, server: URLLike, impersonate: Impersonation | None) -> None:
        self._schemes = _SCHEMES[server.scheme]
        self._host = server.raw_host
        self._port = server.port
        self.origin = (server.scheme, server.raw_host, server.port)
        self._impersonation = _encode_impersonation(impersonate) if impersonate else []

    def is_cluster_origin(self, url: URLLike) -> bool:
        """Whether scheme, host and port of `url` are those of the cluster."""
        return url.raw_host == self._host and url.port == self._port and url.scheme in self._schemes

    def has_authorization(self, headers: HeadersLike) -> bool:
        """Whether the caller has set Authorization: then it is not changed, and no plugin is run (I5)."""
        return _has_header(headers.raw, b"authorization")

    def sign(self, headers: Headers, credential: Credential) -> Headers | None:
        """Return a copy of `headers` with ours added; None if there is nothing to add.

        The caller's own Authorization and impersonation headers are not replaced. They are searched for in
        the raw list: any other lookup makes httpx detect the encoding of all headers first.
        """
        authorization, impersonation = credential.authorization, self._impersonation
        if authorization is None and not impersonation:
            return None
        raw = headers.raw
        if authorization is not None and _has_header(raw, b"authorization"):
            authorization = None
        if impersonation and _has_header(raw, b"impersonate-user"):
            impersonation = []
        if authorization is None and not impersonation:
            return None
        signed = type(headers)(_add_impersonation(raw, impersonation) if impersonation else headers)
        if authorization is not None:
            signed["Authorization"] = authorization
        return signed


def is_authenticated(status_code: int) -> bool:
    """Whether this status means that the server accepted the credential. A 5xx does not say."""
    return status_code != 401 and status_code < 500


def _has_header(raw: list[tuple[bytes, bytes]], wanted: bytes) -> bool:
    """Whether there is such a header with a value. Called for every request."""
    for name, value in raw:  # noqa: SIM110 -- faster than any()
        if len(name) == len(wanted) and name.lower() == wanted and value:
            return True
    return False


def _encode_impersonation(impersonate: Impersonation) -> list[tuple[bytes, bytes]]:
    """Encode as Go does, in UTF-8. ConfigError for a value that cannot be sent in a header."""
    headers = build_impersonation_headers(impersonate)
    for name, value in headers:
        if any(char < " " or char == "\x7f" for char in value) or value != value.strip():
            raise ConfigError(
                f"{name} cannot be sent: it begins or ends with a blank, or contains a control character. "
                "Check as, as-uid, as-groups and as-user-extra of the user."
            )
    return [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in headers]


def _add_impersonation(
    raw: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """As Go: groups and extra fields are added to the caller's own; user and uid replace them."""
    replaced = (b"impersonate-user", b"impersonate-uid")
    return [header for header in raw if header[0].lower() not in replaced] + more
