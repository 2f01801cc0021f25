"""Files that change under a client: a new certificate, and nothing is restarted.

Starts a local API server with its own CA, writes a kubeconfig for it, and lists the namespaces through
`Client` and `AsyncClient`, while the client certificate in the kubeconfig's files is replaced.
`kubeauth demo` shows the same with a plugin, and under load.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

import kubeauth
from kubeauth.testing import APIServer


def main() -> None:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as directory, APIServer(require_certificate=True) as server:
        files = Path(directory, "client.pem"), Path(directory, "client.key")
        server.authority.client("alice").write(*files)
        kubeconfig = Path(directory, "config")
        user = {"client-certificate": files[0].name, "client-key": files[1].name}
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig(user)))
        console.print(f"A local API server at [cyan]{server.url}[/], and a kubeconfig for it.\n")

        config = kubeauth.load_config(kubeconfig)
        with kubeauth.Client(config) as client:
            show(console, "kubeauth.Client", client.get("/api/v1/namespaces").json())
            status = client.status()
            console.print(f"[dim]status: {status.kind}, until {status.expires:%Y-%m-%d %H:%M} UTC[/]\n")

            server.authority.client("bob").write(*files)
            console.print("The certificate's files are replaced: [green]alice[/] becomes [green]bob[/].")
            time.sleep(1.1)  # files are looked at once a second
            client.get("/api/v1/namespaces")
            console.print("The same client, the next request: a new connection, the new certificate.\n")

        asyncio.run(with_async_client(console, config))
        console.print()
        console.print(what_arrived(server))


async def with_async_client(console: Console, config: kubeauth.ClientConfig) -> None:
    async with kubeauth.AsyncClient(config) as client:
        response = await client.get("/api/v1/namespaces")
        show(console, "kubeauth.AsyncClient", response.json())


def show(console: Console, who: str, namespaces: dict[str, list[dict[str, dict[str, str]]]]) -> None:
    names = ", ".join(item["metadata"]["name"] for item in namespaces["items"])
    console.print(f"[bold]{who}[/] lists namespaces: [green]{names}[/]")


def what_arrived(server: APIServer) -> Table:
    table = Table(title="What arrived at the server", title_justify="left", title_style="bold")
    for column in ("request", "user", "on connection"):
        table.add_column(column)
    for request in server.requests:
        table.add_row(
            f"{request.method} {request.path}",
            request.user,
            str(request.connection),
        )
    return table


if __name__ == "__main__":
    main()
