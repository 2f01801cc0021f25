"""A kubeconfig that was handed over, in a file or by https."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth import errors, load_config
from kubeauth.discovery import Progress
from kubeauth.testing import Answer, Authority
from tests.discovery.clusters import (
    BRIEF,
    TOKEN,
    Cluster,
    Runtime,
    config_map,
    data,
    published,
    shown,
    signed_map,
)
from tests.registry.servers import Server
from tests.support.cases import each_case
from tests.support.proxy_servers import Proxy
from tests.support.raw_server import RawServer, ServerConnection

USER = {"token": "alices-token"}


def document(cluster: Cluster, user: Any = None, **changes: Any) -> dict[str, Any]:
    entry = {"server": cluster.url, "certificate-authority-data": data(cluster.authority.pem)} | changes
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {name: value for name, value in entry.items() if value is not None}}
        ],
        "users": [] if user is None else [{"name": "alice", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "" if user is None else "alice"}}],
        "current-context": "x",
    }


@pytest.fixture
def file(tmp_path: Path, cluster: Cluster) -> Path:
    path = tmp_path / "discovery.conf"
    path.write_text(json.dumps(document(cluster, USER)))
    return path


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# Files.


def test_the_credentials_of_the_file_are_kept_a60_a67_a68(
    runtime: Runtime, cluster: Cluster, file: Path
) -> None:
    found = runtime.discover(file=file)
    assert shown(cluster) == ["Bearer alices-token"]
    assert (found.method, found.pins, found.warnings) == ("file", (cluster.pin,), ())
    assert found.kubeconfig["users"] == [{"name": "alice", "user": USER}]
    assert found.kubeconfig["current-context"] == "alice@c"
    assert found.config == load_config(found.kubeconfig)


@pytest.mark.parametrize("spelled", ["{}", "file://{}", "FILE://{}", "relative"])
def test_how_a_file_may_be_named_a64(
    runtime: Runtime, file: Path, spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    name = file.name if spelled == "relative" else spelled.format(file)
    assert runtime.discover(file=name).method == "file"


def test_stdin_a65_a91(
    runtime: Runtime, cluster: Cluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes through a pipe may be from anywhere: it says nothing about who we are."""

    def typed(text: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    typed(file.read_bytes())
    with pytest.raises(errors.ConfigError, match="from stdin and from a URL nothing about a user"):
        runtime.discover(file="-")
    assert cluster.requests == []
    typed(file.read_bytes())
    found = runtime.discover(file="-", tls_bootstrap_token=TOKEN)
    assert (found.method, found.kubeconfig["users"][0]["user"]) == ("file", {"token": TOKEN})
    assert [each.partition(" was left out")[0] for each in found.warnings] == ["its user"]
    assert shown(cluster) == [""]
    typed(b"x" * (2**20 + 1))
    with pytest.raises(errors.KubeConfigError, match="larger than 1 MiB"):
        runtime.discover(file="-")


def test_a_token_wins_over_what_the_file_has_a59(runtime: Runtime, cluster: Cluster, file: Path) -> None:
    write(file, document(cluster, USER, **{"proxy-url": None, "tls-server-name": "127.0.0.1"}))
    found = runtime.discover(file=file, tls_bootstrap_token=TOKEN)
    assert found.kubeconfig["users"] == [{"name": "tls-bootstrap-token-user", "user": {"token": TOKEN}}]
    assert set(found.kubeconfig["clusters"][0]["cluster"]) == {"server", "certificate-authority-data"}


def test_the_seeds_own_document_has_no_secrets_a72(runtime: Runtime, cluster: Cluster, file: Path) -> None:
    write(file, cluster.kubeconfig)
    found = runtime.discover(file=file, tls_bootstrap_token=TOKEN)
    assert (found.config.server, shown(cluster)) == (cluster.url, [""])
    with pytest.raises(errors.ConfigError, match=r"no credentials that can be used.*tls_bootstrap_token="):
        runtime.discover(file=file)
    assert len(cluster.requests) == 1  # nobody was asked in vain


@each_case(
    ("user", "is_enough"),
    [
        ({"token": "t"}, True),
        ({"username": "u", "password": "p"}, True),
        ({"username": "u"}, False),
        ({"password": "p"}, False),
        ({"client-key-data": data("k")}, False),
        ({"as": "bob"}, False),
        ({}, False),
    ],
)
def test_what_counts_as_a_credential_a60(
    runtime: Runtime, cluster: Cluster, file: Path, user: Any, is_enough: bool
) -> None:
    write(file, document(cluster, user))
    if is_enough:
        assert runtime.discover(file=file).kubeconfig["users"][0]["user"] == user
    else:
        with pytest.raises(errors.ConfigError, match="no credentials"):
            runtime.discover(file=file)


def test_what_the_file_names_is_inside_afterwards_a67(runtime: Runtime, cluster: Cluster, file: Path) -> None:
    """Its files may be gone, or the result be sent elsewhere."""
    pair = cluster.authority.client("alice")
    for name, content in {
        "ca.crt": cluster.authority.pem,
        "a.crt": pair.certificate,
        "a.key": pair.key,
        "token": b"t\n",
    }.items():
        (file.parent / name).write_bytes(content)
    pem = {"certificate-authority-data": None, "certificate-authority": "ca.crt"}
    write(file, document(cluster, {"client-certificate": "a.crt", "client-key": "a.key"}, **pem))
    found = runtime.discover(file=file)
    assert found.kubeconfig["clusters"][0]["cluster"] == {
        "server": cluster.url,
        "certificate-authority-data": data(cluster.authority.pem),
    }
    assert found.kubeconfig["users"][0]["user"] == {
        "client-certificate-data": data(pair.certificate),
        "client-key-data": data(pair.key),
    }
    write(file, document(cluster, {"tokenFile": "token"}, **pem))
    assert runtime.discover(file=file).kubeconfig["users"][0]["user"] == {"token": "t"}


@pytest.mark.parametrize("name", ["exec", "auth-provider"])
def test_a_file_runs_nothing_a91(
    runtime: Runtime, cluster: Cluster, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    program = (
        EXEC if name == "exec" else {"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "x"}}}
    )
    write(file, document(cluster, program))
    with pytest.raises(errors.ConfigError, match=r"programs never\. A kubeconfig of your own"):
        runtime.discover(file=file)
    assert cluster.requests == []
    write(file, document(cluster, program | USER))
    found = runtime.discover(file=file)
    assert found.kubeconfig["users"] == [{"name": "alice", "user": USER}]
    assert (found.config.exec, found.config.oidc) == (None, None)
    assert [each.partition(" was left out")[0] for each in found.warnings] == [name]
    assert not (tmp_path / "PWNED").exists()


@each_case(
    ("change", "why"),
    [
        ("", "no cluster"),
        ("{}", "no cluster"),
        ("[]", "must be a mapping"),
        ("{", "malformed"),
        ("clusters: 7", "clusters: must be a list"),
        (
            {"insecure-skip-tls-verify": True, "certificate-authority-data": None},
            "insecure-skip-tls-verify: anybody",
        ),
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({"server": "http://127.0.0.1:6443"}, "must begin with https://"),
        ({"server": None}, "no server found"),
        ({"certificate-authority-data": "Zm9v"}, "there is no certificate"),
        ({"certificate-authority": "/nonexistent/ca"}, "both specified"),
        ({"certificate-authority": "/nonexistent/ca", "certificate-authority-data": None}, "unable to read"),
    ],
    ids=str,
)
def test_a_file_that_cannot_be_used_is_told_before_anybody_is_asked_a67_a71(
    runtime: Runtime, cluster: Cluster, file: Path, change: Any, why: str
) -> None:
    write(file, change if isinstance(change, str) else document(cluster, USER, **change))
    with pytest.raises(errors.KubeConfigError, match=why) as raised:
        runtime.discover(file=file)
    assert (raised.value.path, cluster.requests) == (str(file), [])


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"client-certificate-data": data("c")}, "client-key-data or client-key must be specified"),
        ({"tokenFile": "/nonexistent/token"}, "cannot read the token file"),
        ({"tokenFile": "empty"}, "empty token"),
    ],
    ids=str,
)
def test_a_user_who_cannot_be_anybody_a67(
    runtime: Runtime, cluster: Cluster, file: Path, user: Any, why: str
) -> None:
    (file.parent / "empty").touch()
    write(file, document(cluster, user))
    with pytest.raises(errors.KubeConfigError, match=why):
        runtime.discover(file=file)
    assert cluster.requests == []


