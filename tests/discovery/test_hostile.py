"""Whoever answers may be anybody: nothing that he does yields a cluster to trust, and none of it takes long.

A real server with TLS on loopback, byte for byte.
"""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import ssl
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kubeauth import errors
from kubeauth.discovery import public_key_pin
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.discovery.certificates import certificate as odd_certificate
from tests.discovery.certificates import pem as odd_pem
from tests.discovery.clusters import (
    BRIEF,
    PATH,
    TOKEN,
    Cluster,
    Runtime,
    config_map,
    data,
    published,
    shown,
)
from tests.registry.servers import Server, header
from tests.support.cases import each_case
from tests.support.raw_server import RawServer, ServerConnection
from tests.support.residue import no_residue

# Somebody in between.


def in_between(cluster: Cluster, evil: Authority) -> Server:
    """Passes on what the cluster has published, and has no key of its CA."""
    return Server(lambda request: cluster.serve(request), evil)


def test_a_man_in_the_middle_who_passes_it_on_is_found_out_a47_a87(
    runtime: Runtime, cluster: Cluster, evil: Authority
) -> None:
    """It is signed, and it is pinned, and it may be years old: who is there cannot prove who he is."""
    with in_between(cluster, evil) as server:
        with pytest.raises(errors.ClusterNotReady, match="unknown authority") as raised:
            runtime.discover(**cluster.by_token | {"endpoint": server.host}, **BRIEF)
    assert str(raised.value).endswith(
        "and for this address: is somebody in between?"
    )  # no kubeconfig is blamed
    assert raised.value.attempts > 1
    assert len(server.requests) == 1  # nothing was asked of who is not the cluster
    assert shown(server) == [""]


def test_a_certificate_for_another_name_is_refused_a47(
    runtime: Runtime, cluster: Cluster, authority: Authority
) -> None:
    pair = authority.server("other.example")
    body = json.dumps(config_map(cluster.kubeconfig, cluster.signature)).encode()
    with RawServer(answering(body), pair=pair) as server:
        with pytest.raises(errors.ClusterNotReady, match="for another name"):
            runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, **BRIEF)
    assert len(server.requests) == 1


def test_the_ca_is_swapped_between_the_two_fetches_a48(
    runtime: Runtime, cluster: Cluster, evil: Authority
) -> None:
    other = published(cluster.url, evil.pem)
    first = cluster.kubeconfig

    def serve(_: RawRequest) -> Answer:
        text = first if len(cluster.requests) == 1 else other
        return Answer(200, config_map(text, cluster.signed(text)))

    cluster.respond = serve
    with pytest.raises(errors.ClusterNotTrusted, match="something else when it was asked again") as raised:
        runtime.discover(**cluster.by_token)
    assert (raised.value.reason, len(cluster.requests)) == ("changed", 2)


@pytest.mark.parametrize("change", ["\n", " ", "# "])
def test_the_second_answer_is_the_first_to_the_letter_a48(
    runtime: Runtime, cluster: Cluster, change: str
) -> None:
    first = cluster.kubeconfig

    def serve(_: RawRequest) -> Answer:
        text = first if len(cluster.requests) == 1 else first + change
        return Answer(200, config_map(text, cluster.signed(text)))

    cluster.respond = serve
    with pytest.raises(errors.ClusterNotTrusted, match="something else"):
        runtime.discover(**cluster.by_token)


def test_the_second_answer_is_waited_for_too_a47(runtime: Runtime, cluster: Cluster) -> None:
    ours = cluster.serve
    others = {2: Answer(503), 3: Answer(200, config_map(cluster.kubeconfig, None))}
    cluster.respond = lambda request: others.get(len(cluster.requests)) or ours(request)
    assert runtime.discover(**cluster.by_token).pins == (cluster.pin,)
    assert len(cluster.requests) == 4


