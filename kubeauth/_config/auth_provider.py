"""OidcConfig and OidcOptions, and how they are built from `auth-provider: oidc` in a kubeconfig (O1)."""

from __future__ import annotations

import binascii
import os.path
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kubeauth._config.urls import InvalidURL, parse_server_url, redact_url
from kubeauth._config.validate import FindOpenProblem, redact_path
from kubeauth._field_types import check_fields, field_types
from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import ConfigError, Problem

if TYPE_CHECKING:
    from kubeauth.schemas._kubeconfig import AuthProvider, User

ISSUER, CLIENT_ID, CLIENT_SECRET = "idp-issuer-url", "client-id", "client-secret"
ID_TOKEN, REFRESH_TOKEN = "id-token", "refresh-token"
CA, CA_DATA = "idp-certificate-authority", "idp-certificate-authority-data"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """How OIDC tokens are refreshed: options that a kubeconfig does not have."""

    write_back: bool = True
    """Whether to write new tokens to the kubeconfig they came from, as kubectl does. If False, new tokens
    exist only in this process."""
    timeout: float = 30.0
    """Seconds for each step: waiting for another process that refreshes the same tokens, discovering the
    issuer's token endpoint, and requesting new tokens."""
    refresh_ahead: bool = True
    """Whether to refresh in the background, before the token expires."""

    def __post_init__(self) -> None:
        check_fields(self, _OPTIONS_FIELDS)
        if not self.timeout > 0:
            raise ConfigError(f"OidcOptions.timeout must be more than 0 seconds; it is {self.timeout}")


_OPTIONS_FIELDS = field_types(OidcOptions)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OidcConfig:
    """An OIDC auth provider as configured in a kubeconfig, with the options for refreshing its tokens.

    At run time secrets may also be passed as `str`; they are wrapped in `Secret`.
    """

    issuer_url: str
    """URL of the issuer; `idp-issuer-url` in a kubeconfig."""
    client_id: str
    client_secret: Secret[str] | None = None
    id_token: Secret[str] | None = None
    """Token that authenticates requests to the API server."""
    refresh_token: Secret[str] | None = None
    """Token that the issuer exchanges for a new id-token."""
    ca_data: bytes | None = None
    """CA certificates (PEM) that verify the issuer. If neither this nor `ca_file` is set, the system's root
    certificates are used."""
    ca_file: str | None = None
    path: str | None = None
    """Path of the kubeconfig that new tokens are written to; None if there is no file."""
    user: str | None = None
    """Name of the user entry in that kubeconfig."""
    options: OidcOptions = field(default_factory=OidcOptions)

    def __post_init__(self) -> None:
        check_fields(self, _CONFIG_FIELDS)
        for name, value in ((ISSUER, self.issuer_url), (CLIENT_ID, self.client_id)):
            if not value:
                raise ConfigError(f"Must provide {name} for the auth provider oidc.")

    def list_hidden_fields(self) -> list[str]:
        """Return the names of the fields that are set, and are neither printed nor pickled."""
        return [name for name in ("client_secret", "id_token", "refresh_token") if getattr(self, name)]

    def __reduce__(self) -> tuple[object, ...]:
        if hidden := self.list_hidden_fields():
            raise ConfigError(
                f"cannot pickle this OidcConfig: it contains secrets ({', '.join(hidden)}). Pass the path of "
                "a kubeconfig to the other process, and call load_config there."
            )
        return _rebuild, ({item.name: getattr(self, item.name) for item in fields(self)},)

    def __repr__(self) -> str:
        shown = [f"issuer_url={redact_url(self.issuer_url)!r}", f"client_id={self.client_id!r}"]
        shown += [f"{name}={HIDDEN}" for name in self.list_hidden_fields()]
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
    name: str, user: User, *, options: OidcOptions, cwd: str, find_open_problem: FindOpenProblem
) -> OidcConfig | list[Problem] | None:
    """Build the OidcConfig of a user, or return its problems; None if the user has no auth provider."""
    provider = user.auth_provider
    if provider is None or user.exec is not None:
        # validate_user reports an auth provider beside exec (I2).
        return None
    if provider.name != "oidc":
        return [_build_unknown_provider_problem(name, user, provider.name)]
    if problems := list(_validate_oidc(name, user, provider, cwd, find_open_problem)):
        return problems
    get = provider.config.get
    ca_data = _decode_base64(get(CA_DATA, "")) or None
    return OidcConfig(
        issuer_url=get(ISSUER, ""),
        client_id=get(CLIENT_ID, ""),
        client_secret=_wrap_secret(get(CLIENT_SECRET)),
        id_token=_wrap_secret(get(ID_TOKEN)),
        refresh_token=_wrap_secret(get(REFRESH_TOKEN)),
        ca_data=ca_data,
        # Data takes precedence over a file, as in a cluster entry (K49).
        ca_file=None if ca_data else _resolve_ca_file(user, provider, cwd, find_open_problem),
        path=user.origin or None,
        user=name if user.origin else None,
        options=options,
    )


