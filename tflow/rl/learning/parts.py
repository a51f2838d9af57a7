"""Parts of an agent's weights: actor, critics, temperature. Each has its own loss, optimiser, update period and target rule."""

from __future__ import annotations

from dataclasses import dataclass

from tflow.combinators import check


@dataclass(frozen=True)
class HardUpdate:
    """Copies the weights of a part to its target network now and then."""

    every: int | None = 500
    """Updates between copies; usually 50 to 10,000. Larger: more stable, but slower. None leaves them to
    ``UpdateTargetNetwork``."""

    def __post_init__(self) -> None:
        if self.every is not None:
            check.integer("HardUpdate", "every", self.every, least=1)


@dataclass(frozen=True)
class SoftUpdate:
    """Moves the target network of a part towards its weights (Polyak averaging)."""

    tau: float = 0.005
    """Polyak coefficient; usually 0.001 to 0.02. Larger: faster, but less stable."""

    every: int = 1
    """Updates between two such moves; usually 1, in TD3 the policy delay."""

    def __post_init__(self) -> None:
        check.fraction("SoftUpdate", "tau", self.tau)
        check.integer("SoftUpdate", "every", self.every, least=1)


@dataclass(frozen=True)
class Part:
    """How a part of the weights is trained."""

    every: int = 1
    """Update period: the part is trained in every ``every``-th update; usually 1, for delayed actors 2 or 3."""
    target: HardUpdate | SoftUpdate | None = None
    """Target rule: how its target network follows; None: it has none, and the target network of the others uses its weights."""

    def __post_init__(self) -> None:
        check.integer("Part", "every", self.every, least=1)
