"""kubeauth beside kubectl on the wire: what arrives at a server, for the kubeconfigs of the corpus.

Each one is taken as kubectl selects it and pointed at a local server: its address and CA are exchanged, and
certificates that are none for real ones. Everything else is as it was.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth.testing import APIServer, Authority, Received
from tests.differential.corpus import CASES
from tests.differential.test_kubectl import VIEWED, view
from tests.support.clients import VARIANTS, ClientVariant

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(120)]

AUTHORITY = Authority()
CAROL = AUTHORITY.client("carol", ["dev"])


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def pointed_at(server: APIServer, shown: dict[str, Any], directory: Path) -> dict[str, Any] | None:
    """The kubeconfig for the local server; None if it has no static credential."""
    (cluster,) = shown.get("clusters") or [{"cluster": {}}]
    users = shown.get("users") or []
    own = {
        key: value
        for key, value in cluster["cluster"].items()
        if key in ("tls-server-name", "disable-compression")
    }
    name = own.get("tls-server-name")
    if name is not None and name != "kubernetes.default":
        own["tls-server-name"] = "kubernetes.default"
    user: dict[str, Any] = dict(users[0]["user"]) if users else {}
    if "auth-provider" in user:
        return None
    if "client-certificate-data" in user:
        user |= {"client-certificate-data": encoded(CAROL.certificate), "client-key-data": encoded(CAROL.key)}
    if "tokenFile" in user:
        # Flattening leaves it relative to where it stood.
        user["tokenFile"] = str(directory / user["tokenFile"])
    if not {"token", "tokenFile", "username", "client-certificate-data"} & set(user):
        return None  # kubectl would ask for a name on the terminal
    return server.kubeconfig(user, own)


def sent(request: Received) -> dict[str, object]:
    """What of it must be the same."""
    return {
        "authorization": request.header("authorization"),
        "certificate": request.common_name,
        "sni": request.sni,
        "impersonation": sorted(
            (n.lower(), v) for n, v in request.headers if n.lower().startswith("impersonate")
        ),
        "compression": "gzip" in (request.header("accept-encoding") or ""),
    }


@pytest.fixture(scope="module")
def wire() -> Any:
    certificate = AUTHORITY.server("127.0.0.1", "kubernetes.default")
    with APIServer(authority=AUTHORITY, certificate=certificate) as server:
        yield server


@pytest.fixture(scope="module")
def documents(kubectl: str, wire: APIServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every different one, by the first case that led to it."""
    found: dict[str, str] = {}
    for case in CASES:
        if case in VIEWED and not case.broken:
            directory = tmp_path_factory.mktemp("case")
            case.write(directory)
            shown = view(kubectl, case, directory)
            document = pointed_at(wire, shown, directory) if isinstance(shown, dict) else None
            if document is not None:
                found.setdefault(json.dumps(document, sort_keys=True), case.id)
    return found


def arrived(wire: APIServer) -> Received:
    request = wire.requests[-1]
    wire.requests.clear()
    return request


