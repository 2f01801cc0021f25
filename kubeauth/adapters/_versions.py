"""Which versions of somebody else's client an adapter was made for."""

from __future__ import annotations

import re
from importlib.metadata import version

from kubeauth.errors import ConfigError


def check_version(package: str, *, since: str, before: str, why: str) -> None:
    """ConfigError unless the version that is installed is `since` or later, and earlier than `before`."""
    installed = version(package)
    if not _numbers(since) <= _numbers(installed) < _numbers(before):
        raise ConfigError(
            f"{package} {installed} is installed, and this adapter works with {since} or later, before "
            f"{before}: {why}. Install one of those: pip install '{package}>={since},<{before}'"
        )


def _numbers(version: str) -> list[int]:
    """0.20.15rc1 as 0, 20, 15."""
    found = re.match(r"\d+(\.\d+)*", version)
    return [] if found is None else [int(number) for number in found[0].split(".")]
