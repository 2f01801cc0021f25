"""List the namespaces of whatever cluster kubectl would talk to, with httpx2-k8s.

python examples/with_httpx2_k8s.py

Needs `pip install 'kubeauth[httpx2-k8s]'`.
"""

from __future__ import annotations

import sys

import httpx2
import httpx2_k8s

import kubeauth
from kubeauth.adapters.httpx2_k8s import client


def main() -> int:
    try:
        with client() as kube:
            for namespace in kube.core_v1.list_namespace().items:
                print(namespace.metadata.name)
    except (kubeauth.errors.KubeAuthError, httpx2_k8s.APIError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except httpx2.HTTPError as error:
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
