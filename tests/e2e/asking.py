"""The programs of the clients that tests.adapters can drive: see past_expiries."""

from __future__ import annotations

import os
import tempfile
import threading
import time

from kubeauth import load_config
from tests.adapters.driver import Driver, Side, opened
from tests.e2e.past_expiries import Report

CALLERS = 4


def ask(side: Side, runtime: str) -> None:
    """Lists and watches until it is over, and leaves no file behind."""
    report = Report()
    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = directory
        with opened(side, runtime, load_config(report.kubeconfig)) as driver:
            driver.config_maps(report.namespace)
            report.watching()
            threading.Thread(target=_watch, args=(driver, report), daemon=True).start()
            callers = [threading.Thread(target=_list, args=(driver, report)) for _ in range(CALLERS)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
            if files := os.listdir(directory):
                report.failed(RuntimeError(f"files were left: {files}"))
            os._exit(0)  # a watch has no end of its own


def _watch(driver: Driver, report: Report) -> None:
    try:
        with driver.watch(report.namespace) as next_event:
            while True:
                report.event(*next_event())
    except BaseException as error:
        report.failed(error)


def _list(driver: Driver, report: Report) -> None:
    while not report.is_over:
        try:
            driver.config_maps(report.namespace)
            report.listed()
        except Exception as error:
            report.failed(error)
        time.sleep(0.1)