def test_the_second_answer_must_be_signed_too_a47(runtime: Runtime, cluster: Cluster) -> None:
    ours = cluster.serve
    cluster.respond = lambda request: (
        ours(request) if len(cluster.requests) == 1 else Answer(200, config_map(cluster.kubeconfig, "none"))
    )
    with pytest.raises(errors.ClusterNotTrusted, match="not signed"):
        runtime.discover(**cluster.by_token)


@pytest.mark.parametrize("order", [[0, 1], [1, 0], [1, 0, 1, 0, 1]])
def test_an_evil_ca_beside_the_pinned_one_is_left_out_a51(
    runtime: Runtime, cluster: Cluster, evil: Authority, order: list[int]
) -> None:
    """Whoever has a token can publish it, well signed."""
    bundle = b"".join([cluster.authority.pem, evil.pem][number] for number in order)
    cluster.publish(published(cluster.url, bundle))
    found = runtime.discover(**cluster.by_token)
    assert found.pins == (cluster.pin,)
    # The same certificate more than once is no harm.
    assert found.config.ca_data == cluster.authority.pem * order.count(0)
    assert data(evil.pem)[60:120] not in json.dumps(found.kubeconfig)
    assert [public_key_pin(evil.pem) in warning for warning in found.warnings] == [True]


def test_an_evil_server_with_an_evil_ca_beside_the_pinned_one_a51(
    runtime: Runtime, cluster: Cluster, evil: Authority
) -> None:
    """kubeadm would take it: one of the bundle is pinned, and the server's certificate is good for the bundle."""
    cluster.publish(published(cluster.url, cluster.authority.pem + evil.pem))
    with in_between(cluster, evil) as server:
        with pytest.raises(errors.ClusterNotReady, match="unknown authority"):
            runtime.discover(**cluster.by_token | {"endpoint": server.host}, **BRIEF)
    assert len(server.requests) == 1


# What is published, well signed, by somebody who has a token.


