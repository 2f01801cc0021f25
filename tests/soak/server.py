"""The API server is killed and started again, and it is written down when it was not to be counted on."""

from __future__ import annotations

import json
import math
import ssl
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime

from tests.e2e.cluster import ControlPlane
from tests.soak.plan import Plan
from tests.soak.plugin import Plugins

NAMESPACE = "soak"
AGENT = "kubeauth-soak/"
"""Callers call themselves so, with the moment that a request begins: that is when its credential must be good."""


class Killer:
    """Kills it every so often, in a thread. A window begins before the kill and ends when all is well again."""

    def __init__(self, cluster: ControlPlane, plan: Plan) -> None:
        self.kills = 0
        self.problem = ""
        self._cluster, self._plan = cluster, plan
        self._windows: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-killer")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the server is up."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def was_down(self, begun: float, ended: float) -> bool:
        """Whether the server was dead, or not ready yet, between these moments of the monotonic clock."""
        return any(begun <= end and start <= ended for start, end in list(self._windows))

    def was_down_at(self, date: float) -> bool:
        """The same by the calendar."""
        moment = date - time.time() + time.monotonic()
        return self.was_down(moment, moment)

    def _run(self) -> None:
        while not self._stop.wait(self._plan.kill_every):
            try:
                self._kill()
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"
                return

    def _kill(self) -> None:
        start = time.monotonic()
        self._windows.append((start, math.inf))
        self._cluster.stop_apiserver(kill=True)
        self.kills += 1
        self._cluster.start_apiserver()
        # Ready is not all: it may not know the issuer of tokens yet, nor who may do what.
        while not self._knows_tokens():
            time.sleep(0.1)
        self._windows[-1] = (start, time.monotonic())

    def _knows_tokens(self) -> bool:
        token = self._cluster.issuer.id_token("soak", seconds=60)
        url = f"{self._cluster.server}/api/v1/namespaces/{NAMESPACE}/configmaps?limit=1"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 -- a server of ours, on loopback
        context = ssl.create_default_context(cadata=self._cluster.ca.decode())
        try:
            with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310 -- a server of ours, on loopback
                return int(answer.status) == 200
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False


class Audit:
    """Reads the server's audit log as it grows: who came with a credential that was over?"""

    def __init__(self, cluster: ControlPlane, plugins: Plugins, killer: Killer) -> None:
        self.requests = 0
        self.refused = 0
        """401s outside of restarts: also those that were renewed for and repeated."""
        self.unknown: list[str] = []
        """Requests with a credential that no plugin gave."""
        self.stale: list[str] = []
        self.latest = 0.0
        """How long after the end of its credential the latest request came: it may have been on its way."""
        self._path = cluster.directory / "audit.log"
        self._plugins, self._killer = plugins, killer
        self._offset = 0

    def read(self) -> None:
        """What is new in it."""
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                if b'"/api/v1/namespaces/soak/configmaps' in line and AGENT.encode() in line:
                    self._look_at(line)

    def _look_at(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:  # the server was killed in the middle of writing it
            return
        if event["verb"] == "watch" and event["stage"] == "ResponseComplete":
            return  # counted when it started
        self.requests += 1
        received = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        if self._killer.was_down_at(received):
            return
        code = event.get("responseStatus", {}).get("code", 0)
        if code == 401:
            self.refused += 1
            return
        extra = event["user"].get("extra", {})
        (identifier,) = extra.get("authentication.kubernetes.io/credential-id", [""])
        ends = self._plugins.ends(identifier)
        if ends is None:
            self.unknown.append(f"{event['verb']} {code} as {event['user']}")
            return
        self.latest = max(self.latest, received - ends)
        begun = float(event["userAgent"].removeprefix(AGENT))
        if begun > ends:
            self.stale.append(f"{event['verb']} begun {begun - ends:.3f} s after the end of its credential")
