"""A registry, as `kubeauth registry manifest` asks it: once, signed in by the providers if there are any."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx

from kubeauth._client import TIMEOUT, USER_AGENT
from kubeauth._config.client_config import ClientConfig
from kubeauth._transport.deadline import Deadline
from kubeauth._transport.redaction import iter_causes
from kubeauth._transport.tls import ssl_context
from kubeauth._transport.tls_errors import UNKNOWN_ISSUER, get_verify_code
from kubeauth.cli._ends import Failed, Status, no_answer
from kubeauth.cli._output import load_json
from kubeauth.cli._registry_flags import ProviderFlags
from kubeauth.errors import ChallengeError
from kubeauth.registry._auth import RegistryAuth
from kubeauth.registry._providers import CredentialProviders
from kubeauth.registry._reference import ImageReference
from kubeauth.registry._values import RegistryCredential

_ACCEPT = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
# Where the images of Docker Hub are (9.1).
_HOSTS = {"docker.io": "registry-1.docker.io"}
# As the distribution registry has it: no manifest is larger.
_MOST = 4 * 2**20
# Of a refusal, as much is read, and of its words as many are repeated.
_MOST_REFUSAL, _MOST_SAID = 65536, 600
_DIGEST = re.compile(r"(sha256|sha384|sha512):[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Manifest:
    body: bytes
    media_type: str
    digest: str
    """Of the body, computed here."""


def fetch(options: ProviderFlags, image: ImageReference, *, plain_http: bool) -> Manifest:
    """The manifest; Failed if the registry says no, or it is another than that which was asked for."""
    with ExitStack() as stack:
        providers = stack.enter_context(options.providers()) if options.has_providers else None
        source = _Source(providers, image.repository)
        scheme = "http" if plain_http else "https"
        origin = f"{scheme}://{_HOSTS.get(image.domain, image.domain)}"
        url = f"{origin}/v2/{image.path}/manifests/{image.digest or image.tag}"
        auth = RegistryAuth(source.credentials, registry=origin)
        if (httpx.URL(url).port or 0) > 65535:  # it would be asked at another, or not at all
            raise Failed(f"error: {origin} is no address: ports end at 65535", Status.UNREACHABLE)
        return _asked(options, url, auth, image, source)


class _Source:
    """The providers, asked about the image as it was given; remembers what came of it."""

    def __init__(self, providers: CredentialProviders | None, repository: str) -> None:
        self._providers = providers
        self._repository = repository
        self.given: int | None = None
        """How many; None if there are no providers, or the registry has let us in without."""

    def credentials(self, _image: str) -> list[RegistryCredential]:
        # Not by the address of the registry, which has another host for docker.io, and no upper case.
        found = self._providers.credentials(self._repository) if self._providers is not None else []
        self.given = len(found) if self._providers is not None else None
        return found


def _asked(
    options: ProviderFlags, url: str, auth: RegistryAuth, image: ImageReference, source: _Source
) -> Manifest:
    limit = options.request_timeout
    seconds = limit if limit is not None and limit > 0 else None
    deadline = Deadline(seconds)

    def watch(request: httpx.Request) -> None:
        # A hook, since it sees those to the token endpoint too.
        request.extensions["trace"] = deadline.on_trace

    config = ClientConfig(
        server=url,
        ca_file=os.path.abspath(ca) if (ca := options.certificate_authority) else None,
        insecure_skip_tls_verify=options.insecure_skip_tls_verify,
    )
    try:
        with (
            httpx.Client(
                auth=auth,
                verify=ssl_context(config),
                headers={"User-Agent": USER_AGENT},
                event_hooks={"request": [watch]},
                follow_redirects=True,
                timeout=TIMEOUT if seconds is None else seconds,
            ) as client,
            deadline,
            client.stream(
                "GET",
                url,
                headers={"Accept": ", ".join(_ACCEPT), "Accept-Encoding": "identity"},
            ) as response,
        ):
            # Nobody asked for that, and a few kilobytes may be gigabytes.
            is_compressed = response.headers.get("Content-Encoding", "identity").lower() != "identity"
            if not response.is_success:
                said = b"" if is_compressed else _start_of(response, _MOST_REFUSAL)
                raise _refusal(response.status_code, said, image, source)
            if is_compressed:
                raise Failed("error: the registry's answer is compressed, which it was asked not to do")
            body = _start_of(response, _MOST)
            headers = response.headers
    except (ValueError, OverflowError):
        # A name that httpx takes and the layers below it do not; each says so in words of its own.
        raise Failed(f"error: {url}, or where that sends to, is no address", Status.UNREACHABLE) from None
    except httpx.TooManyRedirects:  # those of no_answer are counted otherwise
        raise Failed("error: the registry redirects without end", Status.UNREACHABLE) from None
    except (httpx.RequestError, ChallengeError) as error:
        if deadline.has_expired:
            raise _late(seconds) from None
        if isinstance(error, ChallengeError):
            raise
        raise Failed(no_answer(error) + _about_tls(error), Status.UNREACHABLE) from None
    if deadline.has_expired:  # what was cut off may look whole
        raise _late(seconds)
    if len(body) > _MOST:
        raise Failed(f"error: the registry's answer is larger than {_MOST // 2**20} MiB: that is no manifest")
    media_type = headers.get("Content-Type", "").partition(";")[0].strip()
    return Manifest(body, media_type, _verified(body, image.digest, headers.get("Docker-Content-Digest", "")))


def _late(seconds: float | None) -> Failed:
    words = f"Unable to connect to the server: no answer within {seconds:g} s (--request-timeout)"
    return Failed(words, Status.UNREACHABLE)


def _about_tls(error: httpx.RequestError) -> str:
    """If that has failed: with whom, which may be the token endpoint, and what helps."""
    failure = next((each for each in iter_causes(error, None) if isinstance(each, ssl.SSLError)), None)
    if failure is None:
        return ""
    host = error.request.url.netloc.decode()
    if isinstance(failure, ssl.SSLCertVerificationError):
        has_no_ca = get_verify_code(failure) in UNKNOWN_ISSUER
        advice = ": name the CA that has signed it with --certificate-authority" if has_no_ca else ""
        return f"\nThat is the certificate of {host}{advice}."
    if failure.reason == "WRONG_VERSION_NUMBER":
        return f"\nDoes {host} speak TLS at all? If not, say --plain-http."
    return f"\nThat was {host}."


def _start_of(response: httpx.Response, most: int) -> bytes:
    body = b""
    for part in response.iter_bytes():
        body += part
        if len(body) > most:
            break
    return body


def _verified(body: bytes, wanted: str | None, named: str) -> str:
    """The digest of the body. Failed if it is another than that asked for, or than the registry says."""
    found = f"sha256:{hashlib.sha256(body).hexdigest()}"
    for whose, digest in (("was asked for by", wanted or ""), ("has, as the registry says,", named)):
        if _DIGEST.fullmatch(digest):
            kind = digest.partition(":")[0]
            found = f"{kind}:{hashlib.new(kind, body).hexdigest()}"
            if found != digest:
                raise Failed(
                    f"error: the manifest {whose} the digest {digest}, and what came has {found}. "
                    "Somebody on the way has changed it, or the registry is broken."
                )
    return found


def _refusal(code: int, body: bytes, image: ImageReference, source: _Source) -> Failed:
    said = "; ".join(_errors_in(body))[:_MOST_SAID] or f"it answers with the status {code}, and says no more"
    words = f"Error from registry {image.domain}: {said}"
    if code in (401, 403):
        return Failed(f"{words}\n{_advice(image, source)}")
    return Failed(words)


def _advice(image: ImageReference, source: _Source) -> str:
    if source.given is None:
        return "It was asked as nobody: with --config and --bin-dir it is asked as the kubelet would."
    if not source.given:
        return (
            "The providers gave no credentials, so it was asked as nobody. "
            f"`kubeauth registry credentials {image}` says what became of each."
        )
    return f"It does not take what the providers gave: see `kubeauth registry credentials {image}`."


def _errors_in(body: bytes) -> list[str]:
    """What a registry says when it says no: CODE and its words."""
    try:
        document: Any = load_json(body)
    except (ValueError, RecursionError):
        return []
    errors = document.get("errors") if isinstance(document, dict) else None
    found = []
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict):
            parts = [error.get("message"), error.get("code")]
            message, code = (each if isinstance(each, str) else "" for each in parts)
            found.append(f"{message or code.lower()} ({code})" if code else message)
    return [each for each in found if each]
