"""Many threads at once: the first use, which imports modules, and sustained use."""

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
results = []
def use():
    barrier.wait()
    config = kubeauth.load_config(sys.argv[1])
    results.append([config.server, config.exec.command, kubeauth.ssl_context(config).minimum_version.name])
threads = [threading.Thread(target=use) for _ in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(results))
"""


def use_in_new_process(path: str) -> list[list[str]]:
    result = subprocess.run(
        [sys.executable, "-c", FIRST_USE, path], capture_output=True, text=True, check=True
    )
    results: list[list[str]] = json.loads(result.stdout)
    return results


def test_first_use_from_many_threads_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    assert use_in_new_process(path) == [["https://h:6443", "plug", "TLSv1_2"]] * 32


@pytest.mark.load
def test_first_use_from_many_threads_repeatedly(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    for _ in range(30):
        assert use_in_new_process(path) == [["https://h:6443", "plug", "TLSv1_2"]] * 32


@pytest.mark.load
def test_concurrent_loads_see_complete_files_while_the_file_is_replaced(tmp_path: Path) -> None:
    """64 threads load a file that is replaced by rename; each load sees one complete version."""
    path = tmp_path / "config"

    def replace_file(version: int) -> None:
        new = document({"server": f"https://v{version}"}, {"token": f"v{version}"})
        os.replace(write(tmp_path / "new", new), path)

    replace_file(0)
    is_done = threading.Event()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def load_repeatedly(_: int) -> set[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        while not is_done.is_set():
            config = kubeauth.load_config(path)
            assert config.token is not None
            seen.add((config.server.removeprefix("https://"), config.token.reveal()))
        return seen

    with ThreadPoolExecutor(64) as pool:
        results = [pool.submit(load_repeatedly, number) for number in range(64)]
        try:
            for version in range(1, 200):
                replace_file(version)
        finally:
            is_done.set()
        seen = set[tuple[str, str]]().union(*(result.result() for result in results))

    assert all(server == token for server, token in seen)
    assert len(seen) > 10

    if before:
        assert len(os.listdir("/proc/self/fd")) <= before  # other code may have closed some
