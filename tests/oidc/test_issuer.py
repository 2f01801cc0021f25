"""The issuer that other tests rely on does what it says."""

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


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(decoded(token.split(".")[1]))
    return found


def test_its_tokens_are_signed_with_the_key_it_publishes(issuer: Issuer, http: httpx.Client) -> None:
    found = http.get("/.well-known/openid-configuration").json()
    assert found["issuer"] == issuer.url
    (key,) = http.get(found["jwks_uri"]).json()["keys"]
    numbers = [int.from_bytes(decoded(key[name]), "big") for name in ("e", "n")]
    token = issuer.id_token("alice", 60, groups=["a"])
    text, _, signature = token.rpartition(".")
    public = rsa.RSAPublicNumbers(*numbers).public_key()
    public.verify(decoded(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256())
    said = claims(token)
    assert (said["iss"], said["aud"], said["sub"], said["groups"]) == (
        issuer.url,
        "kubernetes",
        "alice",
        ["a"],
    )
    assert json.loads(decoded(token.partition(".")[0]))["kid"] == key["kid"]


def refresh(http: httpx.Client, token: str, **more: str) -> httpx.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "kubernetes", **more}
    return http.post("/token", data=form)


def test_a_rotating_refresh_token_is_good_once(issuer: Issuer, http: httpx.Client) -> None:
    first = issuer.new_refresh_token("alice", ["a", "b"])
    answer = refresh(http, first).json()
    assert claims(answer["id_token"])["groups"] == ["a", "b"]
    again = refresh(http, first)
    assert (again.status_code, again.json()) == (400, {"error": "invalid_grant"})
    assert refresh(http, answer["refresh_token"]).status_code == 200
    assert (issuer.refreshes, issuer.errors) == (3, ["invalid_grant"])
    issuer.rotating = False
    kept = issuer.new_refresh_token()
    assert [refresh(http, kept).json().get("refresh_token") for _ in range(2)] == [None, None]


def test_a_client_says_its_secret(http: httpx.Client, issuer: Issuer) -> None:
    issuer.client_secret, issuer.rotating = "s3cret", False
    token = issuer.new_refresh_token()
    form = {"grant_type": "refresh_token", "refresh_token": token}
    assert refresh(http, token).status_code == 401
    assert refresh(http, token, client_secret="s3cret").status_code == 200
    assert http.post("/token", data=form, auth=("kubernetes", "s3cret")).status_code == 200
    issuer.client_auth = "params"
    assert http.post("/token", data=form, auth=("kubernetes", "s3cret")).status_code == 401


def test_by_password_and_by_browser(issuer: Issuer, http: httpx.Client) -> None:
    form = {"grant_type": "password", "username": "bob", "password": "hunter2", "client_id": "kubernetes"}
    assert claims(http.post("/token", data=form).json()["id_token"])["groups"] == ["admins"]
    assert http.post("/token", data={**form, "password": "no"}).status_code == 400
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"verifier").digest()).rstrip(b"=").decode()
    query = {"redirect_uri": "http://localhost:1/", "state": "s", "nonce": "n", "code_challenge": challenge}
    sent = http.get("/authorize", params={**query, "code_challenge_method": "S256"})
    back = parse_qs(urlsplit(sent.headers["Location"]).query)
    assert (sent.status_code, back["state"]) == (302, ["s"])
    form = {"grant_type": "authorization_code", "code": back["code"][0], "client_id": "kubernetes"}
    form |= {"redirect_uri": "http://localhost:1/", "code_verifier": "verifier"}
    answer = http.post("/token", data=form)
    assert claims(answer.json()["id_token"])["nonce"] == "n"
    assert http.post("/token", data=form).status_code == 400, "a code is good once"
