"""Where RegistryAuth has its credentials from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from kubeauth.errors import ConfigError
from kubeauth.registry._values import RegistryCredential

Lookup = Callable[[str], Sequence[RegistryCredential]]
AsyncLookup = Callable[[str], Awaitable[Sequence[RegistryCredential]]]
Hook = Callable[[str, RegistryCredential], object]


@runtime_checkable
class Provider(Protocol):
    """What looks credentials up by image, as CredentialProviders does."""

    def credentials(self, image: str, /) -> Sequence[RegistryCredential]: ...
    async def acredentials(self, image: str, /) -> Sequence[RegistryCredential]: ...


Credentials = RegistryCredential | Sequence[RegistryCredential] | Lookup | Provider


class Source:
    """Credentials for an image, in the order they are tried. Keeps none: who looks them up may."""

    def __init__(self, credentials: Credentials | None, acredentials: AsyncLookup | None) -> None:
        self._fixed: tuple[RegistryCredential, ...] | None = None
        self._lookup: Lookup | None = None
        self._alookup = acredentials
        if isinstance(credentials, RegistryCredential):
            self._fixed = (credentials,)
        elif isinstance(credentials, Sequence):
            self._fixed = tuple(credentials)
            # httpx's own way to say it, a tuple of two strings, is known here at once, and not by a request.
            if not all(isinstance(each, RegistryCredential) for each in self._fixed):
                raise ConfigError(
                    "RegistryAuth takes a RegistryCredential(username, password), or a list of them"
                )
        elif isinstance(credentials, Provider):
            self._lookup = credentials.credentials
            self._alookup = acredentials or credentials.acredentials
        elif credentials is not None:
            self._lookup = credentials
        elif acredentials is None:
            self._fixed = ()
        self._refused = self._hook("refused")
        self._accepted = self._hook("accepted")

    @property
    def is_fixed(self) -> bool:
        """Whether it is what was given by hand, whoever the registry is."""
        return self._fixed is not None

    def get(self, image: str, refused: Sequence[RegistryCredential]) -> Sequence[RegistryCredential]:
        """Those for `image`. `refused` are those that it gave a moment ago, and that nobody took."""
        self._tell(image, refused)
        if self._fixed is not None:
            return self._fixed
        if self._lookup is None:
            raise ConfigError(
                "RegistryAuth has acredentials= alone, and this client is not async: give it credentials= too"
            )
        return self._lookup(image)

    async def aget(self, image: str, refused: Sequence[RegistryCredential]) -> Sequence[RegistryCredential]:
        """As `get`. What may block does so in a thread."""
        self._tell(image, refused)
        if self._fixed is not None:
            return self._fixed
        if self._alookup is not None:
            return await self._alookup(image)
        from kubeauth._transport.async_backend import run_blocking  # for those alone who have an event loop

        assert self._lookup is not None  # noqa: S101 -- there is one of the three
        return await run_blocking(self._lookup, image)

    def accepted(self, image: str, credential: RegistryCredential) -> None:
        """It was welcome, and before it another was, or none."""
        if self._accepted is not None:
            self._accepted(image, credential)

    def _tell(self, image: str, refused: Sequence[RegistryCredential]) -> None:
        if self._refused is not None:
            for credential in refused:
                self._refused(image, credential)

    def _hook(self, name: str) -> Hook | None:
        """The method of this name of what is asked, or of the object whose method that is."""
        for lookup in (self._lookup, self._alookup):
            for owner in (lookup, getattr(lookup, "__self__", None)):
                told: Hook | None = getattr(owner, name, None)
                if callable(told):
                    return told
        return None