def by_kubectl(kubectl: str, path: Path) -> None:
    run = subprocess.run(
        [kubectl, "get", "--raw", "/version", f"--kubeconfig={path}", f"--cache-dir={path.parent}"],
        env={"HOME": str(path.parent), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(run.stderr)


def by_kubeauth(variant: ClientVariant, path: Path) -> None:
    with variant.client(kubeauth.load_config(path)) as client:
        client.get("/version").raise_for_status()


@pytest.mark.slow
def test_the_corpus_reaches_the_wire_as_with_kubectl(
    kubectl: str, wire: APIServer, documents: dict[str, str], tmp_path: Path
) -> None:
    kinds: set[tuple[str, ...]] = set()
    for document, case in documents.items():
        path = tmp_path / "config"
        path.write_text(document)
        try:
            by_kubectl(kubectl, path)
        except RuntimeError as refusal:
            # A token that is no header: kubectl fails when it is sent, we when the client is built.
            assert "invalid header field value" in str(refusal)
            for variant in VARIANTS:
                with pytest.raises(
                    kubeauth.errors.ConfigError, match=r"not a valid HTTP header value|cannot be sent"
                ):
                    by_kubeauth(variant, path)
            continue
        theirs = sent(arrived(wire))
        for variant in VARIANTS:
            by_kubeauth(variant, path)
            assert sent(arrived(wire)) == theirs, (case, str(variant))
        kinds.add(tuple(name for name, value in theirs.items() if value))
    # The test would notice an empty corpus: these came to it.
    everything = {name for kind in kinds for name in kind}
    assert everything == {"authorization", "certificate", "sni", "impersonation", "compression"}
    assert len(documents) >= 10


PAIR = {"client-certificate-data": encoded(CAROL.certificate), "client-key-data": encoded(CAROL.key)}
IMPERSONATION = {
    "as": "jörg", "as-uid": "7", "as-groups": ["a", "b"],
    "as-user-extra": {"example.com/Scopes": ["x", "y z"], "acme%thing": ["1"], "ünï": ["v"], "dots.and-dashes_": ["w"]},
}  # fmt: skip
USERS: dict[str, dict[str, Any]] = {
    "token": {"token": "abc.def-_~+/="},
    "basic": {"username": "bob", "password": "pässword: with blanks"},
    "basic without a password": {"username": "bob"},
    "certificate": PAIR,
    "certificate and token": {**PAIR, "token": "t"},
    "certificate and basic": {**PAIR, "username": "u", "password": "p"},
    "impersonation": {"token": "t", **IMPERSONATION},
    "impersonation with a certificate": {**PAIR, **IMPERSONATION},
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "server name": {"tls-server-name": "kubernetes.default"},
    "no compression": {"disable-compression": True},
}


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("user", USERS)
def test_each_credential_as_with_kubectl_i9_i10(
    kubectl: str, wire: APIServer, user: str, cluster: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(wire.kubeconfig(USERS[user], CLUSTERS[cluster])))
    by_kubectl(kubectl, path)
    theirs = sent(arrived(wire))
    for variant in VARIANTS:
        by_kubeauth(variant, path)
        assert sent(arrived(wire)) == theirs


def test_files_as_with_kubectl_k49_k61(kubectl: str, wire: APIServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  from-a-file\n")
    CAROL.write(tmp_path / "c.pem", tmp_path / "k.pem")
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.pem)
    user = {
        "tokenFile": str(tmp_path / "token"),
        "token": "spare",
        "client-certificate": "c.pem",
        "client-key": "k.pem",
    }
    document = wire.kubeconfig(user, {"certificate-authority": "ca.pem"})
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    path = tmp_path / "config"
    path.write_text(json.dumps(document))
    by_kubectl(kubectl, path)
    theirs = sent(arrived(wire))
    assert (theirs["authorization"], theirs["certificate"]) == ("Bearer from-a-file", "carol")
    for variant in VARIANTS:
        by_kubeauth(variant, path)
        assert sent(arrived(wire)) == theirs


def test_what_kubectl_refuses_we_refuse(kubectl: str, wire: APIServer, tmp_path: Path) -> None:
    """Trust, by the same bundles: an intermediate alone, another CA, another name, a damaged one."""
    root = Authority("root")
    intermediate = root.intermediate()
    bundles = {
        "an intermediate alone": (intermediate.server("127.0.0.1", chain=False), intermediate.pem),
        "the root, with the chain": (intermediate.server("127.0.0.1"), root.pem),
        "the root, without it": (intermediate.server("127.0.0.1", chain=False), root.pem),
        "another CA": (root.server("127.0.0.1"), Authority("other").pem),
        "another name": (root.server("other.example"), root.pem),
        "no key identifiers": ((bare := Authority(key_identifiers=False)).server("127.0.0.1"), bare.pem),
        "the leaf itself": ((leaf := root.server("127.0.0.1")), leaf.certificate),
        "something else in it": (root.server("127.0.0.1"), b"# ours\n" + root.pem + Authority("other").pem),
    }
    ours, theirs = {}, {}
    for name, (certificate, bundle) in bundles.items():
        with APIServer(certificate=certificate) as server:
            document = server.kubeconfig({"token": "t"}, {"certificate-authority-data": encoded(bundle)})
            path = tmp_path / "config"
            path.write_text(json.dumps(document))
            try:
                by_kubectl(kubectl, path)
                theirs[name] = True
            except RuntimeError:
                theirs[name] = False
            try:
                by_kubeauth(VARIANTS[0], path)
                ours[name] = True
            except kubeauth.errors.ServerCertificateError:
                ours[name] = False
    assert ours == theirs
    assert set(theirs.values()) == {True, False}
