"""What whoever waits for a cluster is told: on a terminal, in a log, and when it is interrupted."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator

import pytest

from kubeauth.cli._discover_progress import LiveLine, _line, in_words
from kubeauth.cli._ends import Status
from kubeauth.discovery import Progress
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.cli.conftest import Run
from tests.cli.programs import environ, on_a_terminal, started
from tests.discovery.clusters import TOKEN, Cluster, config_map, published, signed_map


@pytest.fixture
def unsigned(authority: Authority) -> Iterator[Cluster]:
    """Whoever signs has not seen the token yet, and never will."""
    with Cluster(authority) as cluster:
        cluster.signature = None
        yield cluster


def waiting(cluster: Cluster, *more: str) -> list[str]:
    return ["discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin, *more]


def asked(cluster: Cluster, times: int) -> None:
    for _ in range(3000):
        if len(cluster.requests) >= times:
            return
        time.sleep(0.02)
    raise TimeoutError(f"it was asked {len(cluster.requests)} times")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_has_a_line_that_lives_and_is_gone_in_the_end(columns: int, unsigned: Cluster) -> None:
    # Two tries, with time enough between them for a line, and for the first, on a machine that stalls.
    arguments = waiting(unsigned, "--timeout", "12s", "--interval", "6s")
    status, said = on_a_terminal(*arguments, env=environ(COLUMNS=str(columns), TERM="xterm"))
    assert status == Status.UNREACHABLE
    drawn, is_told, _ = said.partition("error: ")
    *lines, blanks, rest = drawn.split("\r")
    assert any(" s left, 1 try] Waiting for the signature" in line for line in lines)
    assert blanks.isspace()  # nothing of it is left
    assert (rest, bool(is_told)) == ("", True)
    assert all(len(line) < columns for line in [*lines, blanks])
    assert "\n" not in drawn
    assert "\x1b" not in said


@pytest.fixture
def signed_at_last(unsigned: Cluster) -> Cluster:
    """By the fourth try, of each who asks: but what is signed is somebody else's."""
    evil = published(unsigned.url, Authority("another CA").pem)

    def serve(_request: RawRequest) -> Answer:
        is_signed = len(unsigned.requests) % 4 == 0
        return Answer(200, signed_map(evil) if is_signed else config_map(evil))

    unsigned.respond = serve
    return unsigned


def test_a_pipe_hears_nothing_unless_it_asks(signed_at_last: Cluster, run: Run) -> None:
    flags = ("--timeout", "60s", "--interval", "20ms")
    quiet = run(*waiting(signed_at_last, *flags))
    assert quiet.err.startswith("error: ")
    assert quiet.err.count("\n") == 1
    told = run(*waiting(signed_at_last, *flags, "-v", "4")).err.splitlines()
    assert len(signed_at_last.requests) == 8
    # One line for each change, and not for each try.
    assert told[0] == "I kubeauth.cli: Waiting for the API server"
    assert told[1].startswith("I kubeauth.cli: Waiting for the signature: cluster-info has no signature")
    assert len(told) == 3


@pytest.mark.slow
def test_a_terminal_that_asks_for_the_log_has_no_line_in_between(signed_at_last: Cluster) -> None:
    arguments = waiting(signed_at_last, "--timeout", "60s", "--interval", "700ms", "-v", "4")
    _, said = on_a_terminal(*arguments, env=environ(TERM="xterm"))
    assert "I kubeauth.cli: Waiting for the signature" in said
    assert "s left" not in said


@pytest.mark.slow
def test_a_dumb_terminal_is_not_drawn_on(unsigned: Cluster) -> None:
    _, said = on_a_terminal(
        *waiting(unsigned, "--timeout", "3s", "--interval", "1s"), env=environ(TERM="dumb")
    )
    assert said.startswith("error: ")


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, Status.INTERRUPTED), (signal.SIGTERM, Status.TERMINATED)]
)
def test_it_can_be_interrupted_while_it_waits(number: int, status: Status, unsigned: Cluster) -> None:
    with started(*waiting(unsigned, "--interval", "60s")) as process:
        asked(unsigned, 1)
        time.sleep(0.2)  # so that it sleeps
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == status


def test_ctrl_c_on_a_terminal_leaves_a_clean_line(unsigned: Cluster) -> None:
    arguments = waiting(unsigned, "--interval", "60s")
    status, said = on_a_terminal(*arguments, env=environ(TERM="xterm"), typed={"signature": "\x03"})
    assert status == Status.INTERRUPTED
    assert "Traceback" not in said
    assert said.rstrip("\r").rpartition("\r")[2].isspace()


def test_one_try_is_not_told_that_it_has_no_time() -> None:
    """--timeout 0: it has ten seconds, as each try."""
    assert _line(Progress("endpoint", 0, 0.0, ""), 0.0) == "[one try] Waiting for the API server"


class Broken(io.StringIO):
    """A terminal that was closed."""

    def flush(self) -> None:
        raise OSError


def test_a_terminal_that_is_gone_is_no_matter() -> None:
    with LiveLine(Broken(), every=0.01) as line:
        line(Progress("endpoint", 1, 10.0, "no"))
        time.sleep(0.05)


def test_what_is_found_at_once_needs_no_line() -> None:
    stream = io.StringIO()
    with LiveLine(stream, every=60.0) as line:  # which is half a second: a machine may stall for longer
        line(Progress("endpoint", 0, 10.0))
    assert stream.getvalue() == ""


def test_nothing_is_drawn_before_there_is_something_to_tell() -> None:
    stream = io.StringIO()
    with LiveLine(stream, every=0.001):
        time.sleep(0.02)
    assert stream.getvalue() == ""


def test_words_of_a_server_cannot_steer_the_terminal() -> None:
    told = Progress("endpoint", 1, 10.0, "odd \x1b[2J\nwords")
    assert in_words(told) == "Waiting for the API server: odd U+001B[2J..."
