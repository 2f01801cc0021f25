"""Write the modules that exist twice: sync from async, httpx2 from httpx.

    python scripts/generate.py            write them
    python scripts/generate.py --check    write nothing; exit 1 and show each module that differs

A copy is its source with the words in a table replaced, formatted by ruff. Edit the source, never the copy.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "kubeauth"

# Whole words of an async module, and what a sync module has in their place.
SYNC = {
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "AsyncBody": "Body",
    "AsyncBodyIterator": "BodyIterator",
    "AsyncByteStream": "SyncByteStream",
    "AsyncDirect": "SyncDirect",
    "AsyncIterator": "Iterator",
    "AsyncLeasedStream": "LeasedStream",
    "AsyncStream": "SyncStream",
    "AsyncTransport": "SyncTransport",
    "AsyncTransportLike": "SyncTransportLike",
    "StopAsyncIteration": "StopIteration",
    "_async_backend": "_sync_backend",
    "_loops": "_threads",
    "aclose": "close",
    "async_backend": "sync_backend",
    "aget": "get",
    "aiter_raw": "iter_raw",
    "handle_async_request": "handle_request",
}
HTTPX2 = {"_httpx": "_httpx2", "httpx": "httpx2"}
KUBERNETES_AIO = {"kubernetes_asyncio": "kubernetes_aio"}


@dataclass(frozen=True)
class Copy:
    """One generated module."""

    source: str
    target: str
    words: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)
    """Exact texts of the source, replaced before the words; each must be there."""

    def text(self) -> str:
        text = (PACKAGE / self.source).read_bytes().decode()
        for old, new in self.texts.items():
            if old not in text:
                raise SystemExit(f"generate: {self.source} does not contain {old!r}: update {__file__}")
            text = text.replace(old, new)
        copied = replace_words(text, self.words)
        if self.words is SYNC and (left := re.search(r"\b(await|async|Async\w+)\b", copied)):
            raise SystemExit(
                f"generate: {left[0]!r} of {self.source} has no sync counterpart: update {__file__}"
            )
        header = f"# Generated from {self.source} by scripts/generate.py: edit that and run `make generate`."
        return _format(f"{header}\n{copied}", self.target)


def replace_words(text: str, words: dict[str, str]) -> str:
    """Replace whole words; for a sync copy, drop `async` and `await` as well."""
    if words is SYNC:
        text = re.sub(r"\basync (?=def|with|for)|\bawait ", "", text)
    pattern = "|".join(map(re.escape, words))
    return re.sub(rf"(?<![\w])({pattern})(?![\w])", lambda found: words[found[1]], text)


def _sync(source: str, target: str) -> Copy:
    return Copy(source, target, SYNC)


def _httpx2(source: str, target: str, texts: dict[str, str] | None = None) -> Copy:
    """Public modules report a missing httpx2 by naming the extra."""
    module = f"kubeauth.{target.removesuffix('.py').replace('/', '.')}"
    message = f"{module} needs httpx2. Install it: pip install 'kubeauth[httpx2]'"
    if "._" not in module:
        guarded = f'except ImportError as error:\n    raise ImportError("{message}") from error\n'
        texts = {"\nimport httpx\n": f"\ntry:\n    import httpx\n{guarded}", **(texts or {})}
    return Copy(source, target, HTTPX2, texts or {})


COPIES = [
    _sync("_transport/async_.py", "_transport/sync.py"),
    _sync("transports/_async.py", "transports/_sync.py"),
    _sync("fleet/_async.py", "fleet/_sync.py"),
    _httpx2("_transport/httpx.py", "_transport/httpx2.py"),
    _httpx2(
        "_client.py",
        "httpx2.py",
        {
            # httpx2 lets the function that guesses an encoding return None.
            "Callable[[bytes], str]": "Callable[[bytes], str | None]",
            "Client and AsyncClient for httpx.": (
                "All clients and transports for httpx2: `kubeauth.httpx2.Client` is an httpx2.Client, etc."
                "\n\nNeeds the extra: `pip install 'kubeauth[httpx2]'`.\n"
            ),
        },
    ),
    _httpx2(
        "transports/_httpx.py",
        "transports/httpx2.py",
        {
            "kubeauth.Client(": "kubeauth.httpx2.Client(",
            "kubeauth.AsyncClient(": "kubeauth.httpx2.AsyncClient(",
            "(transport_factory=kubeauth.transports.": "(transport_factory=kubeauth.transports.httpx2.",
        },
    ),
    _httpx2("registry/_auth.py", "registry/httpx2.py"),
    Copy(
        "adapters/kubernetes_asyncio.py",
        "adapters/kubernetes_aio.py",
        KUBERNETES_AIO,
        {
            '"""`kubernetes_asyncio` with': (
                '"""`kubernetes.aio`, the asyncio client inside the official `kubernetes` package, with'
            ),
            "from kubernetes_asyncio": "from kubernetes.aio",
            "import kubernetes_asyncio\n    from": "import kubernetes\n    from",
            "kubeauth[kubernetes_asyncio]": "kubeauth[kubernetes]",
            "needs kubernetes_asyncio.": "needs kubernetes 36 or newer, and aiohttp.",
            "kubernetes_asyncio/{kubernetes_asyncio.__version__}": "kubernetes.aio/{kubernetes.__version__}",
            "A kubernetes_asyncio.": "A kubernetes.aio.",
            "a kubernetes_asyncio.": "a kubernetes.aio.",
        },
    ),
]


# Every module of these names is a source.
SOURCES = ("_async.py", "async_.py", "_httpx.py", "httpx.py")


def _format(text: str, target: str) -> str:
    name = str(PACKAGE / target)
    for command in (["check", "--select", "I", "--fix"], ["format"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", name, "-"],
            input=text.encode(),
            capture_output=True,
            check=False,
        )
        if ran.returncode:
            raise SystemExit(f"generate: ruff cannot format {target}:\n{(ran.stdout + ran.stderr).decode()}")
        text = ran.stdout.decode()
    return text


def missing_copies() -> list[str]:
    """Return the modules that are named like a source, and are not in the table."""
    named = {path.relative_to(PACKAGE).as_posix() for name in SOURCES for path in PACKAGE.rglob(name)}
    return sorted(named - {copy.source for copy in COPIES})


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if missing := missing_copies():
        raise SystemExit(f"generate: no copy is generated of {', '.join(missing)}: update {__file__}")
    outdated = 0
    for copy in COPIES:
        path = PACKAGE / copy.target
        expected = copy.text()
        actual = path.read_bytes().decode() if path.exists() else ""
        if expected == actual:
            continue
        outdated += 1
        if arguments:
            difference = difflib.unified_diff(
                actual.splitlines(keepends=True), expected.splitlines(keepends=True), copy.target, "generated"
            )
            sys.stdout.writelines(difference)
            print(f"generate: {copy.target} is not what {copy.source} generates. Run `make generate`.")
        else:
            path.write_bytes(expected.encode())
            print(f"generate: wrote kubeauth/{copy.target}")
    return 1 if arguments and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
