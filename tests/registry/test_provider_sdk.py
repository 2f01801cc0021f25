"""kubeauth.registry.plugin: what a provider reads, what it prints, how it fails; as real programs."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth.errors import RegistryError
from kubeauth.registry import plugin
from kubeauth.registry._wire import read_response, write_request
from kubeauth.registry.plugin import Request, Response
from kubeauth.schemas import AuthConfig
from kubeauth.schemas import CredentialProviderResponse as Read
from tests.registry.configs import EXEC, VERSIONS
from tests.registry.test_wire import line
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, render_error

ROOT = Path(__file__).parent.parent.parent
V1 = f"{EXEC}/v1"
ASKED = line("v1", image="registry.example.com/team/app")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_kubelet_writes_is_what_is_read_3_1(version: str) -> None:
    asked = Request("gcr.io/a/b", f"{EXEC}/{version}")
    assert plugin.read_request(io.BytesIO(write_request(asked))) == asked
    assert plugin.parse_request(write_request(asked)) == asked
    assert plugin.parse_request(write_request(asked).decode()) == asked


def test_token_and_annotations_are_read_3_2() -> None:
    text = line(
        "v1", image="gcr.io:443/a", serviceAccountToken=SENTINEL, serviceAccountAnnotations={"a": "b"}
    )
    found = plugin.parse_request(text)
    assert (found.registry, found.annotations) == ("gcr.io:443", {"a": "b"})
    assert found.token is not None
    assert found.token.reveal() == SENTINEL
    assert SENTINEL not in repr(found)


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_without_a_request_it_says_how_to_try_it(data: bytes) -> None:
    with pytest.raises(RegistryError, match="no CredentialProviderRequest on stdin") as caught:
        plugin.read_request(io.BytesIO(data))
    # What it says to try by hand works.
    by_hand = str(caught.value).split("'")[1]
    assert plugin.parse_request(by_hand) == Request("registry.example.com/image")


def test_a_terminal_is_not_waited_for() -> None:
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "rb") as file, os.fdopen(master, "rb"):
        with pytest.raises(RegistryError, match="To try it by hand"):
            plugin.read_request(file)


def test_a_closed_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(RegistryError, match="To try it by hand"):
        plugin.read_request()


@each_case(
    ("data", "words"),
    [
        (b"bad data", "not a CredentialProviderRequest: line 1, column 1: not valid JSON. "),
        (b'{"kind": "ExecCredential"}', "not a CredentialProviderRequest: kind must be "),
        (line("v1"), "not a CredentialProviderRequest: image is missing. "),
        (b" " * 2**20 + b"{}", "larger than 1 MiB"),
    ],
)
def test_other_requests_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(RegistryError) as caught:
        plugin.read_request(io.BytesIO(data))
    assert words in str(caught.value)


@each_case(
    "text",
    [
        SENTINEL.encode(),
        line("v1", serviceAccountToken=SENTINEL),
        line("v1", image="x", serviceAccountToken=[SENTINEL]),
        line("v2", image=SENTINEL, serviceAccountToken=SENTINEL),
    ],
)
def test_what_is_read_does_not_leak(text: bytes) -> None:
    readers: list[Callable[[bytes], object]] = [
        plugin.parse_request,
        lambda text: plugin.parse_request(text.decode()),
        lambda text: plugin.read_request(io.BytesIO(text)),
    ]
    for read in readers:
        with pytest.raises(RegistryError) as caught:
            read(text)
        assert SENTINEL not in render_error(caught.value)


def printed(response: Response, version: str = "v1") -> dict[str, Any]:
    file = io.StringIO()
    plugin.print_response(Request("gcr.io/x", f"{EXEC}/{version}"), response, file=file)
    text = file.getvalue()
    assert (text.count("\n"), text[-1]) == (1, "\n")
    # As the kubelet reads it.
    assert isinstance(read_response(text.encode(), f"{EXEC}/{version}"), Read)
    document: dict[str, Any] = json.loads(text)
    assert document.pop("kind") == "CredentialProviderResponse"
    assert document.pop("apiVersion") == f"{EXEC}/{version}"
    return document


@each_case("version", VERSIONS)
@each_case("password", ["p<w>é", Secret("p<w>é")], ids=type)
def test_an_answer_in_the_version_that_was_asked_for_3_11(version: str, password: Any) -> None:
    answer = Response({"gcr.io": ("u", password)}, "Registry", timedelta(hours=6))
    assert printed(answer, version) == {
        "cacheKeyType": "Registry",
        "cacheDuration": "6h0m0s",
        "auth": {"gcr.io": {"username": "u", "password": "p<w>é"}},
    }


def test_no_credentials_are_an_answer_3_14() -> None:
    assert printed(Response()) == {"cacheKeyType": "Image", "auth": {}}


@each_case(
    ("duration", "written"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=-5), "0s"),
        (timedelta(minutes=5), "5m0s"),
        (timedelta(milliseconds=1500), "1.5s"),
        (timedelta(days=1, seconds=1), "24h0m1s"),
        (timedelta(days=300 * 365), "1281023h53m38s"),
    ],
)
def test_durations_are_written_as_go_reads_them_3_14(duration: timedelta, written: str) -> None:
    assert printed(Response(cache_duration=duration))["cacheDuration"] == written


NO_AUTH: list[Any] = [
    [SENTINEL],
    {1: ("u", SENTINEL)},
    {"a.io": SENTINEL},
    {"a.io": (SENTINEL,)},
    {"a.io": ("u", SENTINEL.encode())},
    {"a.io": ("u", Secret(SENTINEL.encode()))},
    {"a.io": (None, SENTINEL)},
    {"a.io": ("u", f"{SENTINEL}\ud800")},
    {"\udfff": ("u", SENTINEL)},
    {"a.io": {"username": "u", "password": SENTINEL}},
]
WRONG: list[tuple[Any, str]] = [
    (SENTINEL, "the provider gave a str, not a plugin.Response"),
    (None, "the provider gave a NoneType, not a plugin.Response"),
    (Response({}, "image"), "cache_key_type must be one of Image, Registry, Global"),  # type: ignore[arg-type]
    (Response(cache_duration=300), "cache_duration must be a timedelta"),  # type: ignore[arg-type]
    *((Response(auth), "auth must be a mapping from text to pairs of text") for auth in NO_AUTH),
]


@each_case(("response", "words"), WRONG)
def test_what_a_kubelet_would_refuse_is_not_printed_3_14_3_15(response: Any, words: str) -> None:
    file = io.StringIO()
    with pytest.raises(RegistryError) as caught:
        plugin.print_response(Request("gcr.io/x"), response, file=file)
    assert words in str(caught.value)
    assert file.getvalue() == ""
    assert SENTINEL not in render_error(caught.value)


def test_printing_shows_nothing() -> None:
    answer = Response({SENTINEL: (SENTINEL, SENTINEL)}, "Global", timedelta(seconds=1))
    assert repr(answer) == "Response(<hidden>, 'Global', cache_duration=datetime.timedelta(seconds=1))"
    assert repr(Response()) == "Response({}, 'Image', cache_duration=None)"


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(texts, st.tuples(texts, texts)), st.none() | st.timedeltas())
def test_random_answers_can_be_read(auth: dict[str, tuple[str, str]], duration: timedelta | None) -> None:
    found = printed(Response(auth, "Global", duration))
    assert found["auth"] == {key: {"username": u, "password": p} for key, (u, p) in auth.items()}


@given(
    st.dictionaries(texts, st.tuples(texts, texts)),
    st.none() | st.integers(0, 10**8),
    st.sampled_from(VERSIONS),
)
def test_answers_are_those_of_the_model(
    auth: dict[str, tuple[str, str]], seconds: int | None, version: str
) -> None:
    file = io.StringIO()
    duration = None if seconds is None else timedelta(seconds=seconds)
    plugin.print_response(
        Request("a.io/x", f"{EXEC}/{version}"), Response(auth, "Registry", duration), file=file
    )
    assert Read.model_validate_json(file.getvalue(), extra="forbid") == Read(
        api_version=f"{EXEC}/{version}",
        cache_key_type="Registry",
        cache_duration=seconds,
        auth={key: AuthConfig(username=user, password=Secret(word)) for key, (user, word) in auth.items()},
    )


def test_run_prints_what_main_gives(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line("v1beta1", image="a.io/x"))))
    with pytest.raises(SystemExit) as caught:
        plugin.run(lambda request: Response({request.image: ("u", "p")}))
    assert caught.value.code == 0
    out, err = capfd.readouterr()
    found = read_response(out.encode(), f"{EXEC}/v1beta1")
    assert isinstance(found, Read)
    assert (list(found.auth), err) == (["a.io/x"], "")


PROGRAM = """
import subprocess, sys
from kubeauth import errors
from kubeauth.registry import plugin

