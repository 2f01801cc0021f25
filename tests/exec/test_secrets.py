"""Whatever goes wrong with a plugin: nothing that it was given, and nothing that it gave, is told to anybody.

What it says on its own stderr is the exception: that is for people, and part of the error.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import httpx2
import prometheus_client
import pytest

from kubeauth import ClientConfig, errors, metrics
from kubeauth.testing import Answer, APIServer, FakeClock
from tests.support.clients import ClientVariant, Driver
from tests.support.kubeconfigs import V1
from tests.support.misbehaving import Misbehaving, document
from tests.support.residue import is_alive, no_residue, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these plugins are for POSIX")

TWO = pytest.mark.parametrize(
    "variant", [ClientVariant(httpx, "sync"), ClientVariant(httpx2, "asyncio")], ids=str
)

# Not in any local variable of a test: its frames are part of the traceback too.
S = "s3ntinel"
PEM = "-----BEGIN {0}-----\n" + S + "\n-----END {0}-----\n"
CERTIFICATE, KEY = PEM.format("CERTIFICATE"), PEM.format("PRIVATE KEY")
GOOD = {"token": f"{S}-token"}

# What it prints, and then nothing more happens.
PRINTED = {
    "words": f"token: {S}: {S}",
    "garbage": f"\x00\x01{S}\x7f",
    "half of a document": document(GOOD)[:-2],
    "two documents": document(GOOD) * 2,
    "yaml that is none": f"status: {{token: {S}",
    "an alias": f"status: *{S}",
    "deep": "[" * 100_000 + S,
    "deep JSON": f'{{"{S}":' * 20_000,
    "a list": f'["{S}"]',
    "a string": f'"{S}"',
    "wrong version": document(GOOD, apiVersion=f"{V1}beta1"),
    "wrong kind": document(GOOD, kind="Secret"),
    "a version that goes on": document(GOOD, apiVersion=f"v1\n{S}"),
    "a version that is a list": document(GOOD, apiVersion=[S]),
    "a long kind": document(GOOD, kind="K" * 100 + S),
    "no status": document(None, other=S),
    "a status that is a string": f'{{"apiVersion": "{V1}", "status": "{S}"}}',
    "a token that is a list": document({"token": [S]}),
    "a token that is a number": document({"token": 12345, "clientKeyData": S}),
    "half a pair": document({"clientKeyData": KEY}),
    "the other half": document(GOOD | {"clientCertificateData": CERTIFICATE}),
    "no PEM": document({"clientCertificateData": S, "clientKeyData": S}),
    "a certificate and no PEM": document({"clientCertificateData": CERTIFICATE, "clientKeyData": S}),
    "garbage in PEM": document({"clientCertificateData": CERTIFICATE, "clientKeyData": KEY}),
    "a newline": document({"token": f"{S}\n"}),
    "not ASCII": document({"token": f"{S}\u00e9"}),
    "blanks": document({"token": f" {S}"}),
    "no time": document(GOOD | {"expirationTimestamp": S}),
    "a time that is a number": document(GOOD | {"expirationTimestamp": 5, S: S}),
    "an impossible time": document(GOOD | {"expirationTimestamp": "2026-13-45T99:99:99Z"}),
    "surrogates": f'{{"status": {{"token": "{S}\\ud800"}}, "apiVersion": "{V1}"}}',
    "more than a mebibyte": S * 2**18,
}
OTHERS = {
    "exit 1": f"print({document(GOOD)!r}); sys.exit(1)",
    "a signal": f"print({document(GOOD)!r}, flush=True); os.kill(os.getpid(), 9)",
    "a timeout": f"print({document(GOOD)!r}, flush=True); time.sleep(60)",
}


def assert_clean(text: str) -> None:
    for secret in (S, S.encode().hex(), "PRIVATE KEY-----\\n", "PRIVATE KEY-----\n"):
        assert secret not in text


def everything_about(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format()) + repr(error) + str(error) + repr(vars(error)) + repr(pickle.dumps(error))


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    """Everything that anybody logs, at every level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)
    assert_clean(stream.getvalue())


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Misbehaving]:
    plugin = Misbehaving(tmp_path)
    with no_residue():
        yield plugin
    wait_until(lambda: not any(map(is_alive, plugin.processes)))


