"""`kubeauth discover`: clusters on loopback, found by every way that the command line has."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth import load_config
from kubeauth.cli._discover_given import TOKEN_VARIABLE, in_flags
from kubeauth.cli._ends import Status
from kubeauth.discovery import public_key_pin
from kubeauth.testing import Answer, Authority, PluginScript
from tests.cli.conftest import Run
from tests.cli.programs import KUBEAUTH, Ran, environ, on_a_terminal, ran
from tests.discovery.clusters import SECRET, TOKEN, Cluster
from tests.discovery.test_seed import SeedCluster
from tests.registry.servers import Server

QUICK = ("--interval", "20ms", "--timeout", "20s")
OTHER = "fedcba.zyxw9876vuts5432"


@pytest.fixture
def cluster(authority: Authority) -> Iterator[Cluster]:
    with Cluster(authority) as it:
        yield it


@pytest.fixture(autouse=True)
def _no_token_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def rows(text: str) -> dict[str, list[str]]:
    """Values by their names."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        found.setdefault(line[:9].strip(), []).append(line[9:])
    return found


def given_file(cluster: Cluster, path: Path, **user: Any) -> Path:
    """A kubeconfig that somebody handed over."""
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": load_yaml(cluster.kubeconfig)}],
                "users": [{"name": "me", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "me"}}],
                "current-context": "x",
            }
        )
    )
    return path


def load_yaml(text: str) -> object:
    import yaml

    return yaml.safe_load(text)["clusters"][0]["cluster"]


