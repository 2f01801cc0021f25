"""A kubeconfig that was handed over: read, checked, and with all that it names inside (A60, A67, A71).

Blocks: it reads files. Nothing raises for what stands in the document, so that no traceback holds it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.files import (
    KUBECONFIG_LIMIT,
    describe_os_error,
    find_open_problem,
    get_working_directory,
    make_absolute,
    read_file,
    read_raw_token,
)
from kubeauth._config.kubeconfig import decode
from kubeauth._config.loader import load_config
from kubeauth._config.resolve import resolve_cluster_paths, resolve_user_paths
from kubeauth._config.validate import validate_cluster, validate_tls_options, validate_user
from kubeauth._parsing import DocumentError, Json, read_document
from kubeauth._parsing.models import replace_fields
from kubeauth._secret import Secret
from kubeauth.discovery._arguments import STDIN
from kubeauth.discovery._document import CA_FIELD, base64, document_of, with_authority
from kubeauth.discovery._kubeconfig import (
    MOST_BYTES,
    Found,
    Refusal,
    authorities,
    https_server,
    read_strictly,
    selected_cluster,
)
from kubeauth.discovery._pins import Certificate
from kubeauth.discovery._token import CLUSTER_NAME
from kubeauth.errors import KubeConfigError, TokenFileError
from kubeauth.schemas._kubeconfig import Cluster, Context, Kubeconfig, User

# Programs to run: a file that somebody handed over may hold credentials, but it runs nothing (A91).
_PROGRAMS = ("exec", "auth-provider")


@dataclass(frozen=True, slots=True)
class Given:
    """Everything that is needed of it."""

    found: Found
    """Without a certificate: it is for the system's CAs to say who the server is."""
    document: Secret[str]
    """One context, and no files behind it."""
    config: ClientConfig = field(repr=False)
    has_credentials: bool

    def with_authority(self, certificates: tuple[Certificate, ...]) -> Given:
        """The same, with a CA that its own server has told of (A70)."""
        found = replace(self.found, certificates=certificates)
        return replace(
            self,
            found=found,
            document=with_authority(self.document, found.ca),
            config=replace(self.config, ca_data=found.ca),
        )


def given_file(path: str) -> Given | Refusal:
    """From a file of this machine. What comes by stdin may be from anywhere: `curl https://... |` (A72)."""
    try:
        data = _stdin() if path == STDIN else Secret(read_file(path, limit=KUBECONFIG_LIMIT))
    except OSError as error:
        return Refusal(
            "document", f"cannot read it: {describe_os_error(error)}. Check the path and its permissions"
        )
    if path == STDIN:
        return given_text(data)
    try:
        document = read_document(data.reveal(), limit=KUBECONFIG_LIMIT)
    except DocumentError as error:
        return Refusal("document", f"it is malformed: {error}")
    return _given(Secret(json.dumps(document)), make_absolute(path), is_own=True)


def given_text(data: Secret[bytes]) -> Given | Refusal:
    """From whatever somebody else said: where a cluster is and whom to trust there, not who we are (A91)."""
    try:
        text = Secret(data.reveal().decode())
    except UnicodeDecodeError:
        return Refusal("document", "it is not UTF-8 text")
    document = read_strictly(text)
    if isinstance(document, Refusal):
        return document
    return _given(Secret(json.dumps(document)), "", is_own=False)


def _stdin() -> Secret[bytes]:
    try:
        return Secret(sys.stdin.buffer.read(MOST_BYTES + 1))
    except (AttributeError, ValueError):
        # None at all, closed, or something else in its place.
        raise OSError("this process has no stdin that can be read") from None


@dataclass(frozen=True, slots=True)
class _Chosen:
    cluster_name: str
    cluster: Cluster
    user_name: str
    user: User


def _given(text: Secret[str], origin: str, *, is_own: bool) -> Given | Refusal:
    config = decode(json.loads(text.reveal()), origin=origin)
    if not isinstance(config, Kubeconfig):
        where = f"{config[0].field}: " if config[0].field else ""
        return Refusal("document", f"it is malformed: {where}{config[0].message}")
    chosen = _chosen(config)
    if isinstance(chosen, Refusal):
        return chosen
    chosen, warnings = _taken(chosen, is_own=is_own)
    wrong = _problem(chosen) if is_own else _problem_from_elsewhere(chosen)
    server = https_server(chosen.cluster)
    if wrong is not None:
        return wrong
    if isinstance(server, Refusal):
        return server
    try:
        ca = chosen.cluster.certificate_authority_data
        if chosen.cluster.certificate_authority:
            ca = read_file(chosen.cluster.certificate_authority)
        found = authorities(ca) if ca else ()
        if isinstance(found, Refusal):
            return found
        cluster, user = _entries(text, chosen, is_own=is_own)
        if found:
            cluster[CA_FIELD] = base64(b"".join(each.pem for each in found))
        name = chosen.cluster_name or CLUSTER_NAME
        document = document_of(name, cluster, chosen.user_name or "nobody", user)
        return Given(
            Found(server, found, warnings),
            document,
            load_config(json.loads(document.reveal())),
            _has_credentials(chosen.user),
        )
    except OSError as error:
        return Refusal("document", f"a file that it names cannot be read: {describe_os_error(error)}")
    except (KubeConfigError, TokenFileError) as error:
        return Refusal("document", f"it cannot be used: {str(error).rstrip('.')}")


