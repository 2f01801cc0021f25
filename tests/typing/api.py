"""Every public name used as a typed program would. Checked by mypy and pyright, never run."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

import kubeauth
from kubeauth import (
    ClientConfig,
    ExecConfig,
    ExecOptions,
    Impersonation,
    PluginPolicy,
    Secret,
    errors,
    in_cluster_config,
    load_config,
    ssl_context,
)

assert_type(kubeauth.__version__, str)

config = load_config()
assert_type(config, ClientConfig)
assert_type(load_config("path"), ClientConfig)
assert_type(load_config(Path("path"), context="prod", cluster=None, user=None, namespace="n"), ClientConfig)
assert_type(load_config(b"clusters: []"), ClientConfig)
assert_type(load_config({"clusters": []}), ClientConfig)
assert_type(
    load_config(plugin_policy=PluginPolicy.allowlist(["aws"]), exec_options=ExecOptions(timeout=None)),
    ClientConfig,
)
assert_type(in_cluster_config(), ClientConfig)

assert_type(config.server, str)
assert_type(config.ca_data, bytes | None)
assert_type(config.token, Secret[str] | None)
assert_type(config.client_key_data, Secret[bytes] | None)
if config.token:
    assert_type(config.token.reveal(), str)
assert_type(config.exec, ExecConfig | None)
if config.exec:
    assert_type(config.exec.args, tuple[str, ...])
    assert_type(config.exec.env, Mapping[str, str])
    assert_type(config.exec.policy, PluginPolicy)
assert_type(config.impersonate, Impersonation | None)
assert_type(Impersonation(user="u", groups=["g"], extra={"k": ["v"]}), Impersonation)
assert_type(ssl_context(config), ssl.SSLContext)

try:
    load_config()
except errors.KubeConfigError as error:
    assert_type(error.path, str | None)
    assert_type(error.field, str | None)
    assert_type(error.problems, tuple[errors.Problem, ...])
except errors.ConfigError:
    pass
except errors.KubeAuthError:
    pass
