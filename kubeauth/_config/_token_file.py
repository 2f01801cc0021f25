"""A bearer token from a file: as it stands in it, and as it is used (K59, K61)."""

from __future__ import annotations

from kubeauth._config._files import read_file, reason
from kubeauth._config._validate import shown_path
from kubeauth._secret import Secret
from kubeauth.errors import TokenFileError


def read_raw_token(path: str) -> Secret[str]:
    """All that is in the file, which must be more than white space. TokenFileError if it is not."""
    shown = shown_path(path)
    try:
        token = Secret(read_file(path).decode())
    except OSError as error:
        raise TokenFileError(f"cannot read the token file {shown}: {reason(error)}", path=shown) from error
    except UnicodeDecodeError:
        token = None  # not raised from here: that error holds the bytes
    if token is None:
        raise TokenFileError(f"cannot read the token file {shown}: it is not text", path=shown)
    if not token.reveal().strip():
        raise TokenFileError(f"read empty token from file {shown}", path=shown)
    return token


def read_token_file(path: str) -> Secret[str]:
    """The token in the file, without the white space around it. TokenFileError if there is none."""
    return Secret(read_raw_token(path).reveal().strip())
