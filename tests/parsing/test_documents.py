"""K9a: untrusted documents, with the types of Go's YAML, and within limits."""

from __future__ import annotations

import datetime
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth._parsing import DocumentError, copy_plain, read_document, read_json, read_yaml
from kubeauth._parsing.limits import MAX_DEPTH
from tests.support.cases import each_case

LIMIT = 2**20
BOTH_PARSERS = pytest.mark.parametrize("pure_python", [False, True], ids=["C", "python"])

SCALARS: list[tuple[str, Any]] = [
    # words (K9a: y and n are booleans, in the spellings Go knows and no others)
    *[(word, True) for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")],
    *[(word, False) for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")],
    *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
    *[(word, word) for word in ("yEs", "nULL", "tru", "ye", "nope", "offf", "None", "nil", "undefined")],
    # numbers
    ("0", 0), ("7", 7), ("+7", 7), ("-7", -7), ("1_000", 1000),
    ("0x1F", 31), ("-0x10", -16), ("0b11", 3), ("017", 15), ("0o17", 15), ("089", 89.0),
    ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("1.5E-2", 0.015),
    ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", float(2**64)), ("-9223372036854775809", -float(2**63 + 1)),
    # not numbers: no timestamps, no base 60
    *[(text, text) for text in ("2020-01-01", "2020-01-01T00:00:00Z", "12:30:45", "1.2.3", "0x", "0xG",
                                "1e", "+", ".", "..", "-x", "1a", "e3", "=")],
    # numbers beyond float64 stay text
    ("1e999", "1e999"), ("9" * 400, "9" * 400), ("-1e999", "-1e999"),
    # quoted values are strings
    ("'1'", "1"), ('"true"', "true"), ("''", ""), ('"\\u2603"', "☃"),
    ("!!str 1", "1"), ("!mine 1", "1"), ("!!python/object:os.system x", "x"),
    ("! 1", "1"), ("!!binary aGk=", "hi"), (".5_5", 0.55),
    ("!!int '3'", 3), ("!!float 3", 3), ("!!bool 'yes'", True), ("!!null ''", None),
]  # fmt: skip


@BOTH_PARSERS
@each_case(("text", "value"), SCALARS, ids=[repr(text) for text, _ in SCALARS])
def test_scalars_have_the_types_of_go_yaml_k9a(text: str, value: Any, pure_python: bool) -> None:
    document = read_yaml(f"v: {text}\n".encode(), pure_python=pure_python)
    assert document == {"v": value}
    assert isinstance(document["v"], bool) == isinstance(value, bool)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 400])
def test_a_number_beyond_float64_is_text_or_rejected(text: str) -> None:
    data = f'{{"v": {text}, "w": 1.5, "x": 12, "y": {2**70}}}'.encode()
    assert read_json(data) == {"v": text, "w": 1.5, "x": 12, "y": float(2**70)}

    with pytest.raises(DocumentError, match="a number that is not valid in JSON"):
        read_json(data, finite=True)

    rest = data.replace(f'"v": {text}, '.encode(), b"")
    assert read_json(rest, finite=True) == {"w": 1.5, "x": 12, "y": float(2**70)}


INVALID = {
    "unclosed": b"a: [b",
    "tab": b"a:\n\t- b",
    "two-values": b"a: b: c",
    "unknown-alias": b"a: *b",
    "alias-to-itself": b"a: &a [*a]",
    "infinity": b"a: .inf",
    "not-a-number": b"a: .NaN",
    "bad-float-tag": b"a: !!float maybe",
    "float-tagged-int": b"a: !!int 3.5",
    "bad-binary-tag": b"a: !!binary '%'",
    "too-many-tag-directives": b"".join(b"%%TAG !%x! x\n" % i for i in range(60_000)) + b"---\na: b",
    "too-long-a-tag-directive": b"%TAG !e! " + b"x" * 2**20 + b"\n---\na: !e!x b",
    "utf-16-tag-directives": ("".join(f"%TAG !{i:x}! x\n" for i in range(60_000)) + "---\na: b").encode(
        "utf-16"
    ),
    "large-integer-key": b"9223372036854775808: 1",
    "bad-bool-tag": b"a: !!bool maybe",
    "bad-int-tag": b"a: !!int maybe",
    "bad-null-tag": b"a: !!null x",
    "merge-of-a-list": b"a: {<<: [1]}",
    "merge-of-a-scalar": b"a: {<<: 1}",
    "null-key": b"~: 1",
    "list-key": b"? [a]\n: 1",
    "binary": b"\x00\x01\x02",
    "not-utf-8": b"a: \xff\xfe\xfd",
    "json-nan": b'{"a": Infinity, "b": [}',
}


