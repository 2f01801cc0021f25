"""Asks the cluster of every context for its version, from the workers of a Dask cluster.

python examples/dask_fleet.py [--scheduler tcp://host:8786] [--workers 2] [--at-once 8] [KUBECONFIG]

Sent to workers: the path of the kubeconfig and the names of contexts. Never a credential: each worker process
runs the plugin itself, once for all contexts of the same user. So kubeconfig and plugin must be where workers
are. What comes back is a line for each context.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from functools import partial
from typing import NamedTuple

from distributed import Client, LocalCluster, as_completed

import kubeauth
from kubeauth import fleet

# Contexts of one task. Each reads the kubeconfig once, so not too few; but there should be work for all.
SHARE = 50


class Said(NamedTuple):
    """What came of one context. It travels: an error of httpx could not be unpickled."""

    context: str
    is_well: bool
    words: str


def ask(path: str, at_once: int, names: list[str]) -> list[Said]:
    """One task, in a worker: its share of the contexts."""
    # The same options as a kubeauth.Client has, so that all that runs in this process shares one run.
    report = fleet.get(
        "/version",
        kubeconfig=path,
        contexts=names,
        concurrency=at_once,
        timeout=10.0,
        exec_options=kubeauth.ExecOptions(),
    )
    return [
        Said(each.context, True, each.json()["gitVersion"])
        if each.ok
        else Said(each.context, False, f"{each.failure}: {each.reason}".splitlines()[0])
        for each in report
    ]


def ask_all(client: Client, path: str, at_once: int) -> list[Said]:
    """Every context of the kubeconfig, wherever there is a worker with nothing to do."""
    names = fleet.contexts(kubeconfig=path)
    shares = [list(names[first : first + SHARE]) for first in range(0, len(names), SHARE)]
    tasks = dict(zip(client.map(partial(ask, path, at_once), shares, pure=False), shares, strict=True))
    found: list[Said] = []
    for task in as_completed(tasks):
        try:
            found += task.result()
        except Exception as error:  # a worker that was lost, and those that were tried after it
            found += [Said(name, False, f"{type(error).__name__}: {error}") for name in tasks[task]]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The version of every cluster, asked from Dask's workers.")
    parser.add_argument("path", nargs="?", default=os.path.expanduser("~/.kube/config"))
    parser.add_argument("--scheduler", help="the address of Dask's; without it, workers are started here")
    parser.add_argument("--workers", type=int, default=2, help="how many to start")
    parser.add_argument("--at-once", type=int, default=8, help="how many contexts each asks at a time")
    given = parser.parse_args()
    path = os.path.abspath(given.path)
    try:
        fleet.contexts(kubeconfig=path)
    except kubeauth.errors.KubeAuthError as error:
        sys.exit(f"error: {error}")
    cluster = given.scheduler or LocalCluster(
        n_workers=given.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    )
    with Client(cluster) as client:
        found = ask_all(client, path, given.at_once)
    versions = Counter(said.words for said in found if said.is_well)
    for version, count in sorted(versions.items()):
        print(f"{count:6} {version}")
    for said in sorted(found):
        if not said.is_well:
            print(f"{said.context}: {said.words}", file=sys.stderr)
    print(f"{versions.total()} of {len(found)} contexts answered")
    return 0 if versions.total() == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
