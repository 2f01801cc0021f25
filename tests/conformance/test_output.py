"""What a plugin prints (X30-X42, T83-T85): a table, and then anything at all."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kubeauth
from kubeauth._exec.codec import InvalidOutput, ProviderCredential, decode_output
from kubeauth._parsing.go import parse_rfc3339
from kubeauth.errors import PluginOutputError
from kubeauth.testing import APIServer
from tests.conformance.plugins import V1, V1BETA1, ShellPlugin, config_of, credential
from tests.support.cases import each_case

HEAD = f'"apiVersion":"{V1}","kind":"ExecCredential"'
GOOD = f'{{{HEAD},"status":{{"token":"t"}}}}'
OTHER_VERSION = "exec plugin is configured to use API version"
NO_STATUS = "exec plugin didn't return a status field"
NOTHING = "exec plugin didn't return a token or cert/key pair"
HALF = "exec plugin returned only certificate or key, not both"
DECODING = "decoding stdout: "


def status(**fields: Any) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": fields})


# Id, what is printed, and the token that is in it or how the problem begins.
TABLE: list[tuple[str, str | bytes, str]] = [
    ("X30 json", GOOD, "= t"),
    ("X30 blanks around it", f" \r\n\t{GOOD}\n\n", "= t"),
    ("X30 bytes that are no text", f'{{{HEAD},"x":"?","status":{{"token":"t"}}}}'.encode().replace(b"?", b"\xff"), "= t"),
    ("X30 behind a blank of Unicode it is still JSON", f"\u0085{GOOD}", DECODING),
    ("X30 utf-16", GOOD.encode("utf-16-le"), DECODING),
    ("X30 byte order mark", b"\xef\xbb\xbf" + GOOD.encode(), "= t"),
    ("T83 yaml", f"apiVersion: {V1}\nkind: ExecCredential\nstatus:\n  token: t\n", "= t"),
    ("T83 yaml with a start", f"# c\n---\napiVersion: {V1}\nstatus: {{token: t}}\n", "= t"),
    ("T83 the first document", f"apiVersion: {V1}\nstatus: {{token: t}}\n---\nb: c\n", "= t"),
    ("T83 a date in yaml", f"apiVersion: {V1}\nstatus: {{token: t, expirationTimestamp: 2030-01-02T15:04:05Z}}\n", "= t"),
    ("X30 a yaml mapping that starts like json", f"{{apiVersion: {V1}, status: {{token: t}}}}", DECODING),
    ("X31 words", "hello", DECODING),
    ("X31 a list", "[]", DECODING),
    ("X31 a number", "5", DECODING),
    ("X31 nothing", "", OTHER_VERSION),
    ("X31 a blank line", "\n", OTHER_VERSION),
    ("X31 null", "null", OTHER_VERSION),
    ("X32 unknown fields", f'{{{HEAD},"metadata":{{}},"status":{{"token":"t","more":[1]}}}}', "= t"),
    ("X32 the case of status", f'{{{HEAD},"Status":{{"token":"t"}}}}', NO_STATUS),
    ("X32 the case of token", f'{{{HEAD},"status":{{"Token":"t"}}}}', NOTHING),
    ("X32 the case of apiVersion", f'{{"APIVersion":"{V1}","status":{{"token":"t"}}}}', OTHER_VERSION),
    ("X32 something behind it", f"{GOOD} x", DECODING),
    ("X32 another one behind it", GOOD * 2, DECODING),
    ("X32 NaN", f'{{{HEAD},"x":NaN,"status":{{"token":"t"}}}}', DECODING),
    ("X32 the last of two counts", f'{{{HEAD},"status":{{"token":"no"}},"status":{{"token":"t"}}}}', "= t"),
    ("T84 the other version", credential("t", version=V1BETA1), f"{OTHER_VERSION} {V1}, plugin returned version {V1BETA1}"),
    ("X33 no version", '{"kind":"ExecCredential","status":{"token":"t"}}', OTHER_VERSION),
    ("X33 null for a version", '{"apiVersion":null,"status":{"token":"t"}}', OTHER_VERSION),
    ("X33 a version that is gone", credential("t", version="client.authentication.k8s.io/v1alpha1"), f'{DECODING}no kind "ExecCredential" is registered for version "client.authentication.k8s.io/v1alpha1"'),
    ("X33 another group", credential("t", version="v1"), DECODING),
    ("X33 a number for a version", '{"apiVersion":1,"status":{"token":"t"}}', DECODING),
    ("X34 no kind", f'{{"apiVersion":"{V1}","status":{{"token":"t"}}}}', "= t"),
    ("X34 null for a kind", f'{{"apiVersion":"{V1}","kind":null,"status":{{"token":"t"}}}}', "= t"),
    ("T84 another kind", f'{{"apiVersion":"{V1}","kind":"Status","status":{{"token":"t"}}}}', DECODING),
    ("X34 the case of the kind", f'{{"apiVersion":"{V1}","kind":"execcredential","status":{{"token":"t"}}}}', DECODING),
    ("X35 spec", f'{{{HEAD},"spec":{{"interactive":true,"cluster":{{"server":"s"}}}},"status":{{"token":"t"}}}}', "= t"),
    ("X36 no status", f"{{{HEAD}}}", NO_STATUS),
    ("X36 null", f'{{{HEAD},"status":null}}', NO_STATUS),
    ("X36 a list", f'{{{HEAD},"status":[]}}', DECODING),
    ("X37 nothing in it", status(), NOTHING),
    ("X37 empty", status(token="", clientCertificateData="", clientKeyData=""), NOTHING),
    ("X37 null", status(token=None), NOTHING),
    ("X37 a number", status(token=5), DECODING),
    ("X37 a date alone", status(expirationTimestamp="2030-01-02T15:04:05Z"), NOTHING),
    ("X38 a certificate", status(clientCertificateData="c"), HALF),
    ("X38 a key", status(clientKeyData="k"), HALF),
    ("X38 a certificate beside a token", status(token="t", clientCertificateData="c"), HALF),
    ("X38 a key beside a token", status(token="t", clientKeyData="k", clientCertificateData=""), HALF),
    ("X41 both", status(token="t", clientCertificateData="c", clientKeyData="k"), "= t"),
    ("X42 as it is", status(token="a b=.-_~+/"), "= a b=.-_~+/"),
    ("X39 null", status(token="t", expirationTimestamp=None), "= t"),
    ("T85 no zone", status(token="t", expirationTimestamp="2030-01-02T15:04:05"), DECODING),
    ("X39 no date", status(token="t", expirationTimestamp="tomorrow"), DECODING),
    ("X39 empty", status(token="t", expirationTimestamp=""), DECODING),
    ("X39 a number", status(token="t", expirationTimestamp=1893596645), DECODING),
]  # fmt: skip


@each_case(("output", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TABLE])
def test_the_table_x30_x31_x32_x33_x34_x35_x36_x37_x38_x39_x41_x42_t83_t84_t85(
    output: str | bytes, expected: str
) -> None:
    answer = decode_output(output if isinstance(output, bytes) else output.encode(), V1)
    if expected.startswith("= "):
        assert isinstance(answer, ProviderCredential), answer
        assert answer.token is not None
        assert answer.token.reveal() == expected[2:]
    else:
        assert isinstance(answer, InvalidOutput)
        assert answer.reason.startswith(expected)


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row[0].startswith(("T83", "T84", "T85", "X31"))], ids=lambda row: row[0]
)
def test_the_same_by_a_client_t83_t84_t85_x31(server: APIServer, tmp_path: Path, row: Any) -> None:
    _, output, expected = row
    server.tokens["t"] = "alice"
    with kubeauth.Client(config_of(server, ShellPlugin(tmp_path, output))) as client:
        if expected.startswith("= "):
            assert client.get("/version").status_code == 200
            return
        with pytest.raises(PluginOutputError) as caught:
            client.get("/version")
    assert str(caught.value).startswith(f"getting credentials: {expected}")
    assert server.requests == []


@pytest.mark.parametrize("token", ["?\n", " ?", "? ", "?\nb", "?\0", "?\x7f", "?ö", "?\tb", "?\ud800"])
def test_a_token_that_cannot_be_a_header_x42(server: APIServer, tmp_path: Path, token: str) -> None:
    """client-go hands it to net/http: that refuses some of these, trims others, and sends the rest."""
    script = ShellPlugin(tmp_path, credential(token.replace("?", "sentinel")))
    with kubeauth.Client(config_of(server, script)) as client:
        with pytest.raises(PluginOutputError, match="its token is not a valid HTTP header value") as caught:
            client.get("/version")
    assert "sentinel" not in str(caught.value)
    assert server.requests == []


def test_certificates_x40(server: APIServer, tmp_path: Path) -> None:
    """A chain is welcome, and neither of its dates is looked at; the key must be the leaf's."""
    intermediate = server.authority.intermediate()
    chained = intermediate.client("chained")
    assert chained.certificate.count(b"BEGIN CERTIFICATE") == 2
    over = server.authority.client("over", not_after=datetime.now(UTC) - timedelta(days=2))
    script = ShellPlugin(tmp_path)
    for number, (certificate, key, why) in enumerate(
        (
            (chained.certificate, chained.key, ""),
            (over.certificate, over.key, "refused"),
            (chained.certificate, over.key, "the private key does not match"),
            (intermediate.pem + chained.certificate, chained.key, "the private key does not match"),
            (b"bm90IFBFTQ==", chained.key, "it contains no certificate"),
            (chained.certificate, b"bm90IFBFTQ==", "its key is not a private key"),
            (
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                chained.key,
                "cannot be parsed",
            ),
        )
    ):
        script.says(status(clientCertificateData=certificate.decode(), clientKeyData=key.decode()))
        with kubeauth.Client(config_of(server, script, args=[str(number)])) as client:
            if not why:
                assert client.get("/version").status_code == 200
            elif why == "refused":  # by the server, who has seen it
                with pytest.raises(kubeauth.errors.ClientCertificateError):
                    client.get("/version")
            else:
                with pytest.raises(
                    PluginOutputError, match=f"failed parsing client key/certificate: .*{why}"
                ):
                    client.get("/version")
    assert [request.user for request in server.requests] == ["chained"]