@BOTH_PARSERS
@each_case("data", INVALID.values(), ids=INVALID.keys())
def test_an_invalid_document_raises_a_document_error(data: bytes, pure_python: bool) -> None:
    with pytest.raises(DocumentError):
        read_yaml(data, pure_python=pure_python)
    with pytest.raises(DocumentError):
        read_document(data, limit=LIMIT)


@pytest.mark.parametrize(
    ("data", "position"),
    [(b"a: b\nc: [d\ne: f", (3, 2)), (b"a:\n  b: *nope\n", (2, 6)), (b"a: b\n c: d", (2, 3))],
)
def test_errors_have_line_and_column(data: bytes, position: tuple[int, int]) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(data, limit=LIMIT)
    assert (caught.value.line, caught.value.column) == position
    assert str(caught.value).startswith(f"line {position[0]}, column {position[1]}: ")


SENTINEL = "s3ntinel"


@BOTH_PARSERS
@each_case(
    "text",
    ["a: [{S}", "{S}: &{S} *{S}", "{S}: *{S}", "a: !!bool {S}", "a: !!int {S}", "- %{S}", "a: 'x{S}", '"{S}',
     "%{S} 1\n---\n", "a: {S}: {S}", "{S}\n:", "a: @{S}", "a: `{S}", "!<{S}", "a: |{S}", '{{"{S}": {S}x}}',
     "&{S}", "a: !{S}!x y", "? [{S}]\n: 1", "a: \"\\{S}\""],
)  # fmt: skip
def test_errors_do_not_contain_the_text(text: str, pure_python: bool) -> None:
    data = text.replace("{S}", SENTINEL).replace("{{", "{").replace("}}", "}").encode()
    for read in (partial(read_yaml, pure_python=pure_python), partial(read_document, limit=LIMIT)):
        try:
            read(data)
        except DocumentError as error:
            assert SENTINEL not in str(error)
            assert error.__cause__ is None
            # The exception of the parser may hold its input.
            assert error.__context__ is None or error.__suppress_context__


def test_collections_are_read_from_the_first_document_only() -> None:
    text = b"a: &x [1, {b: c}]\nd: *x\n? e\n: |\n  text\n---\n[broken"

    assert read_document(text, limit=LIMIT) == {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}], "e": "text\n"}
    assert read_document(b"", limit=LIMIT) is None
    assert read_document(b"# nothing\n", limit=LIMIT) is None
    assert read_document(b"- a\n-\n- []\n- {}\n", limit=LIMIT) == ["a", None, [], {}]


def test_keys_are_converted_to_text_as_by_go() -> None:
    assert read_yaml(b"1: a\n2.5: b\ntrue: c\n'x': d\n0x10: e\n1e3: f\n") == {
        "1": "a", "2.5": "b", "true": "c", "x": "d", "16": "e", "1000": "f",
    }  # fmt: skip


@BOTH_PARSERS
@each_case(
    ("text", "expected"),
    [
        (b"{a: 1, b: {a: 2}, c: [{a: 1}, {a: 1}]}", []),
        (b"{a: 1, b: {c: 1, c: 2}, a: 1}", ["c", "a"]),
        (b"{a: 1, 'a': 1, a: 1}", ["a", "a"]),
        (b"{1: x, '1': y, true: x, yes: y}", ["1", "true"]),
        # In the strict mode of Go's YAML a merged key is a duplicate too.
        (b"{x: &x {a: 1, b: 1}, y: {<<: *x, c: 1}}", []),
        (b"{x: &x {a: 1, b: 1}, y: {<<: *x, b: 2}}", ["b"]),
        (b"{x: &x {a: 1, b: 1}, y: {b: 2, <<: *x}}", ["b"]),
        (b"{x: &x {a: 1}, y: {<<: [*x, *x]}}", ["a"]),
    ],
)
def test_duplicate_keys_of_yaml_are_reported(text: bytes, expected: list[str], pure_python: bool) -> None:
    repeated: list[str] = []

    document = read_yaml(text, repeated=repeated, pure_python=pure_python)

    assert repeated == expected
    assert read_yaml(text, pure_python=pure_python) == document


def test_duplicate_keys_of_json_are_reported() -> None:
    repeated: list[str] = []
    text = b'{"a": 1, "b": {"c": 1, "d": 1, "c": 2, "c": 3}, "a": 2, "A": 3}'
    assert read_json(text, repeated=repeated) == read_json(text) == {"a": 2, "b": {"c": 3, "d": 1}, "A": 3}
    assert repeated == ["c", "a"]


def test_keys_that_become_equal_are_reported_as_duplicates() -> None:
    repeated: list[str] = []
    text = '{"\\ud800": 1, "\ufffd": 2, "b": 3}'.encode()
    assert read_json(text, repeated=repeated) == {"\ufffd": 2, "b": 3}
    assert repeated == ["\ufffd"]


