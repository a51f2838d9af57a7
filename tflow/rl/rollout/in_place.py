"""What rollout workers need that train their policies themselves, and that sample step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tflow.rl.data.batch import AnyBatch
from tflow.rl.data.episodes import Episodes
from tflow.rl.data.moments import ByColumn
from tflow.types import Frozen

if TYPE_CHECKING:
    from tflow.rl.learning.replica import Replica


class InPlace:
    """What a worker remembers that trains its policies itself."""

    def __init__(self) -> None:
        self.replicas: dict[str, Replica] = {}
        self.held: AnyBatch | None = None
        """The latest rollout, until all workers have agreed on how to train on theirs."""
        self.steps: dict[int, int] = {}
        """Env steps of each worker, also of those that have left since."""
        self.moments: ByColumn = {}
        """Running statistics of all workers."""
        self.was_cut = False
        """The latest rollout is shorter than it was to be."""

    def state(self) -> dict[str, Any]:  # Any: of all kinds
        """All of it, as data."""
        replicas = {name: replica.state() for name, replica in self.replicas.items()}
        own = {"held": self.held, "steps": dict(self.steps), "moments": self.moments, "was_cut": self.was_cut}
        return {"replicas": replicas, **own}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Restore a state, for replicas that are there."""
        for name, saved in state["replicas"].items():
            self.replicas[name].load(saved)
        self.held, self.steps = state["held"], dict(state["steps"])
        self.moments, self.was_cut = state["moments"], state["was_cut"]


@dataclass(frozen=True)
class StepTaken(Frozen):
    """A worker has taken one step in each env, for the rollout that it has open."""

    env_steps: int
    """Rows that the rollout has more than it had."""
    summary: Episodes
    """The episodes that ended."""