def kubeconfig(
    cluster: Cluster, *, top: str = "", server: str = "", ca: str | None = None, more: str = ""
) -> str:
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: ""
  cluster:
    server: {server or cluster.url}
    certificate-authority-data: {data(cluster.authority.pem) if ca is None else ca}
    {more}
{top}
"""


LEAF = Authority("leaf CA").server("leaf.example").certificate


@each_case(
    ("change", "reason", "why"),
    [
        ({"server": "http://127.0.0.1:6443"}, "server", "must begin with https://"),
        ({"server": "127.0.0.1:6443"}, "server", "must begin with https://"),
        ({"server": "ftp://127.0.0.1"}, "server", "scheme"),
        ({"server": "https://user:pass@127.0.0.1:6443"}, "server", "hold no password"),
        ({"server": "https://"}, "server", "cannot be right"),
        ({"server": '"https://h\\r\\nX: 1"'}, "server", "cannot be right"),
        ({"server": "'https://[::1'"}, "server", "cannot be right"),
        ({"server": "[]"}, "document", "must be a string"),
        ({"server": "null"}, "server", "cannot be right"),
        ({"ca": ""}, "certificate", "no certificate-authority-data"),
        ({"ca": "null"}, "certificate", "no certificate-authority-data"),
        ({"ca": '"", "certificate-authority": "/etc/ssl/ca.pem"'}, "document", "malformed"),
        ({"ca": '""', "more": "certificate-authority: /etc/passwd"}, "certificate", "no certificate-authority-data"),
        ({"ca": "Zm9v"}, "certificate", "there is no certificate"),
        ({"ca": data("-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n")}, "certificate", "cannot be read"),
        ({"ca": data("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n")}, "certificate", "not base64"),
        ({"ca": data("-----BEGIN CERTIFICATE-----\nA: b\n\nZm9v\n-----END CERTIFICATE-----\n")}, "certificate", "no certificate"),
        ({"ca": data(odd_pem(odd_certificate() + b"\x00"))}, "certificate", "something behind it"),
        ({"ca": "%%%"}, "document", "malformed"),
        ({"top": "clusters: []"}, "document", "there twice"),
        ({"more": "server: https://evil.example"}, "document", "there twice"),
        ({"top": "contexts: 7"}, "document", "must be a list"),
        ({"top": "users: [{name: u, user: {exec: 7}}]"}, "document", "must be a mapping"),
        ({"top": "---\nkind: Config"}, "document", "malformed"),
        ({"top": "a: &a [1]\nb: *nobody"}, "document", "unknown alias"),
        ({"top": "a: \x00"}, "document", "malformed"),
        ({"top": "\t- :"}, "document", "malformed"),
        ({"top": "a: " + "[" * 5000}, "document", "malformed"),
    ],
    ids=str,
)  # fmt: skip
def test_a_signed_kubeconfig_that_must_not_be_used_is_refused_at_once_a46_a61_a90_a91(
    runtime: Runtime, cluster: Cluster, change: dict[str, str], reason: str, why: str
) -> None:
    cluster.requests.clear()
    cluster.publish(kubeconfig(cluster, **change))
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(**cluster.unpinned)
    assert (raised.value.reason, len(cluster.requests)) == (reason, 1)


@each_case(
    ("text", "why"),
    [
        ("", "not set up"),
        ("null", "no cluster"),
        ("7", "must be a mapping"),
        ("[]", "must be a mapping"),
        ("{}", "no cluster"),
        ("{", "malformed"),
        ("clusters: []", "no cluster"),
        ("clusters: null\ncurrent-context: x", "no cluster"),
        ("kind: Secret", "malformed"),
        ('{"clusters": [], "clusters": []}', "there twice"),
        ("{clusters: [], clusters: []}", "there twice"),
        ("x" * 500 + "\x07", "malformed"),
        # An alias bomb: a billion of them, if anybody counted.
        ("\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]), "malformed"),
    ],
)  # fmt: skip
def test_what_is_no_kubeconfig_is_refused_at_once_a43_a90(
    runtime: Runtime, cluster: Cluster, text: str, why: str
) -> None:
    cluster.requests.clear()
    cluster.publish(text)
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(**cluster.unpinned)
    assert (raised.value.reason, len(cluster.requests)) == ("document", 1)


def test_a_kubeconfig_that_is_not_signed_is_not_even_parsed_a90(runtime: Runtime, cluster: Cluster) -> None:
    """It would be refused as a document if it were."""
    cluster.respond = lambda _: Answer(200, config_map("a: " + "[" * 5000, "nonsense"))
    with pytest.raises(errors.ClusterNotTrusted, match="not signed") as raised:
        runtime.discover(**cluster.unpinned)
    assert raised.value.reason == "signature"


def test_more_than_one_cluster_is_refused_a50(runtime: Runtime, cluster: Cluster, evil: Authority) -> None:
    other = (
        f"- name: other\n  cluster: {{server: {cluster.url}, certificate-authority-data: {data(evil.pem)}}}"
    )
    cluster.publish(cluster.kubeconfig.replace("clusters:\n", f"clusters:\n{other}\n"))
    with pytest.raises(errors.ClusterNotTrusted, match="has 2 clusters: there must be one"):
        runtime.discover(**cluster.by_token)


USERS = """
users:
- name: evil
  user:
    exec: {command: /bin/sh, args: [-c, "touch PWNED"], apiVersion: client.authentication.k8s.io/v1}
- name: worse
  user: {auth-provider: {name: oidc, config: {}}, tokenFile: /etc/passwd, token: t, as: system:masters}
