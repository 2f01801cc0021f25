"""A program of test_client_httpx2_k8s: see past_expiries."""

from tests.adapters.with_httpx2_k8s import SIDES
from tests.e2e.asking import ask

if __name__ == "__main__":
    ask(SIDES["sync"], "sync")
