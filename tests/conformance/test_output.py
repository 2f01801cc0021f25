"""Output of plugins (X30-X42, T83-T85): a table of cases, and random documents."""

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
from tests.conformance.plugins import V1BETA1, plugin_config
from tests.support.cases import each_case
from tests.support.kubeconfigs import V1
from tests.support.shell_plugin import ShellPlugin, credential

TYPE_META = f'"apiVersion":"{V1}","kind":"ExecCredential"'
VALID = f'{{{TYPE_META},"status":{{"token":"t"}}}}'
WRONG_VERSION = "exec plugin is configured to use API version"
MISSING_STATUS = "exec plugin didn't return a status field"
EMPTY_STATUS = "exec plugin didn't return a token or cert/key pair"
INCOMPLETE_PAIR = "exec plugin returned only certificate or key, not both"
DECODING = "decoding stdout: "


def status(**fields: Any) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": fields})


# Id, output, and "= " with the token, or the start of the error.
TABLE: list[tuple[str, str | bytes, str]] = [
    ("X30 json", VALID, "= t"),
    ("X30 surrounded by whitespace", f" \r\n\t{VALID}\n\n", "= t"),
    ("X30 invalid utf-8", f'{{{TYPE_META},"x":"?","status":{{"token":"t"}}}}'.encode().replace(b"?", b"\xff"), "= t"),
    ("X30 json after Unicode whitespace", f"\u0085{VALID}", DECODING),
    ("X30 utf-16", VALID.encode("utf-16-le"), DECODING),
    ("X30 byte order mark", b"\xef\xbb\xbf" + VALID.encode(), "= t"),
    ("T83 yaml", f"apiVersion: {V1}\nkind: ExecCredential\nstatus:\n  token: t\n", "= t"),
    ("T83 yaml with a document start", f"# c\n---\napiVersion: {V1}\nstatus: {{token: t}}\n", "= t"),
    ("T83 yaml with two documents", f"apiVersion: {V1}\nstatus: {{token: t}}\n---\nb: c\n", "= t"),
    ("T83 a date in yaml", f"apiVersion: {V1}\nstatus: {{token: t, expirationTimestamp: 2030-01-02T15:04:05Z}}\n", "= t"),
    ("X30 yaml flow mapping", f"{{apiVersion: {V1}, status: {{token: t}}}}", DECODING),
    ("X31 plain text", "hello", DECODING),
    ("X31 a list", "[]", DECODING),
    ("X31 a number", "5", DECODING),
    ("X31 empty", "", WRONG_VERSION),
    ("X31 a blank line", "\n", WRONG_VERSION),
    ("X31 null", "null", WRONG_VERSION),
    ("X32 unknown fields", f'{{{TYPE_META},"metadata":{{}},"status":{{"token":"t","more":[1]}}}}', "= t"),
    ("X32 capitalized status", f'{{{TYPE_META},"Status":{{"token":"t"}}}}', MISSING_STATUS),
    ("X32 capitalized token", f'{{{TYPE_META},"status":{{"Token":"t"}}}}', EMPTY_STATUS),
    ("X32 capitalized apiVersion", f'{{"APIVersion":"{V1}","status":{{"token":"t"}}}}', WRONG_VERSION),
    ("X32 trailing text", f"{VALID} x", DECODING),
    ("X32 two documents", VALID * 2, DECODING),
    ("X32 NaN", f'{{{TYPE_META},"x":NaN,"status":{{"token":"t"}}}}', DECODING),
    ("X32 duplicate status", f'{{{TYPE_META},"status":{{"token":"no"}},"status":{{"token":"t"}}}}', "= t"),
    ("T84 v1beta1", credential("t", version=V1BETA1), f"{WRONG_VERSION} {V1}, plugin returned version {V1BETA1}"),
    ("X33 no version", '{"kind":"ExecCredential","status":{"token":"t"}}', WRONG_VERSION),
    ("X33 version null", '{"apiVersion":null,"status":{"token":"t"}}', WRONG_VERSION),
    ("X33 removed version", credential("t", version="client.authentication.k8s.io/v1alpha1"), f'{DECODING}no kind "ExecCredential" is registered for version "client.authentication.k8s.io/v1alpha1"'),
    ("X33 another group", credential("t", version="v1"), DECODING),
    ("X33 numeric version", '{"apiVersion":1,"status":{"token":"t"}}', DECODING),
    ("X34 no kind", f'{{"apiVersion":"{V1}","status":{{"token":"t"}}}}', "= t"),
    ("X34 kind null", f'{{"apiVersion":"{V1}","kind":null,"status":{{"token":"t"}}}}', "= t"),
    ("T84 another kind", f'{{"apiVersion":"{V1}","kind":"Status","status":{{"token":"t"}}}}', DECODING),
    ("X34 lower-case kind", f'{{"apiVersion":"{V1}","kind":"execcredential","status":{{"token":"t"}}}}', DECODING),
    ("X35 spec", f'{{{TYPE_META},"spec":{{"interactive":true,"cluster":{{"server":"s"}}}},"status":{{"token":"t"}}}}', "= t"),
    ("X36 no status", f"{{{TYPE_META}}}", MISSING_STATUS),
    ("X36 status null", f'{{{TYPE_META},"status":null}}', MISSING_STATUS),
    ("X36 status is a list", f'{{{TYPE_META},"status":[]}}', DECODING),
    ("X37 empty status", status(), EMPTY_STATUS),
    ("X37 empty values", status(token="", clientCertificateData="", clientKeyData=""), EMPTY_STATUS),
    ("X37 token null", status(token=None), EMPTY_STATUS),
    ("X37 numeric token", status(token=5), DECODING),
    ("X37 only a date", status(expirationTimestamp="2030-01-02T15:04:05Z"), EMPTY_STATUS),
    ("X38 only a certificate", status(clientCertificateData="c"), INCOMPLETE_PAIR),
    ("X38 only a key", status(clientKeyData="k"), INCOMPLETE_PAIR),
    ("X38 a token and a certificate", status(token="t", clientCertificateData="c"), INCOMPLETE_PAIR),
    ("X38 a token and a key", status(token="t", clientKeyData="k", clientCertificateData=""), INCOMPLETE_PAIR),
    ("X41 a token and a pair", status(token="t", clientCertificateData="c", clientKeyData="k"), "= t"),
    ("X42 special characters", status(token="a b=.-_~+/"), "= a b=.-_~+/"),
    ("X39 date null", status(token="t", expirationTimestamp=None), "= t"),
    ("T85 no time zone", status(token="t", expirationTimestamp="2030-01-02T15:04:05"), DECODING),
    ("X39 not a date", status(token="t", expirationTimestamp="tomorrow"), DECODING),
    ("X39 empty date", status(token="t", expirationTimestamp=""), DECODING),
    ("X39 numeric date", status(token="t", expirationTimestamp=1893596645), DECODING),
]  # fmt: skip


