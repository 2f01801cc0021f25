"""List the namespaces of whatever cluster kubectl would talk to, with kr8s.

python examples/with_kr8s.py

Needs `pip install 'kubeauth[kr8s]'`.
"""

from __future__ import annotations

import sys

import httpx
import kr8s

import kubeauth
from kubeauth.adapters.kr8s import api


def main() -> int:
    try:
        kube = api()
        for namespace in kr8s.get("namespaces", api=kube, raw=True):
            print(namespace["metadata"]["name"])
        kube.close()
    except (kubeauth.errors.KubeAuthError, kr8s.ServerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except httpx.HTTPError as error:
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
