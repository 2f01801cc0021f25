"""Malicious kubeconfigs: a typed error in bounded time and memory, without any of their content."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import kubeauth
from kubeauth.errors import KubeConfigError
from tests.support.residue import wait_until

# In a process with limits: 1 GiB of memory, 30 s of processor time.
CHILD = textwrap.dedent(
    """
    import json, resource, sys
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
    import kubeauth
    try:
        kubeauth.load_config(sys.argv[1])
        print(json.dumps(["ok", "", ""]))
    except Exception as error:
        print(json.dumps([type(error).__name__, str(error), getattr(error, "path", None)]))
    """
)


def load_in_child(path: str) -> tuple[str, str, str]:
    result = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    kind, message, error_path = json.loads(result.stdout)
    return kind, message, error_path


ALIASES = "a0: &a0 [s3ntinel]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 40)
)
MERGE_KEYS = "a0: &a0 {s3ntinel: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 40)
)
HOSTILE: dict[str, tuple[bytes, str]] = {
    "binary": (bytes(range(256)) * 100, "characters that YAML does not allow"),
    "50 MB": (b"a" * 50_000_000, "larger than 32 MiB"),
    "50 MB of entries": (b"- s3ntinel\n" * 5_000_000, "larger than 32 MiB"),
    "100 KB of [": (b"[" * 100_000, "nested more than 100"),
    "100 KB of {a:": (b"{a: " * 25_000, "nested more than 100"),
    "json depth": (b'{"a":' * 20_000, "nested more than 100"),
    "block depth": (b"".join(b" " * i + b"a:\n" for i in range(2_000)), "nested more than 100"),
    "billion laughs": (ALIASES.encode(), "more than 10,000 alias expansions"),
    "billion merges": (MERGE_KEYS.encode(), "more than 10,000 alias expansions"),
    "30 MB of values": (b"[" + b"1," * 15_000_000 + b"1]", "more than 1,000,000 values"),
    "30 MB of json values": (b'{"a":[' + b"1," * 15_000_000 + b"1]}", "more than 1,000,000 values"),
    "30 MB of keys": (
        b"".join(b"s3ntinel%d: 1\n" % i for i in range(1_600_000)),
        "more than 1,000,000 values",
    ),
    "a 30 MB scalar": (b'a: "' + b"s3ntinel" * 3_900_000, "not valid YAML"),
    "a million bad clusters": (b"clusters: [" + b"1," * 900_000 + b"]", "must be a mapping, not a number"),
    "a million equal clusters": (b'{"clusters": [' + b"{}," * 490_000 + b"{}]}", "duplicate name"),
    "quotes and commas": (b'{"a":["' + b'\\"' * 1_000_000 + b"," * 1_000_001, "not valid YAML"),
    "a long hint, a long name": (
        b'{"clusters": [{"name": "c", "cluster": {"server": "https://h"}}], "users": [{"name": "u", "user": '
        b'{"exec": {"command": "c", "apiVersion": "v", "interactiveMode": "", "installHint": "'
        + b"\\n\\u001b"
        * 2_000_000
        + b'"}}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],'
        b'"current-context": "x"}',
        "interactiveMode must be specified",
    ),
    "%TAG directives": (b"".join(b"%%TAG !%x! x\n" % i for i in range(60_000)) + b"---\na: b", "%TAG"),
    "a list": (b"[1, 2]", "must be a mapping, not a list"),
    "a scalar": (b"s3ntinel", "must be a mapping, not a string"),
    "a certificate": (b"-----BEGIN CERTIFICATE-----\ns3ntinel\n", "must be a mapping, not a string"),
    "half a file": (b"clusters:\n- name: s3ntinel\n  cluster: {server: 'https", "not valid YAML"),
    "an unclosed quote": (b'token: "s3ntinel\n', "not valid YAML"),
    "a huge number": (b"current-context: " + b"9" * 5_000_000, "context was not found"),
    "a huge json number": (
        b'{"current-context": ' + b"9" * 5_000_000 + b"}",
        "context was not found",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_get_a_typed_error_in_bounded_memory(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)

    kind, text, error_path = load_in_child(str(path))

    assert kind == "KubeConfigError", text
    assert message in text
    assert error_path in (str(path), None)
    assert "s3ntinel" not in text
    assert len(text) < 5_000


def test_special_files_raise_a_kubeconfig_error() -> None:
    for path in ("/dev/zero", "/proc/self/mem", "/", "/dev/null/x"):
        kind, text, _ = load_in_child(path)
        assert kind == "KubeConfigError", (path, kind, text)
    with pytest.raises(KubeConfigError, match="no configuration"):
        kubeauth.load_config("/dev/null")


def test_a_fifo_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(KubeConfigError, match="no configuration"):
        kubeauth.load_config(tmp_path / "fifo")


def test_a_kubeconfig_is_read_from_stdin() -> None:
    script = "import kubeauth, sys; print(kubeauth.load_config('/dev/stdin').server)"
    config = json.dumps({
        "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x",
    })  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", script], input=config, capture_output=True, text=True, check=True
    )
    assert result.stdout == "https://h\n"


def test_reading_from_a_pipe_waits_for_the_writer() -> None:
    """As in `tool <(slow-command)`."""
    read_end, write_end = os.pipe()
    servers: list[str] = []
    reader = threading.Thread(
        target=lambda: servers.append(kubeauth.load_config(f"/dev/fd/{read_end}", cluster="c").server)
    )

    reader.start()
    os.write(write_end, b"clusters: [{name: c, ")
    wait_until(lambda: not select.select([read_end], [], [], 0)[0])
    os.write(write_end, b"cluster: {server: 'https://slow'}}]")
    os.close(write_end)
    reader.join()
    os.close(read_end)

    assert servers == ["https://slow"]


def test_invalid_paths_raise_a_kubeconfig_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("")
    paths: dict[str | Path, str] = {
        tmp_path / "loop": "symbolic links",
        tmp_path / ("x" * 5000): "name too long",
        tmp_path / "file" / "below": "Not a directory",
        "a\0b": "the path contains invalid characters",
        "a\ud800b": "the path contains invalid characters",
    }
    for path, message in paths.items():
        with pytest.raises(KubeConfigError, match=message):
            kubeauth.load_config(path)

    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h", "certificate-authority": "a\0b"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x",
    }  # fmt: skip
    with pytest.raises(KubeConfigError, match="the path contains invalid characters"):
        kubeauth.load_config(document)


def test_an_unreadable_file_raises_a_kubeconfig_error(tmp_path: Path, unprivileged_user: int) -> None:
    path = tmp_path / "config"
    path.write_text("{}")
    path.chmod(0)

    euid = os.geteuid()
    os.seteuid(unprivileged_user)
    try:
        with pytest.raises(KubeConfigError, match="cannot read it: Permission denied") as caught:
            kubeauth.load_config(path)
    finally:
        os.seteuid(euid)

    assert caught.value.path == str(path)


def test_a_failed_load_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def count_descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    (tmp_path / "bad").write_text("[")
    before = count_descriptors()

    for path in (tmp_path, tmp_path / "bad", "/dev/zero", tmp_path / "nope"):
        for _ in range(3):
            with pytest.raises(KubeConfigError):
                kubeauth.load_config(path)

    assert count_descriptors() == before
