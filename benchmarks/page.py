"""The page with all of it, its pictures, and the table of the README with what matters most of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import markdown, overview, plots
from benchmarks.measures import added, cold, crowds, fleet, imports, kubeconfigs, renewals, stall, warm
from benchmarks.results import Results
from benchmarks.stage import ROOT
from benchmarks.telling import Told

# By measure: the heading, what tells it, and its picture.
SECTIONS: dict[str, tuple[str, Callable[[Results], Told], str]] = {
    "warm": ("Throughput and latency", warm.tell, "throughput"),
    "added": ("What kubeauth adds to a request", added.tell, ""),
    "cold": ("A fresh process", cold.tell, ""),
    "crowds": ("Plugin runs", crowds.tell, "plugin-runs"),
    "renewals": ("Outliving a token three times", renewals.tell_tokens, "renewals"),
    "certificates": ("Outliving a certificate three times", renewals.tell_certificates, ""),
    "stall": ("The event loop while a plugin runs", stall.tell, ""),
    "imports": ("Imports", imports.tell, ""),
    "kubeconfigs": ("A large kubeconfig", kubeconfigs.tell, ""),
    "fleet": ("Memory", fleet.tell, ""),
}
HURRIED = (
    "This was a quick run, and some took their turns at the same time: believe its counts, not its times."
)
SERVERS = {
    "Go": "a small Go program (`benchmarks/go/server`: net/http, HTTP/1.1 and HTTP/2; client-go takes "
    "HTTP/2, the others HTTP/1.1)",
    "asyncio": "a small asyncio program (`benchmarks/asyncio_server.py`), for want of Go on this machine",
}


def write(results: Results, out: Path | None) -> str:
    """Into `out`; without it, into the documentation. Returns the page."""
    docs = out or ROOT / "docs"
    (docs / "img").mkdir(parents=True, exist_ok=True)
    kept = (out or ROOT / "benchmarks") / "results.json"
    results.write(kept)
    results = Results.read(kept)  # with its fewer digits: told again, it is the same page
    for name, (measure, draw) in plots.PLOTS.items():
        if measure in results.found:
            (docs / "img" / f"{name}.svg").write_text(draw(results))
    text = page(results)
    (docs / "benchmarks.md").write_text(text)
    if out is None:
        readme = ROOT / "README.md"
        readme.write_text(markdown.between(readme.read_text(), "benchmarks", overview.table(results)))
    return text


def page(results: Results) -> str:
    told = {name: tell(results) for name, (_, tell, _) in SECTIONS.items() if name in results.found}
    parts = [introduction(results), behind(list(told.values()))]
    for name, section in told.items():
        heading, _, picture = SECTIONS[name]
        parts.append(f"## {heading}\n")
        if picture:
            parts.append(f"![{heading}](img/{picture}.svg)\n")
        parts.append(section.text)
    return "\n".join(parts)


def introduction(results: Results) -> str:
    about = results.about
    versions = dict.fromkeys(f"{each.name} {each.version}" for each in results.listed if " " not in each.name)
    return "# Benchmarks\n\n" + markdown.prose(f"""
        <!-- Written by `make bench`: what is changed here by hand is lost with the next run. -->

        kubeauth beside the alternatives, in one run of {about["took"]} on {about["date"]}, on
        {about["machine"]}, with {about["python"]}: {", ".join(versions)}. `make bench` repeats it on your
        machine (`QUICK=1` for a glance in two minutes, into `build/bench`). `benchmarks/` has all of it,
        and `benchmarks/results.json` what was found.

        {about.get("note", "")}

        - Everybody asks the same server on loopback, over TLS: {SERVERS[about["server"]]}. It verifies the
        credential of each request, and refuses what is over or revoked.
        - Everybody does the same, as its documentation has it: list the namespaces, of which there are four
        (2.2 KB of JSON). httpx, httpx2 and kubeauth parse the JSON; kr8s and pykube-ng make objects around
        it; lightkube makes models that are decoded when they are looked at; kubernetes, kubernetes_asyncio,
        httpx2-k8s and client-go make models of all of it.
        - Each client is a process of its own. They take turns in rounds, and each round begins with another
        one. Ratios are made within a round. A figure is the middle of the rounds; in brackets is their
        middle half (all of them, if they are fewer than four).
        - Nobody is held back by a setting that programs under load would change: client-go's rate limit is
        off (by default five requests a second), and the pools of kubernetes and pykube-ng hold 100
        connections (by default five per core, and ten). Everything else is as it comes. httpx and httpx2
        have kubeauth's pool, and a static token.
        - The plugin does nothing but ask the server for a credential, and wait as long as a measurement
        says. Its `apiVersion` is v1beta1, since lightkube and pykube-ng know no newer one.
        - kubernetes.aio comes with kubernetes. Who is shown in one colour has no other.

        {HURRIED if results.sizes["at_once"] > 1 else ""}
        """)


def behind(told: list[Told]) -> str:
    """Where others are ahead of us: said first."""
    lines = [
        f"- {what}: {', '.join(f'{who} {ratio:.2f}' for who, ratio in rivals)}"
        for section in told
        for what, rivals in section.behind.items()
    ]
    said = markdown.prose("""
        Who did better than kubeauth in the whole of the spread, by more than one part in twenty, and at
        what; as the ratio to kubeauth on httpx, which is what `kubeauth.Client` is, or where it says so, to
        kubeauth direct, which is `kubeauth.Client(transport_factory=kubeauth.transports.DirectTransport)`.
        """)
    return f"## Where kubeauth is behind\n\n{said}\n" + markdown.prose("\n".join(lines) or "Nowhere.")
