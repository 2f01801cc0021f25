"""A program of test_client_kr8s: see past_expiries."""

from tests.adapters.with_kr8s import SIDES
from tests.e2e.asking import ask

if __name__ == "__main__":
    ask(SIDES["async"], "asyncio")
