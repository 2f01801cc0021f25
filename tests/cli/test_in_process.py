"""The runner that most tests of commands use must see what a process would have written, or they prove nothing."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence

import pytest

from kubeauth.cli import _token, main
from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags
from kubeauth.testing import APIServer
from tests.cli.in_process import run_in_process
from tests.cli.programs import environ, kubeauth

LEAK = "sentinel-of-a-leak"


def log_as_the_command_does(level: int) -> None:
    Flags(verbosity=9).set_up_logging()
    logging.getLogger("kubeauth.x").log(level, LEAK)


def log_an_error() -> None:
    try:
        int(LEAK)
    except ValueError:
        logging.getLogger("x").exception("failed")


def log_without_propagating() -> None:
    logger = logging.getLogger("kubeauth.test_in_process")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.debug(LEAK)


def write_in_a_thread() -> None:
    thread = threading.Thread(target=print, args=[LEAK])
    thread.start()
    thread.join()


def write_as_a_plugin_does() -> None:
    subprocess.run(["/bin/sh", "-c", f"echo {LEAK} >&2"], check=True)


@pytest.mark.parametrize(
    ("leak", "where"),
    [
        (lambda: print(LEAK), "out"),
        (lambda: sys.stdout.buffer.write(LEAK.encode()), "out"),
        (lambda: os.write(1, LEAK.encode()), "out"),
        (write_in_a_thread, "out"),
        (lambda: sys.stderr.write(LEAK), "err"),
        (lambda: os.write(2, LEAK.encode()), "err"),
        (write_as_a_plugin_does, "err"),
        (lambda: warnings.warn(LEAK, stacklevel=1), "err"),
        (lambda: warnings.warn(LEAK, DeprecationWarning, stacklevel=1), "err"),
        (lambda: logging.getLogger("httpcore").warning(LEAK), "err"),
        (log_an_error, "err"),
        (lambda: log_as_the_command_does(logging.DEBUG), "err"),
        (lambda: log_as_the_command_does(logging.DEBUG), "logs"),
        (log_an_error, "logs"),
        (log_without_propagating, "logs"),
    ],
)
def test_what_is_written_is_seen(leak: Callable[[], object], where: str) -> None:
    def program(_arguments: Sequence[str]) -> None:
        leak()
        raise SystemExit(7)

    ran = run_in_process(program=program)
    assert ran.status == 7
    assert LEAK in getattr(ran, where)
    assert LEAK in ran.text
    assert LEAK not in run_in_process("--version").text


@pytest.mark.parametrize("how", ["print", "log"])
def test_a_command_that_leaks_a_token_is_caught(
    how: str, api: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _token.run

    def leaking(options: _token.Options) -> int:
        if how == "print":
            print("the token is alices-token", file=sys.stderr)
        else:
            logging.getLogger("kubeauth.credentials").debug("the token is %s", "alices-token")
        return real(options)

    monkeypatch.setattr(_token, "run", leaking)
    ran = run_in_process("token", "-v", "9")
    assert ran.status == 0
    assert "alices-token" in ran.err
    monkeypatch.undo()
    assert "alices-token" not in run_in_process("token", "-v", "9", env=environ(KUBECONFIG="")).err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("get /version -v 9", Status.OK),
        ("token", Status.OK),
        ("whoami -v 6", Status.OK),
        ("doctor --offline -o json", Status.OK),
        ("fleet get /version --all-contexts -o name", Status.OK),
        ("registry check /nowhere", Status.FAILED),
        ("discover pin", Status.OK),
        ("discover", Status.USAGE),
        ("gmsa manifests --image x --tls cert-manager", Status.OK),
        ("proxy --port nonsense", Status.USAGE),
        ("demo --seconds nonsense", Status.USAGE),
    ],
)
def test_a_process_of_each_group_shows_the_same(arguments: str, status: Status, api: APIServer) -> None:
    """Signals, terminals and streams that are closed or full are elsewhere; also `docker-credential-kubeauth`."""

    def comparable(text: str) -> list[str]:
        # httpcore logs the addresses of objects; brotli may be imported here, and is not in a process of ours.
        return [re.sub(r"0x[0-9a-f]+|'accept-encoding': '.*?'", "", line) for line in text.splitlines()]

    ours, theirs = run_in_process(*arguments.split()), kubeauth(*arguments.split())
    assert (ours.status, ours.out) == (theirs.status, theirs.out)
    assert comparable(ours.err) == comparable(theirs.err)
    assert ours.status == status


def test_what_it_reads() -> None:
    def program(arguments: Sequence[str]) -> None:
        print(sys.stdin.readline(), os.read(0, 100), arguments, os.environ["X"], "HOME" in os.environ)
        raise SystemExit

    ran = run_in_process("a", 1, env={"X": "x"}, input="line\n", program=program)
    assert ran == (None, "line\n b'' ['a', '1'] x False\n", "")


def test_everything_is_restored() -> None:
    def state() -> tuple[object, ...]:
        levels = [logging.getLogger(name).level for name in ("", "kubeauth", "httpx", "httpcore", "x.new")]
        streams = sys.stdin, sys.stdout, sys.stderr, [os.fstat(number).st_ino for number in range(3)]
        handlers = list(logging.root.handlers), logging.getLogRecordFactory()
        numbers = signal.SIGINT, signal.SIGTERM
        return levels, streams, handlers, dict(os.environ), [signal.getsignal(number) for number in numbers]

    def program(_arguments: Sequence[str]) -> None:
        os.environ["NEW"] = "x"
        del os.environ["HOME"]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        logging.getLogger("x.new").setLevel(logging.DEBUG)
        main(["get", "-v", "9"])

    before, filters = state(), list(warnings.filters)
    assert run_in_process(program=program).status == Status.USAGE
    assert state() == before
    assert list(warnings.filters) == filters


def test_a_main_function_that_returns_is_an_error() -> None:
    with pytest.raises(AssertionError, match="exits"):
        run_in_process(program=len)
