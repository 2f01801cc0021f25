"""For authors of image credential providers: what a kubelet asks, and how to answer it.

    from datetime import timedelta
    from kubeauth.registry import plugin

    def main(request: plugin.Request) -> plugin.Response:
        password = my_login(request.registry)
        return plugin.Response({request.registry: ("robot", password)}, cache_duration=timedelta(minutes=5))

    plugin.run(main)

A kubelet, or `kubeauth.registry.CredentialProviders`, runs such a program, writes a CredentialProviderRequest
to its stdin, and reads a CredentialProviderResponse from its stdout. A provider is started often, so little
is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import BinaryIO, Literal, NoReturn, TextIO

from kubeauth._exec.sdk import raise_if_error, run_program
from kubeauth._parsing.go import MAX_DURATION
from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import RegistryError
from kubeauth.registry import _wire
from kubeauth.registry._wire import CACHE_KEY_TYPES, PROVIDER_V1, REQUEST, Request

__all__ = ["Request", "Response", "parse_request", "print_response", "read_request", "run"]

_LONGEST_REQUEST = 2**20
_LONGEST_KEPT = MAX_DURATION // 2
_BY_HAND = (
    "This is an image credential provider: a kubelet runs it, as its configuration says, and writes to its "
    f'stdin. To try it by hand: echo \'{{"kind": "{REQUEST}", "apiVersion": "{PROVIDER_V1}", '
    '"image": "registry.example.com/image"}\' |'
)


@dataclass(frozen=True, slots=True, repr=False)
class Response:
    """What a provider answers: user names and passwords, by what they are for. Printing it hides them.

    None at all is an answer, too: that this provider knows none for the image.
    """

    auth: Mapping[str, tuple[str, str | Secret[str]]] = field(default_factory=dict)
    """By registry, with a path or a pattern if it is not for all of it: `registry.example.com`,
    `registry.example.com:5000/team`, `*.example.com`."""
    cache_key_type: Literal["Image", "Registry", "Global"] = "Image"
    """What the answer is kept for: this image, all images of its registry, or all that the provider is asked
    about."""
    cache_duration: timedelta | None = None
    """How long it is kept. None: as the kubelet's configuration says; zero: not at all."""

    def __post_init__(self) -> None:
        if isinstance(self.auth, Mapping):
            object.__setattr__(self, "auth", {key: _hidden(pair) for key, pair in self.auth.items()})

    def __repr__(self) -> str:
        auth = HIDDEN if self.auth else {}
        return f"Response({auth}, {self.cache_key_type!r}, cache_duration={self.cache_duration!r})"


def read_request(stdin: BinaryIO | None = None) -> Request:
    """What stdin says, up to its end. RegistryError if that is nothing, or not what it should be."""
    file = stdin or (sys.stdin.buffer if sys.stdin else None)
    # On a terminal nobody would type one, and it would be waited for without a word.
    data = b"" if file is None or file.isatty() else file.read(_LONGEST_REQUEST + 1)
    found = _decoded(data)
    # From here on nothing may raise from a frame that still holds the token.
    del data
    return raise_if_error(found)


def parse_request(text: str | bytes) -> Request:
    """The same from `text`: the JSON of a CredentialProviderRequest, v1, v1beta1 or v1alpha1."""
    found = _decoded(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    del text
    return raise_if_error(found)


def print_response(request: Request, response: Response, *, file: TextIO | None = None) -> None:
    """Writes the answer to `file`, or to stdout: one line, in the version that was asked for.

    Raises RegistryError, and writes nothing, if a kubelet would refuse it.
    """
    found = _answer(request, response)
    # From here on nothing may raise from a frame that still holds it: it may be a password.
    del response
    answer: Secret[str] = raise_if_error(found)
    print(answer.reveal(), end="", file=file, flush=True)


def run(main: Callable[[Request], Response]) -> NoReturn:
    """A provider from start to end: asks `main` for the credentials, prints them, and exits.

    If anything fails, stdout stays empty, stderr gets a line and the exit status is 1. To fail on purpose,
    raise an error of kubeauth: its message is shown. Of other exceptions only the type is, since their
    words may hold secrets; KUBEAUTH_PLUGIN_TRACEBACK=1 shows all. What `main`, or a program that it
    starts, prints to stdout goes to stderr.
    """
    run_program(read_request, main, print_response)


def _decoded(data: bytes) -> Request | RegistryError:
    if not data.strip():
        return RegistryError(f"there is no {REQUEST} on stdin. {_BY_HAND}")
    if len(data) > _LONGEST_REQUEST:
        return RegistryError(f"the {REQUEST} is larger than {_LONGEST_REQUEST // 2**20} MiB.")
    found = _wire.read_request(data)
    if isinstance(found, str):
        return RegistryError(f"not a {REQUEST}: {found}. {_BY_HAND}")
    return found


def _hidden(pair: object) -> object:
    """With a `Secret` for the password. What is of another form is refused when it is printed."""
    match pair:
        case (username, str(password)):
            return username, Secret(password)
        case _:
            return pair


def _answer(request: Request, response: object) -> Secret[str] | RegistryError:
    """The CredentialProviderResponse, or why a kubelet would refuse it (3.14-3.15)."""
    if not isinstance(response, Response):
        return RegistryError(f"the provider gave a {type(response).__name__}, not a plugin.Response.")
    if response.cache_key_type not in CACHE_KEY_TYPES:
        return RegistryError(f"the provider's cache_key_type must be one of {', '.join(CACHE_KEY_TYPES)}.")
    if not isinstance(response.cache_duration, timedelta | None):
        return RegistryError("the provider's cache_duration must be a timedelta, or None.")
    auth = _entries(response.auth)
    if auth is None:
        return RegistryError(
            "the provider's auth must be a mapping from text to pairs of text: "
            '{"registry.example.com": (username, password)}.'
        )
    seconds = _seconds(response.cache_duration)
    line = _wire.write_response(auth, response.cache_key_type, seconds, request.api_version)
    return Secret(line.decode())


def _seconds(duration: timedelta | None) -> float | None:
    # What is over already is not kept, and nothing for longer than Go can count.
    return None if duration is None else min(max(duration.total_seconds(), 0.0), _LONGEST_KEPT)


def _entries(auth: object) -> dict[str, tuple[str, Secret[str]]] | None:
    """None if it is anything else."""
    if not isinstance(auth, Mapping):
        return None
    entries: dict[str, tuple[str, Secret[str]]] = {}
    for key, pair in auth.items():
        match pair:
            case (username, Secret() as password) if all(map(_is_text, (key, username, password.reveal()))):
                entries[key] = username, password
            case _:
                return None
    return entries


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)
