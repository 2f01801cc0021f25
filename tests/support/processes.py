"""A program that has others do its work: `python -m tests.support.processes HOW METHOD KUBECONFIG`. Prints JSON.

Not part of a test's own process: that one has a server in it, and threads, and is nobody's to fork.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import kubeauth
from kubeauth import ClientConfig, ExecOptions, PluginPolicy

TASKS = 12


def told(config: ClientConfig, _task: int = 0) -> dict[str, Any]:
    """One task: what has arrived, and whether it works."""
    assert config.exec is not None
    assert config.impersonate is not None
    with kubeauth.Client(config) as client:
        status = client.get("/version").status_code
    return {
        "process": os.getpid(),
        "status": status,
        "timeout": config.exec.options.timeout,
        "allowed": list(config.exec.policy.commands),
        "environment": dict(config.exec.env),
        "context": config.context,
        "namespace": config.namespace,
        "impersonated": config.impersonate.user,
    }


def tell(config: ClientConfig, task: int, results: Any) -> None:
    results.put(told(config, task))


def by_process(method: Any, config: ClientConfig) -> list[dict[str, Any]]:
    """A process for each task."""
    results = method.SimpleQueue()
    processes = [method.Process(target=tell, args=(config, task, results)) for task in range(3)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def by_pool(method: Any, config: ClientConfig) -> list[dict[str, Any]]:
    with method.Pool(2) as pool:
        found: list[dict[str, Any]] = pool.starmap(told, [(config, task) for task in range(TASKS)], 1)
        return found


def by_executor(method: Any, config: ClientConfig) -> list[dict[str, Any]]:
    with ProcessPoolExecutor(2, mp_context=method) as pool:
        return list(pool.map(told, [config] * TASKS, range(TASKS)))


def refused(method: Any, config: ClientConfig) -> list[str]:
    """What is said to who sends something else than a config, in each of the three ways."""
    said: list[str] = []

    def note(send: Callable[[], object]) -> None:
        try:
            send()
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
        else:
            said.append("it was sent")

    with (
        kubeauth.Client(config) as client,
        method.Pool(1) as pool,
        ProcessPoolExecutor(1, mp_context=method) as executor,
    ):
        client.get("/version").raise_for_status()
        note(lambda: pool.apply(repr, (client,)))
        note(lambda: executor.submit(repr, client).result())
        if method.get_start_method() != "fork":  # there, nothing is sent: the child has it already
            note(lambda: method.Process(target=repr, args=(client,)).start())
    return said


def ask(client: kubeauth.Client, statuses: list[int]) -> None:
    statuses += [client.get("/version").status_code for _ in range(25)]


def ask_at_once(client: kubeauth.Client) -> list[int]:
    statuses: list[int] = []
    threads = [threading.Thread(target=ask, args=(client, statuses)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def prefork(_method: Any, config: ClientConfig, *, warm: bool = False) -> list[list[int]]:
    """A server that forks: one client, used by four children and by their parent, all at the same time."""
    with kubeauth.Client(config) as client:
        if warm:
            client.get("/version").raise_for_status()
        pipes: list[int] = []
        for _ in range(4):
            read, write = os.pipe()
            if os.fork() == 0:
                os.write(write, json.dumps(ask_at_once(client)).encode())
                os._exit(0)
            os.close(write)
            pipes.append(read)
        found = [ask_at_once(client)]
        for pipe in pipes:
            with open(pipe, "rb") as file:
                found.append(json.loads(file.read()))
            os.wait()
        return found


def warm_prefork(method: Any, config: ClientConfig) -> list[list[int]]:
    return prefork(method, config, warm=True)


WAYS: dict[str, Callable[[Any, ClientConfig], object]] = {
    way.__name__: way for way in (by_process, by_pool, by_executor, refused, prefork, warm_prefork)
}


def main(how: str, method: str, path: str) -> None:
    config = kubeauth.load_config(
        path,
        context="other",
        namespace="web",
        exec_options=ExecOptions(timeout=33.0),
        plugin_policy=PluginPolicy.allowlist([os.environ["ALLOWED"]]),
    )
    print(json.dumps(WAYS[how](multiprocessing.get_context(method), config)))


if __name__ == "__main__":
    main(*sys.argv[1:])
