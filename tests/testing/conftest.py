from __future__ import annotations

from pathlib import Path

import pytest

from kubeauth.testing import PluginScript


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    plugin = PluginScript(tmp_path)
    plugin.answer(token="first-token")
    return plugin
