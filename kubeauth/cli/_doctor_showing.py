"""What the user has to show to the server, got as a client would get it, once."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from kubeauth._config.auth_provider import OidcConfig
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.exec_cluster import build_exec_cluster
from kubeauth._config.urls import uses_tls
from kubeauth._credentials.cache import select_provider
from kubeauth._credentials.provider import CredentialProvider
from kubeauth._exec.config import ExecConfig
from kubeauth._exec.plugin import Plugin
from kubeauth._oidc.provider import OidcProvider
from kubeauth._transport.oidc_http import HttpxFactory
from kubeauth.cli._doctor_findings import Finding, skipped
from kubeauth.cli._doctor_given import Life, ask, given_finding, lives_of
from kubeauth.cli._doctor_issuer import issuer_finding, look_at_issuer
from kubeauth.cli._doctor_plugin import Kuberc, look_at_plugin, plugin_finding, policy_finding
from kubeauth.cli._doctor_static import (
    client_cert_finding,
    identity_lives,
    read_identity,
    read_static,
    static_finding,
    static_lives,
)
from kubeauth.errors import KubeAuthError
from kubeauth.metrics._recorder import RECORDER


class Showing:
    """The credential of `config`. What came of it is there for who comes after."""

    def __init__(
        self,
        config: ClientConfig,
        kuberc: Kuberc,
        *,
        in_pod: bool,
        timeout: float,
        tell: Callable[[str], None],
        may_not_ask: str = "",
    ) -> None:
        """`may_not_ask` is why no plugin is run and no issuer asked, if so."""
        self.config = config
        self._kuberc = kuberc
        self._in_pod = in_pod
        self._timeout = timeout
        self._tell = tell
        self._may_not_ask = may_not_ask
        self.signed: ClientConfig | None = None
        """The config with what was got in the place of who gave it; None if there is nothing to show."""
        self.lives: list[Life] = []
        self.secrets = secrets_of(config)

    def look(self, skew: float) -> Iterator[Finding]:
        """A line for each part of it. `skew` is how far the server's clock is ahead."""
        config = self.config
        if not uses_tls(config.server):
            yield policy_finding(self._kuberc, None)
            yield skipped("credential", "plain http: none is read, or sent")
            self.signed = config
            return
        asked = select_provider(config)
        if not isinstance(asked, ExecConfig):
            yield policy_finding(self._kuberc, None)
        if config.exec is not None and asked is not config.exec:
            command = config.exec.command
            yield skipped(
                "plugin", f"{command} is never run: the user's own credential wins", command=command
            )
        self.signed = replace(config, exec=None, oidc=None)
        identity = read_identity(config)
        if identity is not None:
            yield client_cert_finding(config, identity, time.time())
            self.lives += identity_lives(identity)
        if isinstance(identity, KubeAuthError):
            self.signed = None
        elif isinstance(asked, ExecConfig):
            yield from self._from_plugin(asked)
        elif asked is not None:
            yield from self._from_issuer(asked)
        else:
            yield from self._from_config(skew, has_identity=identity is not None)

    def _from_plugin(self, plugin: ExecConfig) -> Iterator[Finding]:
        is_terminal = os.isatty(0)
        seen = look_at_plugin(plugin, path=os.environ.get("PATH", ""), is_terminal=is_terminal)
        self.secrets += seen.arguments
        yield policy_finding(self._kuberc, seen)
        yield plugin_finding(plugin, seen, is_terminal=is_terminal)
        if why_not := seen.obstacle or self._may_not_ask:
            self.signed = None
            yield skipped("credential", why_not)
            return
        # Whatever it has to say comes below.
        self._tell(f"what {os.path.basename(seen.command)} gives\n")
        cluster = build_exec_cluster(self.config) if plugin.provide_cluster_info else None
        yield self._given_by(Plugin(plugin, cluster, RECORDER))

    def _from_issuer(self, oidc: OidcConfig) -> Iterator[Finding]:
        if self._may_not_ask:
            self.signed = None
            yield skipped("issuer", self._may_not_ask)
            yield skipped("credential", self._may_not_ask)
            return
        self._tell("the OIDC issuer")
        oidc = replace(oidc, options=replace(oidc.options, timeout=self._timeout))
        wrong = look_at_issuer(oidc)
        yield issuer_finding(oidc, wrong, time.time())
        try:
            fetch = HttpxFactory().build_fetch(oidc)
        except KubeAuthError:
            self.signed = None
            yield skipped("credential", "the issuer cannot be reached")
            return
        yield self._given_by(OidcProvider(oidc, fetch, now=time.time))

    def _given_by(self, asker: CredentialProvider) -> Finding:
        given = ask(asker)
        answer, self.signed = given.answer, None
        if answer is not None:
            self.signed = replace(self.config, exec=None, oidc=None, token=answer.token)
            if answer.certificate is not None:
                self.signed = replace(
                    self.signed, client_cert_data=answer.certificate, client_key_data=answer.key
                )
            self.secrets += secrets_of(self.signed)
            self.lives += lives_of(given)
        return given_finding(given, time.time(), told_to(self.config.exec) if self.config.exec else [])

    def _from_config(self, skew: float, *, has_identity: bool) -> Iterator[Finding]:
        static = read_static(self.config, in_pod=self._in_pod)
        if has_identity and not static.source:
            return
        self.secrets += [static.token.reveal()] if static.token else []
        self.lives += static_lives(static)
        # Only the server looks at its end, by its own clock.
        yield static_finding(static, time.time() + skew)
        if static.problem:
            self.signed = None


def secrets_of(config: ClientConfig) -> list[str]:
    """Everything in it that must not be shown, whoever repeats it."""
    oidc = config.oidc
    held = [config.token, config.password]
    held += [oidc.client_secret, oidc.id_token, oidc.refresh_token] if oidc else []
    found = [secret.reveal().strip() for secret in held if secret]
    if config.client_key_data:
        lines = config.client_key_data.reveal().decode("utf-8", "replace").splitlines()
        found += [line for line in lines if not line.startswith("-----")]
    found += _basic(config.username or "", config.password.reveal()) if config.password else []
    for url in map(urlsplit, (config.server, config.proxy_url or "")):
        if url.password:
            found += [url.password, unquote(url.password)]
            found += _basic(unquote(url.username or ""), unquote(url.password))
    return found


def _basic(name: str, password: str) -> list[str]:
    """As it is in a header."""
    return [base64.b64encode(f"{name}:{password}".encode("utf-8", "surrogateescape")).decode()]


def told_to(plugin: ExecConfig) -> list[str]:
    """What the kubeconfig tells it: its environment and arguments, of a flag `--password=...` the value."""
    values = [arg.partition("=")[2] if arg.startswith("-") else arg for arg in plugin.args]
    return [line for value in (*values, *plugin.env.values()) for line in (value, *value.splitlines())]
