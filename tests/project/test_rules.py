"""Every rule of the behaviour spec that is built has a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType

from tests.registry.images import TABLE

TESTS = Path(__file__).parents[1]

BUILT = [
    # kubeconfig, and what becomes of it on a connection
    *[f"K{n}" for n in range(1, 70)], "K9a", "K50a",
    # plugins: how they are run, and what they print
    *[f"X{n}" for n in range(1, 48)],
    # what they gave: kept, shared, renewed, rotated
    *[f"C{n}" for n in range(1, 24)],
    # what is counted
    *[f"M{n}" for n in range(1, 6)],
    # what a request carries
    *[f"I{n}" for n in range(1, 16)],
    # which plugins may be run
    *[f"P{n}" for n in range(1, 15)],
    # who logs in at an OIDC issuer
    *[f"O{n}" for n in range(1, 11)],
    # upstream's tables
    *[f"T{n}" for n in range(1, 98)],
]  # fmt: skip

REGISTRY = [
    # the configuration of image credential providers: read, found, checked, registered
    *[f"1.{n}" for n in (*range(1, 19), *range(20, 35), *range(40, 44))],
    # which images a pattern matches
    *[f"2.{n}" for n in range(1, 11)],
    # how a provider is run, and what it answers
    *[f"3.{n}" for n in range(1, 18)],
    # what is kept, and for whom it is asked
    *[f"4.{n}" for n in range(1, 22)],
    # credentials in order, docker configs, pull secrets
    *[f"5.{n}" for n in range(1, 16)],
    # what is counted
    *[f"6.{n}" for n in range(1, 4)],
    # names of images
    *[f"7.{n}" for n in range(1, 7)],
    # signing in to a registry
    *[f"9.{n}" for n in range(1, 19)],
    # providers that there are
    *[f"10.{n}" for n in range(1, 7)],
]  # fmt: skip

GMSA = [
    # the custom resource, rights, the registration of the webhook
    *[f"B{n}" for n in range(1, 11)],
    # where a pod names a credential spec, and what the API server makes of it
    *[f"B{n}" for n in (11, 12, 13, 14, 15)],
    # the HTTP of the webhook, AdmissionReview, the expander, the authorizer
    *[f"B{n}" for n in range(16, 53)],
    # what an API server is asked
    *[f"B{n}" for n in range(53, 61)],
    # what a container runs with; B67 is about a gate that is gone
    *[f"B{n}" for n in (*range(61, 67), 68, 69)],
    # what is in a credential spec
    *[f"B{n}" for n in range(70, 76)],
    # the process; B77 is about flags, of which there are none yet
    *[f"B{n}" for n in (76, *range(78, 83))],
    # what not to copy; annotations
    *[f"B{n}" for n in range(83, 88)],
]  # fmt: skip
DISCOVERY = [f"A{n}" for n in range(1, 93)]  # docs/rules.md says which is about what
# With the real controllers, and with kubeadm: some rules are about what these do.
WITH_THE_REAL_ONES = [
    "test_bootstrap_tokens.py",
    "test_discovery.py",
    "test_discovery_seed.py",
    "test_kubeadm.py",
]

# The tests of the kubelet itself: each is a test here, or a case of one.
UPSTREAM = """
    SingleflightProvide Provide ProvideParallel getCachedCredentials PT-encode PT-decode
    NoCacheResponse EnvVars SAKey CacheKey RequiredAnnotationNotFound CacheKeyGeneration
    URLsMatch DockerKeyringForGlob KeyringMiss MissWithDockerHubCredentials HitWithUnqualifiedDockerHub
    HitWithUnqualifiedLibraryDockerHub HitWithQualifiedDockerHub IsDefaultRegistryMatch ProvidersDockerKeyring
    DockerKeyringLookup Issue3797
    CT-empty CT-txt-md CT-wrong-kind CT-wrong-group CT-duplicate CT-valid
    CT-no-matchImages CT-no-duration CT-no-apiVersion CT-slash CT-dot CT-dots CT-space CT-version CT-negative
    CT-matchImage CT-no-audience CT-no-cacheType CT-no-require CT-cacheType CT-required-key CT-optional-key
    CT-required-twice CT-optional-twice CT-both CT-not-required
    ReadDockerConfigFile DT-DockerConfigJson DT-dockercfg DT-plain-fields DT-auth-only DT-both DT-pants
    DT-email-false DT-padded DT-unpadded DT-newlines DT-std DT-raw DT-own-encoder DT-no-colon DT-trailing-space
    DT-flat-truncated DT-auths-truncated
    MakeDockerKeyring
