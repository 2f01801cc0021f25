"""Windows pods with an identity of Active Directory: Group Managed Service Accounts (GMSA).

    from kubeauth.gmsa import authorize, expand

    patch = expand(pod, lookup)     # what a pod names is written into it
    decision = authorize(pod, namespace="shop", lookup=lookup, review=review)

These decide as the admission webhook of kubernetes-sigs/windows-gmsa does, and do no I/O: `lookup` and
`review` are yours. `app` is the webhook itself, which asks an API server. Each name is loaded when it is
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth.gmsa._app import app as app
    from kubeauth.gmsa._authorize import authorize as authorize
    from kubeauth.gmsa._decision import Decision as Decision
    from kubeauth.gmsa._decision import PatchOperation as PatchOperation
    from kubeauth.gmsa._decision import Policy as Policy
    from kubeauth.gmsa._effective import effective_credential_specs as effective_credential_specs
    from kubeauth.gmsa._expand import expand as expand
    from kubeauth.gmsa._lint import CredSpecReport as CredSpecReport
    from kubeauth.gmsa._lint import lint_credspec as lint_credspec
    from kubeauth.gmsa._steps import Review as Review
    from kubeauth.gmsa._steps import Unavailable as Unavailable
    from kubeauth.gmsa._steps import User as User
    from kubeauth.gmsa._steps import Verdict as Verdict

_HOME_OF = {
    "CredSpecReport": "_lint",
    "Decision": "_decision",
    "PatchOperation": "_decision",
    "Policy": "_decision",
    "Review": "_steps",
    "Unavailable": "_steps",
    "User": "_steps",
    "Verdict": "_steps",
    "app": "_app",
    "authorize": "_authorize",
    "effective_credential_specs": "_effective",
    "expand": "_expand",
    "lint_credspec": "_lint",
}

__all__ = [
    "CredSpecReport",
    "Decision",
    "PatchOperation",
    "Policy",
    "Review",
    "Unavailable",
    "User",
    "Verdict",
    "app",
    "authorize",
    "effective_credential_specs",
    "expand",
    "lint_credspec",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module 'kubeauth.gmsa' has no attribute {name!r}")
    value: object = getattr(import_module(f"kubeauth.gmsa.{_HOME_OF[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
