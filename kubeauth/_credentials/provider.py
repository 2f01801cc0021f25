"""CredentialProvider: the interface of exec plugins and OIDC issuers, for RefreshableSource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

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
