"""The same signatures and pins by other means, for tests to compare with: as few lines as will do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import warnings
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().replace("=", "")


def mac(key: str, signed: str) -> str:
    return encoded(hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest())


def signed(content: bytes, token_id: str, secret: str) -> str:
    return with_header(f'{{"alg":"HS256","kid":"{token_id}"}}', content, secret)


def with_header(header: str, content: bytes, secret: str) -> str:
    first = encoded(header.encode())
    return f"{first}..{mac(secret, f'{first}.{encoded(content)}')}"


def jwt(header: Mapping[str, Any] | str, claims: Mapping[str, Any] | str, secret: str) -> str:
    parts = [part if isinstance(part, str) else json.dumps(part) for part in (header, claims)]
    text = ".".join(encoded(part.encode()) for part in parts)
    return f"{text}.{mac(secret, text)}"


def pin(pem: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a serial number of 0
        key = x509.load_pem_x509_certificate(pem).public_key()
    return (
        "sha256:"
        + hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    )
