"""Responses of an OIDC issuer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from kubeauth._parsing.models import PartialModel
from kubeauth._parsing.types import SecretText
from kubeauth._secret import Secret


def _ignore_other_types(value: Any) -> Any:
    # Not all issuers follow the standards.
    return value if isinstance(value, str | Secret) else ""


_LenientSecret = Annotated[SecretText, BeforeValidator(_ignore_other_types)]


class _OAuthModel(PartialModel):
    # Fields have the same names as attributes.
    model_config = ConfigDict(alias_generator=str)


class OIDCProviderMetadata(_OAuthModel):
    """The discovery document: `/.well-known/openid-configuration`."""

    token_endpoint: str = ""


class TokenResponse(_OAuthModel):
    """Response of the token endpoint to a refresh_token grant: tokens, or an error."""

    access_token: _LenientSecret = Field(default_factory=lambda: Secret(""))
    id_token: _LenientSecret = Field(default_factory=lambda: Secret(""))
    refresh_token: _LenientSecret = Field(default_factory=lambda: Secret(""))
    """The next refresh token, if the issuer rotates them."""
    error: str = ""
    # Untrusted text that may contain the request.
    error_description: Annotated[str, BeforeValidator(_ignore_other_types)] = Field(default="", repr=False)
