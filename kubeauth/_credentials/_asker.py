"""Whoever gives a credential when asked: a plugin, or an OIDC issuer. A source needs to know no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kubeauth._credentials._credential import Credential, Identity, header_problem
from kubeauth._credentials._keypair import identity_problem
from kubeauth._exec.codec import ProviderCredential
from kubeauth.errors import KubeAuthError


class Asker(Protocol):
    """Asked by one thread at a time. Knows how to ask; does not keep what it was given for others."""

    @property
    def place(self) -> str:
        """Where its credentials come from, for `client.status()`: `plugin aws`."""
        ...

    @property
    def kind(self) -> str:
        """What it is, in an error: `exec plugin`."""
        ...

    @property
    def name(self) -> str:
        """Which one it is, in an error: `aws`."""
        ...

    @property
    def would_interact(self) -> bool:
        """Whether asking now would ask a person."""
        ...

    @property
    def is_only_copy(self) -> bool:
        """Whether it knows what no configuration says any more, and so must not be dropped."""
        ...

    def ask(self, is_cancelled: Callable[[], bool]) -> ProviderCredential:
        """Blocks, for as long as it takes or its time limit. KubeAuthError if it gives nothing."""
        ...

    def error(self, message: str) -> KubeAuthError:
        """An error of its own type, for what went wrong around it."""
        ...

    def unusable(self, reason: str, advice: str) -> KubeAuthError:
        """An error for something that it gave, and that is no use."""
        ...

    def stop(self) -> None:
        """Ends what is not wanted any more."""
        ...

    def after_fork(self) -> None:
        """In a child: what is under way is the parent's."""
        ...


def credential_of(answer: ProviderCredential, asker: Asker) -> Credential:
    """`answer` as a credential that can be sent and shown. The asker's error if it cannot (X40)."""
    if answer.token is not None and (why := header_problem(answer.token.reveal())):
        raise asker.unusable(f"its token cannot be sent: {why}", f"The {asker.kind} must give it bare.")
    authorization = f"Bearer {answer.token.reveal()}" if answer.token is not None else None
    identity = None
    if answer.certificate is not None and answer.key is not None:
        identity = Identity(answer.certificate, answer.key)
        if why := identity_problem(identity):
            reason = f"failed parsing client key/certificate: {why.rstrip('.')}"
            raise asker.unusable(reason, "The two must belong together, and both be PEM.")
    return Credential(authorization, identity)
