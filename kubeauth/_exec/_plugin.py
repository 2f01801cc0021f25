"""A plugin, asked for a credential: from its configuration to what it gave, or a typed error (X23-X28)."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from kubeauth._exec._allowed import Allowance
from kubeauth._exec._codec import BadOutput, PluginCredential, exec_info, read_output
from kubeauth._exec._command import NotFound, find_command, has_separator
from kubeauth._exec._hint import HintLimit, clean_hint
from kubeauth._exec._interactive import interactive
from kubeauth._exec._observer import Observer
from kubeauth._exec._policy import clean_path
from kubeauth._exec._process import MAX_OUTPUT, Child, Ended, Program, program_of, run
from kubeauth._exec._values import ASKED, ExecCluster, ExecConfig
from kubeauth._exec._words import said_in, start_advice, tail_text
from kubeauth.errors import (
    KubeAuthError,
    PluginError,
    PluginFailed,
    PluginNeedsTerminal,
    PluginNotAllowed,
    PluginNotFound,
    PluginNotStarted,
    PluginOutputError,
    PluginTimeout,
)

INFO = "KUBERNETES_EXEC_INFO"

_NOT_INSTALLED = (
    "\n\nThe kubeconfig names a credential plugin that is not installed here. Install it, or see\n"
    "https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"
)

# M1: what a run is counted as.
NO_ERROR, EXECUTION_ERROR = "no_error", "plugin_execution_error"
NOT_FOUND_ERROR, INTERNAL_ERROR = "plugin_not_found_error", "client_internal_error"


class Plugin:
    """One configured plugin. Knows how it may be run; does not remember what it said."""

    kind = "exec plugin"
    is_only_copy = False

    def __init__(
        self,
        config: ExecConfig,
        cluster: ExecCluster | None,
        observer: Observer,
        *,
        now: Callable[[], float] = time.monotonic,
        is_terminal: Callable[[], bool] | None = None,
    ) -> None:
        """`cluster` is told to the plugin if it asks for it; `now` is for the install hint's rate limit."""
        self.command = clean_path(config.command)
        self._config = config
        self._cluster = cluster if config.provide_cluster_info else None
        self._observer = observer
        self._allowance = Allowance(config.policy)
        self._hints = HintLimit(now)
        self._is_terminal = is_terminal or _stdin_is_terminal
        self._children: set[Child] = set()

    @property
    def name(self) -> str:
        return self.command

    @property
    def place(self) -> str:
        return f"plugin {self.command}"

    @property
    def would_interact(self) -> bool:
        """Whether a run now would ask a person."""
        return interactive(
            self._config.interactive_mode, self._config.options, is_terminal=self._is_terminal()
        ) is True  # fmt: skip

    def ask(self, is_wanted: Callable[[], bool] = lambda: True) -> PluginCredential:
        """Runs it. Blocks, for as long as it takes or its time limit. KubeAuthError if it gives nothing.

        A credential that is over already is returned like any other. Ends, and with an error, if at any
        time it is not wanted any more.
        """
        answer = self._answer(is_wanted)
        if isinstance(answer, PluginCredential):
            return answer
        # Raised here, where nothing of the output was ever held.
        raise answer.error from answer.cause

    def error(self, message: str) -> PluginError:
        """For what went wrong around it."""
        return PluginError(message, command=self.command)

    def unusable(self, reason: str, advice: str) -> PluginOutputError:
        """For a plugin that ran, and said something that is no use."""
        return output_error(self.command, reason, advice)

    def stop(self) -> None:
        """Ends the run that is not wanted any more, if there is one; not the next, which may have begun."""
        for child in list(self._children):
            if child.is_stopped:
                child.stop()

    def after_fork(self) -> None:
        """In a child: what runs is the parent's."""
        self._children = set()

    def _answer(self, is_wanted: Callable[[], bool]) -> PluginCredential | _Failure:
        config = self._config
        interacts = interactive(config.interactive_mode, config.options, is_terminal=self._is_terminal())
        if isinstance(interacts, str):
            return self._needs_terminal(interacts)
        path = os.environ.get("PATH", "")
        found = find_command(self.command, path)
        refusal = self._allowance.refusal(self.command, found, path)
        self._observer.policy_checked(allowed=refusal is None)
        if refusal is not None:
            return self._not_allowed(refusal)
        started = time.monotonic()
        ended = self._run(found, interacts, is_wanted)
        status, code = (ended.status, 1) if isinstance(ended, _Failure) else _counted(ended)
        self._observer.plugin_ran(status=status, code=code, seconds=time.monotonic() - started)
        if isinstance(ended, _Failure):
            return ended
        if ended.killed or ended.exit_code:
            return _Failure(self._failed(ended, interacts))
        credential = read_output(ended.stdout, config.api_version)
        if isinstance(credential, BadOutput):
            return _Failure(self.unusable(credential.reason, credential.advice))
        return credential

    def _run(self, found: str | NotFound, interacts: bool, is_wanted: Callable[[], bool]) -> Ended | _Failure:
        if isinstance(found, NotFound) and not has_separator(self.command):
            return self._not_found(found.reason)
        # What the policy was asked about is what is run, whatever PATH says by now.
        path = self.command if isinstance(found, NotFound) else found
        info_size = 0
        try:
            program, info_size = self._program(path, interacts)
            return run(
                program,
                interactive=interacts,
                timeout=self._config.options.timeout,
                children=self._children,
                is_wanted=is_wanted,
            )
        except OSError as error:
            return self._not_started(error, path, info_size)
        except ValueError:
            # Not in its own words, and not as the cause: it may quote what cannot be passed on.
            return _Failure(
                PluginNotStarted(
                    f"{ASKED}exec: an argument or variable for {self.command} cannot be passed on: it has a "
                    "NUL byte or half a character in it, or a variable's name an equals sign. Check args and "
                    "env in users[].user.exec.",
                    command=self.command,
                ),
                status=INTERNAL_ERROR,
            )

    def _program(self, path: str, interacts: bool) -> tuple[Program[str] | Program[bytes], int]:
        """What to start, and how long what it is told about the cluster is.

        Apart from `_run`, whose variables are part of the traceback when somebody presses Ctrl-C.
        """
        info = exec_info(self._config.api_version, self._cluster, interactive=interacts)
        added = {**self._config.env, INFO: info}
        return program_of(path, [self.command, *self._config.args], None, added), len(info)

    def _needs_terminal(self, why: str) -> _Failure:
        advice = (
            "Set interactiveMode to Never, IfAvailable or Always."
            if why.startswith("unknown")
            else "Run this on a terminal, or log in first and set interactiveMode to IfAvailable."
        )
        message = f"{ASKED}exec plugin cannot support interactive mode: {why}. {advice}"
        return _Failure(PluginNeedsTerminal(message, command=self.command))

    def _not_allowed(self, refusal: str) -> _Failure:
        return _Failure(
            PluginNotAllowed(
                f"{ASKED}{refusal}. If it should run, change credentialPluginPolicy in your kuberc, or give "
                "plugin_policy= to load_config.",
                command=self.command,
                policy=self._config.policy.kind,
            )
        )

    def _not_found(self, why: str) -> _Failure:
        message = f"{ASKED}exec: executable {self.command} not found"
        hint = clean_hint(self._config.install_hint)
        if not why.startswith("executable file not found"):
            message += f": {why}"
        if self._hints.allows():
            message += _NOT_INSTALLED + (hint and f"\n\n{hint}")
        return _Failure(
            PluginNotFound(message, command=self.command, install_hint=hint), status=NOT_FOUND_ERROR
        )

    def _not_started(self, error: OSError, path: str, info_size: int) -> _Failure:
        why = f"{ASKED}exec: {self.command}: {(error.strerror or 'cannot be started').lower()}"
        missing = error.errno == errno.ENOENT and not os.path.exists(path)
        failure: PluginError
        if missing:
            advice = "Check command in users[].user.exec: there is no such file."
            failure = PluginNotFound(f"{why}. {advice}", command=self.command)
        else:
            advice = start_advice(error)
            if os.path.isdir(path):
                advice = "Check command in users[].user.exec: it is a directory."
            if error.errno == errno.E2BIG and self._cluster is not None:
                advice = (
                    f"What it is told about the cluster takes {info_size:,} bytes, most of it the CA. Cut "
                    "certificate-authority down to what the server needs, or set provideClusterInfo to false."
                )
            failure = PluginNotStarted(
                f"{why}. {advice}".rstrip(), command=self.command, errno=error.errno
            )  # fmt: skip
        return _Failure(failure, error.with_traceback(None), status=NOT_FOUND_ERROR)

    def _failed(self, ended: Ended, interacted: bool) -> PluginError:
        said = said_in(ended.stderr_tail)
        # On a terminal nobody listens in.
        silent = "What it said, if anything, stands above" if interacted else "It said nothing"
        if ended.killed == "timeout":
            seconds = self._config.options.timeout or 0.0
            return PluginTimeout(
                f"{ASKED}exec: executable {self.command} took more than {seconds:g} seconds and was ended. "
                f"Give it more with ExecOptions(timeout=...), or find out what it waits for.{said}",
                command=self.command,
                seconds=seconds,
            )
        if ended.killed == "output":
            return self.unusable(
                f"it printed more than {MAX_OUTPUT // 2**20} MiB", "Is this command a credential plugin?"
            )
        if ended.killed:
            return PluginFailed(
                f"{ASKED}exec: executable {self.command} was ended, because the last client that needed it "
                "was closed",
                command=self.command,
                exit_code=-1,
            )
        return PluginFailed(
            f"{ASKED}exec: executable {self.command} failed with exit code {ended.exit_code}"
            f"{' (ended by a signal)' if ended.exit_code < 0 else ''}"
            f"{said or f'. {silent}; run the command of users[].user.exec by hand to see why.'}",
            command=self.command,
            exit_code=ended.exit_code,
            stderr_tail=tail_text(ended.stderr_tail),
        )


def output_error(command: str, reason: str, advice: str) -> PluginOutputError:
    """A plugin that ran, and said something that is no use."""
    end = "" if reason.endswith("?") else "."
    message = f"{ASKED}{reason}{end} {advice} The plugin is {command}."
    return PluginOutputError(message, command=command, reason=reason)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error on its way to a frame that may raise it."""

    error: KubeAuthError
    cause: OSError | None = None
    status: str = INTERNAL_ERROR
    """What the attempt to start it is counted as."""


def _counted(ended: Ended) -> tuple[str, int]:
    # Undecodable output is no error here (M2): it is counted before it is read.
    return (EXECUTION_ERROR if ended.exit_code else NO_ERROR), ended.exit_code


def _stdin_is_terminal() -> bool:
    return os.isatty(0)