def test_merge_keys_are_expanded_as_by_go() -> None:
    assert read_yaml(b"a: &a {p: 1, q: 1}\nc: {<<: *a, p: 9}")["c"] == {"p": 9, "q": 1}
    assert read_yaml(b"a: &a {p: 1}\nc: {p: 9, <<: *a}")["c"] == {"p": 1}
    assert read_yaml(b"a: &a {p: 1}\nb: &b {p: 2, q: 2}\nc: {<<: [*a, *b]}")["c"] == {"p": 1, "q": 2}
    assert read_yaml(b"c: {'<<': 1}") == {"c": {"<<": 1}}
    assert read_yaml(b"c: [<<]") == {"c": ["<<"]}
    assert read_yaml(b"c: {!!merge <<: {p: 1}}") == {"c": {"p": 1}}
    assert read_yaml(b"c: {&q <<: {p: 1}, *q : 3}") == {"c": {"p": 1, "<<": 3}}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encoding_is_detected(encoding: str) -> None:
    assert read_document("é: ☃".encode(encoding), limit=LIMIT) == {"é": "☃"}


def test_json_is_read_as_json_and_flow_yaml_as_yaml() -> None:
    assert read_document(b'{"a": "2020-01-01", "y": [1, 2.0, null, true]}', limit=LIMIT) == {
        "a": "2020-01-01", "y": [1, 2.0, None, True],
    }  # fmt: skip
    assert read_document(b"{a: b}", limit=LIMIT) == {"a": "b"}
    assert read_json(b'{"n": 123456789012345678901234567890}') == {"n": 123456789012345678901234567890.0}
    assert read_json(b'{"n": 1E400, "m": %s}' % (b"9" * 400)) == {"n": "1E400", "m": "9" * 400}
    assert read_json(rb'{"\ud800": 1}') == {"\ufffd": 1}
    assert read_json(rb'{"s": "\ud800"}') == {"s": "\ufffd"}
    assert read_json(rb'{"s": "\ud83d\ude00"}') == {"s": "😀"}


@each_case(
    "data", [b"{", b"[1]x", b'{"a": NaN}', b'{"a": -Infinity}', b"\xff", b'{"a": "\n"}'],
)  # fmt: skip
def test_invalid_json_raises_a_document_error(data: bytes) -> None:
    with pytest.raises(DocumentError) as caught:
        read_json(data)
    assert caught.value.__context__ is None, "JSONDecodeError holds the document"


NESTED = {
    "flow-lists": lambda depth: b"[" * depth + b"]" * depth,
    "block-lists": lambda depth: b"- " * depth + b"x",
    "flow-mappings": lambda depth: b"{a: " * depth + b"}" * depth,
    "json": lambda depth: b'{"a":' * depth + b"1" + b"}" * depth,
}


@each_case("nested", NESTED.values(), ids=NESTED.keys())
def test_depth_is_limited(nested: Any) -> None:
    assert read_document(nested(MAX_DEPTH - 1), limit=LIMIT)
    for depth in (MAX_DEPTH + 2, 100_000):
        with pytest.raises(DocumentError, match="nested more than 100 levels deep"):
            read_document(nested(depth), limit=2**25)


def test_depth_through_aliases_is_limited() -> None:
    lines = [b"a0: &a0 [x]"] + [b"a%d: &a%d [[[[[[[[[[*a%d]]]]]]]]]]" % (i, i, i - 1) for i in range(1, 20)]
    with pytest.raises(DocumentError, match="nested more than 100 levels deep"):
        read_yaml(b"\n".join(lines))