@each_case(
    ("text", "seconds"),
    [
        ("2030-01-02T15:04:05Z", 1893596645), ("2030-01-02T15:04:05.25Z", 1893596645.25),
        ("2030-01-02T16:04:05+01:00", 1893596645), ("2030-01-01T15:05:05-23:59", 1893596645),
        ("0001-01-01T00:00:00Z", None), ("0001-01-01T01:00:00+01:00", None), ("0001-01-01T00:00:00.000Z", None),
        ("0001-01-01T00:00:00.000001Z", -62135596800),
        ("0001-01-01T00:00:01Z", -62135596799), ("9999-12-31T23:59:59Z", 253402300799),
    ],
)  # fmt: skip
def test_dates_x39(text: str, seconds: float | None) -> None:
    assert parse_rfc3339(text) == seconds


@each_case(
    "text",
    ["2030-01-02t15:04:05Z", "2030-01-02T15:04:05z", "2030-01-02 15:04:05Z", "2030-01-02T15:04Z", "2030-01-02",
     "2030-1-2T15:04:05Z", "2030-01-02T24:00:00Z", "2030-01-02T23:59:60Z", "2030-02-29T00:00:00Z",
     "2030-01-02T15:04:05+0100", "2030-01-02T15:04:05+01", " 2030-01-02T15:04:05Z", "2030-01-02T15:04:05Z\n",
     "2030-01-02T15:04:05.Z", "\uff12030-01-02T15:04:05Z", "10000-01-01T00:00:00Z", "2030-00-01T00:00:00Z",
     # These Go's parser takes, though RFC 3339 does not have them; the last is a year that Python has not.
     "2030-01-02T15:04:05,5Z", "2030-01-02T5:04:05Z", "2030-01-02T15:04:05+24:00", "2030-01-02T15:04:05+23:60",
     "2030-01-02T15:04:05+01:60",
     "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_what_is_not_rfc_3339_x39(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- its words go nowhere
        parse_rfc3339(text)


# The rules again, as few words as possible, for whatever can be a JSON document.
TEXTS = st.one_of(
    st.sampled_from([V1, V1BETA1, "ExecCredential", "t", "", "v1", "2030-01-02T15:04:05Z", "2030-01-02"]),
    st.text(max_size=4),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def mostly(usual: Any) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(usual), st.just(usual), VALUES)


STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "token": mostly("t"),
        "clientCertificateData": mostly("c"),
        "clientKeyData": mostly("k"),
        "expirationTimestamp": mostly("2030-01-02T15:04:05Z"),
        "other": VALUES,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": mostly(V1),
        "kind": mostly("ExecCredential"),
        "status": st.one_of(STATUSES, STATUSES, VALUES),
        "spec": VALUES,
    },
)


