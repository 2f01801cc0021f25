"""What registries are signed in to with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Self

from kubeauth._secret import HIDDEN, Secret


@dataclass(frozen=True, init=False, repr=False, slots=True)
class RegistryCredential:
    """A name and a password for a registry, or a token in their place. Printing it hides them.

    `password`, `identity_token` and `registry_token` give the text itself.
    """

    username: str
    _password: Secret[str]
    _identity_token: Secret[str]
    _registry_token: Secret[str]
    email: str
    key: str
    """What it stands under in a keyring: `gcr.io`, `*.azurecr.io`, `quay.io/coreos`."""
    source: str
    """Where it came from: `provider ecr-credential-provider`, or a file."""

    def __init__(
        self,
        username: str = "",
        password: str = "",
        *,
        identity_token: str = "",
        registry_token: str = "",
        email: str = "",
        key: str = "",
        source: str = "",
    ) -> None:
        self._set(
            username, Secret(password), Secret(identity_token), Secret(registry_token), email, key, source
        )

    def _set(self, *facts: object) -> None:
        for name, value in zip(self.__slots__, facts, strict=True):
            object.__setattr__(self, name, value)

    def placed(self, key: str, source: str) -> Self:
        """The same credential, under `key` and from `source`."""
        copy = object.__new__(type(self))
        secrets = self._password, self._identity_token, self._registry_token
        copy._set(self.username, *secrets, self.email, key, source)
        return copy

    @property
    def password(self) -> str:
        return self._password.reveal()

    @property
    def identity_token(self) -> str:
        """For the token endpoint, in exchange for a token that a registry takes."""
        return self._identity_token.reveal()

    @property
    def registry_token(self) -> str:
        """For the registry itself, as it is."""
        return self._registry_token.reveal()

    @property
    def is_anonymous(self) -> bool:
        """Whether there is nothing to show: the registry is asked as nobody."""
        return not (self.username or self._password or self._identity_token or self._registry_token)

    @property
    def digest(self) -> str:
        """Tells two apart without showing either: the kubelet's hash of a credential (5.12).

        Where it came from and what it stands under make no difference.
        """
        from hashlib import sha256  # with it comes OpenSSL, and most programs compare none

        from kubeauth._parsing.go import go_json

        given = {
            "username": self.username,
            "password": self.password,
            "email": self.email,
            "identitytoken": self.identity_token,
            "registrytoken": self.registry_token,
        }
        stated = {name: value for name, value in given.items() if value}
        return sha256(go_json(stated).encode("utf-8", "surrogatepass")).hexdigest()

    def __repr__(self) -> str:
        shown = [f"username={self.username!r}"]
        for name in ("password", "identity_token", "registry_token"):
            if getattr(self, f"_{name}"):
                shown.append(f"{name}={HIDDEN}")
        shown += [f"{name}={value!r}" for name in ("key", "source") if (value := getattr(self, name))]
        return f"RegistryCredential({', '.join(shown)})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a RegistryCredential cannot be pickled: look it up where it is needed")
