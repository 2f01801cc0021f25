"""What `kubeauth.discovery` shows, and what it costs."""

from __future__ import annotations

import pytest

from kubeauth import discovery
from tests.project.test_exports import NOT_BEFORE_NEEDED, in_a_fresh_process


def test_every_name_is_there_when_it_is_asked_for() -> None:
    assert dir(discovery) == sorted(discovery.__all__)
    assert sorted(discovery._HOME_OF) == sorted(discovery.__all__)
    assert all(
        getattr(discovery, name).__module__.startswith("kubeauth.discovery._") for name in dir(discovery)
    )
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        getattr(discovery, "nope")  # noqa: B009 -- an unknown name


def test_a_token_costs_neither_http_nor_cryptography() -> None:
    code = """
import json, sys
from kubeauth.discovery import *
BootstrapToken.generate(), Pins.parse([]), new_token(now=0.0), sign_detached("x", "a.b")
print(json.dumps(sorted(sys.modules)))
"""
    code = code.replace("import *", "import BootstrapToken, Pins, new_token, sign_detached")
    modules = set(in_a_fresh_process(code))
    before = set(in_a_fresh_process("import json, sys; print(json.dumps(sorted(sys.modules)))"))
    assert not (modules - before) & {*NOT_BEFORE_NEEDED, "httpx", "anyio", "asyncio", "ssl", "subprocess"}