def config_of(plugin: Misbehaving, server: APIServer, /, **fields: Any) -> ClientConfig:
    """One whose every secret is the sentinel."""
    given: dict[str, Any] = {
        "args": (f"--password={S}", S),
        "env": {"PASSWORD": S},
        "provide_cluster_info": True,
        "cluster_config": {"audience": S},
        "timeout": 60.0,
    }
    return plugin.config(server, **(given | fields))


def look_at(client: Driver, config: ClientConfig) -> None:
    """Everything that a client shows."""
    kube = client.client._kube_transport
    for it in (config, config.exec, client.client, kube, kube._source, kube._source._provider,
               kube._source._cached, client.client.status()):  # fmt: skip
        assert_clean(repr(it) + str(it))
    last = client.client.status().last_error
    if last is not None:
        assert_clean(everything_about(last))
    registry = prometheus_client.CollectorRegistry()
    metrics.register(registry)
    assert_clean(prometheus_client.generate_latest(registry).decode())
    assert_clean(" ".join(thread.name for thread in threading.enumerate()))


def fails(client: Driver, config: ClientConfig, kind: type[BaseException]) -> None:
    for _ in range(2):  # the second is told what the first was
        with pytest.raises(kind) as caught:
            client.get("/version")
        assert_clean(everything_about(caught.value))
    look_at(client, config)


