from __future__ import annotations

import builtins
import inspect
import pickle

from kubeauth import errors
from kubeauth.errors import KubeAuthError, KubeConfigError, Problem
from tests.support.cases import each_case

EXAMPLES: dict[str, dict[str, object]] = {
    "ServerCertificateError": {"verify_code": 10},
    "KubeConfigError": {"path": "/p", "field": "f", "problems": (Problem("m", "/p", "f", "h"),)},
    "InClusterError": {"path": "/p"},
    "PluginNotAllowed": {"command": "c", "policy": "DenyAll"},
    "PluginError": {"command": "c"},
    "PluginNotFound": {"command": "c", "install_hint": "h"},
    "PluginNotStarted": {"command": "c", "errno": 7},
    "PluginNeedsTerminal": {"command": "c"},
    "PluginFailed": {"command": "c", "exit_code": 3, "stderr_tail": "t"},
    "PluginTimeout": {"command": "c", "timeout": 60.0},
    "PluginOutputError": {"command": "c", "reason": "r"},
    "OidcError": {"issuer": "https://i"},
    "ChallengeError": {"realm": "https://a/token", "status_code": 401, "reason": "r"},
    "OidcWriteError": {"issuer": "https://i", "path": "/p"},
    "TokenFileError": {"path": "/p"},
    "DockerConfigError": {"path": "/p", "field": "f"},
    "ProviderConfigError": {"path": "/p", "field": "f", "problems": (Problem("m", "/p", "f", "h"),)},
    "ProviderError": {"provider": "p", "reason": "exit", "exit_code": 1, "stderr_tail": "s"},
    "DiscoveryError": {"status_code": 404},
    "ClusterNotReady": {"status_code": 404, "attempts": 3},
    "ClusterNotTrusted": {"status_code": 200, "reason": "pin", "pins": ("sha256:0",)},
    "AdmissionError": {"uid": "u", "status_code": 422},
}
CLASSES = [
    value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, KubeAuthError) and not name.startswith("_")
]


def parse_docstring_tree() -> dict[str, str]:
    """Return each class in the docstring's tree, with its base class."""
    bases: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        text = line.lstrip(" │├└─")
        if not text or not (
            text.split()[0].endswith(
                ("Error", "Allowed", "Found", "Started", "Terminal", "Failed", "Timeout", "Ready", "Trusted")
            )
        ):
            continue
        indent, name = len(line) - len(text), text.split()[0]
        path = [step for step in path if step[0] < indent]
        bases[name] = path[-1][1] if path else "Exception"
        path.append((indent, name))
    return bases


def test_the_tree_in_the_docstring_matches_the_classes() -> None:
    public = {cls: [base for base in cls.__mro__[1:] if not base.__name__.startswith("_")] for cls in CLASSES}
    assert parse_docstring_tree() == {cls.__name__: bases[0].__name__ for cls, bases in public.items()}


def test_every_class_is_exported_and_none_shadows_a_builtin() -> None:
    assert {cls.__name__ for cls in CLASSES} | {"Problem"} == set(errors.__all__)
    assert not [cls for cls in CLASSES if hasattr(builtins, cls.__name__)]


@each_case("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_pickled_error_has_its_message_and_attributes(cls: type[KubeAuthError]) -> None:
    attributes = EXAMPLES.get(cls.__name__, {})
    accepted = set(inspect.signature(cls.__init__).parameters) - {"self", "message", "args", "kwargs"}
    assert accepted == set(attributes), "EXAMPLES must have every attribute"

    copy = pickle.loads(pickle.dumps(cls("what happened", **attributes)))
    assert type(copy) is cls
    assert str(copy) == "what happened"
    assert {name: getattr(copy, name) for name in attributes} == attributes


def test_one_problem_has_message_place_and_hint() -> None:
    error = KubeConfigError.from_problems(
        [Problem("it is wrong", "/file", "users[0]", "Fix it.")], prefix="bad: "
    )
    assert str(error) == "bad: it is wrong\n  in /file, users[0]\n  Fix it."
    assert (error.path, error.field) == ("/file", "users[0]")


def test_several_problems_are_listed_as_by_client_go_and_then_explained() -> None:
    error = KubeConfigError.from_problems([Problem("a", "/1", "f"), Problem("b", hint="Do b.")])
    assert str(error) == "[a, b]\n  1. in /1, f\n  2. Do b."
    assert [problem.message for problem in error.problems] == ["a", "b"]
    assert (error.path, error.field) == ("/1", "f")


def test_control_characters_are_escaped_and_long_text_is_truncated() -> None:
    escape = "\x1b[2J"
    long_field = f"f{escape}" + "x" * 9999
    error = KubeConfigError.from_problems([Problem(f"m{escape}", f"/p{escape}", long_field, f"h{escape}")])

    assert "\x1b" not in str(error)
    for part in ("mU+001B", "/pU+001B", "fU+001B", "hU+001B"):
        assert part in str(error)
    assert len(str(error)) < 2_000

    (problem,) = error.problems
    assert "\x1b" not in problem.message + problem.hint + (problem.field or "")

    assert len(Problem("m", "/" + "x" * 9999).place) < 1_000
    assert len(Problem("m", hint="x" * 9999).hint) < 1_000
    assert str(KubeAuthError(f"two\nlines\tand{escape}")) == "two\nlines\tandU+001B[2J"


def test_only_the_first_twenty_problems_are_listed() -> None:
    error = KubeConfigError.from_problems([Problem(f"m{number}") for number in range(25)])
    assert str(error).endswith("m19, and 5 more]")
    assert len(error.problems) == 20


def test_a_path_in_the_message_is_not_repeated() -> None:
    assert str(KubeConfigError.from_problems([Problem("cannot read /file", "/file")])) == "cannot read /file"
