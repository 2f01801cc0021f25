from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.proxy_cases import TABLE

pytestmark = pytest.mark.oracle


@each_case(("url", "environ", "proxy"), TABLE)
def test_go_chooses_the_same_proxy_k52(
    oracle: Path, url: str, environ: dict[str, str], proxy: str | None
) -> None:
    run = subprocess.run([oracle, f"--proxy-for={url}"], env=environ, capture_output=True, check=True)
    assert json.loads(run.stdout) == {"proxy": proxy}
