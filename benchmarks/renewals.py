"""What renewals cost the requests that go on meanwhile.

    make bench      or      python -m benchmarks.renewals [ROUNDS]

1. Warm: a request with an exec plugin's token beside one with a static token, in memory, interleaved per
   1,000 calls.
2. Renewals: one caller asks a local API server all the time, with credentials that live for seconds and a
   plugin that takes one second. Beside it: the same process started at the same pace while a static token
   is used (the control: what starting a process costs on this machine), and a client that renews when the
   credential is over, as client-go does. In turning order; ratios are to the control of the same round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.cost import rounds_of, spread, timed
from kubeauth import Client, ClientConfig, ExecConfig, ExecOptions, Secret

V1 = "client.authentication.k8s.io/v1"
LIFETIME = 4.0
PLUGIN_SECONDS = 1.0
# Half of a lifetime passes before it is renewed, since two runs must fit into the rest; then a run.
PACE = LIFETIME / 2 + PLUGIN_SECONDS
SECONDS = 9.0
# So that whoever waits for a renewal is more than one request in a thousand: a percentile must show it.
PAUSE = 0.008

SERVER = """
import sys, time
from kubeauth.testing import APIServer
class Tokens(dict):
    def get(self, token, default=None):
        return "alice" if token == "static" or float(token) >= time.time() else default
with APIServer(tokens={"static": "alice"}) as server:
    server.tokens = Tokens()
    for number in range(64):
        server.authority.client("alice").write(f"{sys.argv[1]}/{number}.pem", f"{sys.argv[1]}/{number}.key")
    print(server.url, server.authority.pem.hex(), flush=True)
    sys.stdin.read()
"""

PLUGIN = """#!{python} -IS
import datetime, glob, json, os, sys, time
time.sleep({seconds})
now = time.time()
end = datetime.datetime.fromtimestamp(now + {lifetime}, datetime.timezone.utc)
status = {{"expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
if sys.argv[1] == "token":
    status["token"] = str(now + {lifetime})
else:
    number = int(now * 1000) % 64
    status["clientCertificateData"] = open(f"{directory}/{{number}}.pem").read()
    status["clientKeyData"] = open(f"{directory}/{{number}}.key").read()
version = "client.authentication.k8s.io/v1"
json.dump({{"apiVersion": version, "kind": "ExecCredential", "status": status}}, sys.stdout)
"""


def exec_config(path: Path, kind: str, **options: Any) -> ExecConfig:
    return ExecConfig(
        command=str(path),
        args=(kind,),
        api_version=V1,
        interactive_mode="Never",
        options=ExecOptions(**options),
    )


@contextmanager
def server(directory: str) -> Iterator[ClientConfig]:
    """In a process of its own: it must not share the interpreter with the client."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url, authority = process.stdout.readline().split()
        yield ClientConfig(server=url, ca_data=bytes.fromhex(authority))
        process.stdin.close()


def latencies(config: ClientConfig) -> list[float]:
    """Seconds of each request, one after the other, for a while."""
    found: list[float] = []
    with Client(config) as client:
        client.get("/version").raise_for_status()
        end = time.perf_counter() + SECONDS
        while (start := time.perf_counter()) < end:
            client.get("/version").raise_for_status()
            found.append(time.perf_counter() - start)
            time.sleep(PAUSE)
    return found


def beside_the_process(config: ClientConfig, path: Path) -> list[float]:
    """A static token, while the plugin's process is started at the same pace and its answer thrown away."""
    done = threading.Event()

    def start_it() -> None:
        while not done.wait(PACE - PLUGIN_SECONDS):
            subprocess.run([path, "token"], capture_output=True, check=True)

    thread = threading.Thread(target=start_it)
    thread.start()
    try:
        return latencies(config)
    finally:
        done.set()
        thread.join()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def warm(console: Console, plugin: Path, rounds: int) -> None:
    class Memory(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, stream=httpx.ByteStream(b"{}"))

    def client(config: ClientConfig) -> Client:
        return Client(config, inner=lambda _context, _proxy: Memory())

    static = ClientConfig(server="https://h:6443", token=Secret("static"))
    long_lived = ClientConfig(server="https://h:6443", exec=exec_config(plugin, "token"))
    found = rounds_of(
        {
            "static": timed(client(static), None),
            "exec": timed(client(long_lived), None),
            "static again": timed(client(static), None),
        },
        1_000,
        rounds,
        "warm",
    )
    for name in ("exec", "static again"):
        more = [mine - theirs for mine, theirs in zip(found[name], found["static"], strict=True)]
        console.print(
            f"{name:12} - static: {statistics.median(more):+.2f} us a request (middle half "
            f"{spread(more, 2)}), of {statistics.median(found['static']):.1f} us; {rounds} rounds",
            highlight=False,
        )


def renewals(console: Console, config: ClientConfig, plugin: Path, rounds: int) -> None:
    static = replace(config, token=Secret("static"))
    contenders: dict[str, Callable[[], list[float]]] = {
        "control: static token beside the process": lambda: beside_the_process(static, plugin),
        "kubeauth, token": lambda: latencies(replace(config, exec=exec_config(plugin, "token"))),
        "kubeauth, certificate": lambda: latencies(replace(config, exec=exec_config(plugin, "certificate"))),
        "renewing on expiry": lambda: latencies(
            replace(config, exec=exec_config(plugin, "token", refresh_ahead=False))
        ),
    }
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in track(range(rounds), "renewals", console=Console(stderr=True), transient=True):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            values = contenders[name]()
            found[name].append({label: percentile(values, share) for label, share in shares.items()})
    title = (
        f"{rounds} rounds of {SECONDS:g} s; a plugin that takes {PLUGIN_SECONDS:g} s, credentials of "
        f"{LIFETIME:g} s"
    )
    table = Table(title=title, title_justify="left")
    for column in ("", *shares, "p99.9 to control", "spread"):
        table.add_column(column, justify="right" if column else "left")
    control = [each["p99.9"] for each in found[names[0]]]
    for name in names:
        ratios = [mine["p99.9"] / theirs for mine, theirs in zip(found[name], control, strict=True)]
        table.add_row(
            name,
            *(f"{statistics.median(each[label] for each in found[name]) * 1000:.2f} ms" for label in shares),
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f} - {max(ratios):.2f}",
        )
    console.print(table)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as directory, server(directory) as config:
        plugin = Path(directory, "plugin")

        def write(seconds: float, lifetime: float) -> None:
            plugin.write_text(
                PLUGIN.format(python=sys.executable, seconds=seconds, lifetime=lifetime, directory=directory)
            )
            plugin.chmod(0o700)

        write(0.0, 86400.0)
        warm(console, plugin, rounds * 5)
        write(PLUGIN_SECONDS, LIFETIME)
        renewals(console, config, plugin, rounds)


if __name__ == "__main__":
    main()
