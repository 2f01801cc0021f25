"""The frames of kubeauth in a traceback; other frames belong to the caller."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import FrameType, TracebackType

import kubeauth

_PACKAGE = Path(kubeauth.__file__).resolve().parent


def is_package_file(filename: str, subpackage: str = "") -> bool:
    """Whether this is a module of kubeauth, or of one of its subpackages.

    Not by "/kubeauth/" in its path: a clone of the repository has that name too, and holds the tests.
    """
    return Path(filename).resolve().is_relative_to(_PACKAGE / subpackage)


def package_frames(trace: TracebackType | None) -> list[FrameType]:
    """The frames of kubeauth in a traceback."""
    return [frame for frame, _ in traceback.walk_tb(trace) if is_package_file(frame.f_code.co_filename)]


def package_locals(error: BaseException, subpackage: str = "") -> list[dict[str, str]]:
    """The local variables of kubeauth's frames, as a crash reporter shows them."""
    summary = traceback.TracebackException.from_exception(error, capture_locals=True)
    return [
        frame.locals
        for frame in summary.stack
        if frame.locals and is_package_file(frame.filename, subpackage)
    ]
