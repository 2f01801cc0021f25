"""A program that starts other processes: `python -m tests.support.processes HOW METHOD KUBECONFIG`. Prints JSON.

The process of a test has a server and threads, so it must not fork itself.
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


def run_task(config: ClientConfig, _task: int = 0) -> dict[str, Any]:
    """One task: the fields of the config that was received, and the status of a request with it."""
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


def put_result(config: ClientConfig, task: int, results: Any) -> None:
    results.put(run_task(config, task))


def by_process(method: Any, config: ClientConfig) -> list[dict[str, Any]]:
    """A process for each task."""
    results = method.SimpleQueue()
    processes = [method.Process(target=put_result, args=(config, task, results)) for task in range(3)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def by_pool(method: Any, config: ClientConfig) -> list[dict[str, Any]]:
    with method.Pool(2) as pool:
        found: list[dict[str, Any]] = pool.starmap(run_task, [(config, task) for task in range(TASKS)], 1)
        return found


def by_executor(method: Any, config: ClientConfig) -> list[dict[str, Any]]:
    with ProcessPoolExecutor(2, mp_context=method) as pool:
        return list(pool.map(run_task, [config] * TASKS, range(TASKS)))


def refused(method: Any, config: ClientConfig) -> list[str]:
    """The errors if a client is sent in place of a config, in each of the three ways."""
    messages: list[str] = []

    def record_error(send: Callable[[], object]) -> None:
        try:
            send()
        except Exception as error:
            messages.append(f"{type(error).__name__}: {error}")
        else:
            messages.append("sent")

    with (
        kubeauth.Client(config) as client,
        method.Pool(1) as pool,
        ProcessPoolExecutor(1, mp_context=method) as executor,
    ):
        client.get("/version").raise_for_status()
        record_error(lambda: pool.apply(repr, (client,)))
        record_error(lambda: executor.submit(repr, client).result())
        if method.get_start_method() != "fork":  # with fork nothing is sent: the child inherits it
            record_error(lambda: method.Process(target=repr, args=(client,)).start())
    return messages


def send_requests(client: kubeauth.Client, statuses: list[int]) -> None:
    statuses += [client.get("/version").status_code for _ in range(25)]


def send_concurrent_requests(client: kubeauth.Client) -> list[int]:
    statuses: list[int] = []
    threads = [threading.Thread(target=send_requests, args=(client, statuses)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def prefork(_method: Any, config: ClientConfig, *, warm: bool = False) -> list[list[int]]:
    """A prefork server: one client is used by four children and by their parent at the same time."""
    with kubeauth.Client(config) as client:
        if warm:
            client.get("/version").raise_for_status()
        pipes: list[int] = []
        for _ in range(4):
            read_end, write_end = os.pipe()
            if os.fork() == 0:
                os.write(write_end, json.dumps(send_concurrent_requests(client)).encode())
                os._exit(0)
            os.close(write_end)
            pipes.append(read_end)
        found = [send_concurrent_requests(client)]
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
