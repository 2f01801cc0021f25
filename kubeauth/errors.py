"""Every exception that kubeauth raises.

    KubeAuthError
    ├── ConfigError               the user must change something; never retried
    │   ├── KubeConfigError       .path .field .problems
    │   ├── InClusterError        .path
    │   └── PluginNotAllowed      .command .policy
    ├── CredentialError           no usable credential now; may be retried
    │   ├── PluginError           .command
    │   │   ├── PluginNotFound    .install_hint
    │   │   ├── PluginNotStarted  .errno
    │   │   ├── PluginNeedsTerminal
    │   │   ├── PluginFailed      .exit_code .stderr_tail
    │   │   ├── PluginTimeout     .timeout
    │   │   └── PluginOutputError .reason
    │   ├── OidcError             .issuer
    │   │   └── OidcWriteError    .path
    │   └── TokenFileError        .path
    ├── TLSError
    │   ├── ServerCertificateError .verify_code
    │   └── ClientCertificateError
    ├── RegistryError
    │   ├── ProviderConfigError   .path .field .problems; a ConfigError as well
    │   ├── DockerConfigError     .path .field; a ConfigError as well
    │   ├── ProviderError         .provider .reason .exit_code .stderr_tail
    │   └── ChallengeError        .realm .status_code .reason
    ├── DiscoveryError            .status_code
    │   ├── ClusterNotReady       .attempts
    │   └── ClusterNotTrusted     .reason .pins
    └── AdmissionError            .uid .status_code

The message is for people, the attributes are for programs. Every error can be pickled. None of them contains
a token, a key, a password or the stdout of a plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

__all__ = [
    "AdmissionError", "ChallengeError", "ClientCertificateError", "ClusterNotReady",
    "ClusterNotTrusted", "ConfigError", "CredentialError", "DiscoveryError", "DockerConfigError",
    "InClusterError", "KubeAuthError", "KubeConfigError", "OidcError", "OidcWriteError", "PluginError",
    "PluginFailed", "PluginNeedsTerminal", "PluginNotAllowed", "PluginNotFound", "PluginNotStarted",
    "PluginOutputError", "PluginTimeout", "Problem", "ProviderConfigError", "ProviderError",
    "RegistryError", "ServerCertificateError", "TLSError", "TokenFileError",
]  # fmt: skip


MAX_SHOWN_PROBLEMS = 20
_MAX_PROBLEM_TEXT = 600


class KubeAuthError(Exception):
    """The base class of all kubeauth errors: catch this one to catch them all.

    Its message may quote a file or a plugin, so control characters are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(map(escape_control, message.split("\n"))))

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call the class with the message alone, without its required keyword arguments.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(
    cls: type[KubeAuthError], args: tuple[object, ...], attributes: dict[str, object]
) -> KubeAuthError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def escape_control(text: str) -> str:
    """Write unprintable characters except tabs as U+XXXX: untrusted text must not control a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else f"U+{ord(char):04X}" for char in text)


class ConfigError(KubeAuthError):
    """The configuration must be changed; retrying does not help."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a configuration: what is wrong, where, and what to do about it.

    Its text may quote untrusted files, so it is shortened, and control characters are escaped.
    """

    message: str
    path: str | None = None
    """The file, if the configuration came from a file."""
    field: str | None = None
    """The field in the file, as `users["alice"].user.exec.command`."""
    hint: str = ""
    """What to do next."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _shorten(self.message))
        object.__setattr__(self, "hint", _shorten(self.hint))
        if self.field:
            object.__setattr__(self, "field", _shorten(self.field))

    @property
    def place(self) -> str:
        """File and field, except what the message already names."""
        parts = (_shorten(part) for part in (self.path, self.field) if part and part not in self.message)
        return ", ".join(parts)


def _shorten(text: str) -> str:
    if len(text) > _MAX_PROBLEM_TEXT:
        # Both ends: a message usually has the reason at its end.
        half = _MAX_PROBLEM_TEXT // 2
        text = f"{text[:half]}...{text[-half:]}"
    return escape_control(text)


