"""An exec plugin that issues short-lived tokens, written with `kubeauth.plugin`.

    users:
    - name: me
      user:
        exec:
          apiVersion: client.authentication.k8s.io/v1
          interactiveMode: Never
          provideClusterInfo: true
          command: python
          args: [examples/token_plugin.py, --key-file, /path/to/key, --user, alice]

An example: it signs a JWT with a key that lies on this machine, and a server would need an authenticator that
knows this key. A plugin of yours asks an identity provider instead. By hand:

    head -c 32 /dev/urandom >key
    KUBERNETES_EXEC_INFO='{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}' \
        python examples/token_plugin.py --key-file key --user alice
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from kubeauth import errors, plugin


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An exec plugin that issues short-lived tokens.")
    parser.add_argument("--key-file", type=Path, required=True, help="what tokens are signed with")
    parser.add_argument("--user", required=True)
    parser.add_argument("--audience", help="else the cluster's own setting, else its address")
    parser.add_argument("--minutes", type=float, default=15)
    return parser.parse_args()


def login(options: argparse.Namespace, info: plugin.ExecInfo) -> plugin.Credential:
    lifetime = timedelta(minutes=options.minutes)
    claims = {
        "sub": options.user,
        "aud": options.audience or audience(info),
        "exp": int(time.time() + lifetime.total_seconds()),
    }
    # A little less than the token's life, so that it never ends on the way.
    return plugin.Credential(token=signed(claims, key(options.key_file)), expires=lifetime * 0.95)


def audience(info: plugin.ExecInfo) -> str:
    """One kubeconfig user for many clusters: each can say in its exec extension who its tokens are for."""
    if isinstance(info.config, dict) and isinstance(info.config.get("audience"), str):
        return str(info.config["audience"])
    return info.cluster.server if info.cluster else "kubernetes"


def key(path: Path) -> bytes:
    try:
        found = path.read_bytes()
    except OSError as error:
        raise errors.CredentialError(f"cannot read the key {path}: {error.strerror}") from error
    if len(found) < 32:
        raise errors.CredentialError(
            f"the key in {path} is shorter than 32 bytes; make one: head -c 32 /dev/urandom"
        )
    return found


def signed(claims: Mapping[str, object], key: bytes) -> str:
    head = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{head}.{encoded(hmac.digest(key, head.encode(), hashlib.sha256))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


if __name__ == "__main__":
    plugin.run(functools.partial(login, arguments()))
