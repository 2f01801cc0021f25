"""kubeauth.testing does what its docstrings say."""

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
    def test_a_server_leaves_nothing_behind(self) -> None:
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

    def test_a_server_is_an_async_context_manager(self) -> None:
        async def main() -> None:
            async with (
                APIServer(tokens={"t": "alice"}) as server,
                kubeauth.AsyncClient(server.config(token="t")) as client,
            ):
                review = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})
                assert review.json()["status"]["userInfo"]["username"] == "alice"

        anyio.run(main)

    def test_users_are_authenticated_by_token_password_and_certificate(self) -> None:
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

    def test_authenticate_decides_about_the_user(self) -> None:
        def authenticate(request: Received) -> str | None:
            return "dave" if request.user == "alice" else None

        with APIServer(tokens={"t": "alice", "u": "bob"}, authenticate=authenticate) as server:
            for token, status in (("t", 200), ("u", 401)):
                with kubeauth.Client(server.config(token=token)) as client:
                    assert client.get("/version").status_code == status
            assert [request.user for request in server.requests] == ["dave", None]

    def test_authenticate_can_reject_an_expired_certificate(self) -> None:
        now = datetime.datetime.now(datetime.UTC)

        def authenticate(request: Received) -> str | None:
            assert request.certificate is not None
            not_after = x509.load_der_x509_certificate(request.certificate).not_valid_after_utc
            return request.user if not_after > now else None

        with APIServer(authenticate=authenticate) as server:
            for days, status in ((1, 200), (-1, 401)):
                pair = server.authority.client("carol", not_after=now + datetime.timedelta(days=days))
                with kubeauth.Client(server.config(identity=pair)) as client:
                    assert client.get("/version").status_code == status

            # The CA is checked by the TLS handshake, before authenticate is called.
            with kubeauth.Client(server.config(identity=Authority().client("carol"))) as client:
                with pytest.raises(kubeauth.errors.ClientCertificateError):
                    client.get("/version")

    def test_a_request_without_credentials_is_anonymous(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            review = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})
            assert review.json()["status"]["userInfo"]["username"] == "system:anonymous"

    def test_an_unknown_path_is_a_404_with_a_status(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            response = client.get("/nothing?here")
            assert (response.status_code, response.json()["kind"]) == (404, "Status")
            assert server.requests[0].path == "/nothing?here"

    def test_bodies_of_requests_and_responses(self) -> None:
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

    def test_an_error_in_a_handler_is_a_500_with_its_traceback(self) -> None:
        def fail(_request: object) -> Answer:
            raise ZeroDivisionError("an error in the test")

        with APIServer() as server, kubeauth.Client(server.config()) as client:
            server.on("GET", "/wrong", fail)
            response = client.get("/wrong")
            assert response.status_code == 500
            assert "an error in the test" in response.text

            server.on("HEAD", "/stream", Answer(chunks=[b"a"]))
            assert client.head("/stream").content == b""
            assert client.get("/version").status_code == 200

    def test_empty_chunks_and_invalid_basic_auth(self) -> None:
        with APIServer(passwords={"bob": "p"}) as server, kubeauth.Client(server.config(token="x")) as client:
            assert client.get("/version", headers={"Authorization": "Basic %"}).status_code == 401
            server.on("GET", "/stream", Answer(chunks=[b"a", b"", b"b"]))
            assert client.get("/stream", auth=("bob", "p")).content == b"ab"

    def test_client_certificates_of_another_authority(self) -> None:
        clients = Authority("clients")
        with APIServer(client_authority=clients, require_certificate=True) as server:
            with kubeauth.Client(server.config(identity=clients.client("carol"))) as client:
                assert client.get("/version").status_code == 200
            with kubeauth.Client(server.config(identity=server.authority.client("carol"))) as client:
                with pytest.raises(kubeauth.errors.ClientCertificateError):
                    client.get("/version")

    def test_a_closed_watch_sends_nothing_to_later_watchers(self) -> None:
        with APIServer(tls=False) as server, httpx.Client(base_url=server.url, timeout=60.0) as client:
            watch = server.watch("/watch")
            watch.end()

            with client.stream("GET", "/watch") as later:
                watch.wait_for_watchers()
                watch.send({"n": 1})
                watch.close()

                assert list(later.iter_lines()) == ['{"n": 1}']

            assert client.get("/watch").text == ""

    def test_a_watch_sends_events_to_all_watchers(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            watch = server.watch("/watch")
            with client.stream("GET", "/watch") as first, client.stream("GET", "/watch") as second:
                watch.wait_for_watchers(2)
                watch.send({"n": 1})
                watch.end()

                assert [*first.iter_lines(), *second.iter_lines()] == ['{"n": 1}', '{"n": 1}']
            with pytest.raises(TimeoutError, match="2 of 3"):
                watch.wait_for_watchers(3, timeout=0.01)

    def test_a_connection_without_a_handshake_does_not_block_others(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))):
                assert client.get("/version").status_code == 200

    def test_kubeconfig_can_be_loaded_from_a_file(self, tmp_path: Path) -> None:
        with APIServer(tokens={"t": "alice"}) as server:
            path = tmp_path / "config"
            path.write_text(json.dumps(server.kubeconfig({"token": "t"})))
            with kubeauth.Client(kubeauth.load_config(path)) as client:
                assert client.get("/version").status_code == 200

    def test_repr_of_received_requests_hides_secrets(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config(token="s3ntinel")) as client:
            client.post("/version", content=b"s3ntinel")
            assert "s3ntinel" not in repr(server.requests)
            assert server.requests[0].all_headers("AUTHORIZATION") == ["Bearer s3ntinel"]

    def test_plain_http_has_no_ca(self) -> None:
        with APIServer(tls=False) as server:
            assert server.config().ca_data is None
            assert "certificate-authority-data" not in server.kubeconfig({})["clusters"][0]["cluster"]
            assert httpx.get(f"{server.url}/version", timeout=60.0).status_code == 200

    def test_hang_up_closes_all_connections(self) -> None:
        with APIServer() as server, kubeauth.Client(server.config()) as client:
            client.get("/version")

            assert server.open_connections == 1

            server.hang_up()
            wait_until(lambda: server.open_connections == 0)


