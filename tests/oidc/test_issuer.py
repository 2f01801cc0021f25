"""The OpenID Connect issuer that other tests use."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.oidc_issuer import Issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(rotating=True, passwords={"bob": "hunter2"}) as issuer:
        issuer.groups["bob"] = ("admins",)
        yield issuer


@pytest.fixture
def http(issuer: Issuer) -> Iterator[httpx.Client]:
    context = ssl.create_default_context(cadata=issuer.ca.decode())
    with httpx.Client(verify=context, base_url=issuer.url, timeout=60.0) as client:
        yield client


def decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def claims(token: str) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(decode(token.split(".")[1]))
    return payload


def test_id_tokens_are_signed_with_the_published_key(issuer: Issuer, http: httpx.Client) -> None:
    discovery = http.get("/.well-known/openid-configuration").json()
    assert discovery["issuer"] == issuer.url
    (key,) = http.get(discovery["jwks_uri"]).json()["keys"]
    numbers = [int.from_bytes(decode(key[name]), "big") for name in ("e", "n")]

    token = issuer.id_token("alice", 60, groups=["a"])

    text, _, signature = token.rpartition(".")
    public = rsa.RSAPublicNumbers(*numbers).public_key()
    public.verify(decode(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256())
    payload = claims(token)
    assert (payload["iss"], payload["aud"]) == (issuer.url, "kubernetes")
    assert (payload["sub"], payload["groups"]) == ("alice", ["a"])
    assert json.loads(decode(token.partition(".")[0]))["kid"] == key["kid"]


def refresh(http: httpx.Client, token: str, **more: str) -> httpx.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "kubernetes", **more}
    return http.post("/token", data=form)


def test_a_rotating_refresh_token_is_accepted_once(issuer: Issuer, http: httpx.Client) -> None:
    first = issuer.new_refresh_token("alice", ["a", "b"])
    response = refresh(http, first).json()
    assert claims(response["id_token"])["groups"] == ["a", "b"]

    repeated = refresh(http, first)
    assert (repeated.status_code, repeated.json()) == (400, {"error": "invalid_grant"})
    assert refresh(http, response["refresh_token"]).status_code == 200
    assert (issuer.refreshes, issuer.errors) == (3, ["invalid_grant"])

    issuer.rotating = False
    reusable = issuer.new_refresh_token()
    assert [refresh(http, reusable).json().get("refresh_token") for _ in range(2)] == [None, None]


def test_the_client_secret_is_required(http: httpx.Client, issuer: Issuer) -> None:
    issuer.client_secret, issuer.rotating = "s3cret", False
    token = issuer.new_refresh_token()
    form = {"grant_type": "refresh_token", "refresh_token": token}

    assert refresh(http, token).status_code == 401
    assert refresh(http, token, client_secret="s3cret").status_code == 200
    assert http.post("/token", data=form, auth=("kubernetes", "s3cret")).status_code == 200

    issuer.client_auth = "params"
    assert http.post("/token", data=form, auth=("kubernetes", "s3cret")).status_code == 401


def test_password_grant_and_authorization_code_grant(issuer: Issuer, http: httpx.Client) -> None:
    form = {"grant_type": "password", "username": "bob", "password": "hunter2", "client_id": "kubernetes"}
    assert claims(http.post("/token", data=form).json()["id_token"])["groups"] == ["admins"]
    assert http.post("/token", data={**form, "password": "no"}).status_code == 400

    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"verifier").digest()).rstrip(b"=").decode()
    query = {"redirect_uri": "http://localhost:1/", "state": "s", "nonce": "n", "code_challenge": challenge}
    redirect = http.get("/authorize", params={**query, "code_challenge_method": "S256"})
    returned = parse_qs(urlsplit(redirect.headers["Location"]).query)
    assert (redirect.status_code, returned["state"]) == (302, ["s"])

    form = {"grant_type": "authorization_code", "code": returned["code"][0], "client_id": "kubernetes"}
    form |= {"redirect_uri": "http://localhost:1/", "code_verifier": "verifier"}
    response = http.post("/token", data=form)
    assert claims(response.json()["id_token"])["nonce"] == "n"
    assert http.post("/token", data=form).status_code == 400, "a code is accepted once"