class TestWhatIsShown:
    def test_a_table_without_a_secret(self, cluster: Cluster, run: Run) -> None:
        done = run("discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin)
        assert (done.status, done.err) == (0, "")
        found = rows(done.out)
        assert found["Server"] == [cluster.url]
        assert found["Method"] == ["token, and a CA that is pinned"]
        assert found["CA"] == ["CN=kubeauth test CA, 30 days left"]
        assert found["Pin"] == [cluster.pin]
        assert found["User"] == ["tls-bootstrap-token-user (bootstrap token 123456.****)"]
        assert found["Saved"] == ["no: --save PATH writes the kubeconfig, -o kubeconfig prints it"]
        assert "Beware" not in found
        assert all(len(line) <= 80 for line in done.out.splitlines())

    def test_json_without_a_secret(self, cluster: Cluster, run: Run) -> None:
        done = run("discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin, "-o", "json")
        said = json.loads(done.out)
        (authority,) = said.pop("certificateAuthorities")
        assert said == {
            "method": "token",
            "server": cluster.url,
            "context": "tls-bootstrap-token-user@kubernetes",
            "user": "tls-bootstrap-token-user",
            "credential": "bootstrap token 123456.****",
            "warnings": [],
            "saved": None,
        }
        assert (authority["pin"], authority["subject"]) == (cluster.pin, "CN=kubeauth test CA")
        assert 29 < authority["daysLeft"] <= 30
        assert authority["notAfter"].endswith("Z")

    def test_the_kubeconfig_if_that_is_asked_for(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        done = run(
            "discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin, "-o", "kubeconfig"
        )
        assert (done.status, done.err) == (0, "")
        path = tmp_path / "found"
        path.write_text(done.out)
        config = load_config(path)
        assert config.token is not None
        assert (config.server, config.token.reveal()) == (cluster.url, TOKEN)
        assert config.ca_data == cluster.authority.pem

    @pytest.mark.parametrize("output", ["table", "json", "kubeconfig"])
    def test_that_no_ca_was_pinned_is_told(self, output: str, cluster: Cluster, run: Run) -> None:
        done = run("discover", cluster.host, "--token", TOKEN, "--unsafe-skip-ca-verification", "-o", output)
        assert done.status == 0
        told = done.err if output == "kubeconfig" else done.out
        assert "the CA was not pinned" in told
        if output == "kubeconfig":
            assert told.startswith("Warning: ")
            assert "Warning" not in done.out

    def test_what_was_left_out_is_told(self, authority: Authority, run: Run) -> None:
        evil = Authority("evil CA")
        with Cluster(authority, ca=authority.pem + evil.pem) as cluster:
            done = run("discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin)
        assert rows(done.out)["Pin"] == [cluster.pin]
        assert public_key_pin(evil.pem) in rows(done.out)["Beware"][0]

    def test_a_narrow_terminal(self, cluster: Cluster) -> None:
        arguments = ("discover", cluster.host, "--token", TOKEN, "--unsafe-skip-ca-verification")
        status, said = on_a_terminal(*arguments, env=environ(COLUMNS="60", TERM="xterm"))
        assert status == 0
        lines = said.rpartition("\rServer")[2].replace("\r", "").splitlines()
        pin, *others = sorted(lines, key=len, reverse=True)
        assert pin.endswith(cluster.pin)  # which stays whole, to be copied
        assert all(len(line) <= 60 for line in others)
        assert said.count("\n         ") >= 3  # what does not fit goes on below

    def test_a_name_cannot_steer_the_terminal(self, run: Run) -> None:
        with Cluster(Authority("odd\x1b[31m\r\nCA")) as cluster:
            for output in ("table", "json"):
                done = run(
                    "discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin, "-o", output
                )
                assert done.status == 0
                assert "\x1b" not in done.out


class TestWays:
    def test_a_line_of_kubeadm_s_with_another_program(self, cluster: Cluster, run: Run) -> None:
        """`kubeadm join` in its long form, with commas as it takes them."""
        pins = f"sha256:{'0' * 64},{cluster.pin.upper()}"
        flags = (
            "--discovery-token",
            TOKEN,
            "--discovery-token-ca-cert-hash",
            pins,
            "--tls-bootstrap-token",
            OTHER,
        )
        done = run("discover", cluster.host, *flags)
        assert done.status == 0
        assert rows(done.out)["User"] == ["tls-bootstrap-token-user (bootstrap token fedcba.****)"]

    def test_kubeadm_s_unsafe_flag(self, cluster: Cluster, run: Run) -> None:
        flag = "--discovery-token-unsafe-skip-ca-verification=true"
        assert run("discover", cluster.host, "--token", TOKEN, flag).status == 0

    def test_token_fills_what_else_was_not_given(self, cluster: Cluster, run: Run) -> None:
        """As kubeadm: discover with the one, join with the other."""
        flags = ("--discovery-token", TOKEN, "--token", OTHER, "--ca-cert-hash", cluster.pin)
        assert "fedcba.****" in run("discover", cluster.host, *flags).out

    def test_flags_before_the_command(self, cluster: Cluster, run: Run) -> None:
        assert run("--token", TOKEN, "discover", "--ca-cert-hash", cluster.pin, cluster.host).status == 0

    def test_the_token_from_the_environment(
        self, cluster: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        assert "123456.****" in run("discover", cluster.host, "--ca-cert-hash", cluster.pin).out
        # A flag wins.
        done = run("discover", cluster.host, "--ca-cert-hash", cluster.pin, "--token", OTHER, *BRIEFLY)
        assert done.status == Status.UNREACHABLE
        assert "fedcba" in done.err

    @pytest.mark.parametrize("flag", ["--token", "--discovery-token"])
    def test_the_token_from_stdin(self, flag: str, cluster: Cluster, run: Run) -> None:
        done = run("discover", cluster.host, "--ca-cert-hash", cluster.pin, flag, "-", input=f"{TOKEN}\n")
        assert (done.status, done.err) == (0, "")
        assert "123456.****" in done.out

    def test_a_person_is_asked_for_the_token_and_it_is_not_seen(self, cluster: Cluster) -> None:
        arguments = ("discover", cluster.host, "--ca-cert-hash", cluster.pin, "--token", "-")
        status, said = on_a_terminal(*arguments, typed={"Bootstrap token: ": f"{TOKEN}\n"})
        assert status == 0
        assert "123456.****" in said
        assert SECRET not in said

    def test_a_person_who_has_none(self, cluster: Cluster) -> None:
        arguments = ("discover", cluster.host, "--ca-cert-hash", cluster.pin, "--token", "-")
        for keys, ends in (("\n", Status.USAGE), ("\x04", Status.USAGE), ("\x03", Status.INTERRUPTED)):
            status, said = on_a_terminal(*arguments, typed={"Bootstrap token: ": keys})
            assert status == ends
            assert said.endswith("\n")  # and the shell goes on in a line of its own
        assert cluster.requests == []

    def test_a_file_with_credentials_of_its_own(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        path = given_file(cluster, tmp_path / "given", token="token-of-mine")
        for flag in ("--file", "--discovery-file", "--cluster-info-file"):
            done = run("discover", flag, path)
            assert (done.status, done.err) == (0, "")
            assert rows(done.out)["Method"] == [f"file {path}"]
            assert rows(done.out)["User"] == ["me (token)"]
            assert "token-of-mine" not in done.out

    def test_a_file_and_a_token_to_join_with(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        path = given_file(cluster, tmp_path / "given")
        for flag in ("--token", "--tls-bootstrap-token"):
            done = run("discover", "--file", path, flag, TOKEN)
            assert rows(done.out)["User"] == ["tls-bootstrap-token-user (bootstrap token 123456.****)"]
        done = run("discover", "--file", path)
        assert done.status == Status.CONFIG
        assert "pass --tls-bootstrap-token" in done.err

    def test_what_a_file_signs_in_with(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        user = {"username": "bob", "password": "of-bob"}
        done = run("discover", "--file", given_file(cluster, tmp_path / "given", **user))
        assert rows(done.out)["User"] == ["me (password)"]

    def test_a_file_runs_nothing(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        plugin = PluginScript(tmp_path)
        file = given_file(cluster, tmp_path / "given", token="token-of-mine", exec=plugin.exec_config())
        done = run("discover", "--file", file)
        assert rows(done.out)["User"] == ["me (token)"]
        assert "exec was left out" in done.out + done.err
        done = run("discover", "--file", given_file(cluster, tmp_path / "given", exec=plugin.exec_config()))
        assert done.status == Status.CONFIG
        assert "programs never. A kubeconfig of your own needs no discovery" in done.err
        assert plugin.runs == []

    def test_a_client_certificate_in_a_file(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        pair = cluster.authority.client("carol")
        pair.write(tmp_path / "cert", tmp_path / "key")
        files = {"client-certificate": str(tmp_path / "cert"), "client-key": str(tmp_path / "key")}
        done = run("discover", "--file", given_file(cluster, tmp_path / "given", **files))
        assert rows(done.out)["User"] == ["me (client certificate)"]

    def test_a_kubeconfig_from_stdin(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        text = given_file(cluster, tmp_path / "given", token="token-of-mine").read_text()
        done = run("discover", "--file", "-", "--token", TOKEN, input=text)
        assert (done.status, done.err) == (0, "")
        assert rows(done.out)["Method"] == ["file, from stdin"]
        assert rows(done.out)["User"] == ["tls-bootstrap-token-user (bootstrap token 123456.****)"]

    def test_nothing_from_stdin(self, run: Run) -> None:
        done = run("discover", "--file", "-", input="")
        assert (done.status, done.out) == (Status.CONFIG, "")
        assert done.err == (
            "error: the kubeconfig on stdin: the kubeconfig in it has no cluster: look whether it is empty, or another document.\n"
        )

    def test_a_url_of_which_the_host_alone_is_shown(self, cluster: Cluster, tmp_path: Path, run: Run) -> None:
        document = given_file(cluster, tmp_path / "given").read_bytes()
        (tmp_path / "ca.pem").write_bytes(cluster.authority.pem)
        with Server(lambda _: Answer(200, document), cluster.authority) as server:
            url = f"{server.url}/config?signature=of-a-secret"
            for flags in (("--url", url), ("--cluster-info-url", url), ("--file", url)):
                env = environ(SSL_CERT_FILE=str(tmp_path / "ca.pem"))
                done = run("discover", *flags, "--token", TOKEN, env=env)
                assert (done.status, done.err) == (0, "")
                assert rows(done.out)["Method"] == [f"url, from {server.host}"]

    def test_the_seed_s_mode(self, authority: Authority, run: Run) -> None:
        with SeedCluster(authority) as cluster:
            cluster.aud = "cluster-1"
            flags = (
                "--token",
                TOKEN,
                "--ca-cert-hash",
                cluster.pin,
                "--mode",
                "seed",
                "--audience",
                "cluster-1",
            )
            done = run("discover", cluster.host, *flags)
        assert (done.status, done.err) == (0, "")
        assert rows(done.out)["Method"] == ["token, and a CA that is pinned, in the seed's mode"]


BRIEFLY = ("--timeout", "0")
PIN = f"sha256:{'0' * 64}"
NONSENSE: list[tuple[str, str]] = [
    (
        "",
        "a cluster is discovered in one way: by HOST:PORT and --token, by --file, or by --url. None of them",
    ),
    (f"h:1 --file f --token {TOKEN}", "More than one of them was given"),
    ("--file f --url https://h/x", "More than one of them was given"),
    (f"--file f --discovery-token {TOKEN}", "More than one of them was given"),
    ("h:1", "--token is missing"),
    (f"--token {TOKEN}", "HOST:PORT is missing"),
    (f"h:1 --token {TOKEN}", "--ca-cert-hash is missing"),
    (f"h --token {TOKEN} --ca-cert-hash {PIN}", "the endpoint must be host:port"),
    (f"https://h:1 --token {TOKEN} --ca-cert-hash {PIN}", "the endpoint 'https://h:1' must be host:port"),
    (f"h:1 --token abcdef.{SECRET}x --ca-cert-hash {PIN}", "abcdef.**** is not a bootstrap token"),
    (f"h:1 --token {TOKEN} --tls-bootstrap-token nope --ca-cert-hash {PIN}", "is not a bootstrap token"),
    (f"h:1 --token {TOKEN} --ca-cert-hash sha256:12", "CA pin 1 of 1 is an invalid CA hash"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN},md5:00", "CA pin 2 of 2 is an invalid CA hash"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN} --audience a", "--audience is for --mode seed"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN} --mode new", "'new' is none of: shipped, seed"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN} --timeout soon", "'soon' is no time: write 30s, 2m or 1h30m"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN} --timeout -5s", "--timeout must be a number of seconds"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN} --interval 0", "--interval must be a number of seconds"),
    (f"h:1 --token {TOKEN} --ca-cert-hash {PIN} -o yaml", "'yaml' is none of: table, kubeconfig, json"),
    (f"--file f --ca-cert-hash {PIN}", "--ca-cert-hash is for discovery by HOST:PORT and --token alone"),
    ("--url http://h/x", "must be an https URL"),
    ("--token - --file -", "stdin (-) can be read once"),
    ("h:1 --token - --tls-bootstrap-token -", "stdin (-) can be read once"),
    ("h:1 --token -", "there is no token on stdin"),
    (f"h:1 {TOKEN}", "unexpected argument: 123456.****"),
    (TOKEN, "123456.**** is no HOST:PORT. A token is given with --token"),
    (f"{TOKEN} --token {TOKEN} --ca-cert-hash {PIN}", "123456.**** is no HOST:PORT"),
    (f"token {TOKEN}", 'unknown command "123456.****" for "kubeauth discover token"'),
    ("tokne list", 'unknown command "tokne" for "kubeauth discover". Did you mean token?'),
    ("join h:1", "unexpected argument: h:1"),
    ("h:1 --force", "--force is for --save"),
    ("pins", "Did you mean `kubeauth discover pin`?"),
    ("h:1 --insecure-skip-tls-verify", "--insecure-skip-tls-verify is about a cluster that is known already"),
    ("h:1 --as root", "--as is about a cluster that is known already"),
    ("h:1 --request-timeout 5s", "--request-timeout is about a cluster that is known already"),
    ("h:1 --context prod", "--context is about a cluster that is known already"),
    ("h:1 -n prod", "--namespace is about a cluster that is known already"),
    ("h:1 --kubeconfig out", "and --save for where to write it"),
]


class TestNonsense:
    @pytest.mark.parametrize(("line", "said"), NONSENSE)
    def test_is_told_before_anything_is_asked(
        self, line: str, said: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        with open(os.devnull) as nothing:
            monkeypatch.setattr("sys.stdin", nothing)
            done = run("discover", *line.split())
        assert (done.status, done.out) == (Status.USAGE, "")
        assert said in done.err
        assert "--help`" in done.err or "stdin" in done.err
        assert SECRET not in done.err

    def test_a_closed_stdin_has_no_token(self) -> None:
        script = '"$@" <&-; echo $?'
        done = ran("sh", "-c", script, "sh", *KUBEAUTH, "discover", "h:1", "--token", "-")
        assert done.out == "2\n"
        assert "no token on stdin" in done.err

    def test_errors_of_the_library_speak_of_flags(self) -> None:
        assert in_flags('audience= is for mode="seed": say overwrite=True') == (
            "--audience is for --mode seed: say --force"
        )
        assert (
            in_flags("correct ca_cert_hashes; the url is good") == "correct --ca-cert-hash; the url is good"
        )


class TestSaving:
    @pytest.fixture
    def found(self, cluster: Cluster, run: Run) -> Callable[..., Ran]:
        return lambda *flags: run(
            "discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin, *flags
        )

    def test_for_its_owner_alone(self, found: Callable[..., Ran], tmp_path: Path, cluster: Cluster) -> None:
        path = tmp_path / "saved"
        done = found("--save", path)
        assert rows(done.out)["Saved"] == [f"{path}, for its owner alone"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load_config(path).server == cluster.url
        assert SECRET not in done.out
        assert [name for name in os.listdir(tmp_path) if "saved" in name or "kubeauth" in name] == ["saved"]

    def test_json_says_where(self, found: Callable[..., Ran], tmp_path: Path) -> None:
        assert json.loads(found("--save", tmp_path / "saved", "-o", "json").out)["saved"] == str(
            tmp_path / "saved"
        )

    def test_not_over_a_file_unless_forced(
        self, found: Callable[..., Ran], tmp_path: Path, cluster: Cluster
    ) -> None:
        path = tmp_path / "saved"
        path.write_text("precious")
        done = found("--save", path)
        assert (done.status, done.out) == (Status.CONFIG, "")
        assert done.err == (
            f"error: the kubeconfig cannot be written to {path}: there is a file already. "
            "Choose another path, or say --force.\n"
        )
        assert path.read_text() == "precious"
        assert cluster.requests == []  # it was known at once
        assert found("--save", path, "--force").status == 0
        assert load_config(path).server == cluster.url

    @pytest.mark.parametrize(
        ("path", "said"),
        [("missing/saved", "there is no such directory"), (".", "there is a file already")],
    )
    def test_where_nothing_can_be(
        self, path: str, said: str, found: Callable[..., Ran], tmp_path: Path, cluster: Cluster
    ) -> None:
        done = found("--save", tmp_path / path)
        assert done.status == Status.CONFIG
        assert said in done.err
        assert cluster.requests == []

    def test_stdout_is_no_place_to_save_to(self, found: Callable[..., Ran]) -> None:
        assert "-o kubeconfig prints it" in found("--save", "-").err

    def test_a_directory_is_not_replaced(self, found: Callable[..., Ran], tmp_path: Path) -> None:
        assert "it is a directory" in found("--save", tmp_path, "--force").err

    def test_what_is_found_out_late(
        self, found: Callable[..., Ran], tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody makes the file while we wait."""
        path = tmp_path / "saved"
        serve = cluster.serve

        def slower(request: object) -> Answer:
            path.write_text("precious")
            return serve(request)  # type: ignore[arg-type]

        monkeypatch.setattr(cluster, "respond", slower)
        done = found("--save", path)
        assert (done.status, done.out) == (Status.CONFIG, "")
        assert "say --force" in done.err
        assert path.read_text() == "precious"


class TestEnds:
    def test_nobody_is_there(self, run: Run) -> None:
        done = run("discover", "127.0.0.1:1", "--token", TOKEN, "--ca-cert-hash", PIN, *BRIEFLY)
        assert (done.status, done.out) == (Status.UNREACHABLE, "")
        assert "127.0.0.1:1 was asked once: " in done.err
        assert "bootstrap-token" not in done.err

    @pytest.mark.parametrize(
        ("code", "said"),
        [(403, "strangers may not read cluster-info there"), (404, "there is no cluster-info")],
    )
    def test_a_cluster_that_does_not_publish_itself(
        self, code: int, said: str, cluster: Cluster, run: Run, tmp_path: Path
    ) -> None:
        cluster.respond = lambda _: Answer(code, {})
        done = run("discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", cluster.pin, *BRIEFLY)
        assert (done.status, done.out) == (Status.UNREACHABLE, "")
        assert f"it answered {code}: {said}.\n" in done.err
        assert "`kubeadm init phase bootstrap-token` makes it do so" in done.err
        # Who has a kubeconfig for it needs nothing of the kind.
        file = given_file(cluster, tmp_path / "given", token="token-of-mine")
        assert "bootstrap-token" not in run("discover", "--file", file, *BRIEFLY).err

    def test_a_url_that_nobody_here_trusts(self, cluster: Cluster, run: Run) -> None:
        done = run("discover", "--url", f"{cluster.url}/x", "--token", TOKEN, *BRIEFLY)
        assert (done.status, done.out) == (Status.UNREACHABLE, "")
        assert done.err.endswith("Who offers a kubeconfig must have one that this system trusts.\n")
        assert "certificate-authority-data" not in done.err

    def test_who_must_not_be_believed(self, cluster: Cluster, run: Run) -> None:
        done = run("discover", cluster.host, "--token", TOKEN, "--ca-cert-hash", PIN)
        assert (done.status, done.out) == (Status.FAILED, "")
        assert f"They are {cluster.pin}" in done.err
        assert "correct --ca-cert-hash" in done.err

    def test_a_file_that_is_not_there(self, run: Run) -> None:
        done = run("discover", "--file", "/nowhere/at-all")
        assert (done.status, done.out) == (Status.CONFIG, "")
        assert "/nowhere/at-all" in done.err

    def test_a_reader_that_is_gone(self, cluster: Cluster) -> None:
        arguments = [
            "discover",
            cluster.host,
            "--token",
            TOKEN,
            "--ca-cert-hash",
            cluster.pin,
            "-o",
            "kubeconfig",
        ]
        script = '"$@" | head -c 0; echo "${PIPESTATUS[0]}"'
        done = ran("bash", "-c", script, "bash", *KUBEAUTH, *arguments)
        assert (done.out, done.err) == ("141\n", "")
