"""What is chosen about a webhook in a cluster, and what its parts are called. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubeauth._parsing import Json
from kubeauth.errors import ConfigError
from kubeauth.gmsa._words import is_namespace, quoted

if TYPE_CHECKING:
    from kubeauth.gmsa._new_pair import NewPair

NAME = "gmsa-webhook"
"""Of everything that is in the namespace of the webhook; and of that, unless another is chosen."""
CLUSTER_NAME = "kubeauth-gmsa-webhook"
"""Of what is in no namespace. The webhook of kubernetes-sigs may be there as well: that one is left alone."""
SECRET = f"{NAME}-tls"
LABELS = {"app.kubernetes.io/name": NAME}
PORT = 8443
"""Of the pods. Below 1024 they would need a capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A webhook as it is to be. ConfigError for what no cluster could have."""

    image: str
    """Has the command `kubeauth`, with its extra `gmsa`."""
    namespace: str = NAME
    replicas: int = 2
    exempt: tuple[str, ...] = ()
    """Namespaces whose pods nobody looks at. That of the webhook is one (B82)."""
    compat: bool = False
    random_hostname: bool = False
    with_crd: bool = True
    pair: NewPair | None = None
    """What the webhook shows. None: somebody else brings the Secret that it is in."""
    ca_bundle: bytes | None = None
    """PEM: by whom the API server knows the webhook. None: cert-manager brings that, and the Secret."""

    def __post_init__(self) -> None:
        if not self.image or self.image.split() != [self.image]:
            raise ConfigError("the webhook needs an image, and no blank is in the name of one.")
        if self.replicas < 1:
            raise ConfigError("the webhook needs one replica, or more.")
        for each in (self.namespace, *self.exempt):
            if not is_namespace(each):
                raise ConfigError(f"no namespace can be named {quoted(each)}.")

    @property
    def server_names(self) -> tuple[str, ...]:
        """Those that its certificate has. The last is what the API server asks for (B81)."""
        return NAME, f"{NAME}.{self.namespace}", f"{NAME}.{self.namespace}.svc"

    def named(self, name: str = NAME) -> dict[str, Json]:
        """The metadata of what is in the namespace."""
        return {"name": name, "namespace": self.namespace, "labels": dict(LABELS)}


def cluster_wide(name: str = CLUSTER_NAME) -> dict[str, Json]:
    """The metadata of what is in none."""
    return {"name": name, "labels": dict(LABELS)}
