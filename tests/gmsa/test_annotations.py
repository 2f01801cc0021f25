"""The alpha stage: annotations in place of fields."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import Policy, authorize, effective_credential_specs
from kubeauth.gmsa._annotations import container_of, contents_key, name_key, pointer
from tests.gmsa.pods import CONTENTS, Document, cluster, container, patched, pod
from tests.support.cases import each_case

ALPHA = Policy(mode="alpha")
POD_NAME = "pod.alpha.windows.kubernetes.io/gmsa-credential-spec-name"
POD_CONTENTS = "pod.alpha.windows.kubernetes.io/gmsa-credential-spec"
A_NAME = "a.container.alpha.windows.kubernetes.io/gmsa-credential-spec-name"
A_CONTENTS = "a.container.alpha.windows.kubernetes.io/gmsa-credential-spec"


def annotated(annotations: dict[str, Any] | None = None, **lists: list[Document]) -> Document:
    document = pod(**(lists or {"containers": [container("a"), container("b")]}))
    document["metadata"]["annotations"] = annotations
    return document


def test_annotations_have_the_names_of_the_seed_b12() -> None:
    assert (name_key(None), contents_key(None)) == (POD_NAME, POD_CONTENTS)
    assert (name_key("a"), contents_key("a")) == (A_NAME, A_CONTENTS)


@each_case(
    ("key", "whose"),
    [
        (A_NAME, "a"),
        (A_CONTENTS, "a"),
        (POD_NAME, None),
        (POD_CONTENTS, None),
        ("pod.container.alpha.windows.kubernetes.io/gmsa-credential-spec", "pod"),
        # What the kubelet tells the runtime is not for us.
        ("container.alpha.windows.kubernetes.io/gmsa-credential-spec", None),
        ("a.container.alpha.windows.kubernetes.io/other", None),
        ("a.container.beta.windows.kubernetes.io/gmsa-credential-spec", None),
        ("gmsa-credential-spec", None),
        ("", None),
    ],
)
def test_whom_an_annotation_is_about_b12_b84(key: str, whose: str | None) -> None:
    assert container_of(key) == whose


def test_keys_fit_for_every_name_of_a_container_b87() -> None:
    prefix, _, member = name_key("x" * 63).partition("/")
    assert (len(prefix) <= 253, len(member) <= 63) == (True, True)
    assert container_of(name_key("x" * 63)) == "x" * 63


def test_annotations_are_filled_in_b85() -> None:
    document = annotated({POD_NAME: "web-spec", A_NAME: "extra-1", "other": "x"})
    patch = cluster().expand(document, ALPHA)
    assert [(each["op"], each["path"]) for each in patch] == [
        ("add", "/metadata/annotations/pod.alpha.windows.kubernetes.io~1gmsa-credential-spec"),
        ("add", "/metadata/annotations/a.container.alpha.windows.kubernetes.io~1gmsa-credential-spec"),
    ]
    after = patched(document, patch)
    assert after["metadata"]["annotations"] == {
        POD_NAME: "web-spec", A_NAME: "extra-1", "other": "x", POD_CONTENTS: CONTENTS, A_CONTENTS: '{"extra":"1"}',
    }  # fmt: skip
    assert cluster().create(after, ALPHA).allowed
    assert effective_credential_specs(after, mode="alpha") == {"a": '{"extra":"1"}', "b": CONTENTS}


def test_a_pointer_has_its_escapes_b85() -> None:
    assert pointer("a~b/c~1d") == "/metadata/annotations/a~0b~1c~01d"


def test_what_is_empty_is_filled_in_and_what_is_there_is_not_b85() -> None:
    known = cluster()
    (operation,) = known.expand(annotated({POD_NAME: "web-spec", POD_CONTENTS: ""}), ALPHA)
    assert operation["op"] == "replace"
    assert known.expand(annotated({POD_NAME: "web-spec", POD_CONTENTS: "x"}), ALPHA) == []


def test_the_two_modes_are_never_mixed_b12() -> None:
    known = cluster()
    both = annotated({POD_NAME: "web-spec", POD_CONTENTS: "{}", A_NAME: "gone"})
    assert known.expand(both) == []
    assert known.create(both).allowed
    assert effective_credential_specs(both) == {"a": None, "b": None}
    fields = pod("gone", containers=[container("a", None, "x")])
    assert known.expand(fields, ALPHA) == []
    assert known.create(fields, ALPHA).allowed
    assert effective_credential_specs(fields, mode="alpha") == {"a": None}
    assert not known.was_asked


@pytest.mark.parametrize("member", ["containers", "initContainers", "ephemeralContainers"])
def test_an_annotation_is_about_a_container_of_the_pod_b84(member: str) -> None:
    known = cluster()
    document = annotated({A_NAME: "web-spec", A_CONTENTS: CONTENTS}, **{member: [container("a")]})
    assert known.create(document, ALPHA).allowed
    assert [each.name for each in known.reviewed] == ["web-spec"]
    assert effective_credential_specs(document, mode="alpha") == {"a": CONTENTS}


@pytest.mark.parametrize("key", [A_NAME, A_CONTENTS])
def test_one_about_a_container_that_is_not_there_is_422_b84(key: str) -> None:
    document = annotated({key: "web-spec"}, containers=[container("b")])
    known = cluster()
    decision = known.create(document, ALPHA)
    assert (decision.code, 'container "a", which the pod does not have' in decision.message) == (422, True)
    with pytest.raises(AdmissionError, match="which the pod does not have") as caught:
        known.expand(document, ALPHA)
    assert caught.value.status_code == 422
    assert not known.was_asked


def test_validation_has_the_codes_of_the_seed_b86() -> None:
    known = cluster(nothing=None)
    known.refusals["extra-1"] = "no"
    cases = [
        ({POD_NAME: "gone", POD_CONTENTS: "{}"}, 422, "does not exist"),
        ({POD_NAME: "extra-1"}, 403, "is not allowed"),
        ({A_CONTENTS: "{}"}, 422, 'container "a" has the contents'),
        ({A_NAME: "web-spec", A_CONTENTS: "{}"}, 422, "do not match"),
        ({A_NAME: "nothing", A_CONTENTS: "{}"}, 417, "has no credspec"),
        ({A_NAME: ""}, 422, "is empty"),
    ]
    for values, code, words in cases:
        decision = known.create(annotated(values), ALPHA)
        assert (decision.code, words in decision.message) == (code, True), decision
    with pytest.raises(AdmissionError) as caught:
        known.expand(annotated({POD_NAME: "gone"}), ALPHA)
    assert caught.value.status_code == 422


@each_case(
    "after",
    [{}, {POD_NAME: "n"}, {POD_CONTENTS: "c"}, {POD_NAME: "n", POD_CONTENTS: "other"}, {POD_NAME: "o", POD_CONTENTS: "c"},
     {POD_NAME: "n", POD_CONTENTS: "c", A_NAME: "n"}, {POD_NAME: "n", POD_CONTENTS: "c", "gone.container.alpha.windows.kubernetes.io/gmsa-credential-spec": ""}],
)  # fmt: skip
def test_no_update_changes_adds_or_removes_one_b86(after: dict[str, str]) -> None:
    before = annotated({POD_NAME: "n", POD_CONTENTS: "c"})
    assert authorize(annotated(after), old_pod=before, policy=ALPHA).code == 400
    assert authorize(before, old_pod=annotated(after), policy=ALPHA).code == 400
    assert authorize(
        before, old_pod=annotated({**before["metadata"]["annotations"], "x": "y"}), policy=ALPHA
    ).allowed


def test_an_old_annotation_about_nobody_does_not_stop_an_update_b86() -> None:
    document = annotated({A_NAME: "n"}, containers=[container("b")])
    assert authorize(document, old_pod=document, policy=ALPHA).allowed


def test_in_the_alpha_stage_a_name_hides_nothing_b65() -> None:
    document = annotated({POD_CONTENTS: "of the pod", A_NAME: "n"})
    assert effective_credential_specs(document, mode="alpha") == {"a": "of the pod", "b": "of the pod"}
    document = annotated({POD_CONTENTS: "of the pod", A_CONTENTS: ""})
    assert effective_credential_specs(document, mode="alpha")["a"] == "of the pod"
    assert effective_credential_specs(annotated({POD_CONTENTS: ""}), mode="alpha") == {"a": None, "b": None}


def test_two_containers_with_one_name_have_one_annotation() -> None:
    document = annotated({A_NAME: "web-spec"}, containers=[container("a")], initContainers=[container("a")])
    assert len(cluster().expand(document, ALPHA)) == 1


@each_case("annotations", [[], "x", {POD_NAME: 5}, {"other": ["x"]}])
def test_annotations_of_another_shape_are_400(annotations: Any) -> None:
    decision = cluster().create(annotated(annotations), ALPHA)
    assert (decision.allowed, decision.code) == (False, 400)
    assert "metadata.annotations" in decision.message
    assert cluster().create(annotated(None), ALPHA).allowed