@each_case(("output", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TABLE])
def test_decode_output_x30_x31_x32_x33_x34_x35_x36_x37_x38_x39_x41_x42_t83_t84_t85(
    output: str | bytes, expected: str
) -> None:
    decoded = decode_output(output if isinstance(output, bytes) else output.encode(), V1)
    if expected.startswith("= "):
        assert isinstance(decoded, ProviderCredential), decoded
        assert decoded.token is not None
        assert decoded.token.reveal() == expected[2:]
    else:
        assert isinstance(decoded, InvalidOutput)
        assert decoded.reason.startswith(expected)


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row[0].startswith(("T83", "T84", "T85", "X31"))], ids=lambda row: row[0]
)
def test_client_accepts_or_rejects_output_t83_t84_t85_x31(
    server: APIServer, tmp_path: Path, row: Any
) -> None:
    _, output, expected = row
    server.tokens["t"] = "alice"

    with kubeauth.Client(plugin_config(server, ShellPlugin(tmp_path, output))) as client:
        if expected.startswith("= "):
            assert client.get("/version").status_code == 200
            return
        with pytest.raises(PluginOutputError) as caught:
            client.get("/version")

    assert str(caught.value).startswith(f"getting credentials: {expected}")
    assert server.requests == []


@pytest.mark.parametrize("token", ["?\n", " ?", "? ", "?\nb", "?\0", "?\x7f", "?ö", "?\tb", "?\ud800"])
def test_a_token_that_is_not_a_valid_header_value_is_rejected_x42(
    server: APIServer, tmp_path: Path, token: str
) -> None:
    """With client-go, net/http rejects some of these, trims others, and sends the rest."""
    script = ShellPlugin(tmp_path, credential(token.replace("?", "sentinel")))

    with kubeauth.Client(plugin_config(server, script)) as client:
        with pytest.raises(PluginOutputError, match="its token is not a valid HTTP header value") as caught:
            client.get("/version")

    assert "sentinel" not in str(caught.value)
    assert server.requests == []


