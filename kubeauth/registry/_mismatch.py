"""Why a pattern of `matchImages` does not match an image, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kubeauth.registry._glob import Glob, compile_glob, glob_matches, is_literal
from kubeauth.registry._match import Pattern, _shown, why_never
from kubeauth.registry._url import Place, read_place


def why_not(pattern: str, image: str) -> str | None:
    """Why `pattern` does not match `image`, as `ImageReference.repository` has it; None if it does (2.4)."""
    read, asked = Pattern(pattern), read_place(image)
    if isinstance(asked, str):
        return f"the image cannot be read: {asked}"
    if read.covers(asked):
        return None
    if (never := why_never(pattern)) is not None:
        return f"it matches no image at all: {never}"
    own = read.place
    if own is None or read.globs is None:
        return "it is malformed"
    # What is about another registry need not be compared any further.
    return _other_host(own, read.globs, asked) or " and ".join(_other_place(own, asked))


def is_for_paths_of(pattern: str, host: str) -> bool:
    """Whether it is for some repositories of that registry, and so not for all of it."""
    read, asked = Pattern(pattern), read_place(f"{host}/")
    if read.place is None or isinstance(asked, str) or read.covers(asked):
        return False
    return read.covers(asked._replace(path=read.place.path))


def _other_host(own: Place, globs: tuple[Glob, ...], asked: Place) -> str | None:
    name, host = _shown(b".".join(own.labels)), _shown(b".".join(asked.labels))
    mine, theirs = len(own.labels), len(asked.labels)
    if mine != theirs:
        star = ", and * stands for one part" if "*" in name else ""
        return f"{host} has {theirs} parts and {name} has {mine}{star}"
    differing = [n for n, glob in enumerate(globs) if not glob_matches(glob, asked.labels[n])]
    if not differing:
        return None
    if all(_matches_but_for_case(own.labels[n], asked.labels[n]) for n in differing):
        return f"upper and lower case differ in {name} and {host}"
    if all(map(is_literal, own.labels)):
        return f"{host} is not {name}"
    part = differing[0]
    return f"{_shown(asked.labels[part])} in {host} does not match {_shown(own.labels[part])}"


def _matches_but_for_case(label: bytes, asked: bytes) -> bool:
    glob = compile_glob(label.lower())
    return glob is not None and glob_matches(glob, asked.lower())


def _other_place(own: Place, asked: Place) -> Iterator[str]:
    mine, theirs = _shown(own.port), _shown(asked.port)
    if not mine and theirs:
        yield f"the image names port {theirs}, and a pattern without a port is for images without one"
    elif mine and not theirs:
        yield f"it is for port {mine}, and the image names none"
    elif mine != theirs:
        yield f"it is for port {mine}, and the image names {theirs}"
    if not asked.path.startswith(own.path):
        yield f"{_shown(asked.path)} does not start with {_shown(own.path)}"