@TWO
@pytest.mark.parametrize("name", PRINTED)
def test_what_it_prints(
    name: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    plugin.prints(PRINTED[name])
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:
        fails(client, config, errors.PluginOutputError)


@pytest.mark.slow
@TWO
@pytest.mark.parametrize("name", OTHERS)
def test_how_it_ends(
    name: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    plugin.does(OTHERS[name])
    config = config_of(plugin, server, timeout=1.0 if name == "a timeout" else 60.0)
    with variant.client(config, clock=clock) as client:
        fails(client, config, errors.PluginTimeout if name == "a timeout" else errors.PluginFailed)


def _remove(plugin: Misbehaving) -> None:
    plugin.path.unlink()


def _spoil(plugin: Misbehaving) -> None:
    plugin.path.write_bytes(b"#!/no/such/interpreter\n")


def _nothing(plugin: Misbehaving) -> None:
    pass


@TWO
@pytest.mark.parametrize(
    ("break_it", "fields", "kind"),
    [
        (_remove, {}, errors.PluginNotFound),
        (_spoil, {}, errors.PluginNotStarted),
        (_nothing, {"args": (f"{S}\0",)}, errors.PluginNotStarted),
        (_nothing, {"env": {"A": f"{S}\0"}}, errors.PluginNotStarted),
        (_nothing, {"env": {"A=": S}}, errors.PluginNotStarted),
        (_nothing, {"args": (S * 50_000,)}, errors.PluginNotStarted),
        (_nothing, {"cluster_config": {"a": S * 50_000}}, errors.PluginNotStarted),
        (_nothing, {"env": {"A": "\ud800" + S}}, errors.PluginError),
        (_nothing, {"args": ("\ud800" + S,)}, errors.PluginError),
    ],
    ids=["missing", "interpreter", "NUL in args", "NUL in env", "= in env", "long args", "long config",
         "surrogate in env", "surrogate in args"],
)  # fmt: skip
def test_what_cannot_be_started(
    break_it: Callable[[Misbehaving], None],
    fields: dict[str, Any],
    kind: type[Exception],
    variant: ClientVariant,
    server: APIServer,
    clock: FakeClock,
    plugin: Misbehaving,
) -> None:
    break_it(plugin)
    config = config_of(plugin, server, **fields)
    del fields  # they are the test's own
    with variant.client(config, clock=clock) as client:
        fails(client, config, kind)


@TWO
def test_another_ones_key(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    def body_of_the_key() -> str:
        carol, dave = server.authority.client("carol"), server.authority.client("dave")
        plugin.gives(clientCertificateData=carol.certificate.decode(), clientKeyData=dave.key.decode())
        return dave.key.decode().splitlines()[1]

    line = Path(f"{plugin.path}.line")
    line.write_text(body_of_the_key())
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:
        with pytest.raises(errors.PluginOutputError, match="does not match") as caught:
            client.get("/version")
        told = everything_about(caught.value)
        assert_clean(told)
        assert line.read_text() not in told
        look_at(client, config)


def test_one_that_works(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving, log: io.StringIO
) -> None:
    server.tokens = {GOOD["token"]: "alice"}
    plugin.gives(token=GOOD["token"], expires=clock.time() + 900)
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:
        assert client.get("/version").status_code == 200
        look_at(client, config)
        # Refused, and then there is no other.
        server.tokens = {"x": "x"}
        plugin.does(OTHERS["exit 1"])
        assert client.get("/version").status_code == 401
        look_at(client, config)
        # Over, and over again on arrival.
        plugin.gives(token=GOOD["token"], expires=clock.time())
        clock.advance(901.0)
        assert client.get("/version").status_code == 401
        fails(client, config, errors.PluginOutputError)
    assert "<masked>" in log.getvalue()
    assert "the credential could not be refreshed" in log.getvalue()


def test_a_renewal_ahead_that_fails(
    server: APIServer, clock: FakeClock, plugin: Misbehaving, log: io.StringIO
) -> None:
    """It is logged, for there is nobody to tell."""
    server.tokens = {GOOD["token"]: "alice"}
    plugin.gives(token=GOOD["token"], expires=clock.time() + 900)
    config = config_of(plugin, server)
    with ClientVariant(httpx, "sync").client(config, clock=clock) as client:
        client.get("/version")
        plugin.prints(PRINTED["garbage in PEM"])
        clock.advance(880.0)
        client.get("/version")
        # It is logged when it is known already.
        wait_until(lambda: "using the cached credential until it expires" in log.getvalue())
        assert client.client.status().last_error is not None
        look_at(client, config)


@TWO
def test_while_it_runs(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    plugin.does("while not os.path.exists(here + '.go'): time.sleep(0.01)")
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:

        def ask() -> None:
            with pytest.raises(errors.PluginError):
                client.get("/version")

        asks = threading.Thread(target=ask)
        asks.start()
        wait_until(lambda: plugin.runs == 1)
        look_at(client, config)
        Path(f"{plugin.path}.go").touch()
        asks.join()


@TWO
def test_a_server_that_hangs_up(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.on("GET", "/version", Answer(hang_up=True))
    server.tokens = {GOOD["token"]: "alice"}
    plugin.gives(token=GOOD["token"])
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:
        for _ in range(2):
            with pytest.raises(variant.library.TransportError) as caught:
                client.get("/version")
            told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
            assert_clean("".join(told.format()) + repr(vars(caught.value)))
        look_at(client, config)


@TWO
def test_clocks_that_jump(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.tokens = {GOOD["token"]: "alice"}
    plugin.gives(token=GOOD["token"], expires=clock.time() + 900)
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:
        for jump in (0.0, -5000.0, 9000.0, -3000.0):
            clock.set_date(clock.time() + jump)
            with suppress(errors.PluginOutputError):  # after the third it is over on arrival
                client.get("/version")
            look_at(client, config)


@pytest.mark.slow
@TWO
def test_a_child_that_holds_its_stdout(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.tokens = {GOOD["token"]: "alice"}
    plugin.does(f"print({document(GOOD)!r}, flush=True)\nif fork(): time.sleep(2)")
    config = config_of(plugin, server)
    with variant.client(config, clock=clock) as client:
        assert client.get("/version").status_code == 200
        look_at(client, config)


@contextmanager
def interrupted(plugin: Misbehaving) -> Iterator[None]:
    """Ctrl-C, when the plugin runs."""

    def interrupt() -> None:
        wait_until(lambda: plugin.runs == 1)
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.get_ident()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_ctrl_c(server: APIServer, clock: FakeClock, plugin: Misbehaving) -> None:
    """The one error that comes through the frames that run the plugin."""
    plugin.does(f"print({document(GOOD)!r}, flush=True); time.sleep(600)")
    config = config_of(plugin, server, timeout=600.0)
    with ClientVariant(httpx, "sync").client(config, clock=clock) as client:
        with interrupted(plugin), pytest.raises(KeyboardInterrupt) as caught:
            client.get("/version")
        assert_clean(everything_about(caught.value))


def test_the_check_itself_would_notice() -> None:
    for leak in (S, f"x{KEY}", repr(KEY)):
        with pytest.raises(AssertionError):
            assert_clean(leak)
