"""`python -m tests.soak`: exits with 0 if nothing of ours failed, with 1 if something did."""

from __future__ import annotations

import argparse
import signal
import sys

from tests.soak.plan import SABOTAGES, plan_for
from tests.soak.report import faults
from tests.soak.run import prepared
from tests.soak.screen import screen, show


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 10 <= seconds <= 86400:
        raise argparse.ArgumentTypeError("from 10 seconds to a day")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=_seconds, default=600.0)
    parser.add_argument("--seed", type=int, default=1, help="of everything that is random here")
    parser.add_argument("--sabotage", choices=SABOTAGES, default="", help="something that must make it fail")
    given = parser.parse_args()
    # Whoever ends it otherwise means the same as by Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with prepared(plan_for(given.seconds, given.seed, given.sabotage)) as soak:
            with screen() as shown:
                soak.run(shown.tick)
            show(soak)
            return 1 if faults(soak) else 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
