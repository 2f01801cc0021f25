"""One examination: what a later step needs an earlier one has found, or else it is skipped and says why."""

from __future__ import annotations

import logging
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kubeauth._client import Client
from kubeauth._config.files import find_kubeconfig_paths
from kubeauth._config.in_cluster import is_in_cluster
from kubeauth._config.loader import Loader
from kubeauth._config.resolve import Selection
from kubeauth.cli._doctor_entries import (
    Resolved,
    context_finding,
    entries_findings,
    methods_of,
    others_finding,
    resolve,
)
from kubeauth.cli._doctor_files import File, file_findings, look_at_files, together
from kubeauth.cli._doctor_findings import SECTIONS, Finding, Level, error, skipped
from kubeauth.cli._doctor_given import Life
from kubeauth.cli._doctor_machine import find_leftovers, leftovers_finding, versions_finding
from kubeauth.cli._doctor_plugin import policy_finding, read_kuberc
from kubeauth.cli._doctor_probe import Heard, hear
from kubeauth.cli._doctor_server import ask_who, clock_finding, ready_finding, version_finding, whoami_finding
from kubeauth.cli._doctor_showing import Showing, secrets_of
from kubeauth.cli._doctor_way import IDS, Way
from kubeauth.cli._doctor_words import parted
from kubeauth.errors import KubeAuthError

logger = logging.getLogger("kubeauth.doctor")

