"""Bootstrap tokens: what they look like, and the names of all that belongs to one (A1-A9, A22-A25). Pure."""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass
from typing import Self

from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

# Full matches only: a $ would let a newline at the end pass.
_ID = re.compile(r"[a-z0-9]{6}")
_SECRET = re.compile(r"[a-z0-9]{16}")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_ALPHABET = string.digits + string.ascii_lowercase

SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 -- a name
SECRET_NAMESPACE = "kube-system"  # noqa: S105 -- a name
SECRET_PREFIX = "bootstrap-token-"  # noqa: S105 -- a name

# The keys of such a Secret's data.
TOKEN_ID = "token-id"  # noqa: S105 -- a name
TOKEN_SECRET = "token-secret"  # noqa: S105 -- a name
EXPIRATION = "expiration"
DESCRIPTION = "description"
EXTRA_GROUPS = "auth-extra-groups"
USAGE_PREFIX = "usage-bootstrap-"
SIGNING = "signing"
AUTHENTICATION = "authentication"
USAGES = (AUTHENTICATION, SIGNING)

# The ConfigMap that a cluster is discovered by, and the keys of its data.
CLUSTER_INFO_NAMESPACE = "kube-public"
CLUSTER_INFO_NAME = "cluster-info"
CLUSTER_INFO_PATH = f"/api/v1/namespaces/{CLUSTER_INFO_NAMESPACE}/configmaps/{CLUSTER_INFO_NAME}"
KUBECONFIG_KEY = "kubeconfig"
SIGNATURE_PREFIX = "jws-kubeconfig-"

# Who the bearer of a token is to the API server.
USER_PREFIX = "system:bootstrap:"
BASE_GROUP = "system:bootstrappers"

# Names in the kubeconfigs that kubeadm builds.
CLUSTER_NAME = "kubernetes"
DISCOVERY_USER = "token-bootstrap-client"
TLS_BOOTSTRAP_USER = "tls-bootstrap-token-user"

JWS_HEADER = "X-Kubernetes-JWS"
"""Where a response says its signature, if the request was signed too."""


@dataclass(frozen=True, slots=True, init=False)
class BootstrapToken:
    """A bootstrap token, `id.secret`. The id is public; `.reveal()` gives the whole, and nothing else does.

    Made of its two parts it is taken as it is; `parse` and `generate` give those that Kubernetes accepts.
    """

    id: str
    """Names the token. Anybody may know it."""
    secret: Secret[str]
    """The key that is shared with the cluster."""

    def __init__(self, id: str, secret: str | Secret[str]) -> None:
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "secret", secret if isinstance(secret, Secret) else Secret(secret))

    @classmethod
    def parse(cls, text: str | Secret[str]) -> Self:
        """The token that `text` is: six and sixteen of a-z and 0-9. ConfigError if it is none."""
        hidden = text if isinstance(text, Secret) else Secret(text)
        # Nothing below may be raised while it is in a variable: a traceback may show those.
        del text
        if (problem := _problem(hidden)) is not None:
            raise ConfigError(problem)
        return cls(*hidden.reveal().split("."))

    @classmethod
    def generate(cls) -> Self:
        """A new one, from the system's source of randomness."""
        return cls(_drawn(6), Secret(_drawn(16)))

    def reveal(self) -> str:
        """The whole token, `id.secret`. Keep it out of variables that a traceback could show."""
        return f"{self.id}.{self.secret.reveal()}"

    def __str__(self) -> str:
        return f"{self.id}.****"

    def __repr__(self) -> str:
        return f"BootstrapToken({self})"


def is_token_id(text: str) -> bool:
    """Whether Kubernetes takes it for the id of a token (A2)."""
    return _ID.fullmatch(text) is not None


def is_token_secret(secret: Secret[str]) -> bool:
    """Whether Kubernetes takes it for the secret of a token (A3)."""
    return _SECRET.fullmatch(secret.reveal()) is not None


def is_group(text: str) -> bool:
    """Return whether a token may make its bearer a member of this group (A8)."""
    return _GROUP.fullmatch(text) is not None


def secret_name(token_id: str) -> str:
    """What the Secret of that token is called. The id is not looked at (A4)."""
    return SECRET_PREFIX + token_id


def id_of(name: str) -> str | None:
    """The id of the token whose Secret is called so; None if it is the name of none (A4)."""
    token_id = name.removeprefix(SECRET_PREFIX)
    return token_id if name.startswith(SECRET_PREFIX) and is_token_id(token_id) else None


def signature_key(token_id: str) -> str:
    """Where cluster-info has the signature that is made with that token (A22)."""
    return SIGNATURE_PREFIX + token_id


def user_name(token_id: str) -> str:
    """Who the bearer of that token is (A24)."""
    return USER_PREFIX + token_id


def _drawn(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _problem(text: Secret[str]) -> str | None:
    """Why it is no token. It shows the id alone, if there is one: anything else may be secret."""
    token_id, dot, secret = text.reveal().partition(".")
    if is_token_id(token_id) and _SECRET.fullmatch(secret):
        return None
    shown = f"{token_id}.****" if is_token_id(token_id) and dot else "what was given"
    return (
        f"{shown} is not a bootstrap token: that is six characters, a dot and sixteen characters, all of "
        "them a-z or 0-9. `kubeadm token create` prints one."
    )
