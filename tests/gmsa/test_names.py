"""What `kubeauth.gmsa` shows, and what it costs."""

from __future__ import annotations

import pytest

from kubeauth import gmsa
from tests.project.test_exports import in_a_fresh_process


def test_every_name_is_there_when_it_is_asked_for() -> None:
    assert dir(gmsa) == sorted(gmsa.__all__)
    for name in gmsa.__all__:
        assert getattr(gmsa, name).__name__ == name
    with pytest.raises(AttributeError, match=r"'kubeauth\.gmsa' has no attribute 'nope'"):
        getattr(gmsa, "nope")  # noqa: B009 -- an unknown name


def test_deciding_imports_neither_http_nor_a_server() -> None:
    code = """
import json, sys
from kubeauth.gmsa import *
expand({}, {}.get), authorize({}, old_pod={}), effective_credential_specs({}), lint_credspec({})
print(json.dumps(sorted(sys.modules)))
"""
    modules = set(in_a_fresh_process(code))
    # Some versions of Python import socket for the metadata of packages, which pydantic reads.
    models = "import json, sys, pydantic; pydantic.create_model('M'); print(json.dumps(sorted(sys.modules)))"
    before = set(in_a_fresh_process(models))
    heavy = {
        "httpx",
        "anyio",
        "asyncio",
        "ssl",
        "socket",
        "starlette",
        "uvicorn",
        "yaml",
        "prometheus_client",
    }
    assert not (modules - before) & heavy
