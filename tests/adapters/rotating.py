"""A cluster whose credentials live for seconds, on a machine that may stand still for as long as that."""

from __future__ import annotations

from kubeauth.cli._demo_server import DemoCluster, Issued
from kubeauth.testing import Received

# Longer than it stands still: a plugin whose credential is over when it arrives has failed.
_LIFETIME = 3.5
# A machine with other things to do may take seconds to bring a request to the server. That is nobody's fault: so the
# server takes a credential for so much longer than the plugin says. Who does not renew it is refused all the same.
_ON_THE_WAY = 10.0


class RotatingCluster(DemoCluster):
    """Nobody who goes by what the plugin says is refused by this one: look at `refused`."""

    def __init__(self, *, token: bool, certificate: bool) -> None:
        super().__init__(token=token, certificate=certificate, lifetime=_LIFETIME)
        self.issuer.tokens = _Longer()

    def _certificate_of(self, request: Received) -> Issued | None:
        found = super()._certificate_of(request)
        return None if found is None else _longer(found)


class _Longer(dict[str, Issued]):
    def __setitem__(self, token: str, issued: Issued) -> None:
        super().__setitem__(token, _longer(issued))


def _longer(issued: Issued) -> Issued:
    return issued._replace(ends=issued.ends + _ON_THE_WAY)
