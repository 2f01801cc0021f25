"""`kubeauth gmsa check`: what would become of a pod, before anybody creates it."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._discover import width_of_stdout
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, add_output
from kubeauth.cli._output import as_json, write, write_text
from kubeauth.cli._reading import STDIN, read_given
from kubeauth.cli._tables import cell

if TYPE_CHECKING:
    from kubeauth._parsing import Json
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._gmsa_documents import FoundPod
    from kubeauth.cli._gmsa_report import Checked
    from kubeauth.gmsa._lint import CredSpecReport
    from kubeauth.gmsa._steps import Answer, Review, Verdict


class Output(StrEnum):
    table = "table"
    json = "json"


class Options(Flags):
    paths: list[str]
    specs: list[str] | None = None
    compat: bool = False
    random_hostname: bool = False
    output: Output = Output.table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="POD.yaml",
        nargs="+",
        help="pods, or workloads that make some; several in a file, too; - is stdin",
    )
    parser.add_argument(
        "--specs",
        metavar="FILE",
        action="append",
        help="take credential specs from this file, and ask no cluster; may be given again",
    )
    parser.add_argument(
        "--compat", action="store_true", help="as the webhook of kubernetes-sigs decides (`serve --compat`)"
    )
    parser.add_argument(
        "--random-hostname", action="store_true", help="as a webhook decides that gives hostnames"
    )
    add_output(parser, Output, "table (default) or json")


def run(options: Options) -> int:
    """Say what becomes of a pod that names GMSA credential specs, container by container.

    Whether the webhook would admit it, and if not, all that is in the way; whose contents would be filled in;
    and which credential spec each container would run with, init and ephemeral ones too. The cluster of the
    kubeconfig is asked for the credential specs, and whether the pod's service account may use them, as the
    webhook would ask. What is wrong with a credential spec itself is said as well. Nothing is created.

      kubeauth gmsa check -n shop deployment.yaml

    Exits with 1 if a pod would be denied.
    """
    from kubeauth.cli._gmsa_documents import objects_of, pods_in

    if [*options.paths, *(options.specs or ())].count(STDIN) > 1:
        raise Failed("error: stdin can be read once, and - is there twice", Status.USAGE)
    found = [
        pod for path in options.paths for each in objects_of(read_given(path), path) for pod in pods_in(each)
    ]
    if not found:
        where = ", ".join("stdin" if path == STDIN else path for path in options.paths)
        raise Failed(f"error: there is no pod in {where}, and nothing that makes pods", Status.CONFIG)
    with ExitStack() as stack:
        known = _known(options, stack)
        checked = [_checked(pod, known, options) for pod in found]
        _print(checked, known.reports, options)
    return Status.OK if all(each.outcome.decision.allowed for each in checked) else Status.FAILED


class _Known:
    """Credential specs, and who may use them. Each is asked for once: this is about one moment."""

    def __init__(
        self, namespace: str, specs: dict[str, dict[str, Json]] | None, asking: Asking | None
    ) -> None:
        self.namespace = namespace
        self.asking = asking
        self.reports: dict[str, CredSpecReport] = {}
        self._found: dict[str, Answer] = {} if specs is None else {**specs}
        self._verdicts: dict[tuple[object, ...], Verdict] = {}

    def lookup(self, name: str) -> Answer:
        from kubeauth.gmsa._lint import lint_credspec

        if name not in self._found:
            self._found[name] = None if self.asking is None else _fetched(self.asking, name)
        found = self._found[name]
        if isinstance(found, dict) and "credspec" in found:
            self.reports[name] = lint_credspec(found["credspec"])
        return found

    def review(self, review: Review) -> Verdict:
        from kubeauth.gmsa._steps import Verdict

        if self.asking is None:
            return Verdict(True)
        key = review.user, review.namespace, review.name
        if key not in self._verdicts:
            self._verdicts[key] = _reviewed(self.asking, review)
        return self._verdicts[key]


def _known(options: Options, stack: ExitStack) -> _Known:
    from kubeauth.cli._gmsa_documents import objects_of, specs_in

    if options.specs is None:
        from kubeauth.cli._asking import Asking

        asking = stack.enter_context(Asking(options))
        return _Known(asking.config.namespace, None, asking)
    specs = specs_in(each for path in options.specs for each in objects_of(read_given(path), path))
    if not specs:
        raise Failed("error: --specs: there is no GMSACredentialSpec in it", Status.CONFIG)
    return _Known(options.namespace or "default", specs, None)


def _fetched(asking: Asking, name: str) -> Answer:
    from kubeauth.cli._paths import Target
    from kubeauth.gmsa._api import spec_answer, spec_path

    with asking.answer(Target(spec_path(name)), accept="application/json", answers=(404,)) as response:
        return spec_answer(name, response.status_code, response.read())


def _reviewed(asking: Asking, review: Review) -> Verdict:
    from kubeauth.cli._paths import Target
    from kubeauth.gmsa._api import review_document, review_path, review_verdict

    target, document = Target(review_path(review)), review_document(review)
    with asking.answer(target, accept="application/json", method="POST", json=document) as response:
        return review_verdict(response.status_code, response.read())


def _checked(pod: FoundPod, known: _Known, options: Options) -> Checked:
    from kubeauth.cli._gmsa_report import Checked
    from kubeauth.gmsa._decision import Policy
    from kubeauth.gmsa._driver import settled
    from kubeauth.gmsa._explain import outcome

    policy = Policy(compat=options.compat, random_hostname=options.random_hostname)
    # As kubectl: what a file says about its namespace counts, and -n must not say otherwise.
    namespace = pod.namespace or known.namespace
    if options.namespace and namespace != options.namespace:
        raise Failed(
            f"error: {cell(pod.of)} is in the namespace {cell(namespace)}, and not in {options.namespace}, "
            "which -n says",
            Status.USAGE,
        )
    found = settled(outcome(pod.document, namespace, policy), known.lookup, known.review)
    return Checked(pod.of, namespace, found, known.asking is not None)


def _print(checked: list[Checked], specs: dict[str, CredSpecReport], options: Options) -> None:
    from kubeauth.cli._gmsa_report import as_document, as_text

    if options.output is Output.json:
        write(as_json({"pods": [as_document(each, specs) for each in checked]}))
        return
    width = width_of_stdout()
    write_text("\n\n".join(as_text(each, specs, width) for each in checked))
