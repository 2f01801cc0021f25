"""`get`, `aget`, `stream`, `astream` and `contexts`: what a program calls."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from os import PathLike
from typing import TypedDict, Unpack

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.contexts import Contexts, Source
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader
from kubeauth._exec.config import ExecOptions, PluginPolicy
from kubeauth.fleet._answer import Answer, Report
from kubeauth.fleet._choice import chosen, given
from kubeauth.fleet._crew import tasks, threads
from kubeauth.fleet._plan import CONCURRENCY, MOST_BYTES, TIMEOUT, Plan, options_for


class Settings(TypedDict, total=False):
    """What all four take, beside the path."""

    contexts: str | Iterable[str]
    kubeconfig: str | PathLike[str] | bytes | Mapping[str, object] | None
    concurrency: int
    timeout: float | None
    max_bytes: int
    headers: Mapping[str, str] | None
    plugin_policy: PluginPolicy | None
    exec_options: ExecOptions | None


def contexts(
    *patterns: str, kubeconfig: str | PathLike[str] | bytes | Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """The names of the contexts that fit any of `patterns`; all of them without one.

    In the order in which they stand in the kubeconfig, which is read as by `load_config`. A pattern is a
    shell's: `prod-*`. Raises KubeConfigError for one that fits none, and says what is near it.
    """
    known = Contexts.read(Loader(overrides=Overrides()), kubeconfig)
    return chosen(known.names, patterns or ("*",), _place(known))


def get(path: str | Callable[[ClientConfig], str], **settings: Unpack[Settings]) -> Report:
    """Asks every chosen context for `path`, many at a time, and returns when all have answered or failed.

    `path` begins with a slash; or it is a function that is given each context's config and returns one, as
    for `lambda config: f"/api/v1/namespaces/{config.namespace}/pods"`.

    - `contexts`: patterns as a shell has them, one or several; all contexts without any.
    - `kubeconfig`: as for `load_config`: a path, bytes, a document; without it, what kubectl would read.
    - `concurrency`: how many are asked at a time, 32 if it is not given. Here each is a thread.
    - `timeout`: the seconds that each context may take, 30 if it is not given, None for any: credential,
      connection and the whole body. A plugin gets no more than that either, unless `exec_options` say so.
    - `max_bytes`: how large a body may be: 10 MiB if it is not given.
    - `headers`: go along with each request, as `{"Accept": ...}`.
    - `plugin_policy`, `exec_options`: as for `load_config`. Without the latter no plugin may ask a person.

    A plugin is run once for all contexts that have it configured alike, and not again in this call if it
    fails. What is wrong with one context is in its Answer. Raises KubeConfigError for a kubeconfig that
    cannot be read and for a pattern that fits no context, and ConfigError for arguments that make no sense.
    """
    began = time.monotonic()
    plan = _plan(path, settings)
    with threads(plan) as answers:
        return _report(plan, list(answers), began)


async def aget(path: str | Callable[[ClientConfig], str], **settings: Unpack[Settings]) -> Report:
    """As `get`, for asyncio and trio. Each that is asked at a time is a task."""
    began = time.monotonic()
    plan = _plan(path, settings)
    async with tasks(plan) as answers:
        return _report(plan, [answer async for answer in answers], began)


def stream(
    path: str | Callable[[ClientConfig], str], **settings: Unpack[Settings]
) -> AbstractContextManager[Iterator[Answer]]:
    """As `get`, but the answers are there as they come, in any order:

        with fleet.stream("/version", contexts="prod-*") as answers:
            for answer in answers:
                print(answer.context)

    Whoever leaves it early ends what is still under way.
    """
    return threads(_plan(path, settings))


def astream(
    path: str | Callable[[ClientConfig], str], **settings: Unpack[Settings]
) -> AbstractAsyncContextManager[AsyncIterator[Answer]]:
    """As `stream`, for asyncio and trio: `async with fleet.astream(...) as answers`, and `async for`."""
    return tasks(_plan(path, settings))


def _plan(path: str | Callable[[ClientConfig], str], settings: Settings) -> Plan:
    unknown = settings.keys() - Settings.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(unknown))}")
    timeout = settings.get("timeout", TIMEOUT)
    if timeout is not None and timeout > threading.TIMEOUT_MAX:
        timeout = None  # which is as long
    loader = Loader(
        overrides=Overrides(),
        plugin_policy=settings.get("plugin_policy"),
        exec_options=settings.get("exec_options") or options_for(timeout),
    )
    source: Source = settings.get("kubeconfig")
    known = Contexts.read(loader, source)
    return Plan(
        contexts=known,
        names=chosen(known.names, given(settings.get("contexts", "*")), _place(known)),
        path=path,
        headers=settings.get("headers") or {},
        concurrency=settings.get("concurrency", CONCURRENCY),
        timeout=timeout,
        most_bytes=settings.get("max_bytes", MOST_BYTES),
    )


def _place(known: Contexts) -> str | None:
    return ", ".join(known.paths) or None


def _report(plan: Plan, answers: list[Answer], began: float) -> Report:
    order = {name: number for number, name in enumerate(plan.names)}
    return Report(sorted(answers, key=lambda answer: order[answer.context]), time.monotonic() - began)
