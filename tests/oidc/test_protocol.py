"""Parsing of ID tokens, of the discovery document and of token responses."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import OidcConfig, OidcOptions, Secret, errors, schemas
from kubeauth._oidc.protocol import (
    OidcProblem,
    TokenResponse,
    build_discovery_request,
    build_refresh_request,
    is_valid,
    last_valid_time,
    parse_discovery,
    parse_token_response,
    read_expiry,
)
from tests.support.cases import each_case

CONFIG = OidcConfig(issuer_url="https://i", client_id="a:b c", client_secret=Secret("s+/="))


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwt(payload: bytes) -> str:
    return f"e30.{encode(payload)}.sig"


def token(claims: Any) -> Secret[str]:
    return Secret(jwt(json.dumps(claims).encode()))


@each_case(
    ("claims", "expires"),
    [
        ({"exp": 1700000000}, 1700000000.0),
        ({"exp": 1700000000.9, "sub": "ä?>"}, 1700000000.0),
        ({"exp": 1.7e9}, 1700000000.0),
        ({"exp": -1}, -1.0),
        ({"exp": "1700000000"}, 1700000000.0),
        ({"sub": "alice"}, 0.0),
    ],
)
def test_the_expiry_of_an_id_token_o3(claims: Any, expires: float) -> None:
    assert read_expiry(token(claims)) == expires


@each_case(
    ("text", "reason"),
    [
        ("", "not a valid JWT"),
        ("one.two", "not a valid JWT"),
        ("one.two.three.four", "not a valid JWT"),
        ("a." + base64.b64encode(b'{"exp":17000000000}').decode() + ".c", "without padding"),
        ("a.e30=.c", "without padding"),
        ("a.e+30.c", "without padding"),
        ("a.e30e3.c", "without padding"),
        (jwt(b"not json"), "parsing claims"),
        (jwt(b"[1]"), "parsing claims"),
        (jwt(b'{"exp": null}'), "exp of the ID Token is not a number"),
        (jwt(b'{"exp": "soon"}'), "exp of the ID Token is not a number"),
        (jwt(b'{"exp": true}'), "exp of the ID Token is not a number"),
        (jwt(b'{"exp": 1e999}'), "exp of the ID Token is not a number"),
    ],
)
def test_an_invalid_id_token_has_a_reason_o3(text: str, reason: str) -> None:
    problem = read_expiry(Secret(text))
    assert isinstance(problem, str)
    assert reason in problem


@given(st.text())
def test_random_text_has_an_expiry_or_a_reason_o3(text: str) -> None:
    for candidate in (text, f"a.{text}.c", f"a.{encode(text.encode('utf-8', 'surrogatepass'))}.c"):
        assert isinstance(read_expiry(Secret(candidate)), float | str)


def test_an_id_token_is_valid_until_ten_seconds_before_its_expiry_o3() -> None:
    assert is_valid(100.0, 89.9)
    assert not is_valid(100.0, 90.0)
    assert 89.9 < last_valid_time(100.0) < 90.0


@pytest.mark.parametrize("url", ["https://i/x", "https://i/x/"])
def test_the_discovery_url_o5(url: str) -> None:
    request = build_discovery_request(url)
    assert (request.url, request.body) == ("https://i/x/.well-known/openid-configuration", None)


def json_response(body: Any, status: int = 200) -> TokenResponse:
    return TokenResponse(status, "application/json", json.dumps(body).encode())


@each_case(
    ("response", "reason"),
    [
        (TokenResponse(404, "text/html", b"x" * 79 + b"abc"), f'404: "{"x" * 79}a..."'),
        (TokenResponse(500, "", b'say "no"\n\x1b[31m'), '500: "say \\"no\\"\\n\\u001b[31m"'),
        (TokenResponse(200, "", b"<html>"), "failed to decode provider discovery object"),
        (json_response([]), "failed to decode provider discovery object"),
        (json_response({}), "doesn't contain a token_endpoint"),
        (json_response({"token_endpoint": 3}), "failed to decode provider discovery object"),
        (json_response({"token_endpoint": None}), "doesn't contain a token_endpoint"),
        (json_response({"token_endpoint": "file:///etc/passwd"}), "doesn't contain a token_endpoint"),
    ],
)
def test_an_invalid_discovery_document_has_a_reason_and_advice_o5(
    response: TokenResponse, reason: str
) -> None:
    problem = parse_discovery(response)
    assert isinstance(problem, OidcProblem)
    assert reason in problem.reason
    assert problem.advice


def test_client_credentials_are_encoded_as_in_x_oauth2_o6() -> None:
    header = build_refresh_request("https://i/t", CONFIG, Secret("r&r"), in_header=True)
    assert header.authorization is not None
    pair = base64.b64decode(header.authorization.reveal().removeprefix("Basic "))
    assert pair == b"a%3Ab+c:s%2B%2F%3D"
    assert header.body is not None
    assert parse_qs(header.body.reveal().decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r&r"],
    }

    params = build_refresh_request("https://i/t", CONFIG, Secret("r&r"), in_header=False)
    assert params.authorization is None
    assert params.body is not None
    form = parse_qs(params.body.reveal().decode())
    assert (form["client_id"], form["client_secret"]) == (["a:b c"], ["s+/="])

    public_client = OidcConfig(issuer_url="https://i", client_id="i")
    public = build_refresh_request("u", public_client, Secret("r"), in_header=False)
    assert b"client_secret" not in (public.body or Secret(b"")).reveal()

    for request in (header, params):
        assert "r&r" not in repr(request)


def test_a_token_response_is_parsed_o6() -> None:
    body = {"access_token": "a", "id_token": "i", "refresh_token": "r", "expires_in": 3}
    tokens = schemas.TokenResponse(access_token=Secret("a"), id_token=Secret("i"), refresh_token=Secret("r"))
    assert parse_token_response(json_response(body, 201), ()) == tokens

    form = TokenResponse(
        200, "application/x-www-form-urlencoded; charset=utf-8", b"access_token=a&id_token=i"
    )
    tokens = schemas.TokenResponse(access_token=Secret("a"), id_token=Secret("i"))
    assert parse_token_response(form, ()) == tokens

    body = {"access_token": "a", "id_token": 3, "refresh_token": None, "error_description": []}
    tokens = schemas.TokenResponse(access_token=Secret("a"))
    assert parse_token_response(json_response(body), ()) == tokens


@each_case(
    ("response", "reason", "is_rejected"),
    [
        (
            json_response({"error": "invalid_grant"}, 400),
            'failed to refresh token: oauth2: "invalid_grant"',
            True,
        ),
        (json_response({"error": "invalid_grant"}, 200), "invalid_grant", True),
        (json_response({"error": "e", "error_description": "x" * 99}, 400), f'"e" "{"x" * 80}..."', True),
        (TokenResponse(503, "text/html", b"s3ntinel"), "cannot fetch token: status 503", True),
        (json_response(["s3ntinel"], 500), "cannot fetch token: status 500", True),
        (TokenResponse(200, "text/html", b"s3ntinel"), "cannot parse the response (status 200)", False),
        (TokenResponse(200, "text/plain", b""), "cannot parse the response", False),
        (json_response({"id_token": "s3ntinel"}), "missing access_token", False),
        (json_response({"error": "my s3ntinel", "error_description": "s3ntinel?"}, 400), "my <hidden>", True),
    ],
)
def test_an_error_response_has_a_reason_and_advice_without_secrets_o6(
    response: TokenResponse, reason: str, is_rejected: bool
) -> None:
    problem = parse_token_response(response, ("s3ntinel", ""))
    assert isinstance(problem, OidcProblem)
    assert reason in problem.reason
    assert problem.is_rejected == is_rejected
    assert problem.advice
    assert "s3ntinel" not in repr(problem) + repr(response)


def test_timeout_issuer_url_and_client_id_are_validated_o1() -> None:
    with pytest.raises(errors.ConfigError, match="timeout"):
        OidcOptions(timeout=0)
    with pytest.raises(errors.ConfigError, match="Must provide idp-issuer-url"):
        OidcConfig(issuer_url="", client_id="c")
    with pytest.raises(errors.ConfigError, match="Must provide client-id"):
        OidcConfig(issuer_url="https://i", client_id="")
