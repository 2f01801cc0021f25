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

The message is for people, the attributes are for programs. Every error can be pickled, and none
carries a token, a key, a password or the output of a plugin.
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


class KubeAuthError(Exception):
    """The base of every error of kubeauth: catch this one to catch them all.

    Its message may quote a file or a plugin, so characters that could steer a terminal are spelled out.
    """

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(map(escape_control, message.split("\n"))))

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call the class with the message alone, and lose the facts.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[KubeAuthError], args: tuple[object, ...], facts: dict[str, object]) -> KubeAuthError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class ConfigError(KubeAuthError):
    """Something the user wrote must be changed; trying again does not help."""


class _ProblemsError(ConfigError):
    path: str | None
    """The file of the first problem."""
    field: str | None
    """The field of the first problem."""
    problems: tuple[Problem, ...]
    """All of them, up to twenty, in the order they were found."""

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
    def of(cls, problems: Sequence[Problem], *, prefix: str = "") -> Self:
        """One error for all `problems`, in client-go's form: `a` alone, or `[a, b]`."""
        first = problems[0]
        shown = tuple(problems[:MAX_SHOWN_PROBLEMS])
        return cls(prefix + format_problems(problems), path=first.path, field=first.field, problems=shown)


class KubeConfigError(_ProblemsError):
    """A kubeconfig (or kuberc) that cannot be used, with everything that is wrong with it."""


class InClusterError(ConfigError):
    """This process is not in a pod, or its service account cannot be read."""

    path: str | None
    """The file that cannot be read, if it is about one."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class PluginNotAllowed(ConfigError):
    """The plugin policy does not allow this plugin."""

    command: str
    """As the kubeconfig has it, in its shortest form."""
    policy: str
    """`DenyAll` or `Allowlist`."""

    def __init__(self, message: str, *, command: str, policy: str) -> None:
        super().__init__(message)
        self.command = command
        self.policy = policy


class CredentialError(KubeAuthError):
    """There is no usable credential now; a later try may get one."""


class PluginError(CredentialError):
    """The exec plugin gave no credential."""

    command: str
    """As the kubeconfig has it, in its shortest form."""

    def __init__(self, message: str, *, command: str) -> None:
        super().__init__(message)
        self.command = command


class PluginNotFound(PluginError):
    """The plugin's command is not on PATH, or not at the path given."""

    install_hint: str
    """What the kubeconfig says about how to get it, with nothing in it that could steer a terminal."""

    def __init__(self, message: str, *, command: str, install_hint: str = "") -> None:
        super().__init__(message, command=command)
        self.install_hint = install_hint


class PluginNotStarted(PluginError):
    """The system refused to start the plugin: not executable, arguments too long, out of files."""

    errno: int | None
    """What the system said, as in the module errno."""

    def __init__(self, message: str, *, command: str, errno: int | None = None) -> None:
        super().__init__(message, command=command)
        self.errno = errno


class PluginNeedsTerminal(PluginError):
    """The plugin must ask a person, and there is no terminal to ask on."""


class PluginFailed(PluginError):
    """The plugin ran and failed."""

    exit_code: int
    """-1 if it was killed by a signal."""
    stderr_tail: str
    """The last 4 KiB of what it wrote to stderr."""

    def __init__(self, message: str, *, command: str, exit_code: int, stderr_tail: str = "") -> None:
        super().__init__(message, command=command)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class PluginTimeout(PluginError):
    """The plugin took longer than it was given."""

    timeout: float
    """ExecOptions.timeout, in seconds."""

    def __init__(self, message: str, *, command: str, timeout: float) -> None:
        super().__init__(message, command=command)
        self.timeout = timeout


class PluginOutputError(PluginError):
    """The plugin printed something that is not a usable ExecCredential."""

    reason: str
    """What is wrong with it, without any of what it printed."""

    def __init__(self, message: str, *, command: str, reason: str) -> None:
        super().__init__(message, command=command)
        self.reason = reason


class OidcError(CredentialError):
    """The OIDC issuer gave no token, or there is nothing to ask it with."""

    issuer: str
    """Its URL, without a password."""

    def __init__(self, message: str, *, issuer: str) -> None:
        super().__init__(message)
        self.issuer = issuer


class OidcWriteError(OidcError):
    """New tokens could not be written back to the kubeconfig, so they are not used either."""

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
    """Trust or identity for TLS cannot be set up."""


class ServerCertificateError(TLSError):
    """The API server's certificate is not accepted. From a client it is an `httpx.ConnectError` as well."""

    verify_code: int
    """OpenSSL's number for what is wrong (X509_V_ERR_...); 0 if it was not OpenSSL who said so."""

    def __init__(self, message: str, *, verify_code: int = 0) -> None:
        super().__init__(message)
        self.verify_code = verify_code


