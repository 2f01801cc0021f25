"""What kubeauth's own tests use, and yours can: a local API server, certificates, plugins, and a clock.

    from kubeauth import Client
    from kubeauth.testing import APIServer

    with APIServer(tokens={"secret": "alice"}) as server:
        with Client(server.config(token="secret")) as client:
            client.get("/api/v1/namespaces")
        assert server.requests[0].user == "alice"

Everything is real: TLS with its own CA on loopback, processes, files. Nothing is needed that kubeauth does
not need itself, and it works from threads and from event loops alike.
"""

from kubeauth.testing._authority import Authority, KeyPair
from kubeauth.testing._clock import FakeClock
from kubeauth.testing._programs import PluginRun, PluginScript, ProviderRun, ProviderScript
from kubeauth.testing._server import Answer, APIServer, Received, Watch

__all__ = [
    "APIServer",
    "Answer",
    "Authority",
    "FakeClock",
    "KeyPair",
    "PluginRun",
    "PluginScript",
    "ProviderRun",
    "ProviderScript",
    "Received",
    "Watch",
]
