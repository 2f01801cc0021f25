"""A program of test_client_lightkube: see past_expiries."""

from tests.adapters.with_lightkube import SIDES
from tests.e2e.asking import ask

if __name__ == "__main__":
    ask(SIDES["sync"], "sync")
