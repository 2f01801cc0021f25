"""A real registry on loopback, over TLS: Debian's docker-registry, with passwords in a file or tokens of ours."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.e2e import third_party, tools
from tests.registry.servers import Server, authorization, basic, query
from tests.support.ports import free_ports

PATIENCE = 30.0
SERVICE, ISSUER = "registry.test", "tokens.test"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
# The registry takes a token for so long after its end.
_LEEWAY = 60


class RealRegistry:
    """`with RealRegistry(robot="secret") as registry:`. `tokens` are those of the endpoint that it sends to;
    without one it asks for a password."""

    def __init__(self, authority: Authority, tokens: TokenServer | None = None, **users: str) -> None:
        self._program = tools.docker_registry()
        self._authority = authority
        self._tokens = tokens
        self.asks_for = "Basic" if tokens is None else "Bearer"
        self.directory = Path(tempfile.mkdtemp(prefix="kubeauth-registry-"))
        (port,) = free_ports(1)
        self.host = f"127.0.0.1:{port}"
        self.url = f"https://{self.host}"
        self.ca_file = self.directory / "ca.pem"
        self.ca_file.write_bytes(authority.pem)
        if tokens is None:
            self.has_seen(**users)
        self._keeper: subprocess.Popen[bytes] | None = None

    def has_seen(self, **users: str) -> None:
        """These users and no others, from now on."""
        new = self.directory / "htpasswd.new"
        new.write_text("\n".join(_bcrypt(name, word) for name, word in users.items()) + "\n")
        new.replace(self.directory / "htpasswd")

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._keeper is not None:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            self._keeper.wait(30)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def skopeo(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """In a home of its own, with no settings but `env`. Look at its exit code."""
        return self._ran([str(tools.skopeo()), "--insecure-policy", *arguments], env)

    def crane(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same for crane. tools.Missing if there is none."""
        return self._ran([str(third_party.crane()), *arguments], env)

    def docker(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same for docker's client, without its daemon. tools.Missing if there is none."""
        return self._ran([str(third_party.docker()), *arguments], env)

    def _ran(self, command: list[str], env: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as home:
            variables = {
                "PATH": os.environ["PATH"],
                "HOME": home,
                "XDG_RUNTIME_DIR": home,
                "SSL_CERT_FILE": str(self.ca_file),
            }
            return subprocess.run(
                command,
                env=variables | dict(env or {}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

    def push(self, name: str, user: str, password: str) -> Image:
        """A small image, by skopeo."""
        with tempfile.TemporaryDirectory() as folder:
            image = Image(Path(folder), name)
            to = ["--dest-creds", f"{user}:{password}", f"docker://{self.host}/{name}"]
            ran = self.skopeo("copy", "--preserve-digests", f"oci:{folder}:{name}", *to)
        assert ran.returncode == 0, ran.stderr
        return image

    def _start(self) -> None:
        file = self.directory.joinpath
        self._authority.server("127.0.0.1", "localhost").write(file("server.pem"), file("server.key"))
        auth: dict[str, Any] = {"htpasswd": {"realm": "the registry", "path": str(file("htpasswd"))}}
        if self._tokens is not None:
            file("tokens.pem").write_bytes(self._tokens.certificate)
            auth = {
                "token": {
                    "realm": self._tokens.realm,
                    "service": SERVICE,
                    "issuer": ISSUER,
                    "rootcertbundle": str(file("tokens.pem")),
                }
            }
        tls = {"certificate": str(file("server.pem")), "key": str(file("server.key"))}
        config = {
            "version": 0.1,
            "log": {"level": "info", "accesslog": {"disabled": False}},
            "storage": {"filesystem": {"rootdirectory": str(file("storage"))}},
            # It shares upload states by this between several of its kind; without it, it warns.
            "http": {"addr": self.host, "secret": "e2e", "tls": tls},
            "auth": auth,
        }
        file("config.yml").write_text(yaml.safe_dump(config))
        # The storage is removed by the keeper, also if the tests are killed.
        options = [str(file("log")), "--remove", str(self.directory)]
        command = [str(self._program), "serve", str(file("config.yml"))]
        keeper = [sys.executable, "-IS", str(tools.HERE / "keeper.py"), *options, "--", *command]
        self._keeper = subprocess.Popen(
            keeper, stdin=subprocess.PIPE, process_group=0, env=_plain_environment()
        )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            if self._keeper.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the registry does not start:\n{self.log[-4000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        context = ssl.create_default_context(cadata=self._authority.pem.decode())
        try:
            urllib.request.urlopen(f"{self.url}/v2/", context=context, timeout=5).close()  # noqa: S310 -- a server of ours, on loopback
        except urllib.error.HTTPError as error:
            error.close()
            return error.code == 401
        except OSError:
            return False
        raise RuntimeError("the registry asks nobody who they are")


class Image:
    """An image of one layer, as an OCI layout in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        (folder / "blobs" / "sha256").mkdir(parents=True)
        self.layer = f"the one layer of {name}".encode()
        layer = self._blob(folder, "application/vnd.oci.image.layer.v1.tar", self.layer)
        about = {"architecture": "amd64", "os": "linux", "config": {}}
        about |= {"rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
        config = self._blob(folder, "application/vnd.oci.image.config.v1+json", about)
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
        manifest = self._blob(folder, MANIFEST, document)
        reference = {"annotations": {"org.opencontainers.image.ref.name": name}}
        index = {"schemaVersion": 2, "manifests": [manifest | reference]}
        (folder / "index.json").write_text(json.dumps(index))
        (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
        self.layer_digest, self.digest = layer["digest"], manifest["digest"]

    def _blob(self, folder: Path, kind: str, content: Any) -> dict[str, Any]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


class TokenServer(Server):
    """Gives tokens that a docker-registry takes, for users and passwords that it knows."""

    def __init__(self, authority: Authority, **users: str) -> None:
        pair = Authority("kubeauth e2e tokens").server("tokens")
        self._key = serialization.load_pem_private_key(pair.key, None)
        # The registry trusts this one, and it comes with each token.
        self.certificate = pair.certificate
        # Guards users and the list of tokens.
        self._lock = threading.Lock()
        self._users = users
        self.lifetime = 300.0
        """Seconds for which the registry takes a token, or up to one more. What the answer says is more."""
        self.given: list[str] = []
        """To whom, for each token."""
        super().__init__(self._issue, authority)
        # By name: crane asks no private address by its number, if that is not the registry's own.
        self.realm = f"https://localhost:{self.listener.port}/token"

    def has_seen(self, **users: str) -> None:
        with self._lock:
            self._users = users

    def _issue(self, request: RawRequest) -> Answer:
        if request.method != "GET":
            return Answer(405, {})
        shown = authorization(request)
        with self._lock:
            user = next((name for name, word in self._users.items() if basic(name, word) == shown), None)
            if user is None:
                return Answer(
                    401, {"errors": [{"code": "UNAUTHORIZED", "message": "wrong user or password"}]}
                )
            self.given.append(user)
        return Answer(200, {"token": self._token(user, query(request).get("scope", [])), "expires_in": 300})

    def _token(self, user: str, scopes: list[str]) -> str:
        now = time.time()
        access = [scope.split(":", 2) for scope in scopes]
        claims = {
            "iss": ISSUER,
            "aud": SERVICE,
            "sub": user,
            "jti": base64.b64encode(os.urandom(12)).decode(),
            "iat": int(now) - 2 * _LEEWAY,
            "nbf": int(now) - 2 * _LEEWAY,
            "exp": math.ceil(now + self.lifetime) - _LEEWAY,
            "access": [{"type": kind, "name": name, "actions": may.split(",")} for kind, name, may in access],
        }
        der = x509.load_pem_x509_certificate(self.certificate).public_bytes(serialization.Encoding.DER)
        head = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
        signed = f"{_base64(json.dumps(head).encode())}.{_base64(json.dumps(claims).encode())}"
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bcrypt(name: str, password: str) -> str:
    command = [str(tools.htpasswd()), "-nbB", "-C", "4", name, password]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _plain_environment() -> dict[str, str]:
    """REGISTRY_... variables would override its configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
