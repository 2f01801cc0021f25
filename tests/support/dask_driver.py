"""A program that uses Dask: `python -m tests.support.dask_driver ADDRESS KUBECONFIG WORKERS MARKER`. Prints JSON.

Sends a config to workers, then objects that must not be sent, and finally a marker in two encodings: a test that
records the traffic must find it.
"""

from __future__ import annotations

import base64
import json
import sys
import traceback
from collections.abc import Callable

import distributed
import yaml

import kubeauth


def run_task(config: kubeauth.ClientConfig, _task: int) -> tuple[str, str | None, int]:
    with kubeauth.Client(config) as client:
        return config.namespace, config.context, client.get("/version").status_code


def get_error(send: Callable[[], object]) -> str:
    try:
        send()
    except Exception as error:
        return "".join(traceback.format_exception(error))
    return "sent"


def main(address: str, path: str, workers: str, marker: str) -> None:
    with distributed.Client(address) as client:
        client.wait_for_workers(int(workers), timeout=90)
        config = kubeauth.load_config(path, namespace="web")
        with open(path) as file:
            document = yaml.safe_load(file)
        inline = kubeauth.load_config(document, context="by-token")
        live = kubeauth.Client(kubeauth.load_config(path, context="by-token"))
        live.get("/version").raise_for_status()
        output = {
            # Several tasks for each worker.
            "results": [
                client.gather(client.map(run_task, [config] * 8, range(8), pure=False, workers=[worker]))
                for worker in client.nthreads()
            ],
            "live": get_error(lambda: client.submit(repr, live).result()),
            # As in a notebook: a function that uses a variable of its module.
            "closure": get_error(lambda: client.submit(lambda: live.get("/version").status_code).result()),
            "inline": get_error(lambda: client.submit(repr, inline).result()),
        }
        live.close()
        client.submit(len, f"{marker}-as-it-is").result()
        client.submit(len, base64.b64encode(f"[{marker}-in-base64]".encode())).result()
    print(json.dumps(output))


if __name__ == "__main__":
    main(*sys.argv[1:])
