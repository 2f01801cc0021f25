"""What holds for every pod, whatever names what at which level."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import Decision, Policy, Review, Verdict, authorize, effective_credential_specs
from tests.gmsa.pods import COMPAT, LISTS, STRICT, Cluster, Document, container, patched, pod, spec_of

# Each credential spec has a sentinel in it, and so has whatever stands in pods.
SPECS = {f"spec-{n}": {"secret": f"SENTINEL-{n}", "list": ["<", n]} for n in range(3)}
SENTINELS = ("SENTINEL", "PRESET")
FORBIDDEN = "spec-2"
MISSING = "missing"


def as_json(name: str, *, spaced: bool) -> str:
    return json.dumps(SPECS[name], indent=2 if spaced else None)


NAMES = st.sampled_from([None, "spec-0", "spec-1", FORBIDDEN, MISSING])
CONTENTS = st.sampled_from(
    [
        None,
        "",
        '{"PRESET":1}',
        "PRESET",
        *[as_json(name, spaced=spaced) for name in SPECS for spaced in (True, False)],
    ]
)
OPTIONS = st.none() | st.tuples(NAMES, CONTENTS)
CALM = st.sampled_from(
    [None, ("spec-0", None), ("spec-1", None), (None, None), ("spec-1", as_json("spec-1", spaced=True))]
)


@st.composite
def pods(draw: st.DrawFn, options: st.SearchStrategy[Any] = OPTIONS) -> Document:
    lists = {
        member: [
            container(f"{member.lower()}-{n}", *(given or ()))
            for n, given in enumerate(draw(st.lists(options, max_size=3)))
        ]
        for member in LISTS.values()
    }
    return pod(*(draw(options) or ()), **lists)


def visited(document: Document, *, compat: bool = False) -> list[Document]:
    """The options of a pod, in the order of the rules; found by a way of their own."""
    spec = document["spec"]
    members = ["containers"] if compat else LISTS.values()
    holders = [spec, *(each for member in members for each in spec[member])]
    return [each.get("securityContext", {}).get("windowsOptions", {}) for each in holders]


def known() -> Cluster:
    return Cluster({name: spec_of(value) for name, value in SPECS.items()}, {FORBIDDEN: "no"})


def expanded(document: Document, policy: Policy = STRICT) -> Document | AdmissionError:
    try:
        return patched(document, known().expand(document, policy))
    except AdmissionError as error:
        return error


def is_equal(name: str, contents: str) -> bool:
    try:
        return bool(json.loads(contents) == SPECS[name])
    except ValueError:
        return False


def names_what_exists(options: Document, *, compat: bool = False) -> bool:
    """Whether the expander has no reason to refuse it."""
    contents = options.get("gmsaCredentialSpec")
    is_filled = contents is None or (contents == "" and not compat)
    return not is_filled or options.get("gmsaCredentialSpecName") != MISSING


def is_rightful(options: Document, *, compat: bool = False) -> bool:
    """By the words of the rules, about a pod that was expanded."""
    name, contents = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is None:
        return contents is None
    return name not in (FORBIDDEN, MISSING) and contents is not None and is_equal(name, contents)


@given(pods(), st.booleans())
def test_a_pod_is_admitted_if_and_only_if_all_it_names_is_allowed_and_all_it_holds_is_right(
    document: Document, compat: bool
) -> None:
    policy = COMPAT if compat else Policy()
    after = expanded(document, policy)
    could = all(names_what_exists(each, compat=compat) for each in visited(document, compat=compat))
    assert isinstance(after, dict) == could
    if isinstance(after, AdmissionError):
        assert after.status_code == 404
        return
    decision = known().create(after, policy)
    assert decision.allowed == all(is_rightful(each, compat=compat) for each in visited(after, compat=compat))
    # Nor is it asked again: what was expanded stays as it is.
    assert known().expand(after, policy) == []


@given(pods(CALM))
def test_what_is_expanded_is_admitted(document: Document) -> None:
    """The other way round the test above might have nothing to admit."""
    after = expanded(document)
    assert isinstance(after, dict)
    assert known().create(after).allowed


@given(pods(CALM))
def test_the_effective_specs_of_an_expanded_pod_are_those_that_it_names(document: Document) -> None:
    after = expanded(document)
    assert isinstance(after, dict)
    spec = document["spec"]
    of_pod = visited(document)[0].get("gmsaCredentialSpecName")
    for name, contents in effective_credential_specs(after).items():
        (own,) = (each for member in LISTS.values() for each in spec[member] if each["name"] == name)
        named = (
            own.get("securityContext", {}).get("windowsOptions", {}).get("gmsaCredentialSpecName") or of_pod
        )
        assert (json.loads(contents) if contents is not None else None) == (SPECS[named] if named else None)


def expected(of_pod: Document, own: Document) -> str | None:
    """The table, row by row."""
    if not own.get("gmsaCredentialSpecName") and "gmsaCredentialSpec" not in own:
        return of_pod.get("gmsaCredentialSpec")
    return own.get("gmsaCredentialSpec")


@given(pods())
def test_the_effective_specs_of_any_pod_are_those_of_the_table(document: Document) -> None:
    spec = document["spec"]
    of_pod = visited(document)[0]
    assert effective_credential_specs(document) == {
        each["name"]: expected(of_pod, each.get("securityContext", {}).get("windowsOptions", {}))
        for member in LISTS.values()
        for each in spec[member]
    }


@given(pods())
def test_compat_never_visits_init_and_ephemeral_containers_b15(document: Document) -> None:
    bare = pod(containers=document["spec"]["containers"], initContainers=[], ephemeralContainers=[])
    if "securityContext" in document["spec"]:
        bare["spec"]["securityContext"] = document["spec"]["securityContext"]
    with_them, without = known(), known()
    assert with_them.create(document, COMPAT) == without.create(bare, COMPAT)
    assert [each.name for each in with_them.reviewed] == [each.name for each in without.reviewed]
    assert with_them.fetched == without.fetched
    assert authorize(document, old_pod=bare, policy=COMPAT).allowed
    one, other = expanded(document, COMPAT), expanded(bare, COMPAT)
    if isinstance(one, AdmissionError) or isinstance(other, AdmissionError):
        assert str(one) == str(other)
    else:
        for member in ("initContainers", "ephemeralContainers"):
            assert one["spec"][member] == document["spec"][member]


@given(pods(), pods())
def test_no_message_has_contents_in_it_b38_b75(document: Document, other: Document) -> None:
    for policy in (Policy(), COMPAT, Policy(codes="seed")):
        said = [known().create(document, policy), authorize(document, old_pod=other, policy=policy)]
        after = expanded(document, policy)
        if isinstance(after, AdmissionError):
            said.append(Decision(False, after.status_code, str(after)))
        else:
            said.append(known().create(after, policy))
        for decision in said:
            assert not any(sentinel in repr(decision) for sentinel in SENTINELS)
            assert bool(decision.message) != decision.allowed


@given(pods(), pods())
def test_an_update_is_admitted_if_and_only_if_nothing_changes_b48_b50(new: Document, old: Document) -> None:
    def by_name(document: Document) -> dict[Any, Any]:
        spec = document["spec"]
        found = {each["name"]: each for member in LISTS.values() for each in spec[member]} | {None: spec}
        options = {
            name: (
                each.get("securityContext", {}).get("windowsOptions", {}).get("gmsaCredentialSpecName"),
                each.get("securityContext", {}).get("windowsOptions", {}).get("gmsaCredentialSpec"),
            )
            for name, each in found.items()
        }
        return {name: pair for name, pair in options.items() if pair != (None, None)}

    assert authorize(new, old_pod=old).allowed == (by_name(new) == by_name(old))
    assert authorize(new, old_pod=new).allowed


@given(pods())
def test_nothing_is_asked_twice_and_nobody_in_vain_b57(document: Document) -> None:
    one = known()
    one.create(document)
    asked = [(each.user, each.name) for each in one.reviewed]
    assert len(asked) == len(set(asked))
    assert len(one.fetched) == len(set(one.fetched))
    # What is fetched was authorised before.
    assert {name for _, name in asked} >= set(one.fetched)
    assert FORBIDDEN not in one.fetched


@given(pods(), st.data())
def test_a_right_less_never_admits_more(document: Document, data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.sampled_from(sorted(SPECS))))

    def review(asked: Review) -> Verdict:
        return Verdict(asked.name not in lost)

    specs = known()
    everything = authorize(document, namespace="shop", lookup=specs.lookup, review=lambda _: True)
    less = authorize(document, namespace="shop", lookup=specs.lookup, review=review)
    assert everything.allowed or not less.allowed
