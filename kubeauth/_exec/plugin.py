"""Run an exec plugin: from its configuration to a credential or a typed error (X19, X20, X23-X28)."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from kubeauth._exec.codec import (
    InvalidOutput,
    ProviderCredential,
    decode_output,
    encode_exec_info,
    load_models,
)
from kubeauth._exec.config import ERROR_PREFIX, ExecCluster, ExecConfig, ExecOptions, clean_path
from kubeauth._exec.lookup import (
    HintLimit,
    NotFound,
    PolicyCheck,
    escape_terminal,
    find_command,
    has_separator,
)
from kubeauth._exec.process import (
    MAX_OUTPUT,
    PluginProcess,
    ProcessResult,
    Program,
    build_program,
    run,
    start_advice,
    stderr_suffix,
    stderr_text,
)
from kubeauth._observer import Observer
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

EXEC_INFO_VARIABLE = "KUBERNETES_EXEC_INFO"

_INSTALL_ADVICE = (
    "\n\nThe kubeconfig names a credential plugin that is not installed here. Install it, or see\n"
    "https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"
)

# The label of a run in metrics (M1).
NO_ERROR, EXECUTION_ERROR = "no_error", "plugin_execution_error"
NOT_FOUND_ERROR, INTERNAL_ERROR = "plugin_not_found_error", "client_internal_error"


class Plugin:
    """Runs a configured exec plugin. Caches nothing."""

    description = "exec plugin"
    holds_unsaved_token = False

    def __init__(
        self,
        config: ExecConfig,
        cluster: ExecCluster | None,
        observer: Observer,
        *,
        now: Callable[[], float] = time.monotonic,
        is_terminal: Callable[[], bool] | None = None,
    ) -> None:
        """`cluster` is passed to a plugin with provideClusterInfo. `now` is the clock of the install hint."""
        self.command = clean_path(config.command)
        self._config = config
        self._cluster = cluster if config.provide_cluster_info else None
        self._observer = observer
        self._policy_check = PolicyCheck(config.policy)
        self._hints = HintLimit(now)
        self._is_terminal = is_terminal or _stdin_is_terminal
        self._children: set[PluginProcess] = set()

    @property
    def name(self) -> str:
        return self.command

    @property
    def source(self) -> str:
        return f"plugin {self.command}"

    @property
    def is_interactive(self) -> bool:
        """Whether a run now would be interactive."""
        return decide_interactive(
            self._config.interactive_mode, self._config.options, is_terminal=self._is_terminal()
        ) is True  # fmt: skip

    def fetch(self, is_cancelled: Callable[[], bool] = lambda: False) -> ProviderCredential:
        """Run the plugin; block until it exits or times out. KubeAuthError if it returns no credential.

        An expired credential is returned like any other. When `is_cancelled` becomes true, the plugin is
        killed and an error raised.
        """
        outcome = self._run_and_decode(is_cancelled)
        if isinstance(outcome, ProviderCredential):
            return outcome
        # Raised here, because this frame never held any of the output.
        raise outcome.error from outcome.cause

    def error(self, message: str) -> PluginError:
        """Return an error about running the plugin."""
        return PluginError(message, command=self.command)

    def invalid_output_error(self, reason: str, advice: str) -> PluginOutputError:
        """Return an error for a plugin that ran and returned invalid output."""
        return output_error(self.command, reason, advice)

    def stop(self) -> None:
        """Kill a cancelled run, if there is one; not the next run, which may have started."""
        for child in list(self._children):
            if child.is_stopped:
                child.stop()

    def after_fork(self) -> None:
        """In a forked child: running plugins belong to the parent."""
        self._children = set()

    def _run_and_decode(self, is_cancelled: Callable[[], bool]) -> ProviderCredential | _Failure:
        config = self._config
        interactive = decide_interactive(
            config.interactive_mode, config.options, is_terminal=self._is_terminal()
        )
        if isinstance(interactive, str):
            return self._needs_terminal(interactive)
        path = os.environ.get("PATH", "")
        found = find_command(self.command, path)
        denial_reason = self._policy_check.denial_reason(self.command, found, path)
        self._observer.on_policy_check(allowed=denial_reason is None)
        if denial_reason is not None:
            return self._not_allowed_error(denial_reason)
        started = time.monotonic()
        result = self._run(found, interactive, is_cancelled)
        status, code = (result.status, 1) if isinstance(result, _Failure) else _metric_status(result)
        self._observer.on_plugin_run(status=status, code=code, seconds=time.monotonic() - started)
        if isinstance(result, _Failure):
            return result
        if result.killed or result.exit_code:
            return _Failure(self._failed_error(result, interactive))
        credential = decode_output(result.stdout, config.api_version)
        if isinstance(credential, InvalidOutput):
            return _Failure(self.invalid_output_error(credential.reason, credential.advice))
        return credential

    def _run(
        self, found: str | NotFound, interactive: bool, is_cancelled: Callable[[], bool]
    ) -> ProcessResult | _Failure:
        if isinstance(found, NotFound) and not has_separator(self.command):
            return self._not_found(found.reason)
        # Run what the policy was checked for, even if PATH has changed since.
        path = self.command if isinstance(found, NotFound) else found
        info_size = 0
        try:
            program, info_size = self._build_program(path, interactive)
            return run(
                program,
                interactive=interactive,
                timeout=self._config.options.timeout,
                children=self._children,
                is_cancelled=is_cancelled,
                on_started=load_models,
            )
        except OSError as error:
            return self._not_started_error(error, path, info_size)
        except ValueError:
            # Neither its message nor as the cause: it may quote an argument.
            return _Failure(
                PluginNotStarted(
                    f"{ERROR_PREFIX}exec: an argument or environment variable for {self.command} is invalid: "
                    "it contains a NUL byte or a lone surrogate, or the variable's name an equals sign. "
                    "Check args and env in users[].user.exec.",
                    command=self.command,
                ),
                status=INTERNAL_ERROR,
            )

    def _build_program(self, path: str, interactive: bool) -> tuple[Program[str] | Program[bytes], int]:
        """Return the program to start, and the size of KUBERNETES_EXEC_INFO.

        A separate method, so that its variables are not in `_run`, whose frame is in the traceback of Ctrl-C.
        """
        info = encode_exec_info(self._config.api_version, self._cluster, interactive=interactive)
        added = {**self._config.env, EXEC_INFO_VARIABLE: info}
        return build_program(path, [self.command, *self._config.args], None, added), len(info)

    def _needs_terminal(self, reason: str) -> _Failure:
        advice = (
            "Set interactiveMode to Never, IfAvailable or Always."
            if reason.startswith("unknown")
            else "Run this on a terminal, or log in first and set interactiveMode to IfAvailable."
        )
        message = f"{ERROR_PREFIX}exec plugin cannot support interactive mode: {reason}. {advice}"
        return _Failure(PluginNeedsTerminal(message, command=self.command))

    def _not_allowed_error(self, denial_reason: str) -> _Failure:
        return _Failure(
            PluginNotAllowed(
                f"{ERROR_PREFIX}{denial_reason}. To allow it, change credentialPluginPolicy in your kuberc, "
                "or pass plugin_policy= to load_config.",
                command=self.command,
                policy=self._config.policy.kind,
            )
        )

    def _not_found(self, reason: str) -> _Failure:
        message = f"{ERROR_PREFIX}exec: executable {self.command} not found"
        hint = escape_terminal(self._config.install_hint)
        if not reason.startswith("executable file not found"):
            message += f": {reason}"
        if self._hints.allows():
            message += _INSTALL_ADVICE + (hint and f"\n\n{hint}")
        return _Failure(
            PluginNotFound(message, command=self.command, install_hint=hint), status=NOT_FOUND_ERROR
        )

    def _not_started_error(self, error: OSError, path: str, info_size: int) -> _Failure:
        why = f"{ERROR_PREFIX}exec: {self.command}: {(error.strerror or 'cannot be started').lower()}"
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
                    f"KUBERNETES_EXEC_INFO has {info_size:,} bytes, most of it the CA. Reduce "
                    "certificate-authority to what the server needs, or set provideClusterInfo to false."
                )
            failure = PluginNotStarted(
                f"{why}. {advice}".rstrip(), command=self.command, errno=error.errno
            )  # fmt: skip
        return _Failure(failure, error.with_traceback(None), status=NOT_FOUND_ERROR)

    def _failed_error(self, result: ProcessResult, interactive: bool) -> PluginError:
        stderr = stderr_suffix(result.stderr_tail)
        # An interactive plugin writes to the terminal directly.
        no_stderr = "Its output, if any, is above" if interactive else "It printed nothing to stderr"
        if result.killed == "timeout":
            timeout = self._config.options.timeout or 0.0
            return PluginTimeout(
                f"{ERROR_PREFIX}exec: executable {self.command} timed out after {timeout:g} seconds. "
                f"Set ExecOptions(timeout=...) to allow more, or find out what it waits for.{stderr}",
                command=self.command,
                timeout=timeout,
            )
        if result.killed == "output":
            return self.invalid_output_error(
                f"it printed more than {MAX_OUTPUT // 2**20} MiB", "Is this command a credential plugin?"
            )
        if result.killed:
            return PluginFailed(
                f"{ERROR_PREFIX}exec: executable {self.command} was killed because the last client that used "
                "it was closed",
                command=self.command,
                exit_code=-1,
            )
        return PluginFailed(
            f"{ERROR_PREFIX}exec: executable {self.command} failed with exit code {result.exit_code}"
            f"{' (killed by a signal)' if result.exit_code < 0 else ''}"
            f"{stderr or f'. {no_stderr}; run the command of users[].user.exec by hand to see why.'}",
            command=self.command,
            exit_code=result.exit_code,
            stderr_tail=stderr_text(result.stderr_tail),
        )


def output_error(command: str, reason: str, advice: str) -> PluginOutputError:
    """Return an error for a plugin that ran and returned invalid output."""
    end = "" if reason.endswith("?") else "."
    message = f"{ERROR_PREFIX}{reason}{end} {advice} The plugin is {command}."
    return PluginOutputError(message, command=command, reason=reason)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error that is returned to `fetch`, which raises it."""

    error: KubeAuthError
    cause: OSError | None = None
    status: str = INTERNAL_ERROR
    """The label of the attempt in metrics."""


def _metric_status(result: ProcessResult) -> tuple[str, int]:
    # Invalid output is not an error here (M2): the run is counted before its output is decoded.
    return (EXECUTION_ERROR if result.exit_code else NO_ERROR), result.exit_code


def _stdin_is_terminal() -> bool:
    return os.isatty(0)


def decide_interactive(mode: str, options: ExecOptions, *, is_terminal: bool) -> bool | str:
    """Return whether the plugin gets our stdin; or why it cannot run, as client-go reports it."""
    if mode == "Never":
        return False
    if mode == "IfAvailable":
        return is_terminal and not options.stdin_unavailable
    if mode == "Always":
        # Checked in client-go's order.
        if not is_terminal:
            return "standard input is not a terminal"
        if options.stdin_unavailable:
            message = options.stdin_unavailable_message
            return f"standard input is unavailable{message and f': {message}'}"
        return True
    return f'unknown interactiveMode: "{mode}"'
