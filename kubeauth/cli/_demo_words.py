"""What the demo says, in words: the same on every screen."""

from __future__ import annotations

from collections.abc import Iterator

from kubeauth.cli._demo_figures import NEAR, Latencies
from kubeauth.cli._demo_load import Stream
from kubeauth.cli._demo_run import Run
from kubeauth.cli._demo_server import DemoCluster

_MOST_REASONS = 5


def milliseconds(seconds: float | None) -> str:
    """With as many digits as mean something."""
    if seconds is None:
        return "-"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"


def percentiles(latencies: Latencies) -> tuple[str, str, str]:
    """The median, the 99th and the longest."""
    longest = milliseconds(latencies.longest) if latencies.count else "-"
    return milliseconds(latencies.percentile(0.5)), milliseconds(latencies.percentile(0.99)), longest


def what_is_shown(run: Run) -> str:
    """Against what, and with what."""
    status = run.load.status
    if run.cluster is None:
        return f"{run.config.server}: {status.kind} from {status.source}"
    lives = f"{run.cluster.lifetime:g}"
    if "certificate" in status.kind:
        lives += f" to {run.cluster.lifetime + 1:g}"  # it ends with a full second
    return f"{run.config.server}: {status.kind} from a plugin, lives {lives} s"


def who_asks(run: Run) -> str:
    """The load."""
    return f"{run.plan.threads} threads on a Client, {run.plan.tasks} tasks on an AsyncClient"


def rate(run: Run) -> str:
    """How busy it is."""
    return f"{run.figures.requests / max(run.elapsed, 1.0):.0f} a second"


def first_request(run: Run) -> str:
    """What it took when there was nothing yet."""
    return f"the first took {milliseconds(run.first_request)}"


def plugin_runs(run: Run) -> str:
    """Who noticed them."""
    failed = f"{run.plugin.failed} failed; " if run.plugin.failed else ""
    return f"{failed}{run.figures.waited:,} requests waited for one after the first"


def server_saw(cluster: DemoCluster) -> str:
    """The other side's view."""
    return f"seen by the server, of {cluster.issued} issued; {cluster.refused} x 401"


def stream_state(stream: Stream) -> str:
    """Whether a watch is still there, or was to the end."""
    if stream.problem is not None:
        return stream.problem
    if stream.is_open:
        return "open"
    return "open to the end" if stream.events else "not open yet"


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """Everything that was counted, for a summary in lines."""
    figures = run.figures
    yield "requests", f"{figures.requests} in {run.elapsed:.1f} s, {rate(run)}; {first_request(run)}"
    yield "failures", f"{figures.failures}"
    yield "plugin runs", f"{run.plugin.runs}, {plugin_runs(run)}"
    yield "rotations", f"{run.rotations}"
    if run.cluster is not None:
        yield "credentials", f"{run.cluster.seen} {server_saw(run.cluster)}"
    for stream in run.load.streams:
        yield f"watch on {stream.client}", f"{stream.events} events, {stream_state(stream)}"
    for name, latencies in (("steady", figures.steady), (f"{NEAR:g} s from a rotation", figures.around)):
        median, high, longest = percentiles(latencies)
        yield f"latency, {name}", f"p50 {median}, p99 {high}, longest {longest}, of {latencies.count}"


def reasons(run: Run) -> Iterator[str]:
    """Why requests failed, the most frequent first."""
    for reason, count in run.figures.reasons.most_common(_MOST_REASONS):
        yield f"{count:,} x {reason}"
    others = len(run.figures.reasons) - _MOST_REASONS
    if others > 0:
        yield f"and {others} other reasons"


def closing(run: Run) -> str:
    """What was just seen, in a sentence."""
    return f"Ended early. {_seen(run)}" if run.was_interrupted else _seen(run)


def _seen(run: Run) -> str:
    requests = f"{run.figures.requests:,} requests"
    if not run.succeeded:
        return f"{run.figures.failures:,} of {requests} failed."
    if not run.rotations:
        return f"{requests}, and none failed; the credential was not replaced meanwhile."
    seen = f"The credential was replaced {_times(run.rotations)} under {requests}: none failed"
    late = 0 if run.cluster is None else run.cluster.refused
    if late:
        seen += f", {late:,} that came too late were repeated with the next one"
    seen += f", and {run.figures.waited or 'none'} had to wait for the plugin."
    if "certificate" in run.load.status.kind:
        seen += " A new certificate means new connections: their handshakes are what a rotation takes."
    return seen


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
