"""What a webhook was asked, and how long it took, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeauth.metrics import register
from kubeauth.metrics._multiprocess import MULTIPROCESS_WRITER

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PATHS = ("/validate", "/mutate")
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_OTHER = "other"
# An API server waits for 10 seconds, unless it is told otherwise.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ReviewMetrics:
    """Counts reviews, in a registry of its own unless one is given. Credentials are shown beside them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._registry = CollectorRegistry() if registry is None else registry
        self._reviews = Counter(
            "kubeauth_gmsa_reviews_total",
            "Admission reviews, by path, operation, and the code in the answer: 200 is admitted.",
            ("path", "operation", "code"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "kubeauth_gmsa_review_seconds",
            "Seconds from the head of a request to its answer.",
            ("path",),
            buckets=_BOUNDS,
            registry=self._registry,
        )
        register(self._registry)
        for path in PATHS:
            # There from the start: Prometheus cannot see the step that a series appears with.
            self._seconds.labels(path)
            for operation, code in (("CREATE", 200), ("UPDATE", 200), ("CREATE", 403), ("CREATE", 500)):
                self._reviews.labels(path, operation, str(code))

    def answered(self, path: str, operation: str, code: int, seconds: float) -> None:
        # A stranger's word would be a series of its own.
        operation = operation if operation in _OPERATIONS else _OTHER
        self._reviews.labels(path, operation, str(code)).inc()
        self._seconds.labels(path).observe(seconds)

    def shown(self) -> tuple[bytes, str]:
        """All of it as text, and the type of that."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = self._registry
        if MULTIPROCESS_WRITER.is_enabled():  # of all workers, not of the one that happens to be asked
            from prometheus_client.multiprocess import MultiProcessCollector

            registry = CollectorRegistry()
            MultiProcessCollector(registry)
            register(registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST
