"""A cluster found by a token, as kubeadm does it: each case in every runtime."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from kubeauth import Client, errors, load_config
from kubeauth.discovery import BootstrapToken, Progress, public_key_pin, sign_detached
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.discovery.clusters import (
    BRIEF,
    PATH,
    SECRET,
    TOKEN,
    Cluster,
    Runtime,
    config_map,
    data,
    published,
    shown,
)
from tests.support.cases import each_case


def test_a_pinned_cluster_is_found_a38_a45_a47_a59(runtime: Runtime, cluster: Cluster) -> None:
    found = runtime.discover(**cluster.by_token)
    assert found.kubeconfig == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "kubernetes",
                "cluster": {"server": cluster.url, "certificate-authority-data": data(cluster.authority.pem)},
            }
        ],
        "users": [{"name": "tls-bootstrap-token-user", "user": {"token": TOKEN}}],
        "contexts": [
            {
                "name": "tls-bootstrap-token-user@kubernetes",
                "context": {"cluster": "kubernetes", "user": "tls-bootstrap-token-user"},
            }
        ],
        "current-context": "tls-bootstrap-token-user@kubernetes",
    }
    assert found.config == load_config(found.kubeconfig)
    assert (found.method, found.pins, found.warnings) == ("token", (cluster.pin,), ())
    # Twice: by a stranger, and by somebody who could verify it. Nothing was ever shown.
    assert [(request.method, request.path) for request in cluster.requests] == [("GET", PATH)] * 2
    assert shown(cluster) == ["", ""]
    with Client(found.config) as client:
        assert client.get(PATH).status_code == 200
    assert shown(cluster)[-1] == f"Bearer {TOKEN}"


def test_without_pins_it_is_asked_once_a45(runtime: Runtime, cluster: Cluster) -> None:
    found = runtime.discover(**cluster.unpinned)
    assert (found.config.server, len(cluster.requests)) == (cluster.url, 1)


def test_pins_are_enforced_beside_the_unsafe_flag_a37(
    runtime: Runtime, cluster: Cluster, evil: Authority
) -> None:
    wrong = cluster.unpinned | {"ca_cert_hashes": [public_key_pin(evil.pem)]}
    with pytest.raises(errors.ClusterNotTrusted, match="pinned"):
        runtime.discover(**wrong)
    assert runtime.discover(**cluster.unpinned, ca_cert_hashes=[cluster.pin]).pins == (cluster.pin,)
    assert len(cluster.requests) == 3


def named(cluster: Cluster, *, context: str = "ctx", points_to: str = "somecluster") -> str:
    """As the kubeconfig of kubeadm's own tests: a cluster with a name, and a context."""
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: somecluster
  cluster: {{server: "https://127.0.0.1", certificate-authority-data: {data(cluster.authority.pem)}}}
contexts:
- name: ctx
  context: {{cluster: {points_to}, user: token-bootstrap-client}}