print("before")

def main(request):
    print("from main")
    print("the real one", file=sys.__stdout__)
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    {end}

plugin.run(main)
"""


def run(*command: str, stdin: bytes = ASKED, **environ: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**environment, **environ},
        input=stdin,
        capture_output=True,
        check=False,
    )


def test_nothing_that_is_printed_on_the_way_spoils_the_answer_3_10() -> None:
    done = run("-c", PROGRAM.format(end="return plugin.Response({request.registry: ('u', 'p')})"))
    assert done.returncode == 0, done.stderr
    found = read_response(done.stdout, V1)
    assert isinstance(found, Read)
    assert found.auth == {"registry.example.com": AuthConfig(username="u", password=Secret("p"))}
    for words in (b"before", b"from main", b"the real one", b"from a child"):
        assert words in done.stderr


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (
            "raise errors.RegistryError('not logged in:\\n  run my-login')",
            b"-c: not logged in: run my-login\n",
        ),
        (f"raise ValueError('{SENTINEL}')", b"-c: unexpected ValueError. Set KUBEAUTH_PLUGIN_TRACEBACK=1 "),
        (f"return '{SENTINEL}'", b"-c: the provider gave a str, not a plugin.Response.\n"),
    ],
)
def test_it_fails_with_a_line_and_a_status_3_8(end: str, words: bytes) -> None:
    done = run("-c", PROGRAM.format(end=end))
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr
    assert SENTINEL.encode() not in done.stderr
    shown = run("-c", PROGRAM.format(end=end), KUBEAUTH_PLUGIN_TRACEBACK="1")
    assert b"Traceback" in shown.stderr


def test_it_fails_without_a_request() -> None:
    done = run("-c", PROGRAM.format(end="pass"), stdin=b"")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"before" in done.stderr
    assert b"from main" not in done.stderr
    assert b"-c: there is no CredentialProviderRequest on stdin." in done.stderr


def test_a_provider_starts_with_little() -> None:
    code = (
        "from kubeauth.registry import plugin\nimport sys, atexit\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "plugin.run(lambda request: plugin.Response({'a.io': ('u', 'p')}))"
    )
    new = set(run("-c", code).stderr.decode().split()) - set(
        run("-c", "import sys; print(*sys.modules, file=sys.stderr)").stderr.decode().split()
    )
    assert "kubeauth.registry.plugin" in new
    ours = {name for name in new if name.startswith("kubeauth.")}
    assert ours <= {
        "kubeauth.errors", "kubeauth._secret", "kubeauth._streams", "kubeauth._config", "kubeauth._parsing.go", "kubeauth._exec",
        "kubeauth._exec.sdk", "kubeauth._parsing", "kubeauth._parsing.fields",
        "kubeauth._parsing.json", "kubeauth._parsing.limits",
        "kubeauth._parsing.write", "kubeauth._parsing.yaml", "kubeauth.registry", "kubeauth.registry._wire",
        "kubeauth.registry.plugin",
    }  # fmt: skip
    assert not new & {
        "pydantic", "asyncio", "anyio", "httpx", "httpx2", "yaml", "ssl", "_ssl", "socket", "subprocess", "threading", "logging",
        "hashlib", "_hashlib", "hmac", "tempfile", "email", "traceback", "prometheus_client", "cryptography",
    }  # fmt: skip
