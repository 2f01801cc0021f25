"""`kubeauth registry manifest`, against a registry on loopback."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli import _registry_asking
from kubeauth.cli._ends import Status
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.cli.conftest import Run
from tests.cli.deadlines import beginning_with
from tests.cli.listeners import closed_port
from tests.cli.nodes import Node
from tests.cli.programs import on_a_terminal
from tests.registry.servers import Registry, Server, header
from tests.support.raw_server import RawServer, ServerConnection

SENTINEL = "sentinel-of-a-password"
OCI = "application/vnd.oci.image"
CONFIG = {"mediaType": f"{OCI}.config.v1+json", "digest": "sha256:" + "c" * 64, "size": 1234}
LAYER = {"mediaType": f"{OCI}.layer.v1.tar+gzip", "digest": "sha256:" + "d" * 64, "size": 56789}
IMAGE: dict[str, Any] = {
    "schemaVersion": 2,
    "mediaType": f"{OCI}.manifest.v1+json",
    "config": CONFIG,
    "layers": [LAYER],
    "annotations": {"org.opencontainers.image.version": "1.2"},
}
INDEX: dict[str, Any] = {
    "schemaVersion": 2,
    "mediaType": f"{OCI}.index.v1+json",
    "manifests": [
        {"mediaType": IMAGE["mediaType"], "digest": "sha256:" + "a" * 64, "size": 500,
         "platform": {"os": "linux", "architecture": "arm", "variant": "v7"}},
        {"mediaType": IMAGE["mediaType"], "digest": "sha256:" + "b" * 64, "size": 501},
    ],
}  # fmt: skip


def digest_of(body: bytes, kind: str = "sha256") -> str:
    return f"{kind}:{hashlib.new(kind, body).hexdigest()}"


class Holding(Registry):
    """A registry that has one manifest, under every name."""

    def __init__(self, authority: Authority | None, manifest: object = IMAGE) -> None:
        super().__init__(authority, alice=SENTINEL)
        self.body = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        self.headers = {"Content-Type": "application/vnd.oci.image.manifest.v1+json; charset=utf-8"}
        self.refusal: Answer | None = None

    def serve(self, request: RawRequest) -> Answer:
        answer = super().serve(request)
        if answer.status != 200:
            return answer
        return self.refusal or Answer(200, self.body, headers=self.headers)


@pytest.fixture
def registry(ca: Authority) -> Iterator[Holding]:
    with Holding(ca) as it:
        yield it


@pytest.fixture
def trusted(ca: Authority, tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "ca.pem"
    path.write_bytes(ca.pem)
    return "--certificate-authority", str(path)


@pytest.fixture
def flags(registry: Holding, node: Node, trusted: tuple[str, str]) -> tuple[str, ...]:
    """With a provider that knows alice."""
    node.provider("p", registry.host, auth={registry.host: ("alice", SENTINEL)})
    return *node.flags, *trusted


def test_it_is_fetched_with_what_the_providers_give(
    registry: Holding, flags: tuple[str, ...], run: Run
) -> None:
    ran = run("registry", "manifest", f"{registry.host}/team/app:1.2", *flags)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"Image                                         {registry.host}/team/app:1.2",
        f"Digest                                        {digest_of(registry.body)}",
        "Media type                                    application/vnd.oci.image.manifest.v1+json",
        f"Size                                          {len(registry.body)} bytes",
        "Annotation org.opencontainers.image.version   1.2",
        "",
        "PART     DIGEST                                                                    BYTES    MEDIA TYPE",
        f"config   {CONFIG['digest']}   1,234    {CONFIG['mediaType']}",
        f"layer    {LAYER['digest']}   56,789   {LAYER['mediaType']}",
    ]
    assert [request.path for request in registry.requests] == ["/v2/team/app/manifests/1.2"] * 2
    accepted = header(registry.requests[-1], "Accept")
    for media_type in ("oci.image.index.v1", "oci.image.manifest.v1", "manifest.list.v2", "manifest.v2"):
        assert media_type in accepted
    assert header(registry.requests[-1], "User-Agent").startswith("kubeauth/")


def test_an_index_has_its_platforms(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    registry.body = json.dumps(INDEX).encode()
    out = run("registry", "manifest", f"{registry.host}/app", *flags).out
    assert [line.split() for line in out.split("\n\n")[1].splitlines()] == [
        ["PLATFORM", "DIGEST", "BYTES", "MEDIA", "TYPE"],
        ["linux/arm/v7", "sha256:" + "a" * 64, "500", IMAGE["mediaType"]],
        ["<none>", "sha256:" + "b" * 64, "501", IMAGE["mediaType"]],
    ]


def test_as_json_and_as_it_came(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    assert json.loads(run("registry", "manifest", f"{registry.host}/app", "-o", "json", *flags).out) == IMAGE
    out = run("registry", "manifest", f"{registry.host}/app", "-o", "raw", *flags).out
    assert out.encode() == registry.body


@pytest.mark.parametrize("kind", ["sha256", "sha512"])
class TestDigests:
    def test_it_is_asked_for_by_its_digest_and_has_it(
        self, kind: str, registry: Holding, flags: tuple[str, ...], run: Run
    ) -> None:
        digest = digest_of(registry.body, kind)
        ran = run("registry", "manifest", f"{registry.host}/app:tag@{digest}", *flags)
        assert ran.status == 0
        assert f" {digest}\n" in ran.out
        assert registry.requests[-1].path == f"/v2/app/manifests/{digest}"

    @pytest.mark.parametrize("output", ["table", "json", "raw"])
    def test_what_has_another_is_not_shown(
        self, kind: str, output: str, registry: Holding, flags: tuple[str, ...], run: Run
    ) -> None:
        digest = digest_of(b"another", kind)
        ran = run("registry", "manifest", f"{registry.host}/app@{digest}", "-o", output, *flags)
        assert (ran.status, ran.out) == (Status.FAILED, "")
        assert ran.err.startswith(
            f"error: the manifest was asked for by the digest {digest}, and what came has "
        )

    def test_the_registry_names_another(
        self, kind: str, registry: Holding, flags: tuple[str, ...], run: Run
    ) -> None:
        registry.headers["Docker-Content-Digest"] = digest_of(registry.body, kind)
        assert run("registry", "manifest", f"{registry.host}/app", *flags).status == 0
        registry.headers["Docker-Content-Digest"] = digest_of(b"another", kind)
        ran = run("registry", "manifest", f"{registry.host}/app", *flags)
        assert (ran.status, ran.out) == (Status.FAILED, "")
        assert "has, as the registry says, the digest" in ran.err


def test_without_providers_it_is_asked_as_nobody(
    registry: Holding, trusted: tuple[str, ...], node: Node, run: Run
) -> None:
    registry.gives_to_anybody = True
    assert run("registry", "manifest", f"{registry.host}/app", *trusted).status == 0
    registry.gives_to_anybody = False
    ran = run("registry", "manifest", f"{registry.host}/app", *trusted)
    assert (ran.status, ran.out) == (Status.FAILED, "")


def test_plain_http(node: Node, run: Run) -> None:
    with Holding(None) as registry:
        node.provider("p", registry.host, auth={registry.host: ("alice", SENTINEL)})
        ran = run("registry", "manifest", f"{registry.host}/app", "--plain-http", *node.flags)
        assert (ran.status, ran.err) == (0, "")
        assert run("registry", "manifest", f"{registry.host}/app", *node.flags).status == Status.UNREACHABLE


def test_docker_hub_is_at_another_host(
    monkeypatch: pytest.MonkeyPatch, ca: Authority, node: Node, run: Run
) -> None:
    """9.1: and its credentials are those of docker.io."""
    assert _registry_asking._HOSTS == {"docker.io": "registry-1.docker.io"}
    with Holding(None) as registry:
        monkeypatch.setitem(_registry_asking._HOSTS, "docker.io", registry.host)
        script = node.provider("p", "docker.io", auth={"docker.io": ("alice", SENTINEL)})
        assert run("registry", "manifest", "nginx", "--plain-http", *node.flags).status == 0
    assert registry.requests[-1].path == "/v2/library/nginx/manifests/latest"
    assert [each.request["image"] for each in script.runs] == ["docker.io/library/nginx"]


class TestRefusals:
    def refused(self, registry: Holding, flags: tuple[str, ...], run: Run, answer: Answer) -> str:
        registry.refusal = answer
        ran = run("registry", "manifest", f"{registry.host}/app", *flags)
        assert (ran.status, ran.out) == (Status.FAILED, "")
        return ran.err.replace(registry.host, "HOST")

    def test_in_the_words_of_the_registry(self, registry: Holding, flags: tuple[str, ...], run: Run) -> None:
        errors = [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown", "detail": {"Tag": "1"}}]
        err = self.refused(registry, flags, run, Answer(404, {"errors": errors}))
        assert err == "Error from registry HOST: manifest unknown (MANIFEST_UNKNOWN)\n"

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"errors": [{"code": "DENIED"}, {"message": "and more"}, {}, 7]}, "denied (DENIED); and more"),
            ({"errors": "x"}, "it answers with the status 500, and says no more"),
            ([], "it answers with the status 500, and says no more"),
            (b"<html>", "it answers with the status 500, and says no more"),
            ({"errors": [{"message": "\x1b[31mred" + "x" * 10_000}]}, "U+001B[31mred" + "x" * 592),
        ],
    )
    def test_whatever_it_says(
        self, body: object, said: str, registry: Holding, flags: tuple[str, ...], run: Run
    ) -> None:
        err = self.refused(registry, flags, run, Answer(500, body))
        assert err == f"Error from registry HOST: {said}\n"

    def test_who_is_known_and_not_let_in(self, registry: Holding, flags: tuple[str, ...], run: Run) -> None:
        err = self.refused(
            registry, flags, run, Answer(403, {"errors": [{"code": "DENIED", "message": "no"}]})
        )
        assert err == (
            "Error from registry HOST: no (DENIED)\n"
            "It does not take what the providers gave: see `kubeauth registry credentials HOST/app:latest`.\n"
        )

    def test_there_are_no_credentials(
        self, registry: Holding, node: Node, trusted: tuple[str, ...], run: Run
    ) -> None:
        registry.gives_to_anybody = True
        node.provider("p", "quay.io")
        denied = Answer(403, {"errors": [{"code": "DENIED", "message": "no"}]})
        err = self.refused(registry, (*node.flags, *trusted), run, denied)
        assert "The providers gave no credentials, so it was asked as nobody." in err
        err = self.refused(registry, trusted, run, denied)
        assert err.endswith(
            "asked as nobody: with --config and --bin-dir it is asked as the kubelet would.\n"
        )

    def test_a_password_that_is_wrong(
        self, registry: Holding, node: Node, trusted: tuple[str, ...], run: Run
    ) -> None:
        node.provider("p", registry.host, auth={registry.host: ("alice", f"{SENTINEL}-of-yesterday")})
        ran = run("registry", "manifest", f"{registry.host}/app", *node.flags, *trusted, "-v", "9")
        assert (ran.status, ran.out) == (Status.FAILED, "")
        assert SENTINEL not in ran.err + ran.logs


def test_a_provider_that_fails_is_told(
    registry: Holding, node: Node, trusted: tuple[str, ...], run: Run
) -> None:
    registry.gives_to_anybody = True
    node.provider("p", registry.host, exit_code=1, stderr="no metadata server")
    ran = run("registry", "manifest", f"{registry.host}/app", *node.flags, *trusted)
    assert ran.status == 0
    assert "no metadata server" in ran.err


def test_no_answer(node: Node, run: Run, trusted: tuple[str, ...]) -> None:
    port = closed_port()
    ran = run("registry", "manifest", f"127.0.0.1:{port}/app", *trusted)
    assert ran.status == Status.UNREACHABLE
    assert ran.err == (
        f"The connection to the server 127.0.0.1:{port} was refused - did you specify the right host or port?\n"
    )


def test_a_registry_that_does_not_answer_in_time(node: Node, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ran = run("registry", "manifest", f"127.0.0.1:{port}/app", "--plain-http", "--request-timeout=100ms")
    assert ran.status == Status.UNREACHABLE
    assert "in time" in ran.err or "--request-timeout" in ran.err


class Dribble:
    """So slow that it takes half a minute, with never a pause that would be too long."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(600):
            time.sleep(0.05)
            yield b" "
        yield self._body


