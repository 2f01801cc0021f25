"""The official client with kubeauth's credentials: list, then watch while a plugin's token is replaced.

Starts a local API server and a plugin whose first token lives for six seconds, so that it runs anywhere;
leave `config` away, and it is your own cluster. Needs `pip install 'kubeauth[kubernetes]'`.
"""

from __future__ import annotations

import tempfile
import threading
import time
from typing import Any

from kubernetes import client, watch

import kubeauth
from kubeauth.adapters import kubernetes
from kubeauth.testing import APIServer, PluginScript

# Of the first token: time enough to list and to begin the watch, on a busy machine too.
LIFETIME = 6


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, APIServer(tokens={"first": "alice"}) as server:
        plugin = PluginScript(directory)
        plugin.answer(token="first", expires_in=LIFETIME)  # noqa: S106 -- a secret to nobody
        config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))
        events = server.watch("/api/v1/namespaces/web/configmaps")

        with kubernetes.api_client(config) as api:
            core: Any = client.CoreV1Api(api)
            print("namespaces:", ", ".join(item.metadata.name for item in core.list_namespace().items))

            threading.Thread(target=meanwhile, args=(server, plugin, events)).start()
            watcher: Any = watch.Watch()
            for event in watcher.stream(core.list_namespaced_config_map, "web", timeout_seconds=60):
                print(event["type"], event["object"].metadata.name)

            print("namespaces again:", len(core.list_namespace().items))
        users = [request.user for request in server.requests]
        print("who asked:", ", ".join(str(user) for user in users))
        print("runs of the plugin:", len(plugin.runs))


def meanwhile(server: APIServer, plugin: PluginScript, events: kubeauth.testing.Watch) -> None:
    """What happens elsewhere while the watch is open: the first token ends, and there is another."""
    events.wait_for_watchers()
    server.tokens["second"] = "bob"
    plugin.answer(token="second", expires_in=900)  # noqa: S106 -- a secret to nobody
    time.sleep(LIFETIME)
    del server.tokens["first"]
    metadata = {"name": "settings", "namespace": "web", "resourceVersion": "7"}
    events.send({"type": "ADDED", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}})
    events.end()


if __name__ == "__main__":
    main()
