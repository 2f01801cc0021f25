"""CredentialProvider: the interface of exec plugins and OIDC issuers, for RefreshableSource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kubeauth._credentials.client_cert import find_cert_problem
from kubeauth._credentials.credential import ClientCertificate, Credential, find_header_problem
from kubeauth._exec.codec import ProviderCredential
from kubeauth.errors import KubeAuthError


class CredentialProvider(Protocol):
    """Fetches a credential. Called by one thread at a time; caches nothing."""

    @property
    def source(self) -> str:
        """For `client.status()`: `plugin aws`."""
        ...

    @property
    def description(self) -> str:
        """For errors: `exec plugin`."""
        ...

    @property
    def name(self) -> str:
        """For errors: `aws`."""
        ...

    @property
    def is_interactive(self) -> bool:
        """Whether fetching now would prompt the user."""
        ...

    @property
    def holds_unsaved_token(self) -> bool:
        """Whether it holds a token that is saved nowhere else, and so must not be dropped."""
        ...

    def fetch(self, is_cancelled: Callable[[], bool]) -> ProviderCredential:
        """Block until there is a credential, or until the timeout. KubeAuthError if it fails."""
        ...

    def error(self, message: str) -> KubeAuthError:
        """Return an error of the provider's type."""
        ...

    def invalid_output_error(self, reason: str, advice: str) -> KubeAuthError:
        """Return an error for an invalid credential."""
        ...

    def stop(self) -> None:
        """Stop a cancelled fetch."""
        ...

    def after_fork(self) -> None:
        """Called in a forked child: a fetch in progress belongs to the parent."""
        ...


def build_credential(response: ProviderCredential, provider: CredentialProvider) -> Credential:
    """Check the response of a provider, and build the credential. Raises the provider's error (X40)."""
    if response.token is not None and (why := find_header_problem(response.token.reveal())):
        advice = f"The {provider.description} must return the token alone."
        raise provider.invalid_output_error(f"its token is not a valid HTTP header value: {why}", advice)
    authorization = f"Bearer {response.token.reveal()}" if response.token is not None else None
    client_certificate = None
    if response.certificate is not None and response.key is not None:
        client_certificate = ClientCertificate(response.certificate, response.key)
        if why := find_cert_problem(client_certificate):
            reason = f"failed parsing client key/certificate: {why.rstrip('.')}"
            raise provider.invalid_output_error(reason, "Both must be PEM, and match each other.")
    return Credential(authorization, client_certificate)
