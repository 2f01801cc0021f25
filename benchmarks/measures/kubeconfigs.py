"""Loading and resolving a kubeconfig of 2 MB: a thousand contexts, with the CA of each in it."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import trustme

from benchmarks import markdown
from benchmarks.process import Worker
from benchmarks.results import Results
from benchmarks.stage import Kept, Rounds, Stage
from benchmarks.subjects import Subject
from benchmarks.telling import Told, comparison, told_duration


def sample(contexts: int) -> str:
    """As `aws eks update-kubeconfig` for so many clusters leaves it. The one in the middle is chosen."""
    chosen = contexts // 2
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    certificate = base64.b64encode(authority.cert_pem.bytes()).decode()
    lines = ["apiVersion: v1", "kind: Config", f"current-context: context-{chosen}", "clusters:"]
    for number in range(contexts):
        lines += [
            "- cluster:",
            f"    certificate-authority-data: {certificate}",
            f"    server: https://{number:04}.eks.example.com",
            f"  name: cluster-{number}",
        ]
    lines.append("contexts:")
    for number in range(contexts):
        lines += [
            "- context:",
            f"    cluster: cluster-{number}",
            f"    user: user-{number}",
            f"  name: context-{number}",
        ]
    lines.append("users:")
    for number in range(contexts):
        lines += [f"- name: user-{number}", "  user:"]
        if number == chosen:
            # Else some would run the plugin to load the file.
            lines.append("    token: some-token")
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


def measure(stage: Stage) -> Rounds:
    small, large = stage.directory / "small.yaml", stage.directory / "large.yaml"
    small.write_text(sample(2))
    large.write_text(sample(stage.sizes.contexts))

    def prepare(_subject: Subject, worker: Worker) -> None:
        worker.order("load", kubeconfig=str(small))  # what is imported with the first

    with Kept(stage, prepare) as workers:
        return stage.measure(
            "kubeconfig",
            [each for each in stage.subjects if each.loads],
            stage.sizes.load_rounds,
            lambda subject: workers[subject].order("load", kubeconfig=new_copy(large)),
        )


def new_copy(path: Path) -> str:
    """A path that nobody has seen: whoever keeps what it loaded has to load it again."""
    number = len(list(path.parent.glob(f"{path.stem}-*")))
    return str(shutil.copy(path, path.with_stem(f"{path.stem}-{number}")))


def tell(results: Results) -> Told:
    rounds = results.found["kubeconfigs"]
    contexts = f"{results.sizes['contexts']:,.0f}"
    told = Told(
        markdown.prose(f"""
        {contexts} contexts with inline CA data, 2.2 KB each, loaded and the current one resolved, in a
        process that has loaded another before. kr8s is not here: it cannot load without asking the server.
        Ratios are to kubeauth: below 1 is faster.
        """)
    )
    rows = comparison(
        results,
        rounds,
        told,
        shows={"us": told_duration},
        compares="us",
        base="kubeauth sync",
        what="time to load a large kubeconfig",
    )
    told.text += "\n" + markdown.table(["", "load", "ratio"], rows)
    return told
