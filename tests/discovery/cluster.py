"""As much of a cluster as the signer has to do with: Secrets, cluster-info, versions, watches. On a real server."""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubeauth.testing import Answer, APIServer, Received
from tests.discovery.objects import config_map

SECRETS = "/api/v1/namespaces/kube-system/secrets"
CONFIG_MAPS = "/api/v1/namespaces/kube-public/configmaps"
CLUSTER_INFO = f"{CONFIG_MAPS}/cluster-info"
SELECTORS = {SECRETS: "type=bootstrap.kubernetes.io/token", CONFIG_MAPS: "metadata.name=cluster-info"}

Object = dict[str, Any]


def status(code: int, message: str = "said so") -> Answer:
    return Answer(code, {"kind": "Status", "apiVersion": "v1", "message": message, "code": code})


class Cluster:
    """Its objects, and everybody who watches them."""

    def __init__(self, server: APIServer) -> None:
        # Guards all of it, and tells of every change.
        self.changed = threading.Condition()
        self.objects: dict[str, dict[str, Object]] = {SECRETS: {}, CONFIG_MAPS: {}}
        self.version = 100
        self.forgotten = 0
        """Events up to this version are not known any more."""
        self.says_gone_in_the_stream = False
        self.page_size = 500
        self.writes: list[Object] = []
        """What was written to cluster-info."""
        self.refused = 0
        """Writes that came too late."""
        self.lists: dict[str, int] = {SECRETS: 0, CONFIG_MAPS: 0}
        self.watches: dict[str, list[str]] = {SECRETS: [], CONFIG_MAPS: []}
        """From which version each was asked for."""
        self.before_write: Callable[[], Answer | None] = lambda: None
        self.pieces: Callable[[bytes], Iterator[bytes]] = lambda line: iter([line])
        """How an event goes over the wire."""
        self._events: list[tuple[int, str, Object]] = []
        self._cuts = 0
        for path in SELECTORS:
            server.on("GET", path, self._read)
        server.on("PUT", CLUSTER_INFO, self._write)

    def put(self, path: str, item: Object) -> None:
        with self.changed:
            name = item["metadata"]["name"]
            kind = "MODIFIED" if name in self.objects[path] else "ADDED"
            self._store(path, kind, item)

    def kubeconfig(self, text: str, **more: str) -> None:
        self.put(CONFIG_MAPS, config_map(kubeconfig=text, **more))

    def delete(self, path: str, name: str) -> None:
        with self.changed:
            item = self.objects[path].pop(name)
            self._tell(path, "DELETED", item)

    def say(self, path: str, event: Object) -> None:
        """Any event, to whoever watches now."""
        with self.changed:
            self.version += 1
            self._events.append((self.version, path, event))
            self.changed.notify_all()

    def bookmark(self, path: str) -> None:
        with self.changed:
            self._tell(path, "BOOKMARK", {"metadata": {}})

    def end_watches(self) -> None:
        """In good order."""
        with self.changed:
            self._cuts += 1
            self.changed.notify_all()

    def forget(self) -> None:
        """Whoever asks for what was up to now has to list."""
        with self.changed:
            self.forgotten = self.version
        self.end_watches()

    @property
    def cluster_info(self) -> dict[str, str]:
        with self.changed:
            data: dict[str, str] = copy.deepcopy(self.objects[CONFIG_MAPS]["cluster-info"]["data"])
        return data

    @property
    def signed_by(self) -> set[str]:
        prefix = "jws-kubeconfig-"
        return {key.removeprefix(prefix) for key in self.cluster_info if key.startswith(prefix)}

    def _store(self, path: str, kind: str, item: Object) -> None:
        item = copy.deepcopy(item)
        self.objects[path][item["metadata"]["name"]] = item
        self._tell(path, kind, item)

    def _tell(self, path: str, kind: str, item: Object) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._events.append((self.version, path, {"type": kind, "object": copy.deepcopy(item)}))
        self.changed.notify_all()

    def _read(self, request: Received) -> Answer:
        url = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        assert query["fieldSelector"] == SELECTORS[url.path]
        if "watch" in query:
            return self._watch(url.path, query["resourceVersion"])
        with self.changed:
            self.lists[url.path] += 1
            items = [copy.deepcopy(item) for _, item in sorted(self.objects[url.path].items())]
            start = int(query.get("continue", 0))
            metadata = {"resourceVersion": str(self.version)}
        if len(items) > start + self.page_size:
            metadata["continue"] = str(start + self.page_size)
        for item in items:
            # As a real one: what is in a list does not say what it is.
            del item["kind"], item["apiVersion"]
        return Answer(body={"metadata": metadata, "items": items[start : start + self.page_size]})

    def _watch(self, path: str, version: str) -> Answer:
        with self.changed:
            self.watches[path].append(version)
            if int(version) < self.forgotten:
                if not self.says_gone_in_the_stream:
                    return status(410, "too old resource version")
                gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
                return Answer(chunks=[json.dumps(gone).encode() + b"\n"])
            return Answer(chunks=self._events_after(path, int(version), self._cuts))

    def _events_after(self, path: str, version: int, cuts: int) -> Iterator[bytes]:
        for position in itertools.count():
            with self.changed:
                while len(self._events) <= position and self._cuts == cuts:
                    self.changed.wait()
                if self._cuts != cuts:
                    return
                number, where, event = self._events[position]
            if where == path and number > version:
                yield from self.pieces(json.dumps(event).encode() + b"\n")

    def _write(self, request: Received) -> Answer:
        answer = self.before_write()
        if answer is not None:
            return answer
        item = json.loads(request.body)
        assert (item["kind"], item["apiVersion"]) == ("ConfigMap", "v1")
        with self.changed:
            now = self.objects[CONFIG_MAPS].get("cluster-info")
            if now is None:
                return status(404)
            if now["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self.refused += 1
                return status(409, "the object has been modified")
            self.writes.append(item)
            self._store(CONFIG_MAPS, "MODIFIED", item)
        return Answer(body=item)
