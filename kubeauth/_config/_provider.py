"""`users[].user.auth-provider`: which there are, and what is wrong with one (O1, I2). Pure."""

from __future__ import annotations

import binascii
import os.path
from collections.abc import Iterator

from kubeauth._config._model import AuthProvider, User
from kubeauth._config._oidc import (
    CA,
    CA_DATA,
    CLIENT_ID,
    CLIENT_SECRET,
    ID_TOKEN,
    ISSUER,
    REFRESH_TOKEN,
    OidcConfig,
    OidcOptions,
)
from kubeauth._config._server import AddressError, server_url
from kubeauth._config._validate import Unreadable, shown_path
from kubeauth._secret import Secret
from kubeauth.errors import Problem

_REMOVED_PROVIDERS = {
    "gcp": "gke-gcloud-auth-plugin (run: gcloud container clusters get-credentials CLUSTER)",
    "azure": "kubelogin (run: kubelogin convert-kubeconfig -l azurecli)",
}


def oidc_of(
    name: str, user: User, *, options: OidcOptions, cwd: str, unreadable: Unreadable
) -> OidcConfig | list[Problem] | None:
    """The OIDC provider of a user, or what is wrong with it; None for who has no provider."""
    provider = user.auth_provider
    if provider is None or user.exec is not None:
        # Both is one mistake, and it has been named (I2).
        return None
    if provider.name != "oidc":
        return [_no_such_provider(name, user, provider.name)]
    if problems := list(_oidc_problems(name, user, provider, cwd, unreadable)):
        return problems
    given = provider.config.get
    ca_data = _decoded(given(CA_DATA, "")) or None
    return OidcConfig(
        issuer_url=given(ISSUER, ""),
        client_id=given(CLIENT_ID, ""),
        client_secret=_secret(given(CLIENT_SECRET)),
        id_token=_secret(given(ID_TOKEN)),
        refresh_token=_secret(given(REFRESH_TOKEN)),
        ca_data=ca_data,
        # Data beats a file, as everywhere (K49).
        ca_file=None if ca_data else _ca_file(user, provider, cwd, unreadable),
        path=user.origin or None,
        user=name if user.origin else None,
        options=options,
    )


def _oidc_problems(
    name: str, user: User, provider: AuthProvider, cwd: str, unreadable: Unreadable
) -> Iterator[Problem]:
    def problem(message: str, field: str, hint: str) -> Problem:
        field = f'users["{name}"].user.auth-provider.config.{field}'
        return Problem(message, user.origin or None, field, hint)

    given = provider.config.get
    if not given(ISSUER):
        yield problem(f"Must provide {ISSUER}", ISSUER, "Write the issuer's URL, as the API server has it.")
    elif why := _address_problem(given(ISSUER, "")):
        yield problem(f"invalid {ISSUER}: {why}", ISSUER, "Write it as https://host/path.")
    if not given(CLIENT_ID):
        yield problem(f"Must provide {CLIENT_ID}", CLIENT_ID, "Write the client's id at the issuer.")
    if given(CA_DATA) and not _decoded(given(CA_DATA, "")):
        hint = f"It takes base64 of the PEM text; for a path, use {CA}."
        yield problem("not valid base64", CA_DATA, hint)
    path = "" if given(CA_DATA) else _ca_file(user, provider, cwd, unreadable)
    if path and (wrong := unreadable(path)):
        message = f"unable to read {CA} {shown_path(path)} for {name} due to {wrong}"
        hint = (
            "Check the path; a relative one counts from the kubeconfig's directory, or the working directory."
        )
        yield problem(message, CA, hint)


def _address_problem(url: str) -> str:
    try:
        server_url(url)
    except AddressError as error:
        return str(error)
    return "" if "://" in url else "it must be a URL"


def _ca_file(user: User, provider: AuthProvider, cwd: str, unreadable: Unreadable) -> str | None:
    """The path, absolute. A relative one counts from the kubeconfig, as all others in it do (K20).

    client-go forgot this one, and takes it from the working directory: so do we, if it is not there.
    """
    path = provider.config.get(CA, "")
    if not path or os.path.isabs(path):
        return path or None
    beside = os.path.join(os.path.dirname(user.origin), path) if user.origin else ""
    if beside and unreadable(beside) is None:
        return beside
    return os.path.join(cwd, path)


def _secret(text: str | None) -> Secret[str] | None:
    return Secret(text) if text else None


def _decoded(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        return b""


def _no_such_provider(name: str, user: User, provider: str) -> Problem:
    field = f'users["{name}"].user.auth-provider'
    if replacement := _REMOVED_PROVIDERS.get(provider):
        message, hint = f"The {provider} auth plugin has been removed", f"Use an exec plugin: {replacement}."
    else:
        message = f'no Auth Provider found for name "{provider}"'
        hint = "Use an exec plugin: of all auth providers Kubernetes clients have only oidc any more."
    return Problem(message, user.origin or None, field, hint)
