"""Many threads at once: the first use, when everything is still to be imported, and sustained use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kubeauth
from tests.support.kubeconfigs import document, plugin, write

FIRST_USE = """
import json, sys, threading
import kubeauth
barrier = threading.Barrier(32)
found = []
def use():
    barrier.wait()
    config = kubeauth.load_config(sys.argv[1])
    found.append([config.server, config.exec.command, kubeauth.ssl_context(config).minimum_version.name])
threads = [threading.Thread(target=use) for _ in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(found))
"""


def first_use(path: str) -> list[list[str]]:
    run = subprocess.run([sys.executable, "-c", FIRST_USE, path], capture_output=True, text=True, check=True)
    found: list[list[str]] = json.loads(run.stdout)
    return found


def test_the_first_use_may_come_from_many_threads_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    assert first_use(path) == [["https://h:6443", "plug", "TLSv1_2"]] * 32


@pytest.mark.load
def test_the_first_use_from_many_threads_thirty_times_over(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    for _ in range(30):
        assert first_use(path) == [["https://h:6443", "plug", "TLSv1_2"]] * 32


@pytest.mark.load
def test_loading_under_load_while_the_file_is_replaced(tmp_path: Path) -> None:
    """64 threads load while a writer swaps the file by rename: each sees one version, whole."""
    path = tmp_path / "config"

    def swap(version: int) -> None:
        new = document({"server": f"https://v{version}"}, {"token": f"v{version}"})
        os.replace(write(tmp_path / "new", new), path)

    swap(0)
    done = threading.Event()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def loads(_: int) -> set[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        while not done.is_set():
            config = kubeauth.load_config(path)
            assert config.token is not None
            seen.add((config.server.removeprefix("https://"), config.token.reveal()))
        return seen

    with ThreadPoolExecutor(64) as pool:
        results = [pool.submit(loads, number) for number in range(64)]
        try:
            for version in range(1, 200):
                swap(version)
        finally:
            done.set()
        seen = set[tuple[str, str]]().union(*(result.result() for result in results))
    assert all(server == token for server, token in seen)
    assert len(seen) > 10
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before  # of others, some may be gone
