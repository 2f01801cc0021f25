"""What your kubeconfig resolves to, as a table without secrets.

    python examples/show_config.py [KUBECONFIG [CONTEXT]]

Without arguments: what kubectl would use here or, where there is nothing, the sample beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import kubeauth
from kubeauth import ClientConfig, ExecConfig, errors

SAMPLE = Path(__file__).parent / "kubeconfig.yaml"


def main() -> int:
    console, complaints = Console(), Console(stderr=True, highlight=False)
    path, context = [*sys.argv[1:], None, None][:2]
    title = "your configuration"
    try:
        try:
            config = kubeauth.load_config(path, context=context)
        except errors.KubeConfigError as error:
            if path or "no configuration has been provided" not in str(error):
                raise
            title = f"no kubeconfig here, so the sample: {SAMPLE.name}"
            config = kubeauth.load_config(SAMPLE)
    except errors.KubeAuthError as error:
        complaints.print(Text(f"error: {error}", "red"))
        return 1
    console.print(as_table(config, title))
    return 0


def as_table(config: ClientConfig, title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    # describe() shows no secret; the plugin gets rows of its own.
    for name, value in config.describe().items():
        if name != "exec":
            table.add_row(name, Text(value))
    for name, value in plugin(config.exec):
        table.add_row(name, Text(value))
    table.add_section()
    table.add_row("credential", Text(credential(config), "bold green"))
    return table


def plugin(exec: ExecConfig | None) -> list[tuple[str, str]]:
    if exec is None:
        return []
    return [
        ("exec.command", exec.command),
        ("exec.args", f"<{len(exec.args)} hidden>"),
        ("exec.env", repr(exec.env)),
        ("exec.api_version", exec.api_version),
        ("exec.interactive_mode", exec.interactive_mode),
        ("exec.provide_cluster_info", str(exec.provide_cluster_info)),
        ("exec.policy", exec.policy.kind),
    ]


def credential(config: ClientConfig) -> str:
    """Which of its credentials a client uses: static ones win over a plugin or an issuer."""
    if config.token_file:
        return f"bearer token from {config.token_file}, read again as it changes"
    if config.token:
        return "bearer token"
    if config.username:
        return f"basic, as {config.username}"
    if config.client_cert_data or config.client_cert_file:
        return "client certificate"
    if config.exec:
        return f"from the plugin {config.exec.command}"
    if config.oidc:
        return f"from the OIDC issuer {config.oidc.issuer_url}"
    return "none: anonymous"


if __name__ == "__main__":
    sys.exit(main())