def test_certificate_chains_and_invalid_key_pairs_x40(server: APIServer, tmp_path: Path) -> None:
    """A chain is accepted, its dates are not checked, and the key must match the first certificate."""
    intermediate = server.authority.intermediate()
    chained = intermediate.client("chained")
    assert chained.certificate.count(b"BEGIN CERTIFICATE") == 2
    expired = server.authority.client("expired", not_after=datetime.now(UTC) - timedelta(days=2))
    script = ShellPlugin(tmp_path)
    for number, (certificate, key, error) in enumerate(
        (
            (chained.certificate, chained.key, ""),
            (expired.certificate, expired.key, "rejected"),
            (chained.certificate, expired.key, "the private key does not match"),
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
        script.set_output(status(clientCertificateData=certificate.decode(), clientKeyData=key.decode()))
        with kubeauth.Client(plugin_config(server, script, args=[str(number)])) as client:
            if not error:
                assert client.get("/version").status_code == 200
            elif error == "rejected":  # by the server
                with pytest.raises(kubeauth.errors.ClientCertificateError):
                    client.get("/version")
            else:
                with pytest.raises(
                    PluginOutputError, match=f"failed parsing client key/certificate: .*{error}"
                ):
                    client.get("/version")

    assert [request.user for request in server.requests] == ["chained"]


@each_case(
    ("text", "seconds"),
    [
        ("2030-01-02T15:04:05Z", 1893596645), ("2030-01-02T15:04:05.25Z", 1893596645.25),
        ("2030-01-02T15:04:05,25Z", 1893596645.25), ("2030-01-02T15:04:05.0000009Z", 1893596645),
        ("2030-01-02T16:04:05+01:00", 1893596645), ("2030-01-01T15:05:05-23:59", 1893596645),
        ("0001-01-01T00:00:00Z", None), ("0001-01-01T01:00:00+01:00", None), ("0001-01-01T00:00:00.000Z", None),
        ("0001-01-01T00:00:00.000001Z", -62135596800),
        ("0001-01-01T00:00:01Z", -62135596799), ("9999-12-31T23:59:59Z", 253402300799),
    ],
)  # fmt: skip
def test_parse_rfc3339_x39(text: str, seconds: float | None) -> None:
    assert parse_rfc3339(text) == seconds


@each_case(
    "text",
    ["2030-01-02t15:04:05Z", "2030-01-02T15:04:05z", "2030-01-02 15:04:05Z", "2030-01-02T15:04Z", "2030-01-02",
     "2030-1-2T15:04:05Z", "2030-01-02T24:00:00Z", "2030-01-02T23:59:60Z", "2030-02-29T00:00:00Z",
     "2030-01-02T15:04:05+0100", "2030-01-02T15:04:05+01", " 2030-01-02T15:04:05Z", "2030-01-02T15:04:05Z\n",
     "2030-01-02T15:04:05.Z", "\uff12030-01-02T15:04:05Z", "10000-01-01T00:00:00Z", "2030-00-01T00:00:00Z",
     # Go parses these, though RFC 3339 does not allow them; Python has no year 0.
     "2030-01-02T5:04:05Z", "2030-01-02T15:04:05+24:00", "2030-01-02T15:04:05+23:60",
     "2030-01-02T15:04:05+01:60",
     "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_invalid_rfc3339_is_rejected_x39(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the message is not shown
        parse_rfc3339(text)


# Random JSON documents, most of whose fields have their usual values.
TEXTS = st.one_of(
    st.sampled_from([V1, V1BETA1, "ExecCredential", "t", "", "v1", "2030-01-02T15:04:05Z", "2030-01-02"]),
    st.text(max_size=4),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | TEXTS,
    lambda values: st.lists(values, max_size=2) | st.dictionaries(TEXTS, values, max_size=2),
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
SPECS = st.one_of(
    st.just({"interactive": True, "cluster": {"server": "https://h", "config": [1]}}),
    st.fixed_dictionaries({}, optional={"interactive": VALUES, "cluster": VALUES}),
    VALUES,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": mostly(V1),
        "kind": mostly("ExecCredential"),
        "status": st.one_of(STATUSES, STATUSES, VALUES),
        "spec": SPECS,
    },
)


def is_valid(document: Any) -> bool:
    """Whether X33-X39 accept the document, written independently of kubeauth."""
    if not isinstance(document, dict) or document.get("apiVersion") != V1:
        return False
    if document.get("kind") not in (None, "", "ExecCredential"):
        return False
    status = document.get("status")
    if not isinstance(status, dict) or not is_valid_spec(document.get("spec")):
        return False
    parts = [status.get(name) for name in ("token", "clientCertificateData", "clientKeyData")]
    if any(part is not None and not isinstance(part, str) for part in parts):
        return False
    token, certificate, key = parts
    if bool(certificate) != bool(key) or not (token or certificate):
        return False
    expires = status.get("expirationTimestamp")
    return expires is None or (isinstance(expires, str) and is_rfc_3339(expires))


def is_valid_spec(spec: Any) -> bool:
    if not isinstance(spec, dict):
        return spec is None
    if not isinstance(spec.get("interactive"), bool | None):
        return False
    cluster = spec.get("cluster")
    # Random names are those of no field.
    return cluster is None or isinstance(cluster, dict)


def is_rfc_3339(text: str) -> bool:
    """As Python parses it, limited to the format that RFC 3339 and Go have in common."""
    if not re.fullmatch(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-5][0-9])", text
    ):
        return False
    try:
        # Every supported Python parses a fraction of six digits.
        datetime.fromisoformat(re.sub(r"[.,]([0-9]+)", lambda m: f".{m[1][:6]:0<6}", text))
    except ValueError:
        return False
    # Python 3.13 and later accept 24:00 for midnight; RFC 3339 does not.
    return text[11:13] != "24"


@settings(max_examples=300)
@given(DOCUMENTS)
def test_random_documents_are_accepted_only_if_valid_x33_x34_x36_x37_x38_x39(document: Any) -> None:
    decoded = decode_output(json.dumps(document).encode(), V1)
    assert isinstance(decoded, ProviderCredential) == is_valid(document)
    if isinstance(decoded, ProviderCredential):
        status = document["status"]
        assert (decoded.token.reveal() if decoded.token else None) == (status.get("token") or None)
        assert (decoded.certificate is None) == (decoded.key is None) == (not status.get("clientKeyData"))
    else:
        assert decoded.reason
        assert decoded.advice


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_bytes_are_rejected_x31(data: bytes) -> None:
    assert isinstance(decode_output(data, V1), InvalidOutput)


@settings(max_examples=200)
@given(st.binary(max_size=8), st.integers(0, len(VALID)), st.integers(0, 8))
def test_corrupted_output_is_accepted_only_if_valid_x31_x32(noise: bytes, at: int, removed: int) -> None:
    data = VALID.encode()[:at] + noise + VALID.encode()[at + removed :]
    decoded = decode_output(data, V1)

    try:
        document = json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        document = None
    if isinstance(decoded, ProviderCredential) and document is not None:
        assert is_valid(document)
    if isinstance(decoded, InvalidOutput) and isinstance(document, dict):
        assert not is_valid(document)


@settings(max_examples=200)
@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["seconds", "milliseconds", "microseconds"]),
)
def test_parse_rfc3339_inverts_isoformat_x39(moment: datetime, offset: int, timespec: str) -> None:
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
def test_corrupted_dates_are_accepted_only_if_valid_x39(noise: str, at: int, removed: int, text: str) -> None:
    corrupted = text[:at] + noise + text[at + removed :]
    try:
        parse_rfc3339(corrupted)
    except ValueError:
        assert not is_rfc_3339(corrupted)
    else:
        assert is_rfc_3339(corrupted)
