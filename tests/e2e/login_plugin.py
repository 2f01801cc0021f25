"""An exec plugin that logs in at the cluster itself, written with `kubeauth.plugin`.

`--account NAME`: a token of that service account, by a TokenRequest. `--user NAME`: a client certificate, by a
CertificateSigningRequest that is signed by the cluster's own controller. Both: both. Whose word counts at the
cluster is in E2E_LOGIN, as a token.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import os
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeauth import Client, Secret, errors, plugin

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def login(info: plugin.ExecInfo) -> plugin.Credential:
    parser = argparse.ArgumentParser()
    parser.add_argument("--account")
    parser.add_argument("--user")
    parser.add_argument("--seconds", type=float, default=600, help="after which clients shall come again")
    parser.add_argument("--secret", help="the token is good while that Secret is there; made if it is not")
    options = parser.parse_args()
    config = dataclasses.replace(info.client_config(), token=Secret(os.environ["E2E_LOGIN"]))
    with Client(config) as client:
        certificate, key = certificate_for(client, options.user) if options.user else (None, None)
        return plugin.Credential(
            token=token_of(client, options.account, options.secret) if options.account else None,
            certificate=certificate,
            key=key,
            expires=datetime.now(UTC) + timedelta(seconds=options.seconds),
        )


def token_of(client: Client, account: str, secret: str | None) -> str:
    spec: dict[str, Any] = {"expirationSeconds": 600}
    if secret:
        made = client.post(
            "/api/v1/namespaces/default/secrets",
            json={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}},
        )
        if made.status_code not in (201, 409):
            raise errors.CredentialError(f"no Secret: {made.text}")
        uid = client.get(f"/api/v1/namespaces/default/secrets/{secret}").json()["metadata"]["uid"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid}
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = client.post(path, json=request)
    if answer.status_code != 201:
        raise errors.CredentialError(f"no token for {account}: {answer.text}")
    return str(answer.json()["status"]["token"])


def certificate_for(client: Client, user: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    name = f"{user.lower()}-{secrets.token_hex(8)}"
    document = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": 600,
            "usages": ["client auth"],
        },
    }
    answer = client.post(CSRS, json=document)
    if answer.status_code != 201:
        raise errors.CredentialError(f"no certificate for {user}: {answer.text}")
    approved = answer.json()
    approved["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Asked"}]}
    client.put(f"{CSRS}/{name}/approval", json=approved).raise_for_status()
    for _ in range(600):
        if signed := client.get(f"{CSRS}/{name}").json()["status"].get("certificate"):
            pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            return base64.b64decode(signed), key.private_bytes(serialization.Encoding.PEM, pkcs8, plain)
        time.sleep(0.05)
    raise errors.CredentialError(f"nobody has signed the certificate for {user}")


if __name__ == "__main__":
    plugin.run(login)
