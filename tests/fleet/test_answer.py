"""Answers and reports: what they say, and what they keep to themselves."""

from __future__ import annotations

import pytest

from kubeauth import fleet
from kubeauth.errors import KubeAuthError
from kubeauth.fleet import Answer, Failure, Report
from kubeauth.fleet._answer import failure_of_status
from tests.support.cases import each_case


def answer(failure: Failure | None = None, **fields: object) -> Answer:
    return Answer(context="a", failure=failure, seconds=0.5, **fields)  # type: ignore[arg-type]  # of a test


def test_a_report_is_a_sequence_that_counts() -> None:
    report = Report(
        [answer(), answer(Failure.UNAUTHORIZED), answer(Failure.UNAUTHORIZED), answer(Failure.CONFIG)], 2.0
    )
    assert len(report) == 4
    assert report[0].ok
    assert report[1:3] == report.failed[:2]
    assert list(report) == [*report.succeeded, *report.failed]
    assert report.failures == {Failure.CONFIG: 1, Failure.UNAUTHORIZED: 2}
    assert not report.ok
    assert repr(report) == "<Report: 3 of 4 failed: 1 config, 2 unauthorized>"
    assert repr(Report([answer()] * 1000, 1.0)) == "<Report: 1,000 answered>"
    assert Report([answer()], 1.0).ok


@each_case(
    ("code", "failure"),
    [
        (200, None), (204, None), (299, None), (304, Failure.REFUSED), (401, Failure.UNAUTHORIZED),
        (403, Failure.REFUSED), (404, Failure.REFUSED), (500, Failure.REFUSED),
    ],
)  # fmt: skip
def test_what_a_status_is_counted_as(code: int, failure: Failure | None) -> None:
    assert failure_of_status(code) is failure


@each_case(
    ("code", "body", "reason"),
    [
        (403, b'{"kind": "Status", "message": "pods is forbidden"}', "403 Forbidden: pods is forbidden"),
        (500, b"boom\nand more", "500 Internal Server Error: boom"),
        (502, b"<html>", "502 Bad Gateway"),
        (404, b"", "404 Not Found"),
        (403, b'{"message": 5}', "403 Forbidden"),
        (403, b"[" * 100_000, "403 Forbidden"),
        (799, b"x", "799 : x"),
        (500, b"x" * 5000, f"500 Internal Server Error: {'x' * 500}"),
    ],
)
def test_the_reason_is_the_servers_own_words_as_far_as_they_are_words(
    code: int, body: bytes, reason: str
) -> None:
    assert answer(Failure.REFUSED, status_code=code, body=body).reason == reason


def test_the_reason_of_an_error_and_of_none() -> None:
    assert answer().reason == ""
    assert answer(Failure.CONFIG, error=KubeAuthError("it is so")).reason == "it is so"
    assert answer(Failure.UNREACHABLE, error=OSError()).reason == "OSError"


def test_a_body_is_not_printed() -> None:
    found = answer(body=b'{"data": "s3ntinel"}', error=KubeAuthError("s3ntinel"))
    assert "s3ntinel" not in repr(found)
    assert found.json() == {"data": "s3ntinel"}


def test_the_names_of_the_module() -> None:
    assert dir(fleet) == fleet.__all__
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        fleet.nope  # noqa: B018 -- it is what raises
