"""A CredentialProvider without a process, for tests of the cache."""

from __future__ import annotations

import itertools
import threading

from kubeauth import errors
from kubeauth._exec.codec import ProviderCredential
from kubeauth._exec.plugin import output_error
from kubeauth._secret import Secret
from kubeauth.testing import FakeClock


class ScriptedPlugin:
    """Returns a credential that expires in `next` seconds, or never for None; raises if `next` is a message."""

    command = name = "scripted"
    source, description = "plugin scripted", "exec plugin"
    is_interactive = holds_unsaved_token = False

    def __init__(self, clock: FakeClock) -> None:
        self.next: float | str | None = None
        self.runs = 0
        self._clock = clock
        self._numbers = itertools.count(1)
        self.entered = threading.Event()
        self.may_go = threading.Event()
        self.may_go.set()

    def fetch(self, _is_cancelled: object) -> ProviderCredential:
        self.runs += 1
        self.entered.set()
        self.may_go.wait()
        if isinstance(self.next, str):
            raise errors.PluginFailed(self.next, command="scripted", exit_code=1)
        expires = None if self.next is None else self._clock.time() + self.next
        return ProviderCredential(Secret(f"t{next(self._numbers)}"), None, None, expires)

    def error(self, message: str) -> errors.PluginError:
        return errors.PluginError(message, command=self.command)

    def invalid_output_error(self, reason: str, advice: str) -> errors.PluginError:
        return output_error(self.command, reason, advice)

    def stop(self) -> None: ...
    def after_fork(self) -> None: ...
