"""Runs a program until it ends, or until whoever started this is gone, whatever happened to it.

python keeper.py LOG [--remove FOLDER] -- COMMAND...

Its standard input is a pipe that nobody writes to: it ends when the other side is closed, by intent or by death.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time


def main() -> int:
    split = sys.argv.index("--")
    log, *options = sys.argv[1:split]
    # Whoever presses Ctrl-C means the tests; they end this one by closing the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(log, "ab") as output:
        child = subprocess.Popen(
            sys.argv[split + 1 :], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    # For who wants it to end well.
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    watched = os.pidfd_open(child.pid)
    readable, _, _ = select.select([sys.stdin, watched], [], [])
    if watched not in readable:
        child.kill()
    code = child.wait()
    if options[:1] == ["--remove"]:
        for _ in range(10):  # others may still write there
            shutil.rmtree(options[1], ignore_errors=True)
            if not os.path.exists(options[1]):
                break
            time.sleep(0.2)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