def test_a_file_that_is_named_and_is_none_a67(runtime: Runtime, cluster: Cluster, file: Path) -> None:
    (file.parent / "ca.crt").write_bytes(b"x" * (2**20 + 1))
    pem = {"certificate-authority-data": None, "certificate-authority": "ca.crt"}
    with pytest.raises(errors.KubeConfigError, match="larger than 1 MiB"):
        runtime.discover(file=write(file, document(cluster, USER, **pem)))


def test_credentials_go_to_nobody_they_are_not_for(
    runtime: Runtime, cluster: Cluster, file: Path, evil: Authority
) -> None:
    """The cluster without a name is what is discovered (A44); the user of the context is another's."""
    content = document(cluster, USER)
    content["clusters"].append(
        {"name": "", "cluster": {"server": cluster.url, "certificate-authority-data": data(evil.pem)}}
    )
    with pytest.raises(errors.KubeConfigError, match="about another cluster than the one without a name"):
        runtime.discover(file=write(file, content))
    content["contexts"][0]["context"]["user"] = "nobody"
    with pytest.raises(errors.KubeConfigError, match="names the user 'nobody', who is not there"):
        runtime.discover(file=write(file, content))


def test_a_file_may_have_other_clusters_a44(
    runtime: Runtime, cluster: Cluster, file: Path, evil: Authority
) -> None:
    """It is the user's own: which one is meant is what the current context says."""
    content = document(cluster, USER)
    content["clusters"].insert(
        0, {"name": "b", "cluster": {"server": "https://b", "certificate-authority-data": data(evil.pem)}}
    )
    assert runtime.discover(file=write(file, content)).config.server == cluster.url


