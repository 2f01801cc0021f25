"""What the server says: who we are to it, what time it has, which release it is."""

from __future__ import annotations

from collections.abc import Sequence

from kubeauth._client import Client
from kubeauth._parsing import Json
from kubeauth.cli._doctor_findings import Finding, error, ok, skipped, warning
from kubeauth.cli._doctor_given import Life
from kubeauth.cli._doctor_probe import Heard, hear
from kubeauth.cli._doctor_words import listed, span
from kubeauth.cli._review import REVIEWS, user_in

ANONYMOUS = "system:anonymous"
# A certificate or token counts to the second; nobody's clock does.
SKEW = 30.0

_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def ask_who(client: Client, timeout: float) -> tuple[Heard, bool]:
    """A SelfSubjectReview; of a server that has none, whether it knows us at all. And which it is."""
    for asked in REVIEWS:
        heard = hear(client, "POST", asked.path, timeout=timeout, json=asked.body)
        if heard.status != 404:
            return heard, True
    spec = {"nonResourceAttributes": {"path": "/version", "verb": "get"}}
    body: Json = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    return hear(client, "POST", _ACCESS, timeout=timeout, json=body), False


def whoami_finding(heard: Heard, *, is_review: bool, methods: Sequence[str]) -> Finding:
    """Who we are to the server. `methods` is what we have to show."""
    said = _text(heard.json.get("message"))
    facts: dict[str, Json] = {"status": heard.status or None, "message": said or None}
    if heard.failure is not None:
        advice = heard.failure.advice or "What does the server's log say?"
        return error("whoami", heard.failure.what, advice, **facts)
    if heard.status == 401:
        summary = "401 Unauthorized: the server wants to know who you are, and there is no credential"
        if methods:
            shown = " or ".join(_credential_of(method) for method in methods)
            summary = f"401 Unauthorized: the server does not know who you are by {shown}"
        return error("whoami", summary, _who_advice(methods), **facts)
    if heard.status == 403:
        return _forbidden(said, methods, facts)
    if heard.status == 404:
        advice = "Is server the address of a Kubernetes API server, with the right path behind it?"
        return error("whoami", "404: what answers there has no Kubernetes API", advice, **facts)
    if heard.status not in (200, 201) or not heard.json:
        advice = "Is this the API server, or a proxy or a login page before it? Look at its log."
        return error("whoami", f"the server answered {heard.status}{said and f': {said}'}", advice, **facts)
    if not is_review:
        summary = "the server knows you, but is too old to say as whom (Kubernetes before 1.26)"
        return ok("whoami", summary, **facts)
    return _known(heard, methods, facts)


def _credential_of(method: str) -> str:
    if method.startswith("the plugin"):
        return f"the credential of {method}"
    return "the id-token" if "issuer" in method else f"the {method.partition(' ')[2]}"


def _known(heard: Heard, methods: Sequence[str], facts: dict[str, Json]) -> Finding:
    info = user_in(dict(heard.json)) or {}
    name, groups = _text(info.get("username")), info.get("groups")
    groups = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []
    facts |= {"username": name or None, "groups": groups, "uid": _text(info.get("uid")) or None}
    if not name or name == ANONYMOUS:
        summary = f"the server takes you for nobody ({ANONYMOUS}): it did not recognise what you showed"
        if not methods:
            summary = f"the server takes you for nobody ({ANONYMOUS}): there is no credential"
        return error("whoami", summary, _who_advice(methods), **facts)
    in_groups = f", in {listed(groups, 5)}" if groups else ""
    return ok("whoami", f"{name}{in_groups}", **facts)


