"""The detached signature of a text under a bootstrap token: what cluster-info carries (A15-A20). Pure.

Its bytes are those that Kubernetes makes. A signature is checked by making it again and comparing the whole:
what a stranger wrote into its header is never read, so there is no algorithm for him to choose.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode

from kubeauth._parsing.go import go_json
from kubeauth._secret import Secret
from kubeauth.discovery._token import BootstrapToken
from kubeauth.errors import ConfigError


def sign_detached(content: str | bytes, token: BootstrapToken | str) -> str:
    """The signature of `content`, as `header..signature`.

    `content` is signed as it is: a newline more or less makes another. `token` may be the text `id.secret`;
    what its parts look like is not checked. ConfigError if there is no dot in it.
    """
    given = token_of(token)
    del token  # what is raised may show variables
    return _signed(content, checked(given))


def verify_detached(content: str | bytes, jws: str, token: BootstrapToken | str) -> bool:
    """Whether `jws` is the signature of `content` by that token, to the letter.

    ConfigError about the token alone, as `sign_detached`: what is received never raises.
    """
    given = token_of(token)
    del token
    return hmac.compare_digest(as_bytes(_signed(content, checked(given))), as_bytes(jws))


def _signed(content: str | bytes, token: BootstrapToken) -> str:
    header = encoded(go_json({"alg": "HS256", "kid": token.id}).encode("utf-8", "surrogatepass"))
    signature = mac(token.secret, header + b"." + encoded(as_bytes(content)))
    return f"{header.decode()}..{encoded(signature).decode()}"


def token_of(token: BootstrapToken | str) -> BootstrapToken | ConfigError:
    """The parts of `id.secret`, whatever they look like. Never raises: it may be a secret without its id."""
    if isinstance(token, BootstrapToken):
        return token
    token_id, dot, secret = token.partition(".")
    if dot:
        return BootstrapToken(token_id, Secret(secret))
    return ConfigError(
        "what was given is not a bootstrap token: there is no dot between its id and its secret"
    )


def checked(token: BootstrapToken | ConfigError) -> BootstrapToken:
    if isinstance(token, ConfigError):
        raise token
    return token


def mac(key: Secret[str], signed: bytes) -> bytes:
    """HMAC-SHA256 under the secret part of a token: its letters are the key (A16)."""
    try:
        # One of a Secret that is no text comes as the bytes that it was.
        letters = key.reveal().encode(errors="surrogateescape")
    except UnicodeEncodeError:
        letters = as_bytes(key.reveal())
    return hmac.digest(letters, signed, hashlib.sha256)


def encoded(data: bytes) -> bytes:
    """base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=")


def as_bytes(text: str | bytes) -> bytes:
    # A lone surrogate is a legal str: it must differ, not raise.
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