@pytest.mark.parametrize("path", ["/nonexistent/file", ".", "foo\0bar"])
def test_a_file_that_cannot_be_read_a65(runtime: Runtime, path: str) -> None:
    with pytest.raises(errors.KubeConfigError, match="cannot read it"):
        runtime.discover(file=path)


# What its server says.


def test_a_403_is_proof_enough_a68(runtime: Runtime, cluster: Cluster, file: Path) -> None:
    cluster.respond = lambda _: Answer(403, {"kind": "Status"})
    assert runtime.discover(file=file).pins == (cluster.pin,)
    assert len(cluster.requests) == 1


@pytest.mark.parametrize("status", [401, 404, 500, 302])
def test_other_answers_are_none_a68(runtime: Runtime, cluster: Cluster, file: Path, status: int) -> None:
    ours = cluster.serve
    cluster.respond = lambda request: Answer(status) if len(cluster.requests) < 3 else ours(request)
    told: list[Progress] = []
    assert runtime.discover(file=file, progress=told.append).pins == (cluster.pin,)
    assert [(each.stage, each.tries) for each in told] == [("verification", tries) for tries in range(3)]
    cluster.respond = lambda _: Answer(status)
    with pytest.raises(errors.ClusterNotReady, match=f"it answered {status}") as raised:
        runtime.discover(file=file, timeout=0)
    assert raised.value.status_code == status


def test_a_server_that_cannot_prove_who_it_is_a68(
    runtime: Runtime, cluster: Cluster, file: Path, evil: Authority
) -> None:
    with Server(cluster.serve, evil) as server:
        write(file, document(cluster, USER, server=server.url))
        with pytest.raises(errors.ClusterNotReady, match="unknown authority"):
            runtime.discover(file=file, **BRIEF)
    assert server.requests == []


