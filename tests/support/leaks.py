"""A secret, and all places where an error or a log could show it."""

from __future__ import annotations

import base64
import pickle
import traceback
from types import TracebackType

import pytest

from tests.support.frames import package_frames

SENTINEL = "s3ntinel"
ENCODED = base64.b64encode(SENTINEL.encode()).decode()


def render_error(error: BaseException) -> str:
    """All text that a debugger, a crash reporter or a logger can get from an error and its causes."""
    parts: list[str] = []
    while True:
        parts += [str(error), repr(error), repr(error.args), repr(vars(error)), repr(pickle.dumps(error))]
        parts += traceback.format_exception(error)
        parts += render_locals(error.__traceback__)
        cause = error.__cause__ or error.__context__
        if cause is None:
            return "\n".join(parts)
        error = cause


def render_locals(trace: TracebackType | None) -> list[str]:
    """The local variables of kubeauth's frames; those of the caller may hold secrets."""
    return [f"{name}={value!r}" for frame in package_frames(trace) for name, value in frame.f_locals.items()]


def assert_no_leak(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    for text in (render_error(error), caplog.text):
        assert SENTINEL not in text
        assert ENCODED not in text
