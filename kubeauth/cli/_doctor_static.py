"""Credentials of the kubeconfig and of the files it names: can they be read, sent, and are they over?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import read_token_file
from kubeauth._config.validate import redact_path
from kubeauth._credentials.credential import ClientCertificate, find_header_problem
from kubeauth._credentials.files import client_cert_reader
from kubeauth._parsing import Json
from kubeauth._runtime import SYSTEM_CLOCK
from kubeauth._secret import Secret
from kubeauth.cli._doctor_certificates import certificate_of
from kubeauth.cli._doctor_files import exposure, make_private, mode_of
from kubeauth.cli._doctor_findings import Finding, Level, error, ok, warning
from kubeauth.cli._doctor_given import Life, token_end
from kubeauth.cli._doctor_words import day, ends, parted, span
from kubeauth.errors import ClientCertificateError, TokenFileError


@dataclass(frozen=True, slots=True)
class Static:
    """A credential of the kubeconfig or of a file it names, as it is now."""

    source: str
    token: Secret[str] | None = None
    """With no white space around it."""
    path: str = ""
    problem: str = ""
    """Why it cannot be read."""
    mode: int | None = None
    age: float | None = None
    """Of the file, in seconds."""


def read_static(config: ClientConfig, *, in_pod: bool) -> Static:
    """Which header it comes to, in the order that counts. Reads the token file."""
    if urlsplit(config.server).username or urlsplit(config.server).password:
        return Static("password in the server's URL")
    if config.token_file:
        return _read_token_file(config.token_file, in_pod=in_pod)
    if config.token:
        return Static("token", config.token)
    return Static("password" if config.username else "")


def _read_token_file(path: str, *, in_pod: bool) -> Static:
    where = redact_path(path)
    try:
        token = read_token_file(path)
        age = time.time() - os.stat(path).st_mtime
    except TokenFileError as wrong:
        return Static("token file", path=where, problem=str(wrong))
    # A pod's is for everybody in it.
    return Static("token file", token, where, mode=None if in_pod else mode_of(path), age=age)


def static_finding(static: Static, now: float) -> Finding:
    """Whether it can be sent, and whether it looks over."""
    facts: dict[str, Json] = {"source": static.source or None, "path": static.path or None}
    if static.problem:
        advice = "Check the path, and that whatever writes the token has run."
        return error("credential", static.problem, advice, **facts)
    if static.token is None:
        return _no_token(static, facts)
    head = static.source + (f" {static.path}, written {span(static.age or 0.0)} ago" if static.path else "")
    if why := find_header_problem(static.token.reveal()):
        advice = "Put the bare token there: one line, no quotes, nothing around it."
        return error("credential", f"{head}: it cannot be sent, {why}", advice, **facts)
    end = token_end(static.token)
    facts |= {"expires": day(end), "age": None if static.age is None else round(static.age)}
    if end is not None and end < now:
        advice = "Get a new one; if it should be good, check the clock of this machine."
        return error("credential", f"{head}: it looks over, {ends(end, now)}", advice, **facts)
    if exposed := exposure(static.mode, holds_secrets=True):
        return warning("credential", f"{head}: {exposed}", make_private(static.path), **facts)
    life = ends(end, now) if end is not None else "only its issuer knows when it ends"
    return ok("credential", f"{head}: {life}", **facts)


def _no_token(static: Static, facts: dict[str, Json]) -> Finding:
    if static.source:
        summary = f"a {static.source}: Kubernetes has taken none since 1.19"
        advice = "Use a token, a client certificate or a plugin, unless a proxy before the server takes it."
        return warning("credential", summary, advice, **facts)
    advice = "Use a user that has a token, a client certificate or an exec plugin."
    return warning("credential", "none: the server will take you for nobody in particular", advice, **facts)


def static_lives(static: Static) -> Iterator[Life]:
    """If its end can be told."""
    if static.token is not None and (end := token_end(static.token)) is not None:
        yield Life("the token", None, end)


def read_identity(config: ClientConfig) -> ClientCertificate | ClientCertificateError | None:
    """The client certificate of the kubeconfig, with its key; or why the two are no use."""
    try:
        return client_cert_reader(config, SYSTEM_CLOCK)()
    except ClientCertificateError as wrong:
        return wrong


def client_cert_finding(
    config: ClientConfig, found: ClientCertificate | ClientCertificateError, now: float
) -> Finding:
    """Whose it is, whether its key belongs to it, and for how long."""
    path = None if config.client_cert_data else redact_path(config.client_cert_file or "")
    key_path = None if config.client_key_data else redact_path(config.client_key_file or "")
    facts: dict[str, Json] = {"path": path, "key_path": key_path}
    if isinstance(found, ClientCertificateError):
        return error("client-cert", *parted(str(found)), **facts, key_matches=False)
    leaf = certificate_of(found.certificate)
    facts |= {"key_matches": True}
    if leaf is None:
        return ok("client-cert", "its key belongs to it; when it ends cannot be told", **facts)
    level, life = leaf.judged(now)
    facts |= leaf.facts(now)
    summary = f"{life}: {leaf.subject}, signed by {leaf.issuer}; its key belongs to it"
    exposed = exposure(mode_of(key_path) if key_path else None, holds_secrets=True)
    if level is Level.OK and exposed:
        return warning("client-cert", f"{summary}; {exposed}", make_private(key_path or ""), **facts)
    advice = (
        "" if level is Level.OK else "Have a new one signed, and put it into the kubeconfig with its key."
    )
    return Finding("client-cert", level, summary, advice, facts)


def identity_lives(found: ClientCertificate | ClientCertificateError) -> Iterator[Life]:
    """If it is one, and its end can be told."""
    leaf = certificate_of(found.certificate) if isinstance(found, ClientCertificate) else None
    if leaf is not None:
        yield Life("the client certificate", leaf.not_before, leaf.not_after)
