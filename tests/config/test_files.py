"""Files that a kubeconfig names: how large they may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeauth._config.files import SMALL_FILE_LIMIT, read_file, read_token_file
from kubeauth.errors import TokenFileError


def test_a_token_file_may_have_a_mebibyte_and_not_a_byte_more(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"t" * SMALL_FILE_LIMIT)
    assert read_token_file(str(path)).reveal() == "t" * SMALL_FILE_LIMIT
    path.write_bytes(b"t" * (SMALL_FILE_LIMIT + 1))
    # Not the first mebibyte of it: a server would reject that, and report something else.
    with pytest.raises(TokenFileError, match="it is larger than 1 MiB"):
        read_token_file(str(path))


def test_a_larger_limit_is_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\n" * (2 * SMALL_FILE_LIMIT + 1))
    with pytest.raises(OSError, match="it is larger than 2 MiB"):
        read_file(str(path), limit=2 * SMALL_FILE_LIMIT)
