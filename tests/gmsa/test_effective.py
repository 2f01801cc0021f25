"""Which credential spec each container runs with, as the kubelet has it."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth.errors import AdmissionError, ConfigError
from kubeauth.gmsa import effective_credential_specs
from tests.gmsa.pods import LISTS, Document, container, context, pod
from tests.support.cases import each_case

# Pod, container, and what comes of it. () is no securityContext, "no options" one without windowsOptions.
NO_OPTIONS = "no options"
TABLE: list[tuple[Any, Any, str | None]] = [
    ((), (), None),
    ((None, None), (None, None), None),
    (("n1", "c1"), (), "c1"),
    (("n1", "c1"), NO_OPTIONS, "c1"),
    (("n1", "c1"), (None, None), "c1"),
    ((), ("n2", "c2"), "c2"),
    (NO_OPTIONS, ("n2", "c2"), "c2"),
    (("n1", "c1"), ("n2", "c2"), "c2"),
    (("n1", "c1"), ("n2", None), None),
    (("n1", "c1"), (None, "c2"), "c2"),
    (("n1", None), (None, None), None),
    # And what the table has not.
    ((None, "c1"), (), "c1"),
    (("n1", "c1"), ("", None), None),
    (("n1", "c1"), (None, ""), ""),
    (("n1", ""), (), ""),
    (("n1", None), ("n2", "c2"), "c2"),
]


def with_options(made: Document, options: Any) -> Document:
    if options == NO_OPTIONS:
        made["securityContext"] = {"runAsNonRoot": True}
    elif options:
        made["securityContext"] = context(*options)
    return made


@each_case("member", LISTS.values())
@each_case(("of_pod", "of_container", "expected"), TABLE)
def test_the_table_of_effective_contents_b61_b62_b63_b65(
    of_pod: Any, of_container: Any, expected: str | None, member: str
) -> None:
    document = pod(**{member: [with_options({"name": "c"}, of_container), {"name": "other"}]})
    with_options(document["spec"], of_pod)
    found = effective_credential_specs(document)
    assert found["c"] == expected
    assert found["other"] == (of_pod[1] if isinstance(of_pod, tuple) and of_pod else None)


def test_names_never_reach_a_runtime_b64() -> None:
    assert effective_credential_specs(pod("n1", containers=[container("a"), container("b", "n2")])) == {
        "a": None,
        "b": None,
    }


def test_every_container_is_there_in_order_b65() -> None:
    document = pod(
        "n", "of the pod", containers=[container("b"), container("a", "n", "own")],
        initContainers=[container("i", "n", "init")], ephemeralContainers=[container("e")],
    )  # fmt: skip
    found = effective_credential_specs(document)
    assert found == {"b": "of the pod", "a": "own", "i": "init", "e": "of the pod"}
    assert list(found) == ["b", "a", "i", "e"]


@each_case("of_pod", [None, True, False])
@each_case("of_container", [None, True, False])
def test_host_processes_have_no_part_in_it_b62_b66(of_pod: bool | None, of_container: bool | None) -> None:
    """An option of another kind neither brings a credential spec nor takes it away."""
    document = pod("n", "c", containers=[container("a", None, None)])
    document["spec"]["securityContext"]["windowsOptions"] |= {"hostProcess": of_pod, "runAsUserName": "x"}
    document["spec"]["containers"][0]["securityContext"]["windowsOptions"]["hostProcess"] = of_container
    assert effective_credential_specs(document) == {"a": "c"}


def test_contents_that_nobody_authorised_are_run_with_b68_b69() -> None:
    """Neither the kubelet nor this checks anything: not even whether it is JSON."""
    assert effective_credential_specs(pod(None, "not even JSON", containers=[container("a")])) == {
        "a": "not even JSON"
    }


def test_a_pod_without_containers_has_none() -> None:
    assert effective_credential_specs({}) == {}
    assert effective_credential_specs(pod("n", "c")) == {}


@each_case(
    "document",
    [None, [], "x", {"spec": "x"}, {"spec": {"containers": {}}}, {"spec": {"containers": [5]}},
     pod(containers=[container("a"), container("a")]), pod(containers=[container("a")], initContainers=[container("a")])],
)  # fmt: skip
def test_what_is_no_pod_is_refused(document: Any) -> None:
    with pytest.raises(AdmissionError) as caught:
        effective_credential_specs(document)
    assert caught.value.status_code == 400


def test_there_are_two_modes_and_no_other() -> None:
    with pytest.raises(ConfigError):
        effective_credential_specs({}, mode="beta")  # type: ignore[arg-type]  # on purpose
