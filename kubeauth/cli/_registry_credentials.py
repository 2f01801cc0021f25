"""`kubeauth registry credentials`: what the providers give for an image, in the order it is tried."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Status, tell
from kubeauth.cli._flags import add_output
from kubeauth.cli._output import as_json, write, write_text
from kubeauth.cli._registry_flags import Output, ProviderFlags, add_image, add_provider_flags
from kubeauth.cli._tables import Columns, cell

if TYPE_CHECKING:
    from kubeauth._parsing import Json
    from kubeauth.registry._providers import Lookup, ProviderAnswer
    from kubeauth.registry._reference import ImageReference
    from kubeauth.registry._values import RegistryCredential


class Options(ProviderFlags):
    image: ImageReference
    output: Output = Output.table
    show_passwords: bool = False
    pod: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser)
    add_provider_flags(parser)
    parser.add_argument("--show-passwords", action="store_true", help="print them, in place of <hidden>")
    parser.add_argument(
        "--pod", metavar="NAME", help="a pod of the cluster, for providers that need its service account"
    )
    add_output(parser, Output, "table (default) or json; json has passwords with --show-passwords alone")


def run(options: Options) -> int:
    """Run the credential providers for an image, and print what they give.

    In the order in which the kubelet would try it; then what became of each provider. Passwords are hidden
    unless --show-passwords asks for them.

    Providers that need the service account of a pod are asked with --pod alone: the pod, its account and a
    token of that are had from the cluster that the kubeconfig names, and the namespace is that of -n.

    Exits with 4 if there is no credential, and with 1 if there is one but a provider has failed.
    """
    options.log_less()
    lookup = _for_a_pod(options) if options.pod else _for_nobody(options)
    for failure in lookup.failures:
        tell(f"error: {failure}")
    if options.output is Output.json:
        write(as_json(_document(lookup, options.show_passwords)))
    else:
        write_text("\n".join(_tables(lookup, options)))
    if not lookup.credentials:
        return Status.CREDENTIAL
    return Status.FAILED if lookup.failures else Status.OK


def _for_nobody(options: Options) -> Lookup:
    with options.providers() as providers:
        return providers.lookup(options.image.repository)


def _for_a_pod(options: Options) -> Lookup:
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._registry_pod import pod_of
    from kubeauth.registry._cluster_accounts import ClusterServiceAccounts

    with Asking(options) as asking, options.providers(ClusterServiceAccounts(asking.client)) as providers:
        return providers.lookup(options.image.repository, pod=pod_of(asking, options.pod))


def _tables(lookup: Lookup, options: Options) -> Iterator[str]:
    if lookup.credentials:
        yield Columns().text(_credentials(lookup, options.show_passwords))
    else:
        yield f"No credentials for {cell(lookup.image)}: the kubelet would pull it as nobody.\n"
    yield Columns().text(_answers(lookup, bool(options.pod)))


def _credentials(lookup: Lookup, show_passwords: bool) -> Iterator[tuple[str, ...]]:
    yield "KEY", "USERNAME", "PASSWORD", "FROM"
    for each in lookup.credentials:
        if each.is_anonymous:
            yield cell(each.key), "<nobody>", "<none>", cell(each.source)
        else:
            password = each.password if show_passwords else "<hidden>"
            # Whole, or it would be of no use: what steers a terminal is spelled out, a line break too.
            yield cell(each.key), cell(each.username), _whole(password), cell(each.source)


def _whole(password: str) -> str:
    from kubeauth.errors import escape_control

    return escape_control(password).replace("\t", "U+0009") or "<none>"


def _answers(lookup: Lookup, has_pod: bool) -> Iterator[tuple[str, str]]:
    yield "PROVIDER", "ANSWER"
    for answer in lookup.answers:
        yield cell(answer.provider), cell(_in_words(answer, lookup, has_pod))


def _in_words(answer: ProviderAnswer, lookup: Lookup, has_pod: bool) -> str:
    if not answer.matched:
        return "not asked: none of its patterns matches (`kubeauth registry match` says why)"
    if answer.not_asked:
        why = "it is for pods with a service account: name one with --pod"
        return f"not asked: {answer.not_asked if has_pod else why}"
    if answer.failure is not None:
        return f"failed ({answer.failure.reason})"
    given = len(answer.credentials)
    fitting = sum(each.source == f"provider {answer.provider}" for each in lookup.credentials)
    words = f"{given} credential{'' if given == 1 else 's'}, {fitting} for this image"
    if answer.skipped:
        words += f"; left out: {', '.join(f'{key} ({why})' for key, why in answer.skipped)}"
    return words


def _document(lookup: Lookup, show_passwords: bool) -> Json:
    return {
        "image": lookup.image,
        "credentials": [_as_json(each, show_passwords) for each in lookup.credentials],
        "providers": [_answer_as_json(each) for each in lookup.answers],
    }


def _as_json(credential: RegistryCredential, show_passwords: bool) -> Json:
    shown: dict[str, Json] = {"key": credential.key, "username": credential.username}
    if show_passwords:
        shown["password"] = credential.password
    return {**shown, "source": credential.source}


def _answer_as_json(answer: ProviderAnswer) -> Json:
    failure = answer.failure
    return {
        "name": answer.provider,
        "matches": answer.matched,
        "credentials": len(answer.credentials),
        "notAsked": answer.not_asked or None,
        "failure": None if failure is None else {"reason": failure.reason, "message": str(failure)},
        "skipped": [{"key": key, "why": why} for key, why in answer.skipped],
    }
