"""Load and resolve a 2 MB kubeconfig (1,000 contexts, inline CA data), beside the alternatives.

    make bench      or      python -m benchmarks.kubeconfig [ROUNDS]

One run, interleaved: each round times every contender once, in turning order, and gives each a ratio to
kubeauth in that round. Python libraries are timed inside this process, imports already done; kubectl is
a process, so kubeauth is shown as one too.
"""

from __future__ import annotations

import base64
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import trustme
from rich.console import Console
from rich.progress import track
from rich.table import Table

import kubeauth

CONTEXTS = 1_000
CHOSEN = f"context-{CONTEXTS // 2}"


def sample() -> str:
    """About 2 MB of YAML, as `aws eks update-kubeconfig` for a thousand clusters would leave it."""
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    certificate = base64.b64encode(authority.cert_pem.bytes()).decode()
    lines = ["apiVersion: v1", "kind: Config", f"current-context: {CHOSEN}", "clusters:"]
    for number in range(CONTEXTS):
        lines += [
            "- cluster:",
            f"    certificate-authority-data: {certificate}",
            f"    server: https://{number:04}.eks.example.com",
            f"  name: cluster-{number}",
        ]
    lines.append("contexts:")
    for number in range(CONTEXTS):
        lines += [
            "- context:",
            f"    cluster: cluster-{number}",
            f"    user: user-{number}",
            f"  name: context-{number}",
        ]
    lines.append("users:")
    for number in range(CONTEXTS):
        lines += [f"- name: user-{number}", "  user:"]
        if f"context-{number}" == CHOSEN:
            # Some of the others run the plugin of the chosen user when they load: that is not measured here.
            lines.append("    token: static")
            continue
        lines += [
            "    exec:",
            "      apiVersion: client.authentication.k8s.io/v1beta1",
            "      args: [--region, eu-central-1, eks, get-token, --cluster-name, "
            f"cluster-{number}, --output, json]",
            "      command: aws",
            "      interactiveMode: Never",
            "      env:",
            "      - {name: AWS_PROFILE, value: production}",
            "      - {name: AWS_STS_REGIONAL_ENDPOINTS, value: regional}",
        ]
    return "\n".join(lines) + "\n"


def contenders(path: Path) -> dict[str, Callable[[], object]]:
    """Whoever is installed here, by name and version."""
    found: dict[str, Callable[[], object]] = {}
    found[f"kubeauth {kubeauth.__version__}"] = lambda: kubeauth.load_config(path)
    with suppress(ImportError):
        import kubernetes.client
        import kubernetes.config

        load_kube_config: Callable[..., object] = kubernetes.config.load_kube_config
        found[f"kubernetes {version('kubernetes')}"] = lambda: load_kube_config(
            str(path), client_configuration=kubernetes.client.Configuration()
        )
    with suppress(ImportError):
        from lightkube.config.kubeconfig import KubeConfig

        found[f"lightkube {version('lightkube')}"] = lambda: KubeConfig.from_file(path).get(CHOSEN)
    with suppress(ImportError):
        import httpx2_k8s

        found[f"httpx2-k8s {version('httpx2-k8s')}"] = lambda: httpx2_k8s.load_kubeconfig(path)
    code = f"import kubeauth; kubeauth.load_config({str(path)!r})"
    found["kubeauth, as a process"] = lambda: run([sys.executable, "-c", code])
    if kubectl := shutil.which("kubectl"):
        view = [kubectl, f"--kubeconfig={path}", "config", "view", "--minify", "--raw"]
        found[f"{kubectl_version(kubectl)}, as a process"] = lambda: run(view)
    return found


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def kubectl_version(kubectl: str) -> str:
    shown = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, check=True)
    return f"kubectl {json.loads(shown.stdout)['clientVersion']['gitVersion']}"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    console = Console()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "config"
        path.write_text(sample())
        size = path.stat().st_size / 1e6
        loaders = contenders(path)
        seconds: dict[str, list[float]] = {name: [] for name in loaders}
        for load in loaders.values():
            load()  # warm: imports, caches, code paths
        names = list(loaders)
        for number in track(range(rounds), "measuring", console=Console(stderr=True), transient=True):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                start = time.perf_counter()
                loaders[name]()
                seconds[name].append(time.perf_counter() - start)
    title = f"{size:.1f} MB, {CONTEXTS:,} contexts; {rounds} interleaved rounds"
    table = Table(title=title, title_justify="left")
    for column in ("", "median", "times kubeauth", "spread"):
        table.add_column(column, justify="left" if not column else "right")
    for name, own in seconds.items():
        base = seconds["kubeauth, as a process" if "process" in name else names[0]]
        ratios = [mine / theirs for mine, theirs in zip(own, base, strict=True)]
        table.add_row(
            name,
            f"{statistics.median(own) * 1000:.0f} ms",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f} - {max(ratios):.2f}",
        )
    console.print(table)
    console.print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}")


if __name__ == "__main__":
    main()
