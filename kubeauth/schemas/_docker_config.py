"""Docker's config.json, with the credentials that `docker login` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from kubeauth._parsing.models import PartialModel
from kubeauth._parsing.types import SecretText, mapping_to
from kubeauth._secret import FrozenDict, Secret


class _DockerModel(PartialModel):
    # identitytoken, not identityToken.
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", ""))

    @model_validator(mode="before")
    @classmethod
    def _ignore_case(cls, value: Any) -> Any:
        # Docker and the kubelet read it with Go's encoding/json, which ignores the case of field names.
        if type(value) is not dict:
            return value
        known = {field.alias for field in cls.model_fields.values()}
        lower = {name: name.lower() for name in value if isinstance(name, str)}
        if not any(alias in known and alias != name for name, alias in lower.items()):
            return value
        # Of a repeated field the last wins, unless it is null.
        return {
            (lower[name] if lower[name] in known else name): item
            for name, item in value.items()
            if item is not None
        }


class DockerAuth(_DockerModel):
    """The credential for a registry."""

    username: str = ""
    password: SecretText = Field(default_factory=lambda: Secret(""))
    email: str = ""
    auth: SecretText = Field(default_factory=lambda: Secret(""))
    """`username:password`, base64-encoded. Takes precedence over both."""
    identity_token: SecretText = Field(default_factory=lambda: Secret(""))
    registry_token: SecretText = Field(default_factory=lambda: Secret(""))


class DockerConfig(_DockerModel):
    """Docker's `config.json`, and `.dockerconfigjson` of an image pull secret."""

    auths: Annotated[Mapping[str, DockerAuth], mapping_to(DockerAuth)] = Field(
        default_factory=FrozenDict[str, DockerAuth]
    )
    """Credentials by registry."""
