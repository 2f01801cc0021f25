"""A bearer token from a file: as it stands in it, and as it is used (K59, K61)."""

from __future__ import annotations

from kubeauth._config._files import read_file, reason
from kubeauth._config._validate import shown_path
from kubeauth._secret import Secret
from kubeauth.errors import TokenFileError


def read_raw_token(path: str) -> Secret[str]:
    """All that is in the file, which must be more than white space. TokenFileError if it is not."""
    token: Secret[str] | None = None
    # Raised behind the except clauses: the errors hold the path, which may be the token itself, and bytes.
    try:
        token = Secret(read_file(path).decode())
        why = f"read empty token from file {shown_path(path)}"
    except OSError as error:
        why = f"cannot read the token file {shown_path(path)}: {reason(error)}"
    except UnicodeDecodeError:
        why = f"cannot read the token file {shown_path(path)}: it is not text"
    if token is None or not token.reveal().strip():
        raise TokenFileError(why, path=shown_path(path))
    return token


def read_token_file(path: str) -> Secret[str]:
    """The token in the file, without the white space around it. TokenFileError if there is none."""
    return Secret(read_raw_token(path).reveal().strip())
