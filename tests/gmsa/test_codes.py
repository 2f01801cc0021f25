"""Every status that a pod is denied with, as shipped and as the seed has it."""

from __future__ import annotations

import pytest

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import Policy, authorize
from tests.gmsa.pods import CONTENTS, Cluster, Document, cluster, container, pod
from tests.support.cases import each_case

# What happens: at creation to which pod, mutated or validated, shipped, seed.
CODES = [
    ("bad pod", "mutate", {"spec": []}, 400, 400),
    ("bad pod", "validate", {"spec": []}, 400, 400),
    ("not authorised", "validate", pod("forbidden"), 403, 403),
    ("contents without name", "validate", pod(None, CONTENTS), 422, 422),
    ("mismatch", "validate", pod("web-spec", "{}"), 422, 422),
    ("not JSON", "validate", pod("web-spec", "{"), 422, 422),
    ("not found", "mutate", pod("gone"), 404, 422),
    ("not found", "validate", pod("gone", "{}"), 404, 422),
    ("without credspec", "mutate", pod("nothing"), 417, 417),
    ("without credspec", "validate", pod("nothing", "{}"), 417, 417),
    ("failed otherwise", "mutate", pod("broken"), 500, 500),
    ("failed otherwise", "validate", pod("broken", "{}"), 500, 500),
    ("name without contents", "validate", pod("gone"), 200, 200),
    ("fine", "mutate", pod("web-spec"), 200, 200),
    ("fine", "validate", pod("web-spec", CONTENTS), 200, 200),
]


class Moody(Cluster):
    def lookup(self, name: str) -> object:
        self.broken = "away" if name == "broken" else None
        return super().lookup(name)


def moody() -> Moody:
    known = cluster(nothing=None)
    return Moody(known.specs, {"forbidden": "no"})


def code(path: str, document: Document, policy: Policy) -> int:
    if path == "validate":
        return moody().create(document, policy).code
    try:
        moody().expand(document, policy)
    except AdmissionError as error:
        return error.status_code
    return 200


@each_case("compat", [False, True], ids=["strict", "compat"])
@each_case(
    ("what", "path", "document", "shipped", "seed"), CODES, ids=[f"{each[0]} at {each[1]}" for each in CODES]
)
def test_the_codes_of_section_13(
    what: str, path: str, document: Document, shipped: int, seed: int, compat: bool
) -> None:
    assert code(path, document, Policy(compat=compat)) == shipped, what
    assert code(path, document, Policy(compat=compat, codes="seed")) == seed, what


@pytest.mark.parametrize("compat", [False, True], ids=["strict", "compat"])
def test_a_change_by_an_update_is_403_or_400_b49(compat: bool) -> None:
    new, old = pod("n", containers=[container("c")]), pod("m", containers=[container("c")])
    assert authorize(new, old_pod=old, policy=Policy(compat=compat)).code == 403
    assert authorize(new, old_pod=old, policy=Policy(compat=compat, codes="seed")).code == 400
