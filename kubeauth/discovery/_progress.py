"""What whoever waits for a cluster may be told meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal["document", "endpoint", "signature", "verification"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where discovery is. Told before the first try of a stage, and after each that came to nothing."""

    stage: Stage
    """`document`: a kubeconfig is fetched. `endpoint`: the API server is asked. `signature`: it answers, and
    its answer is not signed with the token yet. `verification`: it is asked again, and must prove who it is.
    """
    tries: int
    """How many there were in this stage."""
    seconds_left: float
    """Until it is given up."""
    reason: str = ""
    """Why the last one came to nothing."""
