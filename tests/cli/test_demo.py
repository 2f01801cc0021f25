"""`kubeauth demo`, as it is run: credentials replaced under load, and what is said about it."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import kubeauth
from kubeauth.cli import _demo, main
from kubeauth.cli._demo_figures import NEAR, WARM_UP, Figures, Finished, Latencies
from kubeauth.cli._demo_load import Stream
from kubeauth.cli._demo_plain import PlainScreen
from kubeauth.cli._demo_plugin import main as plugin_main
from kubeauth.cli._demo_run import CELLS, Run, Screen
from kubeauth.cli._demo_screen import LiveScreen
from kubeauth.cli._demo_server import WATCHED, DemoCluster
from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, APIServer, FakeClock, KeyPair, PluginScript, Received
from tests.cli.in_process import run_in_process
from tests.support.misbehaving import Misbehaving
from tests.support.residue import descriptors, wait_until

ROOT = Path(__file__).parents[2]
# Whoever started the tests may have had Ctrl-C ignored.
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from kubeauth.cli import main; main(sys.argv[1:])"
)


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def facts(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-zA-Z0-9., ]+): (.*)$", text, re.M))


def number(text: str) -> int:
    found = re.match(r"\d+", text)
    assert found, text
    return int(found[0])


@pytest.fixture(scope="module")
def shown() -> dict[str, tuple[int, str]]:
    """Exit status and words of each mode; all three run at once, for time's sake and to make it harder."""
    # A machine may stall for longer than the two seconds that a credential lives if nobody says otherwise.
    times = ["--seconds", "9", "--lifetime", "4"]
    processes = {mode: started("demo", *times, "--mode", mode) for mode in _demo.Mode}
    words = {mode: process.communicate()[0] for mode, process in processes.items()}
    return {mode: (processes[mode].returncode, words[mode]) for mode in processes}