def test_a_billion_laughs_attack_is_rejected() -> None:
    lines = ["a0: &a0 [lol]"] + [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(DocumentError, match="more than 10,000 alias expansions"):
        read_yaml("\n".join(lines).encode())


def test_aliases_of_a_large_value_are_rejected() -> None:
    large = "a: &a [" + ",".join("x" * 30_000) + "]\n"
    with pytest.raises(DocumentError, match="more than 1,000,000 values"):
        read_yaml((large + "b: [" + ",".join(["*a"] * 100) + "]").encode())


def test_aliases_within_the_limits_are_accepted() -> None:
    text = "a: &a {b: c}\nd: [" + ",".join(["*a"] * 9_000) + "]"
    assert len(read_yaml(text.encode())["d"]) == 9_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.no_cover  # a million events, each of which would be traced; smaller documents cover it
@pytest.mark.parametrize("data", [b"[" + b"1," * 1_000_001 + b"1]", b'{"a": [' + b"[]," * 1_000_000 + b"1]}"])
def test_the_number_of_values_is_limited(data: bytes) -> None:
    with pytest.raises(DocumentError, match="more than 1,000,000 values"):
        read_document(data, limit=2**25)


@pytest.mark.parametrize("before", ["", "\\\\", '\\"', '\\\\\\"', "\\\\\\\\"])
def test_read_json_does_not_count_commas_in_strings_as_values(before: str) -> None:
    """Also after an escaped quote, which does not end the string, or an escaped backslash."""
    text = before + "," * 1_000_001
    document = read_json(b'{"a": "' + text.encode() + b'"}')

    assert document == {"a": json.loads(f'"{text}"')}

    # Values after such a string are counted.
    with pytest.raises(DocumentError, match="more than 1,000,000 values"):
        read_json(b'{"a": "' + before.encode() + b'", "b": [' + b"1," * 1_000_001 + b"1]}")


def test_commas_in_many_short_strings_are_counted_as_values() -> None:
    with pytest.raises(DocumentError, match="more than 1,000,000 values"):
        read_json(b"[" + b'",,,,,,,,",' * 120_000 + b"1]")


def test_read_document_does_not_count_commas_in_strings_as_values() -> None:
    assert read_document(b'{"a": "' + b"," * 1_000_001 + b'"}', limit=2**25) == {"a": "," * 1_000_001}


def test_data_after_the_document_is_an_error_only_with_whole() -> None:
    two_documents = b'{"a": 1}\n{"b": 2}'
    assert read_document(two_documents, limit=LIMIT) == {"a": 1}
    for data in (two_documents, b"a: 1\n---\nb: 2"):
        with pytest.raises(DocumentError):
            read_document(data, limit=LIMIT, whole=True)
    assert read_document(b"---\na: 1\n...\n", limit=LIMIT, whole=True) == {"a": 1}


def test_without_libyaml_the_size_is_limited_further() -> None:
    with pytest.raises(DocumentError, match="libyaml"):
        read_yaml(b"a: b\n" * 600_000, pure_python=True)
    with pytest.raises(DocumentError):
        read_yaml(b'"\\U00110000"', pure_python=True)
    assert read_yaml(b'a: "\\ud800"', pure_python=True) == {"a": "\ufffd"}


def test_size_is_limited() -> None:
    with pytest.raises(DocumentError, match="larger than 1 MiB"):
        read_document(b"a" * (LIMIT + 1), limit=LIMIT)


def test_copy_plain_copies_and_validates_parsed_documents() -> None:
    source = {"a": [1, (2, 3)], 4: {"d": datetime.date(2020, 1, 2)}, "t": datetime.datetime(2020, 1, 2)}
    copied = copy_plain(source)
    assert copied == {"a": [1, [2, 3]], "4": {"d": "2020-01-02"}, "t": "2020-01-02T00:00:00"}

    copied["a"].append(1)
    assert source["a"] == [1, (2, 3)]

    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(DocumentError, match="nested more than"):
        copy_plain(cycle)

    unsupported = [object(), b"bytes", {1, 2}, float("inf"), {None: 1}, {(1, 2): 3}, 10**400, {10**5000: 1}]
    for value in unsupported:
        with pytest.raises(DocumentError):
            copy_plain({"a": value})

    assert copy_plain({"n": 2**70, "b": True, "s": "\ud800"}) == {"n": float(2**70), "b": True, "s": "\ufffd"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=30,
)  # fmt: skip


@given(JSON)
def test_json_is_read_back_unchanged(value: Any) -> None:
    assert read_json(json.dumps(value).encode()) == value
    assert read_document(json.dumps({"v": value}).encode(), limit=LIMIT) == {"v": value}


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_random_bytes_yield_json_values_or_a_document_error(data: bytes) -> None:
    try:
        value = read_document(data, limit=LIMIT)
    except DocumentError:
        return
    json.dumps(value, allow_nan=False).encode()


FRAGMENTS = st.sampled_from(
    ["a", "b: ", "- ", "\n", "  ", "[", "]", "{", "}", ",", ": ", "&x ", "*x", "<<: ", "!!int ", "!t ", "'", '"',
     "|\n", ">-\n", "#c\n", "---\n", "...\n", "1", "~", "true", "\t", "? ", "%YAML 1.1\n", "é", "\\", "0x1", "\r\n"]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=40).map("".join))
def test_both_parsers_agree(text: str) -> None:
    results: list[Any] = []
    for pure_python in (False, True):
        try:
            results.append(json.dumps(read_yaml(text.encode(), pure_python=pure_python), allow_nan=False))
        except DocumentError:
            results.append(DocumentError)
    # PyYAML's two parsers accept different malformed inputs.
    if DocumentError not in results:
        assert results[0] == results[1]
