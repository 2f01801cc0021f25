"""What plugins talk to, on loopback: token endpoints that answer with who asked for what; and what AWS signs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import ssl
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kubeauth.testing import Answer, APIServer, Authority, Received

TENANT = "11111111-2222-3333-4444-555555555555"


class TokenEndpoint:
    """Gives out tokens that say themselves what was asked for: `asked(token)`. No two are the same."""

    def __init__(self, *, authority: Authority | None = None) -> None:
        self._server = APIServer(authority=authority, tls=authority is not None)
        self._count = itertools.count(1)
        self.url = self._server.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _token(self, asked: dict[str, Any]) -> Answer:
        said = base64.urlsafe_b64encode(json.dumps(asked | {"number": next(self._count)}).encode()).decode()
        return Answer(body={"access_token": said, "expires_in": 3599, "token_type": "Bearer"})

    def asked(self, token: str) -> dict[str, Any]:
        """What that token was given for."""
        asked: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token))
        assert asked.pop("number"), "not one of ours"
        return asked


class Google(TokenEndpoint):
    """The token endpoint that a service account's file names."""

    def __init__(self) -> None:
        super().__init__()
        self._server.on("POST", "/token", self._answer)

    def _answer(self, request: Received) -> Answer:
        form = dict(parse_qsl(request.body.decode()))
        claims = claims_of(form["assertion"])
        return self._token({"grant": form["grant_type"], "who": claims["iss"], "scope": claims["scope"]})

    def service_account(self, path: Path) -> None:
        """Writes a service account's file, with a key that is good for nothing else."""
        key = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "project_id": "e2e",
            "client_email": "robot@e2e.iam.gserviceaccount.com",
            "private_key_id": "1",
            "private_key": key.decode(),
            "token_uri": f"{self.url}/token",
        }
        path.touch(0o600)
        path.write_text(json.dumps(account))


class Azure(TokenEndpoint):
    """An authority of Microsoft Entra ID with one tenant and one secret."""

    SECRET = "secret-of-the-service-principal"

    def __init__(self) -> None:
        self.authority = Authority("login CA")
        super().__init__(authority=self.authority)
        base = f"{self.url}/{TENANT}"
        configuration = {
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
        }
        self._server.on("GET", f"/{TENANT}/v2.0/.well-known/openid-configuration", Answer(body=configuration))
        self._server.on("POST", f"/{TENANT}/oauth2/v2.0/token", self._answer)

    def _answer(self, request: Received) -> Answer:
        form = dict(parse_qsl(request.body.decode()))
        if form["client_secret"] != self.SECRET:
            words = "AADSTS7000215: Invalid client secret provided."
            return Answer(401, {"error": "invalid_client", "error_description": words})
        return self._token({name: form[name] for name in ("grant_type", "client_id", "scope")})


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JWT."""
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def signed_by_aws(token: str, *, cluster: str, secret: str) -> dict[str, str]:
    """What the URL inside an EKS token says; the signature is checked as AWS does, with the cluster in it."""
    prefix, _, encoded = token.partition(".")
    assert prefix == "k8s-aws-v1"
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = dict(parse_qsl(url.query))
    signature, date = query.pop("X-Amz-Signature"), query.pop("X-Amz-Date")
    key_id, day, region, service, end = query.pop("X-Amz-Credential").split("/")
    wanted = {**query, "X-Amz-Date": date, "X-Amz-Credential": "/".join((key_id, day, region, service, end))}
    canonical = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(wanted.items()))
    headers = f"host:{url.netloc}\nx-k8s-aws-id:{cluster}\n"
    nothing = hashlib.sha256(b"").hexdigest()
    request = f"GET\n{url.path}\n{canonical}\n{headers}\nhost;x-k8s-aws-id\n{nothing}"
    scope = f"{day}/{region}/{service}/{end}"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, end):
        key = _hmac(key, part)
    assert signature == _hmac(key, text).hex()
    return query | {"host": url.netloc, "path": url.path, "key": key_id, "region": region, "service": service}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def trusted(authority: Authority, path: Path) -> Path:
    """A file for SSL_CERT_FILE."""
    path.write_bytes(authority.pem)
    assert ssl.create_default_context(cafile=str(path)).cert_store_stats()["x509_ca"] == 1
    return path