class TestTimeIsUp:
    """--request-timeout is for all of it, however often a byte arrives."""

    @pytest.fixture
    def late(
        self, registry: Holding, flags: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[int], None]:
        """It is, from the given answer on."""

        def late(number: int) -> None:
            deadline = beginning_with("receive_response_headers.complete", number)
            monkeypatch.setattr(_registry_asking, "Deadline", deadline)
            ran = run("registry", "manifest", f"{registry.host}/app", *flags, "--request-timeout=60s")
            assert (ran.status, ran.out) == (Status.UNREACHABLE, "")
            assert ran.err == "Unable to connect to the server: no answer within 60 s (--request-timeout)\n"

        return late

    def test_at_the_token_endpoint(self, registry: Holding, late: Callable[[int], None]) -> None:
        registry.tokens.respond = lambda _: Answer(200, chunks=Dribble(b'{"token": "t"}'))
        late(2)

    def test_at_the_registry_over_a_connection_that_was_there_before(
        self, registry: Holding, late: Callable[[int], None]
    ) -> None:
        registry.refusal = Answer(200, chunks=Dribble(registry.body))
        late(3)
        assert [request.connection for request in registry.requests] == [1, 1]

    def test_what_is_cut_off_does_not_pass_for_a_token(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def converse(connection: ServerConnection) -> None:
            connection.read_request()
            connection.send(b'HTTP/1.1 200 OK\r\n\r\n{"token": ')
            connection.wait_closed()

        deadline = beginning_with("receive_response_headers.complete", 2)
        monkeypatch.setattr(_registry_asking, "Deadline", deadline)
        with Holding(None) as registry, RawServer(converse) as tokens:
            registry.realm = tokens.url
            image = f"{registry.host}/app"
            ran = run("registry", "manifest", image, "--plain-http", "--request-timeout=60s")
        assert (ran.status, ran.out) == (Status.UNREACHABLE, "")
        assert "(--request-timeout)" in ran.err

    def test_what_is_cut_off_does_not_pass_for_an_answer(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One whose end is the end of its connection."""

        def converse(connection: ServerConnection) -> None:
            connection.read_request()
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n{}")
            connection.wait_closed()

        deadline = beginning_with("receive_response_headers.complete")
        monkeypatch.setattr(_registry_asking, "Deadline", deadline)
        with RawServer(converse) as server:
            image = f"127.0.0.1:{server.port}/app"
            ran = run("registry", "manifest", image, "--plain-http", "-o", "raw", "--request-timeout=60s")
        assert (ran.status, ran.out) == (Status.UNREACHABLE, "")


def test_a_registry_that_is_not_trusted(registry: Holding, node: Node, run: Run) -> None:
    ran = run("registry", "manifest", f"{registry.host}/app")
    assert ran.status == Status.UNREACHABLE
    assert ran.err.startswith("Unable to connect to the server: ")
    assert f"the certificate of {registry.host}: name the CA that has signed it with --certif" in ran.err
    registry.gives_to_anybody = True
    assert run("registry", "manifest", f"{registry.host}/app", "--insecure-skip-tls-verify").status == 0
    ran = run("registry", "manifest", f"{registry.host}/app", "--certificate-authority", "/nowhere")
    assert ran.status == Status.CONFIG


def test_a_token_endpoint_that_is_not_trusted(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    """Nobody has typed its address: it must be named."""
    with Server(registry.issue, Authority("another")) as tokens:
        registry.realm = f"{tokens.url}/token"
        ran = run("registry", "manifest", f"{registry.host}/app", *flags)
    assert ran.status == Status.UNREACHABLE
    assert f"the certificate of {tokens.host}: name the CA" in ran.err


def test_a_registry_without_tls(run: Run) -> None:
    with Holding(None) as registry:
        ran = run("registry", "manifest", f"{registry.host}/app")
    assert ran.status == Status.UNREACHABLE
    assert ran.err.endswith(f"Does {registry.host} speak TLS at all? If not, say --plain-http.\n")


def test_an_address_that_is_none(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    ran = run("registry", "manifest", "[:::]:5/app")
    assert (ran.status, ran.out) == (Status.CONFIG, "")
    for port in ("65536", "9" * 30):
        ran = run("registry", "manifest", f"127.0.0.1:{port}/app")
        assert (ran.status, ran.out) == (Status.UNREACHABLE, "")
        assert "ports end at 65535" in ran.err
    ran = run("registry", "manifest", "xn--a.127.0.0.1:5/app")
    assert (ran.status, ran.out) == (Status.UNREACHABLE, "")
    assert "is no address" in ran.err
    for elsewhere in ("https://xn--a.127.0.0.1:5/app", f"https://127.0.0.1:{'9' * 30}/app"):
        registry.refusal = Answer(307, headers={"Location": elsewhere})
        ran = run("registry", "manifest", f"{registry.host}/app", *flags)
        assert (ran.status, ran.out) == (Status.UNREACHABLE, "")


@pytest.mark.parametrize("body", [b"no JSON", b"[]", b'"x"'])
def test_what_is_no_manifest(body: bytes, registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    registry.body = body
    ran = run("registry", "manifest", f"{registry.host}/app", *flags)
    assert (ran.status, ran.out) == (Status.FAILED, "")
    assert "-o raw shows it." in ran.err


def test_what_is_larger_than_any_manifest(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    registry.body = b" " * (5 * 2**20)
    ran = run("registry", "manifest", f"{registry.host}/app", "-o", "raw", *flags)
    assert (ran.status, ran.out) == (Status.FAILED, "")
    assert "larger than 4 MiB" in ran.err


def test_what_is_compressed_is_not_unpacked(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    """It was asked for as it is. What comes may be a bomb, of which the digest would be right."""
    registry.body = gzip.compress(gzip.compress(bytes(2**24)))
    registry.headers["Content-Encoding"] = "gzip, gzip"
    ran = run("registry", "manifest", f"{registry.host}/app", "-o", "raw", *flags)
    assert (ran.status, ran.out) == (Status.FAILED, "")
    assert "is compressed" in ran.err
    registry.refusal = Answer(500, registry.body, headers=registry.headers)
    ran = run("registry", "manifest", f"{registry.host}/app", *flags)
    assert (ran.status, ran.out) == (Status.FAILED, "")
    assert "it answers with the status 500" in ran.err


def test_many_credentials_are_no_redirects(
    registry: Holding, node: Node, trusted: tuple[str, ...], run: Run
) -> None:
    for number in range(12):
        node.provider(f"p{number}", registry.host, auth={registry.host: (f"user-{number}", "x")})
    ran = run("registry", "manifest", f"{registry.host}/app", *node.flags, *trusted)
    assert (ran.status, ran.out) == (Status.FAILED, "")
    assert "12 credentials were tried" in ran.err
    registry.gives_to_anybody = True
    registry.refusal = Answer(307, headers={"Location": f"{registry.url}/v2/app/manifests/latest"})
    ran = run("registry", "manifest", f"{registry.host}/app", *trusted)
    assert (ran.status, ran.err) == (Status.UNREACHABLE, "error: the registry redirects without end\n")


def test_a_redirect_gets_no_credentials(
    ca: Authority, flags: tuple[str, ...], registry: Holding, run: Run
) -> None:
    with Server(lambda _: Answer(200, registry.body), ca) as elsewhere:
        registry.refusal = Answer(307, headers={"Location": f"{elsewhere.url}/blob"})
        assert run("registry", "manifest", f"{registry.host}/app", *flags).status == 0
        assert elsewhere.authorizations == [""]


@pytest.mark.slow
def test_what_a_registry_says_cannot_steer_the_terminal(registry: Holding, flags: tuple[str, ...]) -> None:
    nasty = "\x1b[2J\x9b\u202e"
    odd = {
        "mediaType": nasty, "manifests": [{"digest": nasty, "size": nasty, "platform": {"os": nasty}}, nasty],
        "config": {"digest": [nasty], "size": None}, "layers": nasty, "annotations": {nasty: nasty},
    }  # fmt: skip
    registry.body = json.dumps(odd).encode()
    registry.headers["Content-Type"] = "text/\u009b"
    for output in ("table", "json"):
        status, said = on_a_terminal("registry", "manifest", f"{registry.host}/app", "-o", output, *flags)
        assert status == 0
        assert not {"\x1b", "\x9b", "\u202e"} & set(said)


def test_nothing_secret_is_logged(registry: Holding, flags: tuple[str, ...], run: Run) -> None:
    ran = run("registry", "manifest", f"{registry.host}/app", *flags, "-v", "9")
    assert ran.status == 0
    assert "provider p gave 1 credentials" in ran.err
    assert SENTINEL not in ran.err + ran.logs
    assert "token-1" not in ran.text
