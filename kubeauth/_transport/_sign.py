"""Who is signed for, and with what (I4-I9). Pure."""

from __future__ import annotations

from kubeauth._config._impersonation import Impersonation, impersonation_headers
from kubeauth._credentials.credential import Credential
from kubeauth._transport._shapes import Headers, HeadersLike, URLLike
from kubeauth.errors import ConfigError

# Set on a request that KubeAuth signed, so that a KubeTransport below it can say that one is enough.
SIGNED_BY_AUTH = "kubeauth.signed"

_SAME = {"https": ("https", "wss"), "http": ("http", "ws")}


class Signer:
    """Knows the cluster's origin, and what a request to it must carry."""

    __slots__ = ("_host", "_impersonation", "_port", "_schemes", "origin")

    def __init__(self, server: URLLike, impersonate: Impersonation | None) -> None:
        self._schemes = _SAME[server.scheme]
        self._host = server.raw_host
        self._port = server.port
        self.origin = (server.scheme, server.raw_host, server.port)
        self._impersonation = _encoded(impersonate) if impersonate else []

    def applies(self, url: URLLike) -> bool:
        """Whether `url` is of the cluster's origin: scheme, host and port. Nobody else gets anything."""
        return url.raw_host == self._host and url.port == self._port and url.scheme in self._schemes

    def is_signed(self, given: HeadersLike) -> bool:
        """Whether the caller has said who asks: then nothing is done about it, and no plugin is run (I5)."""
        return _has(given.raw, b"authorization")

    def headers(self, given: Headers, credential: Credential) -> Headers | None:
        """`given` with ours added, as a copy; None when there is nothing to add.

        A caller's own Authorization is left alone, and so is a caller's own impersonation. Both are looked
        for in the raw list: any other way to ask makes httpx find out the encoding of all of them first.
        """
        authorization, impersonation = credential.authorization, self._impersonation
        if authorization is None and not impersonation:
            return None
        raw = given.raw
        if authorization is not None and _has(raw, b"authorization"):
            authorization = None
        if impersonation and _has(raw, b"impersonate-user"):
            impersonation = []
        if authorization is None and not impersonation:
            return None
        headers = type(given)(_added(raw, impersonation) if impersonation else given)
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers


def is_welcome(status: int) -> bool:
    """Whether a server that answers like this has accepted the credential.

    One that is out of order may not even have looked at it.
    """
    return status != 401 and status < 500


def _has(raw: list[tuple[bytes, bytes]], wanted: bytes) -> bool:
    """Whether there is one that is not empty. A loop: on every request, it is faster than `any`."""
    for name, value in raw:  # noqa: SIM110 -- faster than any()
        if len(name) == len(wanted) and name.lower() == wanted and value:
            return True
    return False


def _encoded(impersonate: Impersonation) -> list[tuple[bytes, bytes]]:
    """As Go sends them: UTF-8, and whatever cannot be a header is refused before there is a request."""
    headers = impersonation_headers(impersonate)
    for name, value in headers:
        if any(char < " " or char == "\x7f" for char in value) or value != value.strip():
            raise ConfigError(
                f"{name} cannot be sent: it has blanks at its ends, or a control character in it. Check as, "
                "as-uid, as-groups and as-user-extra of the user."
            )
    return [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in headers]


def _added(raw: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """As Go: groups and extra fields are added to the caller's own; user and uid take the place of one."""
    replaced = (b"impersonate-user", b"impersonate-uid")
    return [header for header in raw if header[0].lower() not in replaced] + more
