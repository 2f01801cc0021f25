"""`docker-credential-kubeauth`: image credential providers for docker, podman, skopeo, crane.

A docker credential helper: it is told what to do by its one argument, reads from stdin and prints to stdout,
errors too; the tool that runs it shows them. Anything but 0 is a failure to those tools, so it is 1.

The protocol names a host and never an image. So providers are asked about the registry as a whole, and those
which are for some of its repositories alone have no say; they are named on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from kubeauth import __version__
from kubeauth._streams import flush_stderr
from kubeauth.cli._ends import Failed, end_of, end_on_signals, fault_of, tell
from kubeauth.cli._terminal import harmless

if TYPE_CHECKING:
    from kubeauth.registry._values import RegistryCredential

_PROGRAM = "docker-credential-kubeauth"
# In the words that every tool knows.
_NOT_FOUND = "credentials not found in native keychain"
_NO_SERVER = "no credentials server URL"
_TOKEN = "<token>"  # noqa: S105 -- the user name that an identity token goes by

_USAGE = f"Usage: {_PROGRAM} <get|list|store|erase|version>"
_HELP = """\
Image credential providers of the kubelet, for docker, podman, skopeo and crane. Name it in
~/.docker/config.json for each registry:

  {"credHelpers": {"123456789012.dkr.ecr.eu-west-1.amazonaws.com": "kubeauth"}}

and set in the environment of the tool, to what the kubelet has for its flags of these names:

  KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG   --image-credential-provider-config
  KUBEAUTH_CREDENTIAL_PROVIDER_BIN_DIR  --image-credential-provider-bin-dir
"""

_HUB = ("index.docker.io", "registry-1.docker.io", "docker.io")
_MOST = 65536


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Does what the tool asks for, then exits."""
    if arguments is None:
        end_on_signals()
    if sys.stderr is None:  # print() would take stdout instead, where the tool reads JSON
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- open until the process ends
    try:
        status = _done(sys.argv[1:] if arguments is None else arguments)
    except BaseException as error:
        end = end_of(error) or fault_of(error)
        status = end.told() if end is not None else 1
    finally:
        if arguments is None:
            flush_stderr()
    raise SystemExit(status)


def _done(arguments: Sequence[str]) -> int:
    """What it exits with. What cannot be written to stdout is for whoever called."""
    if sys.stdout is None:
        raise Failed("error: stdout is closed, and the answer is told there")
    try:
        said, status = run(arguments), 0
    except Exception as error:
        end = end_of(error) or fault_of(error)
        said, status = f"{harmless(end.message)}\n" if end is not None else "", 1
    sys.stdout.write(said)
    sys.stdout.flush()
    return status


def run(arguments: Sequence[str]) -> str:
    """What is to be printed; Failed if it is an error."""
    action = arguments[0] if len(arguments) == 1 else ""
    if action == "get":
        # Without a stdin nobody has said which.
        said = sys.stdin.buffer.read(_MOST) if sys.stdin is not None else b""
        return _get(said.decode(errors="replace").strip(" \t\r\n"))
    if action == "list":
        return "{}\n"  # whom providers know is known to them alone
    if action in ("store", "erase"):
        raise Failed(
            f"kubeauth keeps no credentials, so there is none to {action}: image credential providers give "
            "them. To log in by hand, take the registry out of credHelpers."
        )
    if action in ("version", "--version"):
        return f"{_PROGRAM} (kubeauth) {__version__}\n"
    if action in ("help", "--help", "-h"):
        return f"{_USAGE}\n\n{_HELP}"
    raise Failed(_USAGE)


def _get(server: str) -> str:
    from kubeauth.cli._registry_flags import BIN_DIR_VARIABLE, CONFIG_VARIABLE, ProviderFlags

    if not server:
        raise Failed(_NO_SERVER)
    host = host_of(server)
    flags = ProviderFlags()
    if not (flags.config_path and flags.bin_dir):
        raise Failed(
            f"{_PROGRAM} needs {CONFIG_VARIABLE} and {BIN_DIR_VARIABLE}: set both in the environment of the "
            "tool that runs it, to what the kubelet has as --image-credential-provider-config and "
            "--image-credential-provider-bin-dir."
        )
    flags.set_up_logging()
    flags.log_less()
    with flags.providers() as providers:
        lookup = providers.lookup(f"{host}/")
        unasked = {answer.provider for answer in lookup.answers if not answer.matched}
        partial = [each for each in providers.config.providers if each.name in unasked]
    for failure in lookup.failures:
        tell(f"{_PROGRAM}: {failure}")
    _tell_of_paths(host, {each.name: each.match_images for each in partial})
    # One can be told. The kubelet would try the others after it.
    first = next(iter(lookup.credentials), None)
    if first is None or first.is_anonymous:
        raise Failed(_NOT_FOUND)
    return answer(server, first)


def host_of(server: str) -> str:
    """The registry that a tool asks about, as it is in the names of images: `https://gcr.io` is `gcr.io`."""
    from kubeauth.registry._reference import registry_host

    host = registry_host(server)
    if host is None:
        # The URL is not repeated: a password may be in it.
        raise Failed(
            "error: the server URL is not a registry. It must be host, host:port or https://host:port/path, "
            "without user name, query and fragment, in ASCII."
        )
    return "docker.io" if host in _HUB else host


def answer(server: str, credential: RegistryCredential) -> str:
    """The same, as tools read it."""
    name, secret = credential.username, credential.password
    if credential.identity_token:
        name, secret = _TOKEN, credential.identity_token
    return json.dumps({"ServerURL": server, "Username": name, "Secret": secret}) + "\n"


def _tell_of_paths(host: str, patterns: dict[str, tuple[str, ...]]) -> None:
    from kubeauth.registry._mismatch import is_for_paths_of

    for name, several in patterns.items():
        if any(is_for_paths_of(each, host) for each in several):
            tell(
                f"{_PROGRAM}: provider {name} is not asked: it is for some repositories of {host}, and "
                "docker's protocol names the registry alone. Add a pattern without a path to its matchImages."
            )


if __name__ == "__main__":
    main()
