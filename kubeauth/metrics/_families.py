"""The metrics there are: names, what they say of themselves, and the series that are there from the start."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Gauge(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...] = ()
    mode: Literal["all", "liveall", "livemax"] = "all"
    """How prometheus_client's multiprocess mode puts together what processes have set it to."""


class Counter(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]


class Histogram(NamedTuple):
    name: str
    help: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()


CERTIFICATE_TTL = Gauge(
    "rest_client_exec_plugin_ttl_seconds",
    "Seconds until the first of the client certificates that exec plugins gave is over; negative if one is, "
    "+Inf if there is none.",
)
TOKEN_TTL = Gauge(
    "kubeauth_token_ttl_seconds",
    "Seconds until the first of the tokens that exec plugins gave is over, by its expirationTimestamp; "
    "negative if one is, +Inf if there is none that ends.",
)
ROTATION_AGE = Histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    "Age in seconds, from its notBefore, at which a client certificate of an exec plugin was replaced.",
    # client-go's: up to an hour is too often, up to a month is fine, beyond is seldom.
    (600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000),
)
ROTATION_RATIO = Histogram(
    "kubeauth_certificate_rotation_lifetime_ratio",
    "Age at which a client certificate of an exec plugin was replaced, as a share of its lifetime: over 1, "
    "it had ended before.",
    # Rotated too early; ahead, as it should be; within the KEP's 1 % of the end, on either side; too late.
    (0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1, 1.01, 1.05, 1.1, 1.5, 2),
)
RUN_SECONDS = Histogram(
    "kubeauth_plugin_run_seconds",
    "Seconds that a call of an exec plugin took, whatever came of it.",
    # 60 is the timeout unless another was asked for; only a plugin that talks to somebody takes longer.
    (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
CALLS = Counter(
    "rest_client_exec_plugin_call_total",
    "Calls of exec plugins, by exit code and by what came of them: no_error, plugin_execution_error, "
    "plugin_not_found_error, client_internal_error. What the plugin printed has no part in it.",
    ("code", "call_status"),
)
POLICY_CALLS = Counter(
    "rest_client_exec_plugin_policy_call_total",
    "Times the plugin policy was asked whether an exec plugin may run, by its answer: allowed, denied.",
    ("status",),
)
RENEWALS = Counter(
    "kubeauth_credential_refreshes_total",
    "Credentials fetched from exec plugins and OIDC issuers, by reason (first, expired, refresh_ahead, "
    "unauthorized) and by result (success, failure).",
    ("reason", "result"),
)
# The kubelet's, for image credential providers.
PROVIDER_SECONDS = Histogram(
    "kubelet_credential_provider_plugin_duration",
    "Seconds that a run of an image credential provider took, whatever came of it.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    ("plugin_name",),
)
PROVIDER_ERRORS = Counter(
    "kubelet_credential_provider_plugin_errors_total",
    "Runs of image credential providers that failed: not started, ended with another code than 0, or too "
    "late. What the provider printed has no part in it.",
    ("plugin_name",),
)
PROVIDER_CONFIG = Gauge(
    "kubelet_credential_provider_config_info",
    "1, by the hash of the configuration of image credential providers that was loaded last.",
    ("hash",),
    "livemax",
)
# Where processes share what they count, in the place of the two times to live: those change by themselves,
# and what is written down does not. By process, of those that live. 0 is none: it is what prometheus_client
# writes for a process that has set nothing yet.
CERTIFICATE_ENDS = Gauge(
    "kubeauth_certificate_expiration_timestamp_seconds",
    "When the first of the client certificates that exec plugins gave to a process is over; 0 if none.",
    mode="liveall",
)
TOKEN_ENDS = Gauge(
    "kubeauth_token_expiration_timestamp_seconds",
    "When the first of the tokens that exec plugins gave to a process is over; 0 if it has none that ends.",
    mode="liveall",
)
ENDS = {CERTIFICATE_TTL: CERTIFICATE_ENDS, TOKEN_TTL: TOKEN_ENDS}
# Series that are there from the start, at 0: Prometheus cannot see the step that a series appears with.
# What a plugin exits with nobody knows: these are what most do, and -1 is a signal, ours after a timeout too.
CALL_RESULTS = [
    ("0", "no_error"),
    ("-1", "plugin_execution_error"),
    ("1", "plugin_execution_error"),
    ("1", "plugin_not_found_error"),
    ("1", "client_internal_error"),
]
POLICY_ANSWERS = [(status,) for status in ("allowed", "denied")]
RENEWAL_RESULTS = [
    (reason, result)
    for reason in ("first", "expired", "refresh_ahead", "unauthorized")
    for result in ("success", "failure")
]
