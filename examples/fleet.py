"""Which version each cluster of a fleet runs, as the answers come; and who did not answer.

python examples/fleet.py [PATTERN...]
"""

from __future__ import annotations

import sys
from collections import Counter

from kubeauth import errors, fleet


def main() -> int:
    patterns = sys.argv[1:] or ["*"]
    versions: Counter[str] = Counter()
    failed: list[fleet.Answer] = []
    try:
        with fleet.stream("/version", contexts=patterns, concurrency=64, timeout=20.0) as answers:
            for answer in answers:
                if answer.ok:
                    versions[answer.json()["gitVersion"]] += 1
                else:
                    failed.append(answer)
    except errors.KubeAuthError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for version, count in sorted(versions.items()):
        print(f"{version:12} {count:6,} clusters")
    for answer in sorted(failed, key=lambda answer: answer.context):
        print(f"{answer.context}: {answer.failure}: {answer.reason}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
