"""List the namespaces of whatever cluster kubectl would talk to.

python examples/namespaces.py [CONTEXT]
"""

from __future__ import annotations

import sys

import httpx

import kubeauth


def main() -> int:
    context = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        with kubeauth.Client(context=context) as client:
            response = client.get("/api/v1/namespaces")
            response.raise_for_status()
    except kubeauth.errors.KubeAuthError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except httpx.HTTPError as error:
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    for item in response.json()["items"]:
        print(item["metadata"]["name"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
