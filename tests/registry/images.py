"""Patterns and images, and whether the one matches the other: upstream's cases (M) and those of its code (X).

tests/differential asks Go itself about the same table.
"""

from __future__ import annotations

# id, pattern or key of `auth`, image, whether it matches; None: one of the two cannot be read.
TABLE: list[tuple[str, str, str, bool | None]] = [
    # keyring_test.go, TestURLsMatch
    ("M01", "*.kubernetes.io", "prefix.kubernetes.io", True),
    ("M02", "prefix.*.io", "prefix.kubernetes.io", True),
    ("M03", "prefix.kubernetes.*", "prefix.kubernetes.io", True),
    ("M04", "*-good.kubernetes.io", "prefix-good.kubernetes.io", True),
    ("M05", "*.kubernetes.io/blah", "prefix.kubernetes.io/blah", True),
    ("M06", "prefix.*.io/foo", "prefix.kubernetes.io/foo/bar", True),
    ("M07", "*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah", True),
    ("M08", "prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar", True),
    ("M09", "*.kubernetes.io", "kubernetes.io", False),
    ("M10", "*.*.kubernetes.io", "prefix.kubernetes.io", False),
    ("M11", "*.*.kubernetes.io", "kubernetes.io", False),
    ("M12", "*kubernetes.io", "a.kubernetes.io", False),
    ("M13", "*kubernetes.io", "kubernetes.io", True),
    ("M14", "*.*.*.kubernetes.io", "a.b.c.kubernetes.io", True),
    ("M15", "kubernetes.io", "kubernetes.com", False),
    ("M16", "k*.io", "quay.io", False),
    ("M17", "*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah", False),
    ("M18", "prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar", False),
    # TestDockerKeyringForGlob
    ("M19", "https://hello.kubernetes.io", "hello.kubernetes.io/foo/bar", True),
    ("M20", "https://*.docker.io", "prefix.docker.io/foo/bar", True),
    ("M21", "https://prefix.*.io", "prefix.docker.io/foo/bar", True),
    ("M22", "https://prefix.docker.*", "prefix.docker.io/foo/bar", True),
    ("M23", "https://*.docker.io/path", "prefix.docker.io/path/foo/bar", True),
    ("M24", "https://prefix.*.io/path", "prefix.docker.io/path/subpath/foo/bar", True),
    ("M25", "https://prefix.docker.*/path", "prefix.docker.io/path/foo/bar", True),
    ("M26", "https://*.docker.io:8888", "prefix.docker.io:8888/foo/bar", True),
    ("M27", "https://prefix.*.io:8888", "prefix.docker.io:8888/foo/bar", True),
    ("M28", "https://prefix.docker.*:8888", "prefix.docker.io:8888/foo/bar", True),
    ("M29", "https://*.docker.io/path:1111", "prefix.docker.io/path:1111/foo/bar", True),
    ("M30", "https://*.docker.io/v1/", "prefix.docker.io/path:1111/foo/bar", True),
    ("M31", "https://*.docker.io/v2/", "prefix.docker.io/path:1111/foo/bar", True),
    ("M32", "https://prefix.docker.*/path:1111", "prefix.docker.io/path:1111/foo/bar", True),
    ("M33", "prefix.docker.io:1111", "prefix.docker.io:1111/path/foo/bar", True),
    ("M34", "*.docker.io:1111", "prefix.docker.io:1111/path/foo/bar", True),
    # TestKeyringMiss
    ("M35", "https://hello.kubernetes.io", "world.mesos.org/foo/bar/foo/bar", False),
    ("M36", "https://*.docker.com", "prefix.docker.io/foo/bar", False),
    ("M37", "https://suffix.*.io", "prefix.docker.io/foo/bar", False),
    ("M38", "https://prefix.docker.c*", "prefix.docker.io/foo/bar", False),
    ("M39", "https://prefix.*.io/path:1111", "prefix.docker.io/path/subpath:1111/foo/bar", False),
    ("M40", "suffix.*.io", "prefix.docker.io/foo/bar", False),
    # TestDockerKeyringLookup, TestIssue3797, plugin_test.go
    ("M41", "bar.example.com", "bar.example.com", True),
    ("M42", "bar.example.com/pong", "bar.example.com/ping", False),
    ("M43", "bar.example.com/pong", "bar.example.com/pongz", True),
    ("M44", "bar.example.com/pong", "bar.example.com/pong/pang", True),
    ("M45", "bar.example.com", "foo.example.com", False),
    ("M46", "https://quay.io/v1/", "quay.io/foo/bar", True),
    ("M47", "test.registry.io", "test.registry.io/foo/bar", True),
    ("M48", "*.registry.io:8080", "test.registry.io:8080/foo", True),
    ("M49", "*.*.registry.io", "foo.bar.registry.io/foo/bar", True),
    ("M50", "*.registry.io", "test.registry.io", True),
    ("X01", "gcr.io/*", "gcr.io/foo", False),
    ("X02", "gcr.io/", "gcr.io/x", True),
    ("X03", "gcr.io/", "gcr.io", False),
    ("X04", "gcr.io/foo/", "gcr.io/foo", False),
    ("X05", "docker.io", "docker.io/library/nginx", True),
    ("X06", "index.docker.io", "docker.io/library/nginx", False),
    ("X07", "*.docker.io", "docker.io/library/nginx", False),
    ("X08", "*", "localhost/foo", True),
    ("X09", "*", "localhost:5000/foo", False),
    ("X10", "*:5000", "localhost:5000/foo", True),
    ("X11", "*", "gcr.io/foo", False),
    ("X12", "GCR.io", "gcr.io/foo", False),
    ("X13", "gcr.io:", "gcr.io/foo", True),
    ("X14", "gcr.io:443", "gcr.io/foo", False),
    ("X15", "10.0.0.*:5000", "10.0.0.7:5000/x", True),
    ("X16", "[::1]:5000", "[::1]:5000/x", True),
    ("X17", "[::1]", "[::1]/x", False),
    ("X18", "gcr.io:*", "gcr.io/x", None),
    ("X19", "%invalid%", "gcr.io/x", None),
    ("X20", "a?.io", "ab.io/x", False),
    ("X21", "user@gcr.io", "gcr.io/foo", True),
    ("X22", "gcr.io", "nginx:latest", None),
    ("X23", "*.dkr.ecr.*.amazonaws.com", "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/r", False),
    ("X24", "*.azurecr.*", "foo.azurecr.io/r", True),
    ("X25", "app*.k8s.io", "app1.k8s.io/x", True),
    ("X26", "gcr.io.", "gcr.io/x", False),
]  # fmt: skip


def key(text: str) -> str:
    """What a key of `auth` is looked up by, for those above (5.3)."""
    _, scheme, rest = text.rpartition("https://")
    return rest.removesuffix("/v1/").removesuffix("/v2/") if scheme else rest
