"""What is said about a program that did not start, or failed."""

from __future__ import annotations

import errno

from kubeauth._exec._hint import clean_hint

_START_ADVICE = {
    errno.EACCES: "Make the file executable (chmod +x), and check that its directory may be entered.",
    errno.ENOENT: "The file is there: is the interpreter in its first line?",
    errno.ENOEXEC: "It is not a program: does a script begin with #! and its interpreter?",
    errno.E2BIG: "Arguments and environment are too long for this system: shorten args and env.",
    errno.EMFILE: "This process has too many files open: raise its limit (ulimit -n), or look for a leak.",
    errno.ENFILE: "This machine has too many files open.",
    errno.EAGAIN: "No more processes are allowed: raise the limit (ulimit -u), or look for a leak.",
    errno.ENOMEM: "There is not enough memory to start another program.",
}


def start_advice(error: OSError) -> str:
    """What to do about a program that the system did not start."""
    return _START_ADVICE.get(error.errno or 0, "")


def tail_text(tail: bytes) -> str:
    """The end of what it wrote to stderr, as text that cannot steer a terminal."""
    return clean_hint(tail.decode("utf-8", "replace")).strip()


def said_in(tail: bytes) -> str:
    """The same below a sentence about it; nothing, if it said nothing."""
    text = tail_text(tail)
    return "\nIt said:\n" + "\n".join(f"  {line}" for line in text.splitlines()) if text else ""
