"""What is written, and to what."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubeauth._parsing import read_yaml
from kubeauth.cli import main
from kubeauth.cli._ends import Failed
from kubeauth.cli._output import as_json, as_json_line, as_yaml, pass_on, read_json, write_text
from kubeauth.cli._terminal import harmless
from kubeauth.testing import Answer, APIServer
from tests.cli.programs import KUBEAUTH, environ, ran
from tests.support.cases import each_case

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
# A shell or a container image may set PYTHONUNBUFFERED. Without it, what stderr refused stays in its buffer.
BUFFERED = pytest.mark.parametrize(
    "unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"]
)


def test_a_terminal_gets_text_that_cannot_steer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stdout, open(ours, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stdout", stdout)
        pass_on([b"a\x1b", b"[31m \xc3", b"", b"\xbc \xe2\x82"], untouched=False)
        pass_on([b"\xc3", b"\xbc\r", b"\n"], untouched=False)
        pass_on([b"a\x1b."], untouched=True)
        shown = b""
        while not shown.endswith(b"."):
            shown += screen.read(1000)
    assert shown.decode() == "aU+001B[31m ü \ufffd\r\nü\r\na\x1b."


def test_a_pipe_gets_the_bytes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print("before, ", end="")
    pass_on([b"a\x1b", b"\xff"], untouched=False)
    assert capsysbinary.readouterr().out == b"before, a\x1b\xff"


def test_a_stdout_that_was_closed(api: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        main(["get", "/version"])
    assert ended.value.code == 0
    sys.stdout.close()
    closed = ran("sh", "-c", '"$@" >&-', "sh", *KUBEAUTH, "get", "/version")
    assert closed == (0, "", "")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize(
    "arguments",
    ["get /version", "get /version -o raw", "whoami", "completion bash", "--help", "get --help", "--version"],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_is_full(arguments: str, unbuffered: str, api: APIServer) -> None:
    env = environ(PYTHONUNBUFFERED=unbuffered)
    full = ran("sh", "-c", '"$@" >/dev/full', "sh", *KUBEAUTH, *arguments.split(), env=env)
    assert full == (1, "", "error: No space left on device\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@BUFFERED
def test_a_full_stderr_does_not_prevent_the_answer(unbuffered: dict[str, str], api: APIServer) -> None:
    api.on("GET", "/x", Answer(body={}, headers={"Warning": '299 - "old"'}))
    for arguments in (["get", "/x"], ["get", "/x", "-v", "8"]):
        full = ran("sh", "-c", '"$@" 2>/dev/full', "sh", *KUBEAUTH, *arguments, env=environ(**unbuffered))
        assert full == (0, "{}\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@BUFFERED
@pytest.mark.parametrize(
    ("arguments", "status"), [("get /missing", 1), ("get", 2), ("get /x --context=missing", 3)]
)
def test_a_full_stderr_changes_no_exit_status(
    arguments: str, status: int, unbuffered: dict[str, str], api: APIServer
) -> None:
    """CPython exits with 120 if it cannot flush what is left in the buffer of stderr."""
    command = [*KUBEAUTH, *arguments.split()]
    full = ran("sh", "-c", '"$@" 2>/dev/full', "sh", *command, env=environ(**unbuffered))
    assert full == (status, "", "")


def test_a_stderr_without_a_reader_changes_no_exit_status(api: APIServer) -> None:
    """As with `2>&1 >file | head -1`."""
    api.on("GET", "/x", Answer(body={}, headers={"Warning": '299 - "old"'}))
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as closed:
        done = subprocess.run([*KUBEAUTH, "get", "/x"], stdout=subprocess.PIPE, stderr=closed, check=False)
    assert (done.returncode, done.stdout) == (0, b"{}\n")


def test_text_in_the_encoding_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    write_text("ü日\ud800")
    assert raw.getvalue() == b"\xfc\\u65e5\\ud800"


@given(JSON)
def test_json_is_read_back_as_it_was_and_steers_no_terminal(value: object) -> None:
    for written in (as_json(value), as_json_line(value)):
        text = written.decode("utf-8", "surrogatepass")
        assert json.loads(text) == value
        assert all(char.isprintable() or char in "\n\u00a0" or char.isspace() for char in text)
    assert as_json_line(value).count(b"\n") == 1


# The last turn what stands behind them around, or are line breaks to some.
@each_case("char", ["\x1b", "\x7f", "\x9b", "\x08", "\u200b", "\u202e", "\u2066", "\u2028"])
def test_what_could_steer_a_terminal_is_spelled_out(char: str) -> None:
    value = {f"key{char}": f"value{char}\n"}
    written = as_yaml(value).decode()
    assert char not in written
    assert yaml.safe_load(written) == value
    for text in (as_json(value).decode(), as_json_line(value).decode()):
        assert char not in text
        assert json.loads(text) == value


@given(st.text() | st.characters(categories=["Cf", "Co", "Zl", "Zp", "Zs"]))
def test_yaml_is_read_back_as_it_was(text: str) -> None:
    written = as_yaml({text: text})
    assert read_yaml(written) == {text: text}
    assert harmless(written.decode()) == written.decode()


@each_case("body", [b"1e999", b'{"a": -1e999}', b"NaN", b"-Infinity"])
def test_a_number_that_json_cannot_write_is_none(body: bytes) -> None:
    with pytest.raises(Failed, match="-o raw shows it"):
        read_json(body)
