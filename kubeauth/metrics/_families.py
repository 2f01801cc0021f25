"""The metrics: names, help texts, labels, buckets, and the series that exist from the start."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Gauge(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...] = ()
    mode: Literal["all", "liveall", "livemax"] = "all"
    """How prometheus_client's multiprocess mode combines the values of several processes."""


class Counter(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]


class Histogram(NamedTuple):
    name: str
    help: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()


Family = Gauge | Counter | Histogram

CERTIFICATE_TTL = Gauge(
    "rest_client_exec_plugin_ttl_seconds",
    "Shortest TTL of the client certificates managed by exec plugins, in seconds until expiry: negative if "
    "one has expired, +Inf if there are no certificates.",
)
TOKEN_TTL = Gauge(
    "kubeauth_token_ttl_seconds",
    "Shortest TTL of the tokens returned by exec plugins, in seconds until their expirationTimestamp: "
    "negative if one has expired, +Inf if none expires.",
)
ROTATION_AGE = Histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    "Age in seconds, since its notBefore, of an exec plugin's client certificate when it was rotated.",
    # client-go's buckets: up to an hour is too often, up to a month is normal, more is rare.
    (600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000),
)
ROTATION_RATIO = Histogram(
    "kubeauth_certificate_rotation_lifetime_ratio",
    "Age of an exec plugin's client certificate when it was rotated, as a fraction of its lifetime: above 1, "
    "it had expired.",
    # Rotated too early; ahead of time, as intended; within 1 % of the expiry (the KEP's objective); too late.
    (0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1, 1.01, 1.05, 1.1, 1.5, 2),
)
RUN_SECONDS = Histogram(
    "kubeauth_plugin_run_seconds",
    "Duration of exec plugin runs in seconds, successful or not.",
    # 60 is the default timeout; only interactive plugins take longer.
    (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
PLUGIN_CALLS = Counter(
    "rest_client_exec_plugin_call_total",
    "Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, "
    "plugin_execution_error, plugin_not_found_error, client_internal_error) and exit code. The plugin's "
    "output is not considered.",
    ("code", "call_status"),
)
POLICY_CALLS = Counter(
    "rest_client_exec_plugin_policy_call_total",
    "Number of times an exec plugin was checked against the plugin policy, partitioned by the result "
    "(allowed, denied).",
    ("status",),
)
REFRESHES = Counter(
    "kubeauth_credential_refreshes_total",
    "Credentials fetched from exec plugins and OIDC issuers, by reason (first, expired, refresh_ahead, "
    "unauthorized) and by result (success, failure).",
    ("reason", "result"),
)
# The kubelet's metrics of image credential providers.
PROVIDER_SECONDS = Histogram(
    "kubelet_credential_provider_plugin_duration",
    "Duration of execution in seconds for credential provider plugin, successful or not.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    ("plugin_name",),
)
PROVIDER_ERRORS = Counter(
    "kubelet_credential_provider_plugin_errors_total",
    "Number of errors from credential provider plugin: runs that did not start, exited with a nonzero code "
    "or timed out. The plugin's output is not considered.",
    ("plugin_name",),
)
PROVIDER_CONFIG = Gauge(
    "kubelet_credential_provider_config_info",
    "Information about the last applied credential provider configuration with hash as label.",
    ("hash",),
    "livemax",
)
# Multiprocess mode stores these in place of the two TTLs, which change with time while a file does not. One
# series for each live process; 0 means no expiry, since prometheus_client writes 0 before a value is set.
CERTIFICATE_EXPIRY = Gauge(
    "kubeauth_certificate_expiration_timestamp_seconds",
    "Time at which the first client certificate from an exec plugin in this process expires; 0 if none.",
    mode="liveall",
)
TOKEN_EXPIRY = Gauge(
    "kubeauth_token_expiration_timestamp_seconds",
    "Time at which the first token from an exec plugin in this process expires; 0 if none expires.",
    mode="liveall",
)
EXPIRY_BY_TTL = {CERTIFICATE_TTL: CERTIFICATE_EXPIRY, TOKEN_TTL: TOKEN_EXPIRY}

COUNTERS = (PLUGIN_CALLS, POLICY_CALLS, REFRESHES, PROVIDER_ERRORS)
HISTOGRAMS = (ROTATION_AGE, ROTATION_RATIO, RUN_SECONDS, PROVIDER_SECONDS)

# Series that exist from the start with the value 0: `increase()` does not see the first value of a series. A
# plugin may exit with any code; these are the usual ones. -1 is a signal, as after a timeout.
INITIAL_LABELS: dict[Counter, list[tuple[str, ...]]] = {
    PLUGIN_CALLS: [
        ("0", "no_error"),
        ("-1", "plugin_execution_error"),
        ("1", "plugin_execution_error"),
        ("1", "plugin_not_found_error"),
        ("1", "client_internal_error"),
    ],
    POLICY_CALLS: [("allowed",), ("denied",)],
    REFRESHES: [
        (reason, result)
        for reason in ("first", "expired", "refresh_ahead", "unauthorized")
        for result in ("success", "failure")
    ],
    PROVIDER_ERRORS: [],
}