def _validate_oidc(
    name: str, user: User, provider: AuthProvider, cwd: str, find_open_problem: FindOpenProblem
) -> Iterator[Problem]:
    def problem(message: str, field: str, hint: str) -> Problem:
        field = f'users["{name}"].user.auth-provider.config.{field}'
        return Problem(message, user.origin or None, field, hint)

    get = provider.config.get
    if not get(ISSUER):
        hint = "Set it to the issuer URL that the API server is configured with."
        yield problem(f"Must provide {ISSUER}", ISSUER, hint)
    elif url_problem := _find_url_problem(get(ISSUER, "")):
        yield problem(f"invalid {ISSUER}: {url_problem}", ISSUER, "Write it as https://host/path.")
    if not get(CLIENT_ID):
        hint = "Set it to the client ID registered with the issuer."
        yield problem(f"Must provide {CLIENT_ID}", CLIENT_ID, hint)
    if get(CA_DATA) and not _decode_base64(get(CA_DATA, "")):
        hint = f"It must be base64-encoded PEM; for a path, use {CA}."
        yield problem("not valid base64", CA_DATA, hint)
    path = "" if get(CA_DATA) else _resolve_ca_file(user, provider, cwd, find_open_problem)
    if path and (reason := find_open_problem(path)):
        message = f"unable to read {CA} {redact_path(path)} for {name} due to {reason}"
        hint = (
            "Check the path. A relative path is relative to the kubeconfig's directory, or else to the "
            "working directory."
        )
        yield problem(message, CA, hint)


def _find_url_problem(url: str) -> str:
    try:
        parse_server_url(url)
    except InvalidURL as error:
        return str(error)
    return "" if "://" in url else "it must be a URL"


def _resolve_ca_file(
    user: User, provider: AuthProvider, cwd: str, find_open_problem: FindOpenProblem
) -> str | None:
    """Return the absolute path. A relative path is relative to the kubeconfig, as for other fields (K20).

    client-go resolves it against the working directory instead, so that is tried second.
    """
    path = provider.config.get(CA, "")
    if not path or os.path.isabs(path):
        return path or None
    beside_kubeconfig = os.path.join(os.path.dirname(user.origin), path) if user.origin else ""
    if beside_kubeconfig and find_open_problem(beside_kubeconfig) is None:
        return beside_kubeconfig
    return os.path.join(cwd, path)


def _wrap_secret(text: str | None) -> Secret[str] | None:
    return Secret(text) if text else None


def _decode_base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        return b""


def _build_unknown_provider_problem(name: str, user: User, provider: str) -> Problem:
    field = f'users["{name}"].user.auth-provider'
    if replacement := _REMOVED_PROVIDERS.get(provider):
        message, hint = f"The {provider} auth plugin has been removed", f"Use an exec plugin: {replacement}."
    else:
        message = f'no Auth Provider found for name "{provider}"'
        hint = "Use an exec plugin: oidc is the only auth provider that Kubernetes clients still support."
    return Problem(message, user.origin or None, field, hint)