contexts: [{name: c, context: {cluster: "", user: evil, namespace: kube-system}}]
current-context: c
"""


def test_users_programs_proxies_and_flags_are_left_out_a59_a91(
    runtime: Runtime, cluster: Cluster, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = (
        "proxy-url: http://evil.example:3128\n    insecure-skip-tls-verify: true\n"
        "    tls-server-name: evil.example\n    disable-compression: true"
    )
    cluster.publish(kubeconfig(cluster, top=USERS, more=more))
    found = runtime.discover(**cluster.by_token)
    (entry,) = found.kubeconfig["clusters"]
    assert set(entry["cluster"]) == {"server", "certificate-authority-data"}
    assert found.kubeconfig["users"] == [{"name": "tls-bootstrap-token-user", "user": {"token": TOKEN}}]
    config = found.config
    assert (config.exec, config.oidc, config.impersonate, config.proxy_url) == (None, None, None, None)
    assert (config.tls_server_name, config.insecure_skip_tls_verify, config.namespace) == (
        None,
        False,
        "default",
    )
    assert [word in found.warnings[0] for word in ("users", "proxy-url", "insecure-skip-tls-verify")] == [
        True
    ] * 3
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


def test_a_certificate_that_is_no_ca_signs_for_nobody(runtime: Runtime, cluster: Cluster) -> None:
    """It is pinned, and well signed; and no server can prove who it is by it."""
    cluster.publish(published(cluster.url, LEAF))
    with pytest.raises(errors.ClusterNotReady, match="unknown authority"):
        runtime.discover(**cluster.by_token | {"ca_cert_hashes": [public_key_pin(LEAF)]}, **BRIEF)


def test_a_pinned_ca_that_openssl_cannot_load_is_refused_at_once(runtime: Runtime, cluster: Cluster) -> None:
    pem = odd_pem(odd_certificate())
    cluster.publish(published(cluster.url, pem))
    with pytest.raises(errors.ClusterNotTrusted, match="contains no valid certificate") as raised:
        runtime.discover(**cluster.by_token | {"ca_cert_hashes": [public_key_pin(pem)]})
    assert (raised.value.reason, len(cluster.requests)) == ("certificate", 1)


# What a server does on the wire.


def answering(body: bytes, *lines: bytes, length: int | None = None) -> Callable[[ServerConnection], None]:
    headers = b"\r\n".join(
        [b"HTTP/1.1 200 OK", b"Content-Length: %d" % (len(body) if length is None else length), *lines]
    )

    def converse(connection: ServerConnection) -> None:
        while connection.read_request():
            connection.send(headers + b"\r\n\r\n" + body)

    return converse


def silent(connection: ServerConnection) -> None:
    """Hangs before a word is said."""
    connection.read_request()
    connection.wait_closed()


def within_headers(connection: ServerConnection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    connection.wait_closed()


def within_body(connection: ServerConnection) -> None:
    connection.read_request()
    connection.send(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"kind": ')
    connection.wait_closed()


def drip(connection: ServerConnection, first: bytes) -> None:
    """A byte at a time: each is in time, and they never end."""
    connection.read_request()
    connection.send(first)
    connection.stream.settimeout(0.02)
    for _ in range(2000):
        connection.send(b"x")
        with suppress(TimeoutError, ssl.SSLWantReadError):
            if not connection.stream.recv(1):
                return


def drips_headers(connection: ServerConnection) -> None:
    drip(connection, b"HTTP/1.1 200 OK\r\nX-A: ")


def drips_body(connection: ServerConnection) -> None:
    drip(connection, b"HTTP/1.1 200 OK\r\n\r\n")


def drips_with_length(connection: ServerConnection) -> None:
    drip(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "converse",
    [silent, within_headers, within_body, drips_headers, drips_body, drips_with_length],
    ids=lambda each: each.__name__,
)
def test_a_server_that_takes_its_time_is_not_waited_for_a49(
    runtime: Runtime, cluster: Cluster, converse: Callable[[ServerConnection], None]
) -> None:
    """That it ends at all is the claim."""
    with RawServer(converse, pair=cluster.authority.server("127.0.0.1")) as server:
        with no_residue():
            with pytest.raises(errors.ClusterNotReady, match="did not answer within") as raised:
                runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0.3)
    assert raised.value.attempts == 1


def test_a_server_that_does_not_shake_hands_a49(runtime: Runtime, cluster: Cluster) -> None:
    """It speaks no TLS: it says nothing at all."""
    with RawServer(ServerConnection.wait_closed) as server:
        with no_residue():
            with pytest.raises(errors.ClusterNotReady, match="did not answer"):
                runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0.3)


@pytest.mark.slow
def test_a_server_that_hangs_at_the_second_fetch_a49(runtime: Runtime, cluster: Cluster) -> None:
    body = json.dumps(config_map(cluster.kubeconfig, cluster.signature)).encode()
    pair = cluster.authority.server("127.0.0.1")
    for seconds in (1.0, 5.0, 20.0):  # on a busy machine it may not come as far as that
        with RawServer(answering(body), silent, pair=pair) as server:
            with pytest.raises(errors.ClusterNotReady, match="did not answer"):
                runtime.discover(
                    **cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"},
                    timeout=seconds,
                    interval=60,
                )
        if len(server.requests) > 1:
            break
    assert len(server.requests) == 2


class Flood:
    """Says as much as anybody will take, and counts it. Ends at 1 GB by itself."""

    PART = b"x" * 65536

    def __init__(self, first: bytes, part: bytes = PART) -> None:
        self.first = first
        self.part = part
        self.sent = 0

    def __call__(self, connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(self.first)
        while self.sent < 2**30:
            connection.send(self.part)
            self.sent += len(self.part)


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


LONG = "longer than 1 MiB"
FLOODS = {
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", Flood.PART, LONG),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(Flood.PART), LONG),
    "with a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", Flood.PART, LONG),
    "a length like none": (
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        Flood.PART,
        "was asked once",
    ),
    "404": (b"HTTP/1.1 404 Not Found\r\n\r\n", Flood.PART, "it answered 404"),
    "redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\n\r\n",
        Flood.PART,
        "it answered 302",
    ),
    "one header": (b"HTTP/1.1 200 OK\r\nX-A: ", Flood.PART, "was asked once"),
    "many headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 8000, "was asked once"),
    "no line": (b"", Flood.PART, "was asked once"),
    "compressed": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
        gzip.compress(b"\0" * 2**22),
        "compressed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_turned_off_early_a66_a90(runtime: Runtime, cluster: Cluster, kind: str) -> None:
    first, part, why = FLOODS[kind]
    flood = Flood(first, part)
    with RawServer(flood, pair=cluster.authority.server("127.0.0.1")) as server:
        with no_residue():
            with pytest.raises(errors.ClusterNotReady, match=why) as raised:
                runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0)
    # What is on its way in the buffers of both sides, and a megabyte.
    assert flood.sent < 32 * 2**20
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("encoding", "squeeze"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("GZIP", gzip.compress), ("br", bytes)],
)
def test_a_compressed_answer_is_not_unpacked_a81(
    runtime: Runtime, cluster: Cluster, encoding: str, squeeze: Callable[[bytes], bytes]
) -> None:
    """Not even a good one: nobody asked for it, and a few kilobytes may be gigabytes."""
    body = squeeze(json.dumps(config_map(cluster.kubeconfig, cluster.signature)).encode())
    cluster.respond = lambda _: Answer(200, body, headers={"Content-Encoding": encoding})
    with pytest.raises(errors.ClusterNotReady, match="compressed"):
        runtime.discover(**cluster.by_token, timeout=0)
    assert header(cluster.requests[0], "Accept-Encoding") == "identity"


def test_an_answer_of_many_values_is_not_taken_apart_a90(runtime: Runtime, cluster: Cluster) -> None:
    """It would hold up an event loop for seconds, and comes from anybody."""
    cluster.respond = lambda _: Answer(200, b"[" + b"1," * 500_000 + b"1]")
    with pytest.raises(errors.ClusterNotReady, match="has more in it than any ConfigMap"):
        runtime.discover(**cluster.by_token, timeout=0)


def test_an_answer_of_almost_a_megabyte_is_taken_and_one_of_more_is_not_a66(
    runtime: Runtime, cluster: Cluster
) -> None:
    cluster.publish(cluster.kubeconfig + "#" + "x" * 1_000_000)
    assert runtime.discover(**cluster.by_token).pins == (cluster.pin,)
    cluster.publish(cluster.kubeconfig + "x" * 100_000)
    with pytest.raises(errors.ClusterNotReady, match="longer than 1 MiB"):
        runtime.discover(**cluster.by_token, timeout=0)


@pytest.mark.parametrize("cut", [1, 10, 500])
def test_an_answer_that_is_cut_short_is_none(runtime: Runtime, cluster: Cluster, cut: int) -> None:
    body = json.dumps(config_map(cluster.kubeconfig, cluster.signature)).encode()
    pair = cluster.authority.server("127.0.0.1")

    def closes(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n" + body[:-cut])

    def closes_early(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:-cut])

    for converse, why in ((closes, "not JSON"), (closes_early, "closed|complet")):
        with RawServer(converse, pair=pair) as server:
            with pytest.raises(errors.ClusterNotReady, match=why):
                runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0)


@each_case(
    "line",
    [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", b"\x00" * 50 + b"\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
)  # fmt: skip
def test_something_that_is_no_http_is_no_answer(runtime: Runtime, cluster: Cluster, line: bytes) -> None:
    def converse(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(line)

    with RawServer(converse, pair=cluster.authority.server("127.0.0.1")) as server:
        with no_residue():
            with pytest.raises(errors.ClusterNotReady):
                runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0)


@pytest.mark.slow
def test_a_server_without_tls_is_no_server(runtime: Runtime, cluster: Cluster) -> None:
    """A downgrade: it would say all of it in clear text."""
    body = json.dumps(config_map(cluster.kubeconfig, cluster.signature)).encode()
    with RawServer(answering(body)) as server:
        with pytest.raises(errors.ClusterNotReady):
            runtime.discover(
                **cluster.unpinned | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0.5, interval=1
            )
    assert server.requests == []


@each_case("status", [301, 302, 303, 307, 308])
@each_case("to", ["http", "https", "relative"])
def test_no_redirect_is_followed_a66(
    runtime: Runtime, cluster: Cluster, authority: Authority, status: int, to: str
) -> None:
    cluster.requests.clear()
    ours = cluster.serve
    with Server(ours, None if to == "http" else authority) as other:
        location = "/elsewhere" if to == "relative" else other.url + PATH
        cluster.respond = lambda _: Answer(status, b"", headers={"Location": location})
        with pytest.raises(
            errors.ClusterNotReady, match=f"{status}, which is a redirect and is not followed"
        ):
            runtime.discover(**cluster.unpinned, timeout=0)
    assert (len(cluster.requests), other.requests) == (1, [])


def test_nothing_of_this_machine_is_shown(
    runtime: Runtime, cluster: Cluster, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No password of a .netrc, no cookie that was set, no client certificate."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login alice password wonderland\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    ours = cluster.serve
    cluster.respond = lambda request: Answer(200, ours(request).body, headers={"Set-Cookie": "a=b"})
    runtime.discover(**cluster.by_token)
    for request in cluster.requests:
        names = {name.lower() for name, _ in request.headers}
        assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert request.certificate is None


@pytest.mark.slow
def test_endless_interim_answers_end_with_the_time_there_is(runtime: Runtime, cluster: Cluster) -> None:
    def converse(connection: ServerConnection) -> None:
        connection.read_request()
        for _ in itertools.repeat(None, 100_000):
            connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50)

    with RawServer(converse, pair=cluster.authority.server("127.0.0.1")) as server:
        with pytest.raises(errors.ClusterNotReady, match="did not answer within"):
            runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0.5)


def test_a_connection_that_is_reset(runtime: Runtime, cluster: Cluster) -> None:
    def converse(connection: ServerConnection) -> None:
        connection.read_request()
        connection.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with RawServer(converse, pair=cluster.authority.server("127.0.0.1")) as server:
        with pytest.raises(errors.ClusterNotReady):
            runtime.discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}, timeout=0)
