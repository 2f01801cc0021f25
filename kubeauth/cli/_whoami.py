"""`kubeauth whoami`: who the API server takes us for, and by which credential."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, add_output
from kubeauth.cli._output import as_json, as_yaml, read_json, write, write_text
from kubeauth.cli._paths import Target
from kubeauth.cli._refusals import Refused
from kubeauth.cli._review import REVIEWS, user_in
from kubeauth.cli._tables import Columns, cell

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig, Impersonation
    from kubeauth._credentials.credential import Status as CredentialStatus
    from kubeauth.cli._asking import Asking

_ADVICE = {
    401: "The server knows nobody by this credential. Is it of this cluster, and still good? "
    "`kubeauth doctor` looks for the reason, step by step.",
    403: "The server knows you, but does not let you ask. The ClusterRole system:basic-user allows it to "
    "everybody who is known: has its binding been changed?",
    404: "The server does not have this API: Kubernetes has it from 1.26 on, and unasked from 1.28 on. "
    "`kubeauth get /version` shows which version it is.",
}
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


class Output(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


class Options(Flags):
    output: Output = Output.table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_output(parser, Output, "table (default), json or yaml")


def run(options: Options) -> int:
    """Say who you are to the API server, and by which credential.

    The server is asked as `kubectl auth whoami` asks it. Below its answer: which server, context and
    namespace that was, where the credential came from, and when it ends.

    -o json and yaml print the server's SelfSubjectReview, with what is known here below `client`.
    """
    from kubeauth.cli._asking import Asking

    with Asking(options) as asking:
        review = _review(asking)
        config, status = asking.config, asking.client.status()
    if options.output is Output.table:
        write_text(Columns().text(_rows(review, config, status, datetime.now(UTC))))
    else:
        review = {**review, "client": _client(config, status)}
        write(as_json(review) if options.output is Output.json else as_yaml(review))
    return Status.OK


def _review(asking: Asking) -> dict[str, Any]:
    """The SelfSubjectReview, in the newest version that the server has."""
    code, words = 0, "error: the server's answer is no SelfSubjectReview. Is it an API server?"
    for asked in REVIEWS:
        try:
            with asking.answer(Target(asked.path), method="POST", json=asked.body) as response:
                review = read_json(response.read())
        except Refused as refused:
            code, words = refused.code, str(refused)
            if code == 404:
                continue
            break
        if isinstance(review, dict) and user_in(review) is not None:
            return review
        break
    advice = _ADVICE.get(code)
    if code == 403 and asking.config.impersonate:
        advice = (
            "To act as another user one must be allowed to: without --as it is said who you are yourself."
        )
    raise Failed("\n".join(filter(None, [words, advice])))


def _rows(
    review: dict[str, Any], config: ClientConfig, status: CredentialStatus, now: datetime
) -> Iterator[tuple[str, str]]:
    """As `kubectl auth whoami`, and then what it does not say."""
    user = user_in(review) or {}
    yield "ATTRIBUTE", "VALUE"
    yield "Username", cell(user.get("username"))
    if user.get("uid"):
        yield "UID", cell(user["uid"])
    if user.get("groups"):
        yield "Groups", cell(user["groups"])
    extra = user.get("extra")
    for key, values in sorted(extra.items()) if isinstance(extra, dict) else ():
        yield f"Extra: {cell(key)}", cell(values)
    yield "Server", cell(_server(config))
    if config.context:
        yield "Context", cell(config.context)
    yield "Namespace", cell(config.namespace)
    if config.impersonate:
        yield "Impersonating", cell(", ".join(_impersonated(config.impersonate)))
    was_asked_for = status.source.startswith(("plugin ", "oidc "))
    yield "Credential", cell(f"{status.kind} from {status.source}" if was_asked_for else status.source)
    if status.expires:
        yield "Ends", f"{in_words(status.expires - now)} ({_timestamp(status.expires)})"
    if status.last_error:
        yield "Last error", cell(str(status.last_error))


def in_words(left: timedelta) -> str:
    """`in 14 min`, `3 d ago`: in the largest unit of which there are two or more."""
    seconds = abs(int(left.total_seconds()))
    size, unit = next((each for each in _UNITS if seconds >= 2 * each[0]), _UNITS[-1])
    amount = f"{seconds // size} {unit}"
    return f"in {amount}" if left >= timedelta() else f"{amount} ago"


def _timestamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _impersonated(asked: Impersonation) -> Iterator[str]:
    yield asked.user
    if asked.uid:
        yield f"uid {asked.uid}"
    if asked.groups:
        yield f"groups {cell(list(asked.groups))}"
    for key, values in asked.extra.items():
        yield f"{key} {cell(list(values))}"


def _server(config: ClientConfig) -> str:
    from kubeauth._config.urls import redact_url

    return redact_url(config.server)


def _client(config: ClientConfig, status: CredentialStatus) -> dict[str, Any]:
    """What is known here, for -o json."""
    known: dict[str, Any] = {"server": _server(config)}
    if config.context:
        known["context"] = config.context
    known["namespace"] = config.namespace
    if asked := config.impersonate:
        extra = {key: list(values) for key, values in asked.extra.items()}
        whom = {"username": asked.user, "uid": asked.uid, "groups": list(asked.groups), "extra": extra}
        known["impersonating"] = {name: value for name, value in whom.items() if value}
    known["credential"] = {"source": status.source, "kind": status.kind}
    if status.expires:
        known["credential"]["expirationTimestamp"] = _timestamp(status.expires)
    if status.last_error:
        known["credential"]["lastError"] = str(status.last_error)
    return known
