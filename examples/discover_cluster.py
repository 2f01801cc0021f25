"""Finds a cluster by a bootstrap token and a pin, keeps its kubeconfig, and asks it who we are.

Starts the cluster on loopback: an API server that publishes cluster-info, and signs it a moment late, as
real ones do.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from kubeauth import Client, errors, load_config
from kubeauth.discovery import Progress, discover, new_token, public_key_pin, sign_cluster_info
from kubeauth.testing import Answer, APIServer, Authority, Received

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


def cluster_info(server: APIServer) -> dict[str, Any]:
    """What `kubeadm init` publishes: one cluster without a name, and nobody's credentials."""
    ca = base64.b64encode(server.authority.pem).decode()
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": {"server": server.url, "certificate-authority-data": ca}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": json.dumps(kubeconfig)},
    }


def told(event: Progress) -> None:
    print(f"{event.stage}, try {event.tries + 1}")


def main() -> None:
    new = new_token(now=time.time(), ttl=3600)
    with APIServer() as server, tempfile.TemporaryDirectory() as directory:
        published = cluster_info(server)

        def answer(_: Received) -> Answer:
            asked = sum(request.path == CLUSTER_INFO for request in server.requests)
            if asked > 1 and (signed := sign_cluster_info(published, [new.secret], now=time.time())):
                published.update(signed)
            return Answer(body=published)

        server.on("GET", CLUSTER_INFO, answer)
        server.tokens[new.token.reveal()] = f"system:bootstrap:{new.token.id}"

        # What somebody who joins is told: where it is, a token, and the pin of its CA.
        endpoint, pin = server.url.removeprefix("https://"), public_key_pin(server.authority.pem)
        found = discover(endpoint, token=new.token, ca_cert_hashes=[pin], interval=0.1, progress=told)
        print(f"found by {found.method}, and its CA is the one that is pinned: {found.pins == (pin,)}")

        path = Path(directory, "bootstrap.conf")
        found.save(path)
        print(f"saved for its owner alone: {path.stat().st_mode & 0o777:o}")
        with Client(load_config(path)) as client:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answered = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review).json()
        is_us = answered["status"]["userInfo"]["username"] == f"system:bootstrap:{new.token.id}"
        print(f"let in with the token: {is_us}")

        # Somebody else's pin: nothing is believed, however well it is signed.
        other = public_key_pin(Authority("another CA").pem)
        try:
            discover(endpoint, token=new.token, ca_cert_hashes=[other])
        except errors.ClusterNotTrusted as error:
            print(f"not trusted: {error.reason}")


if __name__ == "__main__":
    main()
