"""Docker's config.json, with the credentials that `docker login` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    model_validator,
)

from kubeauth._parsing.models import PartialModel, get_field_names
from kubeauth._parsing.types import SecretText, mapping_to
from kubeauth._secret import FrozenDict, Secret


class _DockerModel(PartialModel):
    # identitytoken, not identityToken.
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", ""))

    @model_validator(mode="wrap")
    @classmethod
    def _ignore_case(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # Docker and the kubelet read it with Go's encoding/json, which ignores the case of field names.
        if isinstance(value, dict):
            names = get_field_names(cls)
            lower = {name: name.lower() for name in value if isinstance(name, str)}
            if any(alias in names and alias != name for name, alias in lower.items()):
                # Of a repeated field the last wins, unless it is null.
                value = {
                    (lower[name] if lower.get(name) in names else name): item
                    for name, item in value.items()
                    if item is not None
                }
        return handler(value)


AS_KUBELET = object()
"""Context of a validation that ignores tokens, which the kubelet does not read."""


def _ignore_token(value: Any, info: ValidationInfo) -> Any:
    return "" if info.context is AS_KUBELET else value


_Token = Annotated[SecretText, BeforeValidator(_ignore_token)]


class DockerAuth(_DockerModel):
    """The credential for a registry."""

    username: str = ""
    password: SecretText = Field(default_factory=lambda: Secret(""))
    email: str = ""
    auth: SecretText = Field(default_factory=lambda: Secret(""))
    """`username:password`, base64-encoded. Takes precedence over both."""
    identity_token: _Token = Field(default_factory=lambda: Secret(""))
    """Exchanged for a token by the token endpoint of the registry."""
    registry_token: _Token = Field(default_factory=lambda: Secret(""))
    """Sent to the registry unchanged."""


class DockerConfig(_DockerModel):
    """Docker's `config.json`, and `.dockerconfigjson` of an image pull secret."""

    auths: Annotated[Mapping[str, DockerAuth], mapping_to(DockerAuth)] = Field(
        default_factory=FrozenDict[str, DockerAuth],
        # Keys may be URLs with a password.
        repr=False,
    )
    """Credentials by registry."""
