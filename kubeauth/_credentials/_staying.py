"""What stays in the process it was made in: connections, locks, a live credential."""

from __future__ import annotations

from typing import NoReturn

from kubeauth.errors import ConfigError


class Staying:
    """Refuses to be pickled or copied, and says what to send in its place."""

    __slots__ = ()

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise ConfigError(
            f"{type(self).__name__} stays in the process it was made in: it holds connections, locks or a "
            "live credential, so it cannot be pickled or copied. Send its ClientConfig, which travels as a "
            "recipe and without a secret, or the path of the kubeconfig and the name of the context. Make a "
            "new one there."
        )