def is_allowed(document: Any) -> bool:
    """X33-X39, restated."""
    if not isinstance(document, dict) or document.get("apiVersion") != V1:
        return False
    if document.get("kind") not in (None, "", "ExecCredential"):
        return False
    found = document.get("status")
    if not isinstance(found, dict):
        return False
    parts = [found.get(name) for name in ("token", "clientCertificateData", "clientKeyData")]
    if any(part is not None and not isinstance(part, str) for part in parts):
        return False
    token, certificate, key = parts
    if bool(certificate) != bool(key) or not (token or certificate):
        return False
    end = found.get("expirationTimestamp")
    return end is None or (isinstance(end, str) and is_rfc_3339(end))


def is_rfc_3339(text: str) -> bool:
    """By another way than ours: what Python reads, in the one form that RFC 3339 has in common with Go."""
    if not re.fullmatch(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-5][0-9])", text
    ):
        return False
    try:
        # Six digits of a fraction are what it reads on every Python.
        datetime.fromisoformat(re.sub(r"\.([0-9]+)", lambda m: f".{m[1][:6]:0<6}", text))
    except ValueError:
        return False
    # Python 3.13 and later read midnight as 24:00, which is none.
    return text[11:13] != "24"


@settings(max_examples=300)
@given(DOCUMENTS)
def test_random_documents_x33_x34_x36_x37_x38_x39(document: Any) -> None:
    answer = decode_output(json.dumps(document).encode(), V1)
    assert isinstance(answer, ProviderCredential) == is_allowed(document)
    if isinstance(answer, ProviderCredential):
        found = document["status"]
        assert (answer.token.reveal() if answer.token else None) == (found.get("token") or None)
        assert (answer.certificate is None) == (answer.key is None) == (not found.get("clientKeyData"))
    else:
        assert answer.reason
        assert answer.advice


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_bytes_are_no_credential_x31(data: bytes) -> None:
    assert isinstance(decode_output(data, V1), InvalidOutput)


