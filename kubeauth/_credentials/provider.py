"""CredentialProvider: what a RefreshableSource needs of an exec plugin or an OIDC issuer."""

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
        """Block until there is a credential, or the timeout. KubeAuthError if there is none."""
        ...

    def error(self, message: str) -> KubeAuthError:
        """Return an error of its own type."""
        ...

    def invalid_output_error(self, reason: str, advice: str) -> KubeAuthError:
        """Return an error for an invalid credential."""
        ...

    def stop(self) -> None:
        """Stop a cancelled fetch."""
        ...

    def after_fork(self) -> None:
        """In a forked child: a fetch in progress belongs to the parent."""
        ...


def build_credential(answer: ProviderCredential, provider: CredentialProvider) -> Credential:
    """Check what a provider returned, and build the credential. Raises the provider's error (X40)."""
    if answer.token is not None and (why := find_header_problem(answer.token.reveal())):
        advice = f"The {provider.description} must return the token alone."
        raise provider.invalid_output_error(f"its token is not a valid HTTP header value: {why}", advice)
    authorization = f"Bearer {answer.token.reveal()}" if answer.token is not None else None
    client_certificate = None
    if answer.certificate is not None and answer.key is not None:
        client_certificate = ClientCertificate(answer.certificate, answer.key)
        if why := find_cert_problem(client_certificate):
            reason = f"failed parsing client key/certificate: {why.rstrip('.')}"
            raise provider.invalid_output_error(reason, "The two must belong together, and both be PEM.")
    return Credential(authorization, client_certificate)