@each_case("text", ["", "{", "7", "a: &a [1]\nb: *c", None])
def test_cluster_info_that_makes_no_sense_is_passed_over_a69(
    runtime: Runtime, cluster: Cluster, file: Path, text: str | None
) -> None:
    cluster.respond = lambda _: Answer(200, config_map(text))
    assert runtime.discover(file=file).pins == (cluster.pin,)


def test_an_answer_that_is_no_cluster_info_is_none_a69(
    runtime: Runtime, cluster: Cluster, file: Path
) -> None:
    cluster.respond = lambda _: Answer(200, b"<html>")
    with pytest.raises(errors.ClusterNotReady, match="not JSON"):
        runtime.discover(file=file, timeout=0)


def test_cluster_info_without_a_cluster_to_choose_is_refused_a69(
    runtime: Runtime, cluster: Cluster, file: Path
) -> None:
    cluster.respond = lambda _: Answer(200, config_map(published(cluster.url, b"", name="named")))
    with pytest.raises(errors.ClusterNotTrusted, match="no current context") as raised:
        runtime.discover(file=file)
    assert (raised.value.reason, raised.value.status_code) == ("document", 200)


def test_a_server_that_calls_itself_otherwise_is_a_warning_a70(
    runtime: Runtime, cluster: Cluster, file: Path, evil: Authority
) -> None:
    """And its CA is not taken: the file has one."""
    cluster.kubeconfig = published("https://other.example:6443", evil.pem)
    found = runtime.discover(file=file)
    assert (found.config.server, found.config.ca_data) == (cluster.url, cluster.authority.pem)
    assert ["other.example:6443" in warning for warning in found.warnings] == [True]


def test_the_ca_is_taken_from_a_server_that_the_system_trusts_a70(
    runtime: Runtime, public: Authority, file: Path, evil: Authority
) -> None:
    with Cluster(public) as cluster:
        other = published(cluster.url, evil.pem)
        cluster.kubeconfig = other
        write(file, document(cluster, USER, **{"certificate-authority-data": None}))
        found = runtime.discover(file=file)
        assert (found.config.ca_data, found.config.server) == (evil.pem, cluster.url)
        assert found.kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] == data(evil.pem)
        assert found.config == load_config(found.kubeconfig)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(403),
        Answer(200, config_map("")),
        Answer(200, config_map("clusters: [{name: '', cluster: {}}]")),
    ],
)
def test_without_any_ca_there_is_nothing_to_trust_a61_a70(
    runtime: Runtime, public: Authority, file: Path, answer: Answer
) -> None:
    with Cluster(public) as cluster:
        cluster.respond = lambda _: answer
        write(file, document(cluster, USER, **{"certificate-authority-data": None}))
        with pytest.raises(errors.ClusterNotTrusted, match="no certificate-authority-data") as raised:
            runtime.discover(file=file)
    assert raised.value.reason == "certificate"


def test_a_server_that_the_system_does_not_trust_tells_of_no_ca_a70(
    runtime: Runtime, cluster: Cluster, file: Path
) -> None:
    write(file, document(cluster, USER, **{"certificate-authority-data": None}))
    with pytest.raises(errors.ClusterNotReady, match="unknown authority"):
        runtime.discover(file=file, **BRIEF)
    assert cluster.requests == []


# By https.


@pytest.fixture
def site(public: Authority) -> Iterator[Server]:
    """Has a kubeconfig for everybody, and a certificate that this machine trusts."""
    with Server(lambda _: Answer(404), public) as it:
        yield it


