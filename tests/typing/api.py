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

assert_type(config.describe(), dict[str, str])
assert_type(PluginPolicy.allow_all(), PluginPolicy)
assert_type(PluginPolicy.deny_all(), PluginPolicy)
assert_type(Secret("token"), Secret[str])
assert_type(Secret(b"key"), Secret[bytes])

try:
    load_config()
except errors.KubeConfigError as error:
    assert_type(error.path, str | None)
    assert_type(error.field, str | None)
    assert_type(error.problems, tuple[errors.Problem, ...])
except (errors.InClusterError, errors.TokenFileError) as error:
    assert_type(error.path, str | None)
except errors.PluginNotAllowed as error:
    assert_type(error.policy, str)
except (errors.PluginNotFound, errors.PluginNotStarted, errors.PluginNeedsTerminal) as error:
    assert_type(error.command, str)
except errors.PluginFailed as error:
    assert_type(error.exit_code, int)
except errors.PluginTimeout as error:
    assert_type(error.seconds, float)
except errors.PluginOutputError as error:
    assert_type(error.reason, str)
except errors.ProviderError as error:
    assert_type(error.provider, str)
except errors.DiscoveryError as error:
    assert_type(error.reply, int | None)
except errors.AdmissionError as error:
    assert_type(error.uid, str)
except (errors.PluginError, errors.CredentialError, errors.ConfigError, errors.ChallengeError):
    pass
except (errors.ClientCertificateError, errors.TLSError, errors.RegistryError, errors.KubeAuthError):
    pass
