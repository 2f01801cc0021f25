"""The arguments, environment and output of a plugin are not in errors, tracebacks, logs, metrics or reprs.

Its stderr is the exception: it is meant for the user, and part of the error.
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

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the plugins are POSIX scripts")

SYNC_AND_ASYNC = pytest.mark.parametrize(
    "variant", [ClientVariant(httpx, "sync"), ClientVariant(httpx2, "asyncio")], ids=str
)

# Tests must not have it in a local variable: their frames are part of the traceback.
SENTINEL = "s3ntinel"
PEM = "-----BEGIN {0}-----\n" + SENTINEL + "\n-----END {0}-----\n"
CERTIFICATE, KEY = PEM.format("CERTIFICATE"), PEM.format("PRIVATE KEY")
STATUS = {"token": f"{SENTINEL}-token"}

# Printed by a plugin that exits with 0.
INVALID_OUTPUT = {
    "a sentence": f"token: {SENTINEL}: {SENTINEL}",
    "control characters": f"\x00\x01{SENTINEL}\x7f",
    "half of a document": document(STATUS)[:-2],
    "two documents": document(STATUS) * 2,
    "invalid YAML": f"status: {{token: {SENTINEL}",
    "a YAML alias": f"status: *{SENTINEL}",
    "deep nesting": "[" * 100_000 + SENTINEL,
    "deep nesting in JSON": f'{{"{SENTINEL}":' * 20_000,
    "a list": f'["{SENTINEL}"]',
    "a string": f'"{SENTINEL}"',
    "wrong version": document(STATUS, apiVersion=f"{V1}beta1"),
    "wrong kind": document(STATUS, kind="Secret"),
    "a version with a newline": document(STATUS, apiVersion=f"v1\n{SENTINEL}"),
    "version is a list": document(STATUS, apiVersion=[SENTINEL]),
    "long kind": document(STATUS, kind="K" * 100 + SENTINEL),
    "no status": document(None, other=SENTINEL),
    "status is a string": f'{{"apiVersion": "{V1}", "status": "{SENTINEL}"}}',
    "token is a list": document({"token": [SENTINEL]}),
    "token is a number": document({"token": 12345, "clientKeyData": SENTINEL}),
    "key without certificate": document({"clientKeyData": KEY}),
    "certificate without key": document(STATUS | {"clientCertificateData": CERTIFICATE}),
    "certificate and key are not PEM": document(
        {"clientCertificateData": SENTINEL, "clientKeyData": SENTINEL}
    ),
    "key is not PEM": document({"clientCertificateData": CERTIFICATE, "clientKeyData": SENTINEL}),
    "garbage in PEM": document({"clientCertificateData": CERTIFICATE, "clientKeyData": KEY}),
    "token with a newline": document({"token": f"{SENTINEL}\n"}),
    "token is not ASCII": document({"token": f"{SENTINEL}\u00e9"}),
    "token with a space": document({"token": f" {SENTINEL}"}),
    "expirationTimestamp is not a time": document(STATUS | {"expirationTimestamp": SENTINEL}),
    "expirationTimestamp is a number": document(STATUS | {"expirationTimestamp": 5, SENTINEL: SENTINEL}),
    "expirationTimestamp is out of range": document(STATUS | {"expirationTimestamp": "2026-13-45T99:99:99Z"}),
    "token with a surrogate": f'{{"status": {{"token": "{SENTINEL}\\ud800"}}, "apiVersion": "{V1}"}}',
    "more than a mebibyte": SENTINEL * 2**18,
}
FAILURES = {
    "exit 1": f"print({document(STATUS)!r}); sys.exit(1)",
    "a signal": f"print({document(STATUS)!r}, flush=True); os.kill(os.getpid(), 9)",
    "a timeout": f"print({document(STATUS)!r}, flush=True); time.sleep(60)",
}


def assert_clean(text: str) -> None:
    for secret in (SENTINEL, SENTINEL.encode().hex(), "PRIVATE KEY-----\\n", "PRIVATE KEY-----\n"):
        assert secret not in text


def describe(error: BaseException) -> str:
    report = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(report.format()) + repr(error) + str(error) + repr(vars(error)) + repr(pickle.dumps(error))


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    """All log records of all loggers, at every level."""
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


def secret_config(plugin: Misbehaving, server: APIServer, /, **fields: Any) -> ClientConfig:
    """A config whose secrets all contain the sentinel."""
    defaults: dict[str, Any] = {
        "args": (f"--password={SENTINEL}", SENTINEL),
        "env": {"PASSWORD": SENTINEL},
        "provide_cluster_info": True,
        "cluster_config": {"audience": SENTINEL},
        "timeout": 60.0,
    }
    return plugin.config(server, **(defaults | fields))


def assert_client_is_clean(client: Driver, config: ClientConfig) -> None:
    """Check the reprs of a client and its parts, its status, the metrics and the names of threads."""
    kube = client.client._kube_transport
    for shown in (config, config.exec, client.client, kube, kube._source, kube._source._provider,
               kube._source._cached, client.client.status()):  # fmt: skip
        assert_clean(repr(shown) + str(shown))
    last = client.client.status().last_error
    if last is not None:
        assert_clean(describe(last))
    registry = prometheus_client.CollectorRegistry()
    metrics.register(registry)
    assert_clean(prometheus_client.generate_latest(registry).decode())
    assert_clean(" ".join(thread.name for thread in threading.enumerate()))


def assert_fails_cleanly(client: Driver, config: ClientConfig, kind: type[BaseException]) -> None:
    for _ in range(2):  # the second error is a copy of the first
        with pytest.raises(kind) as caught:
            client.get("/version")
        assert_clean(describe(caught.value))
    assert_client_is_clean(client, config)


@SYNC_AND_ASYNC
@pytest.mark.parametrize("name", INVALID_OUTPUT)
def test_invalid_output_is_not_leaked(
    name: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    plugin.prints(INVALID_OUTPUT[name])
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:
        assert_fails_cleanly(client, config, errors.PluginOutputError)


@pytest.mark.slow
@SYNC_AND_ASYNC
@pytest.mark.parametrize("name", FAILURES)
def test_output_of_a_failed_plugin_is_not_leaked(
    name: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    plugin.does(FAILURES[name])
    config = secret_config(plugin, server, timeout=1.0 if name == "a timeout" else 60.0)
    with variant.client(config, clock=clock) as client:
        assert_fails_cleanly(
            client, config, errors.PluginTimeout if name == "a timeout" else errors.PluginFailed
        )


def _remove(plugin: Misbehaving) -> None:
    plugin.path.unlink()


def _break_interpreter(plugin: Misbehaving) -> None:
    plugin.path.write_bytes(b"#!/no/such/interpreter\n")


def _do_nothing(plugin: Misbehaving) -> None:
    pass


@SYNC_AND_ASYNC
@pytest.mark.parametrize(
    ("break_plugin", "fields", "error"),
    [
        (_remove, {}, errors.PluginNotFound),
        (_break_interpreter, {}, errors.PluginNotStarted),
        (_do_nothing, {"args": (f"{SENTINEL}\0",)}, errors.PluginNotStarted),
        (_do_nothing, {"env": {"A": f"{SENTINEL}\0"}}, errors.PluginNotStarted),
        (_do_nothing, {"env": {"A=": SENTINEL}}, errors.PluginNotStarted),
        (_do_nothing, {"args": (SENTINEL * 50_000,)}, errors.PluginNotStarted),
        (_do_nothing, {"cluster_config": {"a": SENTINEL * 50_000}}, errors.PluginNotStarted),
        (_do_nothing, {"env": {"A": "\ud800" + SENTINEL}}, errors.PluginError),
        (_do_nothing, {"args": ("\ud800" + SENTINEL,)}, errors.PluginError),
    ],
    ids=["missing", "interpreter", "NUL in args", "NUL in env", "= in env", "long args", "long config",
         "surrogate in env", "surrogate in args"],
)  # fmt: skip
def test_args_and_env_of_a_plugin_that_cannot_be_started_are_not_leaked(
    break_plugin: Callable[[Misbehaving], None],
    fields: dict[str, Any],
    error: type[Exception],
    variant: ClientVariant,
    server: APIServer,
    clock: FakeClock,
    plugin: Misbehaving,
) -> None:
    break_plugin(plugin)
    config = secret_config(plugin, server, **fields)
    del fields  # a local variable of the test would be in the traceback
    with variant.client(config, clock=clock) as client:
        assert_fails_cleanly(client, config, error)


@SYNC_AND_ASYNC
def test_a_key_that_does_not_match_is_not_leaked(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    def use_mismatched_pair() -> str:
        carol, dave = server.authority.client("carol"), server.authority.client("dave")
        plugin.gives(clientCertificateData=carol.certificate.decode(), clientKeyData=dave.key.decode())
        return dave.key.decode().splitlines()[1]

    line = Path(f"{plugin.path}.line")
    line.write_text(use_mismatched_pair())
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:
        with pytest.raises(errors.PluginOutputError, match="does not match") as caught:
            client.get("/version")

        text = describe(caught.value)
        assert_clean(text)
        assert line.read_text() not in text

        assert_client_is_clean(client, config)


def test_valid_rejected_and_expired_credentials_are_not_leaked(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving, log: io.StringIO
) -> None:
    server.tokens = {STATUS["token"]: "alice"}
    plugin.gives(token=STATUS["token"], expires=clock.time() + 900)
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:
        assert client.get("/version").status_code == 200
        assert_client_is_clean(client, config)

        # A 401, and the refresh fails.
        server.tokens = {"x": "x"}
        plugin.does(FAILURES["exit 1"])
        assert client.get("/version").status_code == 401
        assert_client_is_clean(client, config)

        # Expired, and the new one has expired too.
        plugin.gives(token=STATUS["token"], expires=clock.time())
        clock.advance(901.0)
        assert client.get("/version").status_code == 401
        assert_fails_cleanly(client, config, errors.PluginOutputError)

    assert "<masked>" in log.getvalue()
    assert "the credential could not be refreshed" in log.getvalue()


def test_the_log_of_a_failed_refresh_ahead_has_no_secrets(
    server: APIServer, clock: FakeClock, plugin: Misbehaving, log: io.StringIO
) -> None:
    server.tokens = {STATUS["token"]: "alice"}
    plugin.gives(token=STATUS["token"], expires=clock.time() + 900)
    config = secret_config(plugin, server)
    with ClientVariant(httpx, "sync").client(config, clock=clock) as client:
        client.get("/version")
        plugin.prints(INVALID_OUTPUT["garbage in PEM"])
        clock.advance(880.0)
        client.get("/version")

        # The log record comes after last_error is set.
        wait_until(lambda: "using the cached credential until it expires" in log.getvalue())
        assert client.client.status().last_error is not None

        assert_client_is_clean(client, config)


@SYNC_AND_ASYNC
def test_a_client_whose_plugin_runs_has_no_secrets_in_reprs(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    plugin.does("while not os.path.exists(here + '.go'): time.sleep(0.01)")
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:

        def request() -> None:
            with pytest.raises(errors.PluginError):
                client.get("/version")

        requester = threading.Thread(target=request)
        requester.start()
        wait_until(lambda: plugin.runs == 1)
        assert_client_is_clean(client, config)
        Path(f"{plugin.path}.go").touch()
        requester.join()


@SYNC_AND_ASYNC
def test_network_errors_do_not_leak_the_token(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.on("GET", "/version", Answer(hang_up=True))
    server.tokens = {STATUS["token"]: "alice"}
    plugin.gives(token=STATUS["token"])
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:
        for _ in range(2):
            with pytest.raises(variant.library.TransportError) as caught:
                client.get("/version")
            report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
            assert_clean("".join(report.format()) + repr(vars(caught.value)))
        assert_client_is_clean(client, config)


@SYNC_AND_ASYNC
def test_clock_jumps_do_not_leak_the_token(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.tokens = {STATUS["token"]: "alice"}
    plugin.gives(token=STATUS["token"], expires=clock.time() + 900)
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:
        for jump in (0.0, -5000.0, 9000.0, -3000.0):
            clock.set_date(clock.time() + jump)
            with suppress(errors.PluginOutputError):  # after the third jump, new credentials have expired
                client.get("/version")
            assert_client_is_clean(client, config)


@pytest.mark.slow
@SYNC_AND_ASYNC
def test_a_child_with_the_stdout_of_the_plugin_does_not_leak_the_token(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.tokens = {STATUS["token"]: "alice"}
    plugin.does(f"print({document(STATUS)!r}, flush=True)\nif fork(): time.sleep(2)")
    config = secret_config(plugin, server)
    with variant.client(config, clock=clock) as client:
        assert client.get("/version").status_code == 200
        assert_client_is_clean(client, config)


@contextmanager
def ctrl_c_during_run(plugin: Misbehaving) -> Iterator[None]:
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


def test_the_traceback_of_ctrl_c_has_no_secrets(
    server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    """Unlike other errors, it has the frames of the code that runs the plugin."""
    plugin.does(f"print({document(STATUS)!r}, flush=True); time.sleep(600)")
    config = secret_config(plugin, server, timeout=600.0)
    with ClientVariant(httpx, "sync").client(config, clock=clock) as client:
        with ctrl_c_during_run(plugin), pytest.raises(KeyboardInterrupt) as caught:
            client.get("/version")
        assert_clean(describe(caught.value))


def test_assert_clean_detects_leaks() -> None:
    for leak in (SENTINEL, f"x{KEY}", repr(KEY)):
        with pytest.raises(AssertionError):
            assert_clean(leak)
