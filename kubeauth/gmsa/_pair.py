"""The certificate of a server, followed as its files change (B78, B79)."""

from __future__ import annotations

import logging
import os
import ssl
from hashlib import sha256
from pathlib import Path

from anyio import sleep, to_thread

from kubeauth._config.files import describe_os_error, read_file
from kubeauth._credentials.client_cert import try_load
from kubeauth._credentials.credential import ClientCertificate
from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

logger = logging.getLogger("kubeauth.gmsa")

POLL = 5.0
"""Seconds. Kubernetes itself takes up to a minute to bring a Secret to a pod."""


class ServedPair:
    """A TLS context that shows what the two files have in them now.

    They are read anew every few seconds, both, by their paths: Kubernetes puts other files in their place by
    a symbolic link, and who watches a file for changes loses sight of it then. What cannot be used is not
    shown: the pair before stays. So does half of a new one.

    ConfigError if there is none to begin with.
    """

    def __init__(self, certificate_file: str | os.PathLike[str], key_file: str | os.PathLike[str]) -> None:
        self._files = Path(certificate_file), Path(key_file)
        found = self._read()
        if isinstance(found, str):
            raise ConfigError(f"the certificate of the webhook cannot be used: {found}")
        self._seen, identity = found
        shown = _context_with(identity)
        if isinstance(shown, str):
            raise ConfigError(f"the certificate of the webhook cannot be used: {self._place}: {shown}")
        self._shown = shown
        self._complaint = ""
        # It has no certificate itself: each handshake is given the context of that moment. To load another
        # pair into one context would leave the old one in it, if its key is of another kind.
        self.context = _server_context()
        self.context.sni_callback = self._choose

    def reload(self) -> bool:
        """Looks at the files. Whether there is another pair in them, which is shown from now on."""
        found = self._read()
        if isinstance(found, str):
            self._complain(found)
            return False
        seen, identity = found
        if seen == self._seen:
            self._complaint = ""
            return False
        shown = _context_with(identity)
        if isinstance(shown, str):
            self._complain(f"{self._place}: {shown}")
            return False
        self._seen, self._shown, self._complaint = seen, shown, ""
        logger.info("%s: the new certificate is shown from now on", self._place)
        return True

    async def follow(self, interval: float = POLL) -> None:
        """For ever."""
        while True:
            await sleep(interval)
            try:
                # A file may be on something that does not answer: who wants to end does not wait for it.
                await to_thread.run_sync(self.reload, abandon_on_cancel=True)
            except Exception as error:
                # Whatever it is, reviews are answered with the pair that is shown.
                self._complain(f"{self._place}: {type(error).__name__}")

    @property
    def _place(self) -> str:
        return " and ".join(map(str, self._files))

    def _choose(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        # Called for every handshake, whether the client names a server or not.
        handshake.context = self._shown

    def _read(self) -> tuple[bytes, ClientCertificate] | str:
        """What is in the files, and by what it can be told from others."""
        try:
            certificate, key = (read_file(str(file), can_block=False) for file in self._files)
        except OSError as error:
            return f"{error.filename or self._place}: {describe_os_error(error)}"
        seen = sha256(certificate).digest() + sha256(key).digest()
        return seen, ClientCertificate(certificate, Secret(key))

    def _complain(self, problem: str) -> None:
        """Once for each thing that is wrong, not every few seconds."""
        if problem != self._complaint:
            self._complaint = problem
            logger.warning("the new certificate cannot be used, and the one before stays: %s", problem)


def _context_with(identity: ClientCertificate) -> ssl.SSLContext | str:
    """Or why not."""
    context = _server_context()
    problem = try_load(context, identity)
    return context if problem is None else problem


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
