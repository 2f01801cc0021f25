"""What the proxy answers by itself: a Status, as an API server would. Pure."""

from __future__ import annotations

import json
from http import HTTPStatus

# As the API server calls them.
_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refused(Exception):
    """A request that is not passed on: with which code, why in a word that is counted, and in a sentence."""

    def __init__(self, code: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind


def bad_request(kind: str, message: str) -> Refused:
    """For what makes no sense, or more than one."""
    return Refused(HTTPStatus.BAD_REQUEST, kind, message)


def forbidden(kind: str, message: str) -> Refused:
    """For what a filter does not let through, in kubectl's word for it."""
    return Refused(HTTPStatus.FORBIDDEN, kind, f"Forbidden: {message}")


def status(code: int, message: str) -> bytes:
    """As JSON, which kubectl and every other client of Kubernetes shows."""
    document: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code,
    }
    if code in _REASONS:
        document["reason"] = _REASONS[code]
    return json.dumps(document).encode() + b"\n"


def phrase(code: int) -> bytes:
    """The words behind a code on the wire."""
    return HTTPStatus(code).phrase.encode()