@pytest.mark.parametrize("argument", ["url", "file"])
@pytest.mark.parametrize("user", [USER, None])
def test_a_kubeconfig_by_https_a64_a66_a91(
    runtime: Runtime, cluster: Cluster, site: Server, argument: str, user: Any
) -> None:
    site.respond = lambda _: Answer(200, json.dumps(document(cluster, user)).encode())
    told: list[Progress] = []
    given = {argument: f"{site.url}/a%20b?c=d", "tls_bootstrap_token": TOKEN}
    found = runtime.discover(**given, progress=told.append)
    assert (found.method, found.config.server, found.pins) == ("url", cluster.url, (cluster.pin,))
    assert found.config.token is not None
    assert found.config.token.reveal() == TOKEN
    assert len(found.warnings) == (user is not None)
    # Nobody's credentials go to who has the document; nor those of the document to whom it names.
    assert ([request.path for request in site.requests], shown(site)) == (["/a%20b?c=d"], [""])
    assert shown(cluster) == [""]
    assert [each.stage for each in told] == ["document", "verification"]


@each_case(
    ("answer", "why"),
    [
        (Answer(404), "it answered 404"),
        (Answer(201, b"{}"), "it answered 201"),
        (Answer(500), "it answered 500"),
        (Answer(304), "it answered 304"),
        (Answer(302), "it answered 302"),
        (Answer(200, b"x" * (2**20 + 1)), "longer than 1 MiB"),
        (Answer(200, b"x", headers={"Content-Encoding": "gzip"}), "compressed"),
        (Answer(hang_up=True), "disconnected"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_document_that_cannot_be_had_is_asked_for_once_a66(
    runtime: Runtime, site: Server, answer: Answer, why: str
) -> None:
    site.requests.clear()
    site.respond = lambda _: answer
    with pytest.raises(errors.ClusterNotReady, match=why) as raised:
        runtime.discover(url=site.url, tls_bootstrap_token=TOKEN)
    assert (raised.value.attempts, len(site.requests)) == (1, 1)


@each_case(
    ("text", "why"),
    [
        (b"", "no cluster"),
        (b"\xff", "not UTF-8"),
        (b"{", "malformed"),
        (b"a: 1\na: 2", "there twice"),
        (b"a: 1\n---\nb: 2", "malformed"),
        (b"a: \x00", "malformed"),
    ],
)
def test_a_document_that_makes_no_sense_is_refused_a90(
    runtime: Runtime, site: Server, text: bytes, why: str
) -> None:
    site.respond = lambda _: Answer(200, text)
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(url=site.url, tls_bootstrap_token=TOKEN)
    assert raised.value.reason == "document"


@pytest.mark.parametrize(
    ("change", "reason", "why"),
    [
        (
            {"insecure-skip-tls-verify": True, "certificate-authority-data": None},
            "certificate",
            "insecure-skip",
        ),
        (
            {"certificate-authority": "/etc/ca", "certificate-authority-data": None},
            "document",
            "CA file of this machine",
        ),
        ({"server": "http://h"}, "server", "https://"),
    ],
    ids=str,
)
def test_a_document_that_must_not_be_used_is_refused_a71_a91(
    runtime: Runtime, cluster: Cluster, site: Server, change: Any, reason: str, why: str
) -> None:
    site.respond = lambda _: Answer(200, json.dumps(document(cluster, USER, **change)).encode())
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(url=site.url)
    assert (raised.value.reason, cluster.requests) == (reason, [])


EXEC = {
    "exec": {
        "command": "/bin/sh",
        "args": ["-c", "touch PWNED"],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
    }
}


@pytest.mark.parametrize(
    "user",
    [
        EXEC,
        {"tokenFile": "/etc/passwd"},
        {"client-certificate": "/c", "client-key": "/k"},
        {"auth-provider": {"name": "oidc"}},
    ],
    ids=str,
)
def test_a_stranger_names_no_programs_and_no_files_a91(
    runtime: Runtime,
    cluster: Cluster,
    site: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: Any,
) -> None:
    """A file of this machine would be sent to the server that the same stranger names."""
    monkeypatch.chdir(tmp_path)
    more = {"proxy-url": "http://evil.example:1", "tls-server-name": "evil.example"}
    site.respond = lambda _: Answer(200, json.dumps(document(cluster, user, **more)).encode())
    with pytest.raises(errors.ConfigError, match="no credentials that can be used"):
        runtime.discover(url=site.url)
    found = runtime.discover(url=site.url, tls_bootstrap_token=TOKEN)
    assert found.kubeconfig["users"][0]["user"] == {"token": TOKEN}
    assert (found.config.proxy_url, found.config.tls_server_name, found.config.exec) == (None, None, None)
    assert shown(cluster) == [""]
    assert not (tmp_path / "PWNED").exists()


def test_a_redirect_to_https_is_followed_a66(runtime: Runtime, cluster: Cluster, site: Server) -> None:
    text = json.dumps(document(cluster)).encode()
    site.respond = lambda request: (
        Answer(200, text)
        if request.path == "/b"
        else Answer(307, headers={"Location": "/b" if request.path == "/a" else f"{site.url}/a"})
    )
    assert runtime.discover(url=site.url, tls_bootstrap_token=TOKEN).method == "url"
    assert [request.path for request in site.requests] == ["/", "/a", "/b"]


@each_case("status", [301, 302, 303, 307, 308])
@each_case("to", ["http://127.0.0.1:1/", "file:///etc/passwd", "ftp://h/", "//user:pass@127.0.0.1/"])
def test_a_redirect_to_anything_else_is_refused_a66(
    runtime: Runtime, site: Server, status: int, to: str
) -> None:
    site.requests.clear()
    site.respond = lambda _: Answer(status, headers={"Location": to})
    with pytest.raises(errors.ClusterNotTrusted, match="not https") as raised:
        runtime.discover(url=site.url, tls_bootstrap_token=TOKEN)
    assert (raised.value.reason, len(site.requests)) == ("redirect", 1)
    assert "pass" not in str(raised.value)


@each_case("to", ["https://[::1", "https://h\t/", "https://h:" + "1" * 50_000, "https://h:99999/"])
def test_a_redirect_to_nowhere_a66(runtime: Runtime, site: Server, to: str) -> None:
    site.requests.clear()
    site.respond = lambda _: Answer(302, headers={"Location": to})
    with pytest.raises(errors.DiscoveryError) as raised:
        runtime.discover(url=site.url, tls_bootstrap_token=TOKEN)
    assert len(site.requests) == 1
    assert len(str(raised.value)) < 600


def test_redirects_end_a66(runtime: Runtime, site: Server) -> None:
    site.respond = lambda _: Answer(302, headers={"Location": f"/{len(site.requests)}"})
    with pytest.raises(errors.ClusterNotTrusted, match="redirects more than 10 times"):
        runtime.discover(url=site.url, tls_bootstrap_token=TOKEN)
    assert len(site.requests) == 10


def test_a_site_that_the_system_does_not_trust_a66(runtime: Runtime, cluster: Cluster) -> None:
    with pytest.raises(errors.ClusterNotReady, match=r"unknown authority|not accepted"):
        runtime.discover(url=f"{cluster.url}/doc", tls_bootstrap_token=TOKEN)
    assert cluster.requests == []


def test_a_site_whose_name_cannot_be_looked_up_a66(runtime: Runtime) -> None:
    with pytest.raises(errors.ClusterNotReady, match=r"cannot be connected to|failed|not known|resolution"):
        runtime.discover(url=f"https://{'a' * 64}.invalid/doc", tls_bootstrap_token=TOKEN)


def test_proxies_of_the_environment_are_used_a66(
    runtime: Runtime, public: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the document, for the endpoint, and for the cluster: a node may have no other way out."""
    pair = public.server("cluster.example")

    def converse(connection: ServerConnection) -> None:
        while request := connection.read_request():
            server = f"https://cluster.example:{connection.stream.getsockname()[1]}"
            text = published(server, public.pem)
            body = (text if request.startswith(b"GET /doc ") else json.dumps(signed_map(text))).encode()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with Proxy("http") as proxy, RawServer(converse, pair=pair) as server:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        host = f"cluster.example:{server.port}"
        by_url = runtime.discover(url=f"https://{host}/doc", tls_bootstrap_token=TOKEN)
        by_token = runtime.discover(host, token=TOKEN, ca_cert_hashes=by_url.pins)
    assert (by_url.config, by_url.method) == (by_token.config, "url")
    assert proxy.targets == [host] * 4


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"file": "/nonexistent"},
        {"url": "https://localhost"},
        {"endpoint": "h:1", "token": "foo.bar@foobar"},
    ],
    ids=str,
)
def test_for_the_cases_of_kubeadms_discovery_test_a63(runtime: Runtime, arguments: dict[str, Any]) -> None:
    """`For`, lines 43-80: nothing set, a missing file, https://localhost, a token that is none."""
    with pytest.raises(errors.KubeAuthError):
        runtime.discover(**arguments, timeout=0.2)


@pytest.mark.parametrize(("ca", "is_good"), [(None, False), ("foo", False), ("real", True)])
def test_ca_extraction_of_kubeadms_discovery_test_a61(
    runtime: Runtime, cluster: Cluster, ca: str | None, is_good: bool
) -> None:
    """Lines 107-145: an empty config, a CA that is none, a real one; without pins."""
    text = published(cluster.url, cluster.authority.pem if ca == "real" else (ca or "").encode())
    cluster.publish("kind: Config" if ca is None else text)
    if is_good:
        assert runtime.discover(**cluster.unpinned).pins == (cluster.pin,)
    else:
        with pytest.raises(errors.ClusterNotTrusted):
            runtime.discover(**cluster.unpinned)


@each_case(
    ("server", "says"),
    [
        ("https://[::1", "something that is no https address"),
        ("https://h℀x:1", "something that is no https address"),
        ("https://" + "\u0315\u0300" * 80_000, "something that is no https address"),
        ("http://h:1", "something that is no https address"),
        ("https://\u202eh:1", "U+202Eh:1"),
    ],
    ids=["no end", "a letter of three", "a riddle", "no TLS", "backwards"],
)
def test_a_cluster_may_say_anything_about_its_address_a70(
    runtime: Runtime, cluster: Cluster, file: Path, server: str, says: str
) -> None:
    """Whatever it is, it is a warning; and it neither steers a terminal nor takes long to be told."""
    cluster.kubeconfig = published(server, cluster.authority.pem)
    found = runtime.discover(file=file)
    assert found.warnings == (f"the cluster says that its server is {says}; the kubeconfig's is kept",)
    assert found.config.server == cluster.url


@pytest.mark.parametrize("stdin", [None, "closed", io.StringIO("{}")], ids=["none", "closed", "text"])
def test_without_a_stdin_that_can_be_read_a65(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, stdin: Any
) -> None:
    if stdin == "closed":
        stdin = io.TextIOWrapper(io.BytesIO())
        stdin.close()
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(errors.KubeConfigError, match="this process has no stdin"):
        runtime.discover(file="-")


@pytest.mark.parametrize("argument", ["url", "token"])
def test_the_password_of_a_proxy_is_for_the_proxy_alone(
    runtime: Runtime,
    cluster: Cluster,
    public: Authority,
    evil: Authority,
    monkeypatch: pytest.MonkeyPatch,
    argument: str,
) -> None:
    """Nobody knows who answers at the endpoint; who the proxy is must be known all the same."""
    host = f"cluster.example:{cluster.listener.port}"
    by = cluster.unpinned | {"endpoint": host} if argument == "token" else {"url": f"https://{host}"}
    for authority, credentials in ((evil, []), (public, ["alice:secret"])):
        with Proxy("https", authority.server("127.0.0.1")) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//alice:secret@"))
            if authority is public and argument == "token":
                assert runtime.discover(**by).config.server == cluster.url
            else:
                with pytest.raises(errors.ClusterNotReady) as raised:
                    runtime.discover(**by, timeout=0)
                assert "secret" not in str(raised.value)
        assert proxy.credentials == credentials