_ORDER = [id for ids in SECTIONS.values() for id in ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to look at, and how far to go."""

    loader: Loader
    kubeconfig: str | None = None
    """The one file, if one was named."""
    timeout: float = 10.0
    """Of each step on the network, in seconds."""
    offline: bool = False
    run_plugin: bool = True

    @property
    def may_not_ask(self) -> str:
        """Why no plugin is run and no issuer asked, if so."""
        return "--offline" if self.offline else "" if self.run_plugin else "--no-exec"


class Examination:
    """Goes through it all once. `tell` is told what is looked at, for whoever waits."""

    def __init__(self, wanted: Wanted, tell: Callable[[str], None] = lambda _: None) -> None:
        self._wanted = wanted
        self._tell = tell
        self._environment = wanted.loader.environment
        self._paths: Sequence[str] = ()
        self._files: list[File] = []
        self._why_not = "there is no configuration"
        self._kuberc = read_kuberc(self._environment)
        self._resolved: Resolved | None = None
        self._way: Way | None = None
        self._showing: Showing | None = None
        self._secrets: list[str] = []
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        """All of them, in the order of the table."""
        found = self._found
        steps: dict[str, Callable[[], Iterator[Finding]]] = {
            "file": self._look_at_files,
            "context": self._look_at_entries,
            "connect": self._look_at_the_way,
            "credential": self._look_at_the_credential,
            "whoami": self._look_at_the_answer,
            "leftovers": self._look_at_the_machine,
        }
        for id, step in steps.items():
            try:
                found += step()
            except KubeAuthError as wrong:
                found.append(error(id, *parted(str(wrong))))
            except Exception as fault:
                # Where it happened may be told, but not its words: they may quote a secret.
                kind, places = type(fault).__name__, "".join(traceback.format_tb(fault.__traceback__))
                logger.info("unexpected %s in:\n%s", kind, places)
                advice = "This is a fault of kubeauth: please report it, with what -v 4 logs."
                found.append(error(id, f"the check itself failed ({kind})", advice))
        found.sort(key=lambda finding: _ORDER.index(finding.id))
        secrets = self._secrets + (self._showing.secrets if self._showing else [])
        return [finding.without(secrets) for finding in found]

    def _look_at_files(self) -> Iterator[Finding]:
        self._tell("the kubeconfig")
        if self._wanted.kubeconfig is not None:
            self._paths, named_by = (self._wanted.kubeconfig,), "--kubeconfig"
        else:
            found = find_kubeconfig_paths(self._environment)
            self._paths, named_by = found.paths, "KUBECONFIG" if found.from_environment else ""
        self._files = look_at_files(self._paths)
        yield from file_findings(self._files, named_by, in_pod=is_in_cluster(self._environment))

    def _look_at_entries(self) -> Iterator[Finding]:
        found = together(self._files)
        if found.problems or (self._wanted.kubeconfig is not None and not found.configs):
            self._why_not = "the kubeconfig cannot be loaded"
            yield from (skipped(id, self._why_not) for id in ("context", "entries", "others"))
            return
        loader = replace(self._wanted.loader, plugin_policy=self._kuberc.policy)
        resolved = self._resolved = resolve(loader, found, self._paths)
        for config in (resolved.config, resolved.cluster_only):
            self._secrets += secrets_of(config) if config else []
        if resolved.way is None:
            has_chosen = isinstance(resolved.selection, Selection) and not resolved.has_no_cluster
            self._why_not = "the cluster's entry is broken" if has_chosen else "no cluster is chosen"
        yield context_finding(resolved, loader.overrides, self._missing())
        yield from entries_findings(resolved)
        yield others_finding(resolved)

    def _missing(self) -> str:
        """What to do if there are no entries, where something better can be said than elsewhere."""
        if self._wanted.kubeconfig is not None:
            return "Name a kubeconfig with a cluster in it, and a current-context; or leave out --kubeconfig."
        if self._environment.environ.get("KUBERNETES_SERVICE_HOST") and not is_in_cluster(self._environment):
            return (
                "This looks like a pod, but its token is not mounted: is automountServiceAccountToken false, "
                "of the pod or of its service account? Elsewhere, set KUBECONFIG."
            )
        return ""

    def _look_at_the_way(self) -> Iterator[Finding]:
        config = self._resolved.way if self._resolved else None
        if config is None:
            yield from (skipped(id, self._why_not) for id in IDS)
            return
        self._way = Way(config, timeout=self._wanted.timeout, tell=self._tell)
        yield from self._way.look(offline=self._wanted.offline)

    def _look_at_the_credential(self) -> Iterator[Finding]:
        config = self._resolved.config if self._resolved else None
        if self._resolved is None or config is None:
            yield policy_finding(self._kuberc, None)
            yield skipped("credential", "the user's entry is broken" if self._way else self._why_not)
            return
        self._showing = Showing(
            config,
            self._kuberc,
            in_pod=self._resolved.in_pod,
            timeout=self._wanted.timeout,
            tell=self._tell,
            may_not_ask=self._wanted.may_not_ask,
        )
        yield from self._showing.look((self._way.skew if self._way else None) or 0.0)

    def _look_at_the_answer(self) -> Iterator[Finding]:
        way = self._way
        if way is None or way.obstacle:
            why = way.obstacle if way and way.obstacle else self._why_not
            yield from (skipped(id, why) for id in ("whoami", "version", "ready"))
            has_said = way is not None and way.skew is not None
            yield self._clock(way.skew) if way and has_said else skipped("clock", why)
            return
        skew, version = way.skew, way.heard
        ready: Heard | str = "there is no credential to ask with"
        client = self._client()
        if isinstance(client, Finding):
            yield client
        else:
            self._tell("who you are to the server")
            with client:
                heard, is_review = ask_who(client, self._wanted.timeout)
                methods = methods_of(self._showing.config) if self._showing else []
                yield whoami_finding(heard, is_review=is_review, methods=methods)
                skew = heard.skew if skew is None else skew
                ready = "the server gave no answer to who you are"
                if heard.failure is None:
                    said = hear(client, "GET", "/version", timeout=self._wanted.timeout)
                    # Some tell nobody but those they know, and some the other way round.
                    version = version if version.status == 200 != said.status else said
                    ready = hear(client, "GET", "/readyz", timeout=self._wanted.timeout)
        yield self._clock(skew)
        yield version_finding(version)
        yield skipped("ready", ready) if isinstance(ready, str) else ready_finding(ready)

    def _clock(self, skew: float | None) -> Finding:
        lives = list(self._showing.lives) if self._showing else []
        shown = self._way.shown if self._way else None
        if shown is not None:
            lives.append(Life("the server's certificate", shown.not_before, shown.not_after))
        return clock_finding(skew, lives, time.time())

    def _client(self) -> Client | Finding:
        """What asks in the user's name; or why there is none."""
        if self._showing is None or self._showing.signed is None:
            return skipped("whoami", "there is no credential to show")
        try:
            return Client(self._showing.signed, timeout=self._wanted.timeout)
        except KubeAuthError as wrong:
            if any(each.id == "credential" and each.level is Level.ERROR for each in self._found):
                return skipped("whoami", "the credential cannot be used")
            return error("whoami", *parted(str(wrong)))

    def _look_at_the_machine(self) -> Iterator[Finding]:
        self._tell("this machine")
        yield versions_finding()
        try:
            directory = tempfile.gettempdir()
        except FileNotFoundError:
            yield skipped("leftovers", "there is no temporary directory that can be written to")
            return
        yield leftovers_finding(find_leftovers(directory))
