"""What `auth-provider: oidc` is configured with (O1). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from kubeauth._config._server import without_password
from kubeauth._field_types import check_fields, field_types
from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import ConfigError

ISSUER, CLIENT_ID, CLIENT_SECRET = "idp-issuer-url", "client-id", "client-secret"
ID_TOKEN, REFRESH_TOKEN = "id-token", "refresh-token"
CA, CA_DATA = "idp-certificate-authority", "idp-certificate-authority-data"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """How tokens are renewed: what no kubeconfig can say."""

    write_back: bool = True
    """Whether new tokens are written to the kubeconfig they came from, as kubectl does. Without it they live
    in this process alone."""
    timeout: float = 30.0
    """Seconds for each step: to wait for another process that renews them, to find the issuer's token
    endpoint, and to ask it."""
    refresh_ahead: bool = True
    """Whether to renew in the background, before the token ends."""

    def __post_init__(self) -> None:
        check_fields(self, _OPTIONS_FIELDS)
        if not self.timeout > 0:
            raise ConfigError(f"OidcOptions.timeout must be more than 0 seconds; it is {self.timeout}")


_OPTIONS_FIELDS = field_types(OidcOptions)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OidcConfig:
    """An OIDC auth provider as a kubeconfig names it, with the options it is used under.

    At run time a secret may also be given as `str`; it is wrapped in `Secret`.
    """

    issuer_url: str
    client_id: str
    client_secret: Secret[str] | None = None
    id_token: Secret[str] | None = None
    """What requests are signed with."""
    refresh_token: Secret[str] | None = None
    """What the next id-token is asked for with."""
    ca_data: bytes | None = None
    ca_file: str | None = None
    """Whom the issuer's certificate must be signed by; the system's trust if there is neither."""
    path: str | None = None
    """The kubeconfig that the user stands in, for new tokens; None if it came from no file."""
    user: str | None = None
    """The name of the entry there."""
    options: OidcOptions = field(default_factory=OidcOptions)

    def __post_init__(self) -> None:
        check_fields(self, _CONFIG_FIELDS)
        for name, value in ((ISSUER, self.issuer_url), (CLIENT_ID, self.client_id)):
            if not value:
                raise ConfigError(f"Must provide {name} for the auth provider oidc.")

    def hidden(self) -> list[str]:
        """The names of what is set here and neither printed nor pickled."""
        return [name for name in ("client_secret", "id_token", "refresh_token") if getattr(self, name)]

    def __reduce__(self) -> tuple[object, ...]:
        if hidden := self.hidden():
            raise ConfigError(
                f"this OidcConfig holds secrets ({', '.join(hidden)}), so it cannot be pickled; send the "
                "path of a kubeconfig, and call load_config there"
            )
        return _made, ({each.name: getattr(self, each.name) for each in fields(self)},)

    def __repr__(self) -> str:
        shown = [f"issuer_url={without_password(self.issuer_url)!r}", f"client_id={self.client_id!r}"]
        shown += [f"{name}={HIDDEN}" for name in self.hidden()]
        if self.ca_data:
            shown.append(f"ca_data=<{len(self.ca_data)} bytes>")
        shown += [
            f"{name}={value!r}" for name in ("ca_file", "path", "user") if (value := getattr(self, name))
        ]
        return f"OidcConfig({', '.join(shown)}, options={self.options!r})"


_CONFIG_FIELDS = field_types(OidcConfig, OidcOptions)


def _made(values: dict[str, Any]) -> OidcConfig:
    return OidcConfig(**values)