"""


def test_every_rule_is_named_by_a_test() -> None:
    text = "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name)
    named = {
        match.upper()
        for name in re.findall(r"def (test_\w+)", text)
        for match in re.findall(r"_([bcikmoptx]\d+a?)(?=_|$)", name)
    }
    # Words in a docstring do not count: a test must carry the rule in its name.
    assert sorted({rule.upper() for rule in [*BUILT, *GMSA]} - named) == []


def test_every_rule_about_discovery_is_named_by_a_test() -> None:
    paths = [*TESTS.glob("discovery/test_*.py"), *(TESTS / "e2e" / name for name in WITH_THE_REAL_ONES)]
    text = "".join(path.read_text() for path in paths)
    names = re.findall(r"def (test_\w+)", text)
    named = {match.upper() for name in names for match in re.findall(r"_(a\d+)(?=_|$)", name)}
    assert [rule for rule in DISCOVERY if rule not in named] == []


def texts(kinds: type[ast.stmt] | UnionType = ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Of each test about registries: its name, and what else it is called: a docstring, the ids of its cases."""
    for path in [*TESTS.glob("registry/test_*.py"), TESTS / "metrics/test_metrics.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, kinds)
                and isinstance(node, ast.FunctionDef | ast.ClassDef)
                and node.name.lower().startswith("test")
            ):
                yield node.name, ast.get_docstring(node) or ""
            elif isinstance(node, ast.keyword) and node.arg in ("id", "ids"):
                for each in ast.walk(node.value):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield "", each.value


def numbers(name: str, words: str) -> Iterator[str]:
    """`test_a_token_is_kept_9_2_9_11`, and `4.5, 4.7: ...`; of a range the ends and what is between."""
    # From the end: what a name is about may itself be a number.
    while found := re.fullmatch(r"(\w+)_(\d+)_(\d+)", name):
        yield f"{found[2]}.{found[3]}"
        name = found[1]
    for section, first, last in re.findall(r"(?<![\w.])(\d+)\.(\d+)(?:-\1\.(\d+))?(?![\w.]\d)", words):
        for number in range(int(first), int(last or first) + 1):
            yield f"{section}.{number}"


def test_every_rule_about_registries_is_named_by_a_test() -> None:
    named = {rule for name, words in texts() for rule in numbers(name, words)}
    assert [rule for rule in REGISTRY if rule not in named] == []


def test_every_image_of_the_table_is_a_case() -> None:
    """tests/registry/test_match.py has them by these names: `pytest -k M07`."""
    wanted = [f"M{n:02}" for n in range(1, 51)] + [f"X{n:02}" for n in range(1, 27)]
    assert [row[0] for row in TABLE] == wanted


def test_every_test_of_the_kubelet_is_one_here() -> None:
    both = list(texts(ast.FunctionDef | ast.ClassDef))
    named = {name.replace("_", "").lower() for name, _ in both}
    words = " ".join(words for _, words in both)
    missing = [
        each
        for each in UPSTREAM.split()
        if not re.search(rf"(?<![\w-]){each}(?![\w])", words)
        and not any(each.lower() in name for name in named)
    ]
    assert missing == []


def test_the_numbers_of_a_test() -> None:
    """The tests above would be content with whatever this makes up."""
    assert list(numbers("test_at_port_80_9_2_9_11", "")) == ["9.11", "9.2"]
    assert list(numbers("test_x", "4.5, 4.7-4.9: not 127.0.0.1, nor 1.2.3")) == ["4.5", "4.7", "4.8", "4.9"]
    assert list(numbers("", "CT-slash-1.21")) == ["1.21"]