class ClientCertificateError(TLSError):
    """A client certificate or its key cannot be used, or was refused by the server.

    If a server refused it, this is an `httpx.ReadError` as well.
    """


class RegistryError(KubeAuthError):
    """Credentials for a container registry cannot be had."""


class DockerConfigError(RegistryError, ConfigError):
    """A docker config, a pull secret or an entry for a keyring that cannot be used."""

    path: str | None
    """The file, if it came from one."""
    field: str | None
    """Where in it, as `auths["gcr.io"].auth`."""

    def __init__(self, message: str, *, path: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.field = field

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """What is wrong, where, and what to do about it, each on a line of its own."""
        place = f"in {problem.place}" if problem.place else ""
        lines = [problem.message, *(f"  {line}" for line in (place, problem.hint) if line)]
        return cls("\n".join(lines), path=problem.path, field=problem.field)


class ProviderConfigError(RegistryError, _ProblemsError):
    """A configuration of image credential providers that cannot be used, with everything wrong with it."""


class ProviderError(RegistryError):
    """An image credential provider gave no credentials."""

    provider: str
    """Its name in the configuration."""
    reason: str
    """`start`: it cannot be started. `exit`, `timeout`: it ran and failed, or took too long. `output`: it
    printed something that is no usable answer. `token`: it gave back the token of the service account.
    `service-account`: there is no token for it. `closed`: it was ended by `close`. `internal`: none of these.
    """
    exit_code: int | None
    """If it ran to an end: -1 if a signal ended it."""
    stderr_tail: str
    """The last 4 KiB of what it wrote to stderr, if it ran and failed."""

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
    """A registry asked for authentication in a way that cannot be answered, or there is no token for it."""

    realm: str
    """The token endpoint, as the registry names it; empty if there is none."""
    status_code: int | None
    """The token endpoint's HTTP status, if it responded. After 429 and 5xx, try again later."""
    reason: str
    """What is wrong, in short."""

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
    """A cluster did not answer as it should in the time there was; a later try may find that it does."""

    attempts: int
    """The number of requests."""

    def __init__(self, message: str, *, status_code: int | None = None, attempts: int = 0) -> None:
        super().__init__(message, status_code=status_code)
        self.attempts = attempts


class ClusterNotTrusted(DiscoveryError):
    """What a cluster, or somebody in its place, answered must not be believed. Trying again does not help."""

    reason: str
    """`signature`: it is not signed with the token. `pin`: no CA of it is pinned. `changed`: it said
    something else when it was asked again. `document`: what it said makes no sense. `server`: its address
    cannot be used. `certificate`: its CA cannot be. `redirect`: it led to where nobody should follow.
    """
    pins: tuple[str, ...]
    """The public keys of its CA, if it is about those: compare them with what whoever runs it tells you."""

    def __init__(
        self, message: str, *, status_code: int | None = None, reason: str = "", pins: Sequence[str] = ()
    ) -> None:
        super().__init__(message, status_code=status_code)
        self.reason = reason
        self.pins = tuple(pins)


class AdmissionError(KubeAuthError):
    """A pod cannot be admitted, or an admission request cannot be answered."""

    uid: str
    """Of the request."""
    status_code: int
    """The HTTP status code in the AdmissionReview's response."""

    def __init__(self, message: str, *, uid: str = "", status_code: int = 400) -> None:
        super().__init__(message)
        self.uid, self.status_code = uid, status_code


MAX_SHOWN_PROBLEMS = 20


def escape_control(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else f"U+{ord(char):04X}" for char in text)


def _make_printable(text: str, limit: int = 600) -> str:
    """A stranger's text for a terminal: no control characters, and not pages of it."""
    if len(text) > limit:
        # The reason stands at the end of a sentence.
        text = f"{text[: limit // 2]}...{text[-limit // 2 :]}"
    return escape_control(text)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration: what, where, and what to do about it.

    Names and paths in it come from the file: they are cut short and cannot steer a terminal.
    """

    message: str
    path: str | None = None
    """The file it stands in, if it came from a file."""
    field: str | None = None
    """Where in the file, as `users["alice"].user.exec.command`."""
    hint: str = ""
    """What to do next."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _make_printable(self.message))
        object.__setattr__(self, "hint", _make_printable(self.hint))
        if self.field:
            object.__setattr__(self, "field", _make_printable(self.field))

    @property
    def place(self) -> str:
        """File and field, as far as the message does not name them already."""
        parts = (
            _make_printable(part) for part in (self.path, self.field) if part and part not in self.message
        )
        return ", ".join(parts)


def format_problems(problems: Sequence[Problem]) -> str:
    """All of them, as client-go does; below, where each is and what to do. Twenty, if there are more."""
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
