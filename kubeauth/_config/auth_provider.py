"""What `auth-provider: oidc` is configured with (O1). Pure."""

from __future__ import annotations

import binascii
import os.path
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from kubeauth._config.kubeconfig import AuthProvider, User
from kubeauth._config.urls import InvalidURL, parse_server_url, redact_url
from kubeauth._config.validate import TryOpen, redact_path
from kubeauth._field_types import check_fields, field_types
from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import ConfigError, Problem

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
        return _rebuild, ({each.name: getattr(self, each.name) for each in fields(self)},)

    def __repr__(self) -> str:
        shown = [f"issuer_url={redact_url(self.issuer_url)!r}", f"client_id={self.client_id!r}"]
        shown += [f"{name}={HIDDEN}" for name in self.hidden()]
        if self.ca_data:
            shown.append(f"ca_data=<{len(self.ca_data)} bytes>")
        shown += [
            f"{name}={value!r}" for name in ("ca_file", "path", "user") if (value := getattr(self, name))
        ]
        return f"OidcConfig({', '.join(shown)}, options={self.options!r})"


_CONFIG_FIELDS = field_types(OidcConfig, OidcOptions)


def _rebuild(values: dict[str, Any]) -> OidcConfig:
    return OidcConfig(**values)


_REMOVED_PROVIDERS = {
    "gcp": "gke-gcloud-auth-plugin (run: gcloud container clusters get-credentials CLUSTER)",
    "azure": "kubelogin (run: kubelogin convert-kubeconfig -l azurecli)",
}


def build_oidc_config(
    name: str, user: User, *, options: OidcOptions, cwd: str, try_open: TryOpen
) -> OidcConfig | list[Problem] | None:
    """The OIDC provider of a user, or what is wrong with it; None for who has no provider."""
    provider = user.auth_provider
    if provider is None or user.exec is not None:
        # Both is one mistake, and it has been named (I2).
        return None
    if provider.name != "oidc":
        return [_unknown_provider(name, user, provider.name)]
    if problems := list(_validate_oidc(name, user, provider, cwd, try_open)):
        return problems
    given = provider.config.get
    ca_data = _decode_base64(given(CA_DATA, "")) or None
    return OidcConfig(
        issuer_url=given(ISSUER, ""),
        client_id=given(CLIENT_ID, ""),
        client_secret=_wrap_secret(given(CLIENT_SECRET)),
        id_token=_wrap_secret(given(ID_TOKEN)),
        refresh_token=_wrap_secret(given(REFRESH_TOKEN)),
        ca_data=ca_data,
        # Data beats a file, as everywhere (K49).
        ca_file=None if ca_data else _resolve_ca_file(user, provider, cwd, try_open),
        path=user.origin or None,
        user=name if user.origin else None,
        options=options,
    )


def _validate_oidc(
    name: str, user: User, provider: AuthProvider, cwd: str, try_open: TryOpen
) -> Iterator[Problem]:
    def problem(message: str, field: str, hint: str) -> Problem:
        field = f'users["{name}"].user.auth-provider.config.{field}'
        return Problem(message, user.origin or None, field, hint)

    given = provider.config.get
    if not given(ISSUER):
        yield problem(f"Must provide {ISSUER}", ISSUER, "Write the issuer's URL, as the API server has it.")
    elif why := _find_url_problem(given(ISSUER, "")):
        yield problem(f"invalid {ISSUER}: {why}", ISSUER, "Write it as https://host/path.")
    if not given(CLIENT_ID):
        yield problem(f"Must provide {CLIENT_ID}", CLIENT_ID, "Write the client's id at the issuer.")
    if given(CA_DATA) and not _decode_base64(given(CA_DATA, "")):
        hint = f"It takes base64 of the PEM text; for a path, use {CA}."
        yield problem("not valid base64", CA_DATA, hint)
    path = "" if given(CA_DATA) else _resolve_ca_file(user, provider, cwd, try_open)
    if path and (wrong := try_open(path)):
        message = f"unable to read {CA} {redact_path(path)} for {name} due to {wrong}"
        hint = (
            "Check the path; a relative one counts from the kubeconfig's directory, or the working directory."
        )
        yield problem(message, CA, hint)


def _find_url_problem(url: str) -> str:
    try:
        parse_server_url(url)
    except InvalidURL as error:
        return str(error)
    return "" if "://" in url else "it must be a URL"


def _resolve_ca_file(user: User, provider: AuthProvider, cwd: str, try_open: TryOpen) -> str | None:
    """The path, absolute. A relative one counts from the kubeconfig, as all others in it do (K20).

    client-go forgot this one, and takes it from the working directory: so do we, if it is not there.
    """
    path = provider.config.get(CA, "")
    if not path or os.path.isabs(path):
        return path or None
    beside = os.path.join(os.path.dirname(user.origin), path) if user.origin else ""
    if beside and try_open(beside) is None:
        return beside
    return os.path.join(cwd, path)


def _wrap_secret(text: str | None) -> Secret[str] | None:
    return Secret(text) if text else None


def _decode_base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        return b""


def _unknown_provider(name: str, user: User, provider: str) -> Problem:
    field = f'users["{name}"].user.auth-provider'
    if replacement := _REMOVED_PROVIDERS.get(provider):
        message, hint = f"The {provider} auth plugin has been removed", f"Use an exec plugin: {replacement}."
    else:
        message = f'no Auth Provider found for name "{provider}"'
        hint = "Use an exec plugin: of all auth providers Kubernetes clients have only oidc any more."
    return Problem(message, user.origin or None, field, hint)
