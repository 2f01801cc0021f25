"""A program whose plugins have a bad day, and which shows its metrics: something for Prometheus to look at.

    python examples/observability/scraped.py

Starts a local API server, and makes requests to it with a token and a certificate that live for four seconds.
Now and then the plugin that issues them fails, the server refuses what is still good, a program is missing or
not allowed. An image credential provider has passwords that are good for a second, and fails when the plugin
does. Metrics are at http://127.0.0.1:9541/metrics, where prometheus.yml looks for them. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import secrets
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import prometheus_client

import kubeauth
from kubeauth.registry import CredentialProviders
from kubeauth.testing import APIServer, PluginScript, ProviderScript, Received

LIFETIME = 4


class Cluster:
    """An API server, and the plugin that has credentials for it."""

    def __init__(self, directory: str) -> None:
        self.plugin = PluginScript(directory)
        self.seen: str | None = None
        self.refused: str | None = None
        self.server = APIServer(authenticate=self._user)

    def issue(self) -> None:
        """From now on the plugin gives a new token and a new certificate."""
        begins = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        ends = begins + datetime.timedelta(seconds=LIFETIME)
        pair = self.server.authority.client("robot", not_before=begins, not_after=ends)
        self.plugin.answer(
            token=secrets.token_urlsafe(), certificate=pair.certificate, key=pair.key, expires_in=LIFETIME
        )

    def fail(self) -> None:
        """From now on the plugin fails, as that of AWS does."""
        self.plugin.answer(exit_code=255, stderr="the issuer is not there\n")

    def refuse(self) -> None:
        """What came last is not welcome any more."""
        self.refused = self.seen

    def client(
        self, *, command: str | None = None, policy: kubeauth.PluginPolicy | None = None
    ) -> kubeauth.Client:
        stanza = self.plugin.exec_config() | ({"command": command} if command else {})
        config = kubeauth.load_config(self.server.kubeconfig({"exec": stanza}), plugin_policy=policy)
        return kubeauth.Client(config)

    def _user(self, request: Received) -> str | None:
        """Everybody is welcome, but for who comes with the one token that is refused."""
        self.seen = request.header("authorization")
        return "robot" if self.seen != self.refused or self.seen is None else None


class Registry:
    """A container registry that nobody talks to, and the provider that has passwords for it."""

    HOST = "registry.example.com"

    def __init__(self, directory: str) -> None:
        self.provider = ProviderScript(directory)
        config = Path(directory, "providers.json")
        config.write_text(json.dumps(ProviderScript.config(self.provider.entry([self.HOST]))))
        self.providers = CredentialProviders(config, directory)

    def issue(self) -> None:
        """From now on the provider gives a new password."""
        self.provider.answer({self.HOST: ("robot", secrets.token_urlsafe())}, cache_duration="1s")

    def fail(self) -> None:
        """From now on the provider fails."""
        self.provider.answer(exit_code=1, stderr="the issuer is not there\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=9541, help="of the metrics, on 127.0.0.1")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="make requests for so long")
    parser.add_argument("--linger", type=float, default=0.0, help="then show the metrics for so long")
    options = parser.parse_args()

    kubeauth.metrics.register()
    try:
        shown, thread = prometheus_client.start_http_server(options.port, addr="127.0.0.1")
    except (OSError, OverflowError) as error:
        parser.error(f"--port {options.port}: {error}")
    print(f"Metrics at http://127.0.0.1:{shown.server_port}/metrics", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        cluster, registry = Cluster(directory), Registry(directory)
        # Ctrl-C is how it is meant to end.
        with suppress(KeyboardInterrupt), cluster.server, registry.providers:
            have_a_bad_day(cluster, registry, time.monotonic() + options.seconds)
        print(f"Runs of the plugin: {len(cluster.plugin.runs)}", flush=True)
        print(f"Runs of the provider: {len(registry.provider.runs)}", flush=True)
    with suppress(KeyboardInterrupt):
        time.sleep(options.linger)
    shown.shutdown()
    shown.server_close()
    thread.join()


def have_a_bad_day(cluster: Cluster, registry: Registry, ends_at: float) -> None:
    """Some ten requests a second, and everything that can go wrong in ten seconds."""
    cluster.issue()
    registry.issue()
    with (
        cluster.client() as client,
        cluster.client(command="kubeauth-no-such-plugin") as missing,
        cluster.client(policy=kubeauth.PluginPolicy.deny_all()) as denied,
    ):
        for number in itertools.cycle(range(100)):
            ask(client)
            if number == 20:
                ask(missing)
                ask(denied)
            if number == 40:
                cluster.refuse()
            if number % 5 == 0:
                registry.providers.lookup(f"{registry.HOST}/app")
            if number < 50:
                cluster.issue()
                registry.issue()
            else:
                cluster.fail()
                registry.fail()
            cluster.server.requests.clear()
            if time.monotonic() >= ends_at:
                time.sleep(1.0)  # a run in the background comes to its end
                return
            time.sleep(0.1)


def ask(client: kubeauth.Client) -> None:
    # What goes wrong is what the metrics are about.
    with suppress(kubeauth.errors.KubeAuthError):
        client.get("/version")


if __name__ == "__main__":
    main()
