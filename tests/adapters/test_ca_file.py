"""The one file that an adapter writes: a CA, which is no secret, for clients that take it in no other form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kubeauth import ClientConfig
from kubeauth.adapters._ca_file import ca_file, remove_ca_files
from kubeauth.testing import Authority

_MAKES_ONE = """
import os, sys
from kubeauth import ClientConfig
from kubeauth.adapters._ca_file import ca_file
path = ca_file(ClientConfig(server="https://cluster.test", ca_data=b"a CA"))
if os.fork() == 0:
    sys.exit()
os.wait()
print(open(path).read(), path)
"""


def test_it_is_gone_at_exit_and_not_before_when_a_child_ends(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _MAKES_ONE],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"a CA {tmp_path}")
    assert list(tmp_path.glob("kubeauth-*")) == []


def test_there_is_one_for_each_ca_and_it_comes_back_when_it_was_swept_away() -> None:
    config = ClientConfig(server="https://cluster.test", ca_data=Authority().pem)
    path = ca_file(config)
    assert path is not None
    assert ca_file(config) == path
    os.unlink(path)
    again = ca_file(config)
    assert again is not None
    assert Path(again).read_bytes() == config.ca_data
    assert ca_file(ClientConfig(server="https://cluster.test", ca_data=Authority().pem)) != again


def test_a_file_of_somebody_else_by_its_name_is_not_ours() -> None:
    """Who writes a CA to the name of one that was swept away would be trusted with the token."""
    config = ClientConfig(server="https://cluster.test", ca_data=Authority().pem)
    path = ca_file(config)
    assert path is not None
    theirs = Path(f"{path}.theirs")
    theirs.write_bytes(Authority().pem)  # at the same time: it cannot have the same inode
    theirs.replace(path)
    again = ca_file(config)
    assert again not in (None, path)
    assert Path(str(again)).read_bytes() == config.ca_data
    remove_ca_files()
    assert not os.path.exists(str(again))
    assert os.path.exists(path)  # nor is it ours to remove
    os.unlink(path)


def test_those_of_this_process_are_removed() -> None:
    config = ClientConfig(server="https://cluster.test", ca_data=Authority().pem)
    path = ca_file(config)
    assert path is not None
    remove_ca_files()
    assert not os.path.exists(path)