@settings(max_examples=200)
@given(st.binary(max_size=8), st.integers(0, len(GOOD)), st.integers(0, 8))
def test_damaged_output_is_read_or_refused_x31_x32(noise: bytes, at: int, gone: int) -> None:
    data = GOOD.encode()[:at] + noise + GOOD.encode()[at + gone :]
    answer = decode_output(data, V1)
    try:
        document = json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        document = None
    if isinstance(answer, ProviderCredential) and document is not None:
        assert is_allowed(document)
    if isinstance(answer, InvalidOutput) and isinstance(document, dict):
        assert not is_allowed(document)


@settings(max_examples=200)
@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["seconds", "milliseconds", "microseconds"]),
)
def test_dates_there_and_back_x39(moment: datetime, offset: int, timespec: str) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    text = aware.isoformat(timespec=timespec)
    assert is_rfc_3339(text)
    assert parse_rfc3339(text) == pytest.approx(datetime.fromisoformat(text).timestamp(), abs=1e-4)
    zulu = aware.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
    assert parse_rfc3339(zulu) == parse_rfc3339(text)


@settings(max_examples=300)
@given(
    st.text("0123456789-:.TZtz+ ,٣", max_size=4),
    st.integers(0, 25),
    st.integers(0, 3),
    st.sampled_from(["2030-01-02T15:04:05Z", "2030-01-02T15:04:05.123Z", "2030-01-02T15:04:05+01:00"]),
)
def test_damaged_dates_x39(noise: str, at: int, gone: int, text: str) -> None:
    damaged = text[:at] + noise + text[at + gone :]
    try:
        parse_rfc3339(damaged)
    except ValueError:
        assert not is_rfc_3339(damaged)
    else:
        assert is_rfc_3339(damaged)
