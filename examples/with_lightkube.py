"""List the namespaces of whatever cluster kubectl would talk to, with lightkube.

python examples/with_lightkube.py

Needs `pip install 'kubeauth[lightkube]'`.
"""

from __future__ import annotations

import sys

import httpx2
import lightkube
from lightkube.resources.core_v1 import Namespace

import kubeauth
from kubeauth.adapters.lightkube import client


def main() -> int:
    try:
        with client() as kube:
            for namespace in kube.list(Namespace):
                print(namespace.metadata.name if namespace.metadata else "")
    except (kubeauth.errors.KubeAuthError, lightkube.ApiError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except httpx2.HTTPError as error:
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
