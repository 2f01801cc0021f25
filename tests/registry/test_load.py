"""A configuration of providers from a file or a directory (1.12-1.18), and all that is wrong with it at once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth.errors import ConfigError, Problem, ProviderConfigError, RegistryError
from kubeauth.registry._load import load_provider_config
from tests.registry.configs import EXEC, VERSIONS, document, provider, token_attributes, written
from tests.registry.test_config import YAML
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, assert_no_leak


def names(path: Path) -> list[str]:
    return [each.name for each in load_provider_config(path).providers]


def refused(path: Path | str) -> ProviderConfigError:
    with pytest.raises(ProviderConfigError) as caught:
        load_provider_config(path)
    return caught.value


def digest(*contents: bytes) -> str:
    """1.18, from its words."""
    hashed = b"".join(struct.pack(">Q", len(content)) + content for content in contents)
    return f"sha256:{hashlib.sha256(hashed).hexdigest()}"


def test_an_empty_path_1_12() -> None:
    error = refused("")
    assert str(error) == "credential provider config path is empty\n  Name a file or a directory."


@each_case("name", ["gone", "gone/x", "a\0b", "a" * 300, "\udcff", "\U0001f600\ud800"])
def test_a_path_that_is_not_there_1_12(name: str, tmp_path: Path) -> None:
    error = refused(f"{tmp_path}/{name}")
    assert error.problems[0].message.startswith("unable to access path: ")
    assert error.path == f"{tmp_path}/{name}"


def test_the_path_itself_may_be_a_link_1_12(tmp_path: Path) -> None:
    written(tmp_path / "real.yaml", provider("a"))
    (tmp_path / "link").symlink_to("real.yaml")
    assert names(tmp_path / "link") == ["a"]
    (tmp_path / "conf").mkdir()
    written(tmp_path / "conf" / "b.yaml", provider("b"))
    (tmp_path / "other").symlink_to("conf")
    assert names(tmp_path / "other") == ["b"]
    (tmp_path / "dangling").symlink_to("gone")
    assert "unable to access path" in str(refused(tmp_path / "dangling"))


@each_case("name", ["config", "config.txt", "config.yaml", "config.json"])
@each_case("text", [YAML, json.dumps(document(provider()))], ids=["yaml", "json"])
def test_a_file_is_read_whatever_it_is_called_1_13(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    config = load_provider_config(path)
    assert config.paths == (str(path),)
    assert config.providers[0].path == str(path)
    # CT: the hash is checked on every success.
    assert config.hash == digest(text.encode())
    assert load_provider_config(str(path)) == config


def test_the_entries_of_a_directory_1_14(tmp_path: Path) -> None:
    for number, name in enumerate(["b.yaml", "a.yml", "B.json", ".yaml", "é.yaml", "a-.yaml", "a.b.yaml"]):
        written(tmp_path / name, provider(f"p{number}"))
    for name in ("x.txt", "x.YAML", "x.yaml.bak", "yaml", "x.jsonl", "README.md", "x.yaml~"):
        (tmp_path / name).write_text("not even looked at: [")
    (tmp_path / "dir.yaml").mkdir()
    written(tmp_path / "dir.yaml" / "inside.yaml", provider("inside"))
    config = load_provider_config(tmp_path)
    found = [os.path.basename(path) for path in config.paths]
    assert found == [".yaml", "B.json", "a-.yaml", "a.b.yaml", "a.yml", "b.yaml", "é.yaml"]
    assert [each.name for each in config.providers] == ["p3", "p2", "p5", "p6", "p1", "p0", "p4"]
    assert [each.path for each in config.providers] == list(config.paths)


def test_a_name_that_is_no_text_1_14(tmp_path: Path) -> None:
    written(tmp_path / "a.yaml", provider("a"))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")).write_text(json.dumps(document(provider("b"))))
    written(tmp_path / "é.yaml", provider("c"))
    # é begins with a byte below 0xff.
    assert names(tmp_path) == ["a", "c", "b"]


def test_links_in_a_directory_1_14(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    written(tmp_path / "elsewhere", provider("linked"))
    (conf / "a.yaml").symlink_to(tmp_path / "elsewhere")
    assert names(conf) == ["linked"]
    # As in a mounted ConfigMap: the directory behind the links is none of the files.
    (conf / "..data").mkdir()
    assert names(conf) == ["linked"]
    (conf / "b.yaml").symlink_to(conf / "..data")
    error = refused(conf)
    assert (error.path, len(error.problems)) == (str(conf / "b.yaml"), 1)
    assert "unable to read file: Is a directory" in str(error)


@pytest.mark.parametrize("names", [[], ["a.txt", "b.md"]], ids=["CT-empty", "CT-txt-md"])
def test_a_directory_without_configurations_1_14(names: list[str], tmp_path: Path) -> None:
    for name in names:
        written(tmp_path / name, provider())
    error = refused(tmp_path)
    assert "no configuration files found in directory" in str(error)
    assert error.path == str(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_1_12(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir(mode=0)
    assert "unable to access path: Permission denied" in str(refused(tmp_path / "conf"))


def test_one_bad_file_is_an_error_for_all_1_15(tmp_path: Path) -> None:
    written(tmp_path / "a.yaml", provider("a"))
    written(tmp_path / "b.yaml", provider("b", extra=1), provider("c", args=[1]))
    (tmp_path / "c.yaml").write_text("invalid: [")
    (tmp_path / "d.yaml").symlink_to("gone")
    error = refused(tmp_path)
    assert [(os.path.basename(each.path or ""), each.field) for each in error.problems] == [
        ("b.yaml", "providers[1].args[0]"),
        ("b.yaml", "providers[0].extra"),
        ("c.yaml", None),
        ("d.yaml", None),
    ]
    assert (error.path, error.field) == (str(tmp_path / "b.yaml"), "providers[1].args[0]")
    for words in (
        "1. in ",
        "must be a string, not a number",
        "not valid YAML",
        "unable to read file: No such",
    ):
        assert words in str(error)


@pytest.mark.parametrize("version", VERSIONS)
def test_two_providers_in_one_file_1_16(version: str, tmp_path: Path) -> None:
    assert names(written(tmp_path / "c", provider("b"), provider("a"), version=version)) == ["b", "a"]


def test_a_directory_of_several_versions_and_forms_1_16_1_18(tmp_path: Path) -> None:
    contents = [
        json.dumps(document(provider("c", apiVersion=f"{EXEC}/v1alpha1"), version="v1alpha1")),
        YAML,
        json.dumps(document(provider("b"), provider("a"), version="v1beta1")),
    ]
    for name, text in zip(["1.yaml", "2.yml", "3.json"], contents, strict=True):
        (tmp_path / name).write_text(text)
    config = load_provider_config(tmp_path)
    assert [each.name for each in config.providers] == ["c", "ecr", "b", "a"]
    assert config.hash == digest(*(text.encode() for text in contents))
    # Names of files are not hashed, and where one ends counts.
    (tmp_path / "1.yaml").rename(tmp_path / "0.yaml")
    assert load_provider_config(tmp_path).hash == config.hash
    (tmp_path / "2.yml").write_text(YAML + "\n")
    assert load_provider_config(tmp_path).hash != config.hash


@pytest.mark.parametrize(
    ("first", "second"), [(["a", "a"], ["b"]), (["b"], ["a", "a"])], ids=["in-the-first", "in-the-second"]
)
def test_a_name_is_twice_in_one_file_1_17(first: list[str], second: list[str], tmp_path: Path) -> None:
    written(tmp_path / "1.yaml", *map(provider, first))
    written(tmp_path / "2.yaml", *map(provider, second), version="v1beta1")
    (problem,) = refused(tmp_path).problems
    assert problem.message == 'duplicate provider name "a" found in configuration file(s)'


@pytest.mark.parametrize("name", ["a", ""], ids=["CT-duplicate", "without-a-name"])
def test_a_name_is_in_two_files_1_17(name: str, tmp_path: Path) -> None:
    written(tmp_path / "1.yaml", provider(name))
    written(tmp_path / "2.yaml", provider("b"), provider(name))
    error = refused(tmp_path)
    assert error.path == str(tmp_path / "2.yaml")
    words = f'duplicate provider name "{name}" found in configuration file(s): also in {tmp_path / "1.yaml"}'
    assert [problem.message for problem in error.problems] == [words]


def test_everything_that_is_wrong_is_told_1_20(tmp_path: Path) -> None:
    written(tmp_path / "1.yaml", provider("a b", matchImages=["%"]))
    written(
        tmp_path / "2.yaml", provider("b", tokenAttributes=token_attributes(cacheType=None)), provider("a b")
    )
    problems = refused(tmp_path).problems
    assert [(os.path.basename(each.path or ""), each.field) for each in problems] == [
        ("2.yaml", 'providers["a b"].name'),
        ("1.yaml", 'providers["a b"].name'),
        ("1.yaml", 'providers["a b"].matchImages'),
        ("2.yaml", 'providers["b"].tokenAttributes.cacheType'),
        ("2.yaml", 'providers["a b"].name'),
    ]


def test_no_provider_in_any_file_1_20(tmp_path: Path) -> None:
    written(tmp_path / "1.yaml")
    error = refused(tmp_path)
    assert (error.path, error.field) == (str(tmp_path), "providers")
    # One file may have none, if another has.
    written(tmp_path / "2.yaml", provider("a"))
    assert names(tmp_path) == ["a"]


def test_the_error_is_one_of_configuration_and_can_be_sent(tmp_path: Path) -> None:
    error = refused(written(tmp_path / "c", provider("a b")))
    assert isinstance(error, ConfigError)
    assert isinstance(error, RegistryError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ProviderConfigError
    assert (str(again), again.path, again.field, again.problems) == (
        str(error), error.path, error.field, error.problems,
    )  # fmt: skip
    assert isinstance(again.problems[0], Problem)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_1_14(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.yaml")
    assert "must be a mapping, not nothing" in str(refused(tmp_path))


def test_one_that_somebody_writes_to_is_read_to_its_end_1_13() -> None:
    """As a shell gives it: `<(...)`."""
    reading, writing = os.pipe()
    text = json.dumps(document(provider())).encode()

    def write() -> None:
        with open(writing, "wb", buffering=0) as file:
            for byte in text:
                file.write(bytes([byte]))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        (found,) = load_provider_config(f"/dev/fd/{reading}").providers
    finally:
        writer.join()
        os.close(reading)
    assert found.name == "ecr"


def test_a_file_that_goes_on_and_on(tmp_path: Path) -> None:
    assert "larger than 1 MiB" in str(refused("/dev/zero"))
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps(document(*[{f"field{n}": 1} for n in range(10_000)])))
    error = refused(path)
    assert len(error.problems) == 20
    assert len(str(error)) < 10_000


def test_patterns_that_never_match_are_logged_once_2_10(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(
        tmp_path / "c",
        provider("a", matchImages=["https://gcr.io", "gcr.io"]),
        provider("b", matchImages=["x.io/*"]),
    )
    config = load_provider_config(path)
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("kubeauth.registry", logging.WARNING)
    ] * 2
    first, second = caplog.messages
    assert "provider 'a': matchImages 'https://gcr.io' can never match an image: " in first
    assert "provider 'b': matchImages 'x.io/*' can never match an image: " in second
    assert [str(warning) for warning in config.warnings] == caplog.messages
    assert {warning.path for warning in config.warnings} == {str(path)}
    caplog.clear()
    written(path, provider("a"))
    assert load_provider_config(path).warnings == ()
    assert caplog.messages == []


SECRETS: dict[str, Any] = {"args": [SENTINEL], "env": [{"name": "TOKEN", "value": SENTINEL}]}
BROKEN: dict[str, Any] = {
    "unknown field": document(provider(**SECRETS, extra=SENTINEL)),
    "wrong type": document(provider(**SECRETS, matchImages={"a": SENTINEL})),
    "env is a mapping": document(provider(env={"TOKEN": SENTINEL})),
    "value is a list": document(provider(env=[{"name": "TOKEN", "value": [SENTINEL]}])),
    "bad duration": document(provider(**SECRETS, defaultCacheDuration=SENTINEL)),
    "twice": document(provider(**SECRETS), provider(**SECRETS)),
    "invalid": document(provider(**SECRETS, matchImages=["%"])),
    "another kind": document(provider(**SECRETS), kind=SENTINEL),
    "another version": document(provider(**SECRETS), apiVersion=SENTINEL),
    "not json": json.dumps(document(provider(**SECRETS))) + SENTINEL,
    "not yaml": f"a: {SENTINEL}: {SENTINEL}",
    "second document": f"a: 1\n---\n{SENTINEL}",
    "text": SENTINEL,
    "key twice": f'{{"env": "{SENTINEL}", "env": "{SENTINEL}"}}',
    "not text": b"env: " + SENTINEL.encode() + b"\xff",
}


@each_case("broken", BROKEN.values(), ids=BROKEN.keys())
def test_no_secret_in_an_error(broken: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    data = broken if isinstance(broken, str | bytes) else json.dumps(broken)
    (tmp_path / "a.yaml").write_bytes(data if isinstance(data, bytes) else data.encode())
    written(tmp_path / "b.yaml", provider("good", **SECRETS))
    assert_no_leak(refused(tmp_path), caplog)


def test_no_secret_in_what_is_printed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = load_provider_config(written(tmp_path / "c", provider(**SECRETS, matchImages=["gcr.io/*"])))
    (variable,) = config.providers[0].env
    assert (variable.name, variable.value.reveal()) == ("TOKEN", SENTINEL)
    assert caplog.messages
    for shown in (repr(config), str(config), repr(config.providers), repr(config.warnings), caplog.text):
        assert SENTINEL not in shown


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.binary(max_size=60) | json_values.map(lambda v: json.dumps(document(v)).encode()), max_size=3)
)
def test_random_directories_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, files: list[bytes]
) -> None:
    directory = tmp_path_factory.mktemp("conf")
    for number, data in enumerate(files):
        (directory / f"{number}.yaml").write_bytes(data)
    try:
        load_provider_config(directory)
    except ProviderConfigError as error:
        assert error.problems
