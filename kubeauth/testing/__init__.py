"""Test helpers, also used by kubeauth's own tests: a local API server, certificates, plugins and a clock.

    from kubeauth import Client
    from kubeauth.testing import APIServer

    with APIServer(tokens={"secret": "alice"}) as server:
        with Client(server.config(token="secret")) as client:
            client.get("/api/v1/namespaces")
        assert server.requests[0].user == "alice"

Nothing is mocked: the server uses TLS with its own CA on loopback, and plugins are real processes. It has no
dependencies beyond kubeauth's own, and works with threads and event loops.
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
