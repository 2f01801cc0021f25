"""Pieces of what is said about a pod. Names are strangers': cut short, and in quotes. Pure."""

from __future__ import annotations

import re

from kubeauth.errors import escape_control

# As the API server has it: of objects of a custom resource, of namespaces.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# What is longer is no name.
_SHOWN = 253
_REASON = 1000


def is_object_name(text: str) -> bool:
    """Whether a credential spec can have that name (B13)."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def quoted(name: str) -> str:
    return f'"{_cut(name, _SHOWN)}"'


def in_a_log(text: str) -> str:
    """In quotes that nothing in it ends: what stands behind them in a line is ours."""
    return '"' + escape_control(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def with_reason(sentence: str, reason: str) -> str:
    """A sentence without its full stop, and what somebody else said about it."""
    reason = _cut(reason.strip().removesuffix("."), _REASON)
    return f"{sentence}: {reason}" if reason else sentence


def _cut(text: str, limit: int) -> str:
    return escape_control(text if len(text) <= limit else f"{text[:limit]}...")