class TestAuthority:
    def test_a_client_certificate_has_user_and_groups(self) -> None:
        pair = Authority().client("carol", ["dev", "ops"])
        subject = x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string()
        assert subject == "CN=carol,O=ops,O=dev"
        assert "PRIVATE" not in repr(pair)

    def test_an_expired_certificate_can_be_issued(self) -> None:
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        certificate = x509.load_pem_x509_certificate(Authority().server("h", not_after=yesterday).certificate)
        assert certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC)
        assert certificate.not_valid_before_utc < certificate.not_valid_after_utc

    def test_a_certificate_can_be_valid_for_a_few_seconds(self) -> None:
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        pair = Authority().client("carol", not_before=now, not_after=now + datetime.timedelta(seconds=2))
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc

        assert lifetime == datetime.timedelta(seconds=2)

    def test_a_certificate_of_an_intermediate_has_its_chain(self) -> None:
        intermediate = Authority().intermediate()
        assert len(x509.load_pem_x509_certificates(intermediate.server("h").certificate)) == 2
        assert len(x509.load_pem_x509_certificates(intermediate.server("h", chain=False).certificate)) == 1

    def test_write_replaces_each_file_atomically(self, tmp_path: Path) -> None:
        files = tmp_path / "c", tmp_path / "k"
        authority = Authority()
        authority.client("a").write(*files)
        is_done = threading.Event()
        complete: set[bool] = set()

        def read() -> None:
            while True:
                complete.add(files[1].read_bytes().endswith(b"-----END PRIVATE KEY-----\n"))
                if is_done.is_set():
                    return

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(50):
            authority.client("b").write(*files)
        is_done.set()
        reader.join()

        assert complete == {True}
        assert sorted(os.listdir(tmp_path)) == ["c", "home", "k"]


def test_a_fake_clock_moves_only_when_advanced_or_set() -> None:
    clock = FakeClock(now=100.0)
    start = clock.monotonic()
    assert (clock.time(), clock.time()) == (100.0, 100.0)

    clock.advance(5.0)
    assert (clock.time(), clock.monotonic() - start) == (105.0, 5.0)

    clock.set_date(0.0)
    assert (clock.time(), clock.monotonic() - start) == (0.0, 5.0)


class TestPluginScript:
    def run(self, plugin: PluginScript, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        exec_config = plugin.exec_config(args)
        command = [exec_config["command"], *exec_config["args"]]
        return subprocess.run(
            command, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )

    def test_a_plugin_prints_its_answer_and_records_its_runs(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        assert plugin.runs == []

        plugin.answer(token="t1", expires_in=900)
        info = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        printed = json.loads(self.run(plugin, "a", KUBERNETES_EXEC_INFO=json.dumps(info), EXTRA="x").stdout)

        assert printed["apiVersion"] == info["apiVersion"]
        assert printed["status"]["token"] == "t1"
        assert printed["status"]["expirationTimestamp"].endswith("Z")

        (run,) = plugin.runs
        assert (run.info, run.arguments) == (info, ["a"])
        assert (run.environment["EXTRA"], run.stdin_is_terminal) == ("x", False)

    def test_the_default_api_version_is_v1(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        assert json.loads(self.run(plugin).stdout)["apiVersion"] == "client.authentication.k8s.io/v1"
        assert plugin.runs[0].info is None

    def test_an_answer_with_certificate_and_api_version(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path, "other")
        pair = Authority().client("carol")
        plugin.answer(certificate=pair.certificate, key=pair.key, api_version="v9")

        printed = json.loads(self.run(plugin).stdout)

        assert printed["apiVersion"] == "v9"
        assert printed["status"] == {
            "clientCertificateData": pair.certificate.decode(),
            "clientKeyData": pair.key.decode(),
        }

    def test_a_plugin_can_fail_or_print_invalid_output(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(token="t", exit_code=3, stderr="try again later")
        failed = self.run(plugin)
        assert (failed.returncode, failed.stdout, failed.stderr) == (3, "", "try again later")

        plugin.answer(stdout="invalid")
        assert self.run(plugin).stdout == "invalid"
        assert len(plugin.runs) == 2

    @pytest.mark.parametrize(
        "name", ["with späce", "with'quote here", "long" * 60], ids=["space", "quote", "long"]
    )
    @pytest.mark.parametrize("is_link", [True, False], ids=["virtual environment", "installation"])
    def test_the_path_of_python_may_be_long_and_contain_spaces(
        self, name: str, is_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kernel splits the first line of a script at spaces, and limits its length."""
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

        result = self.run(plugin, "an argument", "another")

        assert json.loads(result.stdout)["status"] == {"token": "t"}
        assert plugin.runs[0].arguments == ["an argument", "another"]

    def test_exec_config_can_be_used_in_a_kubeconfig(self, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        with APIServer() as server:
            config = kubeauth.load_config(
                server.kubeconfig({"exec": plugin.exec_config(["x"], provideClusterInfo=True)})
            )

        assert config.exec is not None
        assert (config.exec.command, config.exec.provide_cluster_info) == (str(plugin.path), True)


def test_an_aborted_handshake_does_not_affect_other_clients() -> None:
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
