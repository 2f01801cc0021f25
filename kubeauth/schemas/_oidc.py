"""Responses of an OIDC issuer."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from kubeauth._parsing.models import Model
from kubeauth._parsing.types import SecretText
from kubeauth._secret import Secret


class _OAuthModel(Model):
    # Fields have the same names as attributes.
    model_config = ConfigDict(alias_generator=str)


class OIDCProviderMetadata(_OAuthModel):
    """The discovery document: `/.well-known/openid-configuration`."""

    issuer: str = ""
    token_endpoint: str = ""


class TokenResponse(_OAuthModel):
    """Response of the token endpoint to a refresh_token grant: tokens, or an error."""

    access_token: SecretText = Field(default_factory=lambda: Secret(""))
    id_token: SecretText = Field(default_factory=lambda: Secret(""))
    refresh_token: SecretText = Field(default_factory=lambda: Secret(""))
    """The next refresh token, if the issuer rotates them."""
    error: str = ""
    # Untrusted text that may contain the request.
    error_description: str = Field(default="", repr=False)
