"""kubeauth.testing does what its docstrings say, for other people's tests as for ours."""

from __future__ import annotations

import datetime
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import httpx
import pytest
from cryptography import x509

import kubeauth
from kubeauth.testing import Answer, APIServer, Authority, FakeClock, PluginScript, Received
from tests.support.cases import each_case
from tests.support.residue import no_residue, wait_until


class TestAPIServer:
    def test_it_leaves_nothing_behind(self) -> None:
        with no_residue():
            with APIServer() as server, kubeauth.Client(server.config()) as client:
                watch = server.watch("/watch")
                with client.stream("GET", "/watch"):
                    watch.wait_for_watchers()

    @each_case("length", [b"-1", b"\xb2", b"9" * 5000, b"1_0", b"9" * 18])
    def test_a_request_of_invalid_length_is_rejected(self, length: bytes) -> None:
        with APIServer(tls=False) as server:
            address = httpx.URL(server.url)
            with socket.create_connection((address.host, address.port or 80), timeout=20) as stream:
                stream.sendall(b"POST /api HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + b"\r\n\r\n")
                received = b""
                while more := stream.recv(65536):
                    received += more
        assert received.startswith(b"HTTP/1.1 400 ")
        assert server.requests == []

    def test_in_an_event_loop(self) -> None:
        async def main() -> None:
            async with (
                APIServer(tokens={"t": "alice"}) as server,
                kubeauth.AsyncClient(server.config(token="t")) as client,
            ):
                review = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})
                assert review.json()["status"]["userInfo"]["username"] == "alice"

        anyio.run(main)

    def test_who_is_known(self) -> None:
        with APIServer(tokens={"t": "alice"}, passwords={"bob": "p"}) as server:
            for config, user in (
                (server.config(token="t"), "alice"),
                (server.config(token="x"), None),
                (server.config(username="bob", password=kubeauth.Secret("p")), "bob"),
                (server.config(identity=server.authority.client("carol")), "carol"),
                (server.config(), None),
            ):
                with kubeauth.Client(config) as client:
                    assert client.get("/version").status_code == (200 if user else 401)
            assert [request.user for request in server.requests] == ["alice", None, "bob", "carol", None]

    def test_a_function_has_the_last_word_on_who_it_is(self) -> None:
        def authenticate(request: Received) -> str | None:
            return "dave" if request.user == "alice" else None

        with APIServer(tokens={"t": "alice", "u": "bob"}, authenticate=authenticate) as server:
            for token, status in (("t", 200), ("u", 401)):
                with kubeauth.Client(server.config(token=token)) as client:
                    assert client.get("/version").status_code == status
            assert [request.user for request in server.requests] == ["dave", None]

    def test_a_certificate_that_is_over_is_the_functions_to_refuse(self) -> None:
        now = datetime.datetime.now(datetime.UTC)

        def authenticate(request: Received) -> str | None:
            assert request.certificate is not None
            ends = x509.load_der_x509_certificate(request.certificate).not_valid_after_utc
            return request.user if ends > now else None

        with APIServer(authenticate=authenticate) as server:
            for days, status in ((1, 200), (-1, 401)):
                pair = server.authority.client("carol", not_after=now + datetime.timedelta(days=days))
                with kubeauth.Client(server.config(identity=pair)) as client:
                    assert client.get("/version").status_code == status
            # Who signed it is still the handshake's business.
            with kubeauth.Client(server.config(identity=Authority().client("carol"))) as client:
                with pytest.raises(kubeauth.errors.ClientCertificateError):
                    client.get("/version")

    def test_nobody_in_particular(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            review = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})
            assert review.json()["status"]["userInfo"]["username"] == "system:anonymous"

    def test_what_it_was_not_taught_is_a_404_as_of_kubernetes(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            response = client.get("/nothing?here")
            assert (response.status_code, response.json()["kind"]) == (404, "Status")
            assert server.requests[0].path == "/nothing?here"

    def test_bodies_of_every_kind(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            server.on("PUT", "/x", lambda request: Answer(200, request.body))
            assert client.put("/x", content=b"abc").content == b"abc"
            assert client.put("/x", content=iter([b"a", b"bc"])).content == b"abc"
            server.on("GET", "/stream", Answer(chunks=[b"a", b"b"]))
            assert client.get("/stream").content == b"ab"
            server.on("DELETE", "/x", Answer(204))
            assert client.delete("/x").status_code == 204
            assert client.head("/version").status_code == 404
            server.on("HEAD", "/version", Answer(200, b"not sent"))
            assert client.head("/version").content == b""
            assert len({request.connection for request in server.requests}) == 1

    def test_a_mistake_in_a_handler_is_a_500_with_its_traceback(self) -> None:
        def wrong(_request: object) -> Answer:
            raise ZeroDivisionError("a mistake in the test")

        with APIServer() as server, kubeauth.Client(server.config()) as client:
            server.on("GET", "/wrong", wrong)
            response = client.get("/wrong")
            assert response.status_code == 500
            assert "a mistake in the test" in response.text
            server.on("HEAD", "/stream", Answer(chunks=[b"a"]))
            assert client.head("/stream").content == b""
            assert client.get("/version").status_code == 200

    def test_chunks_may_be_empty_and_passwords_nonsense(self) -> None:
        with APIServer(passwords={"bob": "p"}) as server, kubeauth.Client(server.config(token="x")) as client:
            assert client.get("/version", headers={"Authorization": "Basic %"}).status_code == 401
            server.on("GET", "/stream", Answer(chunks=[b"a", b"", b"b"]))
            assert client.get("/stream", auth=("bob", "p")).content == b"ab"

    def test_clients_of_another_authority(self) -> None:
        clients = Authority("clients")
        with APIServer(client_authority=clients, require_certificate=True) as server:
            with kubeauth.Client(server.config(identity=clients.client("carol"))) as client:
                assert client.get("/version").status_code == 200
            with kubeauth.Client(server.config(identity=server.authority.client("carol"))) as client:
                with pytest.raises(kubeauth.errors.ClientCertificateError):
                    client.get("/version")

    def test_a_watch_that_is_closed_is_over_for_whoever_comes_later_too(self) -> None:
        with APIServer(tls=False) as server, httpx.Client(base_url=server.url, timeout=60.0) as client:
            watch = server.watch("/watch")
            watch.end()
            with client.stream("GET", "/watch") as after_the_end:
                watch.wait_for_watchers()
                watch.send({"n": 1})
                watch.close()
                assert list(after_the_end.iter_lines()) == ['{"n": 1}']
            assert client.get("/watch").text == ""

    def test_a_watch_reaches_all_who_watch(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            watch = server.watch("/watch")
            with client.stream("GET", "/watch") as one, client.stream("GET", "/watch") as two:
                watch.wait_for_watchers(2)
                watch.send({"n": 1})
                watch.end()
                assert [*one.iter_lines(), *two.iter_lines()] == ['{"n": 1}', '{"n": 1}']
            with pytest.raises(TimeoutError, match="2 of 3"):
                watch.wait_for_watchers(3, timeout=0.01)

    def test_it_takes_other_connections_while_one_client_is_slow(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))):
                # It says nothing, not even hello.
                assert client.get("/version").status_code == 200

    def test_a_kubeconfig_for_kubectl(self, tmp_path: Path) -> None:
        with APIServer(tokens={"t": "alice"}) as server:
            path = tmp_path / "config"
            path.write_text(json.dumps(server.kubeconfig({"token": "t"})))
            with kubeauth.Client(kubeauth.load_config(path)) as client:
                assert client.get("/version").status_code == 200

    def test_what_it_received_is_printed_without_secrets(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config(token="s3ntinel")) as client:
            client.post("/version", content=b"s3ntinel")
            assert "s3ntinel" not in repr(server.requests)
            assert server.requests[0].all_headers("AUTHORIZATION") == ["Bearer s3ntinel"]

    def test_plain_http_has_no_ca(self) -> None:
        with APIServer(tls=False) as server:
            assert server.config().ca_data is None
            assert "certificate-authority-data" not in server.kubeconfig({})["clusters"][0]["cluster"]
            assert httpx.get(f"{server.url}/version", timeout=60.0).status_code == 200

    def test_hanging_up_on_everybody(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            client.get("/version")
            assert server.open_connections == 1
            server.hang_up()
            wait_until(lambda: server.open_connections == 0)


class TestAuthority:
    def test_a_client_certificate_says_who_and_in_which_groups(self) -> None:
        pair = Authority().client("carol", ["dev", "ops"])
        subject = x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string()
        assert subject == "CN=carol,O=ops,O=dev"
        assert "PRIVATE" not in repr(pair)

    def test_a_certificate_that_is_over(self) -> None:
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        certificate = x509.load_pem_x509_certificate(Authority().server("h", not_after=yesterday).certificate)
        assert certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC)
        assert certificate.not_valid_before_utc < certificate.not_valid_after_utc

    def test_a_certificate_of_a_few_seconds(self) -> None:
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        pair = Authority().client("carol", not_before=now, not_after=now + datetime.timedelta(seconds=2))
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert life == datetime.timedelta(seconds=2)

    def test_an_intermediate_comes_with_what_it_signs(self) -> None:
        intermediate = Authority().intermediate()
        assert len(x509.load_pem_x509_certificates(intermediate.server("h").certificate)) == 2
        assert len(x509.load_pem_x509_certificates(intermediate.server("h", chain=False).certificate)) == 1

    def test_writing_replaces_each_file_at_once(self, tmp_path: Path) -> None:
        files = tmp_path / "c", tmp_path / "k"
        authority = Authority()
        authority.client("a").write(*files)
        stop = threading.Event()
        sizes: set[bool] = set()

        def read() -> None:
            while True:
                sizes.add(files[1].read_bytes().endswith(b"-----END PRIVATE KEY-----\n"))
                if stop.is_set():
                    return

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(50):
            authority.client("b").write(*files)
        stop.set()
        reader.join()
        assert sizes == {True}
        assert sorted(os.listdir(tmp_path)) == ["c", "home", "k"]


def test_a_fake_clock_moves_when_it_is_told() -> None:
    clock = FakeClock(now=100.0)
    start = clock.monotonic()
    assert (clock.time(), clock.time()) == (100.0, 100.0)
    clock.advance(5.0)
    assert (clock.time(), clock.monotonic() - start) == (105.0, 5.0)
    clock.set_date(0.0)
    assert (clock.time(), clock.monotonic() - start) == (0.0, 5.0)


class TestPluginScript:
    def run(self, plugin: PluginScript, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        stanza = plugin.exec_config(args)
        command = [stanza["command"], *stanza["args"]]
        return subprocess.run(
            command, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )

    def test_it_says_what_it_is_told_and_remembers(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        assert plugin.runs == []
        plugin.answer(token="t1", expires_in=900)
        info = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        said = json.loads(self.run(plugin, "a", KUBERNETES_EXEC_INFO=json.dumps(info), EXTRA="x").stdout)
        assert said["apiVersion"] == info["apiVersion"]
        assert said["status"]["token"] == "t1"
        assert said["status"]["expirationTimestamp"].endswith("Z")
        (run,) = plugin.runs
        assert (run.info, run.arguments, run.environment["EXTRA"], run.stdin_is_terminal) == (
            info,
            ["a"],
            "x",
            False,
        )

    def test_without_info_it_is_v1(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        assert json.loads(self.run(plugin).stdout)["apiVersion"] == "client.authentication.k8s.io/v1"
        assert plugin.runs[0].info is None

    def test_certificates_and_versions(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path, "other")
        pair = Authority().client("carol")
        plugin.answer(certificate=pair.certificate, key=pair.key, api_version="v9")
        said = json.loads(self.run(plugin).stdout)
        assert said["apiVersion"] == "v9"
        assert said["status"] == {
            "clientCertificateData": pair.certificate.decode(),
            "clientKeyData": pair.key.decode(),
        }

    def test_failures(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(token="t", exit_code=3, stderr="not today")
        failed = self.run(plugin)
        assert (failed.returncode, failed.stdout, failed.stderr) == (3, "", "not today")
        plugin.answer(stdout="rubbish")
        assert self.run(plugin).stdout == "rubbish"
        assert len(plugin.runs) == 2

    @pytest.mark.parametrize(
        "name", ["with späce", "with'quote here", "long" * 60], ids=["space", "quote", "long"]
    )
    @pytest.mark.parametrize("is_link", [True, False], ids=["virtual environment", "installation"])
    def test_the_path_of_python_may_have_a_space_and_be_long(
        self, name: str, is_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kernel splits the first line of a script at blanks, and reads only a part of it."""
        directory = tmp_path / name
        directory.mkdir()
        python = directory / "python"
        if is_link:
            python.symlink_to(os.path.realpath(sys.executable))
        else:
            python.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n')
            python.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(python))
        plugin = PluginScript(directory)
        plugin.answer(token="t")
        done = self.run(plugin, "an argument", "another")
        assert json.loads(done.stdout)["status"] == {"token": "t"}
        assert plugin.runs[0].arguments == ["an argument", "another"]

    def test_it_fits_a_kubeconfig(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        with APIServer() as server:
            config = kubeauth.load_config(
                server.kubeconfig({"exec": plugin.exec_config(["x"], provideClusterInfo=True)})
            )
        assert config.exec is not None
        assert (config.exec.command, config.exec.provide_cluster_info) == (str(plugin.path), True)


def test_the_handshake_of_a_client_that_goes_away_harms_nobody() -> None:
    with APIServer() as server:
        port = int(server.url.rpartition(":")[2])
        for _ in range(3):
            socket.create_connection(("127.0.0.1", port)).close()
        with socket.create_connection(("127.0.0.1", port)) as raw:
            context = ssl.create_default_context()
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(raw, server_hostname="127.0.0.1")
        with kubeauth.Client(server.config()) as client:
            assert client.get("/version").status_code == 200