class TestHere:
    """The local server, as a program of its own."""

    @pytest.mark.slow
    def test_what_the_user_has_configured_is_ignored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A kuberc that allows no plugins, a kubeconfig that is missing, a proxy that is dead."""
        kuberc = Path(os.environ["HOME"], ".kube", "kuberc")
        kuberc.parent.mkdir()
        kuberc.write_text(
            "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"
        )
        monkeypatch.setenv("KUBECONFIG", "/missing")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        process = started("demo", "--seconds", "3", "--lifetime", "60")
        text = process.communicate()[0]
        assert process.returncode == 0, text
        assert facts(text)["failures"] == "0"

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["token", "cert", "both"])
    def test_nothing_fails(self, shown: dict[str, tuple[int, str]], mode: str) -> None:
        status, text = shown[mode]
        assert status == 0, text
        said = facts(text)
        assert said["failures"] == "0"
        assert number(said["requests"]) > 100
        assert "none failed" in text.splitlines()[-1]

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["token", "cert", "both"])
    def test_every_run_of_the_plugin_is_a_rotation_but_the_first(
        self, shown: dict[str, tuple[int, str]], mode: str
    ) -> None:
        said = facts(shown[mode][1])
        rotations, runs = number(said["rotations"]), number(said["plugin runs"])
        assert runs == rotations + 1 >= 2
        assert said["credentials"].startswith(f"{runs} seen by the server, of {runs} issued")

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["token", "cert", "both"])
    def test_watches_live_through_it(self, shown: dict[str, tuple[int, str]], mode: str) -> None:
        said = facts(shown[mode][1])
        for client in ("Client", "AsyncClient"):
            assert re.fullmatch(r"\d+ events, open to the end", said[f"watch on {client}"])

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["token", "cert", "both"])
    def test_it_says_what_was_measured(self, shown: dict[str, tuple[int, str]], mode: str) -> None:
        text = shown[mode][1]
        said = facts(text)
        for kind in ("steady", f"{NEAR:g} s from a rotation"):
            assert re.fullmatch(
                r"p50 [\d.]+ ms, p99 [\d.]+ ms, longest [\d.]+ ms, of \d+", said[f"latency, {kind}"]
            )
        runs = number(said["plugin runs"])
        assert f'rest_client_exec_plugin_call_total{{call_status="no_error",code="0"}} {runs}.0' in text
        assert f"certificate_rotation_age_count {0 if mode == 'token' else runs - 1}.0" in text
        assert "_bucket" not in text

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["token", "cert", "both"])
    def test_it_is_plain_text(self, shown: dict[str, tuple[int, str]], mode: str) -> None:
        text = shown[mode][1]
        assert "\x1b" not in text
        rows = [line.split() for line in text.splitlines() if re.match(r" +\d+ +\d+ +0 ", line)]
        assert len(rows) >= 2
        assert all(int(one[1]) <= int(next_one[1]) for one, next_one in itertools.pairwise(rows))
        assert int(rows[0][1]) < int(rows[-1][1])

    @pytest.mark.slow
    def test_ctrl_c_ends_it_tidily(self) -> None:
        process = started("demo", "--seconds", "60", "--mode", "token", "--lifetime", "60")
        assert process.stdout is not None
        while not re.match(r" +\d+ +\d+ +0 ", process.stdout.readline()):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        text = process.communicate()[0]
        assert process.returncode == 0, text
        assert facts(text)["failures"] == "0"
        assert text.splitlines()[-1].startswith("Ended early. ")
        assert "Traceback" not in text

    @pytest.mark.slow
    def test_a_terminal_is_drawn_on(self) -> None:
        pty = pytest.importorskip("pty")
        ours, theirs = pty.openpty()
        arguments = ["demo", "--seconds", "1.5", "--mode", "token", "--lifetime", "60"]
        environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        command = [sys.executable, "-m", "kubeauth", *arguments]
        with subprocess.Popen(command, cwd=ROOT, stdout=theirs, stderr=theirs, env=environ) as process:
            os.close(theirs)
            text = ""
            while part := read(ours):
                text += part
        os.close(ours)
        assert process.returncode == 0, text
        assert "\x1b[?25l" in text  # no cursor while it draws
        assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")
        assert "none failed" in text


def read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # Linux says so when the other side is closed
        return ""


class TestInside:
    """The parts, in this process."""

    @pytest.mark.slow
    def test_it_leaves_nothing_behind(self) -> None:
        before = descriptors(), threading.active_count()
        ran(DemoCluster(token=True, certificate=True, lifetime=1.0), 2.0, PlainScreen())
        wait_until(lambda: descriptors() <= before[0] and threading.active_count() <= before[1])

    @pytest.mark.slow
    def test_the_picture_of_a_run(self) -> None:
        def ahead(run: Run) -> list[str]:
            """How many there were in this process."""
            return [
                line for line in run.meters.lines() if '{reason="refresh_ahead",result="success"}' in line
            ]

        class UntilRenewedAhead(LiveScreen):
            def begin(self, run: Run) -> None:
                super().begin(run)
                self._before = ahead(run)

            def tick(self, run: Run) -> None:
                super().tick(run)
                if run.rotations and ahead(run) != self._before:
                    run.seconds = 0.0

        text = io.StringIO()
        console = Console(file=text, force_terminal=True, width=80, highlight=False)
        run = ran(DemoCluster(token=True, certificate=True, lifetime=4.0), 60.0, UntilRenewedAhead(console))
        assert run.succeeded
        plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text.getvalue())
        assert max(map(len, plain.splitlines())) <= 80
        last = plain[plain.rfind("kubeauth demo") :]
        assert re.search(rf"plugin runs +{run.rotations + 1} ", last)
        assert re.search(rf"rotations +{run.rotations} ", last)
        assert "▲" in last
        assert re.search(r"kubeauth_credential_refreshes_total +refresh_ahead, success +\d", last)
        assert "none failed" in " ".join(last.split())

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (Answer(403), "the server answered 403"),
            (Answer(hang_up=True), "RemoteProtocolError"),
            (Answer(chunks=()), "a watch ended before its time"),
        ],
    )
    def test_a_watch_that_does_not_last_is_a_failure(self, answer: Answer, reason: str) -> None:
        class UntilBothAreOver(PlainScreen):
            def tick(self, run: Run) -> None:
                if all(stream.problem for stream in run.load.streams):
                    run.seconds = 0.0

        cluster = DemoCluster(token=True, certificate=False, lifetime=60.0)
        cluster.server.on("GET", WATCHED, answer)
        run = ran(cluster, 60.0, UntilBothAreOver())
        assert not run.succeeded
        assert [reason in each for each in run.figures.reasons] == [True]
        assert run.figures.failures == 2  # one on each client

    def test_a_watch_that_misses_something_is_a_failure(self) -> None:
        stream = Stream("Client")
        for version in (7, 8, 10):
            stream.received(json.dumps({"object": {"metadata": {"resourceVersion": str(version)}}}))
        assert stream.problem == "a watch missed an event"

    @pytest.mark.slow
    def test_a_credential_that_is_revoked(self, capsys: pytest.CaptureFixture[str]) -> None:
        class Revoking(PlainScreen):
            has_revoked = False

            def tick(self, run: Run) -> None:
                if run.cluster is not None and run.elapsed > 0.5 and not self.has_revoked:
                    self.has_revoked = True
                    run.cluster.issuer.tokens.clear()

        run = ran(DemoCluster(token=True, certificate=False, lifetime=60.0), 1.5, Revoking())
        assert run.succeeded, run.figures.reasons
        assert (run.rotations, run.plugin.runs) == (1, 2)
        assert run.cluster is not None
        assert run.cluster.refused > 0
        assert "that came too late were repeated" in capsys.readouterr().out

    def test_an_interrupted_run_ends_with_its_summary(self, capsys: pytest.CaptureFixture[str]) -> None:
        class Impatient(PlainScreen):
            def tick(self, run: Run) -> None:
                if run.elapsed > 0.5:
                    raise KeyboardInterrupt

        run = ran(DemoCluster(token=True, certificate=False, lifetime=60.0), 60.0, Impatient())
        assert run.succeeded
        assert capsys.readouterr().out.splitlines()[-1].startswith("Ended early. ")

    def test_the_whole_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as exited:
            main(["demo", "--seconds", "1", "--lifetime", "60", "--mode", "token"])
        assert exited.value.code == 0
        assert "token from a plugin, lives 60 s" in capsys.readouterr().out

    def test_a_terminal_that_can_do_nothing_gets_plain_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", Terminal())
        monkeypatch.setenv("TERM", "xterm")
        assert isinstance(_demo._screen(), LiveScreen)
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(_demo._screen(), PlainScreen)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ran(cluster: DemoCluster, seconds: float, screen: Screen) -> Run:
    with Run.here(cluster, seconds) as run:
        run.go(screen)
    return run


class TestTheServer:
    def issued(self, cluster: DemoCluster) -> dict[str, str]:
        found: dict[str, str] = cluster.issuer._issue()["status"]
        return found

    @pytest.fixture(autouse=True)
    def date(self, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
        """By which it issues credentials, and refuses them."""
        date = FakeClock(time.time())
        monkeypatch.setattr("kubeauth.cli._demo_server.time", date)
        return date

    def answers(self, cluster: DemoCluster, config: kubeauth.ClientConfig, date: FakeClock) -> list[int]:
        """Before and after a credential is over, on one connection."""
        with kubeauth.Client(config) as client:
            date.advance(cluster.lifetime)
            first = client.get("/version").status_code
            date.advance(1.0)  # a certificate's end is a whole second
            answers = [first, client.get("/version").status_code]
        assert {request.connection for request in cluster.server.requests} == {1}
        return answers

    def test_a_token_ends(self, date: FakeClock) -> None:
        cluster = DemoCluster(token=True, certificate=False, lifetime=60.0)
        token = self.issued(cluster)["token"]
        assert self.answers(cluster, cluster.server.config(token=token), date) == [200, 401]
        assert (cluster.seen, cluster.issued, cluster.refused) == (1, 1, 1)
        cluster.close()

    def test_a_certificate_ends_on_a_connection_that_is_open(self, date: FakeClock) -> None:
        cluster = DemoCluster(token=False, certificate=True, lifetime=60.0)
        given = self.issued(cluster)
        pair = KeyPair(given["clientCertificateData"].encode(), given["clientKeyData"].encode())
        assert self.answers(cluster, cluster.server.config(identity=pair), date) == [200, 401]
        cluster.close()

    def test_who_has_neither_is_refused(self) -> None:
        cluster = DemoCluster(token=True, certificate=True, lifetime=2.0)
        with kubeauth.Client(cluster.server.config()) as client:
            assert client.get("/version").status_code == 401
        cluster.close()

    def test_the_plugin_needs_a_ticket(
        self, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        cluster = DemoCluster(token=True, certificate=False, lifetime=2.0)
        for variable in cluster.issuer.exec_config()["env"]:
            monkeypatch.setenv(variable["name"], variable["value"])
        plugin_main()
        sys.stdout.flush()
        assert json.loads(capfdbinary.readouterr().out)["kind"] == "ExecCredential"
        monkeypatch.setenv("KUBEAUTH_DEMO_TICKET", "another")
        with pytest.raises(SystemExit, match="gives me nothing"):
            plugin_main()
        assert cluster.issued == 1
        cluster.close()


class TestThere:
    """Another server than its own, by a kubeconfig."""

    @pytest.fixture
    def plugin(self, tmp_path: Path) -> PluginScript:
        plugin = PluginScript(tmp_path)
        plugin.answer(token="alices-token", expires_in=900)
        return plugin

    @pytest.fixture
    def demo(
        self, server: APIServer, plugin: PluginScript, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> Callable[..., tuple[int, str]]:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(server.kubeconfig({"exec": plugin.exec_config()})))

        def run(*arguments: str) -> tuple[int, str]:
            with pytest.raises(SystemExit) as exited:
                main(["demo", "--kubeconfig", str(path), *arguments])
            assert isinstance(exited.value.code, int)
            return exited.value.code, "".join(capfd.readouterr())

        return run

    @pytest.mark.slow
    def test_it_goes_gently(self, server: APIServer, demo: Callable[..., tuple[int, str]]) -> None:
        begun = time.monotonic()
        status, text = demo("--seconds", "6")
        assert status == 0, text
        # Less than twenty a second, and not as few as if the machine had stalled all the time.
        assert 15 < len(server.requests) < 20 * (time.monotonic() - begun)
        assert {(request.method, request.path) for request in server.requests} == {("GET", "/version")}
        said = facts(text)
        assert (number(said["plugin runs"]), said["rotations"], said["failures"]) == (1, "0", "0")
        assert "the credential was not replaced" in text
        assert "watch" not in text

    def changing(self, plugin: PluginScript, *, late: float | None = None) -> None:
        """Has it give a token of four seconds, and then another: at once, or so long after the end of the first."""
        Misbehaving(plugin.path.parent).does(
            "def date(seconds): return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(seconds))\n"
            "if len(open(here + '.runs').readlines()) == 1:\n"
            "    end = time.time() + 4\n"
            "    open(here + '.end', 'w').write(str(end))\n"
            "    give(token='alices-token', expirationTimestamp=date(end))\n"
            "else:\n"
            f"    late = {late}\n"
            "    if late: time.sleep(max(float(open(here + '.end').read()) + late - time.time(), 0))\n"
            "    give(token='another-token', expirationTimestamp=date(time.time() + 900))"
        )

    @pytest.mark.slow
    def test_a_credential_that_is_replaced(
        self, server: APIServer, plugin: PluginScript, demo: Callable[..., tuple[int, str]]
    ) -> None:
        server.tokens["another-token"] = "alice"
        self.changing(plugin)
        status, text = demo("--seconds", "8")
        assert status == 0, text
        assert (number(facts(text)["plugin runs"]), facts(text)["rotations"]) == (2, "1")
        assert "The credential was replaced once under" in text

    @pytest.mark.slow
    def test_a_plugin_that_must_be_waited_for(
        self, server: APIServer, plugin: PluginScript, demo: Callable[..., tuple[int, str]]
    ) -> None:
        server.tokens["another-token"] = "alice"
        self.changing(plugin, late=4.0)
        status, text = demo("--seconds", "10")
        assert status == 0, text
        waited = re.search(r"(\d+) requests waited for one after the first", text)
        assert waited is not None
        assert int(waited[1]) >= 4  # all who ask
        assert f"none failed, and {waited[1]} had to wait for the plugin." in text

    @pytest.mark.slow
    def test_the_same_credential_again_is_no_rotation(
        self, plugin: PluginScript, demo: Callable[..., tuple[int, str]]
    ) -> None:
        plugin.answer(token="alices-token", expires_in=5)
        status, text = demo("--seconds", "9")
        assert status == 0, text
        assert number(facts(text)["plugin runs"]) > 1
        assert facts(text)["rotations"] == "0"

    @pytest.mark.slow
    def test_failures_are_told_by_their_reasons(
        self, server: APIServer, demo: Callable[..., tuple[int, str]]
    ) -> None:
        count = itertools.count()

        def answer(_request: Received) -> Answer:
            this = next(count)
            return (
                Answer(200, {}) if this < 3 else Answer(500 + this % 6) if this < 20 else Answer(hang_up=True)
            )

        server.on("GET", "/version", answer)
        status, text = demo("--seconds", "7")
        assert status == 1
        assert re.search(r"^failed: \d+ x the server answered 50\d$", text, re.M)
        assert re.search(r"^failed: \d+ x RemoteProtocolError: ", text, re.M)
        assert len(re.findall(r"^failed: \d+ x", text, re.M)) == 5
        assert re.search(r"^failed: and \d other reasons$", text, re.M)
        assert re.fullmatch(r"\d+ of \d+ requests failed.", text.splitlines()[-1])

    def test_a_first_request_that_fails_is_enough(
        self, server: APIServer, demo: Callable[..., tuple[int, str]]
    ) -> None:
        server.tokens.clear()
        status, text = demo()
        assert status == 1
        assert "failed: 1 x the server answered 401" in text
        assert text.endswith("1 of 1 requests failed.\n")

    def test_a_plugin_that_fails(self, plugin: PluginScript, demo: Callable[..., tuple[int, str]]) -> None:
        plugin.answer(exit_code=3, stderr="log in first\n")
        status, text = demo()
        assert status == 1
        assert "PluginFailed: getting credentials: exec: executable" in text
        assert "plugin runs: 1, 1 failed" in text

    def test_failures_are_drawn_in_red(self, server: APIServer) -> None:
        text = io.StringIO()
        console = Console(file=text, force_terminal=True, width=80, highlight=False, color_system="standard")
        with Run.there(server.config(token="nobodys"), 20.0) as run:
            run.go(LiveScreen(console))
        assert "\x1b[31mfailed: 1 x the server answered 401" in text.getvalue()
        assert "\x1b[1;31m1 of 1 requests failed." in text.getvalue()

    def test_a_kubeconfig_that_is_wrong(self, demo: Callable[..., tuple[int, str]]) -> None:
        status, text = demo("--context", "nope")
        assert status == Status.CONFIG
        assert text.startswith('error: context "nope" does not exist')

    def test_options_for_the_other_kind_of_run(self, demo: Callable[..., tuple[int, str]]) -> None:
        for option in (["--mode", "cert"], ["--lifetime", "3"]):
            status, text = demo(*option)
            assert status == 2
            assert "are for the local server" in text


class TestCommandLine:
    def test_without_arguments_it_shows_help(self) -> None:
        said = run_in_process()
        assert said.status == Status.USAGE
        assert "usage: kubeauth" in said.err
        assert "demo" in said.err

    def test_help_and_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        for arguments, words in (
            (["--version"], f"kubeauth {kubeauth.__version__}"),
            (["--help"], "demo"),
            (["demo", "--help"], "--lifetime"),
        ):
            with pytest.raises(SystemExit) as exited:
                main(arguments)
            assert exited.value.code == 0
            assert words in capsys.readouterr().out

    def test_without_the_extra_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in [name for name in sys.modules if name.startswith(("rich.", "kubeauth.cli._demo_screen"))]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        with pytest.raises(SystemExit) as exited:
            main(["demo", "--seconds", "1"])
        assert exited.value.code == Status.FAILED
        expected = "error: this command needs rich. Install it: pip install 'kubeauth[cli]'\n"
        assert capsys.readouterr().err == expected

    def test_help_imports_nothing_that_it_does_not_need(self) -> None:
        code = f"{PROGRAM.replace('main(', 'import atexit; atexit.register(lambda: print(*sys.modules)); main(')}"
        command = [sys.executable, "-c", code, "--help"]
        loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        assert "kubeauth.cli" in loaded
        assert not {"httpx", "cryptography", "prometheus_client", "yaml", "asyncio"} & set(loaded)


class TestFigures:
    def test_percentiles_are_right_to_two_per_cent(self) -> None:
        latencies = Latencies()
        assert latencies.percentile(0.5) is None
        for thousandths in range(1, 1001):
            latencies.add(thousandths / 1000)
        for share in (0.01, 0.5, 0.99, 1.0):
            assert latencies.percentile(share) == pytest.approx(share, rel=0.02)
        assert (latencies.count, latencies.longest) == (1000, 1.0)

    def test_a_request_is_around_a_rotation_that_comes_after_it(self) -> None:
        figures = Figures(0.0, cell=0.25)
        for begun in (1.0, 2.0, 3.0):
            figures.finished.append(Finished(begun, begun + 0.01))
        figures.take_in(3.02)
        assert (figures.requests, figures.steady.count) == (3, 2)
        figures.rotations.append(3.01 + NEAR / 2)
        figures.take_in(4.0)
        assert (figures.steady.count, figures.around.count) == (2, 1)

    def test_the_first_moments_are_no_steady_state(self) -> None:
        figures = Figures(0.0, cell=0.25)
        figures.finished.append(Finished(WARM_UP / 2, WARM_UP))
        figures.take_in(10.0)
        assert (figures.requests, figures.steady.count, figures.around.count) == (1, 0, 0)

    def test_the_drawing_moves_on_when_it_is_full(self) -> None:
        figures = Figures(0.0, cell=1.0)
        for begun in range(1, CELLS + 11):
            figures.finished.append(Finished(begun + 0.1, begun + 0.2))
        figures.rotations.append(CELLS + 10.5)
        figures.take_in(math.inf)
        slowest, rotations = figures.trace(CELLS)
        assert len(slowest) == CELLS
        assert min(slowest) > 0
        assert rotations == {CELLS - 1}
