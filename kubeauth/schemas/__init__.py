"""Models of the Kubernetes documents that kubeauth reads, for programs that read or write them too.

    from kubeauth.schemas import Cluster, Context, Kubeconfig, User

    config = Kubeconfig.model_validate(yaml.safe_load(text))
    print(config.contexts[config.current_context].namespace)
    print(yaml.safe_dump(config.to_document(reveal_secrets=True)))

They are pydantic models: see `Model` for what they have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth._parsing.models import Model as Model
    from kubeauth.schemas._exec_credential import ExecCluster as ExecCluster
    from kubeauth.schemas._exec_credential import ExecCredential as ExecCredential
    from kubeauth.schemas._exec_credential import ExecCredentialSpec as ExecCredentialSpec
    from kubeauth.schemas._exec_credential import ExecCredentialStatus as ExecCredentialStatus
    from kubeauth.schemas._kubeconfig import AuthProvider as AuthProvider
    from kubeauth.schemas._kubeconfig import Cluster as Cluster
    from kubeauth.schemas._kubeconfig import Context as Context
    from kubeauth.schemas._kubeconfig import ExecEntry as ExecEntry
    from kubeauth.schemas._kubeconfig import ExecEnvVar as ExecEnvVar
    from kubeauth.schemas._kubeconfig import Kubeconfig as Kubeconfig
    from kubeauth.schemas._kubeconfig import Preferences as Preferences
    from kubeauth.schemas._kubeconfig import User as User

# Public names, and the modules that define them: each is imported when it is first used.
_EXPORTS = {
    "AuthProvider": "kubeauth.schemas._kubeconfig",
    "Cluster": "kubeauth.schemas._kubeconfig",
    "Context": "kubeauth.schemas._kubeconfig",
    "ExecCluster": "kubeauth.schemas._exec_credential",
    "ExecCredential": "kubeauth.schemas._exec_credential",
    "ExecCredentialSpec": "kubeauth.schemas._exec_credential",
    "ExecCredentialStatus": "kubeauth.schemas._exec_credential",
    "ExecEntry": "kubeauth.schemas._kubeconfig",
    "ExecEnvVar": "kubeauth.schemas._kubeconfig",
    "Kubeconfig": "kubeauth.schemas._kubeconfig",
    "Model": "kubeauth._parsing.models",
    "Preferences": "kubeauth.schemas._kubeconfig",
    "User": "kubeauth.schemas._kubeconfig",
}

__all__ = [
    "AuthProvider",
    "Cluster",
    "Context",
    "ExecCluster",
    "ExecCredential",
    "ExecCredentialSpec",
    "ExecCredentialStatus",
    "ExecEntry",
    "ExecEnvVar",
    "Kubeconfig",
    "Model",
    "Preferences",
    "User",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
