"""What is decided about a pod, and by which rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict, get_args

from kubeauth.errors import ConfigError

Codes = Literal["shipped", "seed"]
Mode = Literal["fields", "alpha"]


class PatchOperation(TypedDict):
    """One operation of a JSON patch. Its value may be the contents of a credential spec."""

    op: Literal["add", "replace"]
    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a pod is admitted; if not, why; and how it is changed. Printing it hides the patch."""

    allowed: bool
    code: int = 200
    """The HTTP status in the answer."""
    message: str = ""
    """Why not, for people. Never with the contents of a credential spec (B38)."""
    patch: tuple[PatchOperation, ...] = field(default=(), repr=False, hash=False)


ALLOWED = Decision(True)


def denied(code: int, message: str) -> Decision:
    return Decision(False, code, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which rules count. The default is strict where the webhook of kubernetes-sigs leaves a gap."""

    compat: bool = False
    """Decide as that webhook does: init and ephemeral containers are not looked at (B15), empty names are
    asked about (B46, B47), empty contents are not filled in (B30), and what an update removes is not
    noticed (B50)."""
    codes: Codes = "shipped"
    """`seed`: those of the enhancement proposal, for a spec that does not exist and for updates."""
    mode: Mode = "fields"
    """`alpha`: read the annotations of the proposal in place of the fields, with its codes (B12, B86)."""
    random_hostname: bool = False
    """Give a pod that names a credential spec and has no hostname a random one (B33)."""
    check_requesting_user: bool = False
    """Whoever creates the pod must be allowed to use the credential spec as well (B45). Most pods are
    created by controllers, which then need that permission."""

    def __post_init__(self) -> None:
        if self.codes not in get_args(Codes) or self.mode not in get_args(Mode):
            raise ConfigError("codes must be shipped or seed, and mode fields or alpha.")
        if self.compat and self.mode == "alpha":
            raise ConfigError(
                "the webhook that compat=True is about reads no annotations. Use one of the two."
            )

    @property
    def missing_code(self) -> int:
        """For a credential spec that does not exist (B54)."""
        return 422 if self._has_seed_codes else 404

    @property
    def changed_code(self) -> int:
        """For an update that changes what cannot be changed (B49)."""
        return 400 if self._has_seed_codes else 403

    @property
    def _has_seed_codes(self) -> bool:
        return self.codes == "seed" or self.mode == "alpha"


STRICT = Policy()
