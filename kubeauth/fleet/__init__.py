"""One request to many clusters: each context of a kubeconfig that fits is asked for the same path.

    from kubeauth import fleet

    report = fleet.get("/version", contexts="prod-*")
    for answer in report:
        print(answer.context, answer.json()["gitVersion"] if answer.ok else answer.reason)

A plugin is run once for all contexts that have it configured alike. What is wrong with one cluster is in its
answer, and never an error for all. `aget` and `astream` are the same for asyncio and trio. Each name is
loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth.fleet._answer import Answer as Answer
    from kubeauth.fleet._answer import Failure as Failure
    from kubeauth.fleet._answer import Report as Report
    from kubeauth.fleet._calls import aget as aget
    from kubeauth.fleet._calls import astream as astream
    from kubeauth.fleet._calls import contexts as contexts
    from kubeauth.fleet._calls import get as get
    from kubeauth.fleet._calls import stream as stream

_HOME_OF = {
    "Answer": "_answer",
    "Failure": "_answer",
    "Report": "_answer",
    "aget": "_calls",
    "astream": "_calls",
    "contexts": "_calls",
    "get": "_calls",
    "stream": "_calls",
}

__all__ = ["Answer", "Failure", "Report", "aget", "astream", "contexts", "get", "stream"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module 'kubeauth.fleet' has no attribute {name!r}")
    value: object = getattr(import_module(f"kubeauth.fleet.{_HOME_OF[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
