"""Go's filepath.Match for one label of a host (2.5): `*` is any run of bytes, `[...]` one character of a set.

Its other signs cannot be in a host: `?` starts a query there, and a backslash, a slash and a `^` are refused.
Each star takes as little as it can and gives nothing back, so that no glob can make a label costly.
"""

from __future__ import annotations

# Characters from .. to, both of them included.
Ranges = tuple[tuple[str, str], ...]
# What stands between two stars: bytes; or, if there is a set in it, each byte and each set.
Chunk = bytes | tuple[int | Ranges, ...]
Glob = tuple[Chunk, ...]

_STAR, _OPEN = b"*["
# What Go makes of bytes that are no UTF-8, one at a time.
_REPLACEMENT = "\ufffd"


def is_literal(label: bytes) -> bool:
    return b"*" not in label and b"[" not in label


def compile_glob(label: bytes) -> Glob | None:
    """What lies between its stars; None if it is malformed, and so matches nothing."""
    if b"[" not in label:
        return tuple(label.split(b"*"))
    chunks: list[Chunk] = []
    chunk: list[int | Ranges] = []
    at = 0
    while at < len(label):
        if label[at] == _STAR:
            chunks.append(tuple(chunk))
            chunk = []
        elif label[at] == _OPEN:
            closing = label.find(b"]", at)
            ranges = _ranges(label[at + 1 : closing]) if closing != -1 else None
            if ranges is None:
                return None
            chunk.append(ranges)
            at = closing
        else:
            chunk.append(label[at])
        at += 1
    return (*chunks, tuple(chunk))


def _ranges(text: bytes) -> Ranges | None:
    try:
        characters = text.decode()
    except UnicodeDecodeError:
        return None
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(characters):
        dash = characters[at + 1 : at + 2] == "-"
        low, high = characters[at], characters[at + 2 : at + 3] if dash else characters[at]
        if low == "-" or high in ("-", ""):
            return None
        ranges.append((low, high))
        at += 3 if dash else 1
    return tuple(ranges) or None


def glob_matches(glob: Glob, name: bytes) -> bool:
    first, *others = glob
    at = _end(first, name, 0)
    if not others:
        return at == len(name)
    for chunk in others[:-1]:
        if at == -1:
            return False
        at = _next_end(chunk, name, at)
    return at != -1 and _closes(others[-1], name, at)


def _end(chunk: Chunk, name: bytes, at: int) -> int:
    """Where it ends if it stands there, else -1."""
    if isinstance(chunk, bytes):
        return at + len(chunk) if name.startswith(chunk, at) else -1
    for wanted in chunk:
        if at >= len(name):
            return -1
        if isinstance(wanted, int):
            if name[at] != wanted:
                return -1
            at += 1
        else:
            character, size = _character(name, at)
            if not any(low <= character <= high for low, high in wanted):
                return -1
            at += size
    return at


def _next_end(chunk: Chunk, name: bytes, at: int) -> int:
    """Where it ends, standing there or as soon after as it does, else -1."""
    if isinstance(chunk, bytes):
        found = name.find(chunk, at)
        return found + len(chunk) if found != -1 else -1
    ends = (_end(chunk, name, start) for start in range(at, len(name) + 1))
    return next((end for end in ends if end != -1), -1)


def _closes(chunk: Chunk, name: bytes, at: int) -> bool:
    """Whether it stands at the very end, and not before there."""
    if isinstance(chunk, bytes):
        return name.endswith(chunk, at)
    return any(_end(chunk, name, start) == len(name) for start in range(at, len(name) + 1))


def _character(name: bytes, at: int) -> tuple[str, int]:
    for size in (1, 2, 3, 4):
        try:
            return name[at : at + size].decode(), size
        except UnicodeDecodeError:
            continue
    return _REPLACEMENT, 1
