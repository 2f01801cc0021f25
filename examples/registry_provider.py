#!/usr/bin/env python3
"""An image credential provider with an account for each registry, written with `kubeauth.registry.plugin`.

    apiVersion: kubelet.config.k8s.io/v1
    kind: CredentialProviderConfig
    providers:
    - name: accounts
      apiVersion: credentialprovider.kubelet.k8s.io/v1
      matchImages: ["*.example.com", "*.example.com:5000"]
      defaultCacheDuration: 5m
      args: [--accounts, /etc/accounts.json]

A kubelet runs the program of that name in its --image-credential-provider-bin-dir, so put a link there:

    ln -s "$PWD/examples/registry_provider.py" /path/to/bin/accounts

An example: its passwords lie on this machine. A provider of yours gets short-lived ones from whoever runs the
registry. By hand:

    echo '{"registry.example.com": {"username": "robot", "password": "sample-secret"}}' >accounts.json
    echo '{"kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
           "image": "registry.example.com/team/app"}' >request.json
    python examples/registry_provider.py --accounts accounts.json <request.json
"""

from __future__ import annotations

import argparse
import functools
import json
from datetime import timedelta
from pathlib import Path

from kubeauth.errors import RegistryError
from kubeauth.registry import plugin


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An image credential provider.")
    parser.add_argument("--accounts", type=Path, required=True, help="who to be, by registry, in JSON")
    parser.add_argument("--minutes", type=float, default=5, help="for how long an answer is kept")
    return parser.parse_args()


def answer(options: argparse.Namespace, request: plugin.Request) -> plugin.Response:
    account = account_for(request.registry, options.accounts)
    return plugin.Response(
        {} if account is None else {request.registry: account},
        # Every image of a registry has the same account.
        cache_key_type="Registry",
        cache_duration=timedelta(minutes=options.minutes),
    )


def account_for(registry: str, path: Path) -> tuple[str, str] | None:
    try:
        accounts = json.loads(path.read_bytes())
        account = accounts.get(registry)
        return account and (account["username"], account["password"])
    except OSError as error:
        raise RegistryError(f"cannot read the accounts in {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError):
        # Without what json says about it, which holds the file.
        raise RegistryError(
            f'{path} must be JSON like {{"registry.example.com": {{"username": "...", "password": "..."}}}}'
        ) from None


if __name__ == "__main__":
    plugin.run(functools.partial(answer, arguments()))
