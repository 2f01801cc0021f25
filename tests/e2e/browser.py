"""Chromium without a window, and a page that tries to reach a proxy on loopback from another origin."""

from __future__ import annotations

import http.server
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self
from urllib.parse import urlsplit

from tests.e2e import tools

PATIENCE = 120.0
# A page's host that is not one of loopback. The browser resolves it by a flag, without DNS.
FOREIGN_HOST = "pages.example"

_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--no-proxy-server", f"--host-resolver-rules=MAP {FOREIGN_HOST} 127.0.0.1",
]  # fmt: skip

# Each attack creates a ConfigMap of its name, or reads, by one of the ways that a page has.
_PAGE = r"""<!doctype html><title>another origin</title><body><script>
const TARGETS = %(targets)s;
const configMaps = "/api/v1/namespaces/default/configmaps";
const namespaces = "/api/v1/namespaces";
const json = name => JSON.stringify({apiVersion: "v1", kind: "ConfigMap", metadata: {name}});
const as = (path, name) => path + (path.includes("?") ? "&" : "?") + "fieldManager=" + name;
const text = async response => response.type === "opaque" ? "opaque" : "READ " + await response.text();
const element = (tag, attribute, url) => new Promise(done => {
  const made = document.createElement(tag);
  if (tag === "link") made.rel = "stylesheet";
  made.onload = () => done(attempt(() => "loaded " + (made.contentDocument ? "READ" : "")));
  made.onerror = () => done("failed");
  made[attribute] = url;
  document.body.append(made);
});
const attempt = run => { try { return run(); } catch (error) { return String(error); } };
const submit = (name, url, enctype, field, value) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.name = name;
  document.body.append(frame);
  const form = document.createElement("form");
  Object.assign(form, {method: "post", action: url, target: name, enctype});
  const input = document.createElement("input");
  Object.assign(input, {type: "hidden", name: field, value});
  form.append(input);
  document.body.append(form);
  frame.onload = () => done("submitted");
  form.submit();
});
const open = url => new Promise(done => {
  const socket = new WebSocket(url);
  socket.onmessage = message => { done("READ " + message.data); socket.close(); };
  socket.onclose = () => done("closed");
});

const ATTACKS = {
  "get-cors": (url, name) => fetch(url + as(namespaces, name)).then(text),
  "get-no-cors": (url, name) => fetch(url + as(namespaces, name), {mode: "no-cors"}).then(text),
  // A blob without a type has no Content-Type: the API server takes it for JSON, and no preflight is sent.
  "post-no-cors": (url, name) => fetch(
    url + as(configMaps, name), {method: "POST", mode: "no-cors", body: new Blob([json(name)])}).then(text),
  "post-text": (url, name) => fetch(
    url + as(configMaps, name), {method: "POST", mode: "no-cors", body: json(name)}).then(text),
  "post-cors": (url, name) => fetch(
    url + as(configMaps, name), {method: "POST", body: new Blob([json(name)])}).then(text),
  "post-preflight": (url, name) => fetch(
    url + as(configMaps, name),
    {method: "POST", headers: {"Content-Type": "application/json"}, body: json(name)}).then(text),
  "put": (url, name) => fetch(
    url + as(configMaps + "/" + name, name), {method: "PUT", body: json(name)}).then(text),
  "delete": (url, name) => fetch(url + as(configMaps + "/victim", name), {method: "DELETE"}).then(text),
  "beacon": (url, name) => "queued " + navigator.sendBeacon(url + as(configMaps, name), new Blob([json(name)])),
  "form-text": (url, name) => submit(
    name, url + as(configMaps, name), "text/plain", json(name).slice(0, -1) + ',"x":"', '"}'),
  "form": (url, name) => submit(
    name, url + as(configMaps, name), "application/x-www-form-urlencoded", "a", "b"),
  "image": (url, name) => element("img", "src", url + as(namespaces, name)),
  "script": (url, name) => element("script", "src", url + as(namespaces, name)),
  "stylesheet": (url, name) => element("link", "href", url + as(namespaces, name)),
  "frame": (url, name) => element("iframe", "src", url + as(namespaces, name)),
  "events": (url, name) => new Promise(done => {
    const source = new EventSource(url + as(namespaces + "?watch=1", name));
    source.onmessage = message => done("READ " + message.data);
    source.onerror = () => { source.close(); done("failed"); };
  }),
  "websocket": (url, name) => open(url.replace("http:", "ws:") + as(namespaces + "?watch=1", name)),
};

(async () => {
  const results = {};
  for (const [suffix, url] of Object.entries(TARGETS)) {
    for (const [attack, run] of Object.entries(ATTACKS)) {
      const name = attack + "-" + suffix;
      try { results[name] = await run(url, name); } catch (error) { results[name] = String(error); }
    }
  }
  await fetch("/results", {method: "POST", body: JSON.stringify(results)});
})();
</script>"""


class HostilePage:
    """A server of a page that attacks each of `targets` (URLs by a short name) in every way it can."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        page = (_PAGE % {"targets": json.dumps(dict(targets))}).encode()
        self._results: dict[str, str] | None = None
        self._reported = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(page if urlsplit(self.path).path == "/" else b"")

            def do_POST(self) -> None:
                outer._results = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer._reported.set()
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def results(self) -> dict[str, str]:
        """What the page reports of each attack, by `ATTACK-TARGET`. Waits until it has tried all of them."""
        assert self._reported.wait(PATIENCE), "the page did not report"
        assert self._results is not None
        return self._results


@contextmanager
def browsing(url: str, *, user_agent: str) -> Iterator[None]:
    """Chromium with that page open, until the end of the block."""
    with _profile() as profile, tempfile.TemporaryFile() as output:
        command = _command(profile, "--remote-debugging-port=0", f"--user-agent={user_agent}", url)
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as process:
            try:
                yield
            finally:
                process.terminate()
                process.wait(PATIENCE)


def dump_dom(url: str, *, user_agent: str) -> str:
    """What Chromium shows when a user opens that address, as HTML."""
    with _profile() as profile:
        done = subprocess.run(
            _command(profile, "--dump-dom", f"--user-agent={user_agent}", url),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _profile() -> Iterator[str]:
    # Helper processes of the browser may still write into it for a moment.
    with tempfile.TemporaryDirectory(prefix="kubeauth-browser-", ignore_cleanup_errors=True) as path:
        yield path


def _command(profile: str, *arguments: str) -> Sequence[str]:
    return [str(tools.chromium()), *_FLAGS, f"--user-data-dir={profile}", *arguments]