current-context: {context}
users: null
"""


def late(cluster: Cluster, tries: int) -> None:
    """Whoever signs has not seen the token at first."""
    signature, cluster.signature = cluster.signature, None
    ours = cluster.serve

    def serve(request: RawRequest) -> Answer:
        if len(cluster.requests) > tries:
            cluster.signature = signature
        return ours(request)

    cluster.respond = serve


# The flow cases of kubeadm's token_test.go, lines 60-206.


@pytest.mark.parametrize("is_late", [True, False], ids=["JWS patched late", "JWS there"])
@pytest.mark.parametrize("is_pinned", [True, False], ids=["pin", "no pin"])
def test_it_waits_for_the_signature_a39_a44(
    runtime: Runtime, cluster: Cluster, is_late: bool, is_pinned: bool
) -> None:
    cluster.publish(named(cluster))
    if is_late:
        late(cluster, 3)
    found = runtime.discover(**(cluster.by_token if is_pinned else cluster.unpinned))
    assert found.config.server == "https://127.0.0.1"
    assert len(cluster.requests) == 1 + 3 * is_late + is_pinned


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ({"context": "other"}, "there is no current context, 'other' of it"),
        ({"points_to": "foo"}, "the context 'ctx' names the cluster 'foo', which is not there"),
    ],
    ids=["wrong current context", "context names a missing cluster"],
)
def test_a_kubeconfig_whose_context_leads_nowhere_a44(
    runtime: Runtime, cluster: Cluster, text: dict[str, str], why: str
) -> None:
    cluster.publish(named(cluster, **text))
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(**cluster.by_token)
    assert (raised.value.reason, raised.value.status_code, len(cluster.requests)) == ("document", None, 1)


@each_case(
    ("wrong", "why"),
    [
        ({"token": "foo.bar"}, "not a bootstrap token"),
        ({"ca_cert_hashes": ["foo"]}, "invalid CA hash"),
        ({"ca_cert_hashes": ["md5:" + "0" * 64]}, "invalid CA hash"),
        ({"ca_cert_hashes": ["sha256:" + "0" * 63]}, "invalid CA hash"),
        ({"ca_cert_hashes": ["sha256:" + "0" * 65]}, "invalid CA hash"),
        ({"ca_cert_hashes": []}, "ca_cert_hashes= is missing"),
        ({"tls_bootstrap_token": "foo.bar"}, "not a bootstrap token"),
        ({"endpoint": "127.0.0.1"}, "must be host:port"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_before_anybody_is_asked_a36_a40_a42(
    runtime: Runtime, cluster: Cluster, wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(errors.ConfigError, match=why):
        runtime.discover(**cluster.by_token | wrong)
    assert cluster.requests == []


@each_case(
    ("answer", "why", "status"),
    [
        (Answer(404, {"kind": "Status"}), "it answered 404", 404),
        (Answer(401, {}), "it answered 401", 401),
        (Answer(403, {}), "it answered 403", 403),
        (Answer(500, b""), "it answered 500", 500),
        (Answer(503, b"x" * 100_000), "it answered 503", 503),
        (Answer(204), "it answered 204", 204),
        (Answer(302, b"", headers={"Location": "http://127.0.0.1:1/"}), "302, which is a redirect", 302),
        (Answer(200, b"<html>log in"), "not JSON", 200),
        (Answer(200, b""), "not JSON", 200),
        (Answer(200, b"null"), "not a JSON object", 200),
        (Answer(200, [1]), "not a JSON object", 200),
        (Answer(200, {"kind": "Status"}), "not a ConfigMap", 200),
        (Answer(200, b"{" * 10_000), "not JSON", 200),
        (Answer(200, b'{"a":' * 10_000 + b"1" + b"}" * 10_000), "not JSON", 200),
        (Answer(200, b"\xff\xfe"), "not JSON", 200),
        (Answer(200, config_map("x", "y", metadata={"name": "baz", "namespace": "kube-public"})), "another ConfigMap", 200),
        (Answer(200, config_map("x", "y", metadata={"name": "cluster-info"})), "another ConfigMap", 200),
        (Answer(200, config_map("x", "y", metadata=7)), "not a ConfigMap", 200),
        (Answer(200, config_map("x", "y", data={"kubeconfig": 7})), "not a ConfigMap", 200),
        (Answer(200, config_map("x", "y", kind="Secret")), "not a ConfigMap", 200),
        (Answer(200, config_map("x", "y", data=None)), "no signature for the token id 123456", 200),
        (Answer(200, b'{"kind": "ConfigMap", "kind": "ConfigMap"}'), "has a field twice", 200),
        (Answer(hang_up=True), "disconnected", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_request_that_fails_says_why_a39_a62(
    runtime: Runtime, cluster: Cluster, answer: Answer, why: str, status: int | None
) -> None:
    """With no time at all there is one try."""
    cluster.requests.clear()
    cluster.respond = lambda _: answer
    with pytest.raises(errors.ClusterNotReady, match=why) as raised:
        runtime.discover(**cluster.by_token, timeout=0)
    assert (raised.value.status_code, raised.value.attempts, len(cluster.requests)) == (status, 1, 1)
    assert "could not be validated" in str(raised.value)


def test_it_is_asked_again_and_the_last_reason_is_told_a39(runtime: Runtime, cluster: Cluster) -> None:
    cluster.respond = lambda _: Answer(503 if len(cluster.requests) < 3 else 418)
    with pytest.raises(errors.ClusterNotReady, match="it answered 418") as raised:
        runtime.discover(**cluster.by_token, **BRIEF)
    assert raised.value.status_code == 418
    # The last one may have been over before it got there.
    assert 2 < len(cluster.requests) <= raised.value.attempts <= len(cluster.requests) + 1


def test_nobody_is_there_a39(runtime: Runtime, cluster: Cluster) -> None:
    cluster.listener.close()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", cluster.listener.port))  # or it may be somebody else's by now
        with pytest.raises(errors.ClusterNotReady, match="at last: the connection was refused") as raised:
            runtime.discover(**cluster.by_token, **BRIEF)
    assert raised.value.attempts > 1
    assert raised.value.status_code is None


def test_a_cluster_that_comes_up_later_is_found_a39(runtime: Runtime, cluster: Cluster) -> None:
    ours = cluster.serve
    answers = [Answer(hang_up=True), Answer(503), Answer(404), Answer(401), Answer(403)]
    cluster.respond = lambda request: answers.pop(0) if answers else ours(request)
    told: list[Progress] = []
    found = runtime.discover(**cluster.by_token, progress=told.append)
    assert (found.pins, len(cluster.requests)) == ((cluster.pin,), 7)
    assert [(each.stage, each.tries) for each in told] == [
        *(("endpoint", tries) for tries in range(6)),
        ("verification", 0),
    ]
    assert [each.reason for each in told[2:5]] == [
        "it answered 503",
        "it answered 404: there is no cluster-info",
        "it answered 401: strangers may ask it nothing",
    ]
    assert all(0 < each.seconds_left <= 20 for each in told)


def test_no_signature_in_time_a39(runtime: Runtime, cluster: Cluster) -> None:
    cluster.signature = None
    told: list[Progress] = []
    with pytest.raises(errors.ClusterNotReady, match="no signature for the token id 123456") as raised:
        runtime.discover(**cluster.by_token, **BRIEF, progress=told.append)
    assert (raised.value.status_code, raised.value.attempts > 1) == (200, True)
    assert {each.stage for each in told[1:]} == {"signature"}


@each_case(
    ("kubeconfig", "signature", "reason", "why"),
    [
        ("same", "", "signature", "unknown there, or the token is over"),
        ("same", "bar", "signature", "not signed with the token 123456.\\*\\*\\*\\*"),
        ("same", "eyJhbGciOiJub25lIiwia2lkIjoiMTIzNDU2In0..", "signature", "not signed"),
        ("same", sign_detached("same", "123456.0000000000000000"), "signature", "not signed"),
        ("same", sign_detached("same", f"654321.{SECRET}"), "signature", "not signed"),
        ("same", sign_detached("same", TOKEN) + "=", "signature", "not signed"),
        ("same", sign_detached("same", TOKEN).upper(), "signature", "not signed"),
        ("same", f" {sign_detached('same', TOKEN)}", "signature", "not signed"),
        ("same", "\u00e9\ud800", "signature", "not signed"),
        ("same", sign_detached("same\n", TOKEN), "signature", "not signed"),
        ("", sign_detached("", TOKEN), "document", "not set up"),
        (None, sign_detached("", TOKEN), "document", "not set up"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_signed_is_refused_at_once_a19_a41_a43_a85_a86(
    runtime: Runtime, cluster: Cluster, kubeconfig: str | None, signature: str, reason: str, why: str
) -> None:
    cluster.requests.clear()
    cluster.respond = lambda _: Answer(200, config_map(kubeconfig, signature))
    with pytest.raises(errors.ClusterNotTrusted, match=why) as raised:
        runtime.discover(**cluster.unpinned)
    assert (raised.value.reason, raised.value.status_code, len(cluster.requests)) == (reason, 200, 1)


def test_a_pin_of_another_ca_is_refused_with_what_was_seen_a46(
    runtime: Runtime, cluster: Cluster, evil: Authority
) -> None:
    with pytest.raises(errors.ClusterNotTrusted, match=cluster.pin) as raised:
        runtime.discover(**cluster.by_token | {"ca_cert_hashes": [public_key_pin(evil.pem)]})
    assert (raised.value.reason, raised.value.pins) == ("pin", (cluster.pin,))
    assert len(cluster.requests) == 1


def test_several_pins_and_a_renewed_certificate_a46(
    runtime: Runtime, cluster: Cluster, evil: Authority
) -> None:
    pins = [public_key_pin(evil.pem).upper(), cluster.pin]
    assert runtime.discover(**cluster.by_token | {"ca_cert_hashes": pins}).pins == (cluster.pin,)


def test_the_server_may_be_another_than_the_endpoint_a52(runtime: Runtime, cluster: Cluster) -> None:
    cluster.publish(published("https://api.example:6443", cluster.authority.pem))
    found = runtime.discover(**cluster.by_token)
    assert found.config.server == "https://api.example:6443"


def test_what_is_joined_with_may_be_told_apart_a36(runtime: Runtime, cluster: Cluster) -> None:
    other = BootstrapToken.parse("abcdef.0123456789abcdef")
    found = runtime.discover(**cluster.by_token, tls_bootstrap_token=other)
    assert found.kubeconfig["users"][0]["user"] == {"token": other.reveal()}
    assert found.config.token is not None
    assert found.config.token.reveal() == other.reveal()


def test_a_token_may_be_parsed_already(runtime: Runtime, cluster: Cluster) -> None:
    token = BootstrapToken.parse(TOKEN)
    assert runtime.discover(**cluster.by_token | {"token": token}).config.server == cluster.url
    with pytest.raises(errors.ConfigError, match="not a bootstrap token"):
        runtime.discover(**cluster.by_token | {"token": BootstrapToken("foo", "bar")})


def test_progress_is_told_in_the_callers_thread(runtime: Runtime, cluster: Cluster) -> None:
    threads: list[int] = []
    runtime.discover(**cluster.by_token, progress=lambda _: threads.append(threading.get_ident()))
    assert set(threads) == {threading.get_ident()}


def test_an_error_of_the_callers_own_ends_it(runtime: Runtime, cluster: Cluster) -> None:
    def progress(_: Progress) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        runtime.discover(**cluster.by_token, progress=progress)
    assert cluster.requests == []


def test_a_name_that_nobody_has(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller dealt with before is not taken for the reason."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *args: Any, **options: Any) -> Any:
        if host in (
            "nobody.invalid",
            b"nobody.invalid",
        ):  # without waiting for whoever this machine would ask
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    try:
        socket.create_connection(("127.0.0.1", 1))
    except ConnectionRefusedError:
        with pytest.raises(errors.ClusterNotReady, match="its name cannot be resolved: "):
            runtime.discover("nobody.invalid:6443", token=TOKEN, unsafe_skip_ca_verification=True, timeout=0)