def _forbidden(said: str, methods: Sequence[str], facts: dict[str, Json]) -> Finding:
    if ANONYMOUS in said:
        summary = f"403 Forbidden: the server takes you for nobody ({ANONYMOUS}), who may do next to nothing"
        return error("whoami", summary, _who_advice(methods), **facts)
    known = "403 Forbidden: the server knows you, but"
    if "cannot impersonate" in said:
        summary = f"{known} does not let you act as somebody else: {said}"
        return error("whoami", summary, "Leave out --as, or ask for the right to impersonate.", **facts)
    summary = f"{known} you may not even ask who you are{said and f': {said}'}"
    advice = "Logging in again does not help: ask whoever runs the cluster for the role system:basic-user."
    return error("whoami", summary, advice, **facts)


def _who_advice(methods: Sequence[str]) -> str:
    if not methods:
        return "Use a user that has a token, a client certificate or an exec plugin."
    advice: list[str] = []
    if any("plugin" in method or "issuer" in method for method in methods):
        advice.append("log in again, and check that the plugin or issuer is set up for this cluster")
    if any("certificate" in method for method in methods):
        advice.append("is the client certificate signed by a CA that this cluster takes, and not over?")
    if not advice:
        advice.append("get a new one: it is over, was revoked, or is for another cluster")
    said = "; ".join(advice)
    return f"{said[0].upper()}{said[1:]}"


def clock_finding(skew: float | None, lives: Sequence[Life], now: float) -> Finding:
    """Whether this machine and the server agree on the time; an error if a credential hangs on it."""
    if skew is None:
        return skipped("clock", "the server did not say what time it has")
    facts: dict[str, Json] = {"skew_seconds": round(skew, 1)}
    if abs(skew) <= SKEW:
        about = "within a second or two" if abs(skew) < 2 else f"within {span(skew)}"
        return ok("clock", f"this machine and the server agree {about}", **facts)
    behind = "behind" if skew > 0 else "ahead of"
    summary = f"the clock of this machine is {span(skew)} {behind} the server's"
    advice = "Set this machine's clock (timedatectl set-ntp true), or the server's, whichever is wrong."
    disputed = [life for life in lives if life.is_good(now) != life.is_good(now + skew)]
    if disputed:
        good = disputed[0].is_good(now)
        whose = ("to this machine", "to the server") if good else ("to the server", "to this machine")
        summary += f": {disputed[0].what} is good {whose[0]}, but not {whose[1]}"
        return error("clock", summary, advice, **facts)
    return warning("clock", summary, advice, **facts)


def version_finding(heard: Heard) -> Finding:
    """Which release it is."""
    version = _text(heard.json.get("gitVersion"))
    facts: dict[str, Json] = {"version": version or None, "status": heard.status or None}
    if heard.status == 200 and version:
        platform = _text(heard.json.get("platform"))
        return ok("version", f"Kubernetes {version}{platform and f' on {platform}'}", **facts)
    if heard.status in (401, 403):
        return skipped("version", f"the server does not tell you ({heard.status})", **facts)
    advice = "Is server the address of a Kubernetes API server, with the right path behind it?"
    what = heard.failure.what if heard.failure else f"/version answers {heard.status} and no version"
    return warning("version", what, advice, **facts)


def ready_finding(heard: Heard) -> Finding:
    """Whether the server thinks that it is well."""
    facts: dict[str, Json] = {"status": heard.status or None}
    if heard.status == 200 and heard.body.strip() == b"ok":
        return ok("ready", "the server says that it is ready", **facts)
    if heard.status == 200:
        advice = "Is this the API server, or a proxy or a login page before it?"
        return warning("ready", "/readyz answers 200, but not ok", advice, **facts)
    if heard.status in (401, 403, 404):
        return skipped("ready", f"the server does not tell you ({heard.status})", **facts)
    lines = heard.body.decode("utf-8", "replace").splitlines()
    failed = [line[3:].partition(" ")[0] for line in lines if line.startswith("[-]")]
    what = heard.failure.what if heard.failure else f"/readyz answers {heard.status}"
    because = f", because of {listed(failed, 5)}" if failed else ""
    summary = f"the server is not ready: {what}{because}"
    advice = "Wait for it, or look at its log: kubectl get --raw '/readyz?verbose'"
    return warning("ready", summary, advice, **facts)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
