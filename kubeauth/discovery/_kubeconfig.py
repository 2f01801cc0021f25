"""What is taken of a discovered kubeconfig: an address and a CA, no more (A44, A50, A59, A61, A91). Pure.

Nothing here raises for what a document says: what is wrong is returned, so that no traceback holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubeauth._config.kubeconfig import decode
from kubeauth._config.urls import InvalidURL, parse_server_url, uses_tls
from kubeauth._parsing import DocumentError, Json, read_json, read_yaml
from kubeauth._secret import Secret
from kubeauth.discovery._pins import Certificate, Pins, certificates
from kubeauth.errors import DiscoveryError
from kubeauth.schemas._kubeconfig import Cluster, Kubeconfig

MOST_BYTES = 2**20
"""Of a document that is not the user's own (A66, A90)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something must not be used. `reason` is a word for programs, as in ClusterNotTrusted."""

    reason: str
    words: str
    pins: tuple[str, ...] = ()


NO_CA = Refusal(
    "certificate", "the kubeconfig in it has no certificate-authority-data: nobody can be trusted"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster, as far as it may be known: where it is, and whom to trust there."""

    server: str
    certificates: tuple[Certificate, ...]
    warnings: tuple[str, ...] = ()

    @property
    def ca(self) -> bytes:
        """What was looked at, written anew: no other reader can find something else in it."""
        return b"".join(certificate.pem for certificate in self.certificates)

    @property
    def pins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(certificate.pin for certificate in self.certificates))


def cluster_in(text: Secret[str]) -> Found | Refusal:
    """The one cluster of a kubeconfig that cluster-info holds, and whose signature is good."""
    config = read_config(text)
    if isinstance(config, Refusal):
        return config
    selected = selected_cluster(config, only=True)
    if isinstance(selected, Refusal):
        return selected
    _, cluster = selected
    server = https_server(cluster)
    found = authorities(cluster.certificate_authority_data)
    if isinstance(server, Refusal):
        return server
    if isinstance(found, Refusal):
        return found
    return Found(server, found, _left_out(config, cluster))


@dataclass(frozen=True, slots=True)
class Told:
    """What a server that has proven who it is says about itself. It may say little (A69)."""

    server: str
    """Empty if that is no https address: it may be anything, and must be shown to people."""
    authorities: tuple[Certificate, ...] | Refusal


def told_by(text: Secret[str]) -> Told | Refusal | None:
    """What it says; None if that is nothing, or makes no sense."""
    config = read_config(text)
    if not text or isinstance(config, Refusal):
        return None
    selected = selected_cluster(config, only=True)
    if isinstance(selected, Refusal):
        return selected
    _, cluster = selected
    server = https_server(cluster)
    return Told(
        "" if isinstance(server, Refusal) else server, authorities(cluster.certificate_authority_data)
    )


def read_config(text: Secret[str]) -> Kubeconfig | Refusal:
    """A kubeconfig in YAML or JSON, read more strictly than one of the user's own."""
    document = read_strictly(text)
    if isinstance(document, Refusal):
        return document
    config = decode(document)
    if isinstance(config, Kubeconfig):
        return config
    first = config[0]
    where = f"{first.field}: " if first.field else ""
    return Refusal("document", f"the kubeconfig in it is malformed: {where}{first.message}")


def read_strictly(text: Secret[str]) -> Json | Refusal:
    """One document, of a size that is known, in which nothing is there twice."""
    repeated: list[str] = []
    data = text.reveal().encode()
    if len(data) > MOST_BYTES:
        return Refusal("document", f"the kubeconfig in it is larger than {MOST_BYTES // 2**20} MiB")
    try:
        try:
            document = read_json(data, repeated=repeated) if data[:1] == b"{" else None
        except DocumentError:
            # A YAML flow mapping starts like JSON, and YAML says best what is wrong.
            document = None
        if document is None:
            repeated.clear()
            document = read_yaml(data, whole=True, repeated=repeated)
    except DocumentError as error:
        return Refusal("document", f"the kubeconfig in it is malformed: {error}")
    if repeated:
        return Refusal("document", "the kubeconfig in it is malformed: a field is there twice")
    return document


def selected_cluster(config: Kubeconfig, *, only: bool) -> tuple[str, Cluster] | Refusal:
    """That without a name, or that of the current context (A44). `only`: there must be no other (A50)."""
    if only and len(config.clusters) > 1:
        return Refusal(
            "document", f"the kubeconfig in it has {len(config.clusters)} clusters: there must be one"
        )
    if "" in config.clusters:
        return "", config.clusters[""]
    context = config.contexts.get(config.current_context)
    if context is None:
        if not config.clusters:
            return Refusal(
                "document",
                "the kubeconfig in it has no cluster: look whether it is empty, or another document",
            )
        name = f"{config.current_context[:80]!r} of it" if config.current_context else "one"
        return Refusal("document", f"the kubeconfig in it is malformed: there is no current context, {name}")
    cluster = config.clusters.get(context.cluster)
    if cluster is None:
        return Refusal(
            "document",
            f"the kubeconfig in it is malformed: the context {config.current_context[:80]!r} names the "
            f"cluster {context.cluster[:80]!r}, which is not there",
        )
    return context.cluster, cluster


def https_server(cluster: Cluster) -> str | Refusal:
    """Its address, if it is one that can be trusted by a CA (A91)."""
    try:
        server = parse_server_url(cluster.server)
    except InvalidURL as error:
        return Refusal("server", f"the address of the server in it cannot be right: {error}")
    if not uses_tls(cluster.server.lower()) or "@" in server:
        return Refusal(
            "server", "the address of the server in it must begin with https://, and hold no password"
        )
    return server


def authorities(pem: bytes) -> tuple[Certificate, ...] | Refusal:
    """The certificates of a CA, at least one, each of which can be read (A46, A61)."""
    if not pem:
        return NO_CA
    try:
        return tuple(certificates(pem))
    except DiscoveryError as error:
        return Refusal("certificate", f"the CA in it cannot be used: {error}")


def only_pinned(found: Found, pins: Pins) -> Found | Refusal:
    """What is left if those of its CA are trusted that are pinned, and no others (A46, A51).

    kubeadm trusts all of a bundle if one of it is pinned: whoever has a token could add a CA of his own.
    """
    kept = tuple(each for each in found.certificates if pins.allows(each))
    if not kept:
        return Refusal(
            "pin",
            f"none of the public keys of its CA is pinned. They are {_listed(found.pins)}. If you have that "
            "from whoever runs the cluster, correct ca_cert_hashes; else somebody is in between",
            found.pins,
        )
    others = replace(
        found, certificates=tuple(each for each in found.certificates if not pins.allows(each))
    ).pins
    if not others:
        return found
    warning = (
        f"certificates of its CA that are not pinned were left out, and are not trusted: {_listed(others)}"
    )
    return replace(found, certificates=kept, warnings=(*found.warnings, warning))


def _listed(pins: tuple[str, ...]) -> str:
    return ", ".join(pins[:5]) + (f" and {len(pins) - 5} more" if len(pins) > 5 else "")


def _left_out(config: Kubeconfig, cluster: Cluster) -> tuple[str, ...]:
    """What stands there and is not taken, for whoever wonders."""
    there = {
        "users": bool(config.users),
        "proxy-url": bool(cluster.proxy_url),
        "tls-server-name": bool(cluster.tls_server_name),
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority": bool(cluster.certificate_authority),
    }
    names = [name for name, is_there in there.items() if is_there]
    return (
        (f"what it says about {', '.join(names)} was left out: a cluster has no say in these",)
        if names
        else ()
    )
