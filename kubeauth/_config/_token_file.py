"""A bearer token from a file (K61)."""

from __future__ import annotations

from kubeauth._config._files import read_file, reason
from kubeauth._secret import Secret
from kubeauth.errors import TokenFileError


def read_token_file(path: str) -> Secret[str]:
    """The token in the file, without white space around it. TokenFileError if there is none."""
    try:
        token = Secret(read_file(path).decode().strip())
    except OSError as error:
        raise TokenFileError(f'failed to read token file "{path}": {reason(error)}', path=path) from error
    except UnicodeDecodeError:
        token = None  # not raised from here: the error holds the bytes
    if token is None:
        raise TokenFileError(f'failed to read token file "{path}": it is not text', path=path)
    if not token:
        raise TokenFileError(f'read empty token from file "{path}"', path=path)
    return token
