"""What a server says when it says no, in kubectl's words. Pure."""

from __future__ import annotations

import json
from typing import Any

from kubeauth.cli._ends import Failed

# As much of an answer that is no Status as is repeated, in bytes, as in client-go.
MOST_TEXT = 2048
# A Status that is longer than this is not read to its end.
MOST_STATUS = 2**20

# client-go's words for an answer that is no Status, by code: the reason, and what it means.
_GENERIC = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    409: ("Conflict", "the server reported a conflict"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the "
        "request",
    ),
}
_UNSUPPORTED = "the server was unable to respond with a content type that the client supports"


class Refused(Failed):
    """The server said no."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code = code
        if reason == "Unauthorized":
            words = f"error: You must be logged in to the server ({message})"
        elif reason:
            words = f"Error from server ({reason}): {message}"
        else:
            words = f"Error from server: {message}"
        super().__init__(words.rstrip())


def refusal(code: int, content_type: str, body: bytes) -> Refused:
    """What an answer that is not of the 200s comes to."""
    if body[:1] == b"{" and (found := refusal_in(_parsed(body), code)):
        return found
    text = ""
    if not body or content_type.partition(";")[0].strip().lower().startswith("text/"):
        text = body[:MOST_TEXT].decode(errors="replace").strip()
    elif code >= 500:
        text = "unknown"
    return Refused(code, *_generic(code, text))


def refusal_in(value: object, code: int = 0) -> Refused | None:
    """What a Status says, if it is one and says no."""
    if not isinstance(value, dict) or value.get("kind") != "Status" or value.get("status") == "Success":
        return None
    found = value.get("code")
    return Refused(
        found if isinstance(found, int) else code, _text(value.get("reason")), _text(value.get("message"))
    )


def is_json(content_type: str) -> bool:
    """Whether that is how JSON is announced."""
    media = content_type.partition(";")[0].strip().lower()
    return media in ("application/json", "text/json") or media.endswith("+json")


def _generic(code: int, text: str) -> tuple[str, str]:
    if code in _GENERIC:
        return _GENERIC[code]
    if code == 403:
        return "Forbidden", text or "the server does not say why"
    if code == 406:
        return "NotAcceptable", text or _UNSUPPORTED
    if code >= 500:
        said = json.dumps(text, ensure_ascii=False)
        return "InternalError", f"an error on the server ({said}) has prevented the request from succeeding"
    return "", f"the server responded with the status code {code} but did not return more information"


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
