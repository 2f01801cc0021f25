"""What must be done before kubeauth is imported: conftest.py imports this first."""

from __future__ import annotations

import os

# prometheus_client reads it once, when it is imported, and would then look for it at each metric.
os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