def _chosen(config: Kubeconfig) -> _Chosen | Refusal:
    """The cluster by the rules of discovery, and who the current context says that we are (A44, A60)."""
    selected = selected_cluster(config, only=False)
    if isinstance(selected, Refusal):
        return selected
    cluster_name, cluster = selected
    context = config.contexts.get(config.current_context, Context())
    if context.user and context.user not in config.users:
        return Refusal(
            "document", f"its current context names the user {context.user[:80]!r}, who is not there"
        )
    if context.user and context.cluster != cluster_name:
        # Somebody's credentials would go to a server that they are not for.
        return Refusal(
            "document",
            "its current context is about another cluster than the one without a name, which is what is "
            "discovered. Remove one of the two",
        )
    cwd = get_working_directory()
    user = resolve_user_paths(config.users.get(context.user, User()), cwd)
    return _Chosen(cluster_name, resolve_cluster_paths(cluster, cwd), context.user, user)


def _taken(chosen: _Chosen, *, is_own: bool) -> tuple[_Chosen, tuple[str, ...]]:
    """Of the user what may be taken, and what is said about the rest."""
    user = chosen.user
    if not is_own:
        left_out = "its user was left out: a document from elsewhere does not say who we are"
        warnings = (left_out,) if user != User() else ()
        user = User()
    else:
        there = zip(_PROGRAMS, (user.exec, user.auth_provider), strict=True)
        programs = " and ".join(name for name, value in there if value is not None)
        warnings = (f"{programs} was left out: a discovered document runs nothing",) if programs else ()
        user = replace_fields(user, {"exec": None, "auth_provider": None})
    return replace(chosen, user=user), warnings


def _problem(chosen: _Chosen) -> Refusal | None:
    cluster, user = chosen.cluster, chosen.user
    if cluster.insecure_skip_tls_verify:
        return Refusal(
            "certificate",
            "it says insecure-skip-tls-verify: anybody could say what to trust then. Remove that, and put "
            "the cluster's CA into certificate-authority-data",
        )
    problems = [
        *validate_cluster(chosen.cluster_name, cluster, find_open_problem),
        *validate_user(chosen.user_name, user, find_open_problem),
        *validate_tls_options(chosen.cluster_name, cluster, chosen.user_name, user, True),
    ]
    return (
        Refusal("document", f"it cannot be used: {problems[0].message}. {problems[0].hint.rstrip('.')}")
        if problems
        else None
    )


def _problem_from_elsewhere(chosen: _Chosen) -> Refusal | None:
    if chosen.cluster.certificate_authority:
        return Refusal(
            "document", "it names a CA file of this machine: it must hold certificate-authority-data"
        )
    return _problem(chosen)


def _entries(text: Secret[str], chosen: _Chosen, *, is_own: bool) -> tuple[dict[str, Json], dict[str, Json]]:
    """What goes into the new document. Of a file, all but programs; from elsewhere, the address alone."""
    document = json.loads(text.reveal())
    cluster = _entry(document, "clusters", "cluster", chosen.cluster_name)
    user = _entry(document, "users", "user", chosen.user_name)
    if not is_own:
        return {"server": cluster["server"]}, {}
    user = {name: value for name, value in user.items() if name not in _PROGRAMS}
    cluster.pop("certificate-authority", None)
    for name, path in (
        ("client-certificate", chosen.user.client_certificate),
        ("client-key", chosen.user.client_key),
    ):
        if path:
            user.pop(name)
            user[f"{name}-data"] = base64(read_file(path))
    if chosen.user.token_file:
        user.pop("tokenFile")
        user["token"] = read_raw_token(chosen.user.token_file).reveal().strip()
    return cluster, user


def _entry(document: Json, kind: str, field: str, name: str) -> dict[str, Json]:
    for entry in document.get(kind) or ():
        if entry and (entry.get("name") or "") == name:
            return dict(entry.get(field) or {})
    return {}


def _has_credentials(user: User) -> bool:
    """Whether somebody could sign in with it (A60)."""
    certificate = user.client_certificate or user.client_certificate_data
    key = user.client_key or user.client_key_data
    return bool(user.token or user.token_file or (user.username and user.password) or (certificate and key))
