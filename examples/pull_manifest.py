"""Signs in to a container registry and pulls a manifest, twice: the token is asked for once.

Starts the registry on loopback, and its token endpoint, which gives one for a name and a password.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from kubeauth.registry import RegistryAuth, RegistryCredential

ALICE = "Basic " + base64.b64encode(b"alice:wonderland").decode()


class Registry(BaseHTTPRequestHandler):
    """Registry and token endpoint in one."""

    def do_GET(self) -> None:
        url = f"http://{self.headers['Host']}"
        shown = self.headers.get("Authorization")
        print(f"{self.path.partition('?')[0]}: {shown.partition(' ')[0] if shown else 'nobody'}")
        if self.path.startswith("/token?"):
            self.answer(200 if shown == ALICE else 401, {"token": "a-token", "expires_in": 300})
        elif shown == "Bearer a-token":
            self.answer(200, {"schemaVersion": 2})
        else:
            self.answer(
                401, {}, f'Bearer realm="{url}/token",service="local",scope="repository:team/app:pull"'
            )

    def answer(self, status: int, document: object, challenge: str = "") -> None:
        body = json.dumps(document).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        auth = RegistryAuth(RegistryCredential("alice", "wonderland"), registry=url)
        with httpx.Client(auth=auth, base_url=url, follow_redirects=True) as client:
            for _ in range(2):
                print(client.get("/v2/team/app/manifests/v1").raise_for_status().json())
        server.shutdown()


if __name__ == "__main__":
    main()