def format_problems(problems: Sequence[Problem]) -> str:
    """Return all messages on one line, as client-go prints them, and below it the place and hint of each.

    Of more than twenty problems, only the first twenty are listed.
    """
    more = len(problems) - MAX_SHOWN_PROBLEMS
    problems = problems[:MAX_SHOWN_PROBLEMS]
    messages = [problem.message for problem in problems]
    if more > 0:
        messages.append(f"and {more:,} more")
    lines = [messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"]
    for number, problem in enumerate(problems, start=1):
        mark = "" if len(problems) == 1 else f"{number}. "
        if problem.place:
            lines.append(f"  {mark}in {problem.place}")
            mark = " " * len(mark)
        if problem.hint:
            lines.append(f"  {mark}{problem.hint}")
    return "\n".join(lines)


class _ProblemsError(ConfigError):
    path: str | None
    """The file of the first problem."""
    field: str | None
    """The field of the first problem."""
    problems: tuple[Problem, ...]
    """All problems in the order they were found; at most twenty."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        field: str | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        self.path = path
        self.field = field

    @classmethod
    def from_problems(cls, problems: Sequence[Problem], *, prefix: str = "") -> Self:
        """Return one error for all `problems`, in client-go's format: `a`, or `[a, b]`."""
        first = problems[0]
        shown = tuple(problems[:MAX_SHOWN_PROBLEMS])
        return cls(prefix + format_problems(problems), path=first.path, field=first.field, problems=shown)


class KubeConfigError(_ProblemsError):
    """A kubeconfig (or kuberc) is not valid. Lists all its problems, not only the first."""


class InClusterError(ConfigError):
    """This process does not run in a pod, or the files of its service account cannot be read."""

    path: str | None
    """The file that cannot be read, if that is the reason."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class PluginNotAllowed(ConfigError):
    """The plugin policy does not allow this plugin."""

    command: str
    """The command in the kubeconfig, as a normalized path."""
    policy: str
    """`DenyAll` or `Allowlist`."""

    def __init__(self, message: str, *, command: str, policy: str) -> None:
        super().__init__(message)
        self.command = command
        self.policy = policy


class CredentialError(KubeAuthError):
    """There is no usable credential now. Retrying later may succeed."""


class PluginError(CredentialError):
    """The exec plugin returned no credential."""

    command: str
    """The command in the kubeconfig, as a normalized path."""

    def __init__(self, message: str, *, command: str) -> None:
        super().__init__(message)
        self.command = command


class PluginNotFound(PluginError):
    """The plugin's command is not on PATH, or there is no such file."""

    install_hint: str
    """How to install the plugin, from the kubeconfig, with control characters escaped."""

    def __init__(self, message: str, *, command: str, install_hint: str = "") -> None:
        super().__init__(message, command=command)
        self.install_hint = install_hint


class PluginNotStarted(PluginError):
    """The plugin could not be started: not executable, arguments too long, too many open files."""

    errno: int | None
    """The error number of the operating system, as in the module `errno`."""

    def __init__(self, message: str, *, command: str, errno: int | None = None) -> None:
        super().__init__(message, command=command)
        self.errno = errno


class PluginNeedsTerminal(PluginError):
    """The plugin must prompt the user, and stdin is not a terminal or not available."""


class PluginFailed(PluginError):
    """The plugin exited with a code other than 0, or was killed."""

    exit_code: int
    """-1 if the plugin was killed by a signal."""
    stderr_tail: str
    """The last 4 KiB of its stderr."""

    def __init__(self, message: str, *, command: str, exit_code: int, stderr_tail: str = "") -> None:
        super().__init__(message, command=command)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class PluginTimeout(PluginError):
    """The plugin did not exit in time."""

    timeout: float
    """The value of `ExecOptions.timeout`, in seconds."""

    def __init__(self, message: str, *, command: str, timeout: float) -> None:
        super().__init__(message, command=command)
        self.timeout = timeout


class PluginOutputError(PluginError):
    """The plugin's output is not a valid ExecCredential."""

    reason: str
    """Why the output is not valid, without quoting it."""

    def __init__(self, message: str, *, command: str, reason: str) -> None:
        super().__init__(message, command=command)
        self.reason = reason


class OidcError(CredentialError):
    """The OIDC issuer returned no token, or there is no refresh token to get one with."""

    issuer: str
    """The issuer's URL, without a password."""

    def __init__(self, message: str, *, issuer: str) -> None:
        super().__init__(message)
        self.issuer = issuer


class OidcWriteError(OidcError):
    """New tokens could not be written back to the kubeconfig, so they are not used."""

    path: str
    """The kubeconfig."""

    def __init__(self, message: str, *, issuer: str, path: str) -> None:
        super().__init__(message, issuer=issuer)
        self.path = path


class TokenFileError(CredentialError):
    """A token file is missing, unreadable or empty."""

    path: str
    """The file."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class TLSError(KubeAuthError):
    """TLS cannot be set up with this CA or client certificate."""


class ServerCertificateError(TLSError):
    """The API server's certificate was rejected.

    Raised by a client, this is an `httpx.ConnectError` as well.
    """

    verify_code: int
    """OpenSSL's error number (X509_V_ERR_...); 0 if the error is not from OpenSSL."""

    def __init__(self, message: str, *, verify_code: int = 0) -> None:
        super().__init__(message)
        self.verify_code = verify_code


class ClientCertificateError(TLSError):
    """A client certificate or its key is not valid, or the server rejected it.

    If the server rejected it, this is an `httpx.ReadError` as well.
    """


class RegistryError(KubeAuthError):
    """There are no usable credentials for a container registry."""


class DockerConfigError(RegistryError, ConfigError):
    """A docker config, a pull secret or a keyring entry is not valid."""

    path: str | None
    """The file, if the configuration came from a file."""
    field: str | None
    """The field in the file, as `auths["gcr.io"].auth`."""

    def __init__(self, message: str, *, path: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.field = field

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Return an error with message, place and hint of `problem`, each on its own line."""
        place = f"in {problem.place}" if problem.place else ""
        lines = [problem.message, *(f"  {line}" for line in (place, problem.hint) if line)]
        return cls("\n".join(lines), path=problem.path, field=problem.field)


class ProviderConfigError(RegistryError, _ProblemsError):
    """An image credential provider configuration is not valid. Lists all its problems, not only the first."""


class ProviderError(RegistryError):
    """An image credential provider returned no credentials."""

    provider: str
    """The provider's name in the configuration."""
    reason: str
    """`start`: it could not be started. `exit`: it failed. `timeout`: it did not exit in time. `output`: its
    output is not a valid response. `token`: its response contains the service account token that it received.
    `service-account`: there is no service account token for it. `closed`: it was stopped by `close`.
    `internal`: any other reason.
    """
    exit_code: int | None
    """The exit code, if it has exited; -1 if it was killed by a signal."""
    stderr_tail: str
    """The last 4 KiB of its stderr, if it failed."""

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        reason: str = "internal",
        exit_code: int | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.reason = reason
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class ChallengeError(RegistryError):
    """A registry's authentication challenge is not supported, or there is no token for it."""

    realm: str
    """The token endpoint in the registry's challenge; empty if it names none."""
    status_code: int | None
    """The token endpoint's HTTP status, if it responded. After 429 and 5xx, retry later."""
    reason: str
    """A short description of the problem."""

    def __init__(
        self, message: str, *, realm: str = "", status_code: int | None = None, reason: str = ""
    ) -> None:
        super().__init__(message)
        self.realm = realm
        self.status_code = status_code
        self.reason = reason


class DiscoveryError(KubeAuthError):
    """A cluster could not be discovered safely."""

    status_code: int | None
    """The HTTP status of the response, if there was one."""

    def __init__(self, message: str, *, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


class ClusterNotReady(DiscoveryError):
    """The cluster did not publish its information in time. Retrying later may succeed."""

    attempts: int
    """How many requests were sent."""

    def __init__(self, message: str, *, status_code: int | None = None, attempts: int = 0) -> None:
        super().__init__(message, status_code=status_code)
        self.attempts = attempts


class ClusterNotTrusted(DiscoveryError):
    """The cluster's response cannot be trusted: it may come from another server. Retrying does not help."""

    reason: str
    """`signature`: it is not signed with the token. `pin`: none of its CA certificates is pinned. `changed`:
    the second response, over verified TLS, differs from the first. `document`: it is not a valid document.
    `server`: its server URL is not valid. `certificate`: its CA is not valid, or the server's certificate is
    not trusted. `redirect`: it redirects to a URL that is not https, or too often.
    """
    pins: tuple[str, ...]
    """Hashes of the CA's public keys, if they are the reason: ask the administrator of the cluster to confirm
    them."""

    def __init__(
        self, message: str, *, status_code: int | None = None, reason: str = "", pins: Sequence[str] = ()
    ) -> None:
        super().__init__(message, status_code=status_code)
        self.reason = reason
        self.pins = tuple(pins)


class AdmissionError(KubeAuthError):
    """A pod cannot be admitted, or an admission request cannot be answered."""

    uid: str
    """The UID of the admission request."""
    status_code: int
    """The HTTP status code in the AdmissionReview's response."""

    def __init__(self, message: str, *, uid: str = "", status_code: int = 400) -> None:
        super().__init__(message)
        self.uid = uid
        self.status_code = status_code
